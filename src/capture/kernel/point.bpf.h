/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For kernel.bpf.c: the await point of a task, by the layout program of its kind (agent/ring.h),
 * which the source has put into `layouts`. Uses user_word().
 */
#pragma once

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, KERNEL_MAX_PROGRAMS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct kernel_program_key);
	__type(value, __u32);
} layout_of SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, KERNEL_LAYOUT_WORDS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} layouts SEC(".maps");

#define LAYOUT_DEPTH 16u /* agent/ring.h, AGENT_PROGRAM_DEPTH */

static __always_inline __u64 layout_word(__u32 at)
{
	__u64 *word = bpf_map_lookup_elem(&layouts, &at);

	return word ? *word : 0;
}

/*
 * The await point of the task: the walk of agent/point.h. Nothing keeps the task's memory in place;
 * what is read only chooses among the existing steps, and the reader of the record checks whether
 * the task was still pending afterwards.
 */
static __always_inline __u16 await_point(const struct kernel_thread *t, __u64 vtable, __u64 header)
{
	struct kernel_program_key key = {t->tgid, vtable};
	__u32 *start = bpf_map_lookup_elem(&layout_of, &key), at;
	__u64 step, base, i;
	__u16 point = 0;

	if (!start)
		return 0;
	step = layout_word(*start);
	for (__u32 depth = 0; depth < LAYOUT_DEPTH; depth++) {
		__u32 next = step >> 16 & 0xffff, n, size;
		int failed;

		if (!next)
			break;
		at = *start + next;
		base = layout_word(at);
		i = layout_word(at + 1);
		n = i;
		size = i >> 32 & 0xff ? 0 : i >> 40; /* its kind: NODE_STATE is 0 */
		header += (__u64)(__s64)(__s32)(step >> 32);
		i = 0;
		failed = size == 1   ? bpf_probe_read_user(&i, 1, (void *)header)
			 : size == 2 ? bpf_probe_read_user(&i, 2, (void *)header)
			 : size == 4 ? bpf_probe_read_user(&i, 4, (void *)header)
			 : size == 8 ? bpf_probe_read_user(&i, 8, (void *)header)
				     : -1; /* no node with a state: the agent's alone */
		if (failed)
			break;
		i -= base;
		step = layout_word(at + 2 + (i < n ? (__u32)i : n));
		if (step & 0xffff)
			point = step & 0xffff;
	}
	return point;
}

/* The same of an async-task's, which word of whose header holds the vtable is up to the compiler.
 */
static __always_inline __u16 async_point(const struct kernel_thread *t, __u64 header)
{
	__u16 point = 0;

	for (__u32 i = 0; i < ASYNC_HEADER_WORDS && !point; i++)
		point = await_point(t, user_word(header + i * 8), header);
	return point;
}
