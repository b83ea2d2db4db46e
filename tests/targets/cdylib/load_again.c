/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loads libraries one after the other and unloads each, by a thread of its own each time, so that nothing
 * of it remains: what a thread has of a library in its own storage would keep it. A line of the input is a
 * library, which is loaded: "loaded ADDRESS" comes when its runtime is there. Each line "work" lets it
 * work: "sum N"; any other one ends and unloads it: "unloaded 1", or 0 if it is still there.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char path[4096];

static int is_line(void)
{
	return fgets(path, sizeof(path), stdin) != NULL;
}

static void *use(void *unused)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *(*begin)(void);
	uint64_t (*boxes)(void *, uint64_t);
	const char *(*end)(void *);
	void *rt;

	if (!library) {
		printf("%s\n", dlerror());
		return NULL;
	}
	*(void **)&begin = dlsym(library, "inside_begin");
	*(void **)&boxes = dlsym(library, "inside_boxes");
	*(void **)&end = dlsym(library, "inside_end");
	rt = begin();
	printf("loaded %#lx\n", (unsigned long)((struct link_map *)library)->l_addr);
	while (is_line() && !strcmp(path, "work\n"))
		printf("sum %lu\n", (unsigned long)boxes(rt, 1000));
	end(rt);
	return library;
}

int main(void)
{
	setlinebuf(stdout);
	printf("ready %d\n", (int)getpid());
	while (is_line()) {
		char name[sizeof(path)];
		pthread_t thread;
		void *library;

		path[strcspn(path, "\n")] = 0;
		memcpy(name, path, sizeof(name));
		pthread_create(&thread, NULL, use, NULL);
		pthread_join(thread, &library);
		if (!library)
			return 1;
		dlclose(library);
		printf("unloaded %d\n", dlopen(name, RTLD_NOW | RTLD_NOLOAD) == NULL);
	}
	return 0;
}
