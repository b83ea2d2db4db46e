/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For kernel.bpf.c: what a USDT probe is called with: its arguments from the registers and memory
 * that its note names, and the strings among them.
 */
#pragma once

#define MAX_WORDS 34u /* of registers, on aarch64 */

static __always_inline __u64 word_of(const __u64 *words, __u8 word)
{
	__u32 i = word;

	asm volatile("" : "+r"(i));
	return i < MAX_WORDS ? words[i] : 0;
}

/* The raw bytes of an argument, not yet cut to its size. */
static __always_inline int argument(const struct kernel_arg *a, const __u64 *words, __u64 *ret)
{
	__u64 base = word_of(words, a->base), index, value = 0;
	__u32 size = a->size;

	switch (a->form) {
	case KA_CONST:
		*ret = a->value;
		return 0;
	case KA_REG:
		*ret = base >> (a->shift & 63);
		return 0;
	case KA_MEMORY:
		index = word_of(words, a->index);
		if (a->index_bits == 32)
			index = a->index_signed ? (__u64)(__s64)(__s32)index : (__u32)index;
		base += (index << (a->shift & 63)) + (__u64)a->value;
		/* Constant sizes: the verifier of older kernels follows no other on a stack. */
		if (size == 1	? bpf_probe_read_user(&value, 1, (void *)base)
		    : size == 2 ? bpf_probe_read_user(&value, 2, (void *)base)
		    : size == 4 ? bpf_probe_read_user(&value, 4, (void *)base)
				: bpf_probe_read_user(&value, 8, (void *)base))
			return -1;
		*ret = value;
		return 0;
	default:
		return -1;
	}
}

static __always_inline void read_text(struct kernel_text_record *r, const struct kernel_hook *h,
				      __u32 i)
{
	__u32 arg = h->probe.texts[i].arg, len_arg = h->probe.texts[i].len;
	void *at;
	__u64 len;

	r->len[i] = -1;
	if (!arg || arg > KERNEL_MAX_ARGS || r->probe.flags & 1u << (arg - 1))
		return;
	at = (void *)r->probe.args[(arg - 1) & 15];
	if (!len_arg) {
		r->len[i] = bpf_probe_read_user_str(r->text[i], KERNEL_TEXT_BYTES, at) - 1;
		return;
	}
	if (len_arg > KERNEL_MAX_ARGS || !at)
		return;
	len = r->probe.args[(len_arg - 1) & 15];
	asm volatile("" : "+r"(len));
	if (len > KERNEL_TEXT_BYTES)
		len = KERNEL_TEXT_BYTES;
	if (bpf_probe_read_user(r->text[i], len, at) == 0)
		r->len[i] = len;
}

static __always_inline void fill_probe(struct kernel_probe_record *r, const struct kernel_hook *h,
				       const struct kernel_thread *t, const __u64 *words, __u64 now,
				       __u32 number)
{
	r->time = now;
	r->tgid = t->tgid;
	r->tid = t->tid;
	r->type = KR_PROBE;
	r->flags = 0;
	r->hook = number;
	for (__u32 i = 0; i < KERNEL_MAX_ARGS; i++) {
		r->args[i] = 0;
		if (i < h->probe.n_args && argument(&h->probe.args[i], words, &r->args[i]))
			r->flags |= 1u << i;
	}
}
