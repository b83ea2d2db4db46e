/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reading .note.stapsdt. A note is
 *
 *     u32 namesz, descsz, type (3)    "stapsdt\0"
 *     u64 address of the site, of .stapsdt.base when this was linked, of the semaphore (0: none)
 *     provider \0 name \0 arguments \0
 *
 * padded to 4 bytes. The section is not loaded, so it is read from the file, by the image's own
 * descriptor. The addresses are virtual ones as linked; if the program was prelinked afterwards
 * (all of it moved), .stapsdt.base has moved and the notes have not: the difference corrects them.
 *
 * A breakpoint is a write into a program's code, a raised semaphore one into its data, and the file
 * says where: it is untrusted. So a site must lie in code, a semaphore in data that is writable,
 * each at the file offset that its own segment gives. Else the probe is refused.
 */
#include "binary/elf/probes.h"

#include "base/compare.h"
#include "binary/machine.h"
#include "base/cleanup.h"
#include "base/cursor.h"
#include "base/vec.h"
#include "binary/elf/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NOTE_TYPE 3u
#define MAX_BYTES (64ULL << 20)
#define MAX_PROBES 200000u
#define MAX_TEXT 4096u /* of a provider, a name, the arguments */

struct probes {
	struct image_bytes notes; /* the strings belong to it */
	struct probe *v;
	size_t n, cap;
	const char *damaged;
};

/* A 0-terminated string of the description. */
static const char *take_string(struct cursor *c)
{
	size_t left = cursor_left(c), len = strnlen((const char *)c->at, left);

	if (len == left || len > MAX_TEXT) {
		c->failed = true;
		return NULL;
	}
	return cursor_bytes(c, len + 1);
}

static const char *refusal(const struct elf_image *img, struct probe *p)
{
	bool in_data = false;

	if (!elf_image_is_code(img, p->addr) || !elf_image_offset(img, p->addr, &p->offset))
		return "its site is not in the program's code";
	if (!p->semaphore)
		return NULL;
	for (size_t i = 0; i < img->n_segments; i++) {
		const struct elf_segment *s = &img->segments[i];

		if (p->semaphore >= s->addr && p->semaphore - s->addr < s->file_size)
			in_data = s->write && !s->exec &&
				  s->file_size - (p->semaphore - s->addr) >= 2;
	}
	if (!in_data || !elf_image_offset(img, p->semaphore, &p->semaphore_offset))
		return "its semaphore is not in the program's writable data";
	return NULL;
}

/* The description of one note into the next free probe. False: it isn't whole. */
static bool read_probe(const struct elf_image *img, struct cursor *c, struct probe *p)
{
	uint64_t base, moved;

	*p = (struct probe){.addr = cursor_u64(c)};
	base = cursor_u64(c);
	p->semaphore = cursor_u64(c);
	p->provider = take_string(c);
	p->name = take_string(c);
	p->args_text = take_string(c);
	if (!cursor_ok(c))
		return false;
	moved = base && img->probes_base ? img->probes_base - base : 0;
	p->addr += moved;
	if (p->semaphore)
		p->semaphore += moved;
	p->refused = refusal(img, p);
	p->n_args = (uint32_t)probe_args_parse(img->machine->probes, p->args_text, p->args);
	return true;
}

static int read_notes(const struct elf_image *img, struct probes *ps)
{
	struct cursor c;

	cursor_init(&c, ps->notes.data, ps->notes.len);
	while (cursor_left(&c) >= 12) {
		uint32_t name_len = cursor_u32(&c), desc_len = cursor_u32(&c),
			 type = cursor_u32(&c);
		const char *name = cursor_bytes(&c, ((uint64_t)name_len + 3) & ~3ULL);
		const uint8_t *desc = cursor_bytes(&c, desc_len);
		size_t padding = -desc_len & 3u;
		struct cursor d;

		if (!cursor_ok(&c)) {
			ps->damaged = "the table of probes ends in the middle of one";
			break;
		}
		cursor_bytes(&c, padding < cursor_left(&c) ? padding : cursor_left(&c));
		if (type != NOTE_TYPE || name_len != 8 || memcmp(name, "stapsdt", 8) != 0)
			continue;
		if (ps->n == MAX_PROBES) {
			ps->damaged = "the table has more probes than are read";
			break;
		}
		if (!GROW(ps->v, ps->n, ps->cap))
			return -ENOMEM;
		cursor_init(&d, desc, desc_len);
		if (read_probe(img, &d, &ps->v[ps->n]))
			ps->n++;
		else
			ps->damaged = "a probe's description is cut short";
	}
	return 0;
}

static int compare(const void *va, const void *vb)
{
	const struct probe *a = va, *b = vb;

	return strcmp(a->provider, b->provider) ?: strcmp(a->name, b->name) ?:
	       ASCENDING(a->addr, b->addr);
}

int probes_read(const struct elf_image *img, struct probes **ret_probes, struct error *err)
{
	struct probes *ps = calloc(1, sizeof(*ps));
	size_t len = img->probes_bytes;
	int r = 0;

	if (!ps)
		return error_set(err, -ENOMEM, "out of memory");
	if (len > MAX_BYTES) {
		ps->damaged = "the table of probes is larger than is read";
		len = 0;
	}
	if (len) {
		size_t done = 0;

		ps->notes.data = malloc(len);
		if (!ps->notes.data) {
			probes_free(ps);
			return error_set(err, -ENOMEM, "out of memory");
		}
		while (done < len) {
			ssize_t n = pread(img->fd, ps->notes.data + done, len - done,
					  (off_t)(img->probes_offset + done));

			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				break;
			done += (size_t)n;
		}
		if (done < len)
			ps->damaged = "the table of probes lies beyond the file's end";
		ps->notes.len = done;
		r = read_notes(img, ps);
	}
	if (r < 0) {
		probes_free(ps);
		return error_set(err, r, "out of memory");
	}
	if (ps->n)
		qsort(ps->v, ps->n, sizeof(*ps->v), compare);
	*ret_probes = ps;
	return 0;
}

void probes_free(struct probes *p)
{
	if (!p)
		return;
	free(p->notes.data);
	free(p->v);
	free(p);
}

size_t probes_n(const struct probes *p)
{
	return p->n;
}

const struct probe *probes_at(const struct probes *p, size_t i)
{
	return i < p->n ? &p->v[i] : NULL;
}

const char *probes_damaged(const struct probes *p)
{
	return p->damaged;
}
