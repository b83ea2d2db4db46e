/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where functions begin and end. Symbols give them exactly; without them the unwind tables do:
 * .eh_frame has one entry (FDE) per function and is loaded with the program, so strip leaves it.
 */
#include "base/search.h"
#include "base/vec.h"
#include "binary/dwarf/eh_frame.h"
#include "binary/elf/image.h"

#include <errno.h>
#include <stdlib.h>

struct function_list {
	struct elf_image *img;
	size_t cap;
};

static int add(void *context, const struct eh_fde *f)
{
	struct function_list *list = context;
	struct elf_image *img = list->img;

	if (f->size > UINT32_MAX || !elf_image_is_code(img, f->start))
		return 0;
	if (!GROW(img->functions, img->n_functions, list->cap))
		return -ENOMEM;
	img->functions[img->n_functions++] = (struct elf_function){f->start, f->start + f->size};
	return 0;
}

static void load(struct elf_image *img)
{
	struct function_list list = {.img = img};
	int rc;

	if (img->functions_done)
		return;
	img->functions_done = true;
	rc = eh_frame_each_fde(img, add, &list);
	if (rc == -ENODATA)
		return;
	if (rc == 0)
		rc = image_sort(img->functions, img->n_functions, sizeof(*img->functions));
	if (rc < 0) {
		image_note_trouble(img, rc);
		img->n_functions = 0;
	}
}

/* Where a function may begin, a bit for sixteen bytes of code: most of what is asked for is no
 * function, and its block has none. */
#define BLOCK 16u
#define MAX_BLOCKS (1ull << 28)

static void add_begin(struct elf_image *img, uint64_t addr)
{
	uint64_t block = (addr - img->code[0].start) / BLOCK;

	if (elf_image_is_code(img, addr))
		img->begins[block / 8] |= (uint8_t)(1u << block % 8);
}

static void load_begins(struct elf_image *img)
{
	const struct elf_symbol *symbols;
	size_t n = elf_image_symbols(img, &symbols);
	uint64_t blocks =
		img->n_code ? (img->code[img->n_code - 1].end - img->code[0].start) / BLOCK : 0;

	load(img);
	img->begins_done = true;
	img->begins = img->n_code && blocks < MAX_BLOCKS ? calloc(blocks / 8 + 1, 1) : NULL;
	if (!img->begins)
		return;
	img->n_blocks = blocks + 1;
	for (size_t i = 0; i < n; i++)
		if (symbols[i].type == STT_FUNC)
			add_begin(img, symbols[i].addr);
	for (size_t i = 0; i < img->n_functions; i++)
		add_begin(img, img->functions[i].start);
}

bool image_may_begin(struct elf_image *img, uint64_t addr)
{
	uint64_t block;

	if (!img->begins_done)
		load_begins(img);
	if (!img->begins)
		return elf_image_is_code(img, addr);
	block = (addr - img->code[0].start) / BLOCK;
	return block < img->n_blocks && img->begins[block / 8] >> block % 8 & 1 &&
	       elf_image_is_code(img, addr);
}

void image_begin_soon(const struct elf_image *img, uint64_t addr)
{
	uint64_t block = img->begins ? (addr - img->code[0].start) / BLOCK : UINT64_MAX;

	if (block < img->n_blocks)
		__builtin_prefetch(&img->begins[block / 8]);
}

/* Words of data that point to functions point to few of them, again and again: a place for each of
 * some hundred that were found to begin there. */
#define N_KNOWN 1024u

bool elf_image_is_function(struct elf_image *img, uint64_t addr)
{
	uint64_t start, end, *known;

	if (!image_may_begin(img, addr))
		return false;
	if (!img->known_functions)
		img->known_functions = calloc(N_KNOWN, sizeof(*img->known_functions));
	known = img->known_functions ? &img->known_functions[addr / BLOCK % N_KNOWN] : NULL;
	if (known && *known == addr)
		return true;
	if (!elf_image_function(img, addr, &start, &end) || start != addr)
		return false;
	if (known)
		*known = addr;
	return true;
}

bool elf_image_function(struct elf_image *img, uint64_t addr, uint64_t *ret_start,
			uint64_t *ret_end)
{
	const struct elf_symbol *s = elf_image_symbol_at(img, addr);
	size_t lo;

	if (s && s->type == STT_FUNC && elf_image_is_code(img, s->addr)) {
		*ret_start = s->addr;
		*ret_end = s->addr + s->size;
		return true;
	}
	load(img);
	lo = PARTITION_POINT(i, 0, img->n_functions, img->functions[i].start <= addr);
	if (lo == 0 || addr >= img->functions[lo - 1].end)
		return false;
	*ret_start = img->functions[lo - 1].start;
	*ret_end = img->functions[lo - 1].end;
	return true;
}
