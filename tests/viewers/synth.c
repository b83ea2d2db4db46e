/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Makes a trace of an imagined server, for tests of what reads traces when no real one is at hand:
 *
 *     synth OUT.plx [MILLISECONDS [CONNECTIONS_PER_SECOND [WORKERS [PREFIX [twins|lock|skew]]]]]
 *
 * PREFIX begins every name in it. Of 0 milliseconds it has one event. With "twins" the program has each kind
 * of task a second time, for a scheduler that no task uses. With "skew" a thread that blocks is off its CPU a little later
 * than in the call, as another clock sees it. With "lock" one task holds a lock for 80 ms, for
 * which others wait.
 * A small simulation, not a list of random events: workers take tasks from one run queue, park when
 * it is empty and are unparked by wakes; an accept loop spawns a task per connection; connections
 * wait for the I/O driver, send to a logger through a channel, some read a file on the blocking
 * pool, a few block their worker. The same arguments give the same trace. Prints what it made as
 * JSON.
 */
#include "trace/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORKERS 64
#define US 1000ull
#define MS 1000000ull

enum kind { K_WORKER, K_ACCEPT, K_CONN, K_LOGGER, K_TICKER, K_FILE, N_KINDS };

struct task {
	uint64_t id, last_ns; /* last_ns: of its last event; the workers' clocks run apart */
	uint64_t wake_ns;     /* when the driver or a timer will wake it; 0: no one will */
	enum kind kind;
	unsigned steps; /* polls left */
	bool scheduled, polling, woken_inside;
	struct task *next; /* in the run queue, or among the free */
	struct task *prev_all, *next_all;
};

struct worker {
	uint32_t thread;
	uint64_t now; /* its own clock: what it has done so far */
	bool parked;
};

static struct trace_writer *writer;
static uint64_t random_state = 88172645463325252ull;
static struct worker workers[MAX_WORKERS];
static uint32_t n_workers = 4, blocking_thread, kinds[N_KINDS];
static struct task *queue, **queue_end = &queue, *all, *logger;
static uint64_t next_id = 1;
static const char *prefix = "";
static bool twins, skew;
static struct {
	uint64_t spawns, polls, wakes, events, panicked;
} made;

static uint64_t rnd(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % below;
}

/* Mostly near `typical`, sometimes ten times as long. */
static uint64_t some(uint64_t typical)
{
	uint64_t ns = typical / 2 + rnd(typical);
	return rnd(50) ? ns : ns * 10;
}

static void check(int r)
{
	if (r < 0) {
		fprintf(stderr, "synth: %s\n", strerror(-r));
		exit(1);
	}
}

static void emit(uint32_t thread, uint64_t time, unsigned type, unsigned arg, uint32_t kind,
		 uint64_t task, uint64_t value)
{
	struct trace_event ev = {.time = time,
				 .thread = thread,
				 .type = (uint16_t)type,
				 .arg = (uint16_t)arg,
				 .kind = kind,
				 .task = task,
				 .value = value};
	check(trace_writer_events(writer, thread, &ev, 1));
	made.events++;
}

static void after(struct worker *w, const struct task *t)
{
	if (w->now <= t->last_ns)
		w->now = t->last_ns + 1;
}

static void enqueue(const struct worker *w, struct task *t)
{
	t->last_ns = w->now;
	t->scheduled = true;
	t->next = NULL;
	*queue_end = t;
	queue_end = &t->next;
}

/* On w's thread, at its present time. */
static void wake(struct worker *w, struct task *t)
{
	after(w, t);
	unsigned effect = t->polling && !t->woken_inside ? TW_RUNNING
			  : t->scheduled || t->polling	 ? TW_NOOP
							 : TW_SCHEDULED;
	made.wakes++;
	emit(w->thread, w->now, TE_WAKE, effect, kinds[t->kind], t->id, 0);
	w->now += 60 + rnd(40);
	t->wake_ns = 0;
	if (effect == TW_RUNNING)
		t->woken_inside = true;
	if (effect == TW_SCHEDULED)
		enqueue(w, t);
}

static struct task *spawn(struct worker *w, enum kind kind, unsigned steps)
{
	struct task *t = calloc(1, sizeof(*t));
	if (!t)
		exit(1);
	made.spawns++;
	emit(w->thread, w->now, TE_SPAWN, 0, kinds[kind], next_id, 0);
	w->now += 150 + rnd(200);
	t->id = next_id++;
	t->kind = kind;
	t->steps = steps;
	t->next_all = all;
	if (all)
		all->prev_all = t;
	all = t;
	emit(w->thread, w->now, TE_SCHEDULE, 0, kinds[kind], t->id, 0);
	w->now += 80;
	enqueue(w, t);
	return t;
}

static void forget(struct task *t)
{
	*(t->prev_all ? &t->prev_all->next_all : &all) = t->next_all;
	if (t->next_all)
		t->next_all->prev_all = t->prev_all;
	free(t);
}

/* The blocking pool's one thread: reads a file, and wakes who waits for it. */
static void read_file(struct worker *w, struct task *waiter)
{
	static uint64_t free_ns;
	uint64_t at = w->now > free_ns ? w->now : free_ns, id = next_id++;
	made.spawns++;
	made.polls++;
	emit(w->thread, w->now, TE_SPAWN, 0, kinds[K_FILE], id, 0);
	emit(w->thread, w->now + 90, TE_SCHEDULE, 0, kinds[K_FILE], id, 0);
	w->now += 200;
	at += 20 * US + rnd(30 * US);
	emit(blocking_thread, at, TE_POLL_BEGIN, 0, kinds[K_FILE], id, 0);
	uint64_t ns = some(400 * US);
	emit(blocking_thread, at + ns + 5 * US, TE_BLOCK, TB_READ, 0, 0, ns);
	emit(blocking_thread, at + ns + 6 * US, TE_POLL_END, TO_READY, kinds[K_FILE], id, 0);
	free_ns = at + ns + 8 * US;
	waiter->wake_ns = free_ns;
}

/* One poll of t on w. */
static void poll(struct worker *w, struct task *t)
{
	unsigned outcome = TO_PENDING;

	after(w, t);
	t->scheduled = false;
	t->polling = true;
	t->woken_inside = false;
	made.polls++;
	emit(w->thread, w->now, TE_POLL_BEGIN, 0, kinds[t->kind], t->id, 0);
	w->now += some(t->kind == K_CONN ? 30 * US : 6 * US);
	if (t->kind == K_ACCEPT) {
		spawn(w, K_CONN, 3 + (unsigned)rnd(8));
		t->wake_ns = w->now + some(t->steps * US); /* steps: mean µs between connections */
	} else if (t->kind == K_TICKER) {
		t->wake_ns = w->now + 10 * MS;
	} else if (t->kind == K_CONN) {
		unsigned what = (unsigned)rnd(100);
		if (what < 40)
			wake(w, logger);
		if (what == 99) {
			uint64_t ns = some(900 * US);
			w->now += ns;
			emit(w->thread, w->now, TE_BLOCK, TB_WRITE, 0, 0, ns);
			if (skew)
				emit(w->thread, w->now + US, TE_OFF_CPU, TX_SLEEPING, 0, 0, ns);
			w->now += 2 * US;
		}
		if (--t->steps == 0)
			outcome = rnd(400) ? TO_READY : TO_PANICKED;
		else if (what >= 90 && what < 99)
			read_file(w, t);
		else if (what >= 85 && what < 90)
			wake(w, t); /* yields */
		else
			t->wake_ns = w->now + some(800 * US);
	}
	w->now += 400 + rnd(600);
	emit(w->thread, w->now, TE_POLL_END, outcome, kinds[t->kind], t->id, 0);
	t->last_ns = w->now;
	t->polling = false;
	made.panicked += outcome == TO_PANICKED;
	w->now += 100;
	if (outcome != TO_PENDING) {
		emit(w->thread, w->now, TE_DROP, 0, kinds[t->kind], t->id, 0);
		forget(t);
	} else if (t->woken_inside) {
		enqueue(w, t);
	}
}

/* The driver on this worker: wakes all that are due. */
static void drive(struct worker *w)
{
	for (struct task *t = all, *next; t; t = next) {
		next = t->next_all;
		if (t->wake_ns && t->wake_ns <= w->now && !t->scheduled)
			wake(w, t);
	}
}

static uint64_t next_due(void)
{
	uint64_t due = UINT64_MAX;
	for (const struct task *t = all; t; t = t->next_all)
		if (t->wake_ns && !t->scheduled && t->wake_ns < due)
			due = t->wake_ns;
	return due;
}

static void simulate(uint64_t begin, uint64_t end)
{
	uint64_t round = begin;
	for (;;) {
		struct worker *w = &workers[0]; /* the one whose clock is behind all others */
		for (uint32_t i = 1; i < n_workers; i++)
			if (workers[i].now < w->now)
				w = &workers[i];
		if (w->now >= end)
			break;
		if (w->now > round + 50 * MS) {
			round = w->now;
			check(trace_writer_round(writer, round));
		}
		uint64_t due = next_due();
		if (w->parked && (queue || due <= w->now)) {
			w->parked = false;
			emit(w->thread, w->now, TE_UNPARK, TB_EPOLL_WAIT, 0, 0, 0);
			w->now += 2 * US;
		}
		if (!w->parked)
			drive(w);
		if (queue) {
			struct task *t = queue;
			queue = t->next;
			if (!queue)
				queue_end = &queue;
			w->now += 300 + rnd(300);
			poll(w, t);
			continue;
		}
		if (!w->parked) {
			emit(w->thread, w->now, TE_PARK, TB_EPOLL_WAIT, 0, 0, 0);
			w->parked = true;
		}
		w->now = due > w->now && due < w->now + 20 * US ? due + 1
								: w->now + 20 * US + rnd(4 * US);
	}
}

static uint64_t place(const char *function, uint32_t line, const char *awaits)
{
	struct trace_place p = {
		.function = function, .file = "src/log.rs", .line = line, .awaits = awaits};
	uint32_t index;

	check(trace_writer_place(writer, &p, &index));
	return index + 1;
}

/* A poll of 20 us, of whichever task; in it `woken` is. */
static void poll_at(struct worker *w, struct task *t, uint64_t pending, struct task *woken)
{
	w->now += 2 * US;
	t->scheduled = false;
	emit(w->thread, w->now, TE_POLL_BEGIN, 0, kinds[t->kind], t->id, 0);
	w->now += 10 * US;
	if (woken)
		wake(w, woken);
	w->now += 10 * US;
	emit(w->thread, w->now, TE_POLL_END, pending ? TO_PENDING : TO_READY, kinds[t->kind], t->id,
	     pending);
	t->last_ns = w->now;
	made.polls++;
}

/* The writer of the log sleeps while it holds a lock; connections wait for that, and go on one after the
 * other. */
static void hold_lock(void)
{
	uint64_t sleeps = place("shop::log::writer", 31, "tokio::time::sleep::Sleep");
	uint64_t locks = place("shop::log::append", 12, "tokio::sync::mutex::Mutex<T>::lock");
	struct worker *w = &workers[0];
	struct task *waits[6];

	poll_at(w, logger, sleeps, NULL);
	for (unsigned i = 0; i < 6; i++) {
		waits[i] = spawn(w, K_CONN, 1);
		poll_at(w, waits[i], locks, NULL);
	}
	w->now += 80 * MS;
	wake(w, logger);
	poll_at(w, logger, sleeps, waits[0]);
	for (unsigned i = 0; i < 6; i++)
		poll_at(w, waits[i], 0, i < 5 ? waits[i + 1] : NULL);
}

static void describe(void)
{
	static const struct {
		const char *name;
		unsigned role;
		const char *site;
	} known[N_KINDS] = {
		[K_WORKER] = {"tokio::runtime::scheduler::multi_thread::worker::Launch", TR_WORKER,
			      ""},
		[K_ACCEPT] = {"shop::accept_loop", TR_TASK, "shop::main+0x1f3"},
		[K_CONN] = {"shop::handle_connection", TR_TASK, "shop::accept_loop+0x88"},
		[K_LOGGER] = {"shop::log::writer", TR_TASK, "shop::log::start+0x41"},
		[K_TICKER] = {"<shop::Ticker<\"10ms\"> as Tick>::run", TR_TASK, "shop::main+0x2a0"},
		[K_FILE] = {"tokio::fs::asyncify<shop::read_page>", TR_BLOCKING,
			    "tokio::fs::asyncify+0x30"},
	};
	struct trace_process process = {.pid = 4242,
					.exe = "/usr/bin/shop",
					.cmdline = "shop --port 8080",
					.start_ns = 5000 * MS,
					.start_realtime_ns = 1700000000ull * 1000 * MS};
	struct trace_runtime runtime = {.name = "tokio",
					.version = "1.38.0",
					.object = "/usr/bin/shop",
					.verified = "symbols"};
	uint32_t index;
	check(trace_writer_process(writer, &process, &index));
	check(trace_writer_runtime(writer, &runtime, &index));
	for (unsigned i = 0; i < N_KINDS; i++) {
		char name[256];
		snprintf(name, sizeof(name), "%s%s", prefix, known[i].name);
		const char *site = known[i].site;
		uint64_t address = 0x1000 + i * 16;
		struct trace_kind kind = {.role = (uint16_t)known[i].role,
					  .n_sites = *site ? 1 : 0,
					  .vtable = 0x5000 + i * 80,
					  .poll = 0x2000 + i * 64,
					  .name = name,
					  .full_name = name,
					  .scheduler = i == K_FILE ? "blocking" : "multi_thread",
					  .site_addrs = &address,
					  .sites = &site};
		check(trace_writer_kind(writer, &kind, &kinds[i]));
		if (!twins)
			continue;
		kind.vtable += 0x10000;
		kind.poll += 0x10000;
		kind.scheduler = "current_thread";
		check(trace_writer_kind(writer, &kind, &index));
	}
	for (uint32_t i = 0; i < n_workers + 1; i++) {
		char name[256];
		snprintf(name, sizeof(name), "%stokio-runtime-w", prefix);
		struct trace_thread thread = {.tid = 4243 + i, .name = name};
		check(trace_writer_thread(writer, &thread, &index));
		if (i < n_workers)
			workers[i].thread = index;
		else
			blocking_thread = index;
	}
}

int main(int argc, char **argv)
{
	struct error err = {0};
	uint64_t ms = argc > 2 ? strtoull(argv[2], NULL, 10) : 50;
	uint64_t per_second = argc > 3 ? strtoull(argv[3], NULL, 10) : 1500;
	if (argc > 4)
		n_workers = (uint32_t)strtoul(argv[4], NULL, 10);
	if (argc > 5)
		prefix = argv[5];
	twins = argc > 6 && !strcmp(argv[6], "twins");
	skew = argc > 6 && !strcmp(argv[6], "skew");
	if (argc < 2 || !per_second || !n_workers || n_workers > MAX_WORKERS) {
		fprintf(stderr,
			"usage: synth OUT.plx [MILLISECONDS [CONNECTIONS_PER_SECOND [WORKERS "
			"[PREFIX [twins|lock|skew]]]]]\n");
		return 2;
	}
	if (trace_writer_open(argv[1], &writer, &err) < 0) {
		fprintf(stderr, "synth: %s\n", err.text);
		return 1;
	}
	describe();

	uint64_t begin = 5000 * MS, end = begin + ms * MS;
	if (!ms) {
		emit(workers[0].thread, begin, TE_THREAD_BEGIN, 0, 0, 0, 0);
		return trace_writer_close(writer, &err) < 0;
	}
	for (uint32_t i = 0; i < n_workers; i++) {
		workers[i].now = begin + i * 7 * US;
		emit(workers[i].thread, workers[i].now, TE_THREAD_BEGIN, 0, 0, 0, 0);
		workers[i].now += 500;
		emit(workers[i].thread, workers[i].now, TE_POLL_BEGIN, 0, kinds[K_WORKER], i + 1,
		     0);
		workers[i].now += 500;
	}
	next_id = n_workers + 1;
	emit(blocking_thread, begin + 50 * US, TE_THREAD_BEGIN, 0, 0, 0, 0);
	logger = spawn(&workers[0], K_LOGGER, 0);
	if (argc > 6 && !strcmp(argv[6], "lock")) {
		hold_lock();
		return trace_writer_close(writer, &err) < 0;
	}
	spawn(&workers[0], K_TICKER, 0);
	spawn(&workers[0], K_ACCEPT, (unsigned)(1000000 / per_second + 1));
	simulate(begin, end);

	struct trace_cost cost = {.event_cost_ps = 22000, .end_ns = end, .end_reason = "duration"};
	check(trace_writer_cost(writer, &cost));
	if (trace_writer_close(writer, &err) < 0) {
		fprintf(stderr, "synth: %s\n", err.text);
		return 1;
	}
	printf("{\"spawns\":%" PRIu64 ",\"polls\":%" PRIu64 ",\"wakes\":%" PRIu64
	       ",\"events\":%" PRIu64 ",\"panicked\":%" PRIu64 "}\n",
	       made.spawns, made.polls, made.wakes, made.events, made.panicked);
	while (all)
		forget(all);
	return 0;
}
