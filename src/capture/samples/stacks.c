/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stacks into the trace.
 *
 * A walk gives addresses. Two things are kept of them here: for each address of a process its
 * frames (one, and one more for each function that was inlined there), and the tree of all stacks,
 * in which a stack is its innermost node. Both are written to the trace when the first event needs
 * them, callers before what they call.
 *
 * The symbolizer thread reads what is loaded in a process and finds names; it shares only two lists
 * with the recording thread, under one lock. It owns an address until that is marked as named; then
 * the recorder owns it.
 */
#include "capture/samples/stacks.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file_map.h"
#include "base/map.h"
#include "base/order.h"
#include "base/units.h"
#include "base/vec.h"
#include "binary/dwarf/debug.h"
#include "binary/names.h"
#include "process/attach.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MAX_INLINED 24u
/* Unknown code makes pollux read again what is loaded, at intervals that double while that does not
 * help: a compiler at run time makes code that has no file. */
#define LOOK_AGAIN_NS (100 * NSEC_PER_MSEC)
#define LOOK_AGAIN_MAX_NS (10000 * NSEC_PER_MSEC)
/* Events come from several buffers, each a little later than its time. */
#define JOIN_WAIT_NS (2000 * NSEC_PER_MSEC)
#define BEGIN_WAIT_NS (20 * NSEC_PER_MSEC) /* the rings hold more than that */
#define END_WAIT_NS (20000 * NSEC_PER_MSEC)

/* A function at an address. */
struct name {
	char *function, *file;
	uint32_t line;
	uint32_t frame; /* trace index + 1, 0: not written yet */
};

/* An address in a process. */
struct code_address {
	struct process_stacks *process;
	struct unwind_file *file; /* NULL: the object says what it is */
	const char *object;
	uint64_t addr; /* as linked */
	struct code_address *next;
	/* the naming thread's until `named`, which is set last */
	struct name *names; /* innermost first */
	size_t n_names;
	bool named;
};

struct stack_node {
	capture_stack parent;
	uint32_t flags; /* enum trace_stack_flags, of an outermost one */
	struct code_address *address;
	uint32_t index; /* trace index + 1 of its innermost frame; 0: not written yet */
};

/* An event on its way. */
struct waiting_event {
	struct order_item order;
	struct trace_event event; /* value is set when it is written */
	capture_stack stack;
};

struct process_stacks {
	uint32_t process; /* trace index */
	pid_t pid;
	struct process handle;
	struct unwind_map *map; /* the recorder's */
	struct map addresses;	/* (file, linked address) -> struct code_address */
	struct code_address *agent, *kernel;
	uint64_t look_at_ns, look_wait_ns;
	struct counts {
		uint64_t walked, whole, cut, no_rule, unknown, retprobe;
	} counts;
	/* under the lock */
	struct unwind_map *new_map; /* not yet taken */
	bool wanted, reading, done;
	/* the thread's */
	uint64_t code_hash;
	struct process_stacks *next;
};

struct capture_stacks {
	struct trace_writer *writer;
	struct process_stacks *processes;
	struct stack_node *nodes; /* [0] is unused */
	size_t n_nodes, nodes_cap;
	struct map children; /* (parent and flags, address) -> node's number */
	struct map last;     /* (process, tid) -> struct seen_stack */
	struct unwind_frame frames[UNWIND_MAX_FRAMES];
	struct order waiting; /* struct waiting_event */

	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake, done;
	bool unasked; /* capture_stacks_begin() has made it */
	bool ending;
	struct code_address *first, **last_next; /* to be named */
	bool busy;
	struct unwind_files files; /* the thread's */
};

struct seen_stack {
	uint64_t time_ns;
	capture_stack stack;
};

/* ---- the thread: names ---- */

struct file_names {
	struct debug *debug;
};

static void file_names_free(void *user)
{
	struct file_names *f = user;

	debug_free(f->debug);
	free(f);
}

static struct file_names *file_names_of(struct unwind_file *file)
{
	struct file_names *f = file->user;
	int fd = file->image ? elf_image_fd(file->image) : -1;

	if (f)
		return f;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	/* Not the cached answers: thousands of addresses would crowd out those for trees. */
	if (fd >= 0 && file->path[0] == '/' &&
	    debug_open_fresh(fd, file->path, &f->debug, NULL) < 0)
		f->debug = NULL;
	file->user = f;
	return f;
}

/* For people, to be freed; "" if there is none. */
static char *symbol_name(struct elf_image *image, uint64_t addr)
{
	const struct elf_symbol *s = elf_image_symbol_at(image, addr);
	_cleanup_free_ char *full = NULL;

	if (!s)
		return strdup("");
	full = name_demangle(s->name);
	return full ? name_function(full) : strdup(s->name);
}

static void find_names(struct code_address *p)
{
	struct unwind_file *file = p->file;
	struct file_names *f = file_names_of(file);
	struct dw_place places[MAX_INLINED];
	size_t n = f && f->debug ? debug_places(f->debug, p->addr, places, MAX_INLINED) : 0;
	struct name *names = calloc(n ? n : 1, sizeof(*names));

	if (!names)
		return;
	for (size_t i = 0; i < n; i++) {
		names[i].line = places[i].line;
		names[i].file = places[i].file ? strdup(places[i].file) : NULL;
		/* The outermost is the symbol's function: the symbol's name says more. */
		if (i + 1 == n && file->image)
			names[i].function = symbol_name(file->image, p->addr);
		if (names[i].function && !names[i].function[0]) {
			free(names[i].function);
			names[i].function = NULL;
		}
		if (!names[i].function && places[i].function)
			names[i].function = name_function(places[i].function);
	}
	if (!n && file->image)
		names[0].function = symbol_name(file->image, p->addr);
	p->names = names;
	p->n_names = n ? n : 1;
}

/* ---- the thread: what is loaded ---- */

static struct unwind_map *read_map(struct capture_stacks *s, struct process_stacks *p)
{
	uint64_t hash = attach_code_hash(p->pid);
	struct unwind_map *m = NULL;

	if (!hash || hash == p->code_hash)
		return NULL;
	p->code_hash = hash;
	return unwind_map_read(&p->handle, &s->files, &m, NULL) == 0 ? m : NULL;
}

static struct process_stacks *wanted_process(struct capture_stacks *s)
{
	struct process_stacks *p = s->processes;

	while (p && !p->wanted)
		p = p->next;
	return p;
}

static void *stacks_main(void *arg)
{
	struct capture_stacks *s = arg;

	pthread_mutex_lock(&s->lock);
	while (!s->ending) {
		struct process_stacks *p = wanted_process(s);
		struct code_address *address = s->first;

		s->busy = p || address;
		if (p) {
			p->wanted = false;
			pthread_mutex_unlock(&s->lock);
			struct unwind_map *m = read_map(s, p);
			pthread_mutex_lock(&s->lock);
			if (m) {
				unwind_map_free(p->new_map);
				p->new_map = m;
			}
			p->done = true;
			pthread_cond_broadcast(&s->done);
		} else if (address) {
			s->first = address->next;
			if (!s->first)
				s->last_next = &s->first;
			pthread_mutex_unlock(&s->lock);
			find_names(address);
			__atomic_store_n(&address->named, true, __ATOMIC_RELEASE);
			pthread_mutex_lock(&s->lock);
		} else {
			pthread_cond_broadcast(&s->done);
			pthread_cond_wait(&s->wake, &s->lock);
		}
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* ---- life ---- */

int capture_stacks_new(struct trace_writer *w, struct capture_stacks **ret_stacks,
		       struct error *err)
{
	struct capture_stacks *s = calloc(1, sizeof(*s));
	pthread_condattr_t attr;
	sigset_t old;
	int rc;

	if (!s)
		return error_sys(err, -ENOMEM, "cannot take stacks");
	s->writer = w;
	s->n_nodes = 1;
	s->last_next = &s->first;
	order_init(&s->waiting, sizeof(struct waiting_event), SIZE_MAX);
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, NULL);
	pthread_cond_init(&s->done, &attr);
	pthread_condattr_destroy(&attr);
	/* Signals are the main thread's business. */
	file_map_block_signals(&old);
	rc = pthread_create(&s->thread, NULL, stacks_main, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc) {
		free(s);
		return error_sys(err, -rc, "cannot take stacks");
	}
	*ret_stacks = s;
	return 0;
}

static void address_free(void *value)
{
	struct code_address *p = value;

	for (size_t i = 0; p && i < p->n_names; i++) {
		free(p->names[i].function);
		free(p->names[i].file);
	}
	if (p)
		free(p->names);
	free(p);
}

static void process_stacks_free(struct process_stacks *p)
{
	map_free(&p->addresses, address_free);
	address_free(p->agent);
	address_free(p->kernel);
	unwind_map_free(p->map);
	unwind_map_free(p->new_map);
	process_close(&p->handle);
	free(p);
}

void capture_stacks_free(struct capture_stacks *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->ending = true;
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->wake);
	pthread_cond_destroy(&s->done);
	for (struct process_stacks *p = s->processes, *next; p; p = next) {
		next = p->next;
		process_stacks_free(p);
	}
	unwind_files_done(&s->files, file_names_free);
	map_free(&s->last, free);
	map_done(&s->children);
	free(s->nodes);
	order_done(&s->waiting);
	free(s);
}

static struct process_stacks *process_of(const struct capture_stacks *s, uint32_t process)
{
	struct process_stacks *p = s->processes;

	while (p && p->process != process)
		p = p->next;
	return p;
}

static void wait_until(struct capture_stacks *s, uint64_t until_ns, const bool *flag)
{
	const struct timespec until = {.tv_sec = (time_t)(until_ns / NSEC_PER_SEC),
				       .tv_nsec = (long)(until_ns % NSEC_PER_SEC)};
	int rc = 0;

	while (rc == 0 && (flag ? !*flag : s->busy || s->first || wanted_process(s)))
		rc = pthread_cond_timedwait(&s->done, &s->lock, &until);
}

bool capture_stacks_wait(struct capture_stacks *s, uint64_t ns)
{
	bool done;

	pthread_mutex_lock(&s->lock);
	wait_until(s, clock_monotonic_ns() + ns, NULL);
	done = !s->busy && !s->first && !wanted_process(s);
	pthread_mutex_unlock(&s->lock);
	return done;
}

int capture_stacks_join(struct capture_stacks *s, pid_t pid, uint32_t process, bool wait,
			struct error *err)
{
	struct process_stacks *p = process_of(s, process);
	int rc;

	if (p)
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return error_sys(err, -ENOMEM, "cannot take stacks");
	*p = (struct process_stacks){.process = process,
				     .pid = pid,
				     .handle = PROCESS_INIT,
				     .wanted = true,
				     .look_wait_ns = LOOK_AGAIN_NS};
	rc = process_open(pid, &p->handle, err);
	if (rc < 0) {
		free(p);
		return rc;
	}
	pthread_mutex_lock(&s->lock);
	p->next = s->processes;
	s->processes = p;
	pthread_cond_broadcast(&s->wake);
	if (wait)
		wait_until(s, clock_monotonic_ns() + JOIN_WAIT_NS, &p->done);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

int capture_stacks_begin(struct capture_shared *shared, pid_t pid, uint32_t process)
{
	int rc = 0;

	if (!shared->stacks) {
		rc = capture_stacks_new(shared->writer, &shared->stacks, NULL);
		if (rc == 0)
			shared->stacks->unasked = true;
	}
	if (rc == 0)
		rc = capture_stacks_join(shared->stacks, pid, process, false, NULL);
	if (rc == 0)
		capture_stacks_wait(shared->stacks, BEGIN_WAIT_NS);
	return rc;
}

static void take_map(struct capture_stacks *s, struct process_stacks *p)
{
	pthread_mutex_lock(&s->lock);
	if (p->new_map) {
		unwind_map_free(p->map);
		p->map = p->new_map;
		p->new_map = NULL;
	}
	pthread_mutex_unlock(&s->lock);
}

bool capture_stacks_ready(struct capture_stacks *s, uint32_t process)
{
	struct process_stacks *p = process_of(s, process);
	bool done = false;

	if (p) {
		pthread_mutex_lock(&s->lock);
		done = p->done;
		pthread_mutex_unlock(&s->lock);
	}
	return done;
}

/* ---- addresses and nodes ---- */

static void ask_for_names(struct capture_stacks *s, struct code_address *p)
{
	pthread_mutex_lock(&s->lock);
	*s->last_next = p;
	s->last_next = &p->next;
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

/* All code of this object is one address: its functions do not matter. */
static struct code_address *own_address(struct process_stacks *p, struct code_address **slot,
					const char *object)
{
	struct code_address *address = *slot;

	if (address)
		return address;
	address = calloc(1, sizeof(*address));
	if (!address)
		return NULL;
	address->names = calloc(1, sizeof(*address->names));
	if (!address->names) {
		free(address);
		return NULL;
	}
	address->names[0].function = strdup(object);
	address->n_names = 1;
	address->process = p;
	address->object = object;
	address->named = true;
	return *slot = address;
}

static struct code_address *address_of(struct capture_stacks *s, struct process_stacks *p,
				       const struct unwind_frame *f)
{
	struct unwind_file *file = f->code ? f->code->file : NULL;
	uint64_t addr = f->code ? f->ip - f->code->bias : f->ip;
	struct code_address *address;

	if (f->code && f->code->type == UNWIND_AGENT)
		return own_address(p, &p->agent, "[pollux]");
	address = map_get(&p->addresses, (uintptr_t)file, addr);
	if (address)
		return address;
	address = map_new(&p->addresses, (uintptr_t)file, addr, sizeof(*address));
	if (!address)
		return NULL;
	*address = (struct code_address){.process = p, .file = file, .object = "", .addr = addr};
	if (file && file->image) {
		ask_for_names(s, address);
		return address;
	}
	/* Without a file there are no names: the trace has the address only. */
	address->names = calloc(1, sizeof(*address->names));
	address->n_names = address->names ? 1 : 0;
	address->named = true;
	return address;
}

/* 0: out of memory. */
static capture_stack node_of(struct capture_stacks *s, capture_stack parent, uint32_t flags,
			     struct code_address *address)
{
	uint64_t key = (uint64_t)flags << 32 | parent;
	uintptr_t known = (uintptr_t)map_get(&s->children, key, (uintptr_t)address);

	if (known)
		return (capture_stack)known;
	if (!GROW(s->nodes, s->n_nodes, s->nodes_cap))
		return 0;
	if (s->n_nodes >= UINT32_MAX ||
	    map_put(&s->children, key, (uintptr_t)address, (void *)(uintptr_t)s->n_nodes) < 0)
		return 0;
	s->nodes[s->n_nodes] =
		(struct stack_node){.parent = parent, .flags = flags, .address = address};
	return (capture_stack)s->n_nodes++;
}

static void look_again(struct capture_stacks *s, struct process_stacks *p)
{
	uint64_t now = clock_monotonic_ns();

	if (now < p->look_at_ns)
		return;
	p->look_at_ns = now + p->look_wait_ns;
	p->look_wait_ns *= 2;
	if (p->look_wait_ns > LOOK_AGAIN_MAX_NS)
		p->look_wait_ns = LOOK_AGAIN_MAX_NS;
	pthread_mutex_lock(&s->lock);
	p->wanted = true;
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

static uint64_t *count_of(struct counts *n, enum unwind_end end)
{
	switch (end) {
	case UNWIND_DONE:
		return &n->whole;
	case UNWIND_NO_RULE:
		return &n->no_rule;
	case UNWIND_UNKNOWN:
		return &n->unknown;
	case UNWIND_RETPROBE:
		return &n->retprobe;
	default:
		return &n->cut;
	}
}

int capture_stacks_walk(struct capture_stacks *s, uint32_t process,
			const struct unwind_start *start, enum capture_leaf leaf,
			capture_stack *ret_stack)
{
	struct process_stacks *p = process_of(s, process);
	struct unwind_frame *f = s->frames;
	enum unwind_end end;
	capture_stack stack = 0;
	size_t n = 0, first = 0;

	if (!p)
		return -EAGAIN;
	take_map(s, p);
	if (!p->map)
		return -EAGAIN;
	end = unwind(p->map, start, f, &n);
	p->counts.walked++;
	(*count_of(&p->counts, end))++;
	if (end == UNWIND_UNKNOWN)
		look_again(s, p);
	/* The agent's frames appear as one, and only where nothing else is called from it. */
	while (first + 1 < n && f[first].code && f[first].code->type == UNWIND_AGENT &&
	       f[first + 1].code && f[first + 1].code->type == UNWIND_AGENT)
		first++;
	for (size_t i = n; i-- > first;) {
		struct code_address *address;

		if (i > first && f[i].code && f[i].code->type == UNWIND_AGENT)
			continue;
		address = address_of(s, p, &f[i]);
		if (!address)
			return -ENOMEM;
		stack = node_of(s, stack, !stack && end != UNWIND_DONE ? TRACE_STACK_CUT : 0,
				address);
		if (!stack)
			return -ENOMEM;
	}
	if (leaf == CL_KERNEL) {
		struct code_address *address = own_address(p, &p->kernel, "[kernel]");

		stack = address ? node_of(s, stack, 0, address) : 0;
		if (!stack)
			return -ENOMEM;
	}
	*ret_stack = stack;
	return 0;
}

/* ---- into the trace ---- */

static int emit_frame(struct capture_stacks *s, const struct code_address *p, struct name *name)
{
	const struct trace_frame f = {.process = p->process->process,
				      .line = name->line,
				      .addr = p->addr,
				      .object = p->file ? p->file->path : p->object,
				      .function = name->function ? name->function : "",
				      .file = name->file ? name->file : ""};
	uint32_t index;

	if (!name->frame) {
		TRY(trace_writer_frame(s->writer, &f, &index));
		name->frame = index + 1;
	}
	return 0;
}

/* A node whose caller has been written. */
static int emit_node(struct capture_stacks *s, struct stack_node *node)
{
	struct code_address *p = node->address;
	uint32_t parent = node->parent ? s->nodes[node->parent].index : 0, flags = node->flags;

	for (size_t i = p->n_names; i-- > 0;) {
		struct trace_stack record = {.parent = parent, .flags = flags};
		uint32_t index;

		TRY(emit_frame(s, p, &p->names[i]));
		record.frame = p->names[i].frame - 1;
		TRY(trace_writer_stack(s->writer, &record, &index));
		parent = index + 1;
		flags = 0;
	}
	node->index = parent;
	return 0;
}

/* The stack in the trace: 1 with its index + 1, as in an event's value; 0: its names aren't there
 * yet; negative errno of the writer. */
static int stack_index(struct capture_stacks *s, capture_stack stack, uint64_t *ret_value)
{
	capture_stack path[UNWIND_MAX_FRAMES + 1];
	size_t n = 0;

	for (capture_stack at = stack; at && !s->nodes[at].index; at = s->nodes[at].parent) {
		const struct code_address *p = s->nodes[at].address;

		if (!__atomic_load_n(&p->named, __ATOMIC_ACQUIRE))
			return 0;
		path[n++] = at;
	}
	while (n)
		TRY(emit_node(s, &s->nodes[path[--n]]));
	*ret_value = stack ? s->nodes[stack].index : 0;
	return 1;
}

int capture_stacks_seen(struct capture_stacks *s, uint32_t process, uint32_t tid, uint64_t time_ns,
			capture_stack stack)
{
	struct seen_stack *seen = map_get_or_new(&s->last, process, tid, sizeof(*seen));

	if (!seen)
		return -ENOMEM;
	if (time_ns >= seen->time_ns)
		*seen = (struct seen_stack){time_ns, stack};
	return 0;
}

capture_stack capture_stacks_last(const struct capture_stacks *s, uint32_t process, uint32_t tid,
				  uint64_t *ret_time_ns)
{
	const struct seen_stack *seen = map_get(&s->last, process, tid);

	if (!seen)
		return 0;
	*ret_time_ns = seen->time_ns;
	return seen->stack;
}

/* One sentence of why not all stacks are whole, "" if they are. */
static void why_cut(const struct counts *n, char *out, size_t size)
{
	const struct {
		uint64_t n;
		const char *reason;
	} reasons[] = {
		{n->cut, "deeper than --stack-size"},
		{n->no_rule, "in code without unwind rules"},
		{n->unknown, "in code that belongs to no file"},
		{n->retprobe, "under a return probe"},
	};
	size_t len = 0;

	*out = 0;
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]) && len < size; i++)
		if (reasons[i].n)
			len += (size_t)snprintf(
				out + len, size - len, "%s%llu %s",
				len ? ", " : "cut off: ", (unsigned long long)reasons[i].n,
				reasons[i].reason);
}

static int cover(struct capture_stacks *s, struct capture_stats *stats, uint32_t process,
		 const char *item, uint64_t seen, uint64_t total, const char *note)
{
	const struct trace_coverage c = {
		.process = process, .item = item, .seen = seen, .total = total, .note = note};

	return total ? capture_emit_coverage(s->writer, stats, &c) : 0;
}

static int cover_all(struct capture_stacks *s, struct capture_stats *stats)
{
	/* Who did not ask for stacks does not miss what is far from the poll. */
	if (s->unasked)
		return 0;
	for (struct process_stacks *p = s->processes; p; p = p->next) {
		uint64_t named = 0, total = 0;
		const struct map_entry *e;
		size_t pos = 0;
		char why[256];

		while ((e = map_next(&p->addresses, &pos))) {
			const struct code_address *address = e->value;

			total++;
			if (!__atomic_load_n(&address->named, __ATOMIC_ACQUIRE) ||
			    !address->n_names)
				continue;
			const char *function = address->names[address->n_names - 1].function;
			named += function && *function;
		}
		why_cut(&p->counts, why, sizeof(why));
		TRY(cover(s, stats, p->process, "stacks", p->counts.whole, p->counts.walked, why));
		TRY(cover(s, stats, p->process, "names of code in stacks", named, total,
			  named < total ? "the rest has addresses only: no symbols" : ""));
	}
	return 0;
}

/* ---- events that wait ---- */

int capture_stacks_put(struct capture_stacks *s, const struct trace_event *e, capture_stack stack)
{
	const struct waiting_event w = {.order.time = e->time, .event = *e, .stack = stack};

	return order_put(&s->waiting, &w);
}

static int flush(struct capture_stacks *s, uint64_t until_ns)
{
	const struct waiting_event *first;
	struct waiting_event w;
	uint64_t index;
	int rc = 0;

	while ((first = order_first(&s->waiting))) {
		rc = first->order.time < until_ns ? stack_index(s, first->stack, &index) : 0;
		if (rc <= 0 || !order_next(&s->waiting, until_ns, &w))
			break;
		w.event.value = index;
		TRY(trace_writer_events(s->writer, w.event.thread, &w.event, 1));
	}
	return rc;
}

int capture_stacks_put_copy(struct capture_stacks *s, const struct trace_event *e, uint32_t process,
			    const struct user_stack *copy, size_t len)
{
	size_t there = len > offsetof(struct user_stack, bytes)
			       ? len - offsetof(struct user_stack, bytes)
			       : 0;
	const struct unwind_start start = {
		.ip = copy->ip,
		.sp = copy->sp,
		.bp = copy->bp,
		.bp_known = true,
		.stack = copy->bytes,
		.stack_addr = copy->sp,
		.stack_bytes = copy->n < there ? copy->n : there,
	};
	capture_stack stack;
	int rc;

	if (!there)
		return 0;
	rc = capture_stacks_walk(s, process, &start, CL_NONE, &stack);
	if (rc == -EAGAIN)
		return 0;
	return rc < 0 ? rc : capture_stacks_put(s, e, stack);
}

int capture_stacks_flush(struct capture_stacks *s, uint64_t *ret_before_ns)
{
	uint64_t until = clock_monotonic_ns() - CAPTURE_STACKS_SETTLE_NS;
	const struct waiting_event *first;

	TRY(flush(s, until));
	first = order_first(&s->waiting);
	*ret_before_ns = first && first->order.time < until ? first->order.time : until;
	return 0;
}

/* What has no names by now goes without, but for the one that is being looked at. */
static void give_up_names(struct capture_stacks *s)
{
	struct code_address *next;

	pthread_mutex_lock(&s->lock);
	for (struct code_address *p = s->first; p; p = next) {
		next = p->next;
		p->names = calloc(1, sizeof(*p->names));
		p->n_names = p->names ? 1 : 0;
		__atomic_store_n(&p->named, true, __ATOMIC_RELEASE);
	}
	s->first = NULL;
	s->last_next = &s->first;
	pthread_mutex_unlock(&s->lock);
	capture_stacks_wait(s, END_WAIT_NS);
}

int capture_stacks_end(struct capture_stacks *s, struct capture_stats *stats)
{
	int rc;

	if (order_n(&s->waiting) && !capture_stacks_wait(s, END_WAIT_NS))
		give_up_names(s);
	rc = flush(s, UINT64_MAX);
	return rc < 0 ? rc : cover_all(s, stats);
}
