/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The threads of the program at the moment of the copy: their registers, and the frames on their
 * stacks. From them follows who polls which task, and where the futures of block_on are.
 */
#pragma once

#include "future/tasks.h"

/* Takes over the registers, and makes the copy hold the live part of each stack and what is
 * thread-local. The threads are stopped now. */
void stacks_note(struct inspect *in, struct arch_regs *registers, size_t n);
/* Walks all stacks, after the threads were let go. -ENOMEM or 0. */
int stacks_walk(struct inspect *in, struct error *err);
void stacks_done(struct inspect *in);

/* The object in which an instruction lies, if it has a runtime; NULL. */
struct inspect_object *stacks_object(struct inspect *in, uint64_t pc);
/* The stack pointer of the frame's caller: where the frame ends; 0: not known. */
uint64_t stacks_frame_end(const struct inspect_stack *s, size_t frame);
/* Address of a thread-local variable of the program by its symbol's value; 0: there is none. */
uint64_t stacks_thread_local(const struct inspect_stack *s, const struct inspect_object *o,
			     uint64_t value);
