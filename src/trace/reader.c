/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The reader: chunks from the file into metadata tables and into the merge, and events out of it.
 *
 * It alternates between two states. *Reading*: chunks are taken in until a round ends. *Giving
 * out*: the merge delivers what is older than the watermark of the round before. At the end of the
 * file, whatever kind of end, everything left is given out.
 *
 * With trace_reader_read_ahead() a thread does all that, up to some lots of events ahead of the caller, as far as the
 * tables allow: it changes them only while the caller waits for more events. So all is as without it.
 *
 * The file is a stranger's, and perhaps a torso. A chunk whose header is sound but whose payload is
 * not is stepped over and counted; anything worse is the end. trace_reader_truncated() puts what
 * was counted into one sentence.
 */
#include "trace/trace.h"

#include "base/buf.h"
#include "base/cursor.h"
#include "base/file.h"
#include "base/file_kind.h"
#include "base/file_map.h"
#include "base/handover.h"
#include "base/map.h"
#include "base/text.h"
#include "base/vec.h"
#include "trace/format.h"
#include "trace/merge.h"
#include "trace/meta.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_BYTES (256u << 10)
#define TABLES_BYTES (4u << 10)
#define LOTS_AHEAD 8u
#define LOT_EVENTS 2048u
/* A trace whose moments are larger than this, as they are kept or as they are read, is a hostile
 * one. */
#define MAX_KEPT_BYTES ((uint64_t)256 << 20)
#define MAX_MOMENTS_RAW_BYTES ((uint64_t)2 << 30)

/* What the thread hands over. */
struct lot {
	int code; /* as trace_reader_next(), after the events */
	struct error err;
	struct trace_event events[LOT_EVENTS];
};

struct trace_reader {
	int fd;
	uint64_t total_bytes; /* 0 if not known */
	uint64_t offset;      /* in the file, of the next byte that the parser takes */
	uint32_t header_bytes;
	struct meta meta;
	uint64_t meta_read_to; /* META chunks before this offset are in the tables already */
	struct merge *merge;
	struct moment_part {
		struct merge_chunk *chunk;
		uint32_t process;
		enum moment_when when;
		uint32_t next; /* of its moment, index + 1; 0: none */
		uint32_t last; /* of its moment; known of the first */
		bool damaged;
	} * moments;
	uint32_t n_moments, moments_cap;
	uint32_t *names; /* of these, the first ones of a moment */
	uint32_t n_names;
	struct map by_name;			 /* (process, when) to the first one's index + 1 */
	uint64_t moments_read_to;		 /* as meta_read_to */
	uint64_t moment_bytes, moment_raw_bytes; /* kept of all, and to be read */
	uint8_t *kind_used;			 /* by kind */
	uint32_t n_kind_used;
	bool tables_only;
	void (*watch)(void *ctx, const struct trace_chunk *chunk);
	void *watch_ctx;
	bool (*more)(void *ctx); /* NULL: the file has an end */
	void *more_ctx;
	const uint64_t *picks; /* offsets of the chunks that are read; NULL: all */
	size_t n_picks, pick_at;

	struct ahead {
		pthread_t thread;
		struct handover *lots; /* NULL: there is no thread */
		struct lot *filling;
		size_t n;	       /* events in it */
		const struct lot *lot; /* the caller's */
	} ahead;
	uint64_t progress; /* offset, as the caller may read it */

	const struct trace_event *run, *run_end;
	bool giving, ended, forced;
	uint64_t limit;	    /* of what is given out now */
	uint64_t watermark; /* of the last round */
	uint64_t n_given;

	/* what is wrong with the file */
	struct damage {
		uint64_t n, first; /* chunks; the offset of the first */
	} damage;
	uint64_t n_expected; /* of the END chunk */
	bool end_seen;
	const char *cut;      /* why reading ended without END */
	uint64_t complete_ns; /* as trace_reader_complete_ns(); atomic: a thread may read ahead */
	struct buf story;

	size_t in_at, in_n;
	uint8_t in[INPUT_BYTES];
};

/* ---- bytes ---- */

/* Reads len bytes, less only at the end of the file. The number read or negative errno. */
static ssize_t read_bytes(struct trace_reader *r, void *ret, size_t len)
{
	uint8_t *to = ret;
	size_t left = len;

	while (left) {
		size_t have = r->in_n - r->in_at;
		if (have) {
			size_t part = have < left ? have : left;
			memcpy(to, r->in + r->in_at, part);
			r->in_at += part;
			to += part;
			left -= part;
			continue;
		}
		/* Between what is passed over there is little. */
		ssize_t n = read(r->fd, r->in, r->tables_only ? TABLES_BYTES : sizeof(r->in));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0 && r->more && r->more(r->more_ctx))
			continue;
		if (n == 0)
			break;
		r->in_at = 0;
		r->in_n = (size_t)n;
	}
	r->offset += len - left;
	return (ssize_t)(len - left);
}

static int skip_bytes(struct trace_reader *r, size_t len, struct error *err)
{
	uint8_t sink[512];

	while (len) {
		size_t part = len < sizeof(sink) ? len : sizeof(sink);
		ssize_t n = read_bytes(r, sink, part);
		if (n < 0)
			return error_sys(err, (int)n, "cannot read the trace");
		if ((size_t)n < part)
			return error_set(err, -EBADMSG, "not a pollux trace: its header is cut");
		len -= part;
	}
	return 0;
}

/* ---- opening ---- */

static int not_a_trace(const void *head, size_t n, struct error *err)
{
	const char *kind = file_kind(head, n);

	return error_set(err, -EBADMSG, "not a pollux trace%s%s", kind ? ", but " : "",
			 kind ? kind : "");
}

static int read_header(struct trace_reader *r, struct error *err)
{
	struct plx_header h;
	ssize_t n = read_bytes(r, &h, sizeof(h));

	if (n < 0)
		return error_sys(err, (int)n, "cannot read");
	if (n == 0)
		return error_set(err, -EBADMSG, "the file is empty");
	if ((size_t)n < sizeof(h.magic) || memcmp(h.magic, PLX_MAGIC, sizeof(h.magic)) != 0)
		return not_a_trace(&h, (size_t)n, err);
	if ((size_t)n < sizeof(h))
		return error_set(err, -EBADMSG, "the trace is cut within its header");
	if (h.checksum != plx_crc32c(&h, offsetof(struct plx_header, checksum)))
		return error_set(err, -EBADMSG, "the trace's header is damaged");
	if (h.major != PLX_MAJOR || h.needed_features) {
		_cleanup_buf_ struct buf tool = BUF_INIT;
		h.tool[sizeof(h.tool) - 1] = 0;
		text_safe(&tool, h.tool);
		return error_set(err, -ENOTSUP,
				 "the trace has format version %u.%u with features 0x%" PRIx64
				 ", made by pollux %s; this is pollux %s, which reads version %u "
				 "without features",
				 h.major, h.minor, h.needed_features, tool.data ? tool.data : "?",
				 POLLUX_VERSION, PLX_MAJOR);
	}
	if (h.header_bytes < sizeof(h) || h.header_bytes > PLX_MAX_HEADER_BYTES)
		return error_set(err, -EBADMSG, "the trace's header is damaged");
	r->header_bytes = h.header_bytes;
	return skip_bytes(r, h.header_bytes - sizeof(h), err);
}

static void note_damage(struct damage *damage, uint64_t offset)
{
	if (!damage->n || offset < damage->first)
		damage->first = offset;
	damage->n++;
}

static void on_damage(void *ctx, uint64_t offset)
{
	struct trace_reader *r = ctx;

	note_damage(&r->damage, offset);
}

/* Takes the file, which `error_code` says why it could not be opened if it is negative. */
static int open_file(int fd, int error_code, const char *name, struct trace_reader **ret_reader,
		     struct error *err)
{
	struct stat st;
	int code;

	struct trace_reader *r = malloc(sizeof(*r));
	if (!r) {
		if (fd >= 0)
			close(fd);
		return error_set(err, -ENOMEM, "out of memory for a trace reader");
	}
	memset(r, 0, offsetof(struct trace_reader, in));
	r->merge = merge_new(on_damage, r);
	r->complete_ns = UINT64_MAX;
	r->fd = fd;
	if (!r->merge) {
		code = error_set(err, -ENOMEM, "out of memory for a trace reader");
	} else if (fd < 0) {
		code = error_sys(err, error_code, "cannot open %s", name);
	} else if (fstat(fd, &st) < 0) {
		code = error_sys(err, -errno, "cannot examine %s", name);
	} else {
		if (S_ISREG(st.st_mode))
			r->total_bytes = (uint64_t)st.st_size;
		code = read_header(r, err);
		if (code < 0)
			error_add(err, "cannot read %s", name);
	}
	if (code < 0) {
		trace_reader_free(r);
		return code;
	}
	*ret_reader = r;
	return 0;
}

bool trace_file_is_trace(const char *path)
{
	char magic[sizeof(PLX_MAGIC) - 1];
	int fd = file_open(path, FILE_EMPTY, NULL);
	bool is = fd >= 0 && read(fd, magic, sizeof(magic)) == sizeof(magic) &&
		  !memcmp(magic, PLX_MAGIC, sizeof(magic));

	if (fd >= 0)
		close(fd);
	return is;
}

int trace_reader_open(const char *path, struct trace_reader **ret_reader, struct error *err)
{
	int fd;

	if (!strcmp(path, "-")) {
		fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		return open_file(fd, -errno, "standard input", ret_reader, err);
	}
	fd = file_open(path, FILE_PIPE | FILE_EMPTY, err);
	return fd < 0 ? fd : open_file(fd, 0, path, ret_reader, err);
}

int trace_reader_open_fd(int fd, struct trace_reader **ret_reader, struct error *err)
{
	return open_file(fd, -EBADF, "the recording", ret_reader, err);
}

static void ahead_stop(struct trace_reader *r);

void trace_reader_free(struct trace_reader *r)
{
	if (!r)
		return;
	ahead_stop(r);
	if (r->fd >= 0)
		close(r->fd);
	merge_free(r->merge);
	meta_done(&r->meta);
	for (uint32_t i = 0; i < r->n_moments; i++)
		free(r->moments[i].chunk);
	free(r->moments);
	free(r->names);
	free(r->kind_used);
	map_done(&r->by_name);
	buf_done(&r->story);
	free(r);
}

int trace_reader_fd(const struct trace_reader *r)
{
	return r->fd;
}

/* ---- chunks ---- */

static void end(struct trace_reader *r, const char *cut)
{
	__atomic_store_n(&r->progress, r->offset, __ATOMIC_RELAXED);
	r->ended = true;
	r->cut = cut;
	if (cut && r->watermark)
		__atomic_store_n(&r->complete_ns, r->watermark, __ATOMIC_RELAXED);
	r->giving = true;
	r->forced = true;
}

static int take_round(struct trace_reader *r, const uint8_t *payload, uint32_t size)
{
	if (size < 2 * sizeof(uint64_t))
		return -EBADMSG;
	r->limit = r->watermark;
	memcpy(&r->watermark, payload, sizeof(r->watermark));
	r->giving = true;
	return 0;
}

static int take_end(struct trace_reader *r, const uint8_t *payload, uint32_t size)
{
	end(r, NULL);
	if (size < sizeof(r->n_expected))
		return -EBADMSG;
	memcpy(&r->n_expected, payload, sizeof(r->n_expected));
	r->end_seen = true;
	return 0;
}

/* Keeps the chunk for when it is asked for, and takes it. */
static int take_moment(struct trace_reader *r, struct merge_chunk *chunk)
{
	struct moment_part part = {.chunk = chunk, .last = r->n_moments};
	uint64_t offset = chunk->offset, bytes = sizeof(part) + sizeof(*chunk) + chunk->size;
	size_t raw_bytes;
	uintptr_t first;
	int code = 0;

	if (offset < r->moments_read_to) { /* a second pass */
		free(chunk);
		return 0;
	}
	r->moments_read_to = offset + chunk->size;
	if (moment_peek(chunk->payload, chunk->size, &part.process, &part.when, &raw_bytes) < 0 ||
	    bytes > MAX_KEPT_BYTES - r->moment_bytes ||
	    raw_bytes > MAX_MOMENTS_RAW_BYTES - r->moment_raw_bytes)
		code = -EBADMSG;
	else if (!GROW(r->moments, r->n_moments, r->moments_cap))
		code = -ENOMEM;
	first = code < 0 ? 0 : (uintptr_t)map_get(&r->by_name, part.process, part.when);
	if (code == 0 && !first &&
	    (!GROW_ONE(r->names, r->n_names) || map_put(&r->by_name, part.process, part.when,
							(void *)(uintptr_t)(r->n_moments + 1)) < 0))
		code = -ENOMEM;
	if (code < 0) {
		free(chunk);
		return code;
	}
	if (first) {
		r->moments[r->moments[first - 1].last].next = r->n_moments + 1;
		r->moments[first - 1].last = r->n_moments;
	} else {
		r->names[r->n_names++] = r->n_moments;
	}
	r->moment_bytes += bytes;
	r->moment_raw_bytes += raw_bytes;
	r->moments[r->n_moments++] = part;
	return 0;
}

static void call_watch(const struct trace_reader *r, const struct merge_chunk *c)
{
	struct trace_chunk chunk = {.offset = c->offset};
	struct cursor at;

	cursor_init(&at, c->payload, c->size);
	uint64_t thread = cursor_uleb(&at), n = cursor_uleb(&at);
	chunk.first_ns = cursor_u64(&at);
	chunk.thread = (uint32_t)thread;
	chunk.n = (uint32_t)n;
	if (cursor_ok(&at) && thread <= PLX_MAX_INDEX && n <= PLX_MAX_EVENTS)
		r->watch(r->watch_ctx, &chunk);
}

/* The caller looks at the tables: what is not its turn yet waits. False: it has stopped. */
static bool may_change_tables(struct trace_reader *r)
{
	struct ahead *a = &r->ahead;

	if (!a->filling)
		return true;
	if (a->n)
		handover_give(a->lots, a->n);
	a->n = 0;
	if (!handover_wait_taken(a->lots))
		return false;
	a->filling = handover_slot(a->lots);
	return a->filling;
}

/* Takes the chunk. */
static int take_payload(struct trace_reader *r, enum plx_chunk_type type, struct merge_chunk *chunk)
{
	uint64_t offset = chunk->offset;
	uint32_t size = chunk->size;
	int code = 0;

	if ((type == PLX_MOMENT || type == PLX_META) && !may_change_tables(r)) {
		free(chunk);
		return -ECANCELED;
	}
	if (type == PLX_MOMENT) {
		code = take_moment(r, chunk);
		chunk = NULL;
	} else if (type == PLX_EVENTS && !r->tables_only) {
		if (r->watch)
			call_watch(r, chunk);
		code = merge_add(r->merge, chunk);
		chunk = NULL;
		if (code == 0 && merge_full(r->merge)) {
			r->giving = true;
			r->forced = true;
		}
	} else if (type == PLX_META) {
		r->meta.max_index = plx_max_index(offset + size);
		if (offset >= r->meta_read_to)
			code = meta_read(&r->meta, chunk->payload, size);
		if (offset + size > r->meta_read_to)
			r->meta_read_to = offset + size;
	} else if (type == PLX_ROUND) {
		code = take_round(r, chunk->payload, size);
	} else if (type == PLX_END) {
		code = take_end(r, chunk->payload, size);
	}
	free(chunk);
	if (code == -EBADMSG) {
		note_damage(&r->damage, offset);
		code = 0;
	}
	return code;
}

static int seek(struct trace_reader *r, uint64_t offset)
{
	if (offset > INT64_MAX || lseek(r->fd, (off_t)offset, SEEK_SET) < 0)
		return offset > INT64_MAX ? -EINVAL : -errno;
	r->offset = offset;
	r->in_at = r->in_n = 0;
	return 0;
}

/* Passes over a payload that is not needed; false: it is to be read. */
static bool skip_payload(struct trace_reader *r, uint32_t size)
{
	uint64_t here = r->offset, buffered = r->in_n - r->in_at;

	if (!r->total_bytes || size <= buffered)
		return false;
	return seek(r, here + size) == 0;
}

/* Reads one chunk: 0 (which may be the end), negative errno. */
static int read_chunk(struct trace_reader *r, struct error *err)
{
	struct plx_chunk_header h;

	if (r->picks && r->pick_at == r->n_picks) {
		end(r, NULL);
		return 0;
	}
	if (r->picks && seek(r, r->picks[r->pick_at++]) < 0)
		return error_sys(err, -EIO, "cannot read the trace");
	uint64_t offset = r->offset;
	__atomic_store_n(&r->progress, offset, __ATOMIC_RELAXED);

	ssize_t n = read_bytes(r, &h, sizeof(h));
	if (n < 0)
		return error_sys(err, (int)n, "cannot read the trace at byte %" PRIu64, offset);
	if ((size_t)n < sizeof(h)) {
		end(r, n ? "within a chunk's header" : "without an end mark");
		return 0;
	}
	if (h.checksum != plx_crc32c(&h, offsetof(struct plx_chunk_header, checksum)) ||
	    h.size > PLX_MAX_CHUNK_BYTES) {
		r->offset = offset;
		end(r, "at a damaged chunk header");
		return 0;
	}

	/* What a header promises is not allocated before it is there: a cut file stays cheap. */
	if (r->total_bytes && h.size > r->total_bytes - r->offset) {
		r->offset = offset;
		end(r, "within a chunk");
		return 0;
	}
	if (r->picks && h.type != PLX_EVENTS)
		return 0;
	if (r->tables_only && h.type == PLX_EVENTS && skip_payload(r, h.size))
		return 0;
	struct merge_chunk *chunk = malloc(sizeof(*chunk) + h.size + DECODER_SLACK);
	if (!chunk)
		return error_set(err, -ENOMEM, "out of memory for a chunk of the trace");
	n = read_bytes(r, chunk->payload, h.size);
	if (n < 0 || (size_t)n < h.size) {
		free(chunk);
		if (n < 0)
			return error_sys(err, (int)n, "cannot read the trace at byte %" PRIu64,
					 r->offset);
		r->offset = offset;
		end(r, "within a chunk");
		return 0;
	}
	memset(chunk->payload + h.size, 0, DECODER_SLACK);
	chunk->offset = offset;
	chunk->size = h.size;

	if (h.payload_checksum != plx_crc32c(chunk->payload, h.size)) {
		note_damage(&r->damage, offset);
		free(chunk);
		return 0;
	}
	if (h.flags) {
		free(chunk);
		return 0;
	}
	int code = take_payload(r, h.type, chunk);
	return code < 0 ? error_sys(err, code, "cannot read the trace at byte %" PRIu64, offset)
			: 0;
}

/* ---- events ---- */

/* Finds the next events: 1, 0 at the end, negative errno. */
static int next_run(struct trace_reader *r, const struct trace_event **ret_run, size_t *ret_n,
		    struct error *err)
{
	for (;;) {
		if (!r->giving) {
			int code = read_chunk(r, err);
			if (code < 0)
				return code;
			continue;
		}
		int code = merge_next(r->merge, r->limit, r->forced, ret_run, ret_n);
		if (code < 0)
			return error_sys(err, code, "cannot merge the trace's events");
		if (code > 0) {
			r->n_given += *ret_n;
			/* Forced because too much was held: only as long as that is so. */
			if (r->forced && !r->ended && !merge_full(r->merge))
				r->giving = r->forced = false;
			return 1;
		}
		if (r->ended)
			return 0;
		r->giving = r->forced = false;
	}
}

bool trace_reader_kind_used(const struct trace_reader *r, uint32_t i)
{
	return i < r->n_kind_used && r->kind_used[i];
}

bool trace_reader_use_kind(struct trace_reader *r, uint32_t i)
{
	if (!GROW_ZERO(r->kind_used, i, r->n_kind_used))
		return false;
	r->kind_used[i] = true;
	return true;
}

/* ---- reading ahead ---- */

/* Fills the slot, or up to where reading ends. As next_run(). */
static int fill_lot(struct trace_reader *r, struct error *err)
{
	struct ahead *a = &r->ahead;

	/* A slot that is full is given; so is one when a chunk waits for the caller. */
	for (;;) {
		const struct trace_event *run;
		size_t n;
		int code = next_run(r, &run, &n, err);

		if (code <= 0)
			return code;
		if (a->n + n > LOT_EVENTS) {
			handover_give(a->lots, a->n);
			a->n = 0;
			a->filling = handover_slot(a->lots);
			if (!a->filling)
				return -ECANCELED;
		}
		memcpy(a->filling->events + a->n, run, n * sizeof(*run));
		a->filling->code = 1;
		a->n += n;
	}
}

static void *read_ahead(void *arg)
{
	struct trace_reader *r = arg;
	struct ahead *a = &r->ahead;
	struct error err = {0};

	a->filling = handover_slot(a->lots);
	int code = a->filling ? fill_lot(r, &err) : -ECANCELED;
	if (a->filling) {
		a->filling->code = code;
		a->filling->err = err;
		handover_give(a->lots, a->n);
	}
	a->filling = NULL;
	handover_end(a->lots);
	return NULL;
}

static void ahead_stop(struct trace_reader *r)
{
	if (!r->ahead.lots)
		return;
	handover_stop(r->ahead.lots);
	pthread_join(r->ahead.thread, NULL);
	handover_free(r->ahead.lots);
	r->ahead = (struct ahead){0};
	r->run = r->run_end = NULL;
}

int trace_reader_read_ahead(struct trace_reader *r)
{
	sigset_t before;

	if (r->ahead.lots || r->more)
		return -EBUSY;
	struct handover *lots = handover_new(LOTS_AHEAD, sizeof(struct lot));
	if (!lots)
		return -ENOMEM;
	r->ahead = (struct ahead){.lots = lots};
	file_map_block_signals(&before);
	int code = -pthread_create(&r->ahead.thread, NULL, read_ahead, r);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (code < 0) {
		handover_free(lots);
		r->ahead = (struct ahead){0};
	}
	return code;
}

/* As next_run(), of what the thread has read. */
static int next_lot(struct ahead *a, const struct trace_event **ret_run, size_t *ret_n,
		    struct error *err)
{
	*ret_n = 0;
	while (!*ret_n) {
		if (a->lot && a->lot->code <= 0) {
			if (a->lot->code < 0)
				*err = a->lot->err;
			return a->lot->code;
		}
		a->lot = handover_take(a->lots, ret_n);
		if (!a->lot)
			return error_set(err, -ENOMEM, "out of memory");
	}
	*ret_run = a->lot->events;
	return 1;
}

/* ---- the next event ---- */

int trace_reader_next(struct trace_reader *r, struct trace_event *ret_event, struct error *err)
{
	if (__builtin_expect(r->run == r->run_end, 0)) {
		size_t n;
		int code = r->ahead.lots ? next_lot(&r->ahead, &r->run, &n, err)
					 : next_run(r, &r->run, &n, err);
		if (code <= 0) {
			r->run_end = r->run;
			return code;
		}
		r->run_end = r->run + n;
	}
	*ret_event = *r->run++;
	if (ret_event->thread < r->meta.threads.n) {
		const struct trace_thread *t = r->meta.threads.items[ret_event->thread];
		if (t && t->stream_of) {
			ret_event->stream = ret_event->thread + 1;
			ret_event->thread = t->stream_of - 1;
		}
	}
	if (ret_event->kind < r->meta.kinds.n && !trace_reader_kind_used(r, ret_event->kind) &&
	    !trace_reader_use_kind(r, ret_event->kind))
		return error_set(err, -ENOMEM, "out of memory");
	return 1;
}

bool trace_reader_may_wait(const struct trace_reader *r)
{
	return r->run == r->run_end;
}

static void begin_again(struct trace_reader *r)
{
	merge_clear(r->merge);
	r->in_at = r->in_n = 0;
	r->run = r->run_end = NULL;
	r->giving = r->ended = r->forced = r->end_seen = r->tables_only = false;
	r->limit = r->watermark = r->n_given = 0;
	r->damage = (struct damage){0};
	for (uint32_t i = 0; i < r->n_moments; i++)
		r->moments[i].damaged = false;
	r->cut = NULL;
	r->complete_ns = UINT64_MAX;
}

int trace_reader_rewind(struct trace_reader *r, struct error *err)
{
	ahead_stop(r);
	if (lseek(r->fd, 0, SEEK_CUR) < 0 || lseek(r->fd, r->header_bytes, SEEK_SET) < 0)
		return errno == ESPIPE
			       ? error_set(err, -ESPIPE,
					   "the trace is read more than once: give a file, not a "
					   "pipe")
			       : error_sys(err, -errno, "cannot read the trace a second time");
	r->picks = NULL;
	begin_again(r);
	r->offset = r->header_bytes;
	return 0;
}

void trace_reader_watch_chunks(struct trace_reader *r,
			       void (*watch)(void *ctx, const struct trace_chunk *chunk), void *ctx)
{
	r->watch = watch;
	r->watch_ctx = ctx;
}

void trace_reader_on_end(struct trace_reader *r, bool (*more)(void *ctx), void *ctx)
{
	r->more = more;
	r->more_ctx = ctx;
	/* How much is left of it is not known. */
	r->total_bytes = 0;
}

int trace_reader_pick(struct trace_reader *r, int fd, const uint64_t *offsets, size_t n,
		      struct error *err)
{
	static const uint64_t none;

	if (fd < 0 || lseek(fd, 0, SEEK_CUR) < 0) {
		if (fd >= 0)
			close(fd);
		return error_set(err, -ESPIPE, "parts of a trace are read from a file only");
	}
	ahead_stop(r);
	close(r->fd);
	r->fd = fd;
	begin_again(r);
	r->tables_only = false;
	r->picks = n ? offsets : &none;
	r->n_picks = n;
	r->pick_at = 0;
	return 0;
}

/* ---- what was read ---- */

const struct trace_process *trace_reader_process(const struct trace_reader *r, uint32_t i)
{
	return meta_get(&r->meta.processes, i);
}

const struct trace_runtime *trace_reader_runtime(const struct trace_reader *r, uint32_t i)
{
	return meta_get(&r->meta.runtimes, i);
}

const struct trace_thread *trace_reader_thread(const struct trace_reader *r, uint32_t i)
{
	return meta_get(&r->meta.threads, i);
}

const struct trace_kind *trace_reader_kind(const struct trace_reader *r, uint32_t i)
{
	return meta_get(&r->meta.kinds, i);
}

const struct trace_place *trace_reader_place(const struct trace_reader *r, uint32_t i)
{
	return meta_get(&r->meta.places, i);
}

static bool is_own_place(const struct trace_place *p, const char *const *own)
{
	if (!own || !*own)
		return p->flags & TRACE_PLACE_OWN;
	for (; *own; own++)
		if (trace_names_crate(p->function, *own))
			return true;
	return false;
}

const struct trace_place *trace_reader_own_place(const struct trace_reader *r, uint32_t i,
						 const char *const *own)
{
	const struct trace_place *innermost = trace_reader_place(r, i), *p = innermost;

	/* Each is an earlier one than the one before. */
	for (unsigned n = 0; p && n < TRACE_MAX_OUTER; n++) {
		if (is_own_place(p, own))
			return p;
		p = p->outer ? trace_reader_place(r, p->outer - 1) : NULL;
	}
	return innermost;
}

const struct trace_frame *trace_reader_frame(const struct trace_reader *r, uint32_t i)
{
	return meta_get(&r->meta.frames, i);
}

const struct trace_stack *trace_reader_stack(const struct trace_reader *r, uint32_t i)
{
	return meta_get(&r->meta.stacks, i);
}

const struct trace_frame *trace_reader_own_frame(const struct trace_reader *r, uint32_t i,
						 const char *const *own)
{
	const struct trace_stack *s = trace_reader_stack(r, i);

	for (unsigned n = 0; s && n < TRACE_STACK_FRAMES; n++) {
		const struct trace_frame *f = trace_reader_frame(r, s->frame);

		if (trace_frame_is_own(f, own))
			return f;
		s = s->parent ? trace_reader_stack(r, s->parent - 1) : NULL;
	}
	return NULL;
}

const char *trace_reader_message(const struct trace_reader *r, uint32_t i)
{
	const char *const *text = meta_get(&r->meta.messages, i);

	return text ? *text : NULL;
}

const struct trace_coverage *trace_reader_coverage(const struct trace_reader *r, uint32_t i)
{
	return meta_get(&r->meta.coverage, i);
}

const struct trace_cpu *trace_reader_cpu(const struct trace_reader *r, uint32_t i)
{
	return meta_get(&r->meta.cpus, i);
}

uint32_t trace_reader_n_cpus(const struct trace_reader *r)
{
	return r->meta.cpus.n;
}

const struct trace_neighbour *trace_reader_neighbour(const struct trace_reader *r, uint32_t i)
{
	return meta_get(&r->meta.neighbours, i);
}

const struct trace_cost *trace_reader_cost(const struct trace_reader *r)
{
	return r->meta.cost;
}

uint64_t trace_reader_unix_ns(const struct trace_reader *r, uint64_t time_ns)
{
	const struct trace_process *p = trace_reader_process(r, 0);

	return p ? p->start_realtime_ns + (time_ns - p->start_ns) : 0;
}

uint32_t trace_reader_n_processes(const struct trace_reader *r)
{
	return r->meta.processes.n;
}

uint32_t trace_reader_n_runtimes(const struct trace_reader *r)
{
	return r->meta.runtimes.n;
}

uint32_t trace_reader_n_threads(const struct trace_reader *r)
{
	return r->meta.threads.n;
}

uint32_t trace_reader_n_kinds(const struct trace_reader *r)
{
	return r->meta.kinds.n;
}

uint32_t trace_reader_n_frames(const struct trace_reader *r)
{
	return r->meta.frames.n;
}

uint32_t trace_reader_n_coverage(const struct trace_reader *r)
{
	return r->meta.coverage.n;
}

uint32_t trace_reader_n_moments(const struct trace_reader *r)
{
	return r->n_names;
}

bool trace_reader_moment_name(const struct trace_reader *r, uint32_t i, uint32_t *ret_process,
			      enum moment_when *ret_when)
{
	if (i >= r->n_names)
		return false;
	*ret_process = r->moments[r->names[i]].process;
	*ret_when = r->moments[r->names[i]].when;
	return true;
}

int trace_reader_moment(struct trace_reader *r, uint32_t process, enum moment_when when,
			struct trace_moment *ret_moment, struct error *err)
{
	struct trace_moment m = {0};
	uintptr_t at = (uintptr_t)map_get(&r->by_name, process, when);
	int code = 0, found = at != 0;

	for (; at && code == 0; at = r->moments[at - 1].next) {
		struct moment_part *part = &r->moments[at - 1];

		code = moment_decode(&m, part->chunk->payload, part->chunk->size);
		if (code == -EBADMSG) {
			part->damaged = true;
			code = 0;
		}
	}
	if (code == 0)
		code = moment_decoded(&m);
	if (code < 0) {
		moment_done(&m);
		return error_set(err, code, "out of memory for a moment of the trace");
	}
	*ret_moment = m;
	return found;
}

int trace_reader_skip_events(struct trace_reader *r, struct error *err)
{
	int code = 0;

	ahead_stop(r);
	r->tables_only = true;
	while (!r->ended && code == 0)
		code = read_chunk(r, err);
	/* None is missed. */
	r->n_given = r->n_expected;
	return code;
}

/* With the moments that turned out to be damaged when they were asked for. */
static struct damage all_damage(const struct trace_reader *r)
{
	struct damage all = r->damage;

	for (uint32_t i = 0; i < r->n_moments; i++)
		if (r->moments[i].damaged)
			note_damage(&all, r->moments[i].chunk->offset);
	return all;
}

bool trace_reader_truncated(struct trace_reader *r, const char **ret_text)
{
	struct buf *story = &r->story;
	struct damage damage = all_damage(r);
	bool missing = r->end_seen && r->n_given < r->n_expected;

	*ret_text = NULL;
	if (!r->cut && !damage.n && !missing)
		return false;

	buf_clear(story);
	if (r->cut)
		buf_printf(story,
			   "the trace ends at byte %" PRIu64 " %s: what was recorded after it is "
			   "lost",
			   r->offset, r->cut);
	if (damage.n)
		buf_printf(story,
			   "%s%" PRIu64 " damaged %s skipped (the first at byte %" PRIu64 ")",
			   r->cut ? "; " : "", damage.n,
			   damage.n == 1 ? "chunk of the trace was" : "chunks of the trace were",
			   damage.first);
	if (missing)
		buf_printf(story, "%s%" PRIu64 " of %" PRIu64 " events are lost",
			   damage.n ? ": " : "", r->n_expected - r->n_given, r->n_expected);
	*ret_text = buf_failed(story) ? "the trace is cut or damaged" : story->data;
	return true;
}

uint64_t trace_reader_complete_ns(const struct trace_reader *r)
{
	return __atomic_load_n(&r->complete_ns, __ATOMIC_RELAXED);
}

void trace_reader_progress(const struct trace_reader *r, uint64_t *ret_done, uint64_t *ret_total)
{
	*ret_done = __atomic_load_n(&r->progress, __ATOMIC_RELAXED);
	*ret_total = r->total_bytes;
}
