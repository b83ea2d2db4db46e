/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Distinct short names (short_names.h), given in the order in which they are asked for. */
#include "export/short_names.h"

#include "base/hash.h"
#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

void short_names_init(struct short_names *s, const struct trace_reader *r,
		      const struct kind_labels *labels)
{
	*s = (struct short_names){.reader = r, .labels = labels};
}

void short_names_done(struct short_names *s)
{
	for (uint32_t i = 0; i < s->n_names; i++)
		free(s->names[i]);
	free(s->names);
	map_done(&s->taken);
	*s = (struct short_names){0};
}

static char *make(struct short_names *s, uint32_t kind, const struct trace_kind *k)
{
	uintptr_t whose;
	char *name;

	if (!k->name || !*k->name)
		return strdup(k->role == TR_FUTURE ? "future" : "?");
	name = kind_short(s->labels, s->reader, kind);
	if (!name)
		return NULL;
	whose = (uintptr_t)map_get(&s->taken, hash_string(0, name), k->role);
	if (whose && whose != kind + 1ull) {
		free(name);
		return strdup(kind_label(s->labels, s->reader, kind));
	}
	if (map_put(&s->taken, hash_string(0, name), k->role, (void *)(uintptr_t)(kind + 1ull)) <
	    0) {
		free(name);
		return NULL;
	}
	return name;
}

const char *short_name(struct short_names *s, uint32_t kind)
{
	const struct trace_kind *k = trace_reader_kind(s->reader, kind);

	if (!k)
		return "future";
	if (!GROW_ZERO(s->names, kind, s->n_names))
		return "?";
	if (!s->names[kind])
		s->names[kind] = make(s, kind, k);
	return s->names[kind] ? s->names[kind] : "?";
}
