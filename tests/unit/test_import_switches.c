/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Context switches in recordings of other tools, and recordings that are folders: what the real
 * tools wrote (tests/import/files) against golden lists of events, and what text means.
 */
#include "import_run.h"

#include "import/perf_switch.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

/* ---- sched_switch ---- */

static void both_texts_of_a_switch_are_understood(void **state)
{
	static const struct {
		const char *text;
		uint64_t prev, next;
		uint16_t why;
	} v[] = {
		{"prev_comm=app prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=sh next_pid=8 "
		 "next_prio=120",
		 7, 8, TX_SLEEPING},
		{"prev_comm=tokio worker 0 prev_pid=7 prev_prio=120 prev_state=R+ ==> next_comm=a "
		 "next_pid=1 b next_pid=9 next_prio=120",
		 7, 9, TX_PREEMPTED},
		{"prev_comm= prev_pid=1 x= prev_pid=7 prev_prio=120 prev_state=D|K ==> next_comm= "
		 "next_pid=0 next_prio=0",
		 7, 0, TX_UNINTERRUPTIBLE},
		{"prev_comm=a prev_pid=7 prev_prio=-1 prev_state=X ==> next_comm=b next_pid=8 "
		 "next_prio=0",
		 7, 8, TX_N},
		{"prev_comm=a prev_pid=7 prev_prio=1 prev_state=130 ==> next_comm=b next_pid=8", 7,
		 8, TX_UNINTERRUPTIBLE},
		{"app:7 [120] S ==> sh:8 [120]", 7, 8, TX_SLEEPING},
		{"tokio:w 1:7 [120] R ==> a ==> b:1 [1] R:9 [120]", 7, 9, TX_PREEMPTED},
		{"a:7 [120] T ==> b:8 [-1]", 7, 8, TX_OTHER},
		{"a:7 [120] Z ==> b:8 [0]", 7, 8, TX_N},
	};
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct perf_switch sw;
		const struct perf_text t = {v[i].text, strlen(v[i].text)};
		if (!perf_switch_parse(&t, &sw))
			fail_msg("'%s' was not understood", v[i].text);
		assert_int_equal(sw.prev, v[i].prev);
		assert_int_equal(sw.next, v[i].next);
		assert_int_equal(sw.reason, v[i].why);
	}
	static const char *const bad[] = {
		"",
		"==>",
		" ==> ",
		" ==> next_comm=",
		"a:7 [120] S ==> b:8",
		"a:7 [120] ==> b:8 [120]",
		"a:x [120] S ==> b:8 [120]",
		"a:7 [120 S ==> b:8 [120]",
		"prev_comm=a prev_pid=7 prev_state= ==> next_comm=b next_pid=8",
		"prev_comm=a prev_pid=x prev_state=S ==> next_comm=b next_pid=8",
		"prev_comm=a prev_pid=7 prev_prio=1 ==> next_comm=b next_pid=8",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct perf_switch sw;
		const struct perf_text t = {bad[i], strlen(bad[i])};
		if (perf_switch_parse(&t, &sw))
			fail_msg("'%s' was taken for a switch", bad[i]);
	}
}

static void states_of_all_kernels_say_why(void **state)
{
	static const struct {
		uint64_t state;
		uint16_t why;
	} v[] = {
		{0, TX_PREEMPTED},
		{0x100, TX_PREEMPTED},
		{0x400, TX_PREEMPTED},
		{0x800, TX_PREEMPTED},
		{1, TX_SLEEPING},
		{0x101, TX_SLEEPING},
		{2, TX_UNINTERRUPTIBLE},
		{0x82, TX_UNINTERRUPTIBLE},
		{4, TX_OTHER},
		{8, TX_OTHER},
		{0x80, TX_OTHER},
		{0x10, TX_N},
		{0x20, TX_N},
		{0x40, TX_N},
	};
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		if (perf_switch_why(v[i].state) != v[i].why)
			fail_msg("state %#" PRIx64 ": %u", v[i].state, perf_switch_why(v[i].state));
}

/* ---- what they mean ---- */

static void import_lines(const char *text, struct result *ret)
{
	import_text(text, strlen(text), "perf-script", ret);
	assert_int_equal(ret->code, 0);
}

#define SWITCH(time, tid, state, next)                                                             \
	"app " #tid " [000] 1.000" #time ": sched:sched_switch: prev_comm=app prev_pid=" #tid      \
	" prev_prio=120 prev_state=" state " ==> next_comm=x next_pid=" #next " next_prio=120\n"

static void a_time_off_cpu_ends_when_the_thread_runs_again(void **state)
{
	struct result r;

	import_lines(SWITCH(100, 7, "S", 0) SWITCH(150, 8, "R", 7) SWITCH(160, 7, "D", 8)
			     SWITCH(175, 8, "S", 7),
		     &r);
	assert_string_equal(r.events.data, "        0 app/7 off_cpu 1 0 50000\n"
					   "       10 app/8 off_cpu 0 0 10000\n"
					   "       25 app/7 off_cpu 2 0 15000\n");
	assert_int_equal(r.summary.n_diagnostics, 0);
	result_done(&r);
}

/* perf records when a thread of the program leaves, and which one comes only if that is another of
 * these: nothing is invented for the rest. */
static void a_return_that_was_not_recorded_is_not_invented(void **state)
{
	struct result r;

	import_lines(SWITCH(100, 7, "S", 0) SWITCH(200, 7, "S", 0) SWITCH(300, 8, "S", 7), &r);
	assert_string_equal(r.events.data, "        0 app/7 off_cpu 1 0 100000\n");
	result_done(&r);
}

static void the_system_call_around_it_is_recorded(void **state)
{
	struct result r;

	import_lines("app 7 [000] 1.000100: raw_syscalls:sys_enter: NR 202 (0, 0)\n" SWITCH(110, 7,
											    "S", 0)
			     SWITCH(150, 8, "S", 7) "app 7 [000] 1.000160: raw_syscalls:sys_exit: "
						    "NR 202 = 0\n" SWITCH(170, 7, "S", 0)
							    SWITCH(180, 8, "S", 7),
		     &r);
	assert_non_null(strstr(r.events.data, "off_cpu 1 203 40000\n"));
	assert_non_null(strstr(r.events.data, "off_cpu 1 0 10000\n"));
	assert_non_null(strstr(r.events.data, "syscall 202 0 60000\n"));
	result_done(&r);
}

/* Numbers of system calls are those of the machine that was recorded. */
static void system_calls_of_another_machine_have_no_names(void **state)
{
	static const char calls[] =
		"# arch : aarch64\n"
		"app 7 [000] 1.000100: raw_syscalls:sys_enter: NR 98 (0, 0)\n" SWITCH(110, 7, "S",
										      0)
			SWITCH(150, 8, "S",
			       7) "app 7 [000] 1.000160: raw_syscalls:sys_exit: NR 98 = 0\n"
				  "app 7 [000] 1.000170: syscalls:sys_enter_read: fd: 0x5\n"
				  "app 7 [000] 1.000180: syscalls:sys_exit_read: 0x10\n";
	struct result r;

	import_lines(calls, &r);
	assert_non_null(strstr(r.events.data, "syscall 65535 0 60000\n"));
	assert_non_null(strstr(r.events.data, "syscall 0 16 10000\n"));
	assert_non_null(strstr(r.events.data, "off_cpu 1 0 40000\n"));
	result_done(&r);
	import_lines(strchr(calls, '\n') + 1, &r);
	assert_non_null(strstr(r.events.data, "syscall 98 0 60000\n"));
	assert_non_null(strstr(r.events.data, "off_cpu 1 99 40000\n"));
	result_done(&r);
}

static void who_is_gone_does_not_come_back(void **state)
{
	struct result r;

	/* Another thread gets the number. */
	import_lines(
		SWITCH(100, 7, "X", 0) SWITCH(200, 8, "S", 7) SWITCH(
			210, 7, "S",
			8) ":-1 -1 [000] 1.000220: sched:sched_switch: a:8 [120] X ==> b:7 [120]\n",
		&r);
	assert_string_equal(r.events.data, "        0 app/8 off_cpu 1 0 10000\n"
					   "       10 app/7 off_cpu 1 0 10000\n");
	result_done(&r);
}

static void after_a_loss_nobody_is_known_to_be_away(void **state)
{
	struct result r;

	import_lines(
		SWITCH(100, 7, "S", 0) "app 8 [000] 1.000110: PERF_RECORD_LOST lost 3\n" SWITCH(
			120, 8, "S", 7) SWITCH(130, 7, "S", 8),
		&r);
	assert_int_equal(r.n[TE_OFF_CPU], 1);
	assert_non_null(strstr(r.events.data, "app/8 off_cpu 1 0 10000\n"));
	assert_int_equal(r.summary.n_lost, 3);
	result_done(&r);
}

/* perf record -e sched:sched_switch --switch-events: each switch is recorded twice. */
static void two_records_of_one_switch_are_one(void **state)
{
	struct result r;

	import_lines(
		SWITCH(100, 7, "D",
		       8) "app 7 [000] 1.000101: PERF_RECORD_SWITCH_CPU_WIDE OUT next pid/tid: "
			  "8/8\n"
			  "x 8 [000] 1.000102: PERF_RECORD_SWITCH_CPU_WIDE IN prev pid/tid: "
			  "7/7\n" SWITCH(
				  200, 8, "R",
				  7) "x 8 [000] 1.000201: PERF_RECORD_SWITCH_CPU_WIDE OUT preempt "
				     "next\n"
				     "app 7 [000] 1.000202: PERF_RECORD_SWITCH_CPU_WIDE IN prev\n"
				     "swapper 0 [000] 1.000203: PERF_RECORD_SWITCH_CPU_WIDE IN "
				     "prev\n",
		&r);
	assert_string_equal(r.events.data, "        0 app/7 off_cpu 2 0 100000\n");
	assert_int_equal(r.summary.n_diagnostics, 0);
	result_done(&r);
}

static void switches_that_say_nothing_are_counted(void **state)
{
	struct result r;

	import_lines(SWITCH(100, 7, "S", 0) SWITCH(
			     150, 8, "S", 7) "app 7 [000] 1.000160: sched:sched_switch: what\n"
					     "app 7 [000] 1.000170: PERF_RECORD_SWITCH sideways\n",
		     &r);
	assert_int_equal(r.n[TE_OFF_CPU], 1);
	assert_int_equal(r.summary.n_diagnostics, 2);
	result_done(&r);
}

/* ---- whole recordings ---- */

static void recordings_of_the_real_tools_give_the_golden_events(void **state)
{
	static const char *const names[] = {
		"sched.data",	"sched.txt",	     "switches.data",	 "switches.txt",
		"threads.data", "threads-zstd.data", "switches.uftrace", "switches.dump",
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct result r;
		import_one(names[i], &r);
		compare_golden(names[i], r.events.data);
		result_done(&r);
	}
}

/* The lines of one type of event, without the thread's name. */
static char *only(const struct result *r, const char *type)
{
	struct buf b = BUF_INIT;

	for (const char *p = r->events.data; *p;) {
		const char *end = strchr(p, '\n'), *slash = memchr(p, '/', (size_t)(end - p));
		if (slash && memmem(p, (size_t)(end - p), type, strlen(type)))
			buf_printf(&b, "%.*s\n", (int)(end - slash), slash);
		p = end + 1;
	}
	return buf_steal(&b);
}

static void all_forms_of_one_recording_agree(void **state)
{
	static const struct {
		const char *a, *b;
		unsigned n_off, n_polls;
	} v[] = {
		{"sched.data", "sched.txt", 23, 0},
		{"sched.data", "sched-plugin.txt", 23, 0},
		{"switches.data", "switches.txt", 17, 0},
		{"threads.data", "threads.txt", 0, 12},
		{"threads-zstd.data", "threads-zstd.txt", 0, 12},
		{"switches.uftrace", "switches.dump", 86, 0},
	};
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct result a, b;
		import_one(v[i].a, &a);
		import_one(v[i].b, &b);
		_cleanup_free_ char *off_a = only(&a, "off_cpu"), *off_b = only(&b, "off_cpu");
		_cleanup_free_ char *poll_a = only(&a, "poll_"), *poll_b = only(&b, "poll_");
		assert_string_equal(off_a ? off_a : "", off_b ? off_b : "");
		assert_string_equal(poll_a ? poll_a : "", poll_b ? poll_b : "");
		assert_int_equal(a.n[TE_POLL_END], v[i].n_polls);
		if (v[i].n_off)
			assert_int_equal(a.n[TE_OFF_CPU], v[i].n_off);
		result_done(&a);
		result_done(&b);
	}
}

/* ---- folders ---- */

struct folder {
	char path[64];
	char names[16][64];
	unsigned n;
};

/* A copy that may be harmed. */
static void folder_copy(const char *name, struct folder *ret)
{
	char from[512], to[192];
	const struct dirent *d;

	*ret = (struct folder){.path = "/tmp/pollux-folder-XXXXXX"};
	assert_non_null(mkdtemp(ret->path));
	snprintf(from, sizeof(from), "%s/%s", files_dir, name);
	DIR *dir = opendir(from);
	assert_non_null(dir);
	while ((d = readdir(dir))) {
		if (d->d_name[0] == '.')
			continue;
		assert_true(ret->n < 16);
		char *slot = ret->names[ret->n++];
		snprintf(slot, 64, "%.63s", d->d_name);
		snprintf(from, sizeof(from), "%s/%s/%s", files_dir, name, d->d_name);
		snprintf(to, sizeof(to), "%s/%s", ret->path, slot);
		int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_EXCL, 0600);
		char part[4096];
		ssize_t n;
		while ((n = read(in, part, sizeof(part))) > 0)
			assert_int_equal(write(out, part, (size_t)n), n);
		close(in);
		close(out);
	}
	closedir(dir);
}

static void folder_remove(struct folder *f)
{
	for (unsigned i = 0; i < f->n; i++) {
		char path[192];
		snprintf(path, sizeof(path), "%s/%s", f->path, f->names[i]);
		unlink(path);
	}
	assert_int_equal(rmdir(f->path), 0);
}

static int folder_open(const struct folder *f, const char *name)
{
	char path[192];
	snprintf(path, sizeof(path), "%s/%s", f->path, name);
	int fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	return fd;
}

static void import_folder(const struct folder *f, struct result *ret)
{
	const char *paths[] = {f->path};
	import_files(paths, 1, NULL, ret);
}

/* Where the feature with this number is in a file of perf record. */
static off_t feature_at(int fd, unsigned feature)
{
	uint64_t header[13], where[2];
	unsigned before = 0;

	assert_int_equal(pread(fd, header, sizeof(header), 0), sizeof(header));
	assert_true(header[9] >> feature & 1);
	for (unsigned i = 0; i < feature; i++)
		before += header[9] >> i & 1;
	assert_int_equal(pread(fd, where, 16, (off_t)(header[5] + header[6] + 16 * before)), 16);
	return (off_t)where[0];
}

static void a_folder_of_another_version_is_refused(void **state)
{
	static const uint64_t version = 2;
	struct folder f;
	struct result r;

	folder_copy("threads.data", &f);
	int fd = folder_open(&f, "data");
	assert_int_equal(pwrite(fd, &version, 8, feature_at(fd, 24)), 8);
	close(fd);
	import_folder(&f, &r);
	assert_int_equal(r.code, -ENOTSUP);
	assert_non_null(strstr(r.err.text, "made by a newer perf"));
	result_done(&r);
	folder_remove(&f);
}

static void one_file_of_a_folder_says_that_there_is_more(void **state)
{
	char path[512];
	const char *paths[] = {path};
	struct result r;

	snprintf(path, sizeof(path), "%s/threads.data/data", files_dir);
	import_files(paths, 1, NULL, &r);
	assert_true(r.code < 0);
	assert_non_null(strstr(r.summary.diagnostics.data, "its folder is the recording"));
	result_done(&r);
}

static void a_cut_file_of_a_folder_is_named(void **state)
{
	static const struct {
		const char *folder, *file;
	} v[] = {{"threads.data", "data.1"}, {"switches.uftrace", "perf-cpu0.dat"}};

	for (size_t i = 0; i < 2; i++) {
		struct folder f;
		struct result whole, cut;
		struct stat st;

		import_one(v[i].folder, &whole);
		folder_copy(v[i].folder, &f);
		int fd = folder_open(&f, v[i].file);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(ftruncate(fd, st.st_size - 4), 0);
		close(fd);
		import_folder(&f, &cut);
		assert_int_equal(cut.code, 0);
		assert_int_equal(cut.summary.n_diagnostics, whole.summary.n_diagnostics + 1);
		assert_non_null(strstr(cut.summary.diagnostics.data, v[i].file));
		assert_true(cut.n[TE_OFF_CPU] + cut.n[TE_POLL_END] > 0);
		result_done(&cut);
		result_done(&whole);
		folder_remove(&f);
	}
}

/* A pipe in a folder is not waited for, what is called in another way is none of its files. */
static void odd_things_in_a_folder_are_survived(void **state)
{
	struct folder f;
	struct result r;
	char path[192];

	folder_copy("threads.data", &f);
	static const char *const odd[] = {"data.9", "data.01", "data.1x", "data.", "data.x"};
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		snprintf(f.names[f.n], 64, "%s", odd[i]);
		snprintf(path, sizeof(path), "%s/%s", f.path, f.names[f.n++]);
		if (i == 0) {
			assert_int_equal(mkfifo(path, 0600), 0);
			continue;
		}
		int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
		assert_int_equal(write(fd, "broken", 6), 6);
		close(fd);
	}
	import_folder(&f, &r);
	assert_int_equal(r.code, 0);
	assert_int_equal(r.n[TE_POLL_END], 12);
	assert_int_equal(r.summary.n_diagnostics, 0);
	result_done(&r);
	folder_remove(&f);
}

/* With a byte changed anywhere: a trace or a sentence, never a crash. */
static void damaged_folders_are_survived(void **state)
{
	static const char *const names[] = {"threads.data", "threads-zstd.data",
					    "switches.uftrace"};
	unsigned n = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct folder f;
		folder_copy(names[i], &f);
		for (unsigned k = 0; k < f.n; k++) {
			struct stat st;
			int fd = folder_open(&f, f.names[k]);
			assert_int_equal(fstat(fd, &st), 0);
			for (off_t at = 0; at < st.st_size; at += st.st_size / 40 + 1) {
				struct result r;
				uint8_t byte, other;
				assert_int_equal(pread(fd, &byte, 1, at), 1);
				other = byte ^ 0x55;
				assert_int_equal(pwrite(fd, &other, 1, at), 1);
				import_folder(&f, &r);
				result_done(&r);
				assert_int_equal(pwrite(fd, &byte, 1, at), 1);
				n++;
			}
			close(fd);
		}
		folder_remove(&f);
	}
	assert_true(n > 200);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_texts_of_a_switch_are_understood),
		cmocka_unit_test(states_of_all_kernels_say_why),
		cmocka_unit_test(a_time_off_cpu_ends_when_the_thread_runs_again),
		cmocka_unit_test(a_return_that_was_not_recorded_is_not_invented),
		cmocka_unit_test(the_system_call_around_it_is_recorded),
		cmocka_unit_test(system_calls_of_another_machine_have_no_names),
		cmocka_unit_test(who_is_gone_does_not_come_back),
		cmocka_unit_test(after_a_loss_nobody_is_known_to_be_away),
		cmocka_unit_test(two_records_of_one_switch_are_one),
		cmocka_unit_test(switches_that_say_nothing_are_counted),
		cmocka_unit_test(recordings_of_the_real_tools_give_the_golden_events),
		cmocka_unit_test(all_forms_of_one_recording_agree),
		cmocka_unit_test(a_folder_of_another_version_is_refused),
		cmocka_unit_test(one_file_of_a_folder_says_that_there_is_more),
		cmocka_unit_test(a_cut_file_of_a_folder_is_named),
		cmocka_unit_test(odd_things_in_a_folder_are_survived),
		cmocka_unit_test(damaged_folders_are_survived),
	};
	if (argc != 3) {
		fprintf(stderr, "usage: test_import_switches FILES GOLDEN\n");
		return 2;
	}
	files_dir = argv[1];
	golden_dir = argv[2];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
