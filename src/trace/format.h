/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The numbers of the file format, as specified in docs/trace-format.md. Private to this module. */
#pragma once

#include "trace/crc32c.h"

#include <stddef.h>
#include <stdint.h>

#define PLX_MAGIC "\x89PLX\r\n\x1a\n"
#define PLX_MAJOR 1u
#define PLX_MINOR 10u

struct plx_header {
	uint8_t magic[8];
	uint16_t major, minor;
	uint32_t header_bytes;
	uint64_t needed_features; /* unknown bits: refuse */
	uint64_t other_features;  /* unknown bits: ignore */
	char tool[24];
	uint32_t reserved;
	uint32_t checksum; /* of all before */
};
_Static_assert(sizeof(struct plx_header) == 64, "plx_header");
_Static_assert(offsetof(struct plx_header, tool) == 32, "plx_header.tool");
_Static_assert(offsetof(struct plx_header, checksum) == 60, "plx_header.checksum");

enum plx_chunk_type { PLX_META = 1, PLX_EVENTS, PLX_ROUND, PLX_END, PLX_MOMENT };

struct plx_chunk_header {
	uint16_t type;	/* enum plx_chunk_type */
	uint16_t flags; /* 0 */
	uint32_t size;	/* of the payload */
	uint32_t payload_checksum;
	uint32_t checksum; /* of all before */
};
_Static_assert(sizeof(struct plx_chunk_header) == 16, "plx_chunk_header");
_Static_assert(offsetof(struct plx_chunk_header, checksum) == 12, "plx_chunk_header.checksum");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file is little-endian");

enum plx_record_type {
	PLX_PROCESS = 1,
	PLX_RUNTIME,
	PLX_THREAD,
	PLX_THREAD_NAME,
	PLX_KIND,
	PLX_COVERAGE,
	PLX_COST,
	PLX_PLACE,
	PLX_FRAME,
	PLX_STACK,
	PLX_CPU,
	PLX_NEIGHBOUR,
	PLX_MESSAGE,
};

/* Records in a MOMENT chunk, and what a task's flags are. */
enum plx_moment_record {
	PLX_MOMENT_HEAD = 1,
	PLX_MOMENT_STRING,
	PLX_MOMENT_KIND,
	PLX_MOMENT_TASK,
	PLX_MOMENT_THREAD,
	PLX_MOMENT_NOTE,
};
enum plx_moment_task {
	PLX_MOMENT_CANCELLED = 1,
	PLX_MOMENT_JOIN_INTEREST = 2,
	PLX_MOMENT_TORN = 4,
	PLX_MOMENT_IN_NO_QUEUE = 8,
};

/* Of what a node holds. */
enum plx_moment_held_flags {
	PLX_MOMENT_COUNTED = 1,
	PLX_MOMENT_CLOSED = 2,
};

/* How an event of a shape gets its name (kind, task), and more. */
enum plx_how {
	PLX_NAME_NONE = 0,
	PLX_NAME_SAME,
	PLX_NAME_OPEN,
	PLX_NAME_LISTED,
	PLX_NAME_NEW,
	PLX_NAME_MASK = 7,
	PLX_PUSH = 8,
	PLX_VALUE = 16,
	PLX_HOW_MASK = 31,
};

enum plx_column {
	PLX_TAGS = 0,
	PLX_TIME_LOW,
	PLX_TIME_HIGH,
	PLX_NAME_LOW,
	PLX_NAME_HIGH,
	PLX_REST,
	PLX_N_COLUMNS,
};

#define PLX_MAX_CHUNK_BYTES (16u << 20)
#define PLX_MAX_HEADER_BYTES 4096u
#define PLX_MAX_EVENTS 65536u
#define PLX_MAX_SHAPES 64u
#define PLX_MAX_COLUMNS 16u
#define PLX_MAX_RAW_BYTES (64u << 20)
#define PLX_MAX_OPEN 64u
#define PLX_MAX_MOMENT_BYTES (16u << 20)
#define PLX_MAX_STRING 65536u
#define PLX_MAX_INDEX 4194303u
#define PLX_MAX_SITES 65536u
/* New names: a uleb of 32 bits, one of 64; a value: one of 64. */
#define PLX_MAX_REST_BYTES 25u
#define PLX_N_KIND_SLOTS 16u

/* A record has at least a type, a length and its index. Indices are counted up, and what was
 * damaged still takes its place: so there is none beyond this before that byte of the file. */
#define PLX_MIN_RECORD_BYTES 3u
static inline uint64_t plx_max_index(uint64_t offset)
{
	return offset / PLX_MIN_RECORD_BYTES;
}
