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

size_t elf_image_functions(struct elf_image *img, const struct elf_function **ret)
{
	load(img);
	*ret = img->functions;
	return img->n_functions;
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
