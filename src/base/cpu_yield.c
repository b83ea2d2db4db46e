/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/cpu_yield.h"

#include "base/clock.h"
#include "base/units.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#define HURRY_FILL 0.4
#define CALM_FILL 0.2
/* How long the hurry goes on after the last buffer that was a fifth full. */
#define HURRY_NS (200 * NSEC_PER_MSEC)
#define FIRST_NICE (-10)
/* pollux works for this time; others may not be kept waiting for longer. */
#define PIECE_NS 20000u
/* Who has been away for longer stays for as long as a round takes. */
#define AWAY_NS 500000u
#define STAY_NS (4 * NSEC_PER_MSEC)

static struct {
	bool begun, hurry;
	int calm_nice;
	uint64_t hurry_until_ns, pass_ns;
} turn;

static void schedule_as(bool hurry)
{
	const struct sched_param none = {0};
	int policy = sched_getscheduler(0);

	if (policy == SCHED_OTHER || policy == SCHED_BATCH)
		sched_setscheduler(0, hurry ? SCHED_OTHER : SCHED_BATCH, &none);
	setpriority(PRIO_PROCESS, 0, hurry ? FIRST_NICE : turn.calm_nice);
	turn.hurry = hurry;
}

void cpu_yield_begin(void)
{
	turn.calm_nice = getpriority(PRIO_PROCESS, 0);
	turn.begun = true;
	schedule_as(false);
}

void cpu_yield_buffer_fill(double fill)
{
	uint64_t now;

	if (!turn.begun || (fill <= CALM_FILL && !turn.hurry))
		return;
	now = clock_monotonic_ns();
	if (fill > CALM_FILL)
		turn.hurry_until_ns = now + HURRY_NS;
	if (fill > HURRY_FILL && !turn.hurry)
		schedule_as(true);
	else if (turn.hurry && now >= turn.hurry_until_ns)
		schedule_as(false);
}

void cpu_yield(void)
{
	uint64_t now, back;

	if (!turn.begun || turn.hurry)
		return;
	now = clock_monotonic_ns();
	if (now < turn.pass_ns)
		return;
	sched_yield();
	back = clock_monotonic_ns();
	turn.pass_ns = back + (back - now > AWAY_NS ? STAY_NS : PIECE_NS);
}
