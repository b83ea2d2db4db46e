/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Programs get no address beyond this but by asking for it, and a reference couldn't carry it. */
#define ARCH_USER_END (1ULL << 47)

static inline uint64_t arch_ticks(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

/* The same, but not before all earlier instructions are done: the counter is read early otherwise,
 * while an access to memory that another thread holds is still under way. */
static inline uint64_t arch_ticks_after(void)
{
	__asm__ volatile("lfence" ::: "memory");
	return arch_ticks();
}

/* The thread pointer: glibc and musl both keep their thread block's own address at its start. */
static inline uint64_t arch_thread(void)
{
	uint64_t thread;

	__asm__ volatile("movq %%fs:0, %0" : "=r"(thread));
	return thread;
}

/* System calls that touch neither errno nor memory. */
static inline long arch_gettid(void)
{
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "0"(186L /* gettid */) : "rcx", "r11", "memory");
	return ret;
}

/* Wakes threads that sleep at the word, in any process. */
static inline void arch_wake(uint32_t *word)
{
	register long none __asm__("r10") = 0;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(202L /* futex */), "D"(word), "S"(1L /* FUTEX_WAKE */), "d"(1L),
			   "r"(none)
			 : "rcx", "r11", "memory");
}

/*
 * Whether the aligned word can be read, by the kernel's own attempt. rt_sigprocmask copies the set
 * first, and only then looks at what is to be done with it: of that we ask what does not exist, so
 * the answer is EINVAL, or EFAULT for a word that can't be read, and nothing is changed. It takes
 * no lock and writes nothing. A set has eight bytes; of another size the kernel would not read it.
 */
static inline bool arch_readable(uint64_t word)
{
	register long bytes __asm__("r10") = 8;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(14L /* rt_sigprocmask */), "D"(0x7fffffffL /* no SIG_* */),
			   "S"(word), "d"(0L), "r"(bytes)
			 : "rcx", "r11", "memory");
	return ret == -22 /* EINVAL */;
}

/*
 * A copy of memory that the kernel reads: what can't be read, or no longer, is false, and no fault.
 * process_vm_readv of the calling thread, whose tid this is: that needs no right.
 */
static inline bool arch_copy(long tid, void *to, uint64_t from, uint64_t bytes)
{
	struct {
		uint64_t at, bytes;
	} into = {(uint64_t)to, bytes}, out_of = {from, bytes};
	register void *remote __asm__("r10") = &out_of;
	register long n_remote __asm__("r8") = 1;
	register long flags __asm__("r9") = 0;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(310L /* process_vm_readv */), "D"(tid), "S"(&into), "d"(1L),
			   "r"(remote), "r"(n_remote), "r"(flags)
			 : "rcx", "r11", "memory");
	return ret == (long)bytes;
}

/* Private memory at a place where there is none; whatever is there stays. */
static inline void arch_fill_hole(uint64_t at, uint64_t bytes)
{
	register long flags __asm__("r10") = 0x104022; /* MAP_PRIVATE, ANONYMOUS, NORESERVE,
							* FIXED_NOREPLACE */
	register long fd __asm__("r8") = -1;
	register long offset __asm__("r9") = 0;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(9L /* mmap */), "D"(at), "S"(bytes), "d"(3L /* PROT_READ, WRITE */),
			   "r"(flags), "r"(fd), "r"(offset)
			 : "rcx", "r11", "memory");
}

/* One instruction without a lock: whole as seen by a signal handler on the same thread, cheaper
 * than an atomic. Only for words that one thread writes. */
static inline void arch_add_local(uint64_t *word, uint64_t n)
{
	__asm__ volatile("addq %1, %0" : "+m"(*word) : "er"(n) : "cc");
}

/* Has the line at hand for writing; the reader's processor may own it. */
static inline void arch_prefetch(const void *line)
{
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
}

/* Waits for a moment, in which the processor lets its other thread go on. */
static inline void arch_pause(void)
{
	__asm__ volatile("pause" ::: "memory");
}

/* The compiler must not move memory accesses across; the processor keeps stores in order. */
static inline void arch_barrier_local(void)
{
	__asm__ volatile("" ::: "memory");
}

/* Registers that calls preserve, by their DWARF numbers. */
enum arch_register { ARCH_RBX = 3, ARCH_RBP = 6, ARCH_R12 = 12, ARCH_R13, ARCH_R14 };

/* x87 and SSE registers, which the agent never touches but functions that it calls may. */
struct arch_vectors {
	uint8_t bytes[512];
} __attribute__((aligned(16)));

static inline void arch_save_vectors(struct arch_vectors *v)
{
	__asm__ volatile("fxsave64 %0" : "=m"(*v));
}

static inline void arch_restore_vectors(const struct arch_vectors *v)
{
	__asm__ volatile("fxrstor64 %0" : : "m"(*v));
}
