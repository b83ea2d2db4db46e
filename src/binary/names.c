/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Demangling. The work is libiberty's; pollux adds the bound around it: a v0 symbol can refer back
 * to itself, so that a hundred bytes spell gigabytes.
 */
#include "binary/names.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

#define MAX_SYMBOL_BYTES (64u << 10)
#define MAX_NAME_BYTES (64u << 10)

struct demangling {
	struct buf out;
	jmp_buf too_long;
};

static void demangled_part(const char *data, size_t len, void *opaque)
{
	struct demangling *d = opaque;

	if (d->out.len + len > MAX_NAME_BYTES)
		longjmp(d->too_long, 1);
	buf_add(&d->out, data, len);
}

/* The mangled name must be without suffix. false: no Rust symbol, or too long. */
static bool demangle(const char *mangled, struct demangling *d)
{
	if (setjmp(d->too_long))
		return false;
	return rust_demangle_callback(mangled, DMGL_NO_OPTS, demangled_part, d);
}

char *name_demangle(const char *symbol)
{
	struct demangling d = {.out = BUF_INIT};
	_cleanup_free_ char *plain = NULL;
	const char *dot;

	if ((strncmp(symbol, "_ZN", 3) != 0 && strncmp(symbol, "_R", 2) != 0) ||
	    strlen(symbol) > MAX_SYMBOL_BYTES)
		return NULL;
	/* `.llvm.123`, `.cold`: a legacy name may hold dots itself (`..` for `::`), before its E.
	 */
	dot = symbol[1] == 'Z' ? strstr(symbol, "E.") : strchr(symbol, '.');
	if (dot && symbol[1] == 'Z')
		dot++;
	plain = dot ? strndup(symbol, (size_t)(dot - symbol)) : strdup(symbol);
	if (!plain)
		return NULL;
	if (!demangle(plain, &d)) {
		buf_done(&d.out);
		return NULL;
	}
	return buf_steal(&d.out);
}
