/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Whether memory to which a layout program leads can be read: the slow path of agent_reaches().
 *
 * What the program itself passed (a live task, the future that is polled) is there, and so is the
 * rest of its page: that is decided inline. What is further away, or reached through a pointer, is
 * there only if the debug information is right, which is not known. So the kernel is asked, once
 * per page, and its answer is kept for as long as one poll may take that is as short as most are.
 */
#include "agent/point.h"

/* An answer is not believed for longer: some ten microseconds. */
#define ANSWER_TICKS (1u << 15)
/* Null pages aren't places, nor is what only the kernel has. */
#define USER_BEGIN (1u << 16)

/* The task that is polled is there until its poll has ended, for we hold a reference. Its size is
 * what the program's own tables say. */
bool agent_in_task(const struct agent_notes *n, uint64_t at, uint32_t size)
{
	uint32_t depth = n->depth;

	if (!depth || depth > AGENT_MAX_POLLS)
		return false;
	const struct agent_poll *poll = &n->polls[depth - 1];
	if (poll->flags & POLL_ASYNC && !(poll->flags & POLL_HELD))
		return false;
	uint64_t offset = at - (uint64_t)poll->header;
	uint64_t end = poll->hook->task.end_offset;
	return offset < end && size <= end - offset;
}

static bool page_readable(struct agent_notes *n, uint64_t page)
{
	uint32_t n_pages = n->n_pages < AGENT_N_PAGES ? n->n_pages : AGENT_N_PAGES;

	for (uint32_t i = 0; i < n_pages; i++)
		if (n->pages[i] == page)
			return true;
	if (!arch_readable(page))
		return false;
	n->pages[n->n_pages++ % AGENT_N_PAGES] = page;
	return true;
}

bool agent_readable(struct agent_notes *n, uint64_t at, uint32_t size)
{
	uint64_t first = at & ~(uint64_t)(AGENT_PAGE - 1);
	uint64_t last = (at + size - 1) & ~(uint64_t)(AGENT_PAGE - 1);

	if (at < USER_BEGIN || at >= ARCH_USER_END || last >= ARCH_USER_END)
		return false;
	if (agent_in_task(n, at, size))
		return true;
	if (!agent_may(AGENT_MAY_ASK))
		return false;
	uint64_t now = arch_ticks();
	if (now - n->asked > ANSWER_TICKS)
		n->n_pages = 0;
	if (!n->n_pages)
		n->asked = now;
	return page_readable(n, first) && (first == last || page_readable(n, last));
}
