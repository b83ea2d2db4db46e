/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * call rel32 (e8), jmp rel32 (e9), both through a word that holds an address (ff 15, ff 25 with
 * disp32(%rip)), and, as unoptimised code does it, `mov disp32(%rip), reg` of such a word (REX.W
 * 8b). Jumps are kept too, since a tail call is one; those within a function never lead to its
 * beginning, so they match nothing.
 */
#include "binary/code/call_index.h"

#include "base/vec.h"
#include "binary/code/code_scan_x86_64.h"
#include "binary/elf/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int add(struct elf_image *img, size_t *cap, uint64_t target, uint64_t addr)
{
	if (!GROW(img->calls, img->n_calls, *cap))
		return -ENOMEM;
	img->calls[img->n_calls++] = (struct call){target, addr};
	return 0;
}

static int scan(struct elf_image *img, size_t *cap, uint64_t start, uint64_t end)
{
	const uint8_t *code;
	size_t len;

	code = elf_image_bytes(img, start, &len);
	if (!code)
		return 0;
	if (len > end - start)
		len = end - start;
	for (size_t i = 0;
	     (i = CODE_SCAN(code, i, len, 7, code_scan_call, code_scan_is_call)) < len; i++) {
		bool direct = (code[i] & 0xfe) == 0xe8;
		size_t at = i + (direct ? 1 : code[i] == 0xff ? 2 : 3); /* of the displacement */
		uint64_t target;
		int32_t disp;

		memcpy(&disp, code + at, 4);
		target = start + at + 4 + (uint64_t)(int64_t)disp;
		if (!direct && !elf_image_pointer_at(img, target, &target))
			continue;
		if (!image_may_begin(img, target))
			continue;
		if (add(img, cap, target, start + i) < 0)
			return -ENOMEM;
	}
	return 0;
}

int call_index_init(struct call_index *x, struct elf_image *img)
{
	size_t cap = 0, n = img->calls ? 0 : elf_image_n_code(img);
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		uint64_t start, end;

		elf_image_code(img, i, &start, &end);
		r = scan(img, &cap, start, end);
	}
	if (r == 0 && cap)
		r = image_sort(img->calls, img->n_calls, sizeof(*img->calls));
	if (r < 0)
		image_drop_calls(img);
	*x = (struct call_index){img->calls, img->n_calls};
	return r;
}

void image_drop_calls(struct elf_image *img)
{
	free(img->calls);
	img->calls = NULL;
	img->n_calls = 0;
}

void call_index_done(struct call_index *x)
{
	*x = (struct call_index){0};
}

const struct call *call_index_find(const struct call_index *x, uint64_t target, size_t *ret_n)
{
	size_t i = image_find(x->calls, x->n, sizeof(*x->calls), target, ret_n);

	return *ret_n ? &x->calls[i] : NULL;
}
