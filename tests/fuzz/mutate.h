/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the mutators share that know the structure of what they change: a generator, and the numbers
 * at which code breaks. A mutator is a LLVMFuzzerCustomMutator(); half of what it does it leaves to
 * the fuzzer's own, so that bytes are tried, too.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

struct mutator {
	uint64_t state;
	size_t size; /* of the input: numbers near it are tried */
};

static inline struct mutator mutator_of(unsigned seed, size_t size)
{
	return (struct mutator){(seed + 1) * 0x9e3779b97f4a7c15ull, size};
}

static inline uint64_t mutator_next(struct mutator *m, uint64_t n)
{
	m->state ^= m->state << 13;
	m->state ^= m->state >> 7;
	m->state ^= m->state << 17;
	return n ? (m->state >> 11) % n : 0;
}

static inline uint64_t mutator_extreme(struct mutator *m, uint64_t old)
{
	const uint64_t numbers[] = {
		0,
		1,
		2,
		UINT64_MAX,
		UINT64_MAX / 2,
		UINT64_MAX / 2 + 1,
		UINT32_MAX,
		UINT32_MAX / 2 + 1,
		UINT16_MAX,
		4096,
		m->size,
		m->size - 1,
		m->size + 1,
		old + 1,
		old - 1,
		old * 2,
		-old,
		old + (1ull << 32),
		1ull << mutator_next(m, 64),
		(1ull << mutator_next(m, 64)) - 1,
		mutator_next(m, m->size),
		mutator_next(m, 256),
	};

	return numbers[mutator_next(m, sizeof(numbers) / sizeof(*numbers))];
}

/* A number of so many bytes at an offset, if there is room. */
static inline void mutator_number(struct mutator *m, uint8_t *data, size_t offset, size_t bytes)
{
	uint64_t v = 0;

	if (bytes > sizeof(v) || offset > m->size || bytes > m->size - offset)
		return;
	memcpy(&v, data + offset, bytes);
	v = mutator_extreme(m, v);
	memcpy(data + offset, &v, bytes);
}

static inline uint64_t mutator_read(const uint8_t *data, size_t size, uint64_t offset, size_t bytes)
{
	uint64_t v = 0;

	if (bytes <= sizeof(v) && offset <= size && bytes <= size - offset)
		memcpy(&v, data + offset, bytes);
	return v;
}
