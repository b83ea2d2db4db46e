/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The findings as they lead the report: the sentence, what else is known, what to do. */
#include "report/text_util.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/text.h"

#include <string.h>

static const char *title_of(const struct report *rep, const char *rule)
{
	for (size_t i = 0; i < findings_n_checks(rep->findings); i++)
		if (!strcmp(findings_check(rep->findings, i).rule, rule))
			return findings_check(rep->findings, i).title;
	return rule;
}

static void finding_text(const struct report *rep, struct buf *out, const struct finding *f)
{
	_cleanup_buf_ struct buf sentence = BUF_INIT;

	buf_str(&sentence, f->text);
	if (f->cause)
		buf_printf(&sentence, " (see: %s)", title_of(rep, f->cause));
	buf_char(&sentence, '\n');
	report_lines(out, sentence.data ? sentence.data : "", "  • ");
	if (f->cause && !rep->opt.all_findings)
		return;
	if (f->advice && (f->score >= FINDING_WARNING || rep->opt.all_findings))
		report_lines(out, f->advice, "    → ");
}

static void checks_text(const struct report *rep, struct buf *out)
{
	report_title(rep, out, "What was checked");
	for (size_t i = 0; i < findings_n_checks(rep->findings); i++) {
		const struct finding_check c = findings_check(rep->findings, i);

		buf_printf(out, "  %-16s %s: ", c.rule, c.title);
		if (c.verdict == FV_NOT_APPLICABLE)
			buf_printf(out, "not applicable, because %s\n", c.reason);
		else
			buf_str(out, c.verdict == FV_FOUND ? "found\n" : "nothing\n");
	}
}

static bool shown(const struct report *rep, const struct finding *f)
{
	return rep->opt.all_findings || f->score >= FINDING_MINOR;
}

void findings_text(const struct report *rep, struct buf *out, size_t most)
{
	size_t n = 0, left = 0;

	for (size_t i = 0; i < findings_n(rep->findings); i++) {
		const struct finding *f = findings_get(rep->findings, i);

		if (!shown(rep, f))
			continue;
		if (most && n == most && !rep->opt.all_findings) {
			left++;
			continue;
		}
		if (!n++)
			report_title(rep, out, "What stands out");
		finding_text(rep, out, f);
	}
	if (left)
		buf_printf(out, "  and %zu more: --all-findings shows all\n", left);
	if (!n && (rep->n_longest || !most)) {
		buf_str(out, "Nothing stands out");
		if (rep->n_longest) {
			const struct tl_poll *longest = &rep->longest[0].poll;

			buf_str(out, ": the longest poll took ");
			text_duration(out, longest->end_ns - longest->begin_ns);
		}
		buf_printf(out, ". %zu rules were checked (--all-findings lists them).\n",
			   findings_n_checks(rep->findings));
	}
	if (rep->opt.all_findings)
		checks_text(rep, out);
}

const struct finding *report_finding(const struct report *rep, size_t i)
{
	for (size_t k = 0; k < findings_n(rep->findings); k++) {
		const struct finding *f = findings_get(rep->findings, k);

		if (shown(rep, f) && i-- == 0)
			return f;
	}
	return NULL;
}

bool report_hangs(const struct report *rep)
{
	for (size_t i = 0; i < findings_n(rep->findings); i++)
		if (findings_get(rep->findings, i)->stays &&
		    shown(rep, findings_get(rep->findings, i)))
			return true;
	return false;
}

static uint64_t since_base(const struct report *rep, uint64_t time_ns)
{
	return time_ns > rep->base_ns ? time_ns - rep->base_ns : 0;
}

static void lanes_json(const struct report *rep, struct json *j, const struct finding *f)
{
	if (f->process != UINT32_MAX)
		json_u64(j, "process", f->process);
	json_array(j, "threads");
	for (size_t i = 0; i < f->n_threads; i++) {
		const struct trace_thread *t = trace_reader_thread(rep->reader, f->threads[i]);

		json_u64(j, NULL, t ? t->tid : f->threads[i]);
	}
	json_end_array(j);
	json_array(j, "tasks");
	for (size_t i = 0; i < f->n_tasks; i++) {
		json_object(j, NULL);
		json_u64(j, "serial", f->tasks[i]);
		json_u64(j, "number", f->numbers[i]);
		json_end_object(j);
	}
	json_end_array(j);
}

static void finding_json(const struct report *rep, struct json *j, const struct finding *f)
{
	const struct trace_kind *k = trace_reader_kind(rep->reader, f->kind);
	const struct trace_place *p = report_place(rep, f->place);

	json_object(j, NULL);
	json_string(j, "rule", f->rule);
	json_string(j, "title", f->title);
	json_u64(j, "score", f->score);
	json_string(j, "text", f->text);
	if (f->advice)
		json_string(j, "advice", f->advice);
	if (f->cause)
		json_string(j, "cause", f->cause);
	if (f->time_ns >= rep->base_ns)
		json_u64(j, "time_ns", f->time_ns - rep->base_ns);
	json_u64(j, "from_ns", since_base(rep, f->from_ns));
	json_u64(j, "to_ns", since_base(rep, f->to_ns));
	lanes_json(rep, j, f);
	if (k)
		json_string(j, "family", k->name);
	if (f->handler != TRACE_KIND_NONE)
		report_handler_json(rep, j, f->handler);
	if (p) {
		json_object(j, "place");
		json_string(j, "function", p->function);
		json_string(j, "file", p->file);
		json_u64(j, "line", p->line);
		json_end_object(j);
	}
	if (f->stack)
		report_stack_json(rep->reader, j, "stack", f->stack, TRACE_STACK_FRAMES);
	json_end_object(j);
}

void findings_json(const struct report *rep, struct json *j)
{
	static const char *const verdicts[] = {
		[FV_NOTHING] = "nothing",
		[FV_FOUND] = "found",
		[FV_NOT_APPLICABLE] = "not applicable",
	};

	json_array(j, "findings");
	for (size_t i = 0; i < findings_n(rep->findings); i++)
		finding_json(rep, j, findings_get(rep->findings, i));
	json_end_array(j);
	json_array(j, "rules");
	for (size_t i = 0; i < findings_n_checks(rep->findings); i++) {
		const struct finding_check c = findings_check(rep->findings, i);

		json_object(j, NULL);
		json_string(j, "rule", c.rule);
		json_string(j, "verdict", verdicts[c.verdict]);
		if (c.reason)
			json_string(j, "reason", c.reason);
		json_end_object(j);
	}
	json_end_array(j);
}
