/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Takes its arguments as steps, in their order:
 *
 *   LIBRARY   loads it; before its name may be "lazy:" (functions are bound at the first call),
 *             "deep:" (its own symbols come before others') or "apart:" (it has libraries of its own)
 *   --wait    prints "ready PID" and waits for a line; then it waits for another one at its end
 *   =WORK     calls panics_WORK(50) of the library that was loaded last and has it, prints what it
 *             gave
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
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

static void *load(const char *name)
{
	void *library;

	if (!strncmp(name, "deep:", 5))
		library = dlopen(name + 5, RTLD_NOW | RTLD_DEEPBIND);
	else if (!strncmp(name, "apart:", 6))
		library = dlmopen(LM_ID_NEWLM, name + 6, RTLD_NOW);
	else if (!strncmp(name, "lazy:", 5))
		library = dlopen(name + 5, RTLD_LAZY);
	else
		library = dlopen(name, RTLD_NOW);
	if (!library)
		fprintf(stderr, "load: %s\n", dlerror());
	return library;
}

static int call(void *const *libraries, int n, const char *work)
{
	uint64_t (*function)(uint64_t) = NULL;
	char name[32];

	snprintf(name, sizeof(name), "panics_%s", work);
	while (n-- && !function)
		*(void **)&function = dlsym(libraries[n], name);
	if (!function)
		return -1;
	printf("%llu\n", (unsigned long long)function(50));
	fflush(stdout);
	return 0;
}

static void *nothing(void *arg)
{
	return arg;
}

/* What a library of an own namespace starts, this libc doesn't see. But its malloc, which then
 * serves the loader, must lock. */
static int be_threaded(void)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	void *libraries[16];
	int n = 0, wait = 0;

	if (be_threaded())
		return 2;
	for (int i = 1; i < argc && n < 16; i++) {
		if (!strcmp(argv[i], "--wait")) {
			wait = 1;
			printf("ready %d\n", (int)getpid());
			fflush(stdout);
			read_line();
		} else if (argv[i][0] == '=') {
			if (call(libraries, n, argv[i] + 1) < 0)
				return 2;
		} else {
			libraries[n] = load(argv[i]);
			if (!libraries[n++])
				return 2;
		}
	}
	if (wait)
		read_line();
	return 0;
}
