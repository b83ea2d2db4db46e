/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The buffer in front of the output FILE. Large writes go through stdio without being copied
 * again, and one failed write ends all later ones: an exporter in the middle of a long trace
 * whose reader has gone learns it at its next look at `error`.
 */
#include "export/out.h"

#include <errno.h>
#include <stdlib.h>

const char put_pairs[200] = "0001020304050607080910111213141516171819"
			    "2021222324252627282930313233343536373839"
			    "4041424344454647484950515253545556575859"
			    "6061626364656667686970717273747576777879"
			    "8081828384858687888990919293949596979899";

int out_init(struct out *o, FILE *file)
{
	*o = (struct out){.file = file};
	o->data = malloc(OUT_BUFFER_BYTES);
	return o->data ? 0 : -ENOMEM;
}

void out_done(struct out *o)
{
	free(o->data);
	o->data = NULL;
}

static void write_through(struct out *o, const void *data, size_t len)
{
	if (o->error || !len)
		return;
	errno = 0;
	if (fwrite(data, 1, len, o->file) != len)
		o->error = errno ? -errno : -EIO;
}

void out_make_room(struct out *o)
{
	write_through(o, o->data, o->len);
	o->len = 0;
}

void out_write(struct out *o, const void *data, size_t len)
{
	if (!len) /* a caller's empty buffer has no bytes to point to */
		return;
	if (len > OUT_BUFFER_BYTES - o->len)
		out_make_room(o);
	o->bytes += len;
	if (len > OUT_BUFFER_BYTES) {
		write_through(o, data, len);
		return;
	}
	memcpy(o->data + o->len, data, len);
	o->len += len;
}

int out_flush(struct out *o)
{
	out_make_room(o);
	errno = 0;
	if (!o->error && fflush(o->file))
		o->error = errno ? -errno : -EIO;
	return o->error;
}

int out_end(struct out *o, int r, struct error *err)
{
	int flushed = out_flush(o);

	if (flushed < 0 && flushed != -EPIPE)
		return error_sys(err, flushed, "cannot write");
	return flushed < 0 ? flushed : r;
}
