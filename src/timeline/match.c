/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The words of a filter against what was there: noted task by task, judged once at the end. */
#include "timeline/match.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "trace/labels.h"
#include "trace/objects.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAMES 6u
#define MAX_NAME_BYTES 60u

void match_done(struct match *m)
{
	map_done(&m->kinds);
	map_done(&m->tasks);
}

int match_note(struct match *m, const struct tl_task *task, bool wanted)
{
	static char there;

	if (tl_role_counts(task->role) && task->number != UINT64_MAX) {
		if (!m->n_tasks++ || task->number < m->lowest)
			m->lowest = task->number;
		if (task->number > m->highest)
			m->highest = task->number;
	}
	m->n_wanted += wanted;
	if (m->filter->tasks && match_number(m->filter->tasks, task->number) &&
	    map_put(&m->tasks, task->number, 0, &there) < 0)
		return -ENOMEM;
	return map_put(&m->kinds, task->kind, 0, &there);
}

int match_note_handler(struct match *m, uint32_t kind, bool wanted)
{
	static char there;

	m->n_wanted += wanted;
	return map_put(&m->kinds, kind, 0, &there);
}

static int see_task(void *ctx, struct tl_task *task)
{
	struct match *m = ctx;
	const struct replay_filter *f = m->filter;
	const struct trace_kind *k = trace_reader_kind(m->reader, task->kind);
	bool wanted = (!f->tasks || match_number(f->tasks, task->number)) &&
		      (!f->families || match_kind(f->families, m->reader, k));

	return match_note(m, task, wanted);
}

static int see_future(void *ctx, struct tl_future *future)
{
	struct match *m = ctx;
	const struct replay_filter *f = m->filter;
	const struct trace_kind *k = trace_reader_kind(m->reader, future->kind);

	if (!tl_is_round(future) || !future->task)
		return 0;
	return match_note_handler(m, future->kind,
				  (!f->tasks || match_number(f->tasks, future->task->number)) &&
					  (!f->families || match_kind(f->families, m->reader, k)));
}

struct fan_out_sink match_sink(struct match *m)
{
	static const struct timeline_sink sink = {.task_begin = see_task, .future_end = see_future};

	return (struct fan_out_sink){&sink, m};
}

/* ---- what there is ---- */

/* free() */
static char *handler_of(const struct trace_kind *k)
{
	return k && k->flags & TRACE_KIND_HANDLER ? handler_name(k) : NULL;
}

struct call_names {
	struct buf text;
	char *seen[MAX_NAMES];
	unsigned n;
};

static void add_name(struct call_names *names, const char *name)
{
	size_t len = strlen(name);

	for (unsigned i = 0; i < names->n && i < MAX_NAMES; i++)
		if (names->seen[i] && !strcmp(names->seen[i], name))
			return;
	if (names->n < MAX_NAMES) {
		names->seen[names->n] = strdup(name);
		buf_str(&names->text, names->n ? ", " : "");
		buf_add(&names->text, name, len < MAX_NAME_BYTES ? len : MAX_NAME_BYTES);
		buf_str(&names->text, len > MAX_NAME_BYTES ? "..." : "");
	}
	names->n++;
}

static int complain(struct call_names *names, const char *what, const char *word, struct error *err)
{
	buf_str(&names->text, names->n > MAX_NAMES ? ", ..." : names->n ? "" : "none");
	error_set(err, -ENOENT, "no %s '%s': the trace has %s", what, word,
		  buf_failed(&names->text) ? "others" : names->text.data);
	buf_done(&names->text);
	for (unsigned i = 0; i < names->n && i < MAX_NAMES; i++)
		free(names->seen[i]);
	return -ENOENT;
}

static void add_kind(struct call_names *names, const struct match *m, uint32_t kind)
{
	const struct trace_kind *k = trace_reader_kind(m->reader, kind);
	_cleanup_free_ char *handler = handler_of(k);

	add_name(names, handler ? handler : k && k->name ? k->name : "");
}

static int no_family(const struct match *m, const char *word, struct error *err)
{
	struct call_names names = {.text = BUF_INIT};
	const struct map_entry *e;
	size_t pos = 0;

	while ((e = map_next(&m->kinds, &pos)))
		add_kind(&names, m, (uint32_t)e->a);
	return complain(&names, "family whose name contains", word, err);
}

static int no_thread(const struct match *m, const char *word, struct error *err)
{
	struct call_names names = {.text = BUF_INIT};

	for (uint32_t i = 0; i < trace_reader_n_threads(m->reader); i++) {
		const char *name = trace_reader_thread(m->reader, i)->name;

		if (name && *name)
			add_name(&names, name);
	}
	return complain(&names, "thread of the number or name", word, err);
}

static int no_task(const struct match *m, const char *word, struct error *err)
{
	if (!m->n_tasks)
		return error_set(err, -ENOENT, "no task %s: the trace has none", word);
	return error_set(err, -ENOENT,
			 "no task %s: the trace has %" PRIu64 " tasks, from number %" PRIu64
			 " to %" PRIu64,
			 word, m->n_tasks, m->lowest, m->highest);
}

/* ---- judged ---- */

/* Whether the text contains one of the words; NULL contains none. */
static bool match_text(const char *const *list, const char *text)
{
	for (; *list; list++)
		if (text && strstr(text, *list))
			return true;
	return false;
}

bool match_kind(const char *const *list, struct trace_reader *r, const struct trace_kind *k)
{
	_cleanup_free_ char *object = NULL, *handler = NULL;
	_cleanup_buf_ struct buf label = BUF_INIT;

	if (!k || !k->name)
		return false;
	if (match_text(list, k->name))
		return true;
	if (match_text(list, kind_connection(k)))
		return true;
	handler = handler_of(k);
	if (handler && match_text(list, handler))
		return true;
	object = trace_has_objects(r, k->process) ? trace_object_label(r, trace_kind_object(r, k))
						  : NULL;
	if (!object)
		return false;
	buf_printf(&label, "%s: %s", object, k->name);
	return !buf_failed(&label) && match_text(list, label.data);
}

bool match_number(const char *const *list, uint64_t number)
{
	uint64_t given;

	for (; *list; list++)
		if (text_parse_number(*list, &given) == 0 && given == number)
			return true;
	return false;
}

bool match_thread(const char *const *list, const struct trace_thread *t)
{
	for (const char *const *one = list; *one; one++) {
		char *end;
		unsigned long tid = strtoul(*one, &end, 10);

		if (**one && !*end && tid == t->tid)
			return true;
	}
	return match_text(list, t->name);
}

static bool any_family(const struct match *m, const char *word)
{
	const char *const list[] = {word, NULL};
	const struct map_entry *e;
	size_t pos = 0;

	while ((e = map_next(&m->kinds, &pos)))
		if (match_kind(list, m->reader, trace_reader_kind(m->reader, (uint32_t)e->a)))
			return true;
	return false;
}

static bool any_thread(const struct match *m, const char *word)
{
	const char *const list[] = {word, NULL};

	for (uint32_t i = 0; i < trace_reader_n_threads(m->reader); i++)
		if (match_thread(list, trace_reader_thread(m->reader, i)))
			return true;
	return false;
}

static bool any_task(const struct match *m, const char *word)
{
	uint64_t number;

	return text_parse_number(word, &number) == 0 && map_get(&m->tasks, number, 0);
}

static int no_window(uint64_t length_ns, uint64_t from_ns, struct error *err)
{
	_cleanup_buf_ struct buf from = BUF_INIT, length = BUF_INIT;

	text_duration(&from, from_ns);
	text_duration(&length, length_ns);
	return error_set(err, -ENOENT, "nothing is after --from %s: the trace ends at %s",
			 buf_failed(&from) ? "" : from.data,
			 buf_failed(&length) ? "" : length.data);
}

int match_check(const struct match *m, uint64_t length_ns, struct error *err)
{
	const struct replay_filter *f = m->filter;

	if (f->from_ns && f->from_ns >= length_ns)
		return no_window(length_ns, f->from_ns, err);
	for (const char *const *one = f->families; one && *one; one++)
		if (!any_family(m, *one))
			return no_family(m, *one, err);
	for (const char *const *one = f->threads; one && *one; one++)
		if (!any_thread(m, *one))
			return no_thread(m, *one, err);
	for (const char *const *one = f->tasks; one && *one; one++)
		if (!any_task(m, *one))
			return no_task(m, *one, err);
	if (f->families && f->tasks && !m->n_wanted)
		return error_set(
			err, -ENOENT,
			"no task with one of these numbers belongs to one of these families");
	return 0;
}
