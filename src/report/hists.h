/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Histograms over a timeline, in steps of powers of two: what `pollux hist` prints, of a file or of
 * a recording that goes on. One pass; memory grows with families and stacks.
 */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "timeline/replay.h"

struct hists;

/* Shows what was counted so far, once per `every_ns` of the trace's time, if there are polls. The
 * totals of events are known at the end only. */
struct hists_watch {
	uint64_t every_ns;
	void (*show)(void *ctx, const struct hists *h);
	void *ctx;
};

/* The reader must outlive the result, which uses its names. `watch` may be NULL. */
int hists_make(struct trace_reader *r, const struct replay_filter *filter,
	       const struct hists_watch *watch,
	       void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx,
	       struct hists **ret_hists, struct error *err);
void hists_free(struct hists *h);
/* Spawns whose stack was recorded. */
uint64_t hists_n_spawn_stacks(const struct hists *h);
/* width 0: no limit */
void hists_text(const struct hists *h, struct buf *out, unsigned width, bool color);
void hists_json(const struct hists *h, struct buf *out);
