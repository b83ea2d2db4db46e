/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The openers of inputs and outputs: what is refused, that nothing waits, whose files stay as they
 * are. Other users are played by chown() and, for what they may do, by a child with another uid;
 * the tests that need that run as root only, as in CI.
 */
#include "base/file.h"

#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define OTHER 12345 /* nobody's uid */

static char dir[] = "/tmp/pollux-test-file-XXXXXX";
static char paths[16][80];
static unsigned n_paths;

/* A path in our folder; good for a few calls. */
static const char *in_dir(const char *name)
{
	char *path = paths[n_paths++ % 16];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void holds(const char *path, const char *text)
{
	char got[64] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_true(read(fd, got, sizeof(got) - 1) >= 0);
	assert_string_equal(got, text);
	close(fd);
}

static unsigned n_files(void)
{
	unsigned n = 0;
	DIR *d = opendir(dir);
	const struct dirent *e;

	assert_non_null(d);
	while ((e = readdir(d)))
		n += e->d_name[0] != '.' || e->d_name[1] == 'p';
	closedir(d);
	return n;
}

static int empty_dir(void **state)
{
	char command[80];

	snprintf(command, sizeof(command), "rm -rf %s/* %s/.p*", dir, dir);
	n_paths = 0;
	/* Whatever waits is a failure. */
	alarm(60);
	return system(command) != 0;
}

static int make_dir(void **state)
{
	return !mkdtemp(dir) || chmod(dir, 0755) < 0;
}

static int remove_dir(void **state)
{
	empty_dir(state);
	return rmdir(dir);
}

/* Runs it in a child, as another user; true if it gives true. */
static bool as_other(bool (*fn)(void))
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		alarm(60);
		_exit(setresgid(OTHER, OTHER, OTHER) == 0 && setresuid(OTHER, OTHER, OTHER) == 0 &&
				      fn()
			      ? 0
			      : 1);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status == 0;
}

/* ---- inputs ---- */

static void in_is(const char *path, unsigned also, int want, const char *sentence)
{
	struct error err = {0};
	int fd = file_open(path, also, &err);

	if (want == 0) {
		assert_true(fd >= 0);
		assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		close(fd);
		return;
	}
	assert_int_equal(fd, want);
	assert_int_equal(err.code, want);
	assert_non_null(strstr(err.text, sentence));
	assert_non_null(strstr(err.text, path));
	assert_int_equal(file_open(path, also, NULL), want);
}

static void make_socket(const char *path)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	close(fd);
}

static void test_kinds_of_inputs(void **state)
{
	const unsigned all = FILE_EMPTY | FILE_PIPE | FILE_FOLDER;

	put(in_dir("file"), "x");
	put(in_dir("empty"), "");
	assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
	assert_int_equal(symlink("file", in_dir("link")), 0);
	assert_int_equal(symlink("fifo", in_dir("link_to_fifo")), 0);
	assert_int_equal(symlink("/dev/zero", in_dir("link_to_device")), 0);
	make_socket(in_dir("socket"));

	in_is(in_dir("file"), 0, 0, NULL);
	in_is(in_dir("link"), 0, 0, NULL);
	in_is(in_dir("missing"), all, -ENOENT, "No such file");
	in_is(in_dir("empty"), 0, -EINVAL, "empty");
	in_is(in_dir("empty"), FILE_EMPTY, 0, NULL);
	in_is("/proc/self/maps", 0, -EINVAL, "empty");
	in_is(in_dir("fifo"), 0, -EINVAL, "pipe");
	in_is(in_dir("link_to_fifo"), 0, -EINVAL, "pipe");
	in_is(dir, 0, -EISDIR, "folder");
	in_is(dir, FILE_FOLDER, 0, NULL);
	/* what no flag allows */
	in_is("/dev/zero", all, -EINVAL, "no regular file");
	in_is("/dev/null", all, -EINVAL, "no regular file");
	in_is(in_dir("link_to_device"), all, -EINVAL, "no regular file");
	in_is(in_dir("socket"), all, -EINVAL, "no regular file");

	int folder = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(file_open_at(folder, "link", O_NOFOLLOW, all, NULL), -EINVAL);
	int fd = file_open_at(folder, "file", O_NOFOLLOW, 0, NULL);
	assert_true(fd >= 0);
	close(fd);
	close(folder);
}

/* A pipe that the caller has open, by the names that a shell gives it. */
static void test_own_descriptors_as_inputs(void **state)
{
	char name[40], c;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], "ab", 2), 2);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), i ? "/proc/self/fd/%d" : "/dev/fd/%d", fds[0]);
		int fd = file_open(name, FILE_PIPE, NULL);
		assert_true(fd >= 0 && fd != fds[0]);
		assert_int_equal(read(fd, &c, 1), 1);
		assert_int_equal(c, 'a' + (int)i);
		close(fd);
		assert_int_equal(file_open(name, 0, NULL), -EINVAL);
	}
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(file_open(name, FILE_PIPE, NULL), -EBADF);
	assert_int_equal(file_open("/dev/fd/99999999999999999999", FILE_PIPE, NULL), -ENOENT);

	/* a file from its beginning, as the kernel has it */
	put(in_dir("file"), "xy");
	int file = open(in_dir("file"), O_RDWR | O_CLOEXEC);
	assert_int_equal(read(file, &c, 1), 1);
	snprintf(name, sizeof(name), "/dev/fd/%d", file);
	int fd = file_open(name, FILE_PIPE, NULL);
	assert_int_equal(read(fd, &c, 1), 1);
	assert_int_equal(c, 'x');
	close(fd);
	close(file);
}

static void test_pipes_of_ours_only(void **state)
{
	assert_int_equal(mkfifo(in_dir("fifo"), 0666), 0);
	int write_end = open(in_dir("fifo"), O_RDWR | O_CLOEXEC);
	in_is(in_dir("fifo"), FILE_PIPE, 0, NULL);
	close(write_end);
	if (geteuid() == 0) {
		assert_int_equal(chown(in_dir("fifo"), OTHER, OTHER), 0);
		in_is(in_dir("fifo"), FILE_PIPE, -EINVAL, "another user");
	}
}

/* An owner who holds a lease makes everybody wait who opens the file, for 45 s. */
static void test_no_waiting_for_a_lease(void **state)
{
	put(in_dir("file"), "x");
	int fd = open(in_dir("file"), O_RDWR | O_CLOEXEC);
	signal(SIGIO, SIG_IGN);
	assert_int_equal(fcntl(fd, F_SETLEASE, F_WRLCK), 0);
	in_is(in_dir("file"), 0, -EAGAIN, "unavailable");
	assert_int_equal(fcntl(fd, F_SETLEASE, F_UNLCK), 0);
	close(fd);
	in_is(in_dir("file"), 0, 0, NULL);
	signal(SIGIO, SIG_DFL);
}

/* ---- outputs ---- */

static int write_out(const char *path, const char *text, struct error *err)
{
	struct file_output o;
	int r = file_output_open(&o, path, NULL, err);

	if (r < 0)
		return r;
	if (write(o.fd, text, strlen(text)) != (ssize_t)strlen(text))
		r = -errno;
	if (r == 0)
		r = file_output_place(&o, err);
	if (r == 0)
		r = file_output_place(&o, err); /* once more is no harm */
	file_output_done(&o);
	return r;
}

static void out_is(const char *path, int want, const char *sentence)
{
	struct error err = {0};

	assert_int_equal(write_out(path, "new", &err), want);
	if (want)
		assert_non_null(strstr(err.text, sentence));
}

static bool check_placing(void)
{
	mode_t old = umask(0277);
	struct file_output o;
	struct stat st;

	/* without a place there is nothing, neither before nor after */
	if (file_output_open(&o, in_dir("out"), NULL, NULL) < 0 || !o.regular ||
	    !(fcntl(o.fd, F_GETFD) & FD_CLOEXEC) || access(in_dir("out"), F_OK) == 0)
		return false;
	file_output_done(&o);
	if (n_files() != 0 || write_out(in_dir("out"), "new", NULL) < 0 || n_files() != 1 ||
	    stat(in_dir("out"), &st) < 0 || (st.st_mode & 07777) != 0600 || st.st_size != 3)
		return false;
	/* what is there stays until the place */
	put(in_dir("out"), "older");
	if (file_output_open(&o, in_dir("out"), NULL, NULL) < 0 || write(o.fd, "x", 1) != 1)
		return false;
	holds(in_dir("out"), "older");
	if (file_output_place(&o, NULL) < 0)
		return false;
	file_output_done(&o);
	holds(in_dir("out"), "x");
	umask(old);
	return n_files() == 1;
}

static void test_placing(void **state)
{
	assert_true(check_placing());
}

/* The same on a file system without O_TMPFILE, as a filter of system calls plays it. */
static void test_placing_without_tmpfile(void **state)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		alarm(60);
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ||
		    open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) >= 0)
			_exit(2);
		int fd = file_temporary(dir);
		_exit(fd >= 0 && write(fd, "x", 1) == 1 && n_files() == 0 && check_placing() ? 0
											     : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void test_links(void **state)
{
	put(in_dir("precious"), "old");
	assert_int_equal(symlink("precious", in_dir("link")), 0);
	assert_int_equal(symlink("missing", in_dir("dangling")), 0);
	assert_int_equal(link(in_dir("precious"), in_dir("hard")), 0);
	out_is(in_dir("link"), -ELOOP, "symbolic link");
	out_is(in_dir("dangling"), -ELOOP, "symbolic link");
	out_is(in_dir("hard"), 0, NULL);
	holds(in_dir("precious"), "old");
	holds(in_dir("hard"), "new");
	assert_int_equal(access(in_dir("missing"), F_OK), -1);
}

static void test_other_kinds_of_outputs(void **state)
{
	out_is(dir, -EISDIR, "folder");
	out_is(in_dir(""), -EISDIR, "no file");
	out_is(in_dir("."), -EISDIR, "folder");
	out_is("", -ENOENT, "no file");
	out_is(in_dir("missing/x"), -ENOENT, "No such file");
	out_is("/dev/zero", -EINVAL, "neither");
	out_is("/dev/null", 0, NULL);
	make_socket(in_dir("socket"));
	out_is(in_dir("socket"), -EINVAL, "neither");
}

static void test_pipes_as_outputs(void **state)
{
	struct error err = {0};
	char name[40], got[8] = "";
	int fds[2];

	assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
	int fd = open(in_dir("fifo"), O_RDWR | O_CLOEXEC);
	assert_int_equal(write_out(in_dir("fifo"), "new", &err), 0);
	assert_int_equal(read(fd, got, sizeof(got)), 3);
	assert_int_equal(n_files(), 1);
	close(fd);

	assert_int_equal(pipe(fds), 0);
	snprintf(name, sizeof(name), "/dev/fd/%d", fds[1]);
	assert_int_equal(write_out(name, "new", &err), 0);
	assert_int_equal(read(fds[0], got, sizeof(got)), 3);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(write_out(name, "new", &err), -EBADF);
}

/* What another user has put under our output's name. */
static void test_of_another_user(void **state)
{
	if (geteuid() != 0)
		skip();
	put(in_dir("file"), "theirs");
	assert_int_equal(mkfifo(in_dir("fifo"), 0666), 0);
	assert_int_equal(lchown(in_dir("file"), OTHER, OTHER), 0);
	assert_int_equal(lchown(in_dir("fifo"), OTHER, OTHER), 0);
	out_is(in_dir("file"), -EPERM, "another user (uid 12345)");
	/* it has no reader: to open it would wait for ever */
	out_is(in_dir("fifo"), -EPERM, "another user (uid 12345)");
	holds(in_dir("file"), "theirs");

	/* and while we wrote */
	struct file_output o;
	assert_int_equal(file_output_open(&o, in_dir("out"), NULL, NULL), 0);
	assert_int_equal(rename(in_dir("file"), in_dir("out")), 0);
	assert_int_equal(file_output_place(&o, NULL), -EPERM);
	file_output_done(&o);
	holds(in_dir("out"), "theirs");
	assert_int_equal(n_files(), 2);
}

static bool place_in_other_folder(void)
{
	const char *moved = in_dir("moved");
	struct file_output o;

	if (file_output_open(&o, in_dir("folder/out"), NULL, NULL) < 0 ||
	    rename(in_dir("folder"), moved) < 0 || symlink("victim", in_dir("folder")) < 0)
		return false;
	int r = file_output_place(&o, NULL);
	file_output_done(&o);
	return r == 0 && access(in_dir("victim/out"), F_OK) < 0 &&
	       access(in_dir("moved/out"), F_OK) == 0;
}

/* The folder's path leads elsewhere when the output is placed, or given up. */
static void test_folder_is_held(void **state)
{
	assert_int_equal(mkdir(in_dir("folder"), 0700), 0);
	assert_int_equal(mkdir(in_dir("victim"), 0700), 0);
	assert_true(place_in_other_folder());
}

static bool in_a_closed_folder(void)
{
	struct file_output o;

	/* this user's, with one name: in place */
	if (write_out(in_dir("closed/mine"), "new", NULL) < 0 ||
	    file_output_open(&o, in_dir("closed/given_up"), NULL, NULL) < 0 ||
	    write(o.fd, "x", 1) != 1)
		return false;
	file_output_done(&o);
	holds(in_dir("closed/given_up"), "");
	holds(in_dir("closed/mine"), "new");
	return write_out(in_dir("closed/linked"), "new", NULL) == -EPERM &&
	       write_out(in_dir("closed/none"), "new", NULL) == -EACCES;
}

/* A folder that takes no new files: a file of this user in it is written as it is, if it has no
 * other name. */
static void test_closed_folder(void **state)
{
	static const char *const names[] = {"closed/mine", "closed/linked", "closed/given_up"};

	if (geteuid() != 0)
		skip();
	assert_int_equal(mkdir(in_dir("closed"), 0755), 0);
	for (unsigned i = 0; i < 3; i++) {
		put(in_dir(names[i]), "a longer text");
		assert_int_equal(chown(in_dir(names[i]), OTHER, OTHER), 0);
	}
	assert_int_equal(link(in_dir("closed/linked"), in_dir("closed/again")), 0);
	assert_true(as_other(in_a_closed_folder));
	holds(in_dir("closed/again"), "a longer text");
}

static void test_inputs_are_spared(void **state)
{
	const char *inputs[] = {in_dir("other"), in_dir("in"), in_dir("folder")};
	struct error err = {0};
	char own[40];

	put(in_dir("other"), "x");
	put(in_dir("in"), "x");
	assert_int_equal(mkdir(in_dir("folder"), 0700), 0);
	put(in_dir("folder/part"), "x");
	assert_int_equal(symlink("in", in_dir("link")), 0);
	assert_int_equal(link(in_dir("in"), in_dir("hard")), 0);
	static const struct {
		const char *name;
		int want;
	} cases[] = {
		{"in", -EINVAL},   {"./in", -EINVAL}, {"link", -EINVAL},
		{"hard", -EINVAL}, {"missing", 0},    {"folder/part", -EINVAL},
		{"folder/new", 0}, {"folder", 0},     {"other", -EINVAL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(file_output_spares(in_dir(cases[i].name), inputs, 3, &err),
				 cases[i].want);
		n_paths = 3; /* the inputs' names stay */
	}
	assert_non_null(strstr(err.text, "is the input"));
	int fd = open(in_dir("in"), O_RDWR | O_APPEND | O_CLOEXEC);
	snprintf(own, sizeof(own), "/dev/fd/%d", fd);
	assert_int_equal(file_output_spares(own, inputs, 3, &err), -EINVAL);
	close(fd);
}

static void test_temporary(void **state)
{
	int fd = file_temporary(dir);
	char c;

	assert_true(fd >= 0);
	assert_int_equal(n_files(), 0);
	assert_int_equal(pwrite(fd, "x", 1, 5), 1);
	assert_int_equal(pread(fd, &c, 1, 5), 1);
	close(fd);
	assert_int_equal(file_temporary(in_dir("missing")), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_kinds_of_inputs, empty_dir),
		cmocka_unit_test_setup(test_own_descriptors_as_inputs, empty_dir),
		cmocka_unit_test_setup(test_pipes_of_ours_only, empty_dir),
		cmocka_unit_test_setup(test_no_waiting_for_a_lease, empty_dir),
		cmocka_unit_test_setup(test_placing, empty_dir),
		cmocka_unit_test_setup(test_placing_without_tmpfile, empty_dir),
		cmocka_unit_test_setup(test_links, empty_dir),
		cmocka_unit_test_setup(test_other_kinds_of_outputs, empty_dir),
		cmocka_unit_test_setup(test_pipes_as_outputs, empty_dir),
		cmocka_unit_test_setup(test_of_another_user, empty_dir),
		cmocka_unit_test_setup(test_folder_is_held, empty_dir),
		cmocka_unit_test_setup(test_closed_folder, empty_dir),
		cmocka_unit_test_setup(test_inputs_are_spared, empty_dir),
		cmocka_unit_test_setup(test_temporary, empty_dir),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
