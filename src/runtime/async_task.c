/*
 * async-task 4.x, under async-std, smol, async-executor, async-global-executor and blocking.
 */
#include "runtime/find.h"

static int find(struct elf_image *image, struct finding *f, struct error *err)
{
	(void)image;
	(void)f;
	(void)err;
	return 0;
}

const struct runtime_ops runtime_async_task = {"async-task", find};
