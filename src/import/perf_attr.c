/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Attributes and samples. A sample is a run of 8-byte words, whose presence and order follow from
 * its attribute's sample_type; an id in it says which attribute it belongs to; the id comes first
 * (PERF_SAMPLE_IDENTIFIER) or, in older files, at the same place in the samples of all attributes.
 * Source: the comments at PERF_RECORD_SAMPLE and struct perf_event_attr in the kernel's
 * include/uapi/linux/perf_event.h.
 */
#include "import/perf_attr.h"

#include "base/cursor.h"
#include "base/vec.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

/* Of the flags. */
#define FREQ (1ull << 10)
#define SAMPLE_ID_ALL (1ull << 18)
#define MAX_CHAIN 4096u

/* Offsets in struct perf_event_attr; later fields are absent in files of older kernels. */
enum {
	AT_TYPE = 0,
	AT_CONFIG = 8,
	AT_PERIOD = 16,
	AT_SAMPLE_TYPE = 24,
	AT_READ_FORMAT = 32,
	AT_FLAGS = 40,
	AT_BRANCH_SAMPLE_TYPE = 72,
	AT_REGS_USER = 80,
	ATTR_MIN = 64,
};

void perf_attrs_done(struct perf_attrs *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->v[i].name);
	free(a->v);
	map_done(&a->by_id);
	*a = (struct perf_attrs){0};
}

static uint64_t word(const uint8_t *bytes, size_t len, size_t at, size_t size)
{
	uint64_t v = 0;
	if (at + size <= len)
		memcpy(&v, bytes + at, size);
	return v;
}

struct perf_attr *perf_attrs_add(struct perf_attrs *a, const uint8_t *bytes, size_t len)
{
	if (len < ATTR_MIN || a->n >= PERF_MAX_ATTRS)
		return NULL;
	if (!GROW_ONE(a->v, a->n))
		return NULL;
	a->v[a->n] = (struct perf_attr){
		.period = 1,
		.type = (uint32_t)word(bytes, len, AT_TYPE, 4),
		.config = word(bytes, len, AT_CONFIG, 8),
		.sample_type = word(bytes, len, AT_SAMPLE_TYPE, 8),
		.read_format = word(bytes, len, AT_READ_FORMAT, 8),
		.flags = word(bytes, len, AT_FLAGS, 8),
		.branch_sample_type = word(bytes, len, AT_BRANCH_SAMPLE_TYPE, 8),
		.regs_user = word(bytes, len, AT_REGS_USER, 8),
	};
	if (!(a->v[a->n].flags & FREQ) && word(bytes, len, AT_PERIOD, 8))
		a->v[a->n].period = word(bytes, len, AT_PERIOD, 8);
	return &a->v[a->n++];
}

int perf_attrs_add_id(struct perf_attrs *a, uint64_t id, const struct perf_attr *attr)
{
	if (a->n_ids >= PERF_MAX_IDS)
		return -E2BIG;
	a->n_ids++;
	return map_put(&a->by_id, id, 0, (void *)((uintptr_t)(attr - a->v) + 1));
}

struct perf_attr *perf_attrs_by_id(const struct perf_attrs *a, uint64_t id)
{
	uintptr_t index = (uintptr_t)map_get(&a->by_id, id, 0);
	return index && index <= a->n ? &a->v[index - 1] : NULL;
}

void perf_attr_prepare(struct perf_attr *a, const struct perf_formats *formats)
{
	static const char *const hardware[] = {"cycles", "instructions"};
	static const char *const software[] = {"cpu-clock", "task-clock"};
	const char *name = NULL;

	if (a->ready)
		return;
	a->ready = true;
	if (a->type == PERF_TYPE_TRACEPOINT) {
		a->format = perf_formats_find(formats, a->config);
		/* What it is called in the kernel, not what the user called it. */
		name = a->format ? a->format->name : a->name;
	} else if (a->type == PERF_TYPE_HARDWARE && (uint32_t)a->config < 2) {
		name = hardware[(uint32_t)a->config];
	} else if (a->type == PERF_TYPE_SOFTWARE && a->config < 2) {
		name = software[a->config];
	} else {
		name = a->name;
	}
	if (name)
		perf_event_classify(name, strlen(name), &a->event);
}

/* ---- samples ---- */

static struct perf_attr *attr_of(const struct perf_attrs *a, const uint8_t *body, size_t len)
{
	static const uint64_t before_id[] = {PERF_SAMPLE_IP, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
					     PERF_SAMPLE_ADDR};
	size_t at = 0;

	if (a->n <= 1)
		return a->v;
	/* All attributes of a file agree on where the id is. */
	uint64_t type = a->v[0].sample_type;
	if (!(type & PERF_SAMPLE_IDENTIFIER)) {
		if (!(type & PERF_SAMPLE_ID))
			return NULL;
		for (size_t i = 0; i < sizeof(before_id) / sizeof(before_id[0]); i++)
			at += type & before_id[i] ? 8 : 0;
	}
	return at + 8 <= len ? perf_attrs_by_id(a, word(body, len, at, 8)) : NULL;
}

static void skip_read(struct cursor *c, uint64_t format)
{
	uint64_t n = 1, each = 1 + !!(format & PERF_FORMAT_ID) + !!(format & (1ull << 4));

	if (format & PERF_FORMAT_GROUP)
		n = cursor_u64(c);
	if (format & PERF_FORMAT_TOTAL_TIME_ENABLED)
		cursor_u64(c);
	if (format & PERF_FORMAT_TOTAL_TIME_RUNNING)
		cursor_u64(c);
	if (n > cursor_left(c) / 8)
		c->failed = true;
	else
		cursor_bytes(c, n * each * 8);
}

/* `machine`: NULL: none of it is known. */
static void read_registers(struct cursor *c, const struct machine *machine, uint64_t mask,
			   struct perf_sample *ret)
{
	uint64_t abi = cursor_u64(c);

	for (unsigned i = 0; abi && i < 64; i++) {
		if (!(mask >> i & 1))
			continue;
		uint64_t v = cursor_u64(c);
		if (!machine || abi != machine->perf.abi)
			continue;
		if (i == machine->perf.fp)
			ret->user_bp = v;
		else if (i == machine->perf.sp)
			ret->user_sp = v;
		else if (i == machine->perf.pc)
			ret->user_ip = v;
	}
}

static void read_stack(struct cursor *c, struct perf_sample *ret)
{
	uint64_t size = cursor_u64(c);

	if (!size)
		return;
	ret->stack = size <= cursor_left(c) ? cursor_bytes(c, (size_t)size) : NULL;
	c->failed |= !ret->stack;
	/* How much of it was there to copy. */
	uint64_t filled = cursor_u64(c);
	ret->stack_len = (size_t)(filled < size ? filled : size);
}

/* The fields between the raw data and the registers. */
static void skip_branches(struct cursor *c, const struct perf_attr *attr)
{
	uint64_t n = cursor_u64(c);

	if (attr->branch_sample_type & PERF_SAMPLE_BRANCH_HW_INDEX)
		cursor_u64(c);
	if (n > cursor_left(c) / 24)
		c->failed = true;
	else
		cursor_bytes(c, (size_t)n * 24);
}

/* The fields before the raw data. */
static bool parse_front(struct cursor *c, struct perf_attr *attr, struct perf_sample *ret)
{
	uint64_t type = attr->sample_type;

	*ret = (struct perf_sample){.attr = attr, .period = attr->period};
	if (type & PERF_SAMPLE_IDENTIFIER)
		cursor_u64(c);
	if (type & PERF_SAMPLE_IP)
		ret->ip = cursor_u64(c);
	if (type & PERF_SAMPLE_TID) {
		ret->pid = cursor_u32(c);
		ret->tid = cursor_u32(c);
	}
	if (type & PERF_SAMPLE_TIME)
		ret->time = cursor_u64(c);
	if (type & PERF_SAMPLE_ADDR)
		cursor_u64(c);
	if (type & PERF_SAMPLE_ID)
		cursor_u64(c);
	if (type & PERF_SAMPLE_STREAM_ID)
		cursor_u64(c);
	if (type & PERF_SAMPLE_CPU)
		cursor_u64(c);
	if (type & PERF_SAMPLE_PERIOD)
		ret->period = cursor_u64(c);
	if (type & PERF_SAMPLE_READ)
		skip_read(c, attr->read_format);
	if (type & PERF_SAMPLE_CALLCHAIN) {
		uint64_t n = cursor_u64(c);
		if (n > cursor_left(c) / 8)
			return false;
		ret->chain = cursor_bytes(c, n * 8);
		ret->n_chain = n < MAX_CHAIN ? (size_t)n : MAX_CHAIN;
	}
	return cursor_ok(c);
}

bool perf_sample_parse(const struct perf_attrs *a, const uint8_t *body, size_t len,
		       struct perf_sample *ret)
{
	struct cursor c;
	struct perf_attr *attr = attr_of(a, body, len);

	cursor_init(&c, body, len);
	if (!attr || !parse_front(&c, attr, ret))
		return false;
	uint64_t type = attr->sample_type;
	if (type & PERF_SAMPLE_RAW) {
		ret->raw_len = cursor_u32(&c);
		ret->raw = cursor_bytes(&c, ret->raw_len);
	}
	if (type & PERF_SAMPLE_BRANCH_STACK)
		skip_branches(&c, attr);
	if (type & PERF_SAMPLE_REGS_USER)
		read_registers(&c, a->machine, attr->regs_user, ret);
	if (type & PERF_SAMPLE_STACK_USER)
		read_stack(&c, ret);
	return cursor_ok(&c);
}

void perf_trailer_parse(const struct perf_attrs *a, const uint8_t *body, size_t len,
			struct perf_sample *ret)
{
	*ret = (struct perf_sample){0};
	if (!a->n || !(a->v[0].flags & SAMPLE_ID_ALL))
		return;
	uint64_t type = a->v[0].sample_type;
	size_t at = len;
	static const uint64_t behind_time[] = {PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_CPU,
					       PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_ID};
	for (size_t i = 0; i < sizeof(behind_time) / sizeof(behind_time[0]); i++)
		at -= type & behind_time[i] && at >= 8 ? 8 : 0;
	if (type & PERF_SAMPLE_TIME && at >= 8) {
		at -= 8;
		ret->time = word(body, len, at, 8);
	}
	if (type & PERF_SAMPLE_TID && at >= 8) {
		at -= 8;
		ret->pid = (uint32_t)word(body, len, at, 4);
		ret->tid = (uint32_t)word(body, len, at + 4, 4);
	}
}
