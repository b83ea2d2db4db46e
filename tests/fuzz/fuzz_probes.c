/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Probes from a stranger: his ELF file's notes (input that begins as one does), operands as text,
 * or (input that begins with 'H') what his probes say, hit by hit, to the machine that makes events
 * of them, which has to keep each thread's order and name only kinds that it has told.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "binary/elf/elf_image.h"
#include "../probe_eval.h"
#include "runtime/providers.h"

#include <errno.h>
#include <string.h>

#define N_THREADS 8

static int read_nothing(void *ctx, uint64_t addr, void *to, size_t len)
{
	(void)ctx;
	if (addr & 1)
		return -EFAULT;
	memset(to, 0xa5, len);
	return 0;
}

static void use_args(const struct probe_arg *args, size_t n)
{
	uint64_t words[PROBE_ARM_N_WORDS] = {0}, v;

	for (size_t i = 0; i < n; i++) {
		struct buf out = BUF_INIT;

		probe_arg_text(&out, &args[i]);
		if (args[i].operand_len)
			buf_add(&out, args[i].operand, args[i].operand_len);
		buf_done(&out);
		if (probe_arg_eval(&args[i], words, i & 1 ? PROBE_ARM_N_WORDS : PROBE_X86_N_WORDS,
				   read_nothing, NULL, &v) == 0 &&
		    args[i].form == PA_REFUSED)
			abort();
	}
}

static void try_file(const uint8_t *data, size_t size)
{
	int fd = fuzz_file(data, size);
	struct elf_image *image = NULL;
	struct probes *probes = NULL;
	const struct probe *p;

	if (elf_image_open(fd, "fuzz", &image, NULL) == 0 &&
	    probes_read(image, &probes, NULL) == 0) {
		for (size_t i = 0; (p = probes_at(probes, i)); i++) {
			uint64_t offset;

			use_args(p->args, p->n_args);
			providers_match(p);
			providers_match_event(p->provider, p->name, p->n_args);
			if (!p->refused && !elf_image_offset(image, p->addr, &offset))
				abort();
		}
		probes_free(probes);
	}
	elf_image_free(image);
	close(fd);
}

static void try_text(const uint8_t *data, size_t size)
{
	struct probe_arg args[PROBE_MAX_ARGS];
	char *text = malloc(size + 1);

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = 0;
	use_args(args, probe_args_parse(PROBE_X86_64, text, args));
	use_args(args, probe_args_parse(PROBE_AARCH64, text, args));
	providers_match_event(text, text, 1);
	providers_match_event("tokio", text, size % 5);
	free(text);
}

struct emitted {
	uint32_t n_runtimes, n_kinds;
	uint64_t last[N_THREADS];
};

static int on_runtime(void *ctx, const struct trace_runtime *rt, uint32_t *ret)
{
	struct emitted *emitted = ctx;

	(void)rt;
	*ret = emitted->n_runtimes++;
	return 0;
}

static int on_kind(void *ctx, const struct trace_kind *kind, uint32_t *ret)
{
	struct emitted *emitted = ctx;

	if (kind->runtime >= emitted->n_runtimes || !kind->name || kind->role >= TR_N)
		abort();
	*ret = emitted->n_kinds++;
	return 0;
}

static int on_event(void *ctx, const struct trace_event *ev)
{
	struct emitted *emitted = ctx;

	if (ev->thread >= N_THREADS || ev->time < emitted->last[ev->thread] ||
	    (ev->kind != TRACE_KIND_NONE && ev->kind >= emitted->n_kinds))
		abort();
	emitted->last[ev->thread] = ev->time;
	return 0;
}

/* A hit is five bytes: probe, thread and process, task, argument, time since the one before. */
static void try_hits(const uint8_t *data, size_t size)
{
	static const struct providers_sink sink = {on_runtime, on_kind, on_event};
	static const char *const texts[] = {NULL, "", "src/main.rs",
					    "/r/tokio-1.4/src/runtime/w.rs"};
	struct emitted emitted = {0};
	struct providers *p = providers_new(&sink, &emitted);
	uint64_t time = 1;
	size_t n_rows = 0;

	if (!p)
		abort();
	while (providers_row(n_rows))
		n_rows++;
	for (; size >= 5; data += 5, size -= 5) {
		struct provider_hit hit = {.thread = data[1] % N_THREADS, .process = data[1] >> 7};

		time += data[4];
		hit.time = time;
		if (data[0] >= 250) {
			struct trace_event ev = {
				.time = time,
				.thread = hit.thread,
				.type = data[0] & 1 ? TE_LOST : TE_THREAD_END,
				.kind = TRACE_KIND_NONE,
			};

			providers_pass(p, &ev);
			continue;
		}
		if (data[0] >= 240) {
			providers_drain(p, time > data[3] ? time - data[3] : 0);
			if (data[0] == 249)
				providers_forget(p, hit.process);
			continue;
		}
		hit.probe = providers_row(data[0] % n_rows);
		for (size_t i = 0; i < hit.probe->n_args; i++)
			hit.args[i] = hit.probe->args[i] == PV_TASK ? data[2] % 16 : data[3] >> i;
		hit.file = texts[data[3] & 3];
		hit.name = texts[data[3] >> 2 & 3];
		if (providers_feed(p, &hit) < 0)
			abort();
	}
	if (providers_drain(p, UINT64_MAX) < 0)
		abort();
	providers_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && *data == 'H')
		try_hits(data + 1, size - 1);
	else if (size > 4 && memcmp(data, "\177ELF", 4) == 0)
		try_file(data, size);
	else
		try_text(data, size);
	return 0;
}
