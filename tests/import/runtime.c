/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that behaves, to a tracer, like a runtime with probes: the seven of Tokio2Chrome's
 * Tokio as SystemTap notes, and async-std's five functions. Two workers poll tasks; what they did
 * is printed at the end, so that an imported recording of it can be compared with the truth.
 *
 *     cc -O1 -g -fno-omit-frame-pointer -pthread -o runtime runtime.c && ./runtime [tasks [polls]]
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Version 3 of the note, as <sys/sdt.h> writes it, for one to three arguments in registers. */
#define NOTE(name, args)                                                                           \
	"990: nop\n"                                                                               \
	".pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n"                                   \
	".4byte 992f-991f, 994f-993f, 3\n991: .asciz \"stapsdt\"\n992: .balign 4\n"                \
	"993: .8byte 990b, _.stapsdt.base, 0\n.asciz \"tokio\"\n.asciz \"" name                    \
	"\"\n.asciz \"" args "\"\n994: .balign 4\n.popsection\n"                                   \
	".ifndef _.stapsdt.base\n"                                                                 \
	".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                    \
	".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n"                 \
	".size _.stapsdt.base, 1\n.popsection\n.endif\n"
#define PROBE1(name, a)                                                                            \
	__attribute__((noinline)) static void name(uint64_t a)                                     \
	{                                                                                          \
		__asm__ volatile(NOTE(#name, "-8@%0") : : "r"(a));                                 \
	}

PROBE1(task_start, id)
PROBE1(task_schedule_start, id)
PROBE1(task_poll_begin, id)
PROBE1(task_finish, id)
__attribute__((noinline)) static void task_poll_end(uint64_t id, uint64_t ready, uint64_t panicked)
{
	__asm__ volatile(NOTE("task_poll_end", "-8@%0 -8@%1 -8@%2")
			 :
			 : "r"(id), "r"(ready), "r"(panicked));
}
__attribute__((noinline)) static void task_blocking_begin(void)
{
	__asm__ volatile(NOTE("task_blocking_begin", "") : :);
}
__attribute__((noinline)) static void task_blocking_end(void)
{
	__asm__ volatile(NOTE("task_blocking_end", "") : :);
}

#define FUNCTION(name, ...)                                                                        \
	__attribute__((noinline, noipa)) void async_std_##name(__VA_ARGS__)                        \
	{                                                                                          \
		__asm__ volatile("" : : : "memory");                                               \
	}
FUNCTION(task_spawn, uint64_t task_id, uint64_t parent_id, const char *name)
FUNCTION(task_completed, uint64_t task_id)
FUNCTION(machine_scheduled_task, uint64_t machine_addr, uint64_t task_id, uint64_t local)
FUNCTION(machine_blocked, uint64_t machine_addr)
FUNCTION(machine_starting, uint64_t machine_addr)

static _Atomic uint64_t n_spawned, n_polls, n_ready, n_blocking;
static uint64_t n_tasks = 20, polls_per_task = 3;
static volatile uint64_t sink;

__attribute__((noinline)) static void compute(unsigned us)
{
	struct timespec begin, now;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		for (unsigned i = 0; i < 200; i++)
			sink += i;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < us);
}

static void *worker(void *arg)
{
	uint64_t number = (uint64_t)(uintptr_t)arg, machine = 0x55d0aa001000 + number * 0x100;
	char name[16];
	snprintf(name, sizeof(name), "tokio worker %u", (unsigned)number);
	pthread_setname_np(pthread_self(), name);
	async_std_machine_starting(machine);
	if (number == 2) /* has nothing to do, ever */
		return NULL;
	for (uint64_t i = number; i < n_tasks; i += 2) {
		uint64_t id = i + 1, parent = i < 2 ? 0 : number + 1;
		async_std_task_spawn(id, parent, NULL);
		task_start(id);
		n_spawned++;
		for (uint64_t p = 0; p < polls_per_task; p++) {
			bool ready = p + 1 == polls_per_task && i % 5 != 4;
			task_schedule_start(id);
			async_std_machine_scheduled_task(machine, id, p == 0);
			task_poll_begin(id);
			compute(200);
			if (p == 1 && i % 4 == 1) {
				task_blocking_begin();
				usleep(300);
				task_blocking_end();
				n_blocking++;
				async_std_machine_blocked(machine);
			}
			task_poll_end(id, ready, 0);
			n_polls++;
			if (ready) {
				n_ready++;
				task_finish(id);
				task_finish(id);
				async_std_task_completed(id);
			}
			usleep(200);
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[3];

	if (argc > 1)
		n_tasks = strtoull(argv[1], NULL, 10);
	if (argc > 2)
		polls_per_task = strtoull(argv[2], NULL, 10);
	for (uintptr_t i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, worker, (void *)i);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	printf("{\"spawned\": %lu, \"polls\": %lu, \"ready\": %lu, \"blocking\": %lu}\n", n_spawned,
	       n_polls, n_ready, n_blocking);
	return 0;
}
