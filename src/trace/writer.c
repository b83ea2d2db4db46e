/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The writer. Events wait in a draft per thread until there is a chunk's worth or the round ends;
 * metadata waits in one buffer that goes out before the next events do. Chunks are put together in
 * memory and leave with one write() at the round's end, so a killed writer leaves whole chunks and
 * at most a part of the last one.
 *
 * An error of the file (a full disk) is sticky: a part of a chunk that was written is cut off
 * again, everything later fails with the same code, and trace_writer_close() reports it.
 */
#include "trace/trace.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/io.h"
#include "base/vec.h"
#include "trace/codec.h"
#include "trace/format.h"
#include "trace/meta.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of all threads together, before all is written without waiting for the round: 5 to 60 MiB. */
#define MAX_BUFFERED (1u << 20)
/* The number of threads that may have events buffered: some 5 kB each, however few the events
 * are. */
#define MAX_DRAFTS 8192u
#define MAX_META_BYTES (1u << 20)
/* The size that is written at once: a file system takes some 100 us for each write. */
#define MAX_OUT_BYTES (1u << 17)

struct trace_writer {
	struct file_output file;
	bool whole;    /* it gets its name at the close only */
	bool in_round; /* trace_writer_round() was called */
	int tee;       /* a reader sees the recording grow here; -1: none, or it has gone */
	int code;      /* the sticky error, 0 if none */
	struct error cause;
	uint64_t bytes, n_events, n_moments;
	uint64_t first_ns, last_ns; /* of all events */
	uint32_t n_processes, n_runtimes, n_kinds, n_places, n_frames, n_stacks, n_coverage, n_cpus,
		n_neighbours, n_messages;
	struct draft **drafts; /* by thread; NULL: it has been idle */
	uint32_t n_threads, threads_cap;
	size_t n_buffered;
	uint32_t n_drafts;
	struct buf meta, out; /* out: chunks, the last of which begins at chunk_at */
	size_t chunk_at;
	struct encoder *encoder;
};

/* ---- the file ---- */

static int fail(struct trace_writer *w, int code, const char *what)
{
	if (!w->code)
		w->code = error_sys(&w->cause, code, "%s", what);
	return w->code;
}

/* A reader that reads along may stop doing so at any time: that ends nothing but the copy. */
static void tee_write(struct trace_writer *w, const void *data, size_t len)
{
	if (w->tee >= 0 && io_write(w->tee, data, len) < 0) {
		close(w->tee);
		w->tee = -1;
	}
}

static int place(struct trace_writer *w)
{
	struct error why = {0};
	int r = file_output_place(&w->file, &why);

	if (r < 0 && !w->code) {
		w->cause = why;
		w->code = r;
	}
	return r;
}

static int write_all(struct trace_writer *w, const void *data, size_t len)
{
	int code;

	if (w->code)
		return w->code;
	code = io_write(w->file.fd, data, len);
	if (code < 0) {
		/* Best effort: a reader copes with a part of a chunk too. */
		if (w->file.regular && ftruncate(w->file.fd, (off_t)w->bytes) == 0)
			lseek(w->file.fd, (off_t)w->bytes, SEEK_SET);
		return fail(w, code, "cannot write the trace");
	}
	w->bytes += len;
	tee_write(w, data, len);
	/* With the first events in it, or the first round that ends after a moment, when all processes
	 * are attached: a recorder may be killed, and what is complete is found. */
	return (w->n_events || (w->n_moments && w->in_round)) && !w->whole ? place(w) : 0;
}

static int out_flush(struct trace_writer *w)
{
	int r = buf_failed(&w->out) ? fail(w, -ENOMEM, "cannot build a chunk of the trace")
				    : write_all(w, w->out.data, w->out.len);

	buf_clear(&w->out);
	return r;
}

static void chunk_begin(struct trace_writer *w)
{
	static const struct plx_chunk_header empty;
	w->chunk_at = w->out.len;
	buf_add(&w->out, &empty, sizeof(empty));
}

static int chunk_end(struct trace_writer *w, enum plx_chunk_type type)
{
	struct plx_chunk_header head = {.type = (uint16_t)type};

	if (!buf_failed(&w->out)) {
		uint8_t *at = (uint8_t *)w->out.data + w->chunk_at;

		head.size = (uint32_t)(w->out.len - w->chunk_at - sizeof(head));
		head.payload_checksum = plx_crc32c(at + sizeof(head), head.size);
		head.checksum = plx_crc32c(&head, offsetof(struct plx_chunk_header, checksum));
		memcpy(at, &head, sizeof(head));
		if (w->out.len < MAX_OUT_BYTES)
			return w->code;
	}
	return out_flush(w);
}

static struct plx_header header(void)
{
	struct plx_header h = {.magic = PLX_MAGIC,
			       .major = PLX_MAJOR,
			       .minor = PLX_MINOR,
			       .header_bytes = sizeof(h)};
	snprintf(h.tool, sizeof(h.tool), "%s", POLLUX_VERSION);
	h.checksum = plx_crc32c(&h, offsetof(struct plx_header, checksum));
	return h;
}

static int header_write(struct trace_writer *w)
{
	const struct plx_header h = header();
	return write_all(w, &h, sizeof(h));
}

static void writer_free(struct trace_writer *w)
{
	file_output_done(&w->file);
	if (w->tee >= 0)
		close(w->tee);
	for (uint32_t i = 0; i < w->n_threads; i++)
		draft_free(w->drafts[i]);
	free(w->drafts);
	encoder_free(w->encoder);
	buf_done(&w->meta);
	buf_done(&w->out);
	free(w);
}

static struct trace_writer *writer_new(struct error *err)
{
	struct trace_writer *w = calloc(1, sizeof(*w));
	if (w) {
		w->file = (struct file_output)FILE_OUTPUT_INIT;
		w->tee = -1;
		w->encoder = encoder_new();
	}
	if (w && w->encoder)
		return w;
	free(w);
	error_set(err, -ENOMEM, "out of memory for a trace writer");
	return NULL;
}

/* Its file is open: 0 with *ret_writer, or it is freed. */
static int writer_begin(struct trace_writer *w, const char *path, struct trace_writer **ret_writer,
			struct error *err)
{
	int code = header_write(w);
	if (code == 0) {
		*ret_writer = w;
		return 0;
	}
	error_set(err, code, "%s", w->cause.text);
	error_add(err, "cannot write to %s", path);
	writer_free(w);
	return code;
}

int trace_writer_open(const char *path, struct trace_writer **ret_writer, struct error *err)
{
	static const struct file_replaces traces = {"a pollux trace", PLX_MAGIC};
	struct trace_writer *w = writer_new(err);
	if (!w)
		return -ENOMEM;
	int code = file_output_open(&w->file, path, &traces, err);
	if (code == 0 && !w->file.regular && isatty(w->file.fd))
		code = error_set(err, -EINVAL,
				 "a trace is binary, not for a terminal: redirect the output or "
				 "name a file");
	if (code == 0)
		return writer_begin(w, path, ret_writer, err);
	writer_free(w);
	return code;
}

int trace_writer_open_fd(int fd, struct trace_writer **ret_writer, struct error *err)
{
	struct trace_writer *w = writer_new(err);
	if (!w) {
		close(fd);
		return -ENOMEM;
	}
	w->file.fd = fd;
	return writer_begin(w, "a pipe", ret_writer, err);
}

int trace_writer_tee(struct trace_writer *w, int fd)
{
	const struct plx_header h = header();

	if (w->tee >= 0 || w->bytes != sizeof(h)) {
		close(fd);
		return -EINVAL;
	}
	w->tee = fd;
	tee_write(w, &h, sizeof(h));
	return w->tee < 0 ? -EPIPE : 0;
}

/* ---- metadata ---- */

static int meta_flush(struct trace_writer *w)
{
	if (buf_failed(&w->meta))
		return fail(w, -ENOMEM, "cannot keep the metadata of the trace");
	if (!w->meta.len)
		return w->code;
	chunk_begin(w);
	buf_add(&w->out, w->meta.data, w->meta.len);
	buf_clear(&w->meta);
	return chunk_end(w, PLX_META);
}

/* A record was put: sees to it that a chunk of them stays small. */
static int meta_done_one(struct trace_writer *w)
{
	if (w->meta.len < MAX_META_BYTES && !buf_failed(&w->meta))
		return w->code;
	return meta_flush(w);
}

/* Takes the next index of a kind: 0, or -E2BIG when a reader would not take it. */
static int next_index(uint32_t *n, uint32_t *ret)
{
	if (*n > PLX_MAX_INDEX)
		return -E2BIG;
	*ret = (*n)++;
	return 0;
}

int trace_writer_process(struct trace_writer *w, const struct trace_process *p, uint32_t *ret_index)
{
	uint32_t index;

	TRY(next_index(&w->n_processes, &index));
	meta_put_process(&w->meta, index, p);
	*ret_index = index;
	return meta_done_one(w);
}

int trace_writer_runtime(struct trace_writer *w, const struct trace_runtime *rt,
			 uint32_t *ret_index)
{
	uint32_t index;

	TRY(next_index(&w->n_runtimes, &index));
	meta_put_runtime(&w->meta, index, rt);
	*ret_index = index;
	return meta_done_one(w);
}

int trace_writer_thread(struct trace_writer *w, const struct trace_thread *t, uint32_t *ret_index)
{
	if (!GROW_ZERO(w->drafts, w->n_threads, w->threads_cap))
		return -ENOMEM;
	uint32_t index;

	TRY(next_index(&w->n_threads, &index));
	meta_put_thread(&w->meta, index, t);
	*ret_index = index;
	return meta_done_one(w);
}

int trace_writer_kind(struct trace_writer *w, const struct trace_kind *k, uint32_t *ret_index)
{
	uint32_t index;

	TRY(next_index(&w->n_kinds, &index));
	meta_put_kind(&w->meta, index, k);
	*ret_index = index;
	return meta_done_one(w);
}

int trace_writer_place(struct trace_writer *w, const struct trace_place *p, uint32_t *ret_index)
{
	uint32_t index;

	TRY(next_index(&w->n_places, &index));
	meta_put_place(&w->meta, index, p);
	*ret_index = index;
	return meta_done_one(w);
}

int trace_writer_frame(struct trace_writer *w, const struct trace_frame *f, uint32_t *ret_index)
{
	uint32_t index;

	TRY(next_index(&w->n_frames, &index));
	meta_put_frame(&w->meta, index, f);
	*ret_index = index;
	return meta_done_one(w);
}

int trace_writer_stack(struct trace_writer *w, const struct trace_stack *s, uint32_t *ret_index)
{
	uint32_t index;

	TRY(next_index(&w->n_stacks, &index));
	meta_put_stack(&w->meta, index, s);
	*ret_index = index;
	return meta_done_one(w);
}

int trace_writer_thread_name(struct trace_writer *w, uint32_t thread, const char *name)
{
	if (thread >= w->n_threads)
		return -EINVAL;
	meta_put_thread_name(&w->meta, thread, name);
	return meta_done_one(w);
}

int trace_writer_coverage(struct trace_writer *w, const struct trace_coverage *c)
{
	uint32_t index;

	TRY(next_index(&w->n_coverage, &index));
	meta_put_coverage(&w->meta, index, c);
	return meta_done_one(w);
}

int trace_writer_cpu(struct trace_writer *w, const struct trace_cpu *c)
{
	uint32_t index;

	TRY(next_index(&w->n_cpus, &index));
	meta_put_cpu(&w->meta, index, c);
	return meta_done_one(w);
}

int trace_writer_neighbour(struct trace_writer *w, const struct trace_neighbour *n,
			   uint32_t *ret_index)
{
	TRY(next_index(&w->n_neighbours, ret_index));
	meta_put_neighbour(&w->meta, *ret_index, n);
	return meta_done_one(w);
}

int trace_writer_message(struct trace_writer *w, const char *text, uint32_t *ret_index)
{
	uint32_t index;

	TRY(next_index(&w->n_messages, &index));
	meta_put_message(&w->meta, index, text);
	*ret_index = index;
	return meta_done_one(w);
}

int trace_writer_cost(struct trace_writer *w, const struct trace_cost *c)
{
	meta_put_cost(&w->meta, c);
	return meta_done_one(w);
}

static int moment_chunk(void *ctx, const struct buf *payload)
{
	struct trace_writer *w = ctx;

	chunk_begin(w);
	buf_add(&w->out, payload->data, payload->len);
	return chunk_end(w, PLX_MOMENT);
}

int trace_writer_moment(struct trace_writer *w, const struct trace_moment *m)
{
	int r = meta_flush(w);

	if (r == 0)
		r = moment_encode(m, moment_chunk, w);
	if (r < 0)
		return fail(w, r, "cannot write a moment");
	w->n_moments++;
	return out_flush(w);
}

/* ---- events ---- */

static int thread_flush(struct trace_writer *w, uint32_t thread)
{
	uint32_t n = draft_n(w->drafts[thread]);
	int r = meta_flush(w);

	assert(w->n_buffered >= n);
	w->n_buffered -= n;
	if (r < 0)
		return r;
	chunk_begin(w);
	r = encoder_run(w->encoder, thread, w->drafts[thread], &w->out);
	if (r < 0)
		return fail(w, r, "cannot encode events");
	r = chunk_end(w, PLX_EVENTS);
	if (r == 0)
		w->n_events += n;
	return r;
}

static int flush_all(struct trace_writer *w)
{
	int r = meta_flush(w);
	for (uint32_t i = 0; i < w->n_threads && r == 0; i++) {
		if (!w->drafts[i])
			continue;
		if (draft_n(w->drafts[i])) {
			r = thread_flush(w, i);
		} else {
			/* Idle since the last time, perhaps gone. */
			draft_free(w->drafts[i]);
			w->drafts[i] = NULL;
			w->n_drafts--;
		}
	}
	return r;
}

int trace_writer_events(struct trace_writer *w, uint32_t thread, const struct trace_event *ev,
			size_t n)
{
	int r = thread < w->n_threads ? w->code : -EINVAL;

	if (r == 0 && n && !w->drafts[thread]) {
		if (w->n_drafts == MAX_DRAFTS)
			r = flush_all(w);
		if (r == 0 && w->n_drafts == MAX_DRAFTS)
			r = flush_all(w); /* all are empty: now they go */
		if (r < 0)
			return r;
		w->drafts[thread] = draft_new();
		if (!w->drafts[thread])
			return fail(w, -ENOMEM, "cannot keep events");
		w->n_drafts++;
	}
	if (r == 0 && n && (!w->first_ns || ev[0].time < w->first_ns))
		w->first_ns = ev[0].time;
	if (r == 0 && n && ev[n - 1].time > w->last_ns)
		w->last_ns = ev[n - 1].time;
	while (r == 0 && n) {
		size_t done;

		r = draft_add(w->drafts[thread], ev, n, &done);
		if (r < 0)
			return fail(w, r, "cannot keep events");
		w->n_buffered += done;
		ev += done;
		n -= done;
		if (n)
			r = thread_flush(w, thread);
	}
	return r == 0 && w->n_buffered > MAX_BUFFERED ? flush_all(w) : r;
}

int trace_writer_round(struct trace_writer *w, uint64_t watermark_ns)
{
	w->in_round = true;
	TRY(flush_all(w));
	assert(!w->n_buffered);
	chunk_begin(w);
	buf_add(&w->out, &watermark_ns, sizeof(watermark_ns));
	buf_add(&w->out, &w->n_events, sizeof(w->n_events));
	TRY(chunk_end(w, PLX_ROUND));
	return out_flush(w);
}

uint64_t trace_writer_bytes(const struct trace_writer *w)
{
	return w->bytes + w->out.len;
}

uint64_t trace_writer_n_events(const struct trace_writer *w)
{
	return w->n_events + w->n_buffered;
}

uint64_t trace_writer_length_ns(const struct trace_writer *w, const struct trace_cost *c)
{
	uint64_t begin = w->first_ns && w->first_ns < c->begin_ns ? w->first_ns : c->begin_ns;
	uint64_t end = w->last_ns > c->end_ns ? w->last_ns : c->end_ns;
	return end > begin ? end - begin : 0;
}

void trace_writer_whole(struct trace_writer *w)
{
	w->whole = true;
}

/* The disk may be full, which some file systems report only when a file is closed. */
static int close_file(struct trace_writer *w)
{
	int copy = fcntl(w->file.fd, F_DUPFD_CLOEXEC, 3);

	if (copy < 0 || close(copy) < 0)
		return fail(w, -errno, "cannot close the trace");
	return place(w);
}

int trace_writer_close(struct trace_writer *w, struct error *err)
{
	int r = flush_all(w);
	if (r == 0) {
		chunk_begin(w);
		buf_add(&w->out, &w->n_events, sizeof(w->n_events));
		r = chunk_end(w, PLX_END);
	}
	if (r == 0)
		r = out_flush(w);
	if (r == 0)
		r = close_file(w);
	if (r < 0) {
		error_set(err, r, "%s", w->cause.text);
		if (w->file.placed || !w->file.regular)
			error_add(err, "the trace is complete up to byte %llu only",
				  (unsigned long long)w->bytes);
	}
	writer_free(w);
	return r;
}

void trace_writer_discard(struct trace_writer *w)
{
	writer_free(w);
}
