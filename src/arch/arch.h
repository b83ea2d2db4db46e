/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What differs between the architectures on which pollux runs, besides functions: those are
 * declared in regs.h, stub.h and code.h. Each architecture implements all of it in a folder of its
 * name here, and in agent/; what a file's architecture decides is in src/binary.
 */
#pragma once

#if defined(__x86_64__)
#include "arch/x86_64/arch.h"
#endif
