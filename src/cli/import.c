/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pollux import: recordings of other tools into a trace. What could not be understood is reported
 * once, at the end; a file of which nothing was understood gives no trace.
 */
#include "import/import.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/verbs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* "dir/perf.data" into "perf.plx": in the folder where the user is. */
static char *derived_path(const char *input)
{
	size_t len = strlen(input);
	struct buf b = BUF_INIT;

	while (len > 1 && input[len - 1] == '/')
		len--;
	const char *slash = memrchr(input, '/', len);
	const char *name = slash ? slash + 1 : input;
	len -= (size_t)(name - input);
	const char *dot = memrchr(name, '.', len);
	if (!strcmp(input, "-"))
		buf_str(&b, "imported");
	else
		buf_add(&b, name, dot && dot > name ? (size_t)(dot - name) : len);
	buf_str(&b, ".plx");
	return buf_steal(&b);
}

static void count(struct buf *b, uint64_t n, const char *word)
{
	text_count(b, n);
	buf_printf(b, " %s%s", word, n == 1 ? "" : "s");
}

static void print_summary(const char *path, const struct import_summary *s)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	const struct import_ops *ops = import_find(s->format);

	text_safe(&b, !strcmp(path, "-") ? "standard output" : path);
	buf_str(&b, ": ");
	count(&b, s->n_events, "event");
	buf_str(&b, " of ");
	count(&b, s->n_threads, "thread");
	if (s->n_stacks) {
		buf_str(&b, ", ");
		count(&b, s->n_stacks, "stack frame");
	}
	buf_str(&b, ", from ");
	count(&b, s->n_items, ops->item);
	buf_str(&b, " of ");
	buf_str(&b, ops->description);
	buf_char(&b, '\n');
	if (s->n_lost) {
		count(&b, s->n_lost, "event");
		buf_str(&b, " were lost when it was recorded\n");
	}
	if (s->n_diagnostics) {
		count(&b, s->n_diagnostics, ops->item);
		buf_str(&b, s->n_diagnostics == 1 ? " was not understood:\n"
						  : " were not understood:\n");
		buf_str(&b, s->diagnostics.data);
	}
	if (!buf_failed(&b))
		fputs(b.data, stderr);
}

static int import_into(const char *path, const char *const *inputs, size_t n,
		       const struct import_options *opt, struct error *err)
{
	struct import_summary summary = {0};
	struct trace_writer *w = NULL;
	int r = file_output_spares(path, inputs, n, err);

	if (r == 0)
		r = trace_writer_open(path, &w, err);
	if (r < 0)
		return r;
	trace_writer_whole(w);
	r = import_run(inputs, n, opt, w, &summary, err);
	cli_progress_done();
	if (r < 0)
		trace_writer_discard(w);
	else
		r = trace_writer_close(w, err);
	if (r >= 0)
		print_summary(path, &summary);
	import_summary_done(&summary);
	return r;
}

static int run(const struct cli_args *args, struct error *err)
{
	static char label[] = "importing";
	const struct import_options opt = {.format = cli_option(args, "from"),
					   .progress = cli_progress,
					   .progress_ctx = label};
	const char *wanted = cli_option(args, "output");
	size_t n = cli_n_operands(args);

	if (!n)
		return cli_usage(
			args, "a recording is needed: a file, a folder, or - for standard input");
	if (opt.format && !import_find(opt.format)) {
		_cleanup_buf_ struct buf names = BUF_INIT;
		for (size_t i = 0; import_formats[i]; i++)
			buf_printf(&names, "%s%s", i ? ", " : "", import_formats[i]->name);
		return cli_usage(args, "no format '%s': there are %s", opt.format,
				 names.data ? names.data : "");
	}
	_cleanup_free_ const char **inputs = calloc(n, sizeof(*inputs));
	_cleanup_free_ char *derived = wanted ? NULL : derived_path(cli_operand(args, 0));
	if (!inputs || (!wanted && !derived)) {
		error_set(err, -ENOMEM, "out of memory");
		return 1;
	}
	for (size_t i = 0; i < n; i++)
		inputs[i] = cli_operand(args, i);
	if (!wanted && strcmp(derived, inputs[0]) == 0) {
		error_set(err, -EEXIST,
			  "the trace would replace its input %s: give another name with -o",
			  derived);
		return 1;
	}
	if (!wanted && access(derived, F_OK) == 0) {
		error_set(err, -EEXIST, "%s exists: -o %s replaces it", derived, derived);
		return 1;
	}
	return import_into(wanted ? wanted : derived, inputs, n, &opt, err) < 0 ? 1 : 0;
}

static const struct cli_option options[] = {
	{'o', "output", "FILE", "the trace (default: the input's name with .plx, here)", false},
	{0, "from", "FORMAT",
	 "perf-script, perf-data, uftrace-dump, uftrace-data or print-all (default: by the first "
	 "bytes)",
	 false, false, "perf-script perf-data uftrace-dump uftrace-data print-all"},
	{0},
};

static const char *const examples[] = {
	"pollux import perf.data -o trace.plx",
	"a recording of perf",
	"pollux import perf.txt && pollux report perf.plx",
	"an old recording of Tokio2Chrome or of async-std's probes",
	NULL,
};

const struct cli_verb verb_import = {
	.name = "import",
	.synopsis = "import [OPTIONS] FILE...",
	.summary = "convert another tool's recording into a trace",
	.text = "Converts recordings of other tools into a trace, which report and export read "
		"like any other. docs/import.md says what pollux reads of each format and what it "
		"means.\n\n"
		"Several files become one trace: parts of one recording, in their order, or "
		"recordings of different processes by the same clock. pollux skips what it does "
		"not understand, and reports at the end how much that was. -o replaces an older "
		"trace, and no other file.",
	.examples = examples,
	.operands = CLI_FILES,
	.options = options,
	.run = run,
};
