/*
 * Histograms over a timeline, in steps of powers of two: what `pollux hist` prints, of a file or of
 * a recording that goes on. One pass; memory grows with families and stacks.
 */
#ifndef POLLUX_REPORT_HISTS_H
#define POLLUX_REPORT_HISTS_H

#include "base/buf.h"
#include "base/error.h"
#include "timeline/replay.h"

struct hists;

/* The reader must outlive the result: names stay its. */
int hists_make(struct trace_reader *r, const struct replay_filter *filter,
	       void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx,
	       struct hists **ret_hists, struct error *err);
void hists_free(struct hists *h);
/* Spawns whose stack was recorded. */
uint64_t hists_n_spawn_stacks(const struct hists *h);
/* width 0: no limit */
void hists_text(const struct hists *h, struct buf *out, unsigned width, bool color);
void hists_json(const struct hists *h, struct buf *out);

#endif
