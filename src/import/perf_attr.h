/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The attributes of the events of a perf.data file, and the fields of its samples, which depend on
 * them. The layout is that of <linux/perf_event.h>. Private to this module.
 */
#pragma once

#include "base/map.h"
#include "binary/machine.h"
#include "import/perf_events.h"
#include "import/perf_format.h"

#define PERF_MAX_ATTRS 4096u
#define PERF_MAX_IDS (1u << 20)

struct perf_attr {
	uint32_t type;
	uint64_t config, sample_type, read_format, flags;
	uint64_t period; /* 1 if each sample has its own */
	uint64_t branch_sample_type, regs_user;
	char *name; /* "sdt_tokio:task_poll_begin"; NULL: unknown */
	bool ready; /* event and format are looked up */
	struct perf_event event;
	const struct perf_format *format; /* of tracepoints; NULL: unknown */
};

struct perf_attrs {
	struct perf_attr *v;
	size_t n;
	struct map by_id; /* id to index + 1 */
	size_t n_ids;
	const struct machine *machine; /* whose registers samples have; NULL: not known, so that no
					* stack can be unwound */
};

struct perf_sample {
	struct perf_attr *attr;
	uint64_t ip, time, period;
	uint32_t pid, tid;
	const uint8_t *chain; /* n_chain addresses of 8 bytes, innermost first */
	size_t n_chain;
	const uint8_t *raw;
	size_t raw_len;
	/* --call-graph=dwarf: registers and a copy of the stack from sp on; 0 bytes: none. */
	uint64_t user_ip, user_sp, user_bp;
	const uint8_t *stack;
	size_t stack_len;
};

void perf_attrs_done(struct perf_attrs *a);
/* The attribute as it is in the file: `size` bytes of it. NULL: broken, or too many. */
struct perf_attr *perf_attrs_add(struct perf_attrs *a, const uint8_t *bytes, size_t len);
int perf_attrs_add_id(struct perf_attrs *a, uint64_t id, const struct perf_attr *attr);
struct perf_attr *perf_attrs_by_id(const struct perf_attrs *a, uint64_t id);
/* Looks up its event and format, once. */
void perf_attr_prepare(struct perf_attr *a, const struct perf_formats *formats);

/* The body of a sample record, after its header. False: it is broken or of no known event. */
bool perf_sample_parse(const struct perf_attrs *a, const uint8_t *body, size_t len,
		       struct perf_sample *ret);
/* The fields at the end of other records: pid, tid and time, 0 where the record has none. */
void perf_trailer_parse(const struct perf_attrs *a, const uint8_t *body, size_t len,
			struct perf_sample *ret);
