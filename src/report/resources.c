/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What tasks wait for, by its address: locks, channels, tasks, sockets. Most are of one task and are
 * known by the await point; the others have rows of their own. An address may be used again: only
 * a lock or a semaphore, which as a rule lives long, counts as one of several tasks because these
 * waited one after another. Of others they must have waited at the same time.
 */
#include "base/compare.h"
#include "report/data.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/text.h"
#include "report/table.h"
#include "report/text_util.h"
#include "trace/labels.h"

#include <errno.h>
#include <stdlib.h>

enum {
	/* A program makes ever new ones. */
	MAX_RESOURCES = 1 << 17,
	MAX_PLACES = 1 << 18,
	MAX_PLACES_SHOWN = 8, /* of one */
};

struct waited_resource {
	uint64_t address;
	uint32_t process;
	uint16_t type; /* enum trace_resource */
	bool shared;   /* by several tasks */
	/* The last wait that has ended, and the last one of another task. */
	uint64_t task, end_ns, other_end_ns;
	uint64_t places[MAX_PLACES_SHOWN]; /* await points, in the order of their first waits */
	size_t n_places;		   /* of all */
	struct hist waits;
};

struct resource_sums {
	struct map by_address; /* (address, process << 16 | what) to struct waited_resource */
	struct map at_places;  /* (struct wait_place, struct waited_resource), addresses */
	struct waited_resource **shared; /* longest in all first */
	size_t n_shared;
};

/* Whether one that several tasks wait for is the same all the time. */
static bool lives_long(uint16_t what)
{
	return what == TRACE_RESOURCE_SEMAPHORE || what == TRACE_RESOURCE_MUTEX ||
	       what == TRACE_RESOURCE_RWLOCK;
}

static void note_task(struct waited_resource *r, const struct tl_wait *wait)
{
	uint64_t others = r->task == wait->task->serial ? r->other_end_ns : r->end_ns;

	if (r->task &&
	    (others > wait->begin_ns || (lives_long(r->type) && r->task != wait->task->serial)))
		r->shared = true;
	if (r->task != wait->task->serial)
		r->other_end_ns = r->end_ns;
	r->task = wait->task->serial;
	r->end_ns = wait->end_ns;
}

/* Tasks of several families may wait at one. */
static void note_place(struct waited_resource *r, uint64_t place)
{
	for (size_t i = 0; i < r->n_places && i < MAX_PLACES_SHOWN; i++)
		if (r->places[i] == place)
			return;
	if (r->n_places < MAX_PLACES_SHOWN)
		r->places[r->n_places] = place;
	r->n_places++;
}

int resources_wait(struct report *rep, struct wait_place *at, const struct tl_wait *wait)
{
	const struct trace_kind *k = trace_reader_kind(rep->reader, wait->task->kind);
	uint32_t process = k ? k->process : 0;
	struct resource_sums *s = rep->resources;
	struct waited_resource *r;
	bool known;
	int rc;

	if (!wait->resource.address)
		return 0;
	if (!s && !(s = rep->resources = calloc(1, sizeof(*s))))
		return -ENOMEM;
	uint64_t of = (uint64_t)process << 16 | wait->resource.type;
	if (s->by_address.n >= MAX_RESOURCES &&
	    !map_get(&s->by_address, wait->resource.address, of))
		return 0;
	r = map_get_or_new(&s->by_address, wait->resource.address, of, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->address = wait->resource.address;
	r->process = process;
	r->type = wait->resource.type;
	note_task(r, wait);
	rc = hist_add(&r->waits, wait->end_ns - wait->begin_ns);
	known = s->at_places.n >= MAX_PLACES || map_get(&s->at_places, (uintptr_t)at, (uintptr_t)r);
	if (rc < 0 || known)
		return rc;
	at->n_resources++;
	at->resource_type = at->n_resources == 1 || at->resource_type == r->type
				    ? r->type
				    : TRACE_RESOURCE_OTHER;
	note_place(r, at->place);
	return map_put(&s->at_places, (uintptr_t)at, (uintptr_t)r, r);
}

static int compare(const void *a, const void *b)
{
	const struct waited_resource *x = *(struct waited_resource *const *)a;
	const struct waited_resource *y = *(struct waited_resource *const *)b;

	return DESCENDING(x->shared, y->shared) ?: DESCENDING(x->waits.sum, y->waits.sum) ?:
	       ASCENDING(x->address, y->address);
}

void resources_sort(struct report *rep)
{
	struct resource_sums *s = rep->resources;

	if (!s)
		return;
	s->shared = map_sorted(&s->by_address, compare);
	while (s->shared && s->n_shared < s->by_address.n && s->shared[s->n_shared]->shared)
		s->n_shared++;
}

static void resource_free(void *value)
{
	struct waited_resource *r = value;

	hist_done(&r->waits);
	free(r);
}

void resources_done(struct report *rep)
{
	if (!rep->resources)
		return;
	map_free(&rep->resources->by_address, resource_free);
	map_done(&rep->resources->at_places);
	free(rep->resources->shared);
	free(rep->resources);
}

/* "3 channels"; of one nothing is to be said. */
void resources_count_text(struct buf *out, const struct wait_place *at)
{
	static const char *const plural[TRACE_RESOURCE_N] = {
		"resources", "semaphores", "mutexes", "rwlocks",
		"channels",  "notifies",   "tasks",   "sockets",
	};

	if (at->n_resources > 1)
		buf_printf(out, ", %zu %s", at->n_resources,
			   plural[at->resource_type < TRACE_RESOURCE_N ? at->resource_type
								       : TRACE_RESOURCE_OTHER]);
}

static void cell_places(const struct report *rep, struct table *t, const struct waited_resource *r)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	const struct trace_place *p = report_place(rep, r->places[0]);

	if (p)
		trace_place_text(&text, p);
	if (r->n_places > 1)
		buf_printf(&text, " and %zu more", r->n_places - 1);
	table_cell(t, text.data ? text.data : "");
}

void resources_text(const struct report *rep, struct buf *out)
{
	static const struct table_column columns[] = {
		{.title = "resource", .align_left = true},
		{.title = "await points", .min_width = 24, .align_left = true},
		{.title = "waits"},
		{.title = "total"},
		{.title = "p50", .rank = 2},
		{.title = "p99", .rank = 1},
		{.title = "max"},
	};
	const struct resource_sums *s = rep->resources;
	size_t n = s ? s->n_shared : 0;
	struct table t;

	if (!n)
		return;
	if (rep->opt.n_families && rep->opt.n_families < n)
		n = rep->opt.n_families;
	report_title(rep, out, "What several tasks wait for");
	table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < n; i++) {
		const struct waited_resource *r = s->shared[i];

		table_printf(&t, "%s 0x%llx", trace_resource_name(r->type),
			     (unsigned long long)r->address);
		cell_places(rep, &t, r);
		cell_count(&t, r->waits.count);
		cell_time(&t, r->waits.sum);
		cell_time(&t, hist_quantile(&r->waits, 0.5));
		cell_time(&t, hist_quantile(&r->waits, 0.99));
		cell_time(&t, r->waits.max);
	}
	report_table(rep, &t, out);
	if (n < s->n_shared)
		buf_printf(out, "  and %zu more: --top %zu\n", s->n_shared - n, s->n_shared);
}

void resources_json(const struct report *rep, struct json *j)
{
	const struct resource_sums *s = rep->resources;

	if (!s)
		return;
	json_array(j, "resources");
	for (size_t i = 0; i < s->n_shared; i++) {
		const struct waited_resource *r = s->shared[i];
		const struct trace_process *p = trace_reader_process(rep->reader, r->process);

		json_object(j, NULL);
		json_string(j, "what", trace_resource_name(r->type));
		json_u64(j, "address", r->address);
		json_u64(j, "pid", p ? p->pid : 0);
		json_u64(j, "n_places", r->n_places);
		json_array(j, "places");
		for (size_t k = 0; k < r->n_places && k < MAX_PLACES_SHOWN; k++) {
			const struct trace_place *at = report_place(rep, r->places[k]);

			json_object(j, NULL);
			json_string(j, "function", at ? at->function : "");
			json_string(j, "file", at ? at->file : "");
			json_u64(j, "line", at ? at->line : 0);
			json_end_object(j);
		}
		json_end_array(j);
		json_hist(j, "wait_ns", &r->waits);
		json_end_object(j);
	}
	json_end_array(j);
}
