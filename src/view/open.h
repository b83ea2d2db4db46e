/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/* Opens an address in the user's browser, where there is one. That it can't is no error. */
void view_open(const char *url);
