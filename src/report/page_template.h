/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The page of web/ in one piece, cut where a report's own parts go in: made by bundle.py, which
 * also puts the hashes of its script and its style into the page's Content-Security-Policy, so that
 * no other script could run, whatever the names in a trace say.
 */
#pragma once

extern const char page_before_title[];
extern const char page_before_tables[];
extern const char page_before_data[];
extern const char page_after_data[];
