/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The report as one HTML file: the page of web/ with its data inside. A second pass over the trace
 * collects the data (page_data.c). In the file:
 *
 *   tables, as plain HTML: what is read with scripts off, and printed
 *   one block of text: base64 of gzip of { a u32 of the JSON's length, the JSON, the columns }
 *
 * All text from the trace is escaped here or is inside the block.
 */
#include "report/page_data.h"
#include "report/page_template.h"
#include "report/text_util.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "base/units.h"
#include "moment/graph.h"
#include "moment/render.h"
#include "timeline/fan_out.h"
#include "trace/objects.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* A moment of more tasks than this has its trees left out: the page must stay small. */
#define MOST_TREES 2000u
#define MOST_ROWS 200u

/* Of the block of data: a page is never above 20 MB. */
#define MOST_DATA_BYTES 19000000u

enum { GZIP_WINDOW = 15 + 16, GZIP_MEMORY = 9 };

/* ---- tables ---- */

static void html_text(struct buf *out, const char *text)
{
	_cleanup_buf_ struct buf safe = BUF_INIT;

	text_safe(&safe, text ? text : "");
	for (const char *c = safe.data ? safe.data : ""; *c; c++) {
		switch (*c) {
		case '<':
			buf_str(out, "&lt;");
			break;
		case '>':
			buf_str(out, "&gt;");
			break;
		case '&':
			buf_str(out, "&amp;");
			break;
		case '"':
			buf_str(out, "&quot;");
			break;
		case '\'':
			buf_str(out, "&#39;");
			break;
		default:
			buf_char(out, *c);
		}
	}
}

/* A column of numbers has a title that begins with "#", and is aligned to the right. */
static void table_begin(struct buf *out, const char *title, const char *const *columns)
{
	buf_printf(out, "<section><h2>%s</h2><table><thead><tr>", title);
	for (; *columns; columns++)
		buf_printf(out,
			   **columns == '#' ? "<th scope=\"col\" class=\"n\">%s</th>"
					    : "<th scope=\"col\">%s</th>",
			   *columns + (**columns == '#'));
	buf_str(out, "</tr></thead><tbody>\n");
}

static void table_end(struct buf *out, size_t n)
{
	buf_str(out, "</tbody></table>");
	if (n > MOST_ROWS)
		buf_printf(out, "<p>and %zu more</p>", n - MOST_ROWS);
	buf_str(out, "</section>\n");
}

static void name_cell(struct buf *out, const char *text)
{
	buf_str(out, "<td>");
	html_text(out, text);
	buf_str(out, "</td>");
}

static void time_cell(struct buf *out, bool known, uint64_t ns)
{
	buf_str(out, "<td class=\"n\">");
	if (known)
		text_duration(out, ns);
	else
		buf_char(out, '-');
	buf_str(out, "</td>");
}

static void count_cell(struct buf *out, uint64_t n)
{
	buf_str(out, "<td class=\"n\">");
	text_exact(out, n);
	buf_str(out, "</td>");
}

static void place_cell(struct buf *out, const struct trace_place *p)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	if (p)
		trace_place_text(&text, p);
	name_cell(out, text.data);
}

static void thread_cell(const struct report *rep, struct buf *out, uint32_t thread)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	report_thread(rep, &text, thread);
	name_cell(out, text.data);
}

static void findings_html(const struct report *rep, struct buf *out)
{
	size_t n = findings_n(rep->findings);

	buf_str(out, "<section><h2>What stands out</h2>");
	if (!n)
		buf_printf(out, "<p>Nothing stands out. %zu rules were checked.</p>",
			   findings_n_checks(rep->findings));
	buf_str(out, n ? "<ol>\n" : "");
	for (size_t i = 0; i < n; i++) {
		const struct finding *f = findings_get(rep->findings, i);

		buf_printf(out, "<li class=\"%s\"><strong>",
			   f->score >= FINDING_WARNING ? "warning" : "note");
		html_text(out, f->title);
		buf_printf(out, "</strong> (score %u): ", f->score);
		html_text(out, f->text);
		if (f->advice) {
			buf_str(out, "<br><em>");
			html_text(out, f->advice);
			buf_str(out, "</em>");
		}
		buf_str(out, "</li>\n");
	}
	buf_str(out, n ? "</ol></section>\n" : "</section>\n");
}

static void families_html(const struct report *rep, struct buf *out)
{
	static const char *const columns[] = {"family",	    "role",	 "#tasks",    "#polls",
					      "#poll time", "#poll p50", "#poll p99", "#poll max",
					      "#delay p99", "#waiting",	 "#blocked",  "#wakes",
					      NULL};

	table_begin(out, "Families", columns);
	for (size_t i = 0; i < rep->n_families && i < MOST_ROWS; i++) {
		const struct family *f = rep->families[i];

		buf_str(out, "<tr>");
		name_cell(out, family_name(rep, f));
		name_cell(out, f->role == TR_ROOT ? "block_on" : trace_role_name(f->role));
		count_cell(out, f->n_tasks);
		count_cell(out, f->n_polls);
		time_cell(out, f->poll.count, f->poll.sum);
		time_cell(out, f->poll.count, hist_quantile(&f->poll, 0.5));
		time_cell(out, f->poll.count, hist_quantile(&f->poll, 0.99));
		time_cell(out, f->poll.count, f->poll.max);
		time_cell(out, f->delay.count, hist_quantile(&f->delay, 0.99));
		time_cell(out, true, f->waiting_ns);
		time_cell(out, true, f->blocked_ns);
		count_cell(out, f->n_wakes);
		buf_str(out, "</tr>\n");
	}
	table_end(out, rep->n_families);
}

static void waits_html(const struct report *rep, struct buf *out)
{
	static const char *const columns[] = {"await point", "what is awaited",
					      "family",	     "#waits",
					      "#total",	     "#p50",
					      "#p99",	     "#max",
					      NULL};

	if (!rep->n_waits)
		return;
	table_begin(out, "Where tasks wait", columns);
	for (size_t i = 0; i < rep->n_waits && i < MOST_ROWS; i++) {
		const struct wait_place *w = rep->waits[i];
		const struct trace_place *p = report_place(rep, w->place);

		buf_str(out, "<tr>");
		place_cell(out, p);
		name_cell(out, p ? p->awaits : "");
		name_cell(out, family_name(rep, w->family));
		count_cell(out, w->waits.count);
		time_cell(out, true, w->waits.sum);
		time_cell(out, w->waits.count, hist_quantile(&w->waits, 0.5));
		time_cell(out, w->waits.count, hist_quantile(&w->waits, 0.99));
		time_cell(out, w->waits.count, w->waits.max);
		buf_str(out, "</tr>\n");
	}
	table_end(out, rep->n_waits);
}

static void longest_html(const struct report *rep, struct buf *out)
{
	static const char *const columns[] = {"#took", "#blocked", "family", "#task", "thread",
					      "#at",   "end",	   "calls",  NULL};

	if (!rep->n_longest)
		return;
	table_begin(out, "Longest polls", columns);
	for (size_t i = 0; i < rep->n_longest && i < MOST_ROWS; i++) {
		const struct long_poll *l = &rep->longest[i];
		_cleanup_buf_ struct buf calls = BUF_INIT;

		report_calls(&calls, &l->calls, 3);
		buf_str(out, "<tr>");
		time_cell(out, true, l->poll.end_ns - l->poll.begin_ns);
		time_cell(out, true, l->poll.blocked_ns);
		name_cell(out, family_name(rep, l->family));
		count_cell(out, l->number);
		thread_cell(rep, out, l->poll.thread);
		time_cell(out, true, l->poll.begin_ns - rep->base_ns);
		name_cell(out, trace_outcome_name(l->poll.outcome));
		name_cell(out, calls.data);
		buf_str(out, "</tr>\n");
	}
	table_end(out, rep->n_longest);
}

static void threads_html(const struct report *rep, struct buf *out)
{
	static const char *const columns[] = {"thread",	 "role",     "#polls", "#busy",
					      "#parked", "#blocked", "#lost",  NULL};

	if (!rep->n_threads)
		return;
	table_begin(out, "Threads", columns);
	for (size_t i = 0; i < rep->n_threads && i < MOST_ROWS; i++) {
		const struct tl_thread *t = &rep->threads[i];

		buf_str(out, "<tr>");
		thread_cell(rep, out, t->thread);
		name_cell(out, t->root ? "block_on" : t->worker ? "worker" : "blocking");
		count_cell(out, t->n_polls);
		time_cell(out, true, t->busy_ns);
		time_cell(out, true, t->parked_ns);
		time_cell(out, true, t->blocked_ns);
		count_cell(out, t->lost);
		buf_str(out, "</tr>\n");
	}
	table_end(out, rep->n_threads);
}

static void tables_html(const struct report *rep, struct buf *out)
{
	const struct trace_process *p = trace_reader_process(rep->reader, 0);

	buf_str(out, "<h1>");
	html_text(out, p ? p->exe : "pollux");
	buf_str(out, "</h1><p>");
	text_duration(out, rep->length_ns);
	buf_str(out, ", ");
	text_exact(out, rep->totals.n_events);
	buf_str(out, " events, ");
	if (rep->n_lost)
		text_exact(out, rep->n_lost);
	buf_str(out, rep->n_lost ? " lost</p>\n" : "none lost</p>\n");
	findings_html(rep, out);
	families_html(rep, out);
	waits_html(rep, out);
	longest_html(rep, out);
	threads_html(rep, out);
}

/* ---- data ---- */

static void write_threads(const struct report *rep, struct json *j)
{
	json_array(j, "threads");
	for (uint32_t i = 0; i < trace_reader_n_threads(rep->reader); i++) {
		const struct trace_thread *t = trace_reader_thread(rep->reader, i);
		const struct tl_thread *used = NULL;

		for (size_t k = 0; k < rep->n_threads; k++)
			if (rep->threads[k].thread == i)
				used = &rep->threads[k];
		json_object(j, NULL);
		json_u64(j, "tid", t ? t->tid : 0);
		json_string(j, "name", t ? t->name : "");
		json_u64(j, "process", t ? t->process : 0);
		json_string(j, "role",
			    !used	   ? "other"
			    : used->worker ? "worker"
			    : used->root   ? "block_on"
					   : "blocking");
		json_u64(j, "polls", used ? used->n_polls : 0);
		json_end_object(j);
	}
	json_end_array(j);
}

static void write_kinds(const struct report *rep, struct json *j)
{
	json_array(j, "kinds");
	for (uint32_t i = 0; i < trace_reader_n_kinds(rep->reader); i++) {
		const struct trace_kind *k = trace_reader_kind(rep->reader, i);
		const char *brief = i < rep->labels.n ? report_short(rep, i) : NULL;

		json_object(j, NULL);
		json_string(j, "name", report_label(rep, i));
		json_string(j, "short", brief && *brief ? brief : report_label(rep, i));
		json_string(j, "full_name", k ? k->full_name : "");
		json_string(j, "role", trace_role_name(k ? k->role : TR_TASK));
		json_u64(j, "process", k ? k->process : 0);
		json_array(j, "sites");
		for (uint32_t s = 0; k && k->sites && s < k->n_sites; s++)
			json_string(j, NULL, k->sites[s]);
		json_end_array(j);
		json_end_object(j);
	}
	json_end_array(j);
}

static void write_words(struct json *j, const char *key, const char *(*word)(unsigned), unsigned n)
{
	json_array(j, key);
	for (unsigned i = 0; i < n; i++)
		json_string(j, NULL, word(i));
	json_end_array(j);
}

static int write_moments(const struct report *rep, struct json *j, struct error *err)
{
	static const struct render_options options = {0};

	json_array(j, "moments");
	for (uint32_t i = 0; i < trace_reader_n_moments(rep->reader); i++) {
		struct trace_moment m = {0};
		struct graph graph = {0};
		enum moment_when when;
		uint32_t process;

		if (!trace_reader_moment_name(rep->reader, i, &process, &when))
			continue;
		int r = trace_reader_moment(rep->reader, process, when, &m, err);
		if (r > 0 && m.n_tasks <= MOST_TREES)
			r = graph_make(&m, &graph, err);
		if (r < 0) {
			moment_done(&m);
			return r;
		}
		if (graph.moment) {
			json_object(j, NULL);
			json_string(j, "at", moment_when_name(when));
			json_u64(j, "process", process);
			render_json(&graph, &options, j, "moment");
			json_end_object(j);
			graph_done(&graph);
		}
		moment_done(&m);
	}
	json_end_array(j);
	return 0;
}

static int write_json(const struct report *rep, struct page_data *data, struct buf *columns,
		      struct buf *out, struct error *err)
{
	_cleanup_buf_ struct buf whole = BUF_INIT;
	struct json j;

	json_init(&j, out, false);
	j.shown = true;
	json_object(&j, NULL);
	json_string(&j, "file", rep->opt.file);
	json_u64(&j, "began_unix_ms",
		 trace_reader_unix_ns(rep->reader, rep->base_ns) / (NSEC_PER_SEC / 1000));
	json_u64(&j, "begin_ns", rep->begin_ns - rep->base_ns);
	json_u64(&j, "end_ns", rep->end_ns - rep->base_ns);
	write_threads(rep, &j);
	write_kinds(rep, &j);
	write_words(&j, "outcomes", trace_outcome_name, TO_N);
	write_words(&j, "calls", trace_call_name, TB_N);
	write_words(&j, "off_cpu_reasons", trace_off_cpu_name, TX_N);
	write_words(&j, "sample_types", trace_sample_name, TM_N);
	if (page_data_write(data, columns, &j) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	TRY(write_moments(rep, &j, err));
	/* The report is an object of its own: its text becomes the last member. */
	report_json(rep, &whole);
	buf_str(out, ",\"report\":");
	buf_add(out, whole.data ? whole.data : "null", whole.data ? whole.len : 4);
	json_end_object(&j);
	return buf_failed(out) || buf_failed(&whole) || buf_failed(columns)
		       ? error_set(err, -ENOMEM, "out of memory")
		       : 0;
}

static void add_base64(struct buf *out, const unsigned char *bytes, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	if (!buf_reserve(out, (n + 2) / 3 * 4))
		return;
	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)bytes[i] << 16 |
			     (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) |
			     (i + 2 < n ? bytes[i + 2] : 0);

		buf_char(out, digits[v >> 18]);
		buf_char(out, digits[v >> 12 & 63]);
		buf_char(out, i + 1 < n ? digits[v >> 6 & 63] : '=');
		buf_char(out, i + 2 < n ? digits[v & 63] : '=');
	}
}

static int add_compressed(struct buf *out, const struct buf *raw, struct error *err)
{
	z_stream z = {0};
	_cleanup_free_ unsigned char *packed = NULL;
	size_t room;
	int r;

	if (raw->len > UINT32_MAX || deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, GZIP_WINDOW,
						  GZIP_MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
		return error_set(err, -ENOMEM, "out of memory");
	room = deflateBound(&z, raw->len);
	packed = malloc(room);
	z.next_in = (unsigned char *)raw->data;
	z.avail_in = (unsigned)raw->len;
	z.next_out = packed;
	z.avail_out = (unsigned)room;
	r = packed ? deflate(&z, Z_FINISH) : Z_MEM_ERROR;
	deflateEnd(&z);
	if (r != Z_STREAM_END)
		return error_set(err, -ENOMEM, "out of memory");
	add_base64(out, packed, z.total_out);
	return 0;
}

static int add_data_once(const struct report *rep, struct page_data *data, struct buf *out,
			 struct error *err)
{
	_cleanup_buf_ struct buf json = BUF_INIT, columns = BUF_INIT, raw = BUF_INIT;

	TRY(write_json(rep, data, &columns, &json, err));
	for (unsigned shift = 0; shift < 32; shift += 8)
		buf_char(&raw, (char)(json.len >> shift));
	buf_add(&raw, json.data, json.len);
	if (columns.len)
		buf_add(&raw, columns.data, columns.len);
	if (buf_failed(&raw))
		return error_set(err, -ENOMEM, "out of memory");
	return add_compressed(out, &raw, err);
}

/* With fewer and fewer of the items, until it is small enough. */
static int add_data(const struct report *rep, struct page_data *data, struct buf *out,
		    struct error *err)
{
	size_t begin = out->len;

	do {
		if (buf_failed(out))
			return error_set(err, -ENOMEM, "out of memory");
		out->len = begin;
		TRY(add_data_once(rep, data, out, err));
	} while (out->len - begin > MOST_DATA_BYTES && page_data_shrink(data));
	return 0;
}

int report_html(const struct report *rep, struct buf *out, struct error *err)
{
	const struct trace_process *p = trace_reader_process(rep->reader, 0);
	struct page_data *data;
	int r;

	TRY(trace_reader_rewind(rep->reader, err));
	data = page_data_new(rep->reader, rep->base_ns, rep->end_ns);
	if (!data)
		return error_set(err, -ENOMEM, "out of memory");
	r = timeline_replay(rep->reader, &rep->opt.filter, &page_data_sink, data, rep->opt.progress,
			    rep->opt.progress_ctx, NULL, NULL, err);
	if (r == 0) {
		buf_str(out, page_before_title);
		html_text(out, p ? p->exe : "");
		buf_str(out, page_before_tables);
		tables_html(rep, out);
		buf_str(out, page_before_data);
		r = add_data(rep, data, out, err);
		buf_str(out, page_after_data);
	}
	page_data_free(data);
	return r == 0 && buf_failed(out) ? error_set(err, -ENOMEM, "out of memory") : r;
}
