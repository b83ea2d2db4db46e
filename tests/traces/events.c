/*
 * events FILE: every event of a trace as it was recorded, one JSON array a line: time, pid, tid,
 * name of the type, arg, kind's name, task, value, and 1 if it is from another source than the
 * thread's first. For tests that look at the events themselves, before anybody gives them a
 * meaning.
 */
#include "base/buf.h"
#include "base/json.h"
#include "trace/trace.h"

#include <inttypes.h>
#include <stdio.h>

static void print(const struct trace_reader *r, const struct trace_event *e)
{
	const struct trace_thread *t = trace_reader_thread(r, e->thread);
	const struct trace_process *p = t ? trace_reader_process(r, t->process) : NULL;
	const struct trace_kind *k = trace_reader_kind(r, e->kind);
	struct buf name = BUF_INIT;

	printf("[%" PRIu64 ",%u,%u,\"%s\",%u,", e->time, p ? p->pid : 0, t ? t->tid : 0,
	       trace_event_type_name(e->type), e->arg);
	json_quote(&name, k ? k->name : "");
	printf("%s,%" PRIu64 ",%" PRIu64 ",%d]\n", buf_failed(&name) ? "\"\"" : name.data, e->task,
	       e->value, e->stream != 0);
	buf_done(&name);
}

int main(int argc, char **argv)
{
	struct trace_reader *r;
	struct trace_event e;
	struct error err = {0};
	int rc;

	if (argc != 2 || trace_reader_open(argv[1], &r, &err) < 0) {
		fprintf(stderr, "events: %s\n", argc != 2 ? "events FILE" : err.text);
		return 1;
	}
	while ((rc = trace_reader_next(r, &e, &err)) == 1)
		print(r, &e);
	if (rc < 0)
		fprintf(stderr, "events: %s\n", err.text);
	trace_reader_free(r);
	return rc < 0;
}
