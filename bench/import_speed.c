/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How fast is the text of perf script read, and does the memory stay constant? A child invents a
 * recording of the sort that Tokio2Chrome's scripts make (probes, system calls and samples of eight
 * workers, with or without call chains, a few lines out of order) into a pipe; it is imported as
 * it comes. Told are bytes by CPU time of the import, and its peak of memory.
 *
 *     import_speed [MB [chains|plain]]
 */
#include "base/clock.h"
#include "import/import.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS 8u
#define FUNCTIONS 3000u
#define DEPTH 18u

struct maker {
	FILE *out;
	uint64_t bytes, time_us, seed;
	bool chains;
};

static uint64_t rnd(struct maker *m, uint64_t n)
{
	m->seed = m->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (m->seed >> 33) % n;
}

static void put(struct maker *m, int n)
{
	m->bytes += n > 0 ? (uint64_t)n : 0;
}

static void chain(struct maker *m, unsigned variety)
{
	unsigned f = 0;

	for (unsigned d = 0; m->chains && d < DEPTH; d++) {
		f = d < DEPTH - 4 ? (unsigned)rnd(m, variety) + d * 13 : d;
		put(m, fprintf(m->out,
			       "\t%16x app::module_%u::<impl core::future::Future>::function_%u"
			       "+0x%x (/usr/bin/app)\n",
			       0x4000 + f * 64, f % 31, f % FUNCTIONS, f % 61));
	}
	put(m, fprintf(m->out, "\n"));
}

static void head(struct maker *m, unsigned worker, const char *event, int late_us)
{
	uint64_t t = m->time_us - (uint64_t)late_us;
	put(m, fprintf(m->out, "tokio worker %u %5u [%03u] %5" PRIu64 ".%06u: %28s: ", worker,
		       4920 + worker, worker % 4, t / 1000000, (unsigned)(t % 1000000), event));
}

/* One poll of a task on a worker. */
static void poll(struct maker *m)
{
	unsigned w = (unsigned)rnd(m, WORKERS);
	uint64_t task = w + WORKERS * rnd(m, 500);

	m->time_us += 10;
	head(m, w, "sdt_tokio:task_schedule_start", 0);
	put(m, fprintf(m->out, "(55ea9c1284a0) arg1=%" PRIu64 "\n", task));
	chain(m, 3);
	m->time_us += 5;
	head(m, w, "sdt_tokio:task_poll_begin", 0);
	put(m, fprintf(m->out, "(55ea9c1284a4) arg1=%" PRIu64 "\n", task));
	chain(m, 3);
	m->time_us += 7;
	head(m, w, "raw_syscalls:sys_enter", 0);
	put(m, fprintf(m->out, "NR 1 (7, 7ffc19581bac, 40, 37f, 0, 0)\n"));
	chain(m, 4);
	m->time_us += 3;
	head(m, w, "raw_syscalls:sys_exit", 0);
	put(m, fprintf(m->out, "NR 1 = 64\n"));
	chain(m, 4);
	if (rnd(m, 4) == 0) {
		m->time_us += 2;
		put(m, fprintf(m->out,
			       "tokio worker %u %5u [%03u] %5" PRIu64
			       ".%06u:    1001001           cycles/freq=999/: \n",
			       w, 4920 + w, w % 4, m->time_us / 1000000,
			       (unsigned)(m->time_us % 1000000)));
		chain(m, 6);
	}
	m->time_us += 9;
	head(m, w, "sdt_tokio:task_poll_end", rnd(m, 1000) == 0 ? 3 : 0);
	put(m, fprintf(m->out, "(55ea9c128496) arg1=%" PRIu64 " arg2=0 arg3=0\n", task));
	chain(m, 3);
}

static void make(int fd, uint64_t bytes, bool chains)
{
	static char buffer[1 << 20];
	struct maker m = {.out = fdopen(fd, "w"), .time_us = 1000000, .seed = 1, .chains = chains};

	if (!m.out)
		_exit(1);
	setvbuf(m.out, buffer, _IOFBF, sizeof(buffer));
	while (m.bytes < bytes && !ferror(m.out))
		poll(&m);
	_exit(fclose(m.out) == 0 ? 0 : 1);
}

int main(int argc, char **argv)
{
	uint64_t mb = argc > 1 ? strtoull(argv[1], NULL, 10) : 500;
	bool chains = argc < 3 || !strcmp(argv[2], "chains");
	const struct import_options opt = {0};
	struct import_summary sum;
	struct error err = {0};
	struct trace_writer *w;
	struct rusage usage;
	int p[2], status;
	char path[64];
	pid_t child;

	if (!mb || pipe(p) < 0 || (child = fork()) < 0) {
		fprintf(stderr, "usage: import_speed [MB [chains|plain]]\n");
		return 2;
	}
	if (!child) {
		close(p[0]);
		make(p[1], mb * 1000000, chains);
	}
	close(p[1]);
	fcntl(p[0], F_SETPIPE_SZ, 1 << 20);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", p[0]);
	const char *paths[] = {path};
	if (trace_writer_open_fd(open("/dev/null", O_WRONLY | O_CLOEXEC), &w, &err) < 0 ||
	    import_run(paths, 1, &opt, w, &sum, &err) < 0 || trace_writer_close(w, &err) < 0) {
		fprintf(stderr, "import_speed: %s\n", err.text);
		return 1;
	}
	uint64_t cpu = clock_cpu_ns();
	getrusage(RUSAGE_SELF, &usage);
	if (waitpid(child, &status, 0) < 0 || status != 0 || sum.n_diagnostics) {
		fprintf(stderr, "import_speed: the recording was not read whole\n");
		return 1;
	}
	printf("perf script text, %s: %.0f MB, %" PRIu64 " events, %.0f MB/s, %.1f MB of memory\n",
	       chains ? "call chains" : "no call chains", (double)sum.bytes * 1e-6, sum.n_events,
	       (double)sum.bytes / (double)cpu * 1e3, (double)usage.ru_maxrss * 1e-3);
	import_summary_done(&sum);
	return 0;
}
