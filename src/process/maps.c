/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * /proc/PID/maps.
 *
 * A path in there may hold anything but a newline (which the kernel writes as \012), also spaces,
 * and " (deleted)" at the end both as the kernel's remark and as part of a real name; so a path is
 * only ever a hint for people: files are recognised by device and inode. A line that doesn't parse,
 * or that overlaps the one before, is skipped: the target controls its address space.
 */
#include "process/maps.h"

#include "base/search.h"
#include "base/units.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define USER_TOP 0x7ffffffff000ull
#define LOWEST 0x100000ull	 /* stay clear of mmap_min_addr and of null pointers' offsets */
#define HEAP_ROOM (512ull << 20) /* what brk may still want to grow into */
#define STEP 0x10000ull
#define MAPS_MAX_BYTES (64u << 20)

static bool hex(const char **at, uint64_t *ret)
{
	uint64_t value = 0;
	int n = 0;

	for (;; (*at)++, n++) {
		char c = **at;
		unsigned digit;

		if (c >= '0' && c <= '9')
			digit = c - '0';
		else if (c >= 'a' && c <= 'f')
			digit = c - 'a' + 10;
		else
			break;
		if (n == 16)
			return false;
		value = value << 4 | digit;
	}
	*ret = value;
	return n > 0;
}

static bool expect(const char **at, char c)
{
	if (**at != c)
		return false;
	(*at)++;
	return true;
}

static bool parse_line(char *line, struct process_map *m)
{
	static const char remark[] = " (deleted)";
	const char *at = line;
	uint64_t major, minor;

	if (!hex(&at, &m->start) || !expect(&at, '-') || !hex(&at, &m->end) || !expect(&at, ' '))
		return false;
	if (strnlen(at, 5) < 5)
		return false;
	m->read = at[0] == 'r';
	m->write = at[1] == 'w';
	m->exec = at[2] == 'x';
	m->shared = at[3] == 's';
	at += 4;
	if (!expect(&at, ' ') || !hex(&at, &m->offset) || !expect(&at, ' ') || !hex(&at, &major) ||
	    !expect(&at, ':') || !hex(&at, &minor) || !expect(&at, ' '))
		return false;
	if (major > UINT32_MAX || minor > UINT32_MAX || m->start >= m->end)
		return false;
	m->dev_major = major;
	m->dev_minor = minor;
	m->inode = 0;
	for (; *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(m->inode, 10, &m->inode) ||
		    __builtin_add_overflow(m->inode, (uint64_t)(*at - '0'), &m->inode))
			return false;
	while (*at == ' ')
		at++;
	m->path = at;
	m->deleted = false;

	size_t len = strlen(at), tail = sizeof(remark) - 1;
	if (len > tail && !strcmp(at + len - tail, remark)) {
		line[at - line + len - tail] = 0;
		m->deleted = true;
	}
	return true;
}

int maps_parse(char *text, struct process_maps *ret_maps)
{
	struct process_maps m = {.text = text};
	size_t cap = 0;

	for (char *line = text, *next; line && *line; line = next) {
		struct process_map map;

		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (!parse_line(line, &map) || (m.n && map.start < m.v[m.n - 1].end))
			continue;
		if (!GROW(m.v, m.n, cap)) {
			maps_done(&m);
			return -ENOMEM;
		}
		m.v[m.n++] = map;
	}
	*ret_maps = m;
	return 0;
}

int maps_read(const struct process *p, struct process_maps *ret_maps, struct error *err)
{
	char *text;
	size_t len;
	int rc = process_read_whole(p, "maps", MAPS_MAX_BYTES, &text, &len);

	if (rc < 0)
		return error_sys(err, rc, "cannot read the memory map of process %d", p->pid);
	rc = maps_parse(text, ret_maps);
	if (rc < 0)
		return error_sys(err, rc, "cannot read the memory map of process %d", p->pid);
	if (!ret_maps->n) {
		maps_done(ret_maps);
		return error_set(err, -ESRCH, "process %d has no memory: it is ending", p->pid);
	}
	return 0;
}

void maps_done(struct process_maps *m)
{
	free(m->v);
	free(m->text);
	*m = (struct process_maps){0};
}

const struct process_map *maps_at(const struct process_maps *m, uint64_t addr)
{
	size_t at = PARTITION_POINT(i, 0, m->n, m->v[i].end <= addr);

	return at < m->n && m->v[at].start <= addr ? &m->v[at] : NULL;
}

/* The free range between mapping i - 1 and mapping i, less a margin on both sides; what follows the
 * heap keeps room for it to grow, what lies below a stack keeps room for that. */
static bool gap(const struct process_maps *m, size_t i, uint64_t *ret_lo, uint64_t *ret_hi)
{
	uint64_t lo = i ? m->v[i - 1].end : 0;
	uint64_t hi = i < m->n ? m->v[i].start : USER_TOP;

	if (hi > USER_TOP)
		hi = USER_TOP;
	lo += STEP;
	/* Without a heap yet, brk begins after the executable's last mapping. */
	if (i && (!strcmp(m->v[i - 1].path, "[heap]") || m->v[i - 1].write))
		lo += HEAP_ROOM;
	if (i < m->n && !strcmp(m->v[i].path, "[stack]"))
		hi = hi > HEAP_ROOM ? hi - HEAP_ROOM : 0;
	else
		hi = hi > STEP ? hi - STEP : 0;
	if (lo < LOWEST)
		lo = LOWEST;
	lo = (lo + STEP - 1) & ~(STEP - 1);
	*ret_lo = lo;
	*ret_hi = hi & ~(PAGE - 1);
	return lo < hi;
}

int maps_copy(const struct process_maps *m, struct process_maps *ret_maps)
{
	struct process_map *v = calloc(m->n + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	if (m->n)
		memcpy(v, m->v, m->n * sizeof(*v));
	*ret_maps = (struct process_maps){.v = v, .n = m->n};
	return 0;
}

int maps_take(struct process_maps *m, uint64_t start, uint64_t bytes)
{
	struct process_map *v = reallocarray(m->v, m->n + 1, sizeof(*v));
	size_t i;

	if (!v)
		return -ENOMEM;
	m->v = v;
	for (i = m->n++; i > 0 && v[i - 1].start > start; i--)
		v[i] = v[i - 1];
	v[i] = (struct process_map){.start = start, .end = start + bytes, .path = ""};
	return 0;
}

uint64_t maps_find_hole(const struct process_maps *m, uint64_t near_start, uint64_t near_end,
			uint64_t reach, uint64_t bytes)
{
	uint64_t window_lo = 0, window_hi = USER_TOP;
	uint64_t lo, hi;

	if (near_end) {
		window_lo = near_end > reach ? near_end - reach : 0;
		if (!__builtin_add_overflow(near_start, reach, &hi) && hi < window_hi)
			window_hi = hi;
	} else {
		near_start = USER_TOP;
	}
	/* Below: the highest place of the nearest gap. */
	for (size_t i = m->n + 1; i-- > 0;) {
		if (!gap(m, i, &lo, &hi))
			continue;
		if (hi > near_start)
			hi = near_start;
		if (lo < window_lo)
			lo = (window_lo + STEP - 1) & ~(STEP - 1);
		if (hi > bytes && lo <= ((hi - bytes) & ~(STEP - 1)))
			return (hi - bytes) & ~(STEP - 1);
	}
	/* Above: the lowest place. */
	for (size_t i = 0; i <= m->n; i++) {
		if (!gap(m, i, &lo, &hi) || hi <= near_end)
			continue;
		if (lo < near_end)
			lo = (near_end + STEP - 1) & ~(STEP - 1);
		if (hi > window_hi)
			hi = window_hi;
		if (hi > lo && hi - lo >= bytes)
			return lo;
	}
	return 0;
}
