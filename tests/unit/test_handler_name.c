/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names of handlers: the types are those in the debug information of programs with poem 3, salvo 0.76 and tonic. */
#include "future/handler_name.h"

#include "binary/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

/* As the agent's compiler does it: the better name, shortened. */
static void expect(char *better, const char *name)
{
	char *shortened = better ? name_shorten(better) : NULL;

	if (name)
		assert_non_null(shortened);
	else
		assert_null(better);
	if (name)
		assert_string_equal(shortened, name);
	free(shortened);
	free(better);
}

#define POEM "poem::endpoint::map_to_response::{impl#1}::call::{async_fn_env#0}"

static void test_parameter(void **state)
{
	static const struct {
		const char *full, *name;
	} rows[] = {
		{POEM "<poem_::order>", "poem_::order"},
		{POEM "<poem_::blocks>", "poem_::blocks"},
		{POEM "<alloc::boxed::Box<poem_::api::Shop<u8>, alloc::alloc::Global>>",
		 "poem_::api::Shop"},
		/* the library's, and one whose name ends like the program's */
		{POEM "<poem::route::router::Route>", NULL},
		{POEM "<my_poem_::order>", NULL},
		/* these have names of their own */
		{POEM "<poem_::main::{closure_env#0}>", NULL},
		{POEM "<fn(poem_::Shop) -> poem_::order::{async_fn_env#0}>", NULL},
		{"poem::server::{impl#2}::run::{async_fn_env#0}", NULL},
		{POEM "<", NULL},
		{POEM "<poem_::", NULL},
		{"", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		expect(handler_name_by_parameter(rows[i].full, "poem_::work::pause"), rows[i].name);
	/* A program whose functions have no crate. */
	expect(handler_name_by_parameter(POEM "<poem_::order>", "main"), NULL);
}

static void test_method(void **state)
{
	static const struct {
		const char *full, *self, *name;
	} rows[] = {
		/* #[handler] makes a type of the function, and its impl */
		{"salvo_::{impl#14}::handle::{async_block_env#0}", "salvo_::order",
		 "salvo_::order::handle"},
		{"salvo_::{impl#8}::handle::{async_block_env#0}", "salvo_::Inject",
		 "salvo_::Inject::handle"},
		{"service::work::{impl#3}::order::{async_block_env#0}", "service::work::Shop",
		 "service::work::Shop::order"},
		/* its parameters, and the method's, are not in it */
		{"shop::{impl#3}::handle::{async_block_env#0}", "shop::Timed<shop::Order>",
		 "shop::Timed::handle"},
		/* no method */
		{"salvo_::order::{async_fn_env#0}", "salvo_::order", NULL},
		{"shop::{impl#3", "shop::Order", NULL},
		/* a type without a crate is no name to find it by */
		{"shop::{impl#3}::handle::{async_block_env#0}", "u64", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		expect(handler_name_by_method(rows[i].full, rows[i].self), rows[i].name);
}

#define AXUM "axum::handler::{impl#0}::call::{async_block_env#0}"

static void test_symbol(void **state)
{
	static const struct {
		const char *full, *symbol, *name;
	} rows[] = {
		/* a tower service's own, and an axum handler that is a method without a self */
		{"ax::{impl#4}::call::{async_block_env#0}", "ax::Own::call", "ax::Own::call"},
		{AXUM "<fn(u8) -> ax::{impl#3}::status::{async_fn_env#0}, u8>", "ax::Api::status",
		 "ax::Api::status"},
		{"ax::api::{impl#4}::call::{async_block_env#0}", "ax::api::Own::call",
		 "ax::api::Own::call"},
		/* what rocket's macro has made */
		{"rock::{impl#0}::into_info::monomorphized_function::{async_block_env#0}",
		 "rock::order", "rock::order"},
		/* and actix's */
		{"actix_web::handler::handler_service::{closure#0}::{closure#0}::{async_block_env#"
		 "0}<fn(u8) -> "
		 "act::{impl#0}::register::item::{async_fn_env#0}, u8>",
		 "act::item", "act::item"},
		{"actix_web::handler::handler_service::{closure#0}::{closure#0}::{async_block_env#"
		 "0}<fn(u8) -> "
		 "act::{impl#0}::register::item::{async_fn_env#0}, u8>",
		 "act::order", NULL},
		/* no method, or the symbol is another one's, or that of two */
		{AXUM "<fn(u8) -> ax::order::{async_fn_env#0}, u8>", "ax::Api::order", NULL},
		{"ax::{impl#4}::call::{async_block_env#0}", "ax::Own::recall", NULL},
		{"ax::{impl#4}::call::{async_block_env#0}", "ax::Own_call", NULL},
		{"ax::{impl#4}::call::{async_block_env#0}", "ax::call", NULL},
		{"ax::{impl#4}::call::{async_block_env#0}", "bx::Own::call", NULL},
		{"ax::{impl#4}::call::{async_block_env#0}", "ax::Own::call or ax::Other::call",
		 NULL},
		/* one of several */
		{AXUM "<fn(u8) -> ax::{impl#3}::status::{async_fn_env#0}, u8>",
		 "ax::get or ax::Api::status or another", "ax::Api::status"},
		{"ax::{impl#4}::call::{async_block_env#0}", "", NULL},
		{"ax::{impl#4", "ax::Own::call", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		expect(handler_name_by_symbol(rows[i].full, rows[i].symbol), rows[i].name);
}

static void test_cut(void **state)
{
	char made[] = "rock::order::into_info::monomorphized_function", none[] = "rock::order",
	     only[] = "::into_info::monomorphized_function";

	(void)state;
	handler_name_cut(made);
	assert_string_equal(made, "rock::order");
	handler_name_cut(none);
	assert_string_equal(none, "rock::order");
	handler_name_cut(only);
	assert_string_equal(only, "::into_info::monomorphized_function");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parameter),
		cmocka_unit_test(test_method),
		cmocka_unit_test(test_symbol),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
