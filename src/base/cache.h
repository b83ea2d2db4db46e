/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What pollux found out about a file, kept for the next time: $XDG_CACHE_HOME/pollux or
 * ~/.cache/pollux, one file for each file and kind of answer.
 *
 * pollux trusts what the cache says of a file, so it must be about that very file: answers are
 * kept, and used, only for files that belong to root or to this user, by an identity that no
 * user can give to another file (base/file_id.h). A build-id won't do: it is what the file says.
 *
 *    head: magic, version, length and checksum of the rest
 *    content: what the caller wrote
 *
 * The folder is private (0700, owned by the effective user, else it isn't used), files are 0600 and
 * put in place by a rename. Still they are read as from a stranger: bounded, and anything odd makes
 * the whole file count as absent; so must the caller do with the content. The folder's size is
 * bounded: the oldest files go.
 */
#pragma once

#include "base/buf.h"
#include "base/file_id.h"

struct cache_kind {
	const char *ending; /* of the files' names */
	char magic[8];
	uint32_t version; /* of the content's format */
};

/* Whether anything of this file may be kept. */
bool cache_may_keep(const struct file_id *id);
/* The content, for free(); NULL: there is none. */
uint8_t *cache_load(const struct cache_kind *kind, const struct file_id *id, size_t *ret_len);
/* Puts it in the place of what was there. That it can't is no error: the next time takes longer. */
void cache_save(const struct cache_kind *kind, const struct file_id *id, const struct buf *content);
