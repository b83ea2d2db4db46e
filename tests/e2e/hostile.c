/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a hostile program does to those who look at it, for LD_PRELOAD into any program. HOSTILE
 * says what:
 *
 *   reserve   4 TiB of memory that is never touched
 *   map       each file of HOSTILE_FILES (separated by ':') mapped as code
 *   crowd     2,000 threads, and one that fills the rings of whoever records it, without a pause,
 *             with threads that never were and time stamps of long ago
 */
#include "agent/ring.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <x86intrin.h>

#define THREADS 2000
#define RINGS 64u

static void reserve(void)
{
	const size_t bytes = 4ull << 40;
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED || madvise(at, bytes / 2, MADV_HUGEPAGE) < 0)
		abort();
	at[bytes / 2] = at[bytes - 1] = 1;
}

static void map_files(char *names)
{
	for (char *name = strtok(names, ":"); name; name = strtok(NULL, ":")) {
		int fd = open(name, O_RDONLY);
		struct stat st;

		if (fd < 0 || fstat(fd, &st) < 0 ||
		    mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) ==
			    MAP_FAILED)
			abort();
	}
}

/* The rings, and how many bytes of events each has: of so many a power of two fits. */
static struct ring_area *find_rings(size_t *ret_bytes)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	struct ring_area *found = NULL;
	char line[512], *end;

	while (maps && !found && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "memfd:pollux-agent"))
			continue;
		found = (struct ring_area *)strtoul(line, &end, 16);
		size_t bytes = strtoul(end + 1, NULL, 16) - (size_t)found;

		*ret_bytes = AGENT_MIN_RING_BYTES;
		while (AGENT_MAX_RINGS * (*ret_bytes * 2 + sizeof(struct ring)) < bytes)
			*ret_bytes *= 2;
	}
	if (maps)
		fclose(maps);
	return found;
}

static void flood(struct ring_area *area, size_t ring_bytes, uint64_t stamp, uint64_t *tid)
{
	__atomic_store_n(&area->n_used, AGENT_MAX_RINGS, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < RINGS; i++) {
		struct ring *r =
			(struct ring *)((char *)(area + 1) + i * (sizeof(*r) + ring_bytes));
		struct agent_event *events = (struct agent_event *)(r + 1);
		uint64_t tail = __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE);

		for (uint32_t k = 0; k < ring_bytes / sizeof(*events); k++)
			events[k] = (struct agent_event){stamp << 8 | AE_THREAD,
							 100000 + ++*tid % 2000000000};
		__atomic_store_n(&r->head, tail + ring_bytes, __ATOMIC_RELEASE);
	}
}

static void *fill_rings(void *arg)
{
	struct ring_area *area;
	uint64_t stamp, tid = 0;
	size_t bytes;

	while (!(area = find_rings(&bytes)))
		usleep(5000);
	usleep(1500000);
	stamp = __rdtsc();
	fprintf(stderr, "flooding\n");
	for (;;) {
		flood(area, bytes, stamp, &tid);
		usleep(1000);
	}
}

static void *sleep_on(void *arg)
{
	pause();
	return NULL;
}

static void crowd(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread, &attr, sleep_on, NULL))
			abort();
	if (pthread_create(&thread, &attr, fill_rings, NULL))
		abort();
}

__attribute__((constructor)) static void begin(void)
{
	const char *what = getenv("HOSTILE"), *files = getenv("HOSTILE_FILES");

	if (!what)
		return;
	if (!strcmp(what, "reserve"))
		reserve();
	else if (!strcmp(what, "map"))
		map_files(strdup(files ? files : ""));
	else if (!strcmp(what, "crowd"))
		crowd();
	else
		abort();
}
