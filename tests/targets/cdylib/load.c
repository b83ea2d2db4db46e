/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loads the library that is named first, lets it work, prints the truth. With --wait behind it:
 * prints "ready PID" once the library is loaded, works when a line comes, ends when another comes.
 * Knows nothing of Rust.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void read_line(void)
{
	char c;

	while (read(0, &c, 1) == 1 && c != '\n')
		;
}

int main(int argc, char **argv)
{
	int wait = argc > 2 && strcmp(argv[2], "--wait") == 0;
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	void *(*begin)(void);
	uint64_t (*work)(void *, uint64_t);
	const char *(*end)(void *);
	void *rt;

	if (!library) {
		fprintf(stderr, "load: %s\n",
			argc > 1 ? dlerror() : "usage: load LIBRARY [--wait]");
		return 2;
	}
	*(void **)&begin = dlsym(library, "inside_begin");
	*(void **)&work = dlsym(library, "inside_work");
	*(void **)&end = dlsym(library, "inside_end");
	if (!begin || !work || !end)
		return 2;
	rt = begin();
	if (wait) {
		printf("ready %d\n", (int)getpid());
		fflush(stdout);
		read_line();
	}
	printf("sum %llu\n", (unsigned long long)work(rt, 500));
	printf("%s\n", end(rt));
	fflush(stdout);
	if (wait)
		read_line();
	return 0;
}
