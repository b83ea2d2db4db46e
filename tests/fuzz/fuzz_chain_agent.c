/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The agent in a poll of futures in boxes, by layout programs whose steps lead anywhere: as debug
 * information that is wrong would have them, but of the form that the compiler of programs gives them.
 * Whatever it is, the program that is traced lives, nothing of it is changed, and no more links than a
 * chain has are told.
 *
 * The agent runs as it is, in this process. A future is a page of its own between pages that can't be
 * read. Input: 64 bytes that fill the future, then six bytes for each node of a program (NODES of them),
 * then two bytes for each poll.
 */
#include "fuzz.h"

#include "../unit/agent_area.h"

#include "agent/agent.h"

#include <string.h>

enum {
	NODES = 8,
	NODE_BYTES = 6,
	FILL = 64,
	STEPS = 3,
	N_BOXES = 4,
	POLL_BYTES = 2,
	MAX_POLLS = 64
};

struct task {
	uint64_t state, words[4], id;
};

static struct area area;
static struct agent_hook *task_hook, *hooks[N_BOXES];
static uint8_t *pages[N_BOXES], expected[N_BOXES][4096];
static void (*poll_task)(struct task *);
static uint64_t (*poll_box[N_BOXES])(void *);
static uint64_t program[1 + NODES * (2 + STEPS + 1)];
static const uint8_t *script;
static size_t n_script;
static unsigned depth;

/* What the vtable says, which is right. */
static uint32_t value_bytes(unsigned box)
{
	return box & 1 ? 8 : 64;
}

static void set_state(uint8_t *future, uint8_t value)
{
	for (unsigned i = 0; i < N_BOXES; i++)
		if (future >= pages[i] && future < pages[i] + 4096)
			expected[i][future - pages[i]] = value;
	*future = value;
}

/* A box's poll: as the input says others are polled in it, what its state is at the end, and what it returns. */
static uint64_t box_body(void *future)
{
	uint64_t returns = 0;

	for (depth++; n_script && depth < MAX_POLLS;) {
		uint8_t what = script[0], value = script[1];

		script += POLL_BYTES;
		n_script--;
		if (what & 128) {
			set_state(future, value);
			returns = value;
			break;
		}
		poll_box[what % N_BOXES](pages[what % N_BOXES] +
					 (what & 64 ? 4096 - value_bytes(what % N_BOXES) : 0));
	}
	depth--;
	return returns;
}

static void task_body(struct task *task)
{
	while (n_script)
		box_body(&task->words[1]);
}

static void *guarded_page(void)
{
	uint8_t *at = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || mprotect(at + 4096, 4096, PROT_READ | PROT_WRITE))
		abort();
	return at + 4096;
}

static void begin(void)
{
	static const uint32_t ring_bytes = 1 << 16;

	area_new(&area, 2, ring_bytes);
	task_hook = area_hook(&area, AH_TOKIO_POLL, 1, (const void *)task_body);
	task_hook->flags |= AGENT_HOOK_TASK | AGENT_HOOK_SERVES;
	task_hook->task.id_offset = offsetof(struct task, id);
	task_hook->task.end_offset = sizeof(struct task);
	*(void **)&poll_task = area_stub(&area, task_hook);
	for (unsigned i = 0; i < N_BOXES; i++) {
		hooks[i] = area_hook(&area, AH_FUTURE, (uint16_t)(2 + i), (const void *)box_body);
		hooks[i]->flags |= AGENT_HOOK_CHAIN | (i == 1 ? AGENT_HOOK_SHOWN : 0) |
				   (i == 2 ? AGENT_HOOK_HANDLER : 0);
		hooks[i]->future.result =
			(struct agent_result){.from = AR_STATE, .size = 1, .ready = 1};
		hooks[i]->future.pending = 2;
		hooks[i]->future.value_bytes = value_bytes(i);
		if (i == 3) /* written by hand */
			hooks[i]->future.result = (struct agent_result){
				.from = AR_FIRST, .size = 1, .ready = AR_ANY_READY};
		*(void **)&poll_box[i] = area_stub(&area, hooks[i]);
		pages[i] = guarded_page();
	}
}

/* Nodes follow one another; a step leads to a later one or to none. */
static void make_program(const uint8_t *in)
{
	struct agent_step *steps = (struct agent_step *)program;
	size_t at = 1;

	memset(program, 0, sizeof(program));
	steps[0] = (struct agent_step){.next = 1, .delta = (int8_t)in[5]};
	for (unsigned i = 0; i < NODES; i++, in += NODE_BYTES, at += 2 + STEPS + 1) {
		struct agent_node *node = (struct agent_node *)(program + at);
		uint16_t next = (uint16_t)(i + 1 < NODES ? at + 2 + STEPS + 1 : 0);

		/* lists alone have branches, by another walk */
		node->kind =
			(uint8_t[]){NODE_STATE, NODE_POINTER, NODE_RESOURCE, NODE_STATE}[in[0] % 4];
		node->size = (uint8_t)(1u << (in[0] >> 2) % 4);
		if (node->kind == NODE_STATE) {
			node->base = in[1] % 8;
			node->n = STEPS;
		} else if (node->kind == NODE_POINTER) {
			node->zero_bits = in[1] % 8;
		} else {
			node->target_offset = in[1];
			node->n = in[2] & 1;
			node->resource = in[3];
		}
		for (unsigned k = 0; k <= STEPS; k++) {
			int32_t delta = (int8_t)in[2 + k % 4];

			/* far away, too */
			if (in[4] & 1 << k)
				delta = delta * 4096 + (int32_t)in[5];
			node->steps[k] = (struct agent_step){.point = (uint16_t)(1 + i * 4 + k),
							     .next = in[3] & 1 << k ? 0 : next,
							     .delta = delta};
		}
	}
}

/* What is in the ring: polls that lie in each other, with chains no longer than one is. */
static void check(void)
{
	struct ring *r = area_ring(&area, 0);
	uint32_t links = 0;

	for (uint32_t i = 0; i < area.rings->n_used; i++) {
		struct agent_event e;

		r = area_ring(&area, i);
		while (area_next(&area, r, &e)) {
			unsigned type = e.word0 & 0xff;

			if (type >= AE_N_TYPES)
				abort();
			if (type == AE_CHAIN)
				links += 4;
			else if (type != AE_RESOURCE)
				links = 0;
			if (links > AGENT_CHAIN_MAX + 3)
				abort();
			if (type == AE_RESOURCE && (e.word1 >> 56) != AGENT_LINK_OWN &&
			    (e.word1 >> 56) >= AGENT_CHAIN_MAX)
				abort();
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct task task = {.state = 0x40 * 3, .id = 7};

	if (!area.image)
		begin();
	if (size < FILL + NODES * NODE_BYTES)
		return 0;
	for (unsigned i = 0; i < N_BOXES; i++) {
		memset(pages[i], 0, 4096);
		memcpy(pages[i], data, FILL);
		memcpy(pages[i] + 4096 - FILL, data, FILL);
		/* pointers into the future, and to where there is nothing */
		memcpy(pages[i] + 16, &(uint64_t){(uint64_t)pages[i] + data[0] * 8}, 8);
		memcpy(pages[i] + 32, &(uint64_t){(uint64_t)pages[i] + 4096 + data[1]}, 8);
		memcpy(expected[i], pages[i], 4096);
	}
	make_program(data + FILL);
	for (unsigned i = 0; i < N_BOXES; i++)
		hooks[i]->program = (uint64_t)program;
	task_hook->program = data[2] & 1 ? (uint64_t)program : 0;
	script = data + FILL + NODES * NODE_BYTES;
	n_script = (size - FILL - NODES * NODE_BYTES) / POLL_BYTES;
	depth = 0;
	poll_task(&task);
	if (task.id != 7)
		abort();
	for (unsigned i = 0; i < N_BOXES; i++)
		if (memcmp(expected[i], pages[i], 4096))
			abort();
	check();
	return 0;
}
