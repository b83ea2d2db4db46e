/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The mutator of perf.data: fields of its head and its attributes, types, sizes and first words of
 * its events at their extremes; events twice or not at all. Format: tools/perf/Documentation/
 * perf.data-file-format.txt of Linux. */
#include "mutate.h"

#include <stdbool.h>

enum { HEAD = 104, DATA_OFFSET = 40, DATA_SIZE = 48, ATTRS_OFFSET = 24, EVENT_HEAD = 8 };

/* The offset of some event; 0: there is none. */
static size_t some_event(struct mutator *m, const uint8_t *data)
{
	uint64_t at = mutator_read(data, m->size, DATA_OFFSET, 8), found = 0;
	bool pipe = mutator_read(data, m->size, 8, 8) == 16;

	if (pipe)
		at = 16;
	for (unsigned n = 1; at < m->size && m->size - at >= EVENT_HEAD; n++) {
		uint64_t bytes = mutator_read(data, m->size, at + 6, 2);

		if (mutator_next(m, n) == 0)
			found = at;
		if (bytes < EVENT_HEAD)
			break;
		at += bytes;
	}
	return (size_t)found;
}

static size_t copy_event(struct mutator *m, uint8_t *data, size_t event, size_t max_size)
{
	size_t bytes = (size_t)mutator_read(data, m->size, event + 6, 2), rest = m->size - event;
	uint64_t all = mutator_read(data, m->size, DATA_SIZE, 8);

	if (!event || !bytes || bytes > rest)
		return m->size;
	if (mutator_next(m, 2) && bytes <= max_size - m->size) {
		memmove(data + event + bytes, data + event, rest);
		all += bytes;
		m->size += bytes;
	} else {
		memmove(data + event, data + event + bytes, rest - bytes);
		all -= bytes;
		m->size -= bytes;
	}
	if (m->size >= DATA_SIZE + sizeof(all))
		memcpy(data + DATA_SIZE, &all, sizeof(all));
	return m->size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	struct mutator m = mutator_of(seed, size);
	size_t event;

	if (mutator_next(&m, 3) == 0 || size < 16 || size > max_size)
		return LLVMFuzzerMutate(data, size, max_size);
	for (uint64_t n = 1 + mutator_next(&m, 3); n; n--) {
		event = some_event(&m, data);
		switch (mutator_next(&m, 8)) {
		case 0:
			mutator_number(&m, data, 8 + mutator_next(&m, HEAD / 8) * 8, 8);
			break;
		case 1:
			mutator_number(&m, data,
				       mutator_read(data, size, ATTRS_OFFSET, 8) +
					       mutator_next(&m, 20) * 8,
				       8);
			break;
		case 2:
			mutator_number(&m, data, event, 4);
			break;
		case 3:
			mutator_number(&m, data, event + 6, 2);
			break;
		case 4:
			size = copy_event(&m, data, event, max_size);
			break;
		default:
			mutator_number(&m, data, event + EVENT_HEAD + mutator_next(&m, 12) * 4,
				       mutator_next(&m, 2) ? 4 : 8);
		}
	}
	return size;
}
