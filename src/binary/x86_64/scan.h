/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

#include "binary/code/code_scan.h"

int scan_x86_64(const uint8_t *code, size_t len, uint64_t addr, unsigned patterns,
		const struct code_targets *targets, code_hit_fn hit, void *context);
void list_x86_64(const uint8_t *code, size_t len, size_t left, uint64_t addr,
		 struct code_lists *lists);
/* The same, with wide registers, which the processor must have, or without. */
int scan_x86_64_by(bool wide, const uint8_t *code, size_t len, uint64_t addr, unsigned patterns,
		   const struct code_targets *targets, code_hit_fn hit, void *context);
void list_x86_64_by(bool wide, const uint8_t *code, size_t len, size_t left, uint64_t addr,
		    struct code_lists *lists);
