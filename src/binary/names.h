/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names from Rust symbols: demangled, and shortened for people. */
#pragma once

#include <stdbool.h>

/* Demangles both manglings (legacy `_ZN..E`, v0 `_R..`), with or without a linker's suffix
 * (`.llvm.123`), without the hash: "app::worker::{{closure}}". NULL if it is no Rust symbol or out
 * of memory; free() it. Bounded in time and size for whatever input. */
char *name_demangle(const char *symbol);

/* A name for people from a demangled name or a type as debug information spells it: closures and
 * state machines become the function that they belong to, standard paths lose their modules, long
 * generics are cut:
 *     app::worker::{{closure}}                              app::worker
 *     app::worker::{async_fn_env#0}                         app::worker
 *     app::main::{closure#0}::{closure#1}                   app::main::{closure#1}
 *     core::pin::Pin<alloc::boxed::Box<dyn core::future::future::Future<Output = u64>>>
 *                                                           Pin<Box<dyn Future<Output = u64>>>
 * NULL: out of memory; free() it. */
char *name_shorten(const char *full);

/* The same for a task's future. Of one that a library's function or type is wrapped around, or
 * whose parameters had to be left out and with them its name, the program's own future in it:
 *     tokio_util::task::task_tracker::TrackedFuture<app::worker::{closure#0}>
 *                                                           app::worker
 *     pyo3_async_runtimes::generic::future_into_py<app::get::{closure#0}>::{closure#0}::{closure#1}
 *                                                           app::get (future_into_py::{closure#1})
 * `libraries` are crates that are known to be such, "serde,sqlx_core", besides common ones; NULL: not
 * known. */
char *name_task(const char *full, const char *libraries);

/* The short form of a function on a stack, whose standard path and method are kept:
 *     std::thread::functions::sleep                         std::thread::functions::sleep
 *     <app::Pool as core::future::future::Future>::poll     app::Pool::poll
 *     app::main::{{closure}}                                app::main */
char *name_function(const char *full);

/* The generic argument at the beginning of a text, up to its `,` or `>`: of "A<B, C>, D>" "A<B, C>".
 * NULL: it doesn't end; free() it. */
char *name_argument(const char *text);

/* Whether a demangled function is of a crate that is a library: one of `libraries` (as above), of
 * the standard ones, or a common wrapper. "!shop,api": all but these are. */
bool name_is_library(const char *function, const char *libraries);

/* Whether it is of none, or a library's that has such a one for its first parameter:
 *     <app::get as axum::handler::Handler<..>>::call::{{closure}}
 *     actix_web::handler::handler_service<app::get,()>::{{closure}}
 * A type parameter (`<F as Trait>::call`) belongs to no crate. */
bool name_is_own(const char *function, const char *libraries);

/* Whether one has an async block or a closure of the program's own for a parameter, which it then contains:
 * tokio_util::task::task_tracker::TrackedFuture<app::work::{closure#0}> */
bool name_holds_own(const char *function, const char *libraries);

/* Of one for which name_is_own() is true its own function: "app::get" of both. NULL: out of memory; free() it. */
char *name_own(const char *function, const char *libraries);
