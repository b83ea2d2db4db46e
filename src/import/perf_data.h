/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A perf.data file while it is read: perf_data.c takes the file apart and puts its records in
 * order, perf_records.c knows what they mean. Private to this module.
 */
#pragma once

#include "import/input.h"
#include "import/perf_attr.h"
#include "import/perf_symbols.h"
#include "import/sink.h"

#include <zstd.h>

/* Records that perf itself adds, and features: see the head. */
enum {
	PERF_REC_ATTR = 64,
	PERF_REC_TRACING_DATA = 66,
	PERF_REC_BUILD_ID = 67,
	PERF_REC_FINISHED_ROUND = 68,
	PERF_REC_AUXTRACE = 71,
	PERF_REC_EVENT_UPDATE = 78,
	PERF_REC_FEATURE = 80,
	PERF_REC_COMPRESSED = 81,
	PERF_REC_COMPRESSED2 = 83,
	PERF_FEAT_TRACING_DATA = 1,
	PERF_FEAT_BUILD_ID = 2,
	PERF_FEAT_HOSTNAME = 3,
	PERF_FEAT_ARCH = 6,
	PERF_FEAT_EVENT_DESC = 12,
	PERF_FEAT_DIR_FORMAT = 24,
	PERF_FEAT_MAX = 256,
	PERF_EVENT_UPDATE_NAME = 2,
	PERF_DIR_VERSION = 1,
	PERF_MISC_BUILD_ID_SIZE = 1 << 15,
};

struct perf_file_header {
	char magic[8];
	uint64_t size, attr_size;
	struct {
		uint64_t offset, size;
	} attrs, data, event_types;
	uint64_t features[4];
};
_Static_assert(sizeof(struct perf_file_header) == 104, "perf_file_header");

/* How every record begins. */
struct perf_record_head {
	uint32_t type;
	uint16_t misc, size;
};
_Static_assert(sizeof(struct perf_record_head) == 8, "perf_event_header");

/* One file of records: the recording's only one, or one of a folder's. */
struct perf_stream {
	struct input *in;
	uint64_t end; /* offset; UINT64_MAX: as long as there are some */
	ZSTD_DStream *zstd;
	uint8_t *plain; /* decompressed, ZSTD_ROOM */
	size_t plain_n;
	bool cut;
	uint64_t max_ns; /* the latest time in it so far */
};

struct perf_data {
	struct input *in;	    /* the file with the header */
	struct perf_stream *stream; /* that is being read */
	struct sink *sink;
	struct perf_attrs attrs;
	struct perf_formats formats;
	struct perf_symbols *symbols;
	struct order order;
	size_t waiting_bytes;
	uint64_t round_ns, max_ns; /* of the round before; of all so far */
	uint64_t n_records, n_known;
	uint64_t number; /* of the record at hand */
	bool in_parts;	 /* files that were written at the same time: no rounds */
	struct error *err;
};

void perf_diagnose(struct perf_data *d, const char *reason, const char *detail);

/* A record of the kernel, in its turn by time. Negative errno of the sink. */
int perf_record(struct perf_data *d, const uint8_t *bytes);
