/* The files are few (one a processor), so whoever is furthest behind is looked for in all of them;
 * it may then go on until it is not the furthest behind any more. */
#include "import/parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int add(struct input *folder, const char *name, struct parts *m, struct error *err)
{
	struct part **v = realloc(m->v, (m->n + 1) * sizeof(struct part *));
	struct part *f = v ? calloc(1, sizeof(*f)) : NULL;

	if (v)
		m->v = v;
	if (!f)
		return error_set(err, -ENOMEM, "out of memory");
	snprintf(f->name, sizeof(f->name), "%s", name);
	int r = input_open_small(folder, f->name, INPUT_SMALL_BUFFER, &f->in, err);
	if (r < 0) {
		free(f);
		return r;
	}
	m->v[m->n++] = f;
	return 0;
}

int parts_open(struct input *folder, const char *begin, const char *end, struct parts *ret,
	       struct error *err)
{
	char name[32];
	int r = 0;

	*ret = (struct parts){0};
	for (unsigned i = 0; i < PARTS_MAX && r == 0; i++) {
		snprintf(name, sizeof(name), "%s%u%s", begin, i, end);
		if (faccessat(folder->fd, name, F_OK, 0) == 0)
			r = add(folder, name, ret, err);
	}
	if (r < 0)
		parts_close(ret);
	return r;
}

void parts_close(struct parts *m)
{
	for (size_t i = 0; i < m->n; i++) {
		input_close(&m->v[i]->in);
		free(m->v[i]);
	}
	free(m->v);
	*m = (struct parts){0};
}

struct part *parts_next(struct parts *m)
{
	struct part *first = NULL;

	if (m->at && !m->at->done && m->at->reached_ns <= m->until_ns)
		return m->at;
	m->until_ns = UINT64_MAX;
	for (size_t i = 0; i < m->n; i++) {
		struct part *f = m->v[i];
		if (f->done)
			continue;
		if (!first || f->reached_ns < first->reached_ns) {
			if (first)
				m->until_ns = first->reached_ns;
			first = f;
		} else if (f->reached_ns < m->until_ns) {
			m->until_ns = f->reached_ns;
		}
	}
	return m->at = first;
}
