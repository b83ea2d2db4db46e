/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names of handlers of requests, where that of their future's type names something of a library's, or of a trait. */
#pragma once

/* The type of the program's own for which a library's generic async function was made: "shop::order" of
 * "poem::endpoint::map_to_response::{impl#1}::call::{async_fn_env#0}<shop::order>". `own` is any function of the
 * program's. NULL: none, or the parameter is a closure's or a function's, which has a better name of its own; free()
 * it. */
char *handler_name_by_parameter(const char *full_name, const char *own);

/* "shop::Order::handle", of "shop::{impl#3}::handle::{async_block_env#0}", the body of an async method of the type
 * `self`. NULL: it is none; free() it. */
char *handler_name_by_method(const char *full_name, const char *self);

/* Takes from the name of a function what a macro of the framework's has made of it: "shop::order" of
 * "shop::order::into_info::monomorphized_function" (rocket 0.5). */
void handler_name_cut(char *name);

/* The same of a method of an impl whose future has captured no `self`, by the function of the program's that its poll
 * function's symbol names: "shop::Api::status", also where it has those of others: "shop::get or shop::Api::status". NULL:
 * the name has no impl, or that is another function; free() it. */
char *handler_name_by_symbol(const char *full_name, const char *symbol);
