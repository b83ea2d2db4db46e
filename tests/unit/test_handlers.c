/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Why a recording has no requests by handler: which symbols tell of hyper's connections, and which reason
 * follows from what the recording has of them. Which tasks are connections. */
#include "capture/agent/handlers.h"
#include "runtime/futures.h"
#include "trace/labels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

/* Symbols of rustc 1.97 programs with hyper 0.14 (warp 0.3) and 1.x, legacy and v0. */
static void the_symbols_of_hyper(void **state)
{
	static const char *const methods[] = {
		"_ZN5hyper5proto2h18dispatch32Dispatcher$LT$D$C$Bs$C$I$C$T$GT$10poll_"
		"write17hd2f66bdcf48c1e54E",
		"_RNvMs_NtNtNtCsb9SJqbhj4tb_5hyper5proto2h18dispatchINtB4_10DispatcherINtB4_"
		"6ServerINtNtCslNYArtu3iFV_5alloc5boxed3BoxhEEE10poll_writeBa_",
	};
	static const char *const objects[] = {
		"_ZN5hyper5proto2h18dispatch19Server$LT$S$C$B$GT$3new17h9aa0f7c2e77ae706E",
		"_ZN126_$LT$hyper..proto..h1..dispatch..Server$LT$S$C$hyper..body..body..Body$GT$$"
		"u20$as$u20$"
		"hyper..proto..h1..dispatch..Dispatch$GT$8recv_msg17h3e9667116413c300E",
		("_RNvXNtNtNtCsb9SJqbhj4tb_5hyper5proto2h18dispatchINtB2_6ServerINtNtCslNYArtu3iFV_"
		 "5alloc5boxed3BoxhEENtB2_8Dispatch8recv_msgB8_"),
	};
	/* What is left of the method where it is a part of its caller, and others of its name. */
	static const char *const others[] = {
		"_ZN5hyper5proto2h18dispatch32Dispatcher$LT$D$C$Bs$C$I$C$T$GT$10poll_write10__"
		"CALLSITE17h6bc69f89c57f1de1E",
		"_ZN89_$LT$tokio..net..tcp..stream..TcpStream$u20$as$u20$tokio..io..async_write.."
		"AsyncWrite$GT$"
		"10poll_write17h6964f9914915741cE",
		"_ZN2h26server7Builder14max_frame_size17hb3eb1552dafbba01E",
		"_ZN12tracing_"
		"core8callsite11dispatchers11Dispatchers9rebuilder17h7193c4c88b0fec9eE",
	};
	(void)state;
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		assert_non_null(future_holder_method(methods[i]));
	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
		const struct future_holder *h = future_holder_method(objects[i]);

		assert_non_null(future_holder_object(objects[i]));
		assert_true(!h || h->part == HOLDER_MAKES);
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_null(future_holder_method(others[i]));
		assert_null(future_holder_object(others[i]));
	}
}

/* ---- the reason ---- */

static const struct future_holder holder;
static const struct scan_future method = {.holder = &holder}, in_box;

static const struct source_kind connection = {.task = true, .serves = true};
static const struct source_kind own_box = {.boxed = &in_box, .index = 4}; /* of a task in a box */
static const struct source_kind request = {.boxed = &in_box, .index = 5, .recorded = true};
static const struct source_kind shared = {
	.boxed = &in_box, .index = 6, .recorded = true, .ambiguous = true};
static const struct source_kind unplaced = {.boxed = &method, .index = TRACE_KIND_NONE};
static const struct source_kind placed = {
	.boxed = &method, .index = 7, .held = true, .recorded = true};

static void expect(const struct source_kind *a, const struct source_kind *b, bool holds,
		   const char *trouble, int seen, int total, const char *note)
{
	struct source_kind kinds[3] = {connection};
	struct trace_coverage row;
	uint32_t n = 1;

	if (a)
		kinds[n++] = *a;
	if (b)
		kinds[n++] = *b;
	bool any = handlers_coverage(kinds, n, holds, trouble, &row);

	assert_int_equal(any, total != 0);
	if (!any)
		return;
	assert_int_equal(row.seen, seen);
	assert_int_equal(row.total, total);
	if (*note)
		assert_non_null(strstr(row.note, note));
	else
		assert_string_equal(row.note, "");
}

static void the_reason(void **state)
{
	(void)state;
	/* No hyper, or none that serves. */
	expect(NULL, NULL, false, NULL, 0, 0, "");
	/* Its method is a part of another: a box that is no request's explains nothing. */
	expect(NULL, NULL, true, NULL, 0, 1, "left no function");
	expect(&own_box, NULL, true, NULL, 0, 1, "left no function");
	/* Debug information would not help. */
	expect(&own_box, NULL, true, "no debug information", 0, 1, "left no function");
	/* Handlers in boxes are seen without it. */
	expect(&request, NULL, true, NULL, 1, 1, "");
	expect(&request, &shared, true, NULL, 1, 2, "have one function");
	/* Those of which there was no request are none of the recording. */
	expect(&own_box, NULL, false, NULL, 0, 0, "");
	expect(&request, &own_box, true, NULL, 1, 1, "");
	/* The method is there, and where it has the future is not known, or is. */
	expect(&unplaced, NULL, true, NULL, 0, 1, "debug = true");
	expect(&unplaced, NULL, true, "it is damaged", 0, 1, "it is damaged");
	expect(&placed, NULL, true, NULL, 1, 1, "");
	expect(&unplaced, &request, true, NULL, 1, 1, "");
}

/* Tasks that serve: names as the debug information of programs with these libraries has them. */
static void the_connections(void **state)
{
	static const struct {
		const char *name, *full, *connection;
	} rows[] = {
		{"warp_::blocks",
		 "hyper::server::server::new_svc::NewSvcTask<hyper::server::tcp::addr_stream::"
		 "AddrStream, ..>",
		 "hyper connection"},
		{"hyper::server::server::new_svc::NewSvcTask<..>",
		 "hyper::server::server::new_svc::NewSvcTask<hyper::server::tcp::addr_stream::"
		 "AddrStream, "
		 "hyper::service::util::ServiceFn<warp::server::{impl#0}::bind_ephemeral<..>>>",
		 "warp connection"},
		{"poem::server::run_with_graceful_shutdown::{async_block#5}<..>",
		 "poem::server::{impl#2}::run_with_graceful_shutdown::{async_fn#0}::{async_block_"
		 "env#5}<..>",
		 "poem connection"},
		{"salvo_core::server::try_serve::{async_block#0}<..>",
		 "salvo_core::server::{impl#0}::try_serve::{async_fn#0}::{async_block_env#0}<..>",
		 "salvo connection"},
		{"poem_::work::mailer", "poem_::work::mailer::{async_fn_env#0}", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct trace_kind k = {
			.role = TR_TASK, .name = rows[i].name, .full_name = rows[i].full};

		if (rows[i].connection)
			assert_string_equal(kind_connection(&k), rows[i].connection);
		else
			assert_null(kind_connection(&k));
		k.role = TR_FUTURE;
		assert_null(kind_connection(&k));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_symbols_of_hyper),
		cmocka_unit_test(the_reason),
		cmocka_unit_test(the_connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
