/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Parses sched:sched_switch: one thread leaves a CPU, in a state that says why, and another one
 * runs in its place. The bits of the state changed over the years, but all kernels agree on the two
 * that matter, and set none of the low ones if the thread could have gone on
 * (include/trace/events/sched.h, include/linux/sched.h).
 */
#include "import/perf_switch.h"

#include <string.h>

enum {
	STATE_SLEEPING = 1,
	STATE_UNINTERRUPTIBLE = 2,
	STATE_DEAD = 0x10 | 0x20 | 0x40, /* 0x40 until 4.13 */
	STATE_LOW = 0xff,
};

uint16_t perf_switch_why(uint64_t state)
{
	if (!(state & STATE_LOW))
		return TX_PREEMPTED;
	if (state & STATE_SLEEPING)
		return TX_SLEEPING;
	if (state & STATE_UNINTERRUPTIBLE)
		return TX_UNINTERRUPTIBLE;
	return state & STATE_DEAD ? TX_N : TX_OTHER;
}

/* "S", "R+", "D|W". */
static uint16_t why_of_letter(char c)
{
	switch (c) {
	case 'R':
		return TX_PREEMPTED;
	case 'S':
		return TX_SLEEPING;
	case 'D':
		return TX_UNINTERRUPTIBLE;
	case 'X':
	case 'Z':
	case 'x':
		return TX_N;
	default:
		return TX_OTHER;
	}
}

/* Where `word` begins last; names of threads precede it, and may hold anything. */
static const char *last(const struct perf_text *t, const char *word)
{
	size_t len = strlen(word);

	for (size_t at = t->len >= len ? t->len - len + 1 : 0; at--;)
		if (!memcmp(t->p + at, word, len))
			return t->p + at;
	return NULL;
}

static struct perf_text rest_after(const struct perf_text *t, const char *at, size_t len)
{
	return (struct perf_text){at + len, (size_t)(t->p + t->len - (at + len))};
}

/* The number after the last `word`; *ret_rest is what follows it. */
static bool number_after(const struct perf_text *t, const char *word, uint64_t *ret,
			 struct perf_text *ret_rest)
{
	const char *at = last(t, word);

	if (!at)
		return false;
	*ret_rest = rest_after(t, at, strlen(word));
	return perf_number(ret_rest, ret);
}

static bool split(const struct perf_text *text, const char *arrow, struct perf_text *ret_from,
		  struct perf_text *ret_to)
{
	const char *at = last(text, arrow);

	if (!at)
		return false;
	*ret_from = (struct perf_text){text->p, (size_t)(at - text->p)};
	*ret_to = rest_after(text, at, strlen(arrow));
	return true;
}

static bool parse_fields(const struct perf_text *text, struct perf_switch *ret)
{
	static const char state[] = " prev_state=";
	struct perf_text from, to, rest;
	const char *at;

	if (!split(text, " ==> next_comm=", &from, &to) ||
	    !number_after(&from, " prev_pid=", &ret->prev, &rest) ||
	    !number_after(&to, " next_pid=", &ret->next, &rest) || !(at = last(&from, state)))
		return false;
	rest = rest_after(&from, at, sizeof(state) - 1);
	uint64_t number;
	if (!rest.len)
		return false;
	ret->reason =
		perf_number(&rest, &number) ? perf_switch_why(number) : why_of_letter(*rest.p);
	return true;
}

/* "app:7 [120]" before the end or a state. */
static bool parse_named(const struct perf_text *t, uint64_t *ret, struct perf_text *ret_rest)
{
	const char *open = last(t, " [");
	struct perf_text name = {t->p, open ? (size_t)(open - t->p) : 0};
	struct perf_text prio = open ? rest_after(t, open, 2) : (struct perf_text){0};
	uint64_t number;

	if (!open || !perf_number(&prio, &number) || !perf_text_starts(&prio, "]") ||
	    !number_after(&name, ":", ret, ret_rest) || ret_rest->len)
		return false;
	*ret_rest = (struct perf_text){prio.p + 1, prio.len - 1};
	return true;
}

static bool parse_plain(const struct perf_text *text, struct perf_switch *ret)
{
	struct perf_text from, to, state, rest;

	if (!split(text, " ==> ", &from, &to) || !parse_named(&from, &ret->prev, &state) ||
	    !parse_named(&to, &ret->next, &rest) || state.len < 2 || *state.p != ' ')
		return false;
	ret->reason = why_of_letter(state.p[1]);
	return true;
}

bool perf_switch_parse(const struct perf_text *text, struct perf_switch *ret)
{
	return parse_fields(text, ret) || parse_plain(text, ret);
}

int perf_switch_hit(struct sink *sink, struct import_thread *thread, uint64_t time,
		    const struct perf_switch *sw)
{
	const struct sink_item h = {.order.time = time,
				    .thread = thread,
				    .type = HIT_OFF_CPU,
				    .detail = sw->reason,
				    .args = {sw->prev, sw->next}};
	return sink_hit(sink, &h);
}

bool perf_is_thread(uint32_t tid)
{
	return tid && tid != UINT32_MAX;
}
