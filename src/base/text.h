/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Text for people. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* "0 ns", "850 ns", "12.3 µs", "4.56 ms", "1.23 s", "2 min 05 s": three digits. */
void text_duration(struct buf *out, uint64_t ns);
/* "999", "12,345", "123 k", "4.56 M": in full up to 99,999. */
void text_count(struct buf *out, uint64_t n);
/* A count in `ns`, as a rate per second, in the same form. */
void text_rate(struct buf *out, uint64_t n, uint64_t ns);
/* "1,234,567" */
void text_exact(struct buf *out, uint64_t n);
/* "12.5 %", "< 0.1 %" of what is little but not nothing; "-" of nothing. No part is more than the
 * whole: an estimate may be, and sums from a stranger's trace may have overflowed. */
void text_share(struct buf *out, uint64_t part, uint64_t whole);
/* 98 of 98.7 %, 0 of nothing, and 100 at most. */
uint64_t text_percent(uint64_t part, uint64_t whole);
/* "512 B", "1.2 KiB", "3.4 MiB". */
void text_bytes(struct buf *out, uint64_t n);
/* A foreign string, made safe for a terminal: hidden characters and invalid UTF-8 as \x.. . */
void text_safe(struct buf *out, const char *s);
/* The same as one word of a shell: in quotes where it needs them. */
void text_shell_word(struct buf *out, const char *s);
/* Length of the valid UTF-8 character at s, of which len bytes are there, with its number; 0 if it is
 * none. */
size_t text_point(const char *s, size_t len, uint32_t *ret_point);
/* Bytes of another program that may be text, with zeros behind them up to `len`: how long the text is, without
 * a last character that is cut off there; 0: they are none. Other data begins like text, too, but goes on
 * with zeros and numbers. */
size_t text_of_bytes(const char *s, size_t len);
/* Whether a reader cannot see this character as itself: a control character, one that changes the
 * direction of text, one without a width? Names differ by what is visible. */
bool text_hidden(uint32_t point);
/* "10", "10s", "250ms", "1.5s", "2m", "80us", "100ns" into ns; a plain number has the given unit.
 * -EINVAL. */
int text_parse_duration(const char *s, uint64_t unit_ns, uint64_t *ret_ns);
/* "17", "0x11": nothing before or after it. -EINVAL. */
int text_parse_number(const char *s, uint64_t *ret);
/* "4096", "64K", "16M", "1G" into bytes. -EINVAL. */
int text_parse_bytes(const char *s, uint64_t *ret_bytes);

/* Of ".../registry/src/index.crates.io-1949cf8c6b5b557f/tokio-1.54.1/src/x.rs" what begins with the
 * crate, of "/rustc/HASH/library/..." with "library"; of other names all. */
const char *text_short_file(const char *file);
/* A source file that is not of the program's own workspace: the standard library's, a registry's, a
 * git dependency's, or one that a build script has generated. */
bool text_library_file(const char *file);

/* "lib" of "/usr/lib/app/lib.abi3.so", or "app/lib": where in the path it begins, how long it is.
 * text_same_object(): whether the folder is needed to distinguish it from `other`. */
const char *text_object_name(const char *path, bool folder, size_t *ret_len);
bool text_same_object(const char *path, const char *other);
