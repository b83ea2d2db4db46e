/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Steps, time and bytes; see budget.h. */
#include "base/budget.h"

#include "base/clock.h"

#include <unistd.h>

/* The clock is read once per this many steps. */
#define CLOCK_STEPS 256u
#define MAX_BYTES (8ull << 30)

uint64_t budget_test_bytes;
static uint64_t held;

void budget_init(struct budget *b, uint64_t steps, uint64_t ns)
{
	*b = (struct budget){.steps = steps, .until_ns = ns ? clock_monotonic_ns() + ns : 0};
}

bool budget_spend(struct budget *b, uint64_t steps)
{
	if (steps >= b->steps) {
		b->steps = 0;
		return false;
	}
	b->steps -= steps;
	if (!b->until_ns)
		return true;
	b->unchecked += steps;
	if (b->unchecked < CLOCK_STEPS)
		return true;
	b->unchecked = 0;
	if (clock_monotonic_ns() >= b->until_ns)
		b->steps = 0;
	return b->steps > 0;
}

uint64_t budget_bytes(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	uint64_t half = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 2 : MAX_BYTES;

	if (budget_test_bytes)
		return budget_test_bytes;
	return half < MAX_BYTES ? half : MAX_BYTES;
}

bool budget_hold(uint64_t bytes)
{
	uint64_t before = __atomic_load_n(&held, __ATOMIC_RELAXED), max = budget_bytes();

	do {
		if (before > max || bytes > max - before)
			return false;
	} while (!__atomic_compare_exchange_n(&held, &before, before + bytes, true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return true;
}

void budget_release(uint64_t bytes)
{
	__atomic_sub_fetch(&held, bytes, __ATOMIC_RELAXED);
}
