/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reading one costs some ten microseconds, so the answer holds for a second, and a drain reads few.
 * A descriptor that was closed meanwhile is what it was when it was seen last: programs hardly ever
 * use one number for both kinds. A number that was never seen was closed at once: it counts as the
 * descriptor that was seen last with the same call. Without one a socket counts as non-blocking, as
 * they are in async runtimes, and any other file as one that waits if the call took long enough to
 * be reported.
 */
#include "capture/descriptors.h"

#include "base/units.h"

#include <fcntl.h>
#include <sys/socket.h>

#define FRESH_MS 1000u
#define MAX_LOOKS 32u
#define MAX_KNOWN 65536u
#define LONG_NS NSEC_PER_MSEC

/* In the map: when it was looked at, in ms, and whether it waits. */
struct seen_descriptor {
	uint64_t ms;
	bool waits;
};

static void *pack(struct seen_descriptor s)
{
	return (void *)(uintptr_t)(s.ms << 2 | (uint64_t)s.waits << 1 | 1);
}

static struct seen_descriptor unpack(const void *p)
{
	return (struct seen_descriptor){.ms = (uintptr_t)p >> 2, .waits = (uintptr_t)p & 2};
}

void descriptors_done(struct descriptors *d)
{
	map_done(&d->known);
}

void descriptors_tidy(struct descriptors *d)
{
	d->n_looks = 0;
	if (d->known.n >= MAX_KNOWN)
		map_done(&d->known);
}

static bool is_of_sockets(unsigned call)
{
	return call >= TB_RECV && call <= TB_CONNECT;
}

/* Of a descriptor that was never seen. */
static bool guess(const struct descriptors *d, unsigned call, uint64_t length_ns)
{
	if (d->seen[call])
		return d->waits[call];
	return !is_of_sockets(call) && length_ns >= LONG_NS;
}

bool descriptors_may_wait(struct descriptors *d, const struct process *p, unsigned call,
			  uint32_t fd, uint32_t flags, uint64_t length_ns, uint64_t now_ns)
{
	const void *before = map_get(&d->known, fd, 0);
	struct seen_descriptor s =
		before ? unpack(before)
		       : (struct seen_descriptor){.waits = guess(d, call, length_ns)};
	uint64_t now_ms = now_ns / NSEC_PER_MSEC;
	unsigned status;

	if (flags & MSG_DONTWAIT)
		return false;
	/* These work with files only, which always wait. */
	if (call == TB_PREAD || call == TB_PWRITE)
		return true;
	if ((before && now_ms - s.ms < FRESH_MS) || d->n_looks >= MAX_LOOKS)
		return s.waits;
	d->n_looks++;
	if (process_descriptor(p, fd, &status) == 0) {
		s.waits = d->waits[call] = !(status & O_NONBLOCK);
		d->seen[call] = true;
	} else if (!before) {
		return s.waits;
	}
	s.ms = now_ms;
	map_put(&d->known, fd, 0, pack(s)); /* without memory: it is looked at again */
	return s.waits;
}
