/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Wrappers, by name. Of a type that isn't in this table nothing is taken for granted: it may drop
 * what it holds when it likes.
 *
 * Source: tokio 1.23 to 1.54 (src/future, src/task, src/macros), futures-util 0.3, tracing 0.1,
 * futures-lite 1 and 2, async-std 1.12 and 1.13, async-executor 1.0 to 1.14.
 */
#include "future/wrapper.h"

#include "future/type_class.h"

#include <string.h>

bool wrapper_holds_until_ready(const struct dw_type *t)
{
	static const char *const keeps[] = {
		/* places to keep something */
		"core::pin::Pin<",
		"core::mem::manually_drop::ManuallyDrop<",
		"core::mem::maybe_dangling::MaybeDangling<",
		"core::cell::UnsafeCell<",
		"core::panic::unwind_safe::AssertUnwindSafe<",
		/* emptied by the next of these, when what was in there was ready */
		"core::option::Option<",
		"core::future::from_generator::GenFuture<",
		"alloc::boxed::Box<",
		"&mut ",
		"(",
		/* Done when the future was ready, gone when that was taken */
		"tokio::future::maybe_done::MaybeDone<",
		"futures_util::future::maybe_done::MaybeDone<",
		"futures_util::future::join::",
		"futures_lite::future::Zip<",
		/* the same future with something around its polls */
		"tracing::instrument::Instrumented<",
		"tracing::instrument::WithDispatch<",
		"tracing_futures::Instrumented<",
		"tracing_futures::WithDispatch<",
		"tokio::task::unconstrained::Unconstrained<",
		"tokio::task::coop::unconstrained::Unconstrained<",
		"tokio::task::coop::Coop<",
		"tokio::task::task_local::TaskLocalFuture<",
		"async_std::task::builder::SupportTaskLocals<",
		/* and something after it */
		"futures_util::future::future::",
		"futures_util::future::try_future::",
		"futures_util::future::either::Either<",
	};
	/* Of those of futures: other futures hold what these hold, too, or a panic ends it. */
	static const char *const not [] = {
		"futures_util::future::future::shared::",
		"futures_util::future::future::remote_handle::",
		"futures_util::future::future::catch_unwind::",
	};

	for (size_t i = 0; i < sizeof(not ) / sizeof(*not ); i++)
		if (await_starts(t->full_name, not [i]))
			return false;
	for (size_t i = 0; i < sizeof(keeps) / sizeof(*keeps); i++)
		if (await_starts(t->full_name, keeps[i]))
			return true;
	return t->class == DC_STRUCT && dw_is_coroutine(t);
}

/* async-executor's run() is `future.or(run_forever).await`, where that is an async block around a
 * loop. */
static bool runs_forever(const struct dw_type *t)
{
	const char *run = await_starts(t->full_name, "async_executor::")
				  ? strstr(t->full_name, "::run::{")
				  : NULL;
	const char *block = run ? strstr(run, "}::{") : NULL;

	return block && block < run + strcspn(run, "<") && dw_is_coroutine(t);
}

static bool is_never_ready(const struct dw_type *t)
{
	return await_starts(t->full_name, "core::future::pending::Pending<") || runs_forever(t);
}

bool wrapper_holds_member_until_ready(struct debug *d, const struct dw_type *t,
				      const struct dw_member *m)
{
	if (wrapper_holds_until_ready(t))
		return true;
	if (!await_starts(t->full_name, "futures_lite::future::Or<"))
		return false;
	for (size_t i = 0; i < t->n_members; i++) {
		const struct dw_type *other = dw_member_type(d, &t->members[i]);

		if (&t->members[i] != m && (!other || !is_never_ready(other)))
			return false;
	}
	return true;
}

bool wrapper_polls_by_reference(const struct dw_type *t)
{
	static const char *const borrows[] = {
		"core::future::poll_fn::PollFn<",
		"tokio::future::poll_fn::PollFn<",
		"futures_util::future::poll_fn::PollFn<",
		"tokio::time::timeout::Timeout<",
	};

	for (size_t i = 0; i < sizeof(borrows) / sizeof(*borrows); i++)
		if (await_starts(t->full_name, borrows[i]))
			return true;
	return shape_is_closure(t) || wrapper_holds_until_ready(t);
}
