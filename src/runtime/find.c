/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The scan of one object: asks each runtime, then what doesn't depend on one (blocking calls, the
 * unwinder's registration), and says what was seen and what not.
 */
#include "runtime/find.h"

#include "base/buf.h"
#include "binary/names.h"
#include "runtime/callers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct runtime_ops *const runtimes[] = {&runtime_tokio, &runtime_async_task, NULL};

const char *find_runtime_name(const char *name)
{
	for (size_t i = 0; runtimes[i]; i++)
		if (!strcmp(runtimes[i]->name, name))
			return runtimes[i]->name;
	return NULL;
}

int runtime_find(struct elf_image *image, struct runtime_scan *ret_scan, struct error *err)
{
	struct runtime_scan f = {0};
	const char *interp = elf_image_interp(image);
	int r = 0;

	f.path = strdup(elf_image_name(image));
	f.has_symbols = elf_image_has_symtab(image);
	f.pie = elf_image_pie(image);
	f.is_static = elf_image_is_static(image);
	f.is_musl = interp && strstr(interp, "ld-musl");
	if (!f.path)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && runtimes[i]; i++) {
		f.covering = runtimes[i]->name;
		r = runtimes[i]->find(image, &f, err);
	}
	f.covering = NULL;
	if (r == 0)
		r = calls_find(image, &f);
	if (r == 0)
		r = block_on_find(image, &f, &f.block_ons, &f.n_block_ons);
	if (r == 0)
		r = callers_of_block_ons(image, &f);
	if (r < 0) {
		runtime_scan_done(&f);
		return r == -ENOMEM ? error_set(err, r, "out of memory") : r;
	}
	*ret_scan = f;
	return 0;
}

static void sites_done(struct scan_site *sites, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(sites[i].where);
		free(sites[i].callers);
	}
	free(sites);
}

void scan_reasons(const struct runtime_scan *f, struct buf *out)
{
	for (size_t i = 0; i < f->coverage.n; i++)
		if (f->coverage.v[i].note && *f->coverage.v[i].note)
			buf_printf(out, "%s; ", f->coverage.v[i].note);
}

void runtime_scan_done(struct runtime_scan *f)
{
	free(f->path);
	free(f->libraries);
	for (size_t i = 0; i < f->n_runtimes; i++) {
		free(f->runtimes[i].name);
		free(f->runtimes[i].version);
		free(f->runtimes[i].verified);
	}
	free(f->runtimes);
	for (size_t i = 0; i < f->n_kinds; i++) {
		free(f->kinds[i].name);
		free(f->kinds[i].full_name);
		free(f->kinds[i].scheduler);
		sites_done(f->kinds[i].sites, f->kinds[i].n_sites);
	}
	free(f->kinds);
	for (size_t i = 0; i < f->n_wakers; i++) {
		free(f->wakers[i].name);
		free(f->wakers[i].direct);
		sites_done(f->wakers[i].sites, f->wakers[i].n_sites);
	}
	free(f->wakers);
	free(f->calls);
	for (size_t i = 0; i < f->n_block_ons; i++) {
		free(f->block_ons[i].site.where);
		free(f->block_ons[i].site.callers);
		free(f->block_ons[i].name);
		free(f->block_ons[i].full_name);
	}
	free(f->block_ons);
	coverage_done(&f->coverage);
	*f = (struct runtime_scan){0};
}
