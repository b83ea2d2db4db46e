/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A fuzz target without a fuzzer: runs it once on each file of the folders given (and on nothing at
 * all), so that what fuzzing found stays found. If the target has a mutator each file is run a few
 * times more, changed by that, the same way in each run. Ends with a plain count; fails if a folder
 * has no files.
 */
#include "fuzz.h"
#include "mutate.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

enum { CHANGES = 6, MORE_BYTES = 4096 };

#pragma weak LLVMFuzzerCustomMutator

/* In place of the fuzzer's own: a few bytes. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
	struct mutator m = mutator_of((unsigned)size, size);

	(void)max_size;
	for (int i = 0; i < 3 && size; i++)
		data[mutator_next(&m, size)] ^= (uint8_t)(1u << mutator_next(&m, 8));
	return size;
}

static void run_changed(const uint8_t *data, size_t size, unsigned seed)
{
	size_t room = size + MORE_BYTES;
	uint8_t *changed = malloc(room), *exact;

	if (!changed)
		abort();
	memcpy(changed, data, size);
	room = LLVMFuzzerCustomMutator(changed, size, room, seed);
	exact = malloc(room ? room : 1);
	if (!exact)
		abort();
	memcpy(exact, changed, room);
	free(changed);
	LLVMFuzzerTestOneInput(exact, room);
	free(exact);
}

static int run_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	uint8_t *data;

	if (!f || fstat(fileno(f), &st) < 0) {
		fprintf(stderr, "cannot read %s\n", path);
		exit(1);
	}
	if (!S_ISREG(st.st_mode)) {
		fclose(f);
		return 0;
	}
	/* Exactly as large as the file, so that a sanitizer sees one byte too far. */
	data = malloc(st.st_size ? (size_t)st.st_size : 1);
	if (!data || fread(data, 1, (size_t)st.st_size, f) != (size_t)st.st_size) {
		fprintf(stderr, "cannot read %s\n", path);
		exit(1);
	}
	fclose(f);
	LLVMFuzzerTestOneInput(data, (size_t)st.st_size);
	for (unsigned i = 0; LLVMFuzzerCustomMutator && i < CHANGES; i++)
		run_changed(data, (size_t)st.st_size, i);
	free(data);
	return 1;
}

int main(int argc, char **argv)
{
	int n = 0;

	LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	for (int i = 1; i < argc; i++) {
		DIR *dir = opendir(argv[i]);
		const struct dirent *entry;
		int n_here = 0;

		while (dir && (entry = readdir(dir))) {
			char path[4096];

			snprintf(path, sizeof(path), "%s/%s", argv[i], entry->d_name);
			if (entry->d_name[0] != '.')
				n_here += run_file(path);
		}
		if (dir)
			closedir(dir);
		if (n_here == 0) {
			fprintf(stderr, "no files in %s\n", argv[i]);
			return 1;
		}
		n += n_here;
	}
	printf("%d inputs, no harm\n", n);
	return 0;
}
