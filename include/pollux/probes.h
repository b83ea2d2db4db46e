/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Probes for a runtime: the provider `tokio` with tokio-dtrace's eight probes and their arguments,
 * for x86-64 and aarch64 Linux, as notes that SystemTap, bpftrace, perf and pollux read. Needs
 * nothing but the compiler (gcc or clang) and may be included in as many files as one likes.
 *
 *     #include <pollux/probes.h>
 *
 *     pollux_task_spawn(id, "src/main.rs", 42, 5);
 *     pollux_task_poll_start(id, "src/main.rs", 42, 5);
 *     pollux_task_poll_end(id, "src/main.rs", 42, 5);
 *     pollux_task_terminate(id, "src/main.rs", 42, 5); (in the last poll, or where it is cancelled)
 *     pollux_worker_thread_start(), _stop(), _park(), _unpark();
 *
 * `file` is a 0-terminated string, line and column are where the task was spawned: the same at each
 * of a task's probes. Arguments are evaluated only while somebody listens. A probe that nobody
 * listens to costs the load of a counter (its semaphore) and a branch that isn't taken; to prepare
 * more than arguments, ask POLLUX_ENABLED(task_spawn) before.
 *
 * On other machines the probes are nothing.
 */
#ifndef POLLUX_PROBES_H
#define POLLUX_PROBES_H

#include <stdint.h>

#if defined(__linux__) && defined(__LP64__) && (defined(__x86_64__) || defined(__aarch64__))

/* Whoever listens counts it up. Files that include this share one. */
#define POLLUX_SEMAPHORE(probe)                                                                    \
	__attribute__((weak, visibility("hidden"), section(".probes"), aligned(2),                 \
		       used)) volatile uint16_t pollux_semaphore_##probe

POLLUX_SEMAPHORE(task_spawn) = 0;
POLLUX_SEMAPHORE(task_poll_start) = 0;
POLLUX_SEMAPHORE(task_poll_end) = 0;
POLLUX_SEMAPHORE(task_terminate) = 0;
POLLUX_SEMAPHORE(worker_thread_start) = 0;
POLLUX_SEMAPHORE(worker_thread_stop) = 0;
POLLUX_SEMAPHORE(worker_thread_park) = 0;
POLLUX_SEMAPHORE(worker_thread_unpark) = 0;

#define POLLUX_ENABLED(probe) __builtin_expect(pollux_semaphore_##probe, 0)

/* A note of version 3: its head; the addresses of the site, of the base that tells a prelinked
 * program, and of the semaphore; three strings. */
#define POLLUX_NOTE(probe, name, args)                                                             \
	"990:	nop\n"                                                                               \
	"	.pushsection .note.stapsdt, \"\", \"note\"\n"                                            \
	"	.balign 4\n"                                                                             \
	"	.4byte 992f - 991f, 994f - 993f, 3\n"                                                    \
	"991:	.asciz \"stapsdt\"\n"                                                                \
	"992:	.balign 4\n"                                                                         \
	"993:	.8byte 990b, _.stapsdt.base, pollux_semaphore_" #probe "\n"                        \
	"	.asciz \"tokio\"\n"                                                                      \
	"	.asciz \"" name "\"\n"                                                             \
	"	.asciz \"" args "\"\n"                                                             \
	"994:	.balign 4\n"                                                                         \
	"	.popsection\n"                                                                           \
	"	.ifndef _.stapsdt.base\n"                                                                \
	"	.pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"               \
	"	.weak _.stapsdt.base\n"                                                                  \
	"	.hidden _.stapsdt.base\n"                                                                \
	"_.stapsdt.base:\n"                                                                        \
	"	.space 1\n"                                                                              \
	"	.size _.stapsdt.base, 1\n"                                                               \
	"	.popsection\n"                                                                           \
	"	.endif\n"

#define POLLUX_PROBE0(probe, name)                                                                 \
	do {                                                                                       \
		if (POLLUX_ENABLED(probe))                                                         \
			__asm__ volatile(POLLUX_NOTE(probe, name, ""));                            \
	} while (0)

#if defined(__x86_64__)
#define POLLUX_TASK_ARGS "8@%%rdi 8@%%rsi 4@%%edx 4@%%ecx"
#define POLLUX_IN(x86) x86
#define POLLUX_REGISTER(type, name, arm) type name
#else
#define POLLUX_TASK_ARGS "8@x0 8@x1 4@w2 4@w3"
#define POLLUX_IN(x86) "r"
#define POLLUX_REGISTER(type, name, arm) register type name __asm__(arm)
#endif

/* The arguments in the registers of a call, whatever the compiler would choose. */
#define POLLUX_TASK_PROBE(probe, name, id, file, line, column)                                     \
	do {                                                                                       \
		if (POLLUX_ENABLED(probe)) {                                                       \
			uint64_t pollux_id_ = (id);                                                \
			const char *pollux_file_ = (file);                                         \
			uint32_t pollux_line_ = (line), pollux_column_ = (column);                 \
			POLLUX_REGISTER(uint64_t, pollux_0_, "x0") = pollux_id_;                   \
			POLLUX_REGISTER(const char *, pollux_1_, "x1") = pollux_file_;             \
			POLLUX_REGISTER(uint32_t, pollux_2_, "x2") = pollux_line_;                 \
			POLLUX_REGISTER(uint32_t, pollux_3_, "x3") = pollux_column_;               \
			__asm__ volatile(POLLUX_NOTE(probe, name, POLLUX_TASK_ARGS)                \
					 :                                                         \
					 : POLLUX_IN("D")(pollux_0_), POLLUX_IN("S")(pollux_1_),   \
					   POLLUX_IN("d")(pollux_2_), POLLUX_IN("c")(pollux_3_)    \
					 : "memory");                                              \
		}                                                                                  \
	} while (0)

#else

#define POLLUX_ENABLED(probe) 0
#define POLLUX_PROBE0(probe, name) ((void)0)
#define POLLUX_TASK_PROBE(probe, name, id, file, line, column)                                     \
	((void)sizeof(id), (void)sizeof(file), (void)sizeof(line), (void)sizeof(column))

#endif

#define pollux_task_spawn(id, file, line, column)                                                  \
	POLLUX_TASK_PROBE(task_spawn, "task-spawn", id, file, line, column)
#define pollux_task_poll_start(id, file, line, column)                                             \
	POLLUX_TASK_PROBE(task_poll_start, "task-poll-start", id, file, line, column)
#define pollux_task_poll_end(id, file, line, column)                                               \
	POLLUX_TASK_PROBE(task_poll_end, "task-poll-end", id, file, line, column)
#define pollux_task_terminate(id, file, line, column)                                              \
	POLLUX_TASK_PROBE(task_terminate, "task-terminate", id, file, line, column)
#define pollux_worker_thread_start() POLLUX_PROBE0(worker_thread_start, "worker-thread-start")
#define pollux_worker_thread_stop() POLLUX_PROBE0(worker_thread_stop, "worker-thread-stop")
#define pollux_worker_thread_park() POLLUX_PROBE0(worker_thread_park, "worker-thread-park")
#define pollux_worker_thread_unpark() POLLUX_PROBE0(worker_thread_unpark, "worker-thread-unpark")

#endif
