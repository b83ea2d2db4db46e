/* What a kind of task is called, from symbols. */
#ifndef POLLUX_RUNTIME_KIND_NAME_H
#define POLLUX_RUNTIME_KIND_NAME_H

#include "runtime/runtime.h"

#include "binary/elf_image.h"

/* Sets name, full_name, scheduler, role and block_in_place of Tokio's kinds from number `first` on.
 * Kinds whose name can't be told become "kind N". *ret_named counts those that have one,
 * *ret_unsure those among them whose name may be that of another kind with equal code. -ENOMEM or
 * 0. */
int kind_names_tokio(struct elf_image *image, struct finding *f, size_t first, size_t *ret_named,
		     size_t *ret_unsure);

#endif
