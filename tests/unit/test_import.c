/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Recordings of other tools: the parts that read them, and whole files (tests/import/files, made by
 * the real tools) against golden lists of events.
 */
#include "import_run.h"

#include "import/diagnostics.h"
#include "import/input.h"
#include "import/names.h"
#include "import/perf_events.h"
#include "import/perf_line.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/stat.h>

/* ---- names ---- */

static void names_number_what_is_different(void **state)
{
	struct import_names s;
	char text[32];
	bool is_new;

	names_init(&s, 1 << 20);
	for (unsigned i = 0; i < 5000; i++) {
		int len = snprintf(text, sizeof(text), "name %u", i);
		assert_int_equal(names_get(&s, text, (size_t)len, &is_new), i);
		assert_true(is_new);
	}
	assert_int_equal(names_get(&s, "name 77", 7, &is_new), 77);
	assert_false(is_new);
	assert_int_equal(names_find(&s, "name 4999", 9), 4999);
	assert_int_equal(names_find(&s, "name 5000", 9), UINT32_MAX);
	assert_int_equal(names_get(&s, "", 0, &is_new), 5000);
	names_done(&s);
	names_init(&s, 200);
	assert_int_not_equal(names_get(&s, "kept", 4, &is_new), UINT32_MAX);
	unsigned n = 0;
	while (n < 100 && names_get(&s, text, n + 1, &is_new) != UINT32_MAX)
		n++;
	assert_true(n < 20);
	names_done(&s);
}

/* ---- lines of perf script ---- */

static void assert_text(struct perf_text t, const char *expected)
{
	if (t.len != strlen(expected) || memcmp(t.p, expected, t.len) != 0)
		fail_msg("'%.*s' is not '%s'", (int)t.len, t.p, expected);
}

static void heads_of_all_forms_are_understood(void **state)
{
	static const struct {
		const char *line, *comm;
		uint32_t pid, tid;
		uint64_t time, period;
		const char *event, *rest;
	} v[] = {
		{"tokio worker 0  4920 [001]   746.150187:     sdt_tokio:task_poll_begin: (55ea) "
		 "arg1=7",
		 "tokio worker 0", 0, 4920, 746150187000, 0, "sdt_tokio:task_poll_begin",
		 "(55ea) arg1=7"},
		{"         seedbfd 13044  1978.241668: sdt_tokio:task_start: (5) arg1=0x5",
		 "seedbfd", 0, 13044, 1978241668000, 0, "sdt_tokio:task_start", "(5) arg1=0x5"},
		{"app 12/13 [000] 1.000000001: raw_syscalls:sys_exit: NR 12 = 9", "app", 12, 13,
		 1000000001, 0, "raw_syscalls:sys_exit", "NR 12 = 9"},
		{"seedprobe  3546 [001]   696.444394:    1001001           cpu-clock/freq=999/: ",
		 "seedprobe", 0, 3546, 696444394000, 1001001, "cpu-clock/freq=999/", ""},
		{":436557 436557 [015] 54146.411072:   sdt_tokio:task_poll_end: (5) arg1=1 arg2=1",
		 "", 0, 436557, 54146411072000, 0, "sdt_tokio:task_poll_end", "(5) arg1=1 arg2=1"},
		{"12690 15020.349752: raw_syscalls:sys_enter: NR 1 (0)", "", 0, 12690,
		 15020349752000, 0, "raw_syscalls:sys_enter", "NR 1 (0)"},
		{"a: b: 3.000000: c 7 1.000002: x:y: z", "a: b: 3.000000: c", 0, 7, 1000002000, 0,
		 "x:y", "z"},
		{"tokio:w 1 7 [000] 1.000002: cycles:u:  55d0 main+0x5 (/bin/p)", "tokio:w 1", 0, 7,
		 1000002000, 0, "cycles:u", "55d0 main+0x5 (/bin/p)"},
		{":-1 30928/-1 [001] 1.000002: x:y: z", "", 30928, UINT32_MAX, 1000002000, 0, "x:y",
		 "z"},
		{":-1    -1 1.000002: x:y: z", "", 0, UINT32_MAX, 1000002000, 0, "x:y", "z"},
		{"p 9 [001] 29.553036: PERF_RECORD_LOST lost 11", "p", 0, 9, 29553036000, 0,
		 "PERF_RECORD_LOST", "lost 11"},
	};
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct perf_head h;
		assert_true(perf_head_parse(v[i].line, strlen(v[i].line), &h));
		assert_text(h.comm, v[i].comm);
		assert_int_equal(h.pid, v[i].pid);
		assert_int_equal(h.tid, v[i].tid);
		assert_int_equal(h.time, v[i].time);
		assert_int_equal(h.period, v[i].period);
		assert_text(h.event, v[i].event);
		assert_text(h.rest, v[i].rest);
	}
}

static void other_lines_are_no_heads(void **state)
{
	static const char *const v[] = {
		"",
		":",
		"# captured on    : Sat Nov 28 2026",
		"\t            b4a4 p::task_poll_begin+0x4 (/home/u/seedbfd)",
		"app 12 [000] 1.00001: a:b: c",
		"app [000] 1.000001: a:b: c",
		"app 12 [000] 99999999999999999999.000001: a:b: c",
		"app 99999999999 [000] 1.000001: a:b: c",
		"app 12 [000] 1.000001:",
		"app 12 [000] 1.000001: no event",
	};
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct perf_head h;
		if (perf_head_parse(v[i], strlen(v[i]), &h))
			fail_msg("'%s' was taken for an event", v[i]);
	}
}

static void frames_lose_their_offsets(void **state)
{
	static const struct {
		const char *line;
		uint64_t addr;
		const char *function, *object;
		bool is_inlined;
	} v[] = {
		{"\t            b4a4 p::poll+0x4 (/home/u/app)", 0xb4a4, "p::poll", "/home/u/app"},
		{"\tffffffff81417e9c exit+0xbc ([kernel.kallsyms])", 0xffffffff81417e9c, "exit",
		 "[kernel.kallsyms]"},
		{"\t  7fff2fd5af9000 [unknown] ([unknown])", 0x7fff2fd5af9000, "", ""},
		{"\t  12 <T as core::ops::Fn(u8)>::call+0x10 (/a b/(deleted))", 0x12,
		 "<T as core::ops::Fn(u8)>::call", "/a b/(deleted)"},
		{"\t  12 inner (inlined)", 0x12, "inner", "", true},
		{"  55d0 main (/bin/p)", 0x55d0, "main", "/bin/p"},
	};
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct perf_frame f;
		assert_true(perf_frame_parse(v[i].line, strlen(v[i].line), &f));
		assert_int_equal(f.addr, v[i].addr);
		assert_text(f.function, v[i].function);
		assert_text(f.object, v[i].object);
		assert_int_equal(f.is_inlined, v[i].is_inlined);
	}
	struct perf_frame f;
	assert_false(perf_frame_parse("  main.rs:12", 12, &f));
	assert_false(perf_frame_parse("\t", 1, &f));
	assert_false(perf_frame_parse("\t11112222333344445 x (y)", 24, &f));
}

static void fields_of_all_forms_are_numbers(void **state)
{
	static const char line[] =
		"(55ea <- 66) a=7 b=0x1F c=-2 name=\"x y\" d=18446744073709551616 e= f";
	struct perf_text rest = {line, sizeof(line) - 1};
	struct perf_field f;

	assert_true(perf_field_next(&rest, &f));
	assert_text(f.name, "a");
	assert_int_equal(f.value, 7);
	assert_true(perf_field_next(&rest, &f));
	assert_int_equal(f.value, 0x1f);
	assert_true(perf_field_next(&rest, &f));
	assert_true(f.is_number && f.value == (uint64_t)-2);
	assert_true(perf_field_next(&rest, &f));
	assert_true(f.is_string);
	assert_text(f.text, "x y");
	assert_true(perf_field_next(&rest, &f));
	assert_false(f.is_number);
	assert_true(perf_field_next(&rest, &f));
	assert_false(f.is_number);
	assert_false(perf_field_next(&rest, &f));
}

static void events_are_read_by_their_names(void **state)
{
	static const struct {
		const char *name;
		enum perf_event_what what;
		int more;
	} v[] = {
		{"cycles/freq=999/", PE_SAMPLE, TM_CYCLES},
		{"cycles:ppp", PE_SAMPLE, TM_CYCLES},
		{"cpu_core/cycles/", PE_SAMPLE, TM_CYCLES},
		{"instructions", PE_SAMPLE, TM_INSTRUCTIONS},
		{"cpu-clock:u", PE_SAMPLE, TM_CPU_CLOCK},
		{"task-clock", PE_SAMPLE, TM_CPU_CLOCK},
		{"raw_syscalls:sys_enter", PE_SYS_ENTER, -1},
		{"syscalls:sys_enter_read", PE_SYS_ENTER, 0},
		{"syscalls:sys_exit_write", PE_SYS_EXIT, 1},
		{"sdt_tokio:task_poll_end", PE_PROBE, 0},
		{"sdt_tokio:task_poll_end_2", PE_PROBE, 0},
		{"async_std:machine_blocked", PE_PROBE, 0},
		{"sched:sched_switch", PE_SWITCH, 0},
		{"sched:sched_wakeup", PE_UNKNOWN, 0},
		{"cache-misses", PE_UNKNOWN, 0},
		{"", PE_UNKNOWN, 0},
	};
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct perf_event e;
		perf_event_classify(v[i].name, strlen(v[i].name), &e);
		if (e.type != v[i].what)
			fail_msg("%s: %d", v[i].name, e.type);
		if (e.type == PE_SAMPLE)
			assert_int_equal(e.sample, v[i].more);
		if (e.type == PE_SYS_ENTER || e.type == PE_SYS_EXIT)
			assert_int_equal(e.syscall, v[i].more);
	}
}

/* ---- input ---- */

static void lines_of_any_length_are_read(void **state)
{
	static const struct import_options opt = {0};
	_cleanup_buf_ struct buf b = BUF_INIT;
	struct error err = {0};
	struct input in;
	const char *line;
	char path[64];
	size_t len;

	buf_str(&b, "one\r\n\n");
	for (unsigned i = 0; i < INPUT_MAX_LINE; i++)
		buf_char(&b, 'a');
	buf_char(&b, '\n');
	for (unsigned i = 0; i < 3 * INPUT_BUFFER; i++)
		buf_char(&b, 'b');
	buf_str(&b, "\nlast");
	make_file(path, b.data, b.len);
	assert_int_equal(input_open(path, &opt, &in, &err), 0);
	assert_int_equal(input_line(&in, &line, &len), 1);
	assert_int_equal(len, 3);
	assert_int_equal(input_line(&in, &line, &len), 1);
	assert_int_equal(len, 0);
	assert_int_equal(input_line(&in, &line, &len), 1);
	assert_int_equal(len, INPUT_MAX_LINE);
	assert_false(in.cut);
	assert_int_equal(input_line(&in, &line, &len), 1);
	assert_true(in.cut);
	assert_int_equal(input_line(&in, &line, &len), 1);
	assert_false(in.cut);
	assert_memory_equal(line, "last", 4);
	assert_int_equal(input_line(&in, &line, &len), 0);
	assert_int_equal(in.offset, b.len);
	input_close(&in);
	unlink(path);
}

static void diagnostics_are_counted_by_reason(void **state)
{
	struct diagnostics d = {.item = "line"};
	_cleanup_buf_ struct buf out = BUF_INIT;

	for (uint64_t i = 1; i <= 5; i++)
		diagnostics_add(&d, "an event without a meaning:", "a\033b", 3, i);
	diagnostics_add(&d, "a cut line", NULL, 0, 9);
	for (uint64_t i = 0; i < 100; i++) {
		char name[8];
		int len = snprintf(name, sizeof(name), "e%u", (unsigned)i);
		diagnostics_add(&d, "unknown", name, (size_t)len, i);
	}
	diagnostics_text(&d, &out);
	assert_int_equal(d.total, 106);
	assert_non_null(
		strstr(out.data, "5  an event without a meaning: a\\x1bb (lines 1, 2, 3, …)"));
	assert_non_null(strstr(out.data, "1  a cut line (line 9)"));
	assert_non_null(strstr(out.data, "of other reasons"));
	diagnostics_done(&d);
}

/* ---- whole files ---- */

static void files_of_the_real_tools_give_the_golden_events(void **state)
{
	static const char *const names[] = {
		"tokio.txt",	"tokio.data",	     "zstd.data",     "pipe.data",
		"machines.txt", "machines.data",     "print-all.txt", "async-std.dump",
		"tokio.dump",	"async-std.uftrace", "tokio.uftrace",
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct result r;
		import_one(names[i], &r);
		compare_golden(names[i], r.events.data);
		result_done(&r);
	}
}

/* What is in a recording does not depend on the form in which perf writes it. The counts are those
 * that the recorded program printed: 4 tasks, 12 polls, 4 of them ready. */
static void all_forms_of_one_recording_agree(void **state)
{
	static const char *const names[] = {"tokio.txt", "tokio-nochain.txt", "tokio-ns.txt",
					    "tokio-fields.txt", "tokio.data"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct result r;
		import_one(names[i], &r);
		assert_int_equal(r.n[TE_POLL_BEGIN], 12);
		assert_int_equal(r.n[TE_POLL_END], 12);
		assert_int_equal(r.n[TE_SPAWN], 4);
		assert_true(r.n[TE_SYSCALL] > 10);
		assert_int_equal(r.summary.n_diagnostics, 0);
		result_done(&r);
	}
	struct result r;
	import_one("zstd.data", &r);
	assert_int_equal(r.n[TE_POLL_END], 12);
	result_done(&r);
	import_one("pipe.data", &r);
	assert_int_equal(r.n[TE_POLL_END], 12);
	result_done(&r);
}

static void odd_lines_are_counted_and_stepped_over(void **state)
{
	static const char text[] =
		"# captured on : today\n"
		"tok: io w 7 [000] 1.000300: sdt_tokio:task_poll_end: (5) arg1=1 arg2=1 arg3=0\n"
		"tok: io w 7/8 [000] 1.000100: sdt_tokio:task_poll_begin_1: (5) arg1=0x1\n"
		"tok: io w 7 [000] 1.000100: sdt_tokio:task_poll_begin_1: (5) arg1=0x1\n"
		"tok: io w 7 [000] 1.000150: sdt_tokio:task_poll_begin:\n"
		"tok: io w 7 [000] 1.000160: raw_syscalls:sys_enter: MR 1\n"
		"tok: io w 7 [000] 1.000170: raw_syscalls:sys_exit: NR 1\n"
		"tok: io w 7 [000] 1.000180: other:event: x=1\n"
		"garbage\n"
		"w 7 [000] 1.000400: PERF_RECORD_LOST lost 5\n"
		"w 7 [000] 1.000400: PERF_RECORD_LOST lost x\n"
		"w 7 [000] 1.000500: 1 cpu-clock: \n"
		"\tno frame\n"
		"\t  11 f+0x1 (o)\n"
		"\tffffffffffffffff [unknown] ([unknown])\n"
		"\n";
	struct result r;

	import_text(text, sizeof(text) - 1, NULL, &r);
	assert_int_equal(r.code, 0);
	assert_int_equal(r.n[TE_POLL_BEGIN], 2);
	assert_int_equal(r.n[TE_POLL_END], 1);
	assert_int_equal(r.n[TE_SAMPLE], 1);
	assert_int_equal(r.summary.n_lost, 5);
	assert_int_equal(r.summary.n_diagnostics, 7);
	assert_int_equal(r.summary.n_items, 16);
	assert_non_null(strstr(r.summary.diagnostics.data, "other:event (line 8)"));
	result_done(&r);
}

static void times_out_of_order_are_put_in_order(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	struct result r;

	for (unsigned i = 0; i < 2000; i++) {
		unsigned k = i ^ 1; /* each end is before its begin */
		buf_printf(&b, "w 7 [000] 1.%06u: sdt_tokio:task_poll_%s: (5) arg1=1%s\n", k * 10,
			   k % 2 ? "end" : "begin", k % 2 ? " arg2=0 arg3=0" : "");
	}
	import_text(b.data, b.len, NULL, &r);
	assert_int_equal(r.code, 0);
	const char *p = r.events.data;
	for (unsigned i = 0; i < 2000; i++) {
		const char *line = strstr(p, i % 2 ? "poll_end" : "poll_begin");
		const char *end = strchr(p, '\n');
		assert_true(line && line < end);
		p = end + 1;
	}
	result_done(&r);
}

/* A recording of a whole system meets more processes than are kept of those that do something. */
/* What perf record writes twice are the last records of one look at its buffer, and the first of
 * the next. Two wakes in one microsecond are two where nanoseconds are not written. */
static void what_perf_wrote_twice_counts_once(void **state)
{
	static const char text[] =
		"a 7 [000] 1.000001001: sdt_tokio:task_start: (5) arg1=1 arg2=1\n"
		"a 7 [000] 1.000002001: sdt_tokio:task_poll_begin: (5) arg1=1 arg2=1\n"
		"a 7 [000] 1.000003001: sdt_tokio:task_poll_end: (5) arg1=1 arg2=0 arg3=0\n"
		"a 7 [000] 1.000004001: sdt_tokio:task_schedule_start: (5) arg1=1\n"
		"a 7 [000] 1.000002001: sdt_tokio:task_poll_begin: (5) arg1=1 arg2=1\n"
		"a 7 [000] 1.000003001: sdt_tokio:task_poll_end: (5) arg1=1 arg2=0 arg3=0\n"
		"a 7 [000] 1.000004001: sdt_tokio:task_schedule_start: (5) arg1=1\n"
		"a 7 [000] 1.000005001: sdt_tokio:task_poll_begin: (5) arg1=1 arg2=1\n"
		"a 7 [000] 1.000006001: sdt_tokio:task_poll_end: (5) arg1=1 arg2=0 arg3=0\n"
		"a 7 [000] 1.000007: sdt_tokio:task_schedule_start: (5) arg1=1\n"
		"b 8 [001] 1.000007: sdt_tokio:task_schedule_start: (5) arg1=1\n"
		"a 7 [000] 1.000007: sdt_tokio:task_schedule_start: (5) arg1=1\n";
	struct result r;

	import_text(text, sizeof(text) - 1, NULL, &r);
	assert_int_equal(r.code, 0);
	assert_int_equal(r.n[TE_SPAWN], 1);
	assert_int_equal(r.n[TE_POLL_BEGIN], 2);
	assert_int_equal(r.n[TE_POLL_END], 2);
	assert_int_equal(r.n[TE_SCHEDULE], 4);
	result_done(&r);
}

static void processes_that_only_come_and_go_are_forgotten(void **state)
{
	struct {
		uint32_t type;
		uint16_t misc, size;
		uint32_t pid, parent, tid, parent_tid;
		uint64_t time;
		uint32_t by_pid, by_tid;
		uint64_t by_time;
	} ends = {.type = PERF_RECORD_EXIT, .size = sizeof(ends), .time = 1000, .by_time = 1000};
	struct {
		uint32_t type;
		uint16_t misc, size;
		uint32_t pid, tid;
		char comm[16];
		uint32_t by_pid, by_tid;
		uint64_t by_time;
	} begins = {
		.type = PERF_RECORD_COMM, .size = sizeof(begins), .comm = "app", .by_time = 1000};
	struct {
		uint32_t type;
		uint16_t misc, size;
		uint32_t pid, tid;
		uint64_t time;
	} sample = {PERF_RECORD_SAMPLE, 0, sizeof(sample), 7, 7, 2000};
	struct {
		uint32_t type;
		uint16_t misc, size;
		struct perf_event_attr attr;
	} attr = {64, 0, sizeof(attr), {.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr.attr)}};
	_cleanup_buf_ struct buf b = BUF_INIT;
	static const uint64_t size = 16;
	struct result r;

	attr.attr.config = PERF_COUNT_SW_CPU_CLOCK;
	attr.attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
	attr.attr.sample_id_all = 1;
	buf_add(&b, "PERFILE2", 8);
	buf_add(&b, &size, 8);
	buf_add(&b, &attr, sizeof(attr));
	for (uint32_t i = 0; i < 300000; i++) {
		begins.pid = begins.tid = ends.pid = ends.tid = 1000 + i;
		buf_add(&b, &begins, sizeof(begins));
		buf_add(&b, &ends, sizeof(ends));
	}
	buf_add(&b, &sample, sizeof(sample));
	import_text(b.data, b.len, "perf-data", &r);
	if (r.code)
		fail_msg("%s", r.err.text);
	assert_int_equal(r.n[TE_SAMPLE], 1);
	assert_int_equal(r.summary.n_threads, 1);
	result_done(&r);
}

static void what_is_no_recording_is_refused(void **state)
{
	static const struct {
		const char *text, *from;
	} v[] = {
		{"", NULL},
		{"hello\nworld\n", NULL},
		{"hello\n", "perf-script"},
		{"PERFILE2", NULL},
		{"2ELIFREP________________", NULL},
		{"PERFFILE________________", NULL},
		{"hello\n", "perf-data"},
		{"hello\n", "uftrace-dump"},
		{"hello\n", "uftrace-data"},
		{"hello\n", "print-all"},
		{"uftrace file header: magic\n", NULL},
	};
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct result r;
		import_text(v[i].text, strlen(v[i].text), v[i].from, &r);
		assert_true(r.code < 0);
		result_done(&r);
	}
	struct result r;
	import_files((const char *[]){"/nonexistent/file"}, 1, NULL, &r);
	assert_int_equal(r.code, -ENOENT);
	result_done(&r);
	import_files((const char *[]){"/"}, 1, NULL, &r);
	assert_true(r.code < 0);
	result_done(&r);
}

/* Cut anywhere, and with a byte changed anywhere: a trace or a sentence, never a crash. */
static void damaged_files_are_survived(void **state)
{
	static const char *const names[] = {"tokio.data", "zstd.data", "pipe.data", "machines.data",
					    "machines.txt"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[512];
		struct stat st;
		snprintf(path, sizeof(path), "%s/%s", files_dir, names[i]);
		assert_int_equal(stat(path, &st), 0);
		size_t size = (size_t)st.st_size, step = size / 40;
		_cleanup_free_ char *data = malloc(size);
		int fd = open(path, O_RDONLY);
		assert_int_equal(read(fd, data, size), size);
		close(fd);
		for (size_t cut = 1; cut < size; cut += step) {
			struct result r;
			import_text(data, cut, NULL, &r);
			result_done(&r);
			char before = data[cut];
			data[cut] ^= 0x55;
			import_text(data, size, NULL, &r);
			result_done(&r);
			data[cut] = before;
		}
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_number_what_is_different),
		cmocka_unit_test(heads_of_all_forms_are_understood),
		cmocka_unit_test(other_lines_are_no_heads),
		cmocka_unit_test(frames_lose_their_offsets),
		cmocka_unit_test(fields_of_all_forms_are_numbers),
		cmocka_unit_test(events_are_read_by_their_names),
		cmocka_unit_test(lines_of_any_length_are_read),
		cmocka_unit_test(diagnostics_are_counted_by_reason),
		cmocka_unit_test(files_of_the_real_tools_give_the_golden_events),
		cmocka_unit_test(all_forms_of_one_recording_agree),
		cmocka_unit_test(odd_lines_are_counted_and_stepped_over),
		cmocka_unit_test(times_out_of_order_are_put_in_order),
		cmocka_unit_test(what_perf_wrote_twice_counts_once),
		cmocka_unit_test(processes_that_only_come_and_go_are_forgotten),
		cmocka_unit_test(what_is_no_recording_is_refused),
		cmocka_unit_test(damaged_files_are_survived),
	};
	if (argc != 3) {
		fprintf(stderr, "usage: test_import FILES GOLDEN\n");
		return 2;
	}
	files_dir = argv[1];
	golden_dir = argv[2];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
