/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Six histograms of what polls wait for and how long they last, the stacks of those that wait for a
 * lock, and for each spawn site the polls, lifetimes and active times of its tasks.
 *
 * A futex call in a poll is a wait for a lock if its thread left the CPU in it, or if it came back
 * with an error that only waits give: so FUTEX_WAIT, FUTEX_WAIT_BITSET (Rust's own mutex) and
 * FUTEX_LOCK_PI all count, and wakes do not. Where no system calls are recorded, the blocking calls
 * that the agent saw replace them: they are waits only.
 *
 * spawn_blocking closures are there to block, so their polls are a histogram of their own, as is
 * the part of a poll inside block_in_place; calls in them are not counted.
 */
#include "report/hists.h"

#include "base/compare.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/map.h"
#include "base/text.h"
#include "base/text_fit.h"
#include "base/vec.h"
#include "report/text_util.h"

#include <errno.h>
#include <stdlib.h>

#define CONTENDED_NS 100000u
#define CONTENDED_FRAMES 5u
#define SPAWN_FRAMES 8u
#define STACKS_SHOWN 10u
#define MAX_BAR 40u
/* x86-64's numbers and errno values */
#define NR_FUTEX 202u
#define NR_RESTART 219u
#define E_INTR 4
#define E_AGAIN 11
#define E_TIMEDOUT 110

/* [0]: 0; [i]: from 2^(i-1) to below 2^i. */
struct log2 {
	uint64_t n, sum_ns, max_ns;
	uint64_t buckets[65];
};

struct place_stats {
	uint32_t kind;
	uint64_t n_tasks;
	struct log2 poll, life, active; /* ns */
};

/* Events with one stack: lock waits or spawns. */
struct stack_count {
	uint64_t stack, n, ns;
};

struct report_thread_seen {
	uint64_t section_ns; /* of the poll that is open: in block_in_place */
	uint64_t left_ns;    /* it left the CPU in a futex call last then */
	uint64_t stack;	     /* of the last time it left the CPU */
	uint64_t stack_ns;
};

enum { H_LATENCY, H_SLEEP, H_POLL, H_BLOCKING, H_FUTEX, H_OTHER, H_N };

static const struct {
	const char *key, *title;
} words[H_N] = {
	[H_LATENCY] = {"schedule_latency_us", "Schedule latency: woken, not yet polled"},
	[H_SLEEP] = {"sleep_us", "Sleep: from a poll's end to the wake"},
	[H_POLL] = {"poll_us", "Polls, without blocking sections"},
	[H_BLOCKING] = {"blocking_us", "Blocking: spawn_blocking closures, block_in_place"},
	[H_FUTEX] = {"futex_wait_during_poll_us", "Waits for a lock (futex) during polls"},
	[H_OTHER] = {"other_calls_during_poll_us", "Other system calls during polls"},
};

struct hists {
	struct trace_reader *reader;
	struct timeline_totals totals;
	uint64_t base_ns;
	uint64_t length_ns;	  /* if whole */
	struct log2 by_type[H_N]; /* us */
	bool calls_seen;	  /* system calls were recorded; else blocking calls replace them */
	struct log2 blocks[2];	  /* by blocking calls: futex waits, others */
	struct map places;	  /* kind to struct place_stats */
	/* To struct stack_count; waits for locks by blocking calls and by system calls. */
	struct map contended[2], spawns;
	bool stacks_seen;
	bool whole; /* the trace is read to its end */
	struct report_thread_seen *threads;
	size_t n_threads;
	const struct hists_watch *watch;
	uint64_t due_ns; /* of its next look */
};

static void log2_add(struct log2 *l, uint64_t value, uint64_t ns)
{
	l->n++;
	l->sum_ns += ns;
	if (ns > l->max_ns)
		l->max_ns = ns;
	l->buckets[value ? 64 - __builtin_clzll(value) : 0]++;
}

static void add_us(struct log2 *l, uint64_t ns)
{
	log2_add(l, ns / 1000, ns);
}

static const struct log2 *log2_of(const struct hists *h, unsigned i)
{
	bool calls = i == H_FUTEX || i == H_OTHER;
	return calls && !h->calls_seen ? &h->blocks[i == H_OTHER] : &h->by_type[i];
}

static struct report_thread_seen *thread_of(struct hists *h, uint32_t thread)
{
	return GROW_ZERO(h->threads, thread, h->n_threads) ? &h->threads[thread] : NULL;
}

static struct place_stats *place_of(struct hists *h, uint32_t kind)
{
	struct place_stats *p = map_get_or_new(&h->places, kind, 0, sizeof(*p));
	if (p)
		p->kind = kind;
	return p;
}

static int count_stack(struct map *m, uint64_t a, uint64_t b, uint64_t stack, uint64_t ns)
{
	struct stack_count *c = map_get_or_new(m, a, b, sizeof(*c));
	if (!c)
		return -ENOMEM;
	if (!c->n++)
		c->stack = stack;
	c->ns += ns;
	return 0;
}

/* Stacks that are alike in their innermost frames are one. */
static int count_contended(struct hists *h, bool calls, uint64_t stack, uint64_t ns)
{
	uint64_t key[2] = {0, 1}, at = stack;
	for (unsigned i = 0; at && i < CONTENDED_FRAMES; i++) {
		const struct trace_stack *s = trace_reader_stack(h->reader, (uint32_t)(at - 1));
		if (!s)
			break;
		key[0] = hash_bytes(key[0], &s->frame, sizeof(s->frame));
		key[1] = hash_bytes(key[1], &s->frame, sizeof(s->frame));
		at = s->parent;
	}
	return count_stack(&h->contended[calls], key[0], key[1], stack, ns);
}

/* ---- the sink ---- */

static bool polls_count(const struct tl_task *task)
{
	return task && (task->role == TR_TASK || task->role == TR_ROOT);
}

static int on_task_end(void *ctx, struct tl_task *task)
{
	struct hists *h = ctx;
	if (!task->end_ns || !task->spawn_seen || task->role != TR_TASK)
		return 0;
	struct place_stats *p = place_of(h, task->kind);
	if (!p)
		return -ENOMEM;
	p->n_tasks++;
	uint64_t life = task->end_ns - task->spawn_ns;
	log2_add(&p->life, life, life);
	log2_add(&p->active, task->poll_ns, task->poll_ns);
	return 0;
}

static int on_section(void *ctx, const struct tl_section *section)
{
	struct hists *h = ctx;
	struct report_thread_seen *t = thread_of(h, section->thread);
	uint64_t ns = section->end_ns - section->begin_ns;
	if (!t)
		return -ENOMEM;
	add_us(&h->by_type[H_BLOCKING], ns);
	t->section_ns += ns;
	return 0;
}

/* The end of a poll is the time to which all is counted. */
static void look(struct hists *h, uint64_t now)
{
	if (!h->due_ns)
		h->due_ns = h->base_ns + h->watch->every_ns;
	if (now < h->due_ns)
		return;
	h->totals.last_ns = now;
	h->watch->show(h->watch->ctx, h);
	h->due_ns = now + h->watch->every_ns;
}

static int on_poll(void *ctx, const struct tl_poll *poll)
{
	struct hists *h = ctx;
	if (h->watch)
		look(h, poll->end_ns);
	struct report_thread_seen *t = thread_of(h, poll->thread);
	uint64_t ns = poll->end_ns - poll->begin_ns;
	if (!t)
		return -ENOMEM;
	if (poll->begin_seen && poll->scheduled_ns)
		add_us(&h->by_type[H_LATENCY], poll->begin_ns - poll->scheduled_ns);
	uint64_t section = t->section_ns < ns ? t->section_ns : ns;
	if (!poll->depth || t->section_ns)
		t->section_ns = 0;
	if (!tl_poll_measured(poll))
		return 0;
	if (poll->task->role == TR_BLOCKING) {
		add_us(&h->by_type[H_BLOCKING], ns);
		return 0;
	}
	if (!polls_count(poll->task))
		return 0;
	add_us(&h->by_type[H_POLL], ns - section);
	if (poll->task->role != TR_TASK)
		return 0;
	struct place_stats *p = place_of(h, poll->task->kind);
	if (!p)
		return -ENOMEM;
	log2_add(&p->poll, ns, ns);
	return 0;
}

static int on_wait(void *ctx, const struct tl_wait *wait)
{
	struct hists *h = ctx;
	/* One that lasts to its task's or the trace's end has no wake. */
	if (wait->state == TS_SCHEDULED && wait->open && wait->task->role != TR_ROOT)
		add_us(&h->by_type[H_LATENCY], wait->end_ns - wait->begin_ns);
	if (wait->state == TS_WAITING && (wait->next == TS_SCHEDULED || wait->next == TS_POLLING))
		add_us(&h->by_type[H_SLEEP], wait->end_ns - wait->begin_ns);
	return 0;
}

/* Also a condition variable's. */
static bool waits_for_lock(uint16_t call)
{
	return trace_call_waits_for_lock(call) || call == TB_PTHREAD_COND_WAIT ||
	       call == TB_PTHREAD_COND_TIMEDWAIT;
}

/* The last stack of the thread, if it was taken in this wait. */
static uint64_t stack_of_wait(const struct report_thread_seen *t, uint64_t begin_ns)
{
	return t->stack && t->stack_ns + CONTENDED_NS >= begin_ns ? t->stack : 0;
}

static int on_block(void *ctx, const struct tl_block *block)
{
	struct hists *h = ctx;
	uint64_t ns = block->end_ns - block->begin_ns;
	if (!polls_count(block->task))
		return 0;
	bool lock = waits_for_lock(block->call);
	add_us(&h->blocks[!lock], ns);
	if (!lock || ns <= CONTENDED_NS || !h->stacks_seen)
		return 0;
	struct report_thread_seen *t = thread_of(h, block->thread);
	if (!t)
		return -ENOMEM;
	return count_contended(h, false, stack_of_wait(t, block->begin_ns), ns);
}

static int on_sample(void *ctx, const struct tl_sample *sample)
{
	struct hists *h = ctx;
	if (sample->type == TM_SPAWN)
		return count_stack(&h->spawns, sample->stack, 1, sample->stack, 0);
	struct report_thread_seen *t =
		sample->type == TM_BLOCKED ? thread_of(h, sample->thread) : NULL;
	if (t) {
		t->stack = sample->stack;
		t->stack_ns = sample->time_ns;
		h->stacks_seen = true;
	}
	return 0;
}

static int on_off_cpu(void *ctx, const struct tl_off_cpu *off)
{
	struct hists *h = ctx;
	struct report_thread_seen *t = thread_of(h, off->thread);
	if (!t)
		return -ENOMEM;
	if (off->syscall == NR_FUTEX + 1 && off->reason != TX_PREEMPTED)
		t->left_ns = off->end_ns;
	return 0;
}

static int on_syscall(void *ctx, const struct tl_syscall *call)
{
	struct hists *h = ctx;
	struct report_thread_seen *t = thread_of(h, call->thread);
	uint64_t ns = call->end_ns - call->begin_ns;
	if (!t)
		return -ENOMEM;
	if (!polls_count(call->task) || call->number == NR_RESTART)
		return 0;
	h->calls_seen = true;
	bool slept = t->left_ns && t->left_ns >= call->begin_ns;
	bool wait_only =
		call->result == -E_AGAIN || call->result == -E_TIMEDOUT || call->result == -E_INTR;
	if (call->number != NR_FUTEX || (!slept && !wait_only)) {
		add_us(&h->by_type[H_OTHER], ns);
		return 0;
	}
	add_us(&h->by_type[H_FUTEX], ns);
	if (ns <= CONTENDED_NS)
		return 0;
	return count_contended(h, true, stack_of_wait(t, call->begin_ns), ns);
}

static const struct timeline_sink sink = {
	.task_end = on_task_end,
	.poll = on_poll,
	.wait = on_wait,
	.block = on_block,
	.section = on_section,
	.sample = on_sample,
	.off_cpu = on_off_cpu,
	.syscall = on_syscall,
};

int hists_make(struct trace_reader *r, const struct replay_filter *filter,
	       const struct hists_watch *watch,
	       void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx,
	       struct hists **ret_hists, struct error *err)
{
	struct hists *h = calloc(1, sizeof(*h));
	if (!h)
		return error_set(err, -ENOMEM, "out of memory");
	h->reader = r;
	h->watch = watch;
	int ret = timeline_replay(r, filter, &sink, h, progress, progress_ctx, &h->totals,
				  &h->base_ns, err);
	if (ret < 0) {
		hists_free(h);
		return ret;
	}
	h->whole = true;
	h->length_ns = replay_length_ns(r, filter, h->base_ns, h->totals.last_ns);
	*ret_hists = h;
	return 0;
}

void hists_free(struct hists *h)
{
	if (!h)
		return;
	map_free(&h->places, free);
	map_free(&h->contended[0], free);
	map_free(&h->contended[1], free);
	map_free(&h->spawns, free);
	free(h->threads);
	free(h);
}

uint64_t hists_n_spawn_stacks(const struct hists *h)
{
	return h->spawns.n;
}

/* ---- in order ---- */

static int compare_places(const void *a, const void *b)
{
	const struct place_stats *x = *(struct place_stats *const *)a;
	const struct place_stats *y = *(struct place_stats *const *)b;

	return DESCENDING(x->poll.sum_ns, y->poll.sum_ns) ?: ASCENDING(x->kind, y->kind);
}

static int compare_stacks(const void *a, const void *b)
{
	const struct stack_count *x = *(struct stack_count *const *)a;
	const struct stack_count *y = *(struct stack_count *const *)b;

	return DESCENDING(x->n, y->n) ?: ASCENDING(x->stack, y->stack);
}

/* ---- for people ---- */

/* 0, 1, 2, 4, ... 512, 1K, 2K */
static void bound(struct buf *out, unsigned bit)
{
	static const char units[] = "\0KMGTPE";
	buf_printf(out, "%u", 1u << bit % 10);
	if (bit / 10)
		buf_char(out, units[bit / 10]);
}

static void write_log2(struct buf *out, const char *title, const char *unit, const struct log2 *l,
		       unsigned width, bool color)
{
	unsigned first = 0, last = 64;
	uint64_t most = 0;

	buf_printf(out, color ? "\n\x1b[1m%s\x1b[0m (%s): " : "\n%s (%s): ", title, unit);
	if (!l->n) {
		buf_str(out, "none\n");
		return;
	}
	text_count(out, l->n);
	buf_str(out, ", mean ");
	text_duration(out, l->sum_ns / l->n);
	buf_str(out, ", longest ");
	text_duration(out, l->max_ns);
	buf_char(out, '\n');
	while (!l->buckets[first])
		first++;
	while (!l->buckets[last])
		last--;
	for (unsigned i = first; i <= last; i++)
		if (l->buckets[i] > most)
			most = l->buckets[i];
	unsigned bar = width && width < MAX_BAR + 32 ? (width > 36 ? width - 32 : 4) : MAX_BAR;
	for (unsigned i = first; i <= last; i++) {
		_cleanup_buf_ struct buf range = BUF_INIT;
		buf_char(&range, '[');
		if (i < 2) {
			buf_printf(&range, "%u]", i);
		} else {
			bound(&range, i - 1);
			buf_str(&range, ", ");
			bound(&range, i);
			buf_char(&range, ')');
		}
		buf_printf(out, "  %-14s %10llu |", range.data ? range.data : "",
			   (unsigned long long)l->buckets[i]);
		unsigned filled = (unsigned)((double)l->buckets[i] / (double)most * bar + 0.5);
		for (unsigned k = 0; k < bar; k++)
			buf_char(out, k < filled ? '@' : ' ');
		buf_str(out, "|\n");
	}
}

static void heading(struct buf *out, const char *text, bool color)
{
	buf_printf(out, color ? "\n\x1b[1m%s\x1b[0m\n" : "\n%s\n", text);
}

static void write_stacks(const struct hists *h, struct buf *out, const struct map *m,
			 const char *title, bool times, unsigned frames, unsigned width, bool color)
{
	struct stack_count **all = map_sorted(m, compare_stacks);
	if (!all || !m->n) {
		free(all);
		return;
	}
	heading(out, title, color);
	for (size_t i = 0; i < m->n && i < STACKS_SHOWN; i++) {
		buf_str(out, "  ");
		text_count(out, all[i]->n);
		buf_str(out, " ×");
		if (times) {
			buf_str(out, ", ");
			text_duration(out, all[i]->ns);
			buf_str(out, " in total");
		}
		buf_str(out, all[i]->stack ? "\n" : ", stack not known\n");
		report_stack_text(h->reader, out, all[i]->stack, frames, 6, width);
	}
	if (m->n > STACKS_SHOWN)
		buf_printf(out, "  and %zu more stacks: --json has them\n", m->n - STACKS_SHOWN);
	free(all);
}

static void place_title(const struct hists *h, struct buf *out, const struct place_stats *p)
{
	const struct trace_kind *k = trace_reader_kind(h->reader, p->kind);
	text_safe(out, kind_name(h->reader, p->kind));
	for (uint32_t i = 0; k && k->sites && i < k->n_sites; i++) {
		buf_str(out, i ? " or at " : ", spawned at ");
		text_safe(out, k->sites[i]);
	}
}

static uint64_t length_of(const struct hists *h)
{
	return h->whole ? h->length_ns : h->totals.last_ns - h->base_ns;
}

void hists_text(const struct hists *h, struct buf *out, unsigned width, bool color)
{
	text_duration(out, length_of(h));
	if (h->whole) {
		buf_str(out, ", ");
		text_count(out, h->totals.n_events);
		buf_str(out, " events");
	}
	if (h->totals.n_lost || h->totals.n_lost_aux) {
		buf_str(out, ", ");
		text_count(out, h->totals.n_lost + h->totals.n_lost_aux);
		buf_str(out, " lost: counts are lower bounds");
	}
	buf_str(out,
		h->calls_seen ? "\n" : "; system calls: only blocking ones, seen by the agent\n");
	for (unsigned i = 0; i < H_N; i++)
		write_log2(out, words[i].title, "µs", log2_of(h, i), width, color);
	write_stacks(h, out, &h->contended[h->calls_seen],
		     "Lock waits longer than 100 µs during polls, by stack", true, CONTENDED_FRAMES,
		     width, color);
	write_stacks(h, out, &h->spawns, "Spawns by stack", false, SPAWN_FRAMES, width, color);

	struct place_stats **all = map_sorted(&h->places, compare_places);
	for (size_t i = 0; all && i < h->places.n; i++) {
		_cleanup_buf_ struct buf title = BUF_INIT;
		place_title(h, &title, all[i]);
		heading(out, title.data ? title.data : "?", color);
		write_log2(out, "task poll duration", "ns", &all[i]->poll, width, false);
		write_log2(out, "task total lifetime", "ns", &all[i]->life, width, false);
		write_log2(out, "task active time", "ns", &all[i]->active, width, false);
	}
	free(all);
	text_wrap(out, width);
}

/* ---- for programs ---- */

static void log2_json(struct json *j, const char *key, const struct log2 *l)
{
	json_object(j, key);
	json_u64(j, "count", l->n);
	json_u64(j, "sum_ns", l->sum_ns);
	json_u64(j, "max_ns", l->max_ns);
	json_array(j, "buckets");
	for (unsigned i = 0; i < 65; i++) {
		if (!l->buckets[i])
			continue;
		json_object(j, NULL);
		json_u64(j, "from", i ? 1ull << (i - 1) : 0);
		json_u64(j, "below", i < 64 ? 1ull << i : UINT64_MAX);
		json_u64(j, "count", l->buckets[i]);
		json_end_object(j);
	}
	json_end_array(j);
	json_end_object(j);
}

static void stacks_json(const struct hists *h, struct json *j, const char *key, const struct map *m,
			unsigned frames)
{
	struct stack_count **all = map_sorted(m, compare_stacks);
	json_array(j, key);
	for (size_t i = 0; all && i < m->n; i++) {
		json_object(j, NULL);
		json_u64(j, "count", all[i]->n);
		json_u64(j, "ns", all[i]->ns);
		report_stack_json(h->reader, j, "stack", all[i]->stack, frames);
		json_end_object(j);
	}
	json_end_array(j);
	free(all);
}

void hists_json(const struct hists *h, struct buf *out)
{
	struct json j;
	json_init(&j, out, true);
	json_object(&j, NULL);
	json_u64(&j, "version", 2);
	json_u64(&j, "events", h->totals.n_events);
	json_u64(&j, "lost", h->totals.n_lost);
	json_u64(&j, "lost_aux", h->totals.n_lost_aux);
	json_u64(&j, "duration_ns", length_of(h));
	json_bool(&j, "system_calls", h->calls_seen);
	for (unsigned i = 0; i < H_N; i++)
		log2_json(&j, words[i].key, log2_of(h, i));
	stacks_json(h, &j, "lock_contention", &h->contended[h->calls_seen], CONTENDED_FRAMES);
	stacks_json(h, &j, "spawns_by_stack", &h->spawns, TRACE_STACK_FRAMES);
	json_array(&j, "spawn_locations");
	struct place_stats **all = map_sorted(&h->places, compare_places);
	for (size_t i = 0; all && i < h->places.n; i++) {
		const struct trace_kind *k = trace_reader_kind(h->reader, all[i]->kind);
		json_object(&j, NULL);
		json_string(&j, "family", k ? k->name : "");
		json_array(&j, "spawn_sites");
		for (uint32_t s = 0; k && k->sites && s < k->n_sites; s++)
			json_string(&j, NULL, k->sites[s]);
		json_end_array(&j);
		json_u64(&j, "tasks", all[i]->n_tasks);
		log2_json(&j, "poll_ns", &all[i]->poll);
		log2_json(&j, "lifetime_ns", &all[i]->life);
		log2_json(&j, "active_ns", &all[i]->active);
		json_end_object(&j);
	}
	free(all);
	json_end_array(&j);
	json_end_object(&j);
	buf_char(out, '\n');
}
