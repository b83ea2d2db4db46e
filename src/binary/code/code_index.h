/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What an object's code does, by its bytes: an index made in one pass, without decoding, that the
 * image keeps until it rests. Who calls a function: what looks like a call and leads to the beginning
 * of a function is one, but for freak accidents: good enough to show where something is called, not
 * to patch it. And candidates for what takes an address outside of the code, or makes system calls.
 */
#pragma once

#include "binary/code/code_scan.h"

#include <stddef.h>
#include <stdint.h>

struct elf_image;
struct code_index;

/* The image's index, made if there is none; NULL: out of memory. */
struct code_index *code_index_of(struct elf_image *image);

/* The instructions that call `target`, in their order: the first of *ret_n, until the next question.
 * NULL if there are none, or if memory is out (*ret_n is 0). */
const uint64_t *code_index_calls(struct code_index *index, uint64_t target, size_t *ret_n);

/* As code_scan() does with CODE_TAKES. No target may be in the code. */
int code_index_takes(const struct code_index *index, const struct code_targets *targets,
		     code_hit_fn hit, void *context);
/* What looks like a system call, in order. */
const uint64_t *code_index_syscalls(const struct code_index *index, size_t *ret_n);
