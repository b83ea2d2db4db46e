/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* System calls that fail again and again, where they were recorded. */
#include "findings/rule.h"

#include "base/map.h"
#include "base/syscalls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FAILS_PER_SECOND 1000.0
#define FAILS_AT_LEAST 1000

/* What a call fails with. */
struct failing_call {
	uint16_t number;
	int error;
	uint64_t n, first_ns, last_ns;
	uint64_t serial, task; /* of one that made it; 0: none */
	uint32_t kind, thread;
};

struct failing_state {
	struct rule_state st;
	struct map calls; /* by number, error */
	bool any;
};

/* Not yet, again, interrupted, in time: how these calls say that there is nothing to do now. */
static bool is_expected(int error)
{
	return error == EAGAIN || error == EINTR || error == EINPROGRESS || error == ETIMEDOUT;
}

static int failing_on_syscall(void *ctx, const struct tl_syscall *call)
{
	struct failing_state *s = ctx;
	struct failing_call *f;

	s->any = true;
	if (call->result >= 0 || call->result < -4095 || is_expected((int)-call->result))
		return 0;
	f = map_get_or_new(&s->calls, call->number, (uint64_t)-call->result, sizeof(*f));
	if (!f)
		return -ENOMEM;
	if (!f->n++)
		f->first_ns = call->begin_ns;
	f->last_ns = call->end_ns;
	f->number = call->number;
	f->error = (int)-call->result;
	f->thread = call->thread;
	f->kind = call->task ? call->task->kind : TRACE_KIND_NONE;
	f->serial = call->task ? call->task->serial : 0;
	f->task = call->task ? call->task->number : 0;
	return 0;
}

static const struct failing_call *most_failing(const struct failing_state *s)
{
	const struct failing_call *most = NULL;
	const struct map_entry *e;
	size_t pos = 0;

	while ((e = map_next(&s->calls, &pos))) {
		const struct failing_call *f = e->value;

		if (!most || f->n > most->n || (f->n == most->n && f->number < most->number))
			most = f;
	}
	return most;
}

static int judge_failing(struct rule_state *st)
{
	struct failing_state *s = (struct failing_state *)st;
	const struct failing_call *f = most_failing(s);
	double seconds = (double)rule_facts(st)->scope.length_ns / 1e9;
	const char *name = f ? syscall_name(f->number) : NULL;
	struct finding_draft *d;

	if (!s->any)
		return rule_skips(st, "no system calls were recorded (record --syscalls)");
	if (!f || f->n < FAILS_AT_LEAST || (double)f->n < FAILS_PER_SECOND * seconds)
		return 0;
	d = rule_finds(st, finding_score(60, 30, f->n, 100000, 1));
	if (!d)
		return 0;
	buf_str(&d->text, name ? name : "a system call");
	buf_str(&d->text, " failed ");
	say_count(&d->text, f->n, "time", "times");
	buf_printf(&d->text, " with \"%s\" (",
		   strerrordesc_np(f->error) ? strerrordesc_np(f->error) : "?");
	text_rate(&d->text, f->n, rule_facts(st)->scope.length_ns);
	buf_str(&d->text, " a second)");
	if (f->kind != TRACE_KIND_NONE) {
		buf_str(&d->text, ", in ");
		say_family(st, &d->text, f->kind);
	}
	d->f.kind = f->kind;
	finding_spans(d, f->first_ns, f->last_ns);
	finding_on(d, f->thread);
	finding_of(d, f->serial, f->task);
	return 0;
}

static void done_failing(struct rule_state *st)
{
	map_free(&((struct failing_state *)st)->calls, free);
}

const struct finding_rule rule_failing_calls = {
	.name = "failing-calls",
	.title = "a system call that fails again and again",
	.advice = "look at the error before the call is made again, and wait in between",
	.sink = &(const struct timeline_sink){.syscall = failing_on_syscall},
	.state_bytes = sizeof(struct failing_state),
	.judge = judge_failing,
	.done = done_failing,
};
