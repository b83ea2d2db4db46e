/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names and order of the processes and lanes of Chrome's format, and the file's own metadata. */
#include "export/chrome.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/text.h"
#include "base/vec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

struct chrome_task *chrome_task(struct chrome *c, struct tl_task *task)
{
	if (task->user)
		return task->user;
	struct chrome_task *t = pool_get(&c->tasks);
	if (!t || lanes_task_begin(&c->sel.lanes, task, &t->placed) < 0)
		return NULL;
	if (t->placed.begin_ns < c->sel.from_ns)
		t->placed.begin_ns = c->sel.from_ns;
	t->placed.last_ns = t->placed.begin_ns + 1; /* see inside() */
	return task->user = t;
}

/* By what is awaited there, or at the innermost place of the chain: pale, so that polls and requests
 * stand out. All come before the polls' in the viewer's list of colours. */
static const char *wait_colour(const struct trace_place *own, const struct trace_place *leaf)
{
	static const struct {
		const char *part, *cname;
	} classes[] = {
		{"::time::", WAIT_TIMER}, {"Timer", WAIT_TIMER},       {"::fs::", WAIT_TASK},
		{"blocking", WAIT_TASK},  {"mpsc", WAIT_CHANNEL},      {"oneshot", WAIT_CHANNEL},
		{"watch", WAIT_CHANNEL},  {"broadcast", WAIT_CHANNEL}, {"channel", WAIT_CHANNEL},
		{"mutex", WAIT_LOCK},	  {"Mutex", WAIT_LOCK},	       {"rwlock", WAIT_LOCK},
		{"RwLock", WAIT_LOCK},	  {"semaphore", WAIT_LOCK},    {"Semaphore", WAIT_LOCK},
		{"notify", WAIT_LOCK},	  {"barrier", WAIT_LOCK},      {"::task::join", WAIT_TASK},
		{"join_set", WAIT_TASK},
	};

	for (unsigned i = 0; i < 2; i++) {
		const struct trace_place *p = i ? leaf : own;

		for (size_t k = 0; p && p->awaits && k < sizeof(classes) / sizeof(classes[0]); k++)
			if (strstr(p->awaits, classes[k].part))
				return classes[k].cname;
	}
	return WAIT_OTHER;
}

const struct place_label *chrome_place(struct chrome *c, uint64_t place)
{
	uint32_t i = (uint32_t)(place - 1);
	const struct trace_place *p = place ? trace_reader_own_place(c->reader, i, NULL) : NULL;
	_cleanup_buf_ struct buf at = BUF_INIT;

	if (!p || !GROW_ZERO(c->places, i, c->n_places))
		return NULL;
	struct place_label *label = &c->places[i];
	if (label->name)
		return label;
	trace_place_text(&at, p);
	if (buf_failed(&at) || !at.data)
		return NULL;
	/* The folders of the file are what one can do without. */
	const char *name = at.data, *end = strchr(at.data, ' ');
	for (const char *s = name; end && s < end; s++)
		if (*s == '/')
			name = s + 1;
	label->at = lanes_label(at.data);
	/* And the parameters of the function. */
	size_t len = strlen(name);
	if (len && name[len - 1] == '>' && strchr(name, '<'))
		at.data[strchr(name, '<') - at.data] = 0;
	label->awaits = lanes_label(p->awaits ? p->awaits : "");
	label->cname = wait_colour(p, trace_reader_place(c->reader, i));
	label->name = label->at && label->awaits ? lanes_label(name) : NULL;
	return label->name ? label : NULL;
}

static void metadata(struct buf *b, const char *what, uint32_t pid, uint32_t tid, const char *key,
		     const char *text, uint64_t number)
{
	buf_printf(b, "%s\n{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRIu32, b->len ? "," : "", what,
		   pid);
	if (tid)
		buf_printf(b, ",\"tid\":%" PRIu32, tid);
	buf_printf(b, ",\"args\":{\"%s\":", key);
	if (text)
		json_quote_shown(b, text);
	else
		buf_u64(b, number);
	buf_str(b, "}}");
}

static void name_process(struct buf *b, uint32_t pid, const char *name, uint64_t rank)
{
	metadata(b, "process_name", pid, 0, "name", name, 0);
	metadata(b, "process_sort_index", pid, 0, "sort_index", NULL, rank);
}

static void name_lane(struct buf *b, uint32_t pid, uint32_t tid, const char *name, uint64_t rank)
{
	metadata(b, "thread_name", pid, tid, "name", name, 0);
	metadata(b, "thread_sort_index", pid, tid, "sort_index", NULL, rank);
}

/* Roots first, then tasks, then blocking closures; few lanes before many, or the single ones would
 * be lost below a crowd; then the busiest. */
static int by_rank(const void *a, const void *b)
{
	static const unsigned char order[TR_N] = {
		[TR_ROOT] = 0, [TR_TASK] = 1, [TR_FUTURE] = 2, [TR_BLOCKING] = 3, [TR_WORKER] = 4};
	const struct lane_family *x = *(struct lane_family *const *)a,
				 *y = *(struct lane_family *const *)b;
	unsigned rx = x->role < TR_N ? order[x->role] : TR_N;
	unsigned ry = y->role < TR_N ? order[y->role] : TR_N;
	if (rx != ry)
		return rx < ry ? -1 : 1;
	if (x->n_shown != y->n_shown)
		return x->n_shown < y->n_shown ? -1 : 1;
	if (x->poll_ns != y->poll_ns)
		return x->poll_ns > y->poll_ns ? -1 : 1;
	return x->kind < y->kind ? -1 : x->kind > y->kind;
}

static int by_tid(const void *a, const void *b)
{
	const struct thread_lane *x = *(struct thread_lane *const *)a;
	const struct thread_lane *y = *(struct thread_lane *const *)b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->worker != y->worker)
		return x->worker ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static uint32_t process_pid(const struct chrome *c, uint32_t process)
{
	const struct trace_process *tp = trace_reader_process(c->reader, process);
	return tp ? tp->pid : 0;
}

/* A number that no traced program has. */
static uint32_t next_pid(const struct chrome *c, uint32_t *last)
{
	uint32_t n = trace_reader_n_processes(c->reader);
	for (;;) {
		uint32_t i = 0, pid = ++*last;
		while (i < n && process_pid(c, i) != pid)
			i++;
		if (i == n)
			return pid;
	}
}

static const char *base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	return slash ? slash + 1 : path ? path : "";
}

static void thread_text(const struct chrome *c, const struct thread_lane *t, struct buf *out)
{
	const struct trace_thread *tt =
		trace_reader_thread(c->reader, (uint32_t)(t - c->sel.lanes.threads));

	buf_printf(out, "%s %" PRIu32, tt && tt->name && *tt->name ? tt->name : "thread", t->tid);
}

static int name_threads(struct chrome *c, struct buf *b, uint64_t *rank)
{
	struct lanes *l = &c->sel.lanes;
	uint32_t n_processes = trace_reader_n_processes(c->reader), n = 0;
	_cleanup_free_ struct thread_lane **shown =
		calloc(l->n_threads + 1, sizeof(struct thread_lane *));
	if (!shown)
		return -ENOMEM;

	for (uint32_t i = 0; i < l->n_threads; i++) {
		const struct trace_thread *tt = trace_reader_thread(c->reader, i);
		if (!tt)
			l->threads[i].shown = false;
		if (!l->threads[i].shown)
			continue;
		l->threads[i].pid = process_pid(c, tt->process);
		l->threads[i].tid = tt->tid;
		shown[n++] = &l->threads[i];
	}
	for (uint32_t i = 0; i < n_processes; i++) {
		const struct trace_process *tp = trace_reader_process(c->reader, i);
		if (!tp)
			continue;
		_cleanup_buf_ struct buf name = BUF_INIT;
		buf_printf(&name, "threads of %s", base_name(tp->exe));
		name_process(b, tp->pid, name.data ? name.data : "threads", (*rank)++);
	}
	uint64_t at = 0;
	qsort(shown, n, sizeof(*shown), by_tid);
	for (uint32_t i = 0; i < n; i++) {
		_cleanup_buf_ struct buf name = BUF_INIT;

		thread_text(c, shown[i], &name);
		name_lane(b, shown[i]->pid, shown[i]->tid, name.data ? name.data : "", at++);
	}
	return 0;
}

/* What samples saw of threads: many rows, so they come after all that is short. */
static int name_thread_stacks(struct chrome *c, struct buf *b, uint64_t *rank, uint32_t *last_pid)
{
	struct lanes *l = &c->sel.lanes;

	for (uint32_t process = 0; process < trace_reader_n_processes(c->reader); process++) {
		const struct trace_process *tp = trace_reader_process(c->reader, process);
		uint32_t pid = 0;
		uint64_t at = 0;

		for (uint32_t i = 0; tp && i < l->n_threads; i++) {
			struct thread_lane *t = &l->threads[i];
			const struct trace_thread *tt = trace_reader_thread(c->reader, i);
			_cleanup_buf_ struct buf name = BUF_INIT;

			if (!t->shown || !t->n_samples || !tt || tt->process != process)
				continue;
			if (!pid) {
				pid = next_pid(c, last_pid);
				buf_printf(&name, "on the CPU: threads of %s", base_name(tp->exe));
				name_process(b, pid, name.data ? name.data : "on the CPU",
					     (*rank)++);
				buf_done(&name);
			}
			t->stacks_pid = pid;
			t->stacks_tid = t->tid;
			thread_text(c, t, &name);
			name_lane(b, pid, t->stacks_tid, name.data ? name.data : "", at++);
		}
	}
	return 0;
}

static void name_family(const struct chrome *c, struct buf *b, const struct lane_family *f,
			uint64_t rank)
{
	_cleanup_buf_ struct buf name = BUF_INIT;
	buf_printf(&name, f->role == TR_FUTURE ? "futures in %s: " : "%s: ", f->short_name);
	if (f->shown_tasks < f->n_tasks)
		buf_printf(&name, "%" PRIu64 " of ", f->shown_tasks);
	buf_printf(&name, "%" PRIu64 " %s%s", f->n_tasks,
		   f->role == TR_ROOT	    ? "root future"
		   : f->role == TR_BLOCKING ? "blocking closure"
		   : f->role == TR_FUTURE   ? "that waited"
					    : "task",
		   f->n_tasks == 1 || f->role == TR_FUTURE ? "" : "s");
	name_process(b, f->pid, name.data ? name.data : f->short_name, rank);

	/* Where they are spawned, next to the name. Viewers split labels at commas. */
	const struct trace_kind *k =
		f->role != TR_FUTURE ? trace_reader_kind(c->reader, f->kind) : NULL;
	if (k && k->n_sites && k->sites && k->sites[0] && *k->sites[0]) {
		_cleanup_free_ char *site = strdup(text_short_file(k->sites[0]));
		for (char *s = site; s && *s; s++)
			if (*s == ',')
				*s = ';';
		if (site)
			metadata(b, "process_labels", f->pid, 0, "labels", site, 0);
	}
}

static void lane_text(const struct chrome *c, const struct lane_family *f,
		      const struct task_lane *lane, struct buf *out)
{
	_cleanup_free_ char *future =
		f->role == TR_FUTURE ? kind_short(&c->sel.labels, c->reader, lane->kind) : NULL;

	if (future) {
		buf_str(out, future);
		buf_printf(out, lane->mixed ? " and others: %" PRIu64 : ": %" PRIu64,
			   lane->n_tasks);
	} else if (lane->n_tasks == 1) {
		buf_printf(out, "%s #%" PRIu64, f->short_name, lane->number);
	} else {
		buf_printf(out, "%" PRIu64 " × %s", lane->n_tasks, f->short_name);
	}
}

static int name_families(struct chrome *c, struct buf *b, uint64_t *rank, uint32_t *last_pid)
{
	struct lanes *l = &c->sel.lanes;
	_cleanup_free_ struct lane_family **ranked =
		calloc(l->n_families + 1, sizeof(struct lane_family *));
	if (!ranked)
		return -ENOMEM;
	for (size_t i = 0; i < l->n_families; i++)
		ranked[i] = l->families[i];
	qsort(ranked, l->n_families, sizeof(*ranked), by_rank);

	uint32_t last_tid = 0;
	for (size_t i = 0; i < l->n_families; i++) {
		struct lane_family *f = ranked[i];
		if (!f->n_shown)
			continue;
		f->pid = next_pid(c, last_pid);
		uint64_t at = 0;
		name_family(c, b, f, (*rank)++);
		for (uint32_t k = 0; k < f->n_shown; k++) {
			_cleanup_buf_ struct buf name = BUF_INIT;

			f->lanes[k].tid = ++last_tid;
			lane_text(c, f, &f->lanes[k], &name);
			name_lane(b, f->pid, f->lanes[k].tid, name.data ? name.data : "", at++);
		}
		/* What samples saw, many rows, is below all tasks. */
		for (uint32_t k = 0; k < f->n_shown; k++) {
			_cleanup_buf_ struct buf name = BUF_INIT;

			if (!f->lanes[k].n_samples)
				continue;
			f->lanes[k].stacks_tid = ++last_tid;
			lane_text(c, f, &f->lanes[k], &name);
			buf_str(&name, ", on the CPU");
			name_lane(b, f->pid, f->lanes[k].stacks_tid, name.data ? name.data : "",
				  at++);
		}
	}
	return 0;
}

/* The cut, impossible to miss: a lane of its own on top. */
static void tell_cut(struct chrome *c, struct buf *b, uint32_t pid, uint64_t rank)
{
	name_process(b, pid, "cut", rank);
	name_lane(b, pid, 1, "scope of this export", 0);
	buf_str(b, ",\n{\"ph\":\"X\",\"cat\":\"cut\",\"cname\":\"yellow\",\"name\":");
	json_quote_shown(b, c->sel.notice);
	char place[160], *p = put_span(c, place, pid, 1, c->sel.from_ns, c->sel.to_ns);
	buf_add(b, place, (size_t)(p - place));
	buf_char(b, '}');
}

static void other_data(const struct chrome *c, struct buf *b)
{
	struct json j;
	json_init(&j, b, false);
	json_object(&j, NULL);
	json_string(&j, "displayTimeUnit", "ns");
	json_object(&j, "otherData");
	json_string(&j, "exporter", "pollux " POLLUX_VERSION);
	json_string(&j, "cut", *c->sel.notice ? c->sel.notice : "nothing");
	json_u64(&j, "events lost", c->sel.totals.n_lost);
	json_u64(&j, "tasks", c->sel.n_tasks);
	json_u64(&j, "tasks shown", c->sel.shown_tasks);
	json_u64(&j, "from_ns", c->sel.from_ns - c->sel.base_ns);
	json_u64(&j, "to_ns", c->sel.to_ns - c->sel.base_ns);
	json_end_object(&j);
	buf_str(b, ",\"traceEvents\":[");
}

int chrome_head(struct chrome *c)
{
	_cleanup_buf_ struct buf top = BUF_INIT, names = BUF_INIT;
	uint32_t last_pid = 0;
	uint64_t rank = 0;

	other_data(c, &top);
	if (*c->sel.notice)
		tell_cut(c, &names, next_pid(c, &last_pid), rank++);
	int r = name_threads(c, &names, &rank);
	if (r == 0)
		r = name_families(c, &names, &rank, &last_pid);
	if (r == 0)
		r = name_thread_stacks(c, &names, &rank, &last_pid);
	/* The first of a file without anything: slices begin with a comma. */
	if (!names.len)
		name_process(&names, next_pid(c, &last_pid), "empty trace", 0);
	if (r < 0 || buf_failed(&top) || buf_failed(&names))
		return -ENOMEM;
	out_write(&c->out, top.data, top.len);
	out_write(&c->out, names.data, names.len);
	return c->out.error;
}
