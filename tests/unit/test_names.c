/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names: both manglings, and what people get to read. */
#include "binary/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_demangle(const char *symbol, const char *want)
{
	char *got = name_demangle(symbol);

	if (want)
		assert_non_null(got);
	if (want)
		assert_string_equal(got, want);
	else
		assert_null(got);
	free(got);
}

static void check_argument(const char *text, const char *want)
{
	char *got = name_argument(text);

	if (want)
		assert_string_equal(got, want);
	else
		assert_null(got);
	free(got);
}

static void test_argument(void **state)
{
	check_argument("app::main::{closure#0}>", "app::main::{closure#0}");
	check_argument("app::Pool<u8, fn(u8) -> u8>, ()>", "app::Pool<u8, fn(u8) -> u8>");
	check_argument("fn() -> u8, ()>", "fn() -> u8");
	check_argument("app::main", NULL);
	check_argument("", NULL);
	(void)state;
}

static void test_library(void **state)
{
	assert_true(name_is_library("tokio_util::task::spawn", ""));
	assert_true(name_is_library("<sqlx::Pool as core::clone::Clone>::clone", "a,sqlx"));
	assert_false(name_is_library("<sqlx::Pool as core::clone::Clone>::clone", "a,sqlx_core"));
	assert_false(name_is_library("app::main", "a"));
	(void)state;
}

static void test_demangle(void **state)
{
	check_demangle("_ZN5tokio7runtime4task3raw4poll17h4dd2657c9e9a5d07E",
		       "tokio::runtime::task::raw::poll");
	check_demangle(
		"_ZN5tokio7runtime4task3raw4poll17h0a09b02cb04d8971E.llvm.5493827434531516918",
		"tokio::runtime::task::raw::poll");
	check_demangle("_ZN3app6worker28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE",
		       "app::worker::{{closure}}");
	check_demangle("_RNCNvC3app6worker0", "app::worker::{closure#0}");
	check_demangle("_RNCNvC3app6worker0.llvm.12", "app::worker::{closure#0}");
	check_demangle("main", NULL);
	check_demangle("", NULL);
	check_demangle("_Z3fooi", NULL);
	check_demangle("_R", NULL);
	check_demangle("_ZN", NULL);
}

/* "B" and a base-62 number that says where in the symbol (after "_R") to continue. */
static void add_backref(char *symbol, size_t to)
{
	static const char digits[] =
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char text[8] = "B";
	size_t n = 1;

	to -= 2;
	if (to > 62)
		text[n++] = digits[(to - 1) / 62];
	if (to > 0)
		text[n++] = digits[(to - 1) % 62];
	text[n++] = '_';
	strcat(symbol, text);
}

/* A v0 name that refers to itself: some hundred bytes that would spell 2^40 of them. */
static void test_demangle_bomb(void **state)
{
	char symbol[2048] = "_RINvC1a1b", *got;
	size_t last = strlen(symbol);

	strcat(symbol, "TyyE");
	for (int i = 0; i < 40; i++) {
		size_t here = strlen(symbol);

		strcat(symbol, "T");
		add_backref(symbol, last);
		add_backref(symbol, last);
		strcat(symbol, "E");
		last = here;
		if (i == 3) { /* so far it is a proper name that doubles with each step */
			char proper[2050];

			snprintf(proper, sizeof(proper), "%sE", symbol);
			got = name_demangle(proper);
			assert_non_null(got);
			assert_true(strlen(got) > 100);
			free(got);
		}
	}
	strcat(symbol, "E");
	got = name_demangle(symbol);
	assert_null(got);
}

static const struct {
	const char *full, *shortened;
} table[] = {
	{"app::worker::{{closure}}", "app::worker"},
	{"app::worker::{closure#0}", "app::worker"},
	{"app::worker::{async_fn_env#0}", "app::worker"},
	{"app::main::{{closure}}::{{closure}}", "app::main::{closure}"},
	{"app::main::{closure#0}::{closure#1}", "app::main::{closure#1}"},
	{"app::main::{closure#2}", "app::main::{closure#2}"},
	{"app::main::{async_fn#0}::{async_block_env#1}", "app::main::{async_block#1}"},
	{"core::future::from_generator::GenFuture<app::worker::{async_fn_env#0}>", "app::worker"},
	{"tokio::time::timeout::Timeout<core::future::from_generator::GenFuture<app::f::{async_fn_"
	 "env#0}>>",
	 "tokio::time::timeout::Timeout<app::f>"},
	{"app::db::{impl#3}::send::{async_fn_env#0}<alloc::vec::Vec<u8, alloc::alloc::Global>>",
	 "app::db::send"},
	{"app::generic<alloc::string::String>::{{closure}}", "app::generic<String>"},
	{"core::pin::Pin<alloc::boxed::Box<dyn core::future::future::Future<Output = u64> + "
	 "core::marker::Send, alloc::alloc::Global>>",
	 "Pin<Box<dyn Future<Output = u64> + Send>>"},
	{"<app::Pool<T> as core::future::future::Future>::poll", "app::Pool<T>"},
	{"<app::Pool>::get::{closure#0}", "app::Pool::get"},
	{"app::net::<impl app::Svc for alloc::sync::Arc<X>>::call", "Arc<X>::call"},
	{"alloc::vec::Vec<T>::push", "Vec<T>::push"},
	{"std::thread::sleep", "thread::sleep"},
	{"fn(u8) -> core::option::Option<app::Foo>", "fn(u8) -> Option<app::Foo>"},
	{"(app::a, [core::option::Option<u8>; 3])", "(app::a, [Option<u8>; 3])"},
	{"application::service::Layer<application::service::Middle<application::service::Inner<"
	 "application::service::Most<u8>>>>",
	 "application::service::Layer<application::service::Middle<application::service::Inner<..>>"
	 ">"},
	{"", ""},
	{"<", "<"},
	{"a<b", "a<b"},
	{"{", "{"},
	{"a::", "a::"},
	{">>>", ">>>"},
	{"\xff\xfe::{{closure}}", "\xff\xfe"},
};

static void test_shorten(void **state)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char *got = name_shorten(table[i].full);

		assert_non_null(got);
		assert_string_equal(got, table[i].shortened);
		free(got);
	}
}

static void test_task(void **state)
{
#define INTO_PY(future)                                                                            \
	"pyo3_async_runtimes::generic::future_into_py_with_locals<pyo3_async_runtimes::tokio::"    \
	"TokioRuntime, " future ", app::Out>"
	static const struct {
		const char *full, *name;
	} rows[] = {
		{"app::worker::{closure#0}", "app::worker"},
		{INTO_PY("app::get::{closure#0}") "::{closure#0}", "app::get"},
		{INTO_PY("app::get::{closure#0}") "::{closure#0}::{closure#0}",
		 "app::get (future_into_py_with_locals::{closure#0})"},
		{INTO_PY("app::get::{closure#0}") "::{closure#0}::{closure#0}::{closure#1}",
		 "app::get (future_into_py_with_locals::{closure#0}::{closure#1})"},
		{INTO_PY("<app::Page>::bytes::{closure#0}") "::{closure#0}", "app::Page::bytes"},
		{"<pyo3_async_runtimes::tokio::TokioRuntime as "
		 "pyo3_async_runtimes::generic::Runtime>::spawn<" INTO_PY(
			 "app::put::{closure#0}") "::{closure#0}>::{closure#0}",
		 "app::put"},
		/* debug information: the parameters are the state machine's */
		{"pyo3_async_runtimes::generic::future_into_py_with_locals::{async_block_env#0}<"
		 "pyo3_async_runtimes::tokio::TokioRuntime, app::get::{async_fn_env#0}, app::Out>",
		 "app::get"},
		{"tokio_util::task::task_tracker::TrackedFuture<app::start_tx::{{closure}}>",
		 "app::start_tx"},
		{"opentelemetry::trace::context::WithContext<futures_util::future::future::Map<"
		 "app::rx::{closure#2}, core::mem::drop<u8>>>",
		 "app::rx::{closure#2}"},
		/* a function that was given by its name */
		{"futures_util::future::future::Map<core::future::ready::Ready<u32>, app::work>",
		 "app::work"},
		{"tokio_util::task::task_tracker::TaskTracker::spawn_blocking_on<app::work,()>"
		 "::{{closure}}",
		 "app::work"},
		{"futures_util::future::future::Map<app::get::{closure#0}, app::work>", "app::get"},
		/* its own generic function says what it does, as long as it says all */
		{"app::retry<app::fetch::{closure#0}>::{closure#0}", "app::retry<app::fetch>"},
		{"app::runtime::Handle::spawn<" INTO_PY(
			 "app::put::{closure#0}") "::{closure#0}>::{closure#0}",
		 "app::put"},
		/* or names what it was given */
		{"app::wakes::by_value<app::truth::PollFn<app::wakes::waking<app::wakes::self_wakes"
		 "::{closure#1}>::{closure#0}>>::{closure#0}",
		 "app::wakes::by_value<app::truth::PollFn<app::wakes::waking<..>>>"},
		{"async_executor::AsyncCallOnDrop<app::woken<app::truth::PollFn<app::wakes::{"
		 "closure#1}>>"
		 "::{closure#0}, <async_executor::Executor>::spawn_inner<u64, u8>::{closure#0}>",
		 "app::woken<app::truth::PollFn<app::wakes::{closure#1}>>"},
		{"core::future::poll_fn::PollFn<app::wakes::{closure#1}>",
		 "app::wakes::{closure#1}"},
		/* a server of several functions, and of one */
		{"futures_util::future::future::Map<hyper::server::Server<warp::filter::or::Or<"
		 "AndThen<fn() -> "
		 "app::{impl#0}::get::{async_fn_env#0}>, fn(u8) -> app::put::{async_fn_env#0}>>>",
		 "futures_util::future::future::Map<hyper::server::Server<warp::filter::or::Or<..>>"
		 ">"},
		{"futures_util::future::future::Map<hyper::server::Server<fn() -> "
		 "app::get::{async_fn_env#0}, fn() -> app::get::{async_fn_env#0}>>",
		 "app::get"},
		/* nothing of the program's own in it */
		{"axum::serve::Serve<tokio::net::tcp::listener::TcpListener, "
		 "axum::routing::Router, "
		 "axum::serve::serve<axum::routing::Router>::{closure#3}>",
		 "axum::serve::Serve<..>"},
		{"tokio_util::task::task_tracker::TrackedFuture<app::Pump>",
		 "tokio_util::task::task_tracker::TrackedFuture<app::Pump>"},
		{"", ""},
		{"tokio::f<", "tokio::f<"},
	};
#undef INTO_PY

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *got = name_task(rows[i].full, "");

		assert_non_null(got);
		assert_string_equal(got, rows[i].name);
		free(got);
	}
}

/* Libraries that no list has, by what is in the binary. */
static void test_task_libraries(void **state)
{
	static const char spawn[] = "sqlx_core::rt::spawn<app::ping::{closure#0}>::{closure#0}";
	static const char inner[] =
		"pyo3_async_runtimes::generic::future_into_py<object_store::get::{closure#0}>";
	static const struct {
		const char *full, *libraries, *name;
	} rows[] = {
		{spawn, "", "sqlx_core::rt::spawn<app::ping>"},
		{spawn, "sqlx", "sqlx_core::rt::spawn<app::ping>"},
		{spawn, "bytes,sqlx_core", "app::ping"},
		/* nothing in it is the program's own: the library's that is no wrapper */
		{inner, "object_store,pyo3_async_runtimes", "object_store::get"},
		{spawn, "app,sqlx_core", "sqlx_core::rt::spawn<app::ping>"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *got = name_task(rows[i].full, rows[i].libraries);

		assert_non_null(got);
		assert_string_equal(got, rows[i].name);
		free(got);
	}
}

/* Deep and broken nesting must end, whatever it gives. */
static void test_shorten_deep(void **state)
{
	static const char pieces[] = "<({[a::,>)}]& ";
	char text[20000];
	uint64_t seed = 1;

	memset(text, '<', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	free(name_shorten(text));
	free(name_task(text, "a,,b"));
	for (size_t i = 0; i + 3 < sizeof(text); i += 3)
		memcpy(text + i, "a::", 3);
	free(name_shorten(text));
	free(name_task(text, "a,,b"));
	for (int round = 0; round < 2000; round++) {
		size_t len = (size_t)round % 60;

		for (size_t i = 0; i < len; i++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			text[i] = pieces[(seed >> 33) % (sizeof(pieces) - 1)];
		}
		text[len] = 0;
		free(name_shorten(text));
		free(name_task(text, "a,,b"));
	}
}

static void check_function(const char *full, const char *want)
{
	char *got = name_function(full);

	assert_non_null(got);
	assert_string_equal(got, want);
	free(got);
}

static void test_function(void **state)
{
	check_function("std::thread::functions::sleep", "std::thread::functions::sleep");
	check_function("<app::Pool as core::future::future::Future>::poll", "app::Pool::poll");
	check_function("<alloc::vec::Vec<T> as core::clone::Clone>::clone", "Vec<T>::clone");
	check_function("tokio::runtime::task::core::Core<T,S>::poll",
		       "tokio::runtime::task::core::Core<T, S>::poll");
	check_function("app::worker::{{closure}}", "app::worker");
	check_function("app::{impl#3}::poll", "app::poll");
	check_function("std::sys::backtrace::__rust_begin_short_backtrace",
		       "std::sys::backtrace::__rust_begin_short_backtrace");
	check_function("", "");
}

static void test_own(void **state)
{
	static const struct {
		const char *full, *own; /* NULL: it is a library's */
	} rows[] = {
		{"app::get::{{closure}}", "app::get"},
		/* a function that a library's trait is implemented for, whatever the method is */
		{"<app::get as axum::handler::Handler<((),),app::Shop>>::call::{{closure}}",
		 "app::get"},
		{"<app::get as axum::handler::Handler<((),), app::Shop>>::call::{closure#0}",
		 "app::get"},
		/* a type: the method says which of several it is */
		{"<app::Shop as app::api::Shop>::order::{{closure}}", "app::Shop::order"},
		{"actix_web::handler::handler_service<app::get,()>::{{closure}}::{{closure}}",
		 "app::get"},
		/* actix's #[get] makes a type of the function */
		{"actix_web::handler::handler_service<<app::get as "
		 "actix_web::service::HttpServiceFactory>::"
		 "register::get,(app::Data<u8>,)>::{{closure}}",
		 "app::get"},
		{"actix_web::handler::handler_service::<<app::Api as app::Make>::make, "
		 "()>::{closure#0}",
		 "app::Api::make"},
		/* not its first parameter */
		{"tower::util::map<(),app::get>::{{closure}}", NULL},
		{"serde::de::read<app::get>::{{closure}}", "app::get"},
		{"serde::de::read<u8>::{{closure}}", NULL},
		{"serde::de::read<app::main::{{closure}}>::{{closure}}", NULL},
		{"hyper::client::connect::{{closure}}", NULL},
		{"extra::connect::{{closure}}", NULL},
		/* nobody knows whose */
		{"<F as axum::handler::Handler<(M,T1),S>>::call::{{closure}}", NULL},
		{"", NULL},
		{"<", NULL},
		{"<<<<", NULL},
		{"a<", NULL},
		{"hyper::a<>::b", NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool own = name_is_own(rows[i].full, "serde,extra");

		/* Of an object without tasks the libraries aren't known. */
		assert_int_equal(name_is_own(rows[i].full, NULL), name_is_own(rows[i].full, ""));
		assert_int_equal(name_is_library(rows[i].full, NULL),
				 name_is_library(rows[i].full, ""));
		free(name_task(rows[i].full, NULL));

		if (own != (rows[i].own != NULL))
			fail_msg("%s", rows[i].full);
		char *got = name_own(rows[i].full, "serde,extra");
		assert_non_null(got);
		if (own)
			assert_string_equal(got, rows[i].own);
		free(got);
	}
}

static void test_holds_own(void **state)
{
	static const struct {
		const char *full;
		bool holds;
	} rows[] = {
		{"tokio_util::task::task_tracker::TrackedFuture<<app::Link>::start::{closure#0}>",
		 true},
		{"pyo3_async_runtimes::generic::spawn<pyo3_async_runtimes::tokio::TokioRuntime, "
		 "app::get::{closure#0}>::{closure#0}",
		 true},
		{"tracing::instrument::Instrumented<app::main::{async_fn_env#0}>", true},
		/* a function that makes futures is inside something else */
		{"hyper::server::conn::http1::Connection<hyper_util::rt::TokioIo<tokio::net::"
		 "TcpStream>, "
		 "hyper::service::util::ServiceFn<app::main::{closure#1}, hyper::body::Incoming>>",
		 false},
		{"axum::serve::handle<tokio::net::TcpListener, axum::routing::Router>::{closure#0}",
		 false},
		{"hyper_util::server::conn::auto::Connection<app::Io, app::Service>", false},
		{"tokio_util::task::task_tracker::TrackedFuture<hyper::proto::h2::run::{closure#0}"
		 ">",
		 false},
		{"app::main::{closure#0}", false},
		{"tokio<", false},
		{"tokio<>", false},
		{"", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (name_holds_own(rows[i].full, "serde,extra") != rows[i].holds)
			fail_msg("%s", rows[i].full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_argument),  cmocka_unit_test(test_library),
		cmocka_unit_test(test_demangle),  cmocka_unit_test(test_demangle_bomb),
		cmocka_unit_test(test_shorten),	  cmocka_unit_test(test_task),
		cmocka_unit_test(test_own),	  cmocka_unit_test(test_task_libraries),
		cmocka_unit_test(test_holds_own), cmocka_unit_test(test_shorten_deep),
		cmocka_unit_test(test_function),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
