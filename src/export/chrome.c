/*
 * Chrome's trace event format, for Catapult (chrome://tracing) and, as JSON, for Perfetto.
 *
 *     process per traced program   a lane per thread: polls by family, blocking calls, parks
 *     pseudo-process per family    a lane per task, or packed: the task's life, and below it
 *                                  waiting, scheduled, polls, blocking calls
 *
 * What the viewers ask for was measured, not read: only complete events ("X"), because begin and
 * end events must be sorted and ours come when they end; times in µs with three decimals from
 * the trace's first event, so that doubles keep every ns; a cname outside of the viewer's list
 * kills the whole import; sort indexes, or lanes are in the order of their text. A flow is one wake
 * that led to a poll: its "s" must lie inside a slice (a wake from outside of all polls gets a
 * slice of 1 ns), its "f" just inside the poll, or it would bind to the slice that ends there.
 */
#include "export/export.h"
#include "export/out.h"
#include "export/select.h"
#include "timeline/pool.h"

#include "base/cleanup.h"
#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static const struct limits chrome_limits = {
	.max_slices = 1000000, /* Catapult: 17 s for about this many */
	.max_lanes = 500,
	.ceiling_bytes = 500000000, /* 2^29-24 characters: an empty view without a word */
	.ceiling_lanes = 2000,	    /* 12 s; 5000: 39 s */
	.slice_bytes = 172,
	.flow_bytes = 210,
	.lane_bytes = 220,
	.flows = true,
	.viewer = "Chrome's trace viewer",
};

/* Where slices are too thin, Catapult draws the colour that stands last in its own list. There a
 * poll comes after a park, and the very worst polls after all that we use. */
#define TERRIBLE "terrible"
#define BUSY "background_memory_dump" /* teal */
#define MAX_WAKES 4

/* A wake that may lead to a poll, and the lane that it came from. */
struct wake_ref {
	uint64_t serial, time_ns;
	uint32_t pid, tid;
	bool own_slice; /* came from outside of all polls */
};

struct chrome_task {
	struct placed at;
	struct wake_ref wakes[MAX_WAKES]; /* oldest first */
	unsigned n_wakes;
};

struct chrome {
	struct trace_reader *reader;
	struct selection sel;
	struct out out;
	struct pool tasks;
	char **place_labels; /* by index, NULL until wanted */
	uint32_t n_place_labels;
	uint64_t n_slices, n_flows, n_lanes;
};

/* ---- pieces of text ---- */

/* All that is known of a slice before it is drawn. */
struct head {
	const char *text;
	size_t len;
};
#define HEAD_TEXT(cat, name, cname)                                                                \
	",\n{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"cname\":\"" cname "\""
#define HEAD(...)                                                                                  \
	{                                                                                          \
		HEAD_TEXT(__VA_ARGS__), sizeof(HEAD_TEXT(__VA_ARGS__)) - 1                         \
	}

static const struct head poll_heads[TO_N] = {
	[TO_PENDING] = HEAD("poll", "poll", "thread_state_running"),
	[TO_READY] = HEAD("poll", "poll", "thread_state_running"),
	[TO_PANICKED] = HEAD("poll", "poll: panicked", TERRIBLE),
	[TO_CANCELLED] = HEAD("poll", "poll: cancelled", "thread_state_running"),
	[TO_UNKNOWN] = HEAD("poll", "poll: end not seen", "thread_state_running"),
};
static const struct head worst_poll_head = HEAD("poll", "poll", TERRIBLE);
static const struct head waiting_head = HEAD("wait", "waiting", "thread_state_iowait");
static const struct head scheduled_head = HEAD("wait", "scheduled", "thread_state_runnable");
static const struct head unknown_head = HEAD("wait", "not known", "thread_state_unknown");
static const struct head section_head = HEAD("block", "block_in_place", "yellow");
/* A single ns must never be the colour of a whole pixel: this one stands first of all in the list.
 */
static const struct head wake_head = HEAD("wake", "wake", "thread_state_uninterruptible");

static inline char *put_head(char *p, const struct head *h)
{
	return put_mem(p, h->text, h->len);
}

static inline char *put_place(char *p, uint32_t pid, uint32_t tid, uint64_t ts_ns)
{
	p = put_lit(p, ",\"pid\":");
	p = put_u64(p, pid);
	p = put_lit(p, ",\"tid\":");
	p = put_u64(p, tid);
	p = put_lit(p, ",\"ts\":");
	return put_us(p, ts_ns);
}

/* Lane and time of a slice; what may follow is args and the closing brace. */
static inline char *put_span(struct chrome *c, char *p, uint32_t pid, uint32_t tid,
			     uint64_t begin_ns, uint64_t end_ns)
{
	c->n_slices++;
	p = put_place(p, pid, tid, begin_ns - c->sel.base_ns);
	p = put_lit(p, ",\"dur\":");
	return put_us(p, end_ns > begin_ns ? end_ns - begin_ns : 0);
}

static inline char *put_string(char *p, const char *s)
{
	return put_mem(p, s, strlen(s));
}

/* ---- tasks ---- */

static struct chrome_task *task_of(struct chrome *c, struct tl_task *task)
{
	if (task->user)
		return task->user;
	struct chrome_task *t = pool_get(&c->tasks);
	if (!t || lanes_task_begin(&c->sel.lanes, task, &t->at) < 0)
		return NULL;
	if (t->at.begin_ns < c->sel.from_ns)
		t->at.begin_ns = c->sel.from_ns;
	t->at.last_ns = t->at.begin_ns + 1; /* see inside() */
	return task->user = t;
}

static inline const struct task_lane *lane_of(const struct placed *at)
{
	return &at->family->lanes[at->lane];
}

/* Slices of a lane touch and never overlap, also where two threads' clocks disagree by a little. */
struct span {
	uint64_t begin_ns, end_ns;
};

static struct span place(struct placed *at, uint64_t begin_ns, uint64_t end_ns)
{
	struct span s = {begin_ns, end_ns};
	if (s.begin_ns < at->last_ns)
		s.begin_ns = at->last_ns;
	if (s.end_ns < s.begin_ns)
		s.end_ns = s.begin_ns;
	at->last_ns = s.end_ns;
	return s;
}

/* Of two slices that begin at once, viewers take the one that comes first in the file for the outer
 * one. Ours come when they end, so what is inside begins 1 ns later. */
static uint64_t inside(uint64_t begin_ns, uint64_t end_ns)
{
	return begin_ns + (begin_ns < end_ns);
}

static int on_task_begin(void *ctx, struct tl_task *task)
{
	return task_of(ctx, task) ? 0 : -ENOMEM;
}

static int on_task_end(void *ctx, struct tl_task *task)
{
	struct chrome *c = ctx;
	struct chrome_task *t = task_of(c, task);
	if (!t)
		return -ENOMEM;

	uint64_t end_ns = task->end_ns && task->end_ns < c->sel.to_ns ? task->end_ns : c->sel.to_ns;
	if (end_ns < t->at.last_ns)
		end_ns = t->at.last_ns;
	if (t->at.shown) {
		const struct family *f = t->at.family;
		char *p = out_room(&c->out);
		p = put_lit(
			p,
			",\n{\"ph\":\"X\",\"cat\":\"task\",\"cname\":\"generic_work\",\"name\":\"");
		p = put_u64(p, task->number); /* first: the end of a name is often cut */
		*p++ = ' ';
		p = put_mem(p, f->label, f->label_len);
		*p++ = '"';
		p = put_span(c, p, f->pid, lane_of(&t->at)->tid, t->at.begin_ns, end_ns);
		p = put_lit(p, ",\"args\":{\"task\":");
		p = put_u64(p, task->number);
		if (task->id != task->number) {
			p = put_lit(p, ",\"id\":");
			p = put_u64(p, task->id);
		}
		if (task->parent) {
			p = put_lit(p, ",\"spawned by task\":");
			p = put_u64(p, task->parent_number);
		}
		if (!task->spawn_seen)
			p = put_lit(p, ",\"spawned\":\"not seen\"");
		p = put_lit(p, ",\"end\":\"");
		p = put_string(p, task->end_ns ? trace_outcome_name(task->outcome) : "alive");
		p = put_lit(p, "\",\"polls\":");
		p = put_u64(p, task->n_polls);
		p = put_lit(p, ",\"wakes\":");
		p = put_u64(p, task->n_wakes);
		p = put_lit(p, ",\"polled_us\":");
		p = put_us(p, task->poll_ns);
		p = put_lit(p, ",\"waiting_us\":");
		p = put_us(p, task->wait_ns);
		p = put_lit(p, ",\"scheduled_us\":");
		p = put_us(p, task->sched_ns);
		p = put_lit(p, "}}");
		out_used(&c->out, p);
	}
	lanes_task_end(&c->sel.lanes, &t->at, task->end_ns);
	task->user = NULL;
	pool_put(&c->tasks, t);
	return c->out.error;
}

/* The name of a wait at an await point, as inside of a JSON string; NULL: not known. */
static const char *place_label(struct chrome *c, uint64_t place)
{
	const struct trace_place *p =
		place ? trace_reader_place(c->reader, (uint32_t)(place - 1)) : NULL;
	_cleanup_buf_ struct buf text = BUF_INIT;

	if (!p)
		return NULL;
	if (place > c->n_place_labels) {
		uint32_t n = trace_reader_n_places(c->reader);
		char **labels = reallocarray(c->place_labels, n, sizeof(*labels));
		if (!labels)
			return NULL;
		memset(labels + c->n_place_labels, 0, (n - c->n_place_labels) * sizeof(*labels));
		c->place_labels = labels;
		c->n_place_labels = n;
	}
	char **label = &c->place_labels[place - 1];
	if (!*label) {
		trace_place_text(&text, p);
		*label = buf_failed(&text) ? NULL : lanes_label(text.data);
	}
	return *label;
}

static int on_wait(void *ctx, const struct tl_wait *wait)
{
	struct chrome *c = ctx;
	struct chrome_task *t = task_of(c, wait->task);
	if (!t)
		return -ENOMEM;
	struct span span = place(&t->at, wait->begin_ns, wait->end_ns);
	if (!t->at.shown || span.begin_ns == span.end_ns)
		return 0;
	const char *label = wait->state == TS_WAITING ? place_label(c, wait->place) : NULL;
	char *p = out_room(&c->out);
	if (label) {
		p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"wait\",\"name\":\"");
		p = put_string(p, label);
		p = put_lit(p, "\",\"cname\":\"thread_state_iowait\"");
	} else {
		p = put_head(p, wait->state == TS_WAITING     ? &waiting_head
				: wait->state == TS_SCHEDULED ? &scheduled_head
							      : &unknown_head);
	}
	p = put_span(c, p, t->at.family->pid, lane_of(&t->at)->tid, span.begin_ns, span.end_ns);
	*p++ = '}';
	out_used(&c->out, p);
	return c->out.error;
}

/* ---- wakes and the polls that they led to ---- */

static int on_wake(void *ctx, const struct tl_wake *wake)
{
	struct chrome *c = ctx;
	if (wake->effect == TW_NOOP || !wake->by_waker)
		return 0;
	struct chrome_task *t = task_of(c, wake->task);
	struct thread_lane *thread = lanes_thread(&c->sel.lanes, wake->thread);
	if (!t || !thread)
		return -ENOMEM;

	struct wake_ref ref = {.serial = wake->serial, .time_ns = wake->time_ns};
	const struct chrome_task *source = wake->source_task ? wake->source_task->user : NULL;
	if (source && source->at.shown) {
		ref.pid = source->at.family->pid;
		ref.tid = lane_of(&source->at)->tid;
	} else if (thread->shown) {
		ref.pid = thread->pid;
		ref.tid = thread->tid;
		ref.own_slice = !source; /* no poll, or one that the filter keeps back */
	} else {
		return 0; /* no lane to come from */
	}
	/* Of those that come while it is polled, the first counts. */
	if (t->n_wakes == MAX_WAKES)
		t->n_wakes--;
	t->wakes[t->n_wakes++] = ref;
	return 0;
}

/* The wake that led to this poll. It and those before it are forgotten. */
static bool take_wake(struct chrome_task *t, const struct tl_poll *poll, struct wake_ref *ret)
{
	bool found = false;
	unsigned n = 0;
	for (unsigned i = 0; i < t->n_wakes; i++) {
		const struct wake_ref ref = t->wakes[i];
		if (poll->wake_serial && ref.serial == poll->wake_serial) {
			*ret = ref;
			found = true;
		} else if (ref.serial > poll->wake_serial && ref.time_ns > poll->begin_ns) {
			t->wakes[n++] = ref;
		}
	}
	t->n_wakes = n;
	return found;
}

static char *put_flow(char *p, uint64_t id, uint32_t pid, uint32_t tid, uint64_t ts_ns)
{
	p = put_lit(p, ",\"cat\":\"wake\",\"name\":\"wake\",\"id\":");
	p = put_u64(p, id);
	p = put_place(p, pid, tid, ts_ns);
	*p++ = '}';
	return p;
}

static void flow(struct chrome *c, const struct wake_ref *from, uint32_t pid, uint32_t tid,
		 uint64_t poll_ns)
{
	uint64_t id = ++c->n_flows;
	char *p = out_room(&c->out);

	if (from->own_slice) {
		p = put_head(p, &wake_head);
		p = put_span(c, p, from->pid, from->tid, from->time_ns, from->time_ns + 1);
		*p++ = '}';
	}
	p = put_lit(p, ",\n{\"ph\":\"s\"");
	p = put_flow(p, id, from->pid, from->tid, from->time_ns - c->sel.base_ns);
	p = put_lit(p, ",\n{\"ph\":\"f\",\"bp\":\"e\"");
	p = put_flow(p, id, pid, tid, poll_ns - c->sel.base_ns);
	out_used(&c->out, p);
}

static char *put_outcome(char *p, const struct tl_poll *poll)
{
	p = put_lit(p, "\"outcome\":\"");
	p = put_string(p, trace_outcome_name(poll->outcome));
	*p++ = '"';
	if (!poll->begin_seen)
		p = put_lit(p, ",\"begin\":\"not seen\"");
	if (poll->inferred)
		p = put_lit(p, ",\"inferred\":true");
	return p;
}

static void task_poll(struct chrome *c, struct chrome_task *t, const struct tl_poll *poll,
		      const struct head *head, struct span span, uint32_t tid)
{
	char *p = out_room(&c->out);
	p = put_head(p, head);
	p = put_span(c, p, t->at.family->pid, lane_of(&t->at)->tid, span.begin_ns, span.end_ns);
	p = put_lit(p, ",\"args\":{");
	p = put_outcome(p, poll);
	p = put_lit(p, ",\"thread\":");
	p = put_u64(p, tid);
	if (poll->n_blocks) {
		p = put_lit(p, ",\"blocked_us\":");
		p = put_us(p, poll->blocked_ns);
	}
	if (poll->woken_inside)
		p = put_lit(p, ",\"woken inside\":true");
	p = put_lit(p, "}}");
	out_used(&c->out, p);
}

static void thread_poll(struct chrome *c, const struct chrome_task *t, const struct tl_poll *poll,
			const struct thread_lane *thread, uint64_t begin_ns, bool worst)
{
	const struct family *f = t->at.family;
	char *p = out_room(&c->out);
	p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"poll\",\"name\":\"");
	p = put_mem(p, f->label, f->label_len);
	p = worst ? put_lit(p, "\",\"cname\":\"" TERRIBLE "\"")
		  : put_lit(p, "\",\"cname\":\"" BUSY "\"");
	p = put_span(c, p, thread->pid, thread->tid, begin_ns, poll->end_ns);
	p = put_lit(p, ",\"args\":{\"task\":");
	p = put_u64(p, poll->task->number);
	*p++ = ',';
	p = put_outcome(p, poll);
	p = put_lit(p, "}}");
	out_used(&c->out, p);
}

static int on_poll(void *ctx, const struct tl_poll *poll)
{
	struct chrome *c = ctx;
	struct chrome_task *t = task_of(c, poll->task);
	const struct thread_lane *thread = lanes_thread(&c->sel.lanes, poll->thread);
	if (!t || !thread)
		return -ENOMEM;

	struct span span = place(&t->at, poll->begin_ns, poll->end_ns);
	uint64_t length = poll->end_ns - poll->begin_ns; /* on the thread's lane: see inside() */
	uint64_t begin_ns = poll->begin_ns + (poll->depth < length ? poll->depth : length);
	bool worst = poll->begin_seen && length >= c->sel.worst_poll_ns;
	bool open = poll->outcome >= TO_UNKNOWN && poll->end_ns >= c->sel.to_ns;
	const struct head *head = worst			  ? &worst_poll_head
				  : open		  ? &poll_heads[TO_PENDING]
				  : poll->outcome >= TO_N ? &poll_heads[TO_UNKNOWN]
							  : &poll_heads[poll->outcome];
	const struct trace_thread *tt = trace_reader_thread(c->reader, poll->thread);
	if (t->at.shown)
		task_poll(c, t, poll, head, span, tt ? tt->tid : 0);
	if (thread->shown)
		thread_poll(c, t, poll, thread, begin_ns, worst);

	struct wake_ref wake;
	if (take_wake(t, poll, &wake)) {
		if (t->at.shown)
			flow(c, &wake, t->at.family->pid, lane_of(&t->at)->tid,
			     inside(span.begin_ns, span.end_ns));
		else if (thread->shown)
			flow(c, &wake, thread->pid, thread->tid, inside(begin_ns, poll->end_ns));
	}
	return c->out.error;
}

/* ---- what blocks a thread ---- */

static void call_slice(struct chrome *c, const char *before, unsigned call, const char *after,
		       uint32_t pid, uint32_t tid, uint64_t begin_ns, uint64_t end_ns)
{
	char *p = out_room(&c->out);
	p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"block\",\"name\":\"");
	p = put_string(p, before);
	p = put_string(p, trace_call_name(call));
	p = put_string(p, after);
	p = put_span(c, p, pid, tid, begin_ns, end_ns);
	*p++ = '}';
	out_used(&c->out, p);
}

/* On a task's lane, where the poll around it will not begin before the last slice's end. */
static uint64_t inside_poll(const struct placed *at, uint64_t begin_ns, uint64_t end_ns)
{
	uint64_t begin = begin_ns > at->last_ns ? begin_ns : at->last_ns;
	return begin < end_ns ? begin + 1 : end_ns;
}

static int on_block(void *ctx, const struct tl_block *block)
{
	static const char mauve[] = "\",\"cname\":\"thread_state_uninterruptible\"";
	struct chrome *c = ctx;
	struct chrome_task *t = block->task ? task_of(c, block->task) : NULL;
	const struct thread_lane *thread = lanes_thread(&c->sel.lanes, block->thread);
	if (!thread || (block->task && !t))
		return -ENOMEM;
	if (t && t->at.shown)
		call_slice(c, "blocked in ", block->call, mauve, t->at.family->pid,
			   lane_of(&t->at)->tid,
			   inside_poll(&t->at, block->begin_ns, block->end_ns), block->end_ns);
	if (thread->shown)
		call_slice(c, "blocked in ", block->call, mauve, thread->pid, thread->tid,
			   inside(block->begin_ns, block->end_ns), block->end_ns);
	return c->out.error;
}

static int on_park(void *ctx, const struct tl_park *park)
{
	struct chrome *c = ctx;
	const struct thread_lane *thread = lanes_thread(&c->sel.lanes, park->thread);
	if (!thread)
		return -ENOMEM;
	if (thread->shown)
		call_slice(c, "parked in ", park->call, "\",\"cname\":\"thread_state_sleeping\"",
			   thread->pid, thread->tid, park->begin_ns, park->end_ns);
	return c->out.error;
}

static void section_slice(struct chrome *c, uint32_t pid, uint32_t tid, uint64_t begin_ns,
			  uint64_t end_ns)
{
	char *p = out_room(&c->out);
	p = put_head(p, &section_head);
	p = put_span(c, p, pid, tid, begin_ns, end_ns);
	*p++ = '}';
	out_used(&c->out, p);
}

static int on_section(void *ctx, const struct tl_section *section)
{
	struct chrome *c = ctx;
	struct chrome_task *t = task_of(c, section->task);
	const struct thread_lane *thread = lanes_thread(&c->sel.lanes, section->thread);
	if (!t || !thread)
		return -ENOMEM;
	if (t->at.shown)
		section_slice(c, t->at.family->pid, lane_of(&t->at)->tid,
			      inside_poll(&t->at, section->begin_ns, section->end_ns),
			      section->end_ns);
	if (thread->shown)
		section_slice(c, thread->pid, thread->tid,
			      inside(section->begin_ns, section->end_ns), section->end_ns);
	return c->out.error;
}

static int on_loss(void *ctx, const struct tl_loss *loss)
{
	struct chrome *c = ctx;
	const struct thread_lane *thread = lanes_thread(&c->sel.lanes, loss->thread);
	if (!thread)
		return -ENOMEM;
	if (!thread->shown)
		return 0;
	char *p = out_room(&c->out);
	p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"loss\",\"cname\":\"bad\",\"name\":\"lost ");
	p = put_u64(p, loss->n_events);
	p = put_lit(p, " events\"");
	p = put_span(c, p, thread->pid, thread->tid, loss->begin_ns, loss->end_ns);
	*p++ = '}';
	out_used(&c->out, p);
	return c->out.error;
}

/* ---- names and order ---- */

static void metadata(struct buf *b, const char *what, uint32_t pid, uint32_t tid, const char *key,
		     const char *text, uint64_t number)
{
	buf_printf(b, "%s\n{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRIu32, b->len ? "," : "", what,
		   pid);
	if (tid)
		buf_printf(b, ",\"tid\":%" PRIu32, tid);
	buf_printf(b, ",\"args\":{\"%s\":", key);
	if (text)
		json_quote(b, text);
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

/* Roots first, then tasks, then blocking closures; few lanes before many, or nobody would find the
 * single ones below a crowd; then the busiest. */
static int by_rank(const void *a, const void *b)
{
	static const unsigned char order[TR_N] = {
		[TR_ROOT] = 0, [TR_TASK] = 1, [TR_BLOCKING] = 2, [TR_WORKER] = 3};
	const struct family *x = *(struct family *const *)a, *y = *(struct family *const *)b;
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
		_cleanup_buf_ struct buf name = BUF_INIT;
		buf_printf(&name, "threads of %s", base_name(tp->exe));
		name_process(b, tp->pid, name.data ? name.data : "threads", (*rank)++);
	}
	qsort(shown, n, sizeof(*shown), by_tid);
	for (uint32_t i = 0; i < n; i++) {
		const struct trace_thread *tt =
			trace_reader_thread(c->reader, (uint32_t)(shown[i] - l->threads));
		_cleanup_buf_ struct buf name = BUF_INIT;
		buf_printf(&name, "%s %" PRIu32, tt->name && *tt->name ? tt->name : "thread",
			   tt->tid);
		name_lane(b, shown[i]->pid, shown[i]->tid, name.data ? name.data : "", i);
	}
	return 0;
}

static void name_family(const struct chrome *c, struct buf *b, const struct family *f,
			uint64_t rank)
{
	_cleanup_buf_ struct buf name = BUF_INIT;
	buf_printf(&name, "%s: ", f->name);
	if (f->shown_tasks < f->n_tasks)
		buf_printf(&name, "%" PRIu64 " of ", f->shown_tasks);
	buf_printf(&name, "%" PRIu64 " %s%s", f->n_tasks,
		   f->role == TR_ROOT	    ? "root future"
		   : f->role == TR_BLOCKING ? "blocking closure"
					    : "task",
		   f->n_tasks == 1 ? "" : "s");
	name_process(b, f->pid, name.data ? name.data : f->name, rank);

	/* Where they are spawned, beside the name. Viewers split labels at commas. */
	const struct trace_kind *k = trace_reader_kind(c->reader, f->kind);
	if (k && k->n_sites && k->sites && k->sites[0] && *k->sites[0]) {
		_cleanup_free_ char *site = strdup(k->sites[0]);
		for (char *s = site; s && *s; s++)
			if (*s == ',')
				*s = ';';
		if (site)
			metadata(b, "process_labels", f->pid, 0, "labels", site, 0);
	}
}

static int name_families(struct chrome *c, struct buf *b, uint64_t *rank, uint32_t *last_pid)
{
	struct lanes *l = &c->sel.lanes;
	_cleanup_free_ struct family **ranked = calloc(l->n_families + 1, sizeof(struct family *));
	if (!ranked)
		return -ENOMEM;
	for (size_t i = 0; i < l->n_families; i++)
		ranked[i] = l->families[i];
	qsort(ranked, l->n_families, sizeof(*ranked), by_rank);

	uint32_t last_tid = 0;
	for (size_t i = 0; i < l->n_families; i++) {
		struct family *f = ranked[i];
		if (!f->n_shown)
			continue;
		f->pid = next_pid(c, last_pid);
		name_family(c, b, f, (*rank)++);
		for (uint32_t k = 0; k < f->n_shown; k++) {
			struct task_lane *lane = &f->lanes[k];
			_cleanup_buf_ struct buf name = BUF_INIT;
			lane->tid = ++last_tid;
			if (lane->n_tasks == 1)
				buf_printf(&name, "task %" PRIu64, lane->number);
			else
				buf_printf(&name, "%" PRIu64 " tasks", lane->n_tasks);
			name_lane(b, f->pid, lane->tid, name.data ? name.data : "", k);
		}
	}
	return 0;
}

/* The cut, where nobody can miss it: a lane of its own on top. */
static void tell_cut(struct chrome *c, struct buf *b, uint32_t pid, uint64_t rank)
{
	name_process(b, pid, "cut", rank);
	name_lane(b, pid, 1, "what is shown", 0);
	buf_str(b, ",\n{\"ph\":\"X\",\"cat\":\"cut\",\"cname\":\"yellow\",\"name\":");
	json_quote(b, c->sel.notice);
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

static int write_head(struct chrome *c)
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
	/* The first of a file without anything: slices begin with a comma. */
	if (!names.len)
		name_process(&names, next_pid(c, &last_pid), "empty trace", 0);
	if (r < 0 || buf_failed(&top) || buf_failed(&names))
		return -ENOMEM;
	out_write(&c->out, top.data, top.len);
	out_write(&c->out, names.data, names.len);
	return c->out.error;
}

static const struct timeline_sink chrome_sink = {
	.task_begin = on_task_begin,
	.task_end = on_task_end,
	.poll = on_poll,
	.wait = on_wait,
	.wake = on_wake,
	.block = on_block,
	.section = on_section,
	.park = on_park,
	.loss = on_loss,
};

static int write_events(struct chrome *c, const struct export_options *opt, struct error *err)
{
	lanes_restart(&c->sel.lanes);
	int r = timeline_replay(c->reader, &c->sel.filter, &chrome_sink, c, opt->progress,
				opt->progress_ctx, NULL, NULL, err);
	/* Also when the trace broke off in the middle: what is there is a whole file. */
	out_write(&c->out, "\n]}\n", 4);
	int flushed = out_flush(&c->out);
	if (flushed == -EPIPE)
		return -EPIPE;
	if (flushed < 0)
		return error_sys(err, flushed, "cannot write");
	return r;
}

static int chrome_write(struct trace_reader *reader, const struct export_options *opt, FILE *file,
			struct export_summary *ret_summary, struct error *err)
{
	struct chrome c = {.reader = reader};

	int r = select_run(reader, opt, &chrome_limits, &c.sel, err);
	if (r < 0)
		return r;
	pool_init(&c.tasks, sizeof(struct chrome_task));
	r = out_init(&c.out, file);
	if (r == 0)
		r = write_head(&c);
	if (r == 0)
		r = write_events(&c, opt, err);
	else if (r == -ENOMEM)
		error_set(err, r, "out of memory");

	*ret_summary = (struct export_summary){.slices = c.n_slices,
					       .flows = c.n_flows,
					       .lanes = c.sel.n_lanes,
					       .bytes = c.out.bytes,
					       .cut_slices = c.sel.cut_slices,
					       .cut_tasks = c.sel.n_tasks - c.sel.shown_tasks};
	memcpy(ret_summary->notice, c.sel.notice, sizeof(ret_summary->notice));
	for (uint32_t i = 0; i < c.n_place_labels; i++)
		free(c.place_labels[i]);
	free(c.place_labels);
	pool_done(&c.tasks);
	out_done(&c.out);
	selection_done(&c.sel);
	return r;
}

const struct export_ops export_chrome = {
	.name = "chrome",
	.extension = ".json",
	.viewers = "Chrome's trace viewer, Perfetto",
	.write = chrome_write,
};
