/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Findings that are kept: what is read back is what was found, of this very file, and nothing that
 * was damaged, or that belongs to others. Arguments: a program with Tokio tables. */
#include "base/buf.h"
#include "binary/elf/elf_image.h"
#include "runtime/scan_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *fixture;
static char folder[64], program[96];

/* The program, made larger than what isn't worth an entry. */
static int begin(void **state)
{
	char command[512];

	snprintf(folder, sizeof(folder), "/tmp/pollux-test-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(program, sizeof(program), "%s/program", folder);
	snprintf(command, sizeof(command), "cp %s %s && truncate -s 2M %s && chmod 0755 %s",
		 fixture, program, program, program);
	return system(command) || setenv("XDG_CACHE_HOME", folder, 1);
}

static int end(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

/* How many entries there are, and of the last one its inode. */
static unsigned entries(ino_t *ret_ino, char *ret_path, size_t size)
{
	char path[128];
	struct dirent *d;
	unsigned n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/pollux", folder);
	dir = opendir(path);
	while (dir && (d = readdir(dir))) {
		if (!strstr(d->d_name, ".scan"))
			continue;
		n++;
		*ret_ino = d->d_ino;
		if (ret_path)
			snprintf(ret_path, size, "%s/%s", path, d->d_name);
	}
	if (dir)
		closedir(dir);
	return n;
}

/* What is found, as text. */
static void get(struct buf *out)
{
	struct elf_image *image = NULL;
	struct error err = {0};
	struct runtime_scan f;

	if (elf_image_open_path(program, &image, &err) < 0 || scan_cache_get(image, &f, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(f.path, program);
	assert_true(f.n_kinds > 0);
	buf_clear(out);
	scan_cache_write(&f, out);
	assert_false(buf_failed(out));
	runtime_scan_done(&f);
	elf_image_free(image);
}

static void assert_same(const struct buf *a, const struct buf *b)
{
	assert_int_equal(a->len, b->len);
	assert_memory_equal(a->data, b->data, a->len);
}

static void test_kept(void **state)
{
	struct buf cold = BUF_INIT, warm = BUF_INIT, none = BUF_INIT;
	ino_t first, second;

	get(&cold);
	assert_int_equal(entries(&first, NULL, 0), 1);
	get(&warm);
	assert_int_equal(entries(&second, NULL, 0), 1);
	assert_int_equal(first, second); /* a miss puts a new file in its place */
	assert_same(&cold, &warm);
	assert_int_equal(setenv("XDG_CACHE_HOME", "/proc/nowhere", 1), 0);
	get(&none);
	assert_same(&cold, &none);
	setenv("XDG_CACHE_HOME", folder, 1);
	buf_done(&cold);
	buf_done(&warm);
	buf_done(&none);
}

static void test_damaged(void **state)
{
	struct buf good = BUF_INIT, again = BUF_INIT;
	ino_t before, after;
	char path[512];
	int fd;

	get(&good);
	assert_int_equal(entries(&before, path, sizeof(path)), 1);
	fd = open(path, O_RDWR);
	assert_int_equal(pwrite(fd, "?", 1, 200), 1);
	close(fd);
	get(&again);
	assert_int_equal(entries(&after, NULL, 0), 1);
	assert_int_not_equal(before, after);
	assert_same(&good, &again);
	buf_done(&good);
	buf_done(&again);
}

/* Another content of the file is another file. */
static void test_changed(void **state)
{
	struct buf was = BUF_INIT, is = BUF_INIT;
	struct elf_image *image = NULL;
	struct error err = {0};
	struct runtime_scan f;
	ino_t ino;
	int fd;

	get(&was);
	assert_int_equal(entries(&ino, NULL, 0), 1);
	if (elf_image_open_path(program, &image, &err) < 0 || runtime_find(image, &f, &err) < 0)
		fail_msg("%s", err.text);
	/* Impossible offsets after the functions of the first table. */
	uint64_t offset = 0;
	assert_true(f.n_kinds && elf_image_offset(image, f.kinds[0].vtable + 56, &offset));
	fd = open(program, O_RDWR);
	assert_int_equal(pwrite(fd, "\377\377\377\377\377\377\377", 7, (off_t)offset), 7);
	close(fd);
	runtime_scan_done(&f);
	elf_image_free(image);
	get(&is);
	assert_int_equal(entries(&ino, NULL, 0), 2);
	assert_true(was.len != is.len || memcmp(was.data, is.data, is.len));
	buf_done(&was);
	buf_done(&is);
}

static void test_of_others(void **state)
{
	struct buf a = BUF_INIT, b = BUF_INIT;
	ino_t ino;

	if (geteuid() != 0)
		skip();
	get(&a);
	assert_int_equal(entries(&ino, NULL, 0), 1);
	assert_int_equal(chown(program, 12345, 12345), 0);
	get(&b);
	assert_int_equal(entries(&ino, NULL, 0), 1);
	assert_same(&a, &b);
	buf_done(&a);
	buf_done(&b);
}

static void test_hostile(void **state)
{
	struct buf good = BUF_INIT;
	struct runtime_scan f;
	uint64_t seed = 1;
	uint8_t *bad;

	get(&good);
	assert_true(scan_cache_parse((uint8_t *)good.data, good.len, &f));
	runtime_scan_done(&f);
	for (size_t len = 0; len < good.len; len++) {
		bad = malloc(len + 1); /* its own block: reading beyond it would be seen */
		memcpy(bad, good.data, len);
		assert_false(scan_cache_parse(bad, len, &f));
		free(bad);
	}
	bad = malloc(good.len);
	for (unsigned i = 0; i < 20000; i++) {
		memcpy(bad, good.data, good.len);
		for (unsigned k = 0; k < 3; k++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			bad[(seed >> 33) % good.len] = (uint8_t)(seed >> 24);
		}
		if (!scan_cache_parse(bad, good.len, &f))
			continue;
		for (size_t k = 0; k < f.n_kinds; k++)
			assert_true(f.kinds[k].runtime < f.n_runtimes && f.kinds[k].role < TR_N);
		runtime_scan_done(&f);
	}
	free(bad);
	buf_done(&good);
}

/* The folder had other files before: they are not deleted to make room. */
static void test_what_is_not_ours_stays(void **state)
{
	static const char *const names[] = {"pollux/trace.plx", "pollux/1-2-3.scan"};
	static const char old[] = "pollux/1-2-3-4-5-6.scan";
	struct buf out = BUF_INIT;
	char path[128];
	int dir;

	snprintf(path, sizeof(path), "%s/pollux", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	dir = open(folder, O_RDONLY | O_DIRECTORY);
	for (unsigned i = 0; i < 3; i++) {
		int fd = openat(dir, i < 2 ? names[i] : old, O_CREAT | O_WRONLY, 0600);

		assert_int_equal(ftruncate(fd, 300 << 20), 0);
		close(fd);
	}
	get(&out);
	assert_int_equal(faccessat(dir, names[0], F_OK, 0), 0);
	assert_int_equal(faccessat(dir, names[1], F_OK, 0), 0);
	assert_int_equal(faccessat(dir, old, F_OK, 0), -1);
	close(dir);
	buf_done(&out);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_kept, begin, end),
		cmocka_unit_test_setup_teardown(test_damaged, begin, end),
		cmocka_unit_test_setup_teardown(test_changed, begin, end),
		cmocka_unit_test_setup_teardown(test_of_others, begin, end),
		cmocka_unit_test_setup_teardown(test_hostile, begin, end),
		cmocka_unit_test_setup_teardown(test_what_is_not_ours_stays, begin, end),
	};

	if (argc < 2)
		return 1;
	fixture = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
