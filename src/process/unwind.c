/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Walking stacks without frame pointers.
 *
 * A frame's canonical address (CFA) follows from rsp or rbp by the rule at its instruction; below
 * it is the return address, and maybe the caller's rbp. So a walk is, per frame, one look into the
 * list of loaded code, one into a table of rules, and one or two words of the stack, which is a
 * copy that the kernel made, or is read as it is needed.
 *
 * What is special: the innermost address is that of an instruction, the others are those after a
 * call, which may be the first of the next function, so they count one byte less; but where a
 * signal came, again as they are. The vDSO has rules of its own in memory only. Pollux's agent is
 * between the runtime and its tasks: its image brings rules with it, and a call out of a trampoline
 * belongs to the function whose instruction was displaced into it. A return probe has put the
 * kernel's page in the place of the caller's address; the tool that set it knows the caller.
 */
#include "process/unwind.h"

#include "arch/code.h"
#include "base/cleanup.h"
#include "base/compare.h"
#include "base/search.h"
#include "base/units.h"
#include "base/vec.h"
#include "binary/code/insn.h"
#include "process/agent_mapping.h"
#include "process/memory.h"
#include "process/objects.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define VDSO_MAX_BYTES (1u << 20)
#define AGENT_MAX_BYTES (64u << 20)
/* Where the kernel's page of probes is, as a rule (get_xol_area): mapped at the first probe. */
#define UPROBES_PAGE 0x7fffffffe000ull
#define UPROBES_PAGE_END 0x7ffffffff000ull

struct unwind_map {
	struct unwind_code *v; /* sorted, not overlapping */
	size_t n, cap;
};

/* ---- files ---- */

static void file_free(struct unwind_file *f)
{
	if (!f)
		return;
	elf_image_free(f->image);
	eh_table_free(f->table);
	free(f->path);
	free(f);
}

void unwind_files_done(struct unwind_files *files, void (*done)(void *user))
{
	for (struct unwind_file *f = files->first, *next; f; f = next) {
		next = f->next;
		if (f->user && done)
			done(f->user);
		file_free(f);
	}
	files->first = NULL;
}

/* Takes the image over, in every case. An image that can't be had is a file of its own each time.
 */
static struct unwind_file *file_of(struct unwind_files *files, struct elf_image *image,
				   const char *path, const uint64_t key[4])
{
	struct unwind_file *f;

	for (f = files->first; image && f; f = f->next) {
		if (!memcmp(f->key, key, sizeof(f->key)) && f->image) {
			elf_image_free(image);
			return f;
		}
	}
	f = calloc(1, sizeof(*f));
	if (f)
		f->path = strdup(path);
	if (!f || !f->path) {
		elf_image_free(image);
		free(f);
		return NULL;
	}
	f->image = image;
	memcpy(f->key, key, sizeof(f->key));
	if (image && eh_table_of_image(image, &f->table) == -ENOMEM) {
		file_free(f);
		return NULL;
	}
	f->next = files->first;
	files->first = f;
	return f;
}

/* ---- the map ---- */

static struct unwind_code *add_code(struct unwind_map *m, uint64_t start, uint64_t end)
{
	if (!GROW(m->v, m->n, m->cap))
		return NULL;
	m->v[m->n] = (struct unwind_code){.start = start, .end = end};
	return &m->v[m->n++];
}

static int add_object(struct unwind_map *m, struct unwind_files *files, struct process_object *o)
{
	struct unwind_code *code = add_code(m, o->start, o->end);
	struct elf_image *image = steal(o->image);
	uint64_t key[4] = {0};
	struct stat st;

	if (!code) {
		elf_image_free(image);
		return -ENOMEM;
	}
	if (image && fstat(elf_image_fd(image), &st) == 0) {
		key[0] = st.st_dev;
		key[1] = st.st_ino;
		key[2] = (uint64_t)st.st_size;
		key[3] = (uint64_t)st.st_mtim.tv_sec * NSEC_PER_SEC + (uint64_t)st.st_mtim.tv_nsec;
	}
	code->bias = o->bias;
	code->file = file_of(files, image, o->path, key);
	if (!code->file)
		return -ENOMEM;
	code->table = code->file->table;
	return 0;
}

/* The bytes of a mapping, to be freed. */
static uint8_t *mapping_bytes(const struct process *p, const struct process_map *map, size_t max)
{
	size_t len = map->end - map->start;
	uint8_t *bytes = len <= max ? malloc(len) : NULL;

	if (bytes && memory_read(p, map->start, bytes, len) < 0) {
		free(bytes);
		return NULL;
	}
	return bytes;
}

/* The kernel's own library, an ELF file that is in memory only. */
static int add_vdso(const struct process *p, struct unwind_map *m, struct unwind_files *files,
		    const struct process_map *map)
{
	_cleanup_free_ uint8_t *bytes = mapping_bytes(p, map, VDSO_MAX_BYTES);
	_cleanup_close_ int fd = -1;
	size_t len = map->end - map->start, id_len;
	uint64_t key[4] = {len};
	struct unwind_code *code;
	struct elf_image *image;
	const uint8_t *id;

	if (!bytes)
		return 0;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0 || write(fd, bytes, len) != (ssize_t)len ||
	    elf_image_open(fd, "[vdso]", &image, NULL) < 0)
		return 0;
	id = elf_image_build_id(image, &id_len);
	if (id)
		memcpy(&key[1], id, id_len < 24 ? id_len : 24);
	code = add_code(m, map->start, map->end);
	if (!code) {
		elf_image_free(image);
		return -ENOMEM;
	}
	code->type = UNWIND_VDSO;
	code->bias = map->start - elf_image_segment(image, 0)->addr;
	code->file = file_of(files, image, "[vdso]", key);
	if (!code->file)
		return -ENOMEM;
	code->table = code->file->table;
	return 0;
}

/* Its content is untrusted: offsets are checked against the bytes. */
static int add_agent_rules(struct unwind_code *code, size_t len)
{
	struct agent_image image;

	memcpy(&image, code->bytes, sizeof(image));
	if (image.eh_frame >= image.eh_frame_end || image.eh_frame_end > len)
		return 0;
	int rc = eh_table_compile(machine_here(), code->bytes + image.eh_frame,
				  image.eh_frame_end - image.eh_frame, image.eh_frame, false,
				  &code->own_table);
	code->table = code->own_table;
	return rc == -ENOMEM ? rc : 0;
}

/* One area, of this recording or of an earlier one, in which a thread may be still. */
static int add_area(const struct process *p, struct unwind_map *m, const struct process_maps *maps,
		    const struct stale_agent *area)
{
	for (size_t i = 0; i <= LAYOUT_MAX_BLOCKS; i++) {
		uint64_t addr = i ? area->earlier.blocks[i - 1] : area->earlier.code;
		const struct process_map *map = addr ? maps_at(maps, addr) : NULL;
		struct unwind_code *code;

		if (!map || map->start != addr || map->inode || !map->exec)
			continue;
		code = add_code(m, map->start, map->end);
		if (!code)
			return -ENOMEM;
		code->type = UNWIND_AGENT;
		code->bias = map->start;
		code->bytes = mapping_bytes(p, map, AGENT_MAX_BYTES);
		if (code->bytes && i == 0)
			TRY(add_agent_rules(code, map->end - map->start));
	}
	return 0;
}

static int add_agent(const struct process *p, struct unwind_map *m, const struct process_maps *maps)
{
	struct stale_agents areas;
	int rc = stale_agents_find(p, maps, &areas);

	for (size_t i = 0; i < areas.n && rc == 0; i++)
		rc = add_area(p, m, maps, &areas.v[i]);
	stale_agents_done(&areas);
	return rc;
}

static int compare_codes(const void *a, const void *b)
{
	const struct unwind_code *x = a, *y = b;

	return ASCENDING(x->start, y->start);
}

/* What is in memory only. */
static int add_of_memory(const struct process *p, struct unwind_map *m, struct unwind_files *files,
			 const struct process_maps *maps)
{
	int rc = 0;

	for (size_t i = 0; i < maps->n && rc == 0; i++) {
		const struct process_map *map = &maps->v[i];

		if (!map->inode && map->exec && !strcmp(map->path, "[vdso]"))
			rc = add_vdso(p, m, files, map);
		if (!map->inode && map->exec && !strcmp(map->path, "[uprobes]")) {
			struct unwind_code *code = add_code(m, map->start, map->end);

			if (code)
				code->type = UNWIND_UPROBES;
		}
	}
	return rc ? rc : add_agent(p, m, maps);
}

int unwind_map_of(const struct unwind_code *codes, size_t n, const struct process *p,
		  const struct process_maps *maps, struct unwind_files *files,
		  struct unwind_map **ret_map)
{
	struct unwind_map *m = calloc(1, sizeof(*m));
	int rc = m ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && rc == 0; i++) {
		struct unwind_code *code = add_code(m, codes[i].start, codes[i].end);

		if (code)
			*code = codes[i];
		else
			rc = -ENOMEM;
	}
	if (rc == 0 && p)
		rc = add_of_memory(p, m, files, maps);
	if (rc < 0) {
		unwind_map_free(m);
		return rc;
	}
	qsort(m->v, m->n, sizeof(*m->v), compare_codes);
	*ret_map = m;
	return 0;
}

int unwind_map_read(const struct process *p, struct unwind_files *files,
		    struct unwind_map **ret_map, struct error *err)
{
	struct process_objects objects = {0};
	struct process_maps maps = {0};
	struct unwind_map *m = calloc(1, sizeof(*m));
	int rc = m ? maps_read(p, &maps, err) : error_sys(err, -ENOMEM, "cannot read stacks");

	if (rc == 0)
		rc = objects_read(p, &maps, &objects, err);
	if (rc < 0) {
		maps_done(&maps);
		unwind_map_free(m);
		return rc;
	}
	for (size_t i = 0; i < objects.n && rc == 0; i++)
		rc = add_object(m, files, &objects.v[i]);
	if (rc == 0)
		rc = add_of_memory(p, m, files, &maps);
	objects_done(&objects);
	maps_done(&maps);
	if (rc < 0) {
		unwind_map_free(m);
		return error_sys(err, rc, "cannot read stacks of process %d", p->pid);
	}
	qsort(m->v, m->n, sizeof(*m->v), compare_codes);
	*ret_map = m;
	return 0;
}

void unwind_map_free(struct unwind_map *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n; i++) {
		eh_table_free(m->v[i].own_table);
		free(m->v[i].bytes);
	}
	free(m->v);
	free(m);
}

static const struct unwind_code *code_at(const struct unwind_map *m, uint64_t addr)
{
	size_t lo = PARTITION_POINT(i, 0, m->n, addr >= m->v[i].end);

	return lo < m->n && addr >= m->v[lo].start ? &m->v[lo] : NULL;
}

/* ---- the walk ---- */

struct stack_walk {
	const struct unwind_start *start;
	uint64_t ip, sp, bp;
	bool bp_known;
	bool exact; /* ip is that of an instruction, not what follows a call */
	size_t n_returns;
};

static bool word_at(const struct stack_walk *w, uint64_t addr, uint64_t *ret)
{
	const struct unwind_start *s = w->start;
	uint64_t offset = addr - s->stack_addr;

	if (s->stack_bytes >= sizeof(*ret) && offset <= s->stack_bytes - sizeof(*ret)) {
		memcpy(ret, (const uint8_t *)s->stack + offset, sizeof(*ret));
		return true;
	}
	return s->read && s->read(s->arg, addr, ret, sizeof(*ret)) == 0;
}

/*
 * rbp of a frame whose CFA depends on it, where it is unknown (a sleeping thread's, as
 * /proc/PID/task/TID/syscall shows it): the function made it of rsp and has pushed since then what
 * its code says. Accepted if there is then a call before the return address.
 */
static bool find_bp(struct stack_walk *w, const struct unwind_map *m,
		    const struct unwind_code *code, uint64_t pc)
{
	const struct unwind_code *caller;
	uint64_t made, pushed, bp, ip;

	if (!code->file || !code->file->image || !eh_table_fp_made(code->table, pc, &made) ||
	    !insn_pushed(code->file->image, made, w->exact ? pc : pc + 1, &pushed))
		return false;
	bp = w->sp + pushed;
	if (!word_at(w, bp + 8, &ip))
		return false;
	caller = code_at(m, ip - 1);
	if (!caller || !caller->file || !caller->file->image ||
	    !insn_behind_call(caller->file->image, ip - caller->bias))
		return false;
	w->bp = bp;
	w->bp_known = true;
	return true;
}

/* Steps back over a signal: everything is as it was, sp on whatever stack. */
static enum unwind_end step_signal(struct stack_walk *w)
{
	const struct machine_dwarf *m = &machine_here()->dwarf;
	uint64_t ip, sp, bp;

	if (!word_at(w, w->sp + m->signal_pc, &ip) || !word_at(w, w->sp + m->signal_sp, &sp) ||
	    !word_at(w, w->sp + m->signal_fp, &bp))
		return UNWIND_CUT;
	w->ip = ip;
	w->sp = sp;
	w->bp = bp;
	w->bp_known = true;
	w->exact = true;
	return UNWIND_DONE;
}

static bool find_cfa(const struct stack_walk *w, const struct eh_row *row, uint64_t pc,
		     uint64_t *ret_cfa, enum unwind_end *ret_end)
{
	*ret_end = UNWIND_NO_RULE;
	switch (row->cfa_rule) {
	case EH_CFA_SP:
		*ret_cfa = w->sp + (uint64_t)(int64_t)row->cfa;
		return true;
	case EH_CFA_FP:
		*ret_cfa = w->bp + (uint64_t)(int64_t)row->cfa;
		return w->bp_known;
	case EH_CFA_AT_FP:
		if (!w->bp_known)
			return false;
		*ret_end = UNWIND_CUT;
		return word_at(w, w->bp + (uint64_t)(int64_t)row->cfa, ret_cfa);
	case EH_CFA_PLT:
		*ret_cfa = w->sp + 8 + ((pc & 15) >= (uint64_t)row->cfa ? 8 : 0);
		return true;
	default:
		return false;
	}
}

/* To the caller, by the rules of one frame. UNWIND_DONE: there is one, or `*ret_last`. */
static enum unwind_end step(struct stack_walk *w, const struct eh_row *row, uint64_t pc,
			    bool *ret_last)
{
	enum unwind_end end;
	uint64_t cfa, bp;

	if (row->cfa_rule == EH_CFA_SIGNAL)
		return step_signal(w);
	*ret_last = row->ra_rule == EH_RA_END;
	if (*ret_last)
		return UNWIND_DONE;
	if (row->ra_rule != EH_RA_AT_CFA)
		return UNWIND_NO_RULE;
	if (!find_cfa(w, row, pc, &cfa, &end))
		return end;
	/* A caller's frame lies above: what says otherwise would never end. */
	if (cfa <= w->sp)
		return UNWIND_NO_RULE;
	switch (row->fp_rule) {
	case EH_FP_AT_CFA:
	case EH_FP_AT_FP:
		if (row->fp_rule == EH_FP_AT_FP && !w->bp_known)
			break;
		bp = (row->fp_rule == EH_FP_AT_CFA ? cfa : w->bp) + (uint64_t)(int64_t)row->fp;
		if (!word_at(w, bp, &w->bp))
			return UNWIND_CUT;
		w->bp_known = true;
		break;
	case EH_FP_LOST:
		w->bp_known = false;
	}
	if (!word_at(w, cfa - 8, &w->ip))
		return UNWIND_CUT;
	w->sp = cfa;
	w->exact = false;
	return UNWIND_DONE;
}

/*
 * In a trampoline (arch/code.h) rsp is lower by what was pushed, and the function that it
 * represents is the one that it jumps back to. `at` is the instruction that runs or called.
 */
static bool leave_trampoline(struct stack_walk *w, const struct unwind_code *code, uint64_t at)
{
	uint64_t offset = at - code->start, lowered;
	unsigned o = offset % ARCH_TRAMPOLINE_BYTES;

	offset -= o;
	if (!code->bytes || code->end - code->start - offset < ARCH_TRAMPOLINE_BYTES ||
	    !arch_leave_trampoline(code->bytes + offset, code->start + offset, o, &w->ip, &lowered))
		return false;
	w->sp += lowered;
	w->exact = false;
	return true;
}

static bool is_signal_return(const struct unwind_code *code, uint64_t linked)
{
	static const uint8_t bytes[] = ARCH_SIGNAL_RETURN;
	const uint8_t *at;
	size_t left;

	if (!code->file || !code->file->image)
		return false;
	at = elf_image_bytes(code->file->image, linked, &left);
	return at && left >= sizeof(bytes) && !memcmp(at, bytes, sizeof(bytes));
}

/* Such a function returns to the page's first instruction. */
static bool is_retprobe(const struct unwind_map *m, uint64_t ip)
{
	const struct unwind_code *code;

	if (ip % PAGE)
		return false;
	code = code_at(m, ip);
	return code ? code->type == UNWIND_UPROBES : ip >= UPROBES_PAGE && ip < UPROBES_PAGE_END;
}

enum unwind_end unwind(const struct unwind_map *m, const struct unwind_start *start,
		       struct unwind_frame *ret, size_t *ret_n)
{
	struct stack_walk w = {.start = start,
			       .ip = start->ip,
			       .sp = start->sp,
			       .bp = start->bp,
			       .bp_known = start->bp_known,
			       .exact = true};
	const struct unwind_code *code = NULL;
	enum unwind_end end = UNWIND_DONE;
	bool last = false;
	size_t n = 0;

	while (end == UNWIND_DONE && !last) {
		uint64_t at = w.exact ? w.ip : w.ip - 1;
		const struct eh_row *row = NULL;

		if (!code || at < code->start || at >= code->end)
			code = code_at(m, at);
		if (n && is_retprobe(m, w.ip)) {
			if (w.n_returns == start->n_returns) {
				end = UNWIND_RETPROBE;
				break;
			}
			w.ip = start->returns[w.n_returns++];
			continue;
		}
		/* The end that a program without rules for its start has put there. */
		if (n && !w.ip)
			break;
		if (n == UNWIND_MAX_FRAMES) {
			end = UNWIND_TOO_DEEP;
			break;
		}
		ret[n++] = (struct unwind_frame){at, code, w.sp, w.bp, w.bp_known};
		if (!code) {
			end = UNWIND_UNKNOWN;
			break;
		}
		if (code->table)
			row = eh_table_at(code->table, at - code->bias);
		if (row && row->cfa_rule == EH_CFA_FP && !w.bp_known)
			find_bp(&w, m, code, at - code->bias);
		if (row)
			end = step(&w, row, at - code->bias, &last);
		else if (code->type == UNWIND_AGENT && leave_trampoline(&w, code, at))
			continue;
		else if (is_signal_return(code, w.ip - code->bias))
			end = step_signal(&w);
		else
			end = UNWIND_NO_RULE;
	}
	*ret_n = n;
	return end;
}
