/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The identity of a file; see file_id.h. */
#include "base/file_id.h"

#include "base/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t ns_of(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * NSEC_PER_SEC + (uint64_t)t->tv_nsec;
}

bool file_id_read(int fd, struct file_id *ret)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	*ret = (struct file_id){.dev = st.st_dev,
				.ino = st.st_ino,
				.bytes = (uint64_t)st.st_size,
				.modified_ns = ns_of(&st.st_mtim),
				.changed_ns = ns_of(&st.st_ctim),
				.owner = st.st_uid};
	return true;
}

bool file_id_same(const struct file_id *a, const struct file_id *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->bytes == b->bytes &&
	       a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns &&
	       a->owner == b->owner;
}

bool file_id_trusted(const struct file_id *id)
{
	return !id->owner || id->owner == geteuid();
}

void file_id_text(const struct file_id *id, char ret[static FILE_ID_TEXT])
{
	snprintf(ret, FILE_ID_TEXT,
		 "%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%" PRIx64, id->dev,
		 id->ino, id->bytes, id->modified_ns, id->changed_ns, id->owner);
}
