/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A file of `perf record`, in its three forms: the file with its header, attributes and features at
 * known offsets; the stream that `perf record -o -` writes, where the same things are records; and
 * the folder of `perf record --threads`, where "data" is such a file and data.0, data.1, ... hold
 * the records of a processor (or several) each and nothing else.
 *
 * Records come sorted per processor only. perf marks rounds (PERF_RECORD_FINISHED_ROUND): what is
 * older than the latest time of the round before can be given out in order. What waits for that is
 * a copy of each record, bounded in number and bytes. Files of a folder have no rounds; they are
 * read at the same pace, and what waits is all that there is room for.
 *
 * Source: perf's tools/perf/Documentation/perf.data-file-format.txt and util/header.h.
 */
#include "import/parts.h"
#include "import/perf_data.h"

#include "base/cleanup.h"
#include "base/cursor.h"
#include "base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_WAITING (1u << 20)
#define MAX_WAITING_BYTES ((size_t)64 << 20)
#define MAX_SECTION ((uint64_t)256 << 20)
#define ZSTD_ROOM (256u << 10)

static const uint64_t PERF_FEAT_NEEDED =
	1ull << PERF_FEAT_TRACING_DATA | 1ull << PERF_FEAT_BUILD_ID | 1ull << PERF_FEAT_ARCH |
	1ull << PERF_FEAT_EVENT_DESC | 1ull << PERF_FEAT_DIR_FORMAT;

struct waiting_record {
	struct order_item order;
	uint8_t *bytes; /* the record */
	uint64_t number;
};

/* ---- features ---- */

static void build_ids(struct perf_data *d, const uint8_t *p, size_t len)
{
	struct perf_record_head r;

	while (len >= sizeof(r)) {
		memcpy(&r, p, sizeof(r));
		/* Header, pid, 20 bytes of build-id, their number, padding; the name. */
		if (r.size > len || r.size <= 36)
			return;
		size_t id_len = r.misc & PERF_MISC_BUILD_ID_SIZE ? p[32] : PERF_BUILD_ID_MAX;
		const char *name = (const char *)p + 36;
		if (id_len <= PERF_BUILD_ID_MAX)
			perf_symbols_build_id(d->symbols, name, strnlen(name, r.size - 36u), p + 12,
					      id_len);
		p += r.size;
		len -= r.size;
	}
}

static void set_name(struct perf_attr *a, const char *name, size_t len)
{
	if (!a || a->ready || a->name)
		return;
	a->name = strndup(name, len < 256 ? len : 256);
}

/* How each attribute was asked for: u32 number, u32 size of an attribute; each: attribute, u32
 * number of ids, string, ids. Their ids distinguish them. */
static void event_desc(struct perf_data *d, const uint8_t *p, size_t len)
{
	struct cursor c;

	cursor_init(&c, p, len);
	uint32_t n = cursor_u32(&c), size = cursor_u32(&c);
	for (uint32_t i = 0; i < n && cursor_ok(&c); i++) {
		cursor_bytes(&c, size);
		uint32_t n_ids = cursor_u32(&c), name_len = cursor_u32(&c);
		const char *name = cursor_bytes(&c, name_len);
		for (uint32_t k = 0; k < n_ids && cursor_ok(&c); k++) {
			uint64_t id = cursor_u64(&c);
			if (cursor_ok(&c) && name)
				set_name(perf_attrs_by_id(&d->attrs, id), name,
					 strnlen(name, name_len));
		}
		if (name && !n_ids && i < d->attrs.n)
			set_name(&d->attrs.v[i], name, strnlen(name, name_len));
	}
}

static int feature(struct perf_data *d, unsigned feat, uint8_t *p, size_t len)
{
	int r = 0;

	if (feat == PERF_FEAT_TRACING_DATA) {
		r = perf_formats_read(&d->formats, p, len);
		if (r == -EBADMSG)
			perf_diagnose(d, "formats of tracepoints that are broken", NULL);
	} else if (feat == PERF_FEAT_BUILD_ID) {
		build_ids(d, p, len);
	} else if (feat == PERF_FEAT_EVENT_DESC) {
		event_desc(d, p, len);
	} else if (feat == PERF_FEAT_ARCH && len > 4) {
		sink_machine(d->sink, (const char *)p + 4, len - 4);
		d->attrs.machine = d->sink->machine[0] ? NULL : machine_here();
	} else if (feat == PERF_FEAT_DIR_FORMAT) {
		uint64_t version = 0;
		memcpy(&version, p, len < sizeof(version) ? len : sizeof(version));
		if (version != PERF_DIR_VERSION)
			return error_set(
				d->err, -ENOTSUP,
				"%s was made by a newer perf: it is a folder of version %" PRIu64,
				d->in->path, version);
		if (!d->in_parts)
			perf_diagnose(d,
				      "the records next to the file: its folder is the recording",
				      NULL);
	}
	return r == -ENOMEM ? r : 0;
}

/* ---- order ---- */

static int give_first(struct perf_data *d)
{
	struct waiting_record w;
	struct perf_record_head r;

	if (!order_next(&d->order, UINT64_MAX, &w))
		return 0;
	memcpy(&r, w.bytes, sizeof(r));
	d->waiting_bytes -= r.size;
	d->number = w.number;
	int code = perf_record(d, w.bytes);
	free(w.bytes);
	return code < 0 ? code : d->sink->code;
}

static int give_until(struct perf_data *d, uint64_t time)
{
	const struct order_item *first;

	while ((first = order_first(&d->order)) && first->time <= time)
		TRY(give_first(d));
	return 0;
}

static int wait_in_order(struct perf_data *d, const struct perf_record_head *r,
			 const uint8_t *bytes)
{
	const uint8_t *body = bytes + sizeof(*r);
	size_t len = r->size - sizeof(*r);
	struct perf_sample s;
	struct waiting_record w = {.number = d->n_records};

	if (r->type == PERF_RECORD_SAMPLE && !perf_sample_parse(&d->attrs, body, len, &s)) {
		d->number = d->n_records;
		return perf_record(d, bytes);
	}
	if (r->type != PERF_RECORD_SAMPLE)
		perf_trailer_parse(&d->attrs, body, len, &s);
	while (order_full(&d->order) || d->waiting_bytes + r->size > MAX_WAITING_BYTES) {
		int code = give_first(d);
		if (code < 0)
			return code;
	}
	w.order.time = s.time;
	w.bytes = malloc(r->size);
	if (!w.bytes)
		return -ENOMEM;
	memcpy(w.bytes, bytes, r->size);
	if (s.time > d->max_ns)
		d->max_ns = s.time;
	if (s.time > d->stream->max_ns)
		d->stream->max_ns = s.time;
	int code = order_put(&d->order, &w);
	if (code < 0)
		free(w.bytes);
	else
		d->waiting_bytes += r->size;
	return code;
}

/* ---- perf's own records ---- */

static int on_attr(struct perf_data *d, const uint8_t *body, size_t len)
{
	uint32_t size;

	if (len < 8)
		return 0;
	memcpy(&size, body + 4, 4);
	if (!size)
		size = 64;
	if (size > len)
		return 0;
	const struct perf_attr *a = perf_attrs_add(&d->attrs, body, size);
	if (!a) {
		perf_diagnose(d, "an attribute that is broken", NULL);
		return 0;
	}
	for (size_t at = size; at + 8 <= len; at += 8) {
		uint64_t id;
		memcpy(&id, body + at, 8);
		if (perf_attrs_add_id(&d->attrs, id, a) == -ENOMEM)
			return -ENOMEM;
	}
	return 0;
}

static void on_event_update(struct perf_data *d, const uint8_t *body, size_t len)
{
	struct cursor c;

	cursor_init(&c, body, len);
	uint64_t type = cursor_u64(&c), id = cursor_u64(&c);
	if (cursor_ok(&c) && type == PERF_EVENT_UPDATE_NAME)
		set_name(perf_attrs_by_id(&d->attrs, id), (const char *)c.at,
			 strnlen((const char *)c.at, cursor_left(&c)));
}

static int one_record(struct perf_data *d, uint8_t *bytes, bool plain);

/* What came out of decompression and is whole. */
static int plain_records(struct perf_data *d, struct perf_stream *s)
{
	size_t at = 0;
	struct perf_record_head r;
	int code = 0;

	while (code == 0 && s->plain_n - at >= sizeof(r)) {
		memcpy(&r, s->plain + at, sizeof(r));
		if (r.size < sizeof(r))
			return error_set(d->err, -EBADMSG,
					 "what was compressed in record %" PRIu64 " is broken",
					 d->n_records);
		if (r.size > s->plain_n - at)
			break;
		code = one_record(d, s->plain + at, true);
		at += r.size;
	}
	memmove(s->plain, s->plain + at, s->plain_n - at);
	s->plain_n -= at;
	return code;
}

static int on_compressed(struct perf_data *d, const uint8_t *body, size_t len)
{
	struct perf_stream *s = d->stream;
	ZSTD_inBuffer in = {body, len, 0};
	size_t before;

	if (!s->zstd)
		s->zstd = ZSTD_createDStream();
	if (!s->plain)
		s->plain = malloc(ZSTD_ROOM);
	if (!s->zstd || !s->plain)
		return -ENOMEM;
	do {
		ZSTD_outBuffer out = {s->plain, ZSTD_ROOM, s->plain_n};
		before = out.pos;
		size_t r = ZSTD_decompressStream(s->zstd, &out, &in);
		if (ZSTD_isError(r))
			return error_set(d->err, -EBADMSG, "record %" PRIu64 ": %s", d->n_records,
					 ZSTD_getErrorName(r));
		bool more = out.pos > before;
		s->plain_n = out.pos;
		int code = plain_records(d, s);
		if (code < 0)
			return code;
		if (!more && in.pos == in.size)
			return 0;
	} while (true);
}

/* Bytes in the stream after a record that says so. */
static int behind(struct perf_data *d, uint64_t size, uint8_t **ret)
{
	if (size > MAX_SECTION)
		return -EBADMSG;
	uint8_t *own = malloc(size + 1);
	if (!own)
		return -ENOMEM;
	for (uint64_t at = 0; at < size;) {
		size_t part =
			size - at < INPUT_SMALL_BUFFER ? (size_t)(size - at) : INPUT_SMALL_BUFFER;
		const uint8_t *p = input_bytes(d->stream->in, part);
		if (!p) {
			free(own);
			d->stream->cut = true;
			return -EBADMSG;
		}
		memcpy(own + at, p, part);
		at += part;
	}
	*ret = own;
	return 0;
}

static int on_tracing_data(struct perf_data *d, const uint8_t *body, size_t len)
{
	_cleanup_free_ uint8_t *p = NULL;
	uint32_t size;

	if (len < 4)
		return 0;
	memcpy(&size, body, 4);
	int r = behind(d, ((uint64_t)size + 7) & ~7ull, &p);
	return r < 0 ? (r == -EBADMSG ? 0 : r) : feature(d, PERF_FEAT_TRACING_DATA, p, size);
}

static int one_record(struct perf_data *d, uint8_t *bytes, bool plain)
{
	struct perf_record_head r;

	memcpy(&r, bytes, sizeof(r));
	d->n_records++;
	if (r.type < PERF_REC_ATTR)
		return wait_in_order(d, &r, bytes);
	uint8_t *body = bytes + sizeof(r);
	size_t len = r.size - sizeof(r);
	uint64_t size;
	d->number = d->n_records;
	switch (r.type) {
	case PERF_REC_ATTR:
		return on_attr(d, body, len);
	case PERF_REC_TRACING_DATA:
		return plain ? 0 : on_tracing_data(d, body, len);
	case PERF_REC_BUILD_ID:
		build_ids(d, bytes, r.size);
		return 0;
	case PERF_REC_FINISHED_ROUND:
		size = d->round_ns;
		d->round_ns = d->max_ns;
		return d->in_parts ? 0 : give_until(d, size);
	case PERF_REC_AUXTRACE:
		size = 0;
		if (len >= 8)
			memcpy(&size, body, 8);
		perf_diagnose(d, "a hardware trace (AUX), which pollux skips", NULL);
		if (!plain && !input_skip(d->stream->in, size))
			d->stream->cut = true;
		return 0;
	case PERF_REC_EVENT_UPDATE:
		on_event_update(d, body, len);
		return 0;
	case PERF_REC_FEATURE:
		if (len >= 8) {
			memcpy(&size, body, 8);
			return feature(d, size < PERF_FEAT_MAX ? (unsigned)size : PERF_FEAT_MAX,
				       body + 8, len - 8);
		}
		return 0;
	case PERF_REC_COMPRESSED:
		return plain ? 0 : on_compressed(d, body, len);
	case PERF_REC_COMPRESSED2:
		if (plain || len < 8)
			return 0;
		memcpy(&size, body, 8);
		return on_compressed(d, body + 8, size < len - 8 ? (size_t)size : len - 8);
	default:
		return 0; /* of threads, processors, clocks: nothing that is needed */
	}
}

/* 1; 0: the stream has no more. */
static int next_record(struct perf_data *d, struct perf_stream *s)
{
	struct perf_record_head r;

	d->stream = s;
	if (s->in->offset >= s->end)
		return 0;
	const uint8_t *p = input_peek(s->in, sizeof(r));
	if (!p) {
		s->cut = input_left(s->in) > 0 || s->end != UINT64_MAX;
		return s->in->code;
	}
	memcpy(&r, p, sizeof(r));
	/* Zeros after the end of a file that was not closed. */
	uint8_t *bytes = r.size < sizeof(r) ? NULL : input_bytes(s->in, r.size);
	if (!bytes) {
		s->cut = true;
		return s->in->code;
	}
	int code = one_record(d, bytes, false);
	return code < 0 ? code : 1;
}

static int all_records(struct perf_data *d, struct perf_stream *s)
{
	int r;

	while ((r = next_record(d, s)) > 0)
		;
	return r;
}

static void stream_done(struct perf_stream *s)
{
	ZSTD_freeDStream(s->zstd);
	free(s->plain);
	s->zstd = NULL;
	s->plain = NULL;
}

/* ---- the file and the stream ---- */

static int section(struct perf_data *d, uint64_t offset, uint64_t size, uint8_t **ret)
{
	*ret = NULL;
	if (size > MAX_SECTION || offset > d->in->size || size > d->in->size - offset)
		return -EBADMSG;
	uint8_t *p = malloc(size + 1);
	if (!p)
		return -ENOMEM;
	for (uint64_t at = 0; at < size;) {
		ssize_t n = pread(d->in->fd, p + at, size - at, (off_t)(offset + at));
		if (n <= 0) {
			free(p);
			return n < 0 ? -errno : -EBADMSG;
		}
		at += (uint64_t)n;
	}
	*ret = p;
	return 0;
}

static int file_attrs(struct perf_data *d, const struct perf_file_header *h)
{
	_cleanup_free_ uint8_t *attrs = NULL;
	uint64_t each = h->attr_size;

	if (each < 64 + 16 || each > 4096)
		return error_set(d->err, -EBADMSG, "%s: its header is broken", d->in->path);
	int r = section(d, h->attrs.offset, h->attrs.size, &attrs);
	if (r < 0)
		return error_sys(d->err, r, "%s: its attributes can't be read", d->in->path);
	for (uint64_t at = 0; at + each <= h->attrs.size; at += each) {
		_cleanup_free_ uint8_t *ids = NULL;
		uint64_t where[2];
		memcpy(where, attrs + at + each - 16, 16);
		const struct perf_attr *a =
			perf_attrs_add(&d->attrs, attrs + at, (size_t)(each - 16));
		if (!a)
			break;
		if (section(d, where[0], where[1], &ids) < 0) {
			perf_diagnose(d, "ids of an event that can't be read", NULL);
			continue;
		}
		for (uint64_t i = 0; i + 8 <= where[1]; i += 8) {
			uint64_t id;
			memcpy(&id, ids + i, 8);
			if (perf_attrs_add_id(&d->attrs, id, a) == -ENOMEM)
				return -ENOMEM;
		}
	}
	return 0;
}

/* The features' places follow the data, in the order of their bits. */
static int file_features(struct perf_data *d, const struct perf_file_header *h)
{
	uint64_t table = h->data.offset + h->data.size, n = 0;

	for (unsigned feat = 0; feat < PERF_FEAT_MAX; feat++) {
		if (!(h->features[feat / 64] >> (feat % 64) & 1))
			continue;
		_cleanup_free_ uint8_t *place = NULL, *p = NULL;
		uint64_t where[2];
		if (section(d, table + 16 * n++, 16, &place) < 0) {
			perf_diagnose(d, "a feature of the file that can't be read", NULL);
			break;
		}
		memcpy(where, place, 16);
		if (feat >= 64 || !(PERF_FEAT_NEEDED >> feat & 1))
			continue;
		if (section(d, where[0], where[1], &p) < 0)
			perf_diagnose(d, "a feature of the file that can't be read", NULL);
		else
			TRY(feature(d, feat, p, (size_t)where[1]));
	}
	return 0;
}

static int read_file(struct perf_data *d, struct perf_stream *s, const struct perf_file_header *h)
{
	if (!d->in->size)
		return error_set(d->err, -ESPIPE,
				 "a perf.data file can't be read from a pipe: name the file, or "
				 "record with perf record -o -");
	int r = file_attrs(d, h);
	/* A recorder that was killed has written neither the data's size nor features. */
	if (r == 0 && h->data.size)
		r = file_features(d, h);
	else if (r == 0)
		perf_diagnose(
			d, "the end of the file: perf did not end regularly, so names are missing",
			NULL);
	if (r < 0)
		return r;
	if (h->data.offset < d->in->offset || !input_skip(d->in, h->data.offset - d->in->offset))
		return error_set(d->err, -EBADMSG, "%s: its data lie outside of the file",
				 d->in->path);
	if (h->data.size && !__builtin_add_overflow(h->data.offset, h->data.size, &s->end) &&
	    s->end > d->in->size)
		s->cut = true;
	return all_records(d, s);
}

static int read_forms(struct perf_data *d, struct perf_stream *s)
{
	const uint8_t *p = input_peek(d->in, 16);
	uint64_t size;

	if (!p)
		return error_set(d->err, -EBADMSG, "%s is cut within its header", d->in->path);
	if (!memcmp(p, "2ELIFREP", 8))
		return error_set(d->err, -ENOTSUP,
				 "%s is of a machine of the other byte order: import what perf "
				 "script prints of it",
				 d->in->path);
	if (memcmp(p, "PERFILE2", 8) != 0)
		return error_set(d->err, -EBADMSG, "%s is no perf.data file of version 2",
				 d->in->path);
	memcpy(&size, p + 8, 8);
	if (size == 16) {
		input_bytes(d->in, 16);
		return all_records(d, s);
	}
	struct perf_file_header h;
	p = input_bytes(d->in, sizeof(h));
	if (!p || size < sizeof(h))
		return error_set(d->err, -EBADMSG, "%s is cut within its header", d->in->path);
	memcpy(&h, p, sizeof(h));
	return read_file(d, s, &h);
}

static void emit_cut(struct perf_data *d, const struct perf_stream *s)
{
	d->number = d->n_records;
	if (s->cut && d->in_parts)
		perf_diagnose(d, "the end of a file: it is cut:", s->in->path);
	else if (s->cut)
		perf_diagnose(d, "the end of the file: it is cut", NULL);
}

static int read_one(struct perf_data *d, struct input *in)
{
	struct perf_stream s = {.in = in, .end = UINT64_MAX};

	d->in = in;
	d->stream = &s;
	int r = read_forms(d, &s);
	if (r == 0)
		emit_cut(d, &s);
	stream_done(&s);
	return r;
}

/* ---- the folder ---- */

static int read_part(struct perf_data *d, struct folder_part *p)
{
	struct perf_stream *s = p->user;

	if (!s)
		s = p->user = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->in = &p->in;
	s->end = UINT64_MAX;
	int r = next_record(d, s);
	p->reached_ns = s->max_ns;
	p->done = r <= 0;
	if (r == 0)
		emit_cut(d, s);
	else if (r < 0 && r == p->in.code)
		error_sys(d->err, r, "cannot read %s/%s", p->in.whole->path, p->name);
	return r < 0 ? r : 0;
}

static int read_folder(struct perf_data *d, struct input *in)
{
	_cleanup_free_ char *path = NULL;
	struct input data;
	struct file_parts parts;
	struct folder_part *p;
	int r;

	TRY(parts_open(in, "data.", "", &parts, d->err));
	r = input_open_in(in, "data", &data, d->err);
	if (r == 0) {
		/* Messages about the file name the folder, too. */
		if (asprintf(&path, "%s/data", in->path) >= 0)
			data.path = path;
		in->size = data.size;
		for (size_t i = 0; i < parts.n; i++)
			in->size += parts.v[i]->in.size;
		d->in_parts = parts.n > 0;
		r = read_one(d, &data);
		while (r == 0 && (p = parts_next(&parts)))
			r = read_part(d, p);
		input_close(&data);
		d->in = in;
	}
	for (size_t i = 0; i < parts.n; i++) {
		if (parts.v[i]->user)
			stream_done(parts.v[i]->user);
		free(parts.v[i]->user);
	}
	parts_close(&parts);
	return r;
}

static void emit(struct perf_data *d)
{
	size_t n_read, n_all;

	perf_symbols_stats(d->symbols, &n_read, &n_all);
	if (n_all)
		sink_cover(d->sink, "files with symbols", n_read, n_all,
			   n_read < n_all ? "the others are gone, changed, or no ELF files" : "");
}

static int read_data(struct input *in, struct sink *sink, struct error *err)
{
	struct perf_data d = {.sink = sink, .err = err, .attrs.machine = machine_here()};
	struct waiting_record w;
	int r = -ENOMEM;

	order_init(&d.order, sizeof(struct waiting_record), MAX_WAITING);
	d.symbols = perf_symbols_new(&sink->frames);
	if (d.symbols)
		r = in->directory ? read_folder(&d, in) : read_one(&d, in);
	if (r == 0)
		r = give_until(&d, UINT64_MAX);
	if (r == 0)
		r = sink_flush(sink);
	sink->n_items += d.n_records;
	if (r == 0)
		emit(&d);
	if (r == 0 && !d.n_known)
		r = error_set(err, -EBADMSG, "%s: pollux can use none of its samples", in->path);
	if (r < 0 && !err->code)
		error_sys(err, r, "cannot read %s", in->path);
	while (order_next(&d.order, UINT64_MAX, &w))
		free(w.bytes);
	order_done(&d.order);
	perf_symbols_free(d.symbols);
	perf_formats_done(&d.formats);
	perf_attrs_done(&d.attrs);
	return r;
}

static bool recognise(const struct import_head *head)
{
	return head->len >= 8 &&
	       (!memcmp(head->bytes, "PERFILE", 7) || !memcmp(head->bytes, "2ELIFREP", 8));
}

const struct import_ops import_perf_data = {
	.name = "perf-data",
	.description = "a file or folder of perf record",
	.item = "record",
	.takes = IMPORT_FILE | IMPORT_FOLDER,
	.recognise = recognise,
	.read = read_data,
};
