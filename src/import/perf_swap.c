/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What is how long, of all that the reader looks at: the layouts are those of <linux/perf_event.h>
 * and of perf's own records. A sample is words of 8 bytes, but for pairs of 4, and raw data.
 */
#include "import/perf_swap.h"

#include <linux/perf_event.h>
#include <string.h>

static void swap4(uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof(v));
	v = __builtin_bswap32(v);
	memcpy(p, &v, sizeof(v));
}

static void swap8(uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	v = __builtin_bswap64(v);
	memcpy(p, &v, sizeof(v));
}

void perf_swap_words(void *bytes, size_t len)
{
	uint8_t *p = bytes;
	for (; len >= 8; len -= 8, p += 8)
		swap8(p);
}

/* Bit-fields begin at the other end of each byte. */
static void turn_bits(uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		uint8_t from = p[i], to = 0;
		for (unsigned bit = 0; bit < 8; bit++)
			to |= (uint8_t)((from >> bit & 1) << (7 - bit));
		p[i] = to;
	}
}

/* A field a letter: 4 and 8 bytes, '.' 8 bytes that stay, 'b' 8 bytes of bits. The rest stays. */
static void swap_fields(uint8_t *p, size_t len, const char *fields)
{
	for (; *fields; fields++) {
		size_t size = *fields == '4' ? 4 : 8;
		if (size > len)
			return;
		if (*fields == '4')
			swap4(p);
		else if (*fields == '8')
			swap8(p);
		else if (*fields == 'b')
			turn_bits(p, size);
		p += size;
		len -= size;
	}
}

static uint32_t u32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

/* ---- the file ---- */

void perf_swap_header(struct perf_file_header *h)
{
	uint8_t *bytes = (uint8_t *)h;

	perf_swap_words(bytes + sizeof(h->magic), sizeof(*h) - sizeof(h->magic));
	/* The bits of features are an array of longs; all files have a host's name. */
	if (!(h->features[0] >> PERF_FEAT_HOSTNAME & 1))
		for (size_t i = 0; i < sizeof(h->features) / sizeof(h->features[0]); i++)
			h->features[i] = h->features[i] << 32 | h->features[i] >> 32;
}

void perf_swap_attr(uint8_t *bytes, size_t len)
{
	swap_fields(bytes, len, "448888b4488884484");
}

struct record perf_swap_head(struct record r)
{
	return (struct record){.type = __builtin_bswap32(r.type),
			       .misc = __builtin_bswap16(r.misc),
			       .size = __builtin_bswap16(r.size)};
}

static void swap_head(uint8_t *bytes)
{
	struct record r;
	memcpy(&r, bytes, sizeof(r));
	r = perf_swap_head(r);
	memcpy(bytes, &r, sizeof(r));
}

static void swap_build_ids(uint8_t *p, size_t len)
{
	struct record r;

	while (len >= sizeof(r)) {
		swap_head(p);
		memcpy(&r, p, sizeof(r));
		if (r.size < sizeof(r) || r.size > len)
			return;
		p += r.size;
		len -= r.size;
	}
}

static void swap_event_desc(uint8_t *p, size_t len)
{
	swap_fields(p, len, "44");
	if (len < 8)
		return;
	uint32_t n = u32(p), attr = u32(p + 4);
	for (p += 8, len -= 8; n && len >= 8 && attr <= len - 8; n--) {
		perf_swap_attr(p, attr);
		p += attr;
		len -= attr;
		swap_fields(p, len, "44");
		uint64_t ids = 8ull * u32(p), text = u32(p + 4);
		p += 8;
		len -= 8;
		if (text > len || ids > len - text)
			return;
		perf_swap_words(p + text, (size_t)ids);
		p += text + ids;
		len -= (size_t)(text + ids);
	}
}

void perf_swap_feature(unsigned feature, uint8_t *bytes, size_t len)
{
	if (feature == PERF_FEAT_BUILD_ID)
		swap_build_ids(bytes, len);
	else if (feature == PERF_FEAT_EVENT_DESC)
		swap_event_desc(bytes, len);
	else if (feature == PERF_FEAT_DIR_FORMAT)
		swap_fields(bytes, len, "8");
}

/* ---- records ---- */

static const char *fields_of(uint32_t type)
{
	static const struct {
		uint32_t type;
		const char *fields;
	} known[] = {
		{PERF_RECORD_MMAP, "44888"},
		{PERF_RECORD_MMAP2, "44888...44"},
		{PERF_RECORD_COMM, "44"},
		{PERF_RECORD_FORK, "44448"},
		{PERF_RECORD_EXIT, "44448"},
		{PERF_RECORD_LOST, "88"},
		{PERF_RECORD_SWITCH_CPU_WIDE, "44"},
		{PERF_REC_EVENT_UPDATE, "88"},
		{PERF_REC_TRACING_DATA, "4"},
		{PERF_REC_AUXTRACE, "8"},
		{PERF_REC_FEATURE, "8"},
		{PERF_REC_COMPRESSED2, "8"},
	};
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].type == type)
			return known[i].fields;
	return "";
}

/* The fields at the end of the kernel's records. */
static void swap_trailer(const struct perf_attrs *a, uint8_t *body, size_t len)
{
	size_t n = perf_trailer_bytes(a);
	bool ids = n && a->v[0].sample_type & PERF_SAMPLE_TID;

	if (n > len)
		return;
	if (ids)
		swap_fields(body + len - n, n, "44");
	n -= ids ? 8 : 0;
	perf_swap_words(body + len - n, n);
}

static void swap_sample(const struct perf_attrs *a, uint8_t *body, size_t len)
{
	size_t ids, raw;

	perf_swap_words(body, len);
	if (!perf_sample_places(a, body, len, &ids, &raw))
		return;
	if (ids + 8 <= len) {
		swap8(body + ids);
		swap_fields(body + ids, 8, "44");
	}
	if (raw + 8 > len)
		return;
	swap8(body + raw);
	swap4(body + raw);
	uint64_t end = raw + 4 + (uint64_t)u32(body + raw);
	if (end > raw + 8 && end <= len)
		perf_swap_words(body + raw + 8, (size_t)end - (raw + 8));
}

static void swap_attr_record(uint8_t *body, size_t len)
{
	if (len < 8)
		return;
	uint32_t size = __builtin_bswap32(u32(body + 4));
	size = size ? size : 64;
	if (size > len)
		return;
	perf_swap_attr(body, size);
	perf_swap_words(body + size, len - size);
}

void perf_swap_record(const struct perf_attrs *a, uint8_t *bytes)
{
	struct record r;

	swap_head(bytes);
	memcpy(&r, bytes, sizeof(r));
	uint8_t *body = bytes + sizeof(r);
	size_t len = r.size - sizeof(r);
	if (r.type == PERF_RECORD_SAMPLE) {
		swap_sample(a, body, len);
	} else if (r.type == PERF_REC_ATTR) {
		swap_attr_record(body, len);
	} else {
		swap_fields(body, len, fields_of(r.type));
		if (r.type < PERF_REC_ATTR)
			swap_trailer(a, body, len);
	}
}
