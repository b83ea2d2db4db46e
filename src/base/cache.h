/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A cache of what pollux found out about files: $XDG_CACHE_HOME/pollux or ~/.cache/pollux, with one
 * file for each file and kind of answer.
 *
 * pollux trusts what the cache says of a file, so it must be about exactly that file: pollux keeps
 * and uses answers only for files that belong to root or to this user, by an identity that no user
 * can give to another file (base/file_id.h). A build-id is none: the file's author chooses it.
 *
 *    head: magic, version, length and checksum of the rest
 *    content: what the caller wrote
 *
 * The folder is private (0700, owned by the effective user, else it isn't used); its files are 0600
 * and get their names by a rename. They are read as untrusted input all the same: bounded, and any
 * inconsistency makes the whole file count as absent; the caller must treat the content likewise.
 * The folder's size is limited: the oldest files are removed.
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
/* Replaces the content. A failure is no error: the next run takes longer. */
void cache_save(const struct cache_kind *kind, const struct file_id *id, const struct buf *content);
