/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls that block, by the GOT entry through which they go. Rust binaries call libc by
 * `call *x@GOTPCREL(%rip)` with GLOB_DAT entries, C code in them through a PLT with JUMP_SLOT: both
 * are words that can be swapped. A static program calls directly; with symbols these calls are
 * found. What passes neither isn't seen: waits inside libc itself, and `syscall` instructions in
 * the program's own code (rustix in its linux_raw form); those are counted.
 */
#include "base/compare.h"
#include "runtime/find.h"

#include "base/cleanup.h"
#include "binary/code/code_index.h"
#include "binary/code/insn.h"
#include "binary/code/code_refs.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *symbol;
	uint16_t call;
	bool waits; /* a thread goes there to wait */
} table[] = {
	{"syscall", TB_FUTEX, true},
	{"epoll_wait", TB_EPOLL_WAIT, true},
	{"epoll_pwait", TB_EPOLL_PWAIT, true},
	{"epoll_pwait2", TB_EPOLL_PWAIT2, true},
	{"poll", TB_POLL, true},
	{"ppoll", TB_PPOLL, true},
	{"select", TB_SELECT, true},
	{"nanosleep", TB_NANOSLEEP, true},
	{"clock_nanosleep", TB_CLOCK_NANOSLEEP, true},
	{"usleep", TB_USLEEP, true},
	{"sleep", TB_SLEEP, true},
	{"read", TB_READ},
	{"pread", TB_PREAD},
	{"pread64", TB_PREAD},
	{"readv", TB_READV},
	{"write", TB_WRITE},
	{"pwrite", TB_PWRITE},
	{"pwrite64", TB_PWRITE},
	{"writev", TB_WRITEV},
	{"recv", TB_RECV},
	{"recvfrom", TB_RECVFROM},
	{"recvmsg", TB_RECVMSG},
	{"send", TB_SEND},
	{"sendto", TB_SENDTO},
	{"sendmsg", TB_SENDMSG},
	{"accept", TB_ACCEPT},
	{"accept4", TB_ACCEPT4},
	{"connect", TB_CONNECT},
	{"fsync", TB_FSYNC},
	{"fdatasync", TB_FDATASYNC},
	{"flock", TB_FLOCK},
	{"waitpid", TB_WAITPID, true},
	{"waitid", TB_WAITID, true},
	{"pthread_join", TB_PTHREAD_JOIN, true},
	{"pthread_mutex_lock", TB_PTHREAD_MUTEX_LOCK},
	{"pthread_cond_wait", TB_PTHREAD_COND_WAIT, true},
	{"pthread_cond_timedwait", TB_PTHREAD_COND_TIMEDWAIT, true},
	{"getaddrinfo", TB_GETADDRINFO},
	{"sched_yield", TB_SCHED_YIELD},
	{"_Unwind_RaiseException", TB_NONE},
};
#define N_ROWS (sizeof(table) / sizeof(table[0]))

const char *calls_symbol(const char *name)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (!strcmp(table[i].symbol, name))
			return table[i].symbol;
	return NULL;
}

/*
 * `syscall` instructions, in a function that has the two bytes and decodes to one. libc's own in a
 * static program and the loader's are no news; what counts is the program's code.
 */
static bool is_libc(const struct elf_symbol *s)
{
	/* libc's functions are C symbols; Rust's are mangled. */
	return s && strncmp(s->name, "_ZN", 3) != 0 && strncmp(s->name, "_R", 2) != 0;
}

struct counting {
	size_t n_libc, n_own;
};

/* In the function [start, end): up to the last place that looks like one. */
static size_t count_in(struct elf_image *image, uint64_t start, uint64_t end, uint64_t last)
{
	struct insn_walk w;
	struct insn in;
	size_t n = 0, passed;

	if (!insn_walk_init(&w, image, start, end))
		return 0;
	while (w.addr <= last && insn_next_reference(&w, &in, &passed) > 0)
		n += in.op == INSN_SYSCALL;
	return n;
}

static int count_syscalls(struct elf_image *image, struct counting *c)
{
	const struct code_index *index = code_index_of(image);
	const uint64_t *hits;
	size_t n_hits, next;

	if (!index)
		return -ENOMEM;
	hits = code_index_syscalls(index, &n_hits);
	for (size_t i = 0; i < n_hits; i = next) {
		uint64_t start, end;
		size_t n;

		next = i + 1;
		if (!elf_image_function(image, hits[i], &start, &end))
			continue;
		while (next < n_hits && hits[next] < end)
			next++;
		n = count_in(image, start, end, hits[next - 1]);
		if (n && is_libc(elf_image_symbol_at(image, hits[i])))
			c->n_libc += n;
		else
			c->n_own += n;
	}
	return 0;
}

/* A function of a static program that is in the table. */
struct local {
	uint64_t addr;
	size_t row;
};

static int by_addr(const void *a, const void *b)
{
	const struct local *x = a, *y = b;

	return ASCENDING(x->addr, y->addr);
}

static size_t find_locals(struct elf_image *image, struct local *ret, size_t max)
{
	const struct elf_symbol *s;
	size_t n = elf_image_symbols(image, &s), found = 0;

	for (size_t i = 0; i < n && found < max; i++) {
		if (s[i].type != STT_FUNC)
			continue;
		for (size_t k = 0; k < N_ROWS && found < max; k++)
			if (!strcmp(s[i].name, table[k].symbol))
				ret[found++] = (struct local){s[i].addr, k};
	}
	qsort(ret, found, sizeof(*ret), by_addr);
	return found;
}

/* Calls of Rust code count, not libc's own; a panic's start is called by a function that has a C
 * name in some versions, but is no part of the unwinder. */
static bool counts(struct elf_image *image, uint64_t at, uint16_t call)
{
	const struct elf_symbol *s = elf_image_symbol_at(image, at);

	return s && (!is_libc(s) || (call == TB_NONE && strncmp(s->name, "_Unwind", 7) != 0));
}

/* In a static program all goes by direct calls, and by words that the linker left of the GOT. */
static int find_own(struct elf_image *image, struct runtime_scan *f)
{
	_cleanup_(code_refs_done) struct code_refs uses = {0};
	struct local locals[2 * N_ROWS];
	uint64_t targets[2 * N_ROWS];
	size_t n = find_locals(image, locals, 2 * N_ROWS);

	for (size_t i = 0; i < n; i++)
		targets[i] = locals[i].addr;
	TRY(n ? code_refs_find(image, targets, n, CODE_REFS_ALL, &uses) : 0);
	for (size_t i = 0; i < uses.n; i++) {
		const struct code_ref *u = &uses.v[i];
		const struct local key = {u->target, 0};
		const struct local *l = bsearch(&key, locals, n, sizeof(*locals), by_addr);

		if (!l || (u->kind != REF_BRANCH && u->kind != REF_WORD))
			continue;
		if (u->kind == REF_BRANCH && !counts(image, u->operand, table[l->row].call))
			continue;
		TRY(find_add_call(f, &(struct scan_call){.slot = u->operand,
							 .function = u->target,
							 .direct = u->kind == REF_BRANCH,
							 .call = table[l->row].call,
							 .waits = table[l->row].waits,
							 .symbol = table[l->row].symbol}));
	}
	return 0;
}

static int cover(struct runtime_scan *f, size_t n_libc)
{
	uint64_t hidden = f->n_inline_syscalls;
	size_t n = 0;

	for (size_t i = 0; i < f->n_calls; i++)
		n += f->calls[i].call != TB_NONE;
	if (f->is_static && !n)
		return find_cover_as(f, TRACE_COVER_CALLS, "blocking calls", 0,
				     n_libc + hidden ? n_libc + hidden : 1,
				     "a static program calls libc directly, and without symbols "
				     "nothing shows where: blocking and parking aren't seen");
	return find_cover_as(
		f, TRACE_COVER_CALLS, "blocking calls", n, n + hidden, "%s",
		hidden	 ? "some code makes system calls itself, not through libc (rustix)"
		: n == 0 ? "this object imports none"
			 : "");
}

int calls_find(struct elf_image *image, struct runtime_scan *f)
{
	const struct elf_import *imports;
	struct counting counting = {0};
	size_t n = elf_image_imports(image, &imports);

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < N_ROWS; k++) {
			int r;

			if (strcmp(imports[i].name, table[k].symbol) != 0)
				continue;
			r = find_add_call(f, &(struct scan_call){.slot = imports[i].slot,
								 .call = table[k].call,
								 .waits = table[k].waits,
								 .symbol = table[k].symbol});
			if (r < 0)
				return r;
			break;
		}
	}
	if (f->is_static && f->n_runtimes) {
		int r = find_own(image, f);

		if (r < 0)
			return r;
	}
	if (!f->n_runtimes)
		return 0;
	TRY(count_syscalls(image, &counting));
	f->n_inline_syscalls += counting.n_own;
	return cover(f, counting.n_libc);
}
