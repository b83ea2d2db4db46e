/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "timeline/fan_out.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* Of some thirty sinks a handful wants an item: most of the time would go into asking all of them. */
static void sort(struct fan_out *all)
{
	assert(all->n <= FAN_OUT_MOST);
	for (size_t member = 0; member < FAN_OUT_MEMBERS; member++)
		for (size_t i = 0; i < all->n; i++) {
			int (*has)(void);

			memcpy(&has, (const char *)all->sinks[i].sink + member * sizeof(has),
			       sizeof(has));
			if (has)
				all->of[member][all->n_of[member]++] = (uint8_t)i;
		}
	all->sorted = true;
}

#define PASS_ON(member, ...)                                                                       \
	do {                                                                                       \
		enum { M = offsetof(struct timeline_sink, member) / sizeof(int (*)(void)) };       \
		struct fan_out *all = ctx;                                                         \
                                                                                                   \
		if (!all->sorted)                                                                  \
			sort(all);                                                                 \
		for (size_t i = 0; i < all->n_of[M]; i++) {                                        \
			const struct fan_out_sink *to = &all->sinks[all->of[M][i]];                \
			int r = to->sink->member(to->ctx, __VA_ARGS__);                            \
                                                                                                   \
			if (r < 0)                                                                 \
				return r;                                                          \
		}                                                                                  \
		return 0;                                                                          \
	} while (0)

static int pass_task_begin(void *ctx, struct tl_task *task)
{
	PASS_ON(task_begin, task);
}

static int pass_task_end(void *ctx, struct tl_task *task)
{
	PASS_ON(task_end, task);
}

static int pass_poll(void *ctx, const struct tl_poll *poll)
{
	PASS_ON(poll, poll);
}

static int pass_wait(void *ctx, const struct tl_wait *wait)
{
	PASS_ON(wait, wait);
}

static int pass_wake(void *ctx, const struct tl_wake *wake)
{
	PASS_ON(wake, wake);
}

static int pass_block(void *ctx, const struct tl_block *block)
{
	PASS_ON(block, block);
}

static int pass_section(void *ctx, const struct tl_section *section)
{
	PASS_ON(section, section);
}

static int pass_park(void *ctx, const struct tl_park *park)
{
	PASS_ON(park, park);
}

static int pass_syscall(void *ctx, const struct tl_syscall *call)
{
	PASS_ON(syscall, call);
}

static int pass_off_cpu(void *ctx, const struct tl_off_cpu *off)
{
	PASS_ON(off_cpu, off);
}

static int pass_sample(void *ctx, const struct tl_sample *sample)
{
	PASS_ON(sample, sample);
}

static int pass_future_poll(void *ctx, const struct tl_future_poll *poll)
{
	PASS_ON(future_poll, poll);
}

static int pass_future_end(void *ctx, struct tl_future *future)
{
	PASS_ON(future_end, future);
}

static int pass_machine(void *ctx, const struct tl_machine *machine)
{
	PASS_ON(machine, machine);
}

static int pass_loss(void *ctx, const struct tl_loss *loss)
{
	PASS_ON(loss, loss);
}

static int pass_thread_end(void *ctx, const struct tl_thread *thread)
{
	PASS_ON(thread_end, thread);
}

static int pass_stray_wake(void *ctx, uint32_t kind, uint32_t thread, uint64_t time_ns)
{
	PASS_ON(stray_wake, kind, thread, time_ns);
}

static int pass_worker_begin(void *ctx, uint32_t thread, uint64_t time_ns)
{
	PASS_ON(worker_begin, thread, time_ns);
}

static int pass_worker_end(void *ctx, uint32_t thread, uint64_t time_ns)
{
	PASS_ON(worker_end, thread, time_ns);
}

const struct timeline_sink fan_out_sink = {
	.task_begin = pass_task_begin,
	.task_end = pass_task_end,
	.poll = pass_poll,
	.wait = pass_wait,
	.wake = pass_wake,
	.block = pass_block,
	.section = pass_section,
	.park = pass_park,
	.syscall = pass_syscall,
	.off_cpu = pass_off_cpu,
	.sample = pass_sample,
	.future_poll = pass_future_poll,
	.future_end = pass_future_end,
	.machine = pass_machine,
	.loss = pass_loss,
	.thread_end = pass_thread_end,
	.stray_wake = pass_stray_wake,
	.worker_begin = pass_worker_begin,
	.worker_end = pass_worker_end,
};
