/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "capture/exec_watch.h"

#include "base/units.h"
#include "process/attach.h"

#define LOOK_MIN_NS NSEC_PER_MSEC
#define LOOK_MAX_NS (20 * LOOK_MIN_NS)
#define LOOK_PART 64

void exec_watch_start(struct exec_watch *p, const char *name)
{
	*p = (struct exec_watch){.name = name, .wait_ns = LOOK_MIN_NS};
}

bool exec_watch_changed(struct exec_watch *p, pid_t pid, uint64_t now_ns)
{
	uint64_t hash;

	if (now_ns < p->next_look_ns)
		return false;
	if (!p->since_ns)
		p->since_ns = now_ns;
	p->wait_ns = (now_ns - p->since_ns) / LOOK_PART;
	if (p->wait_ns < LOOK_MIN_NS)
		p->wait_ns = LOOK_MIN_NS;
	if (p->wait_ns > LOOK_MAX_NS)
		p->wait_ns = LOOK_MAX_NS;
	p->next_look_ns = now_ns + p->wait_ns;
	hash = attach_code_hash(pid);
	if (hash && hash == p->code_hash)
		p->without_ns = now_ns;
	if (!hash || hash == p->code_hash)
		return false;
	p->code_hash = hash;
	return true;
}

void exec_watch_unsure(struct exec_watch *p)
{
	p->code_hash = 0;
}

uint64_t exec_watch_wait(const struct exec_watch *p)
{
	return p->wait_ns;
}
