/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The line that says how far a long job is. It goes to stderr and only to a terminal, so neither
 * pipes nor logs ever see it.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/file_map.h"
#include "base/text.h"
#include "cli/cli.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const uint64_t REDRAW_NS = 100 * 1000 * 1000;
enum { SLOW_SECONDS = 1 };

static bool drawn;
static uint64_t drawn_ns;

void cli_progress(void *label, uint64_t done, uint64_t total)
{
	static int terminal = -1;
	uint64_t now;

	if (terminal < 0)
		terminal = isatty(STDERR_FILENO);
	if (!terminal)
		return;
	now = clock_monotonic_ns();
	if (drawn_ns == 0)
		drawn_ns = now; /* a job that is done at once draws nothing */
	if (now - drawn_ns < REDRAW_NS)
		return;
	drawn = true;
	drawn_ns = now;
	if (total > 0)
		fprintf(stderr, "\r\033[K%s %3.0f %%", (const char *)label,
			100.0 * (double)(done < total ? done : total) / (double)total);
	else
		fprintf(stderr, "\r\033[K%s", (const char *)label);
	fflush(stderr);
}

void cli_progress_done(void)
{
	if (drawn) {
		fputs("\r\033[K", stderr);
		fflush(stderr);
	}
	drawn = false;
	drawn_ns = 0;
}

/* The line is written by another thread, since the step that takes long does not return before it is
 * done. */
static struct slow {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool running, over, drawn;
	struct buf text;
} slow = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *slow_wait(void *arg)
{
	struct timespec until;
	int rc = 0;

	(void)arg;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += SLOW_SECONDS;
	pthread_mutex_lock(&slow.lock);
	while (!slow.over && rc == 0)
		rc = pthread_cond_timedwait(&slow.ended, &slow.lock, &until);
	/* No stdio: another thread may fork while its lock is held. */
	slow.drawn = !slow.over && write(STDERR_FILENO, slow.text.data, slow.text.len) > 0;
	pthread_mutex_unlock(&slow.lock);
	return NULL;
}

void cli_slow_begin(const char *what, const char *of)
{
	pthread_condattr_t attr;
	sigset_t before;

	if (!isatty(STDERR_FILENO))
		return;
	slow.text = (struct buf)BUF_INIT;
	buf_printf(&slow.text, "\r\033[K%s ", what);
	text_safe(&slow.text, of);
	if (buf_failed(&slow.text))
		return;
	slow.over = slow.drawn = false;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&slow.ended, &attr);
	file_map_block_signals(&before);
	slow.running = pthread_create(&slow.thread, NULL, slow_wait, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void cli_slow_end(void)
{
	if (slow.running) {
		pthread_mutex_lock(&slow.lock);
		slow.over = true;
		pthread_cond_signal(&slow.ended);
		pthread_mutex_unlock(&slow.lock);
		pthread_join(slow.thread, NULL);
		if (slow.drawn)
			fputs("\r\033[K", stderr);
	}
	slow.running = false;
	buf_done(&slow.text);
}
