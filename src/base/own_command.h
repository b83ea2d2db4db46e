/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How pollux is called in the commands that it advises. `pollux` alone if a shell finds this very
 * program by that; else the path by which it was started, as after `./dev demo`.
 */
#pragma once

/* What this process was started as. */
void own_command_set(const char *argv0);
/* One word of a shell. Lives as long as the process. */
const char *own_command(void);
