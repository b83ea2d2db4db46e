/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From what was found in a process to the moment that others know: the tasks with their kinds, and
 * the threads with what they do. Names of frames are looked up here, once the threads run again.
 */
#include "future/moments.h"

#include "base/cleanup.h"
#include "base/syscalls.h"
#include "base/vec.h"
#include "binary/names.h"
#include "future/cell.h"
#include "future/inspect.h"
#include "future/tasks.h"
#include "future/thread_stacks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	MAX_FRAMES = 64,    /* of a thread, inlined ones included */
	MAX_INLINED = 16,   /* at one address */
	MAX_CODE = 1 << 16, /* addresses that are looked up */
};

struct making {
	struct inspect *in;
	struct trace_moment m;
	struct map kinds; /* struct inspect_kind -> struct moment_kind */
	struct map code;  /* address -> struct code_frames */
};

/* What is at an address: innermost first. */
struct code_frames {
	struct moment_frame *v;
	size_t n;
};

static const char *keep(struct making *k, const char *s)
{
	const char *copy = s ? moment_string(&k->m, s, strlen(s)) : "";

	return copy ? copy : "";
}

/* ---- kinds and tasks ---- */

static int read_process(void *ctx, uint64_t addr, void *out, size_t len)
{
	return mem_read(ctx, addr, out, len) ? 0 : -EIO;
}

static uint64_t task_bytes(struct inspect *in, const struct inspect_kind *kind)
{
	struct future_cell cell = {.future = kind->future};

	/* What follows Tokio's trailer is padding. */
	if (kind->tokio)
		return kind->kind->trailer_offset;
	return cell_async_offset(kind->vtable, read_process, &in->mem, &cell) ? cell.size : 0;
}

static const struct moment_kind *kind_of(struct making *k, const struct inspect_kind *kind)
{
	struct moment_kind *made = map_get(&k->kinds, (uintptr_t)kind, 0);
	const struct scan_kind *scan = kind->kind;
	bool root = scan->role == TR_ROOT;

	if (made)
		return made;
	made = moment_take(&k->m, sizeof(*made));
	if (!made || map_put(&k->kinds, (uintptr_t)kind, 0, made) < 0)
		return NULL;
	*made = (struct moment_kind){
		.name = kind->name   ? kind->name
			: scan->name ? scan->name
				     : "?",
		.full_name = kind->future      ? kind->future->full_name
			     : scan->full_name ? scan->full_name
					       : "",
		.object = kind->object ? kind->object->object->path : "",
		.site = kind->site				? kind->site
			: scan->n_sites && scan->sites[0].where ? scan->sites[0].where
								: "",
		.role = scan->role,
		.tokio = kind->tokio,
		.vtable = root ? 0 : scan->vtable,
		.future_bytes = kind->future ? kind->future->size : 0,
		.task_bytes = root ? 0 : task_bytes(k->in, kind),
	};
	return made;
}

static int add_tasks(struct making *k, const struct inspect_result *r)
{
	k->m.tasks = calloc(r->n_tasks ? vec_implied_cap(r->n_tasks) : 1, sizeof(*k->m.tasks));
	if (!k->m.tasks)
		return -ENOMEM;
	for (size_t i = 0; i < r->n_tasks; i++) {
		const struct inspect_task *t = &r->tasks[i];
		const struct moment_kind *kind = kind_of(k, t->kind);

		if (!kind)
			return -ENOMEM;
		k->m.tasks[k->m.n_tasks++] = (struct moment_task){
			.kind = kind,
			.addr = t->addr,
			.id = t->id,
			.raw_state = t->raw_state,
			.owner = t->owner,
			.refs = t->refs,
			.state = t->state,
			.cancelled = t->cancelled,
			.join_interest = t->join_interest,
			.torn = t->torn,
			.in_no_queue = t->in_no_queue,
			.thread = t->thread,
			.queue = t->queue,
			.no_tree_reason = t->no_tree_reason,
			.tree = t->tree,
		};
	}
	return 0;
}

/* ---- threads ---- */

static struct process_object *object_at(struct inspect *in, uint64_t pc)
{
	for (size_t i = 0; i < in->objects.n; i++)
		if (pc >= in->objects.v[i].start && pc < in->objects.v[i].end)
			return &in->objects.v[i];
	return NULL;
}

static const char *function_name(struct making *k, const char *full)
{
	_cleanup_free_ char *name = full ? name_function(full) : NULL;

	return keep(k, name);
}

static const char *symbol_name(struct making *k, struct process_object *o, uint64_t addr)
{
	const struct elf_symbol *s = o->image ? elf_image_symbol_at(o->image, addr) : NULL;
	_cleanup_free_ char *full = s ? name_demangle(s->name) : NULL;

	return full ? function_name(k, full) : keep(k, s ? s->name : NULL);
}

/* The names of what is at an address; NULL: out of memory. */
static struct code_frames *code_at(struct making *k, uint64_t pc)
{
	struct code_frames *found = map_get(&k->code, pc, 0);
	struct dw_place places[MAX_INLINED];
	struct inspect_object *looked;
	struct process_object *o;
	struct debug *d;
	const char *object;
	size_t n;

	if (found)
		return found;
	o = object_at(k->in, pc);
	looked = o ? stacks_object(k->in, pc) : NULL;
	d = looked ? inspect_debug(k->in, looked) : NULL;
	n = d && k->code.n < MAX_CODE ? debug_places(d, pc - o->bias, places, MAX_INLINED) : 0;
	found = moment_take(&k->m, sizeof(*found));
	if (!found || map_put(&k->code, pc, 0, found) < 0)
		return NULL;
	found->n = n ? n : 1;
	found->v = moment_take(&k->m, found->n * sizeof(*found->v));
	if (!found->v)
		return NULL;
	object = o ? keep(k, o->path) : "";
	for (size_t i = 0; i < found->n; i++) {
		struct moment_frame *f = &found->v[i];

		*f = (struct moment_frame){.addr = o ? pc - o->bias : 0,
					   .object = object,
					   .function =
						   n ? function_name(k, places[i].function) : "",
					   .file = n ? keep(k, places[i].file) : "",
					   .line = n ? places[i].line : 0};
		if (o && i + 1 == found->n && !*f->function)
			f->function = symbol_name(k, o, pc - o->bias);
	}
	return found;
}

/*
 * A thread that waits for a lock of parking_lot's (dashmap's, a watch channel's, lock_api's) sleeps on a
 * word of its own. The lock's address is the key by which it is found, in the thread's data around that
 * word: parking_lot_core 0.8 to 0.9, parking_lot.rs, ThreadData { parker, key, .. }. 0: it waits for none.
 */
static uint64_t parked_for(struct making *k, const struct inspect_stack *s, uint64_t word)
{
	const struct dw_member *parker = NULL, *key = NULL;
	uint64_t addr = 0;

	for (size_t i = 0; i < s->n_frames; i++) {
		uint64_t pc = s->frames[i].ip - (i != 0);
		const struct code_frames *code = code_at(k, pc);
		bool parks = false;

		for (size_t j = 0; code && j < code->n; j++)
			parks |= !strncmp(code->v[j].function, "parking_lot_core::", 18);
		if (!parks)
			continue;
		struct inspect_object *o = stacks_object(k->in, pc);
		struct debug *d = o ? inspect_debug(k->in, o) : NULL;
		const struct dw_type *data =
			d ? debug_named_type(d, "parking_lot_core::parking_lot::ThreadData") : NULL;

		if (data) {
			parker = dw_find_member(data, "parker");
			key = dw_find_member(data, "key");
		}
		break;
	}
	/* The parker is its word, and no more. */
	if (!parker || !key || word < parker->offset ||
	    !mem_u64(&k->in->mem, word - parker->offset + key->offset, &addr))
		return 0;
	return addr;
}

static bool is_futex(const struct moment_thread *t)
{
	const char *call = t->call ? syscall_name(t->call - 1) : NULL;

	return call && !strcmp(call, "futex");
}

static int add_thread(struct making *k, const struct inspect_stack *s)
{
	uint64_t lock;
	struct moment_frame *frames = moment_take(&k->m, MAX_FRAMES * sizeof(*frames));
	struct moment_thread *t;

	if (!frames || !GROW_ONE(k->m.threads, k->m.n_threads))
		return -ENOMEM;
	t = &k->m.threads[k->m.n_threads++];
	*t = (struct moment_thread){
		.tid = (uint32_t)s->regs.tid,
		.name = keep(k, s->name),
		.frames = frames,
	};
	if (s->regs.call >= 0 && s->regs.native)
		t->call = (uint32_t)s->regs.call + 1;
	if (t->call)
		t->call_arg = s->regs.args[0];
	for (size_t i = 0; i < s->n_frames && t->n_frames < MAX_FRAMES; i++) {
		/* A return address may be past the end of its function. */
		uint64_t pc = s->frames[i].ip - (i != 0);
		const struct code_frames *code = code_at(k, pc);

		if (!code)
			return -ENOMEM;
		for (size_t j = 0; j < code->n && t->n_frames < MAX_FRAMES; j++)
			frames[t->n_frames++] = code->v[j];
	}
	lock = is_futex(t) ? parked_for(k, s, t->call_arg) : 0;
	if (lock)
		t->call_arg = lock;
	return 0;
}

/* ---- descriptors ---- */

static uint64_t count_descriptors(const struct process *p)
{
	int fd = openat(p->proc_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *e;
	uint64_t n = 0;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	while ((e = readdir(dir)))
		n += e->d_name[0] != '.';
	closedir(dir);
	return n;
}

/* "Max open files            1024                 4096                 files" */
static uint64_t descriptor_limit(const struct process *p)
{
	static const char row[] = "Max open files";
	char text[4096];
	const char *at;

	if (process_read_file(p, "limits", text, sizeof(text)) < 0 || !(at = strstr(text, row)))
		return 0;
	return strtoull(at + sizeof(row) - 1, NULL, 10);
}

/* ---- all of it ---- */

static int add_notes(struct making *k)
{
	for (size_t i = 0; i < k->in->n_notes; i++) {
		if (!GROW_ONE(k->m.notes, k->m.n_notes))
			return -ENOMEM;
		k->m.notes[k->m.n_notes++] = k->in->notes[i];
	}
	return 0;
}

int inspect_moment(struct inspect *in, const struct inspect_result *r,
		   struct trace_moment *ret_moment, struct error *err)
{
	struct making k = {.in = in,
			   .m = {.now_ns = r->now_ns,
				 .stop_ns = r->stop_ns,
				 .stopped = r->stopped,
				 .n_torn = r->n_torn,
				 .n_missed = r->n_missed,
				 .n_found = r->n_tasks + r->n_left_out}};
	int rc = add_tasks(&k, r);

	if (!in->core) {
		k.m.n_descriptors = count_descriptors(&in->process);
		k.m.max_descriptors = descriptor_limit(&in->process);
	}

	for (size_t i = 0; i < in->n_threads && rc == 0 && r->stopped; i++)
		rc = add_thread(&k, &in->threads[i]);
	if (rc == 0)
		rc = add_notes(&k);
	map_done(&k.kinds);
	map_done(&k.code);
	if (rc < 0) {
		moment_done(&k.m);
		return error_set(err, rc, "out of memory");
	}
	*ret_moment = k.m;
	return 0;
}

int future_moment(pid_t pid, int (*emit)(void *ctx, struct trace_moment *m), void *ctx,
		  struct error *err)
{
	struct inspect_options opt = {.finished = true, .max_tasks = MOMENT_MAX_TASKS};
	struct inspect_result result = {0};
	struct trace_moment moment = {0};
	struct inspect *in = NULL;
	int rc = inspect_open(pid, &in, err);

	if (rc == 0)
		rc = inspect_snapshot(in, &opt, &result, err);
	if (rc < 0 && rc != -ESRCH && rc != -ENOMEM && in) {
		opt.no_stop = true;
		rc = inspect_snapshot(in, &opt, &result, err);
	}
	if (rc == 0)
		rc = inspect_moment(in, &result, &moment, err);
	if (rc == 0)
		rc = emit(ctx, &moment);
	moment_done(&moment);
	inspect_result_done(&result);
	inspect_free(in);
	return rc;
}
