/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Futures that take much memory, by the types that a moment has sizes of. */
#include "findings/rule.h"

#include "base/map.h"
#include "moment/sizes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_BYTES 1024ull	/* as tokio-console's lint */
#define MUCH_BYTES (1ull << 20) /* of all tasks of a family together */
#define BOXED_BYTES 2048ull	/* Tokio moves a larger one into a box, 16 KiB in release builds */
#define NEVER_WARNS (FINDING_WARNING - 1)

struct size_family {
	const struct moment_task *largest;
	uint64_t n, bytes, sum; /* bytes: of the largest future */
	bool boxed;
};

static bool is_boxed(const struct moment_kind *k)
{
	static const char box[] = "core::pin::Pin<alloc::boxed::Box<";

	return !strncmp(k->full_name, box, sizeof(box) - 1) && !strstr(k->full_name, "dyn ");
}

static int count_sizes(const struct rule_moment *rm, struct map *families)
{
	for (size_t i = 0; i < rm->m.n_tasks; i++) {
		const struct moment_task *t = &rm->m.tasks[i];
		bool boxed = is_boxed(t->kind);
		uint64_t bytes = boxed && t->tree ? t->tree->bytes : t->kind->future_bytes;
		struct size_family *f;

		if (t->state == IS_DONE || t->kind->role != TR_TASK || bytes < LARGE_BYTES)
			continue;
		f = map_get_or_new(families, (uintptr_t)t->kind, 0, sizeof(*f));
		if (!f)
			return -ENOMEM;
		f->n++;
		f->sum += bytes;
		f->boxed = boxed;
		if (!f->largest || bytes > f->bytes) {
			f->largest = t;
			f->bytes = bytes;
		}
	}
	return 0;
}

static void say_sizes(struct buf *out, const struct size_family *f)
{
	text_safe(out, f->largest->kind->name);
	buf_str(out, ": a future of ");
	text_exact(out, f->bytes);
	buf_str(out, " bytes");
	if (f->n > 1) {
		buf_str(out, ", ");
		text_exact(out, f->n);
		buf_str(out, " of them");
	}
	if (f->largest->kind->site && *f->largest->kind->site) {
		buf_str(out, " (spawned at ");
		text_safe(out, f->largest->kind->site);
		buf_char(out, ')');
	}
}

/* The family that takes most, of those that are boxed, or of the others. */
static int find_largest(struct rule_state *st, const struct rule_moment *rm, bool boxed,
			uint64_t least)
{
	const struct size_family *most = NULL;
	struct map families = {0};
	const struct map_entry *e;
	struct finding_draft *d;
	size_t pos = 0;
	int rc = count_sizes(rm, &families);

	while (rc == 0 && (e = map_next(&families, &pos))) {
		const struct size_family *f = e->value;

		if (f->boxed == boxed && f->bytes >= least &&
		    (!most || f->sum > most->sum ||
		     (f->sum == most->sum && f->largest < most->largest)))
			most = f;
	}
	d = most ? rule_finds(st,
			      most->sum < MUCH_BYTES
				      ? FINDING_MINOR - 1
				      : finding_score(FINDING_MINOR, NEVER_WARNS - FINDING_MINOR,
						      most->sum, 64 * MUCH_BYTES, 1))
		 : NULL;
	if (d) {
		say_sizes(&d->text, most);
		buf_str(&d->text, boxed ? ", in a box of its own" : ": each spawn copies it");
		finding_of_moment(d, st, rm, most->largest);
		finding_spans(d, rm->m.now_ns, rm->m.now_ns);
	}
	map_free(&families, free);
	return rc;
}

static int judge_large(struct rule_state *st, const struct rule_moment *rm)
{
	return find_largest(st, rm, false, LARGE_BYTES);
}

const struct finding_rule rule_large_future = {
	.name = "large-future",
	.title = "large futures",
	.advice = "box what is large in it (Box::pin around the inner future), or keep large "
		  "arrays on the heap",
	.state_bytes = sizeof(struct rule_state),
	.judge_moment = judge_large,
};

static int judge_boxed(struct rule_state *st, const struct rule_moment *rm)
{
	return find_largest(st, rm, true, BOXED_BYTES);
}

const struct finding_rule rule_boxed_future = {
	.name = "boxed-future",
	.title = "futures that are boxed, since they are large",
	.advice = "Tokio boxes what is larger than 16 KiB (2 KiB in debug builds) when it is "
		  "spawned: keep large arrays on the heap",
	.state_bytes = sizeof(struct rule_state),
	.judge_moment = judge_boxed,
};
