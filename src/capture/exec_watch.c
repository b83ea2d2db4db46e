#include "capture/exec_watch.h"

#include "process/attach.h"

#define LOOK_MIN_NS 1000000ull
#define LOOK_MAX_NS (20 * LOOK_MIN_NS)
#define LOOK_PART 64

void late_program_await(struct late_program *p, const char *name)
{
	*p = (struct late_program){.name = name, .wait_ns = LOOK_MIN_NS};
}

bool late_program_changed(struct late_program *p, pid_t pid, uint64_t now_ns)
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
	if (!hash || hash == p->code_hash)
		return false;
	p->code_hash = hash;
	return true;
}

void late_program_unsure(struct late_program *p)
{
	p->code_hash = 0;
}

uint64_t late_program_wait(const struct late_program *p)
{
	return p->wait_ns;
}
