/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Formats of tracepoints, as a perf.data file carries them: where the fields of a raw sample lie.
 * Private to this module.
 */
#pragma once

#include "base/map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERF_FORMAT_FIELDS 16u

struct perf_format_field {
	char name[32];
	uint16_t offset, size;
	bool is_signed;
	bool is_dynamic; /* __data_loc: the field says where a string lies */
};

struct perf_format {
	char *name;	   /* "sdt_tokio:task_poll_begin" */
	uint32_t n_fields; /* without the common ones, at most PERF_FORMAT_FIELDS */
	struct perf_format_field fields[PERF_FORMAT_FIELDS];
};

struct perf_formats {
	struct map by_id; /* to struct perf_format */
	size_t n;
};

void perf_formats_done(struct perf_formats *f);
/* The section of tracing data. 0, -EBADMSG (what came before it counts), -ENOMEM. */
int perf_formats_read(struct perf_formats *f, const uint8_t *data, size_t len);
const struct perf_format *perf_formats_find(const struct perf_formats *f, uint64_t id);

const struct perf_format_field *perf_format_field(const struct perf_format *f, const char *name);
/* The field's number; false: it isn't in there. */
bool perf_field_number(const struct perf_format_field *f, const uint8_t *raw, size_t len,
		       uint64_t *ret);
/* The field's string; NULL: none. */
const char *perf_field_string(const struct perf_format_field *f, const uint8_t *raw, size_t len,
			      size_t *ret_len);
