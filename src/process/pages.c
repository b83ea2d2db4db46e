/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Pages that are there.
 *
 * PAGEMAP_SCAN (Linux 6.7) gives runs of pages and steps over what has no page tables. Before,
 * there is a word per page to read, also for holes: eight terabytes of them take some seconds, and
 * are the most that is looked at. Pages that were only read from and are all the kernel's one page
 * of zeroes are left out, where the kernel reports them.
 *
 * Source: Linux Documentation/admin-guide/mm/pagemap.rst, include/uapi/linux/fs.h.
 */
#include "process/pages.h"

#include "base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
	FIRST_PAGES = 64,  /* words of pagemap that are read at once, first */
	LIST_PAGES = 4096, /* and at most */
	RUN_PAGES = 256,
};

/* A word of pagemap. */
#define WORD_PRESENT (1ull << 63)
#define WORD_SWAPPED (1ull << 62)

/* struct pm_scan_arg and page_region of linux/fs.h, which older headers lack. */
struct scan_arg {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t inverted, mask, anyof, returned;
};
struct scan_region {
	uint64_t start, end, categories;
};
_Static_assert(sizeof(struct scan_arg) == 96, "as in linux/fs.h");
_Static_assert(sizeof(struct scan_region) == 24, "as in linux/fs.h");

#define SCAN_REQUEST _IOWR('f', 16, struct scan_arg)
enum { SCAN_PRESENT = 1 << 3, SCAN_SWAPPED = 1 << 4, SCAN_ZERO = 1 << 5 };

void pages_open(const struct process *p, struct pages *ret_pages)
{
	*ret_pages = (struct pages){.fd = openat(p->proc_fd, "pagemap", O_RDONLY | O_CLOEXEC),
				    .mem_fd = p->mem_fd};
	budget_init(&ret_pages->budget, PAGES_LISTED, 0);
}

void pages_close(struct pages *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

static int scan_next(const struct pages *p, uint64_t addr, uint64_t end, uint64_t *ret_start,
		     uint64_t *ret_end)
{
	struct scan_region found;
	struct scan_arg arg = {
		.size = sizeof(arg),
		.start = addr,
		.end = end,
		.vec = (uintptr_t)&found,
		.vec_len = 1,
		.inverted = SCAN_ZERO,
		.mask = SCAN_ZERO,
		.anyof = SCAN_PRESENT | SCAN_SWAPPED,
		.returned = SCAN_PRESENT | SCAN_SWAPPED,
	};
	int n = ioctl(p->fd, SCAN_REQUEST, &arg);

	if (n < 0)
		return -errno;
	if (n == 0)
		return 0;
	*ret_start = found.start;
	*ret_end = found.end;
	return found.end > found.start && found.start >= addr && found.end <= end ? 1 : -EIO;
}

static bool is_there(uint64_t word)
{
	return word & (WORD_PRESENT | WORD_SWAPPED);
}

/* Words of n pages from addr on; false: they can't be had. */
static bool read_words(const struct pages *p, uint64_t addr, size_t n, uint64_t *ret)
{
	return p->fd >= 0 && pread(p->fd, ret, n * sizeof(*ret), (off_t)(addr / PAGE * 8)) ==
				     (ssize_t)(n * sizeof(*ret));
}

static int list_next(struct pages *p, uint64_t addr, uint64_t end, uint64_t *ret_start,
		     uint64_t *ret_end)
{
	uint64_t words[LIST_PAGES], start = end;
	size_t most = FIRST_PAGES; /* a run of few pages must not cost many words */

	while (addr < end) {
		size_t n = (end - addr) / PAGE < most ? (end - addr) / PAGE : most;

		if (!n || !budget_spend(&p->budget, n))
			break;
		if (!read_words(p, addr, n, words))
			return -EIO;
		for (size_t i = 0; i < n; i++, addr += PAGE) {
			if (start == end && is_there(words[i])) {
				start = addr;
			} else if (start != end && !is_there(words[i])) {
				*ret_start = start;
				*ret_end = addr;
				return 1;
			}
		}
		most = 2 * most < LIST_PAGES ? 2 * most : LIST_PAGES;
	}
	*ret_start = start;
	*ret_end = addr;
	return start < addr;
}

int pages_next(struct pages *p, uint64_t addr, uint64_t end, uint64_t *ret_start, uint64_t *ret_end)
{
	if (addr >= end)
		return 0;
	if (p->fd >= 0 && !p->listed) {
		int r = scan_next(p, addr, end, ret_start, ret_end);

		if (r != -ENOTTY && r != -EINVAL)
			return r;
		p->listed = true;
	}
	if (p->fd >= 0)
		return list_next(p, addr, end, ret_start, ret_end);
	*ret_start = addr;
	*ret_end = end;
	return 1;
}

/* Memory in which a page that is not there is one of zeroes: private, of no file. (The pages of
 * [vvar] and its like never show.) */
static bool is_zero_filled(const struct process_maps *maps, uint64_t addr)
{
	const struct process_map *m = maps_at(maps, addr);

	return m && !m->inode && !m->shared && strncmp(m->path, "[v", 2) != 0;
}

static int read_run(const struct pages *p, uint64_t addr, const struct iovec *iov, int n)
{
	size_t len = 0;

	for (int i = 0; i < n; i++)
		len += iov[i].iov_len;
	return preadv(p->mem_fd, iov, n, (off_t)addr) == (ssize_t)len ? 0 : -EIO;
}

int pages_readv(const struct pages *p, const struct process_maps *maps, uint64_t addr,
		const struct iovec *iov, int n)
{
	uint64_t words[RUN_PAGES];

	for (int done = 0; done < n;) {
		int count = n - done < RUN_PAGES ? n - done : RUN_PAGES, from = 0;
		bool known = read_words(p, addr, (size_t)count, words);

		for (int i = 0; known && i < count; i++) {
			if (is_there(words[i]) || !is_zero_filled(maps, addr + (uint64_t)i * PAGE))
				continue;
			if (i > from && read_run(p, addr + (uint64_t)from * PAGE, iov + done + from,
						 i - from) < 0)
				return -EIO;
			memset(iov[done + i].iov_base, 0, iov[done + i].iov_len);
			from = i + 1;
		}
		if (count > from &&
		    read_run(p, addr + (uint64_t)from * PAGE, iov + done + from, count - from) < 0)
			return -EIO;
		done += count;
		addr += (uint64_t)count * PAGE;
	}
	return 0;
}
