/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Polls of futures below a task's: the calls of a future's poll function go through a thunk, which
 * calls the agent before and after.
 *
 * What an open poll needs at its end is in the thunk's frame, so polls may be nested as deep as
 * the stack allows; the thread's notes know the innermost one, for a panic that passes the frame.
 * How the poll of a coroutine ended is read from the coroutine's state: the poller borrows the
 * coroutine until the poll returns, so its memory exists. Of other futures it is read from what
 * they return.
 *
 * All this holds if the debug information is right. So each read needs a second proof that there is
 * memory (point.h): a poll function that begins by reading the state proves where the state is;
 * elsewhere the agent asks the kernel.
 */
#include "agent/agent.h"
#include "agent/point.h"
#include "agent/thunks.h"

struct open_path {
	const struct agent_step *step;
	const char *addr;
};

/* All ways of a node, the last one first, since they are taken from the end. */
static inline uint32_t add_ways(const struct agent_node *node, const char *at,
				struct open_path *open, uint32_t n_open)
{
	for (uint32_t i = node->n; i-- > 0 && n_open < AGENT_LIST_MAX;) {
		open[n_open].step = &node->steps[i];
		open[n_open++].addr = at;
	}
	return n_open;
}

/* Where the pointer at `at` leads, which is listed, and is what is reached from then on; NULL: to
 * nothing of that kind. */
static inline const char *pointer(const struct agent_node *node, const char *at,
				  struct agent_reach *reach, struct agent_list *ret)
{
	if (ret->by_value || ret->n + 2 > AGENT_LIST_MAX || (uint64_t)at % 8 ||
	    !agent_reaches(reach, at, 8))
		return NULL;
	uint64_t to = agent_state_value(at, 8);
	if (to & node->zero_bits || !agent_reaches(reach, (const char *)to, 1))
		return NULL;
	ret->words[ret->n++] = agent_ref(node->point, (uint64_t)at);
	ret->words[ret->n++] = agent_ref(node->point, to);
	*reach = agent_reach(reach->notes, (const char *)to, 1);
	return (const char *)to;
}

/* Goes on from `way` in one line; what branches off is added to `open`. */
static inline uint32_t list_line(const struct agent_step *program, struct open_path way,
				 struct agent_reach reach, struct open_path *open, uint32_t n_open,
				 struct agent_list *ret)
{
	for (uint32_t depth = 0; way.step->next && depth < AGENT_PROGRAM_DEPTH; depth++) {
		const struct agent_node *node =
			(const struct agent_node *)(program + way.step->next);
		if (unlikely(node->kind == NODE_BRANCHES))
			return add_ways(node, way.addr, open, n_open);
		way.addr += way.step->delta;
		if (unlikely(node->kind == NODE_POINTER)) {
			way.addr = pointer(node, way.addr, &reach, ret);
			if (!way.addr)
				break;
			way.step = &node->steps[0];
			continue;
		}
		if (unlikely(!agent_reaches(&reach, way.addr, node->size)))
			break;
		uint64_t i = agent_state_value(way.addr, node->size) - node->base;
		way.step = &node->steps[i < node->n ? i : node->n];
		if (way.step->point && likely(ret->n < AGENT_LIST_MAX))
			ret->words[ret->n++] = agent_ref(way.step->point, (uint64_t)way.addr);
	}
	return n_open;
}

/* What branched off. */
static __attribute__((noinline)) void list_rest(const struct agent_step *program,
						const struct agent_reach *reach,
						struct open_path *open, uint32_t n,
						struct agent_list *ret)
{
	while (n) {
		struct open_path way = open[--n];
		n = list_line(program, way, *reach, open, n, ret);
	}
}

static inline void list(const struct agent_hook *hook, const struct agent_reach *reach,
			const char *from, bool by_value, struct agent_list *ret)
{
	const struct agent_step *program =
		(const struct agent_step *)__atomic_load_n(&hook->program, __ATOMIC_ACQUIRE);
	struct open_path open[AGENT_LIST_MAX];
	uint32_t n;

	ret->n = 0;
	ret->by_value = by_value;
	if (!program)
		return;
	n = list_line(program, (struct open_path){program, from}, *reach, open, 0, ret);
	if (unlikely(n))
		list_rest(program, reach, open, n, ret);
}

/* As agent_point(), all ways of the program. */
void agent_list(const struct agent_hook *hook, const struct agent_reach *from,
		struct agent_list *ret)
{
	list(hook, from, from->base, false, ret);
}

void agent_put_list(struct agent_notes *n, uint64_t type, const struct agent_list *list)
{
	uint64_t ticks = list->n ? arch_ticks() : 0;

	for (uint32_t i = 0; i < list->n; i++)
		agent_put_at(n, ticks, type, list->words[i]);
}

void agent_put_begin_list(struct agent_notes *n, const struct agent_hook *hook, const void *header)
{
	const struct agent_reach reach = agent_task_reach(n, hook, header);
	struct agent_list list;

	agent_list(hook, &reach, &list);
	agent_put_list(n, AE_FUTURE_SNAPSHOT_BEGIN, &list);
}

static inline const char *future_state(const struct agent_hook *hook, const void *future)
{
	return (const char *)future + hook->future.result.offset;
}

/* The frame of the function around: what the thunk was called from, and its stack pointer there. */
struct poll_caller {
	uint64_t back;
	const char *sp;
};

static inline struct poll_caller frame_around(const struct agent_future *f)
{
	/* after it %rbx and %rbp were pushed, before that the call's return address */
	const char *rbp = (const char *)(f + 1) + 8;

	return (struct poll_caller){*(const uint64_t *)(rbp + 8), rbp + 16};
}

/* What of a future is there for certain: up to its state where the poll function's own code begins
 * by reading that, and the frame around a block_on's. */
static inline struct agent_reach reach_of(const struct agent_future *f)
{
	const struct agent_hook *hook = f->hook;
	struct agent_notes *n = f->notes;

	if (unlikely(hook->flags & AGENT_HOOK_HELD)) /* no vtable says how large it is */
		return (struct agent_reach){n, f->future, 0};
	if (hook->flags & AGENT_HOOK_CHAIN)
		return agent_reach(n, f->future, hook->future.value_bytes);
	if (likely(hook->flags & AGENT_HOOK_SHOWN))
		return agent_reach(n, f->future,
				   (uint64_t)hook->future.result.offset + hook->future.result.size);
	if (hook->type == AH_ROOT_SITE)
		return agent_reach(n, frame_around(f).sp, 1);
	return (struct agent_reach){n, f->future, 0};
}

/* Whether the state of a coroutine can be read. Of other futures there is none to be read. */
static inline bool has_state(const struct agent_future *f)
{
	const struct agent_hook *hook = f->hook;

	if (likely(hook->flags & AGENT_HOOK_SHOWN) || hook->future.result.from != AR_STATE)
		return true;
	const struct agent_reach reach = reach_of(f);
	return agent_reaches(&reach, future_state(hook, f->future), hook->future.result.size);
}

/* A future that is alone in its list: its own await point, and the list is empty then. */
static inline uint64_t take_own_point(const struct agent_future *f, struct agent_list *list)
{
	const struct agent_hook *hook = f->hook;
	uint64_t state = (uint64_t)future_state(hook, f->future);

	if (list->n != 1 || hook->future.result.from != AR_STATE ||
	    (list->words[0] & AGENT_REF_MASK) != (state & AGENT_REF_MASK))
		return 0;
	list->n = 0;
	return list->words[0] >> 48;
}

/* The step of a coroutine's present state, if its program begins with that; else NULL. */
static inline const struct agent_step *
own_step(const struct agent_hook *hook, const struct agent_step *program, const void *future)
{
	const struct agent_node *node = (const struct agent_node *)(program + program->next);

	if (unlikely(!program->next || node->kind != NODE_STATE ||
		     node->size != hook->future.result.size ||
		     hook->future.result.from != AR_STATE ||
		     program->delta != (int32_t)hook->future.result.offset))
		return NULL;
	uint64_t i =
		agent_state_value((const char *)future + program->delta, node->size) - node->base;
	return &node->steps[likely(i < node->n) ? i : node->n];
}

/*
 * The await point of a coroutine in which nothing by value goes on from its present state: most
 * are, at most of their polls, so this is the way that counts. False: it must be listed.
 */
static inline bool is_alone(const struct agent_hook *hook, const void *future, uint64_t *ret_point)
{
	const struct agent_step *program =
		(const struct agent_step *)__atomic_load_n(&hook->program, __ATOMIC_ACQUIRE);

	*ret_point = 0;
	if (!program)
		return true;
	const struct agent_step *step = own_step(hook, program, future);
	if (unlikely(!step))
		return false;
	*ret_point = step->point;
	return likely(!step->next);
}

static __attribute__((noinline)) void list_begin(struct agent_future *f)
{
	const struct agent_reach reach = reach_of(f);
	struct agent_list l;

	list(f->hook, &reach, f->future, false, &l);
	f->listed = l.n;
	take_own_point(f, &l);
	agent_put_list(f->notes, AE_FUTURE_SNAPSHOT_BEGIN, &l);
}

/*
 * A future that is no coroutine is ready: what it has polled has returned, or is as it was and will
 * be dropped with it. Its memory is borrowed to the poll until that returns. The bytes of what was
 * dropped already are still there, but what it owned is gone.
 */
static __attribute__((noinline)) void list_previous(const struct agent_future *f)
{
	const struct agent_reach reach = reach_of(f);
	struct agent_list l;

	list(f->hook, &reach, f->future, true, &l);
	agent_put_list(f->notes, AE_FUTURE_SNAPSHOT_PREV, &l);
}

/*
 * Mostly the tool knows already for which states that holds: then it reads nothing of the program
 * at a poll's begin, and once at its end.
 */
static inline bool is_known_alone(const struct agent_hook *hook, const void *future,
				  uint32_t *ret_state)
{
	uint32_t alone = __atomic_load_n(&hook->future.alone, __ATOMIC_ACQUIRE);

	if (!alone)
		return false;
	*ret_state = *(const uint8_t *)future_state(hook, future);
	return *ret_state < 32 && alone >> *ret_state & 1;
}

static inline uint64_t known_point(const struct agent_hook *hook, uint32_t state)
{
	const struct agent_step *program =
		(const struct agent_step *)__atomic_load_n(&hook->program, __ATOMIC_RELAXED);

	/* after the first step, and the two words at the node's begin */
	return program[3 + state].point;
}

static __attribute__((noinline)) uint64_t list_end(struct agent_future *f)
{
	const struct agent_reach reach = reach_of(f);
	struct agent_list l;

	list(f->hook, &reach, f->future, false, &l);
	uint64_t point = take_own_point(f, &l);
	agent_put_list(f->notes, AE_FUTURE_SNAPSHOT_END, &l);
	return point;
}

/* Whether it is a coroutine that was never polled: the first of its states, whatever its code is.
 */
static inline bool is_unresumed(const struct agent_future *f)
{
	const struct agent_hook *hook = f->hook;

	return hook->future.result.from == AR_STATE &&
	       likely(hook->flags & (AGENT_HOOK_SHOWN | AGENT_HOOK_HELD)) &&
	       !agent_state_value(future_state(hook, f->future), hook->future.result.size);
}

/* The begin of a poll, and the states of the futures in it. */
static inline void put_begin(struct agent_future *f)
{
	const struct agent_hook *hook = f->hook;
	uint32_t state;
	uint64_t point;

	f->listed = 0;
	agent_put(f->notes, is_unresumed(f) ? AE_FUTURE_FIRST : AE_FUTURE_BEGIN,
		  agent_ref(hook->kind, (uint64_t)f->future));
	if (hook->flags & AGENT_HOOK_LIST && likely(has_state(f)) &&
	    !likely(is_known_alone(hook, f->future, &state)) &&
	    unlikely(!is_alone(hook, f->future, &point)))
		list_begin(f);
}

/* Below `f` the thunk has pushed the six arguments, after a word that it left free. False: they
 * lead to no future whose state can be read. */
static __attribute__((noinline)) bool find_borrowed(struct agent_future *f)
{
	const struct agent_hook *hook = f->hook;
	void *const *at = (void *const *)f - 1 - hook->future.argument;

	for (uint32_t i = 0; i < hook->future.n_pointers; i++) {
		at = (void *const *)*at;
		if (likely(hook->flags & AGENT_HOOK_SHOWN))
			continue;
		if ((uint64_t)at % 8 || !agent_readable(f->notes, (uint64_t)at, 8))
			return false;
	}
	f->future = *at;
	return has_state(f);
}

/* ---- futures that a library's object holds ---- */

/* Where the pointer to the box is: `result` is the object. */
static inline const char *box_pointer(const struct agent_future *f)
{
	return (const char *)f->result + f->hook->future.held_offset;
}

/* Whether the box says that there is a future. */
static inline bool has_tag(const struct agent_hook *hook, const char *box)
{
	return !hook->future.tag_size ||
	       agent_state_value(box, hook->future.tag_size) == hook->future.tag_some;
}

/* The same of a box whose future was written by hand. */
static inline bool is_present(const struct agent_hook *hook, const char *box)
{
	return agent_state_value(box + hook->future.result.offset, hook->future.result.size) !=
	       hook->future.pending;
}

/* Whether what agent_state_value() reads there can be read: of a size that no compiler gives, eight bytes. */
static bool is_value(const struct agent_future *f, const char *at, uint32_t size)
{
	bool small = size == 1 || size == 2 || size == 4;

	return agent_readable(f->notes, (uint64_t)at, small ? size : 8);
}

/* The future in the object's box, as the method borrows the object. False: it has none that may be
 * polled. Debug information says where it is, so it is asked whether there is memory. */
static __attribute__((noinline)) bool find_held(struct agent_future *f)
{
	const struct agent_hook *hook = f->hook;
	uint16_t last = __atomic_load_n(&hook->last_state, __ATOMIC_ACQUIRE);
	const char *at = box_pointer(f);

	if (!last || (uint64_t)at % 8 || !is_value(f, at, 8))
		return false;
	at = (const char *)agent_state_value(at, 8);
	if (hook->future.result.from == AR_PRESENT) {
		f->future = at + hook->future.future_offset;
		return is_value(f, at + hook->future.result.offset, hook->future.result.size) &&
		       is_present(hook, at);
	}
	if (hook->future.tag_size &&
	    (!is_value(f, at, hook->future.tag_size) || !has_tag(hook, at)))
		return false;
	f->future = at + hook->future.future_offset;
	at = future_state(hook, f->future);
	if (!is_value(f, at, hook->future.result.size))
		return false;
	uint64_t state = agent_state_value(at, hook->future.result.size);
	return !state || (state > hook->future.pending && state <= last);
}

/* ---- chains of futures in boxes ---- */

/* Another thread may have these notes, if a poll has gone on there or a second attach has given them
 * away. Then links get mixed up, but nothing is read or written beyond the chain: each function
 * reads how many there are once. */
static inline uint32_t chain_n(const struct agent_notes *n)
{
	uint32_t n_chain = __atomic_load_n(&n->n_chain, __ATOMIC_RELAXED);

	return n_chain < AGENT_CHAIN_MAX ? n_chain : AGENT_CHAIN_MAX;
}

/* What the future itself awaits comes after what those in it do, which begin at `base`. Where
 * another one has ended pending before it, in the poll around both, that is forgotten. */
static inline void chain_pending(const struct agent_future *f, uint32_t outer, uint32_t base)
{
	const struct agent_reach reach = reach_of(f);
	struct agent_notes *n = f->notes;
	uint64_t resource, point = agent_point(f->hook, &reach, true, &resource);
	uint32_t end = chain_n(n), to = outer;
	/* A future written by hand has no await point of its own. */
	bool named = likely(point || f->hook->future.result.from == AR_STATE);

	if (likely(end < AGENT_CHAIN_MAX) && named) {
		n->resources[end] = resource;
		n->chain[end++] = (uint16_t)(point ? point : AGENT_CHAIN_KIND + f->hook->kind);
	}
	if (unlikely(base > outer)) {
		for (uint32_t i = base; i < end; i++, to++) {
			n->resources[to] = n->resources[i];
			n->chain[to] = n->chain[i];
		}
		if (likely(to < AGENT_CHAIN_MAX)) {
			n->resources[to] = 0;
			n->chain[to++] = AGENT_CHAIN_OTHERS;
		}
		end = to;
	}
	n->n_chain = (uint16_t)end;
}

/* Makes the base right again. Returns where the future's own links begin; *ret_outer: those of the
 * poll around it. */
static inline uint32_t chain_close(const struct agent_future *f, uint32_t *ret_outer)
{
	struct agent_notes *n = f->notes;
	uint32_t n_chain = chain_n(n), base = __atomic_load_n(&n->chain_base, __ATOMIC_RELAXED);

	base = base < n_chain ? base : n_chain;
	*ret_outer = f->chain_outer < base ? (uint32_t)f->chain_outer : base;
	n->chain_base = (uint16_t)*ret_outer;
	return base;
}

/* A handler is polled in the poll of a task that serves, and in no other handler. */
static inline bool handles(const struct agent_notes *n)
{
	uint32_t depth = n->depth;

	return depth && depth <= AGENT_MAX_POLLS && !n->handler &&
	       __atomic_load_n(&n->polls[depth - 1].hook->flags, __ATOMIC_RELAXED) &
		       AGENT_HOOK_SERVES;
}

static inline void chain_begin(struct agent_future *f)
{
	struct agent_notes *n = f->notes;

	f->listed = 0;
	if (unlikely(f->hook->flags & AGENT_HOOK_LOOK))
		return;
	f->chain_outer = agent_chain_open(n);
	if (unlikely(f->hook->flags & AGENT_HOOK_AROUND))
		return;
	if (unlikely(__atomic_load_n(&f->hook->flags, __ATOMIC_RELAXED) & AGENT_HOOK_HANDLER) &&
	    handles(n)) {
		f->listed = n->handler = 1;
		agent_put(n, is_unresumed(f) ? AE_FUTURE_FIRST : AE_FUTURE_BEGIN,
			  agent_ref(f->hook->kind, (uint64_t)f->future));
	}
}

/* The end of a handler's poll. */
static inline void handler_end(const struct agent_future *f, uint64_t type)
{
	f->notes->handler = 0;
	agent_put(f->notes, type, agent_ref(f->hook->kind, (uint64_t)f->future));
}

/* ---- futures that begin and end in a method ---- */

/*
 * A method that makes the future, polls it and drops it: at its begin and end, and where functions are called
 * in it between these, it is seen whether the object has a future. What was there and is gone has returned. The
 * object is borrowed to the method, and to those functions, so it is there.
 */
static __attribute__((noinline)) void look_around(struct agent_notes *n, bool made)
{
	struct agent_future f = {.notes = n, .hook = n->around_hook, .result = n->around};
	const void *before = n->around_future, *now = find_held(&f) ? f.future : NULL;

	n->around_future = now;
	if (before && before != now && n->around_open) {
		f.future = before;
		n->around_open = 0;
		handler_end(&f, AE_FUTURE_READY);
		f.future = now;
	}
	if (!now || n->around_open ||
	    !(__atomic_load_n(&f.hook->flags, __ATOMIC_RELAXED) & AGENT_HOOK_HANDLER) ||
	    !handles(n))
		return;
	n->around_open = n->handler = 1;
	agent_put(n, made ? AE_FUTURE_FIRST : AE_FUTURE_BEGIN,
		  agent_ref(f.hook->kind, (uint64_t)now));
}

/* Whether a function's object is that of the open method, or a member before the pointer to the box. */
static inline bool is_around(const struct agent_notes *n, const void *object)
{
	return n->around &&
	       (uint64_t)object - (uint64_t)n->around <= n->around_hook->future.held_offset;
}

/* False: one is open, which a connection in another's handler would be. */
static bool around_begin(struct agent_future *f)
{
	struct agent_notes *n = f->notes;

	if (n->around)
		return false;
	n->around = f->result;
	n->around_hook = f->hook;
	n->around_future = NULL;
	n->around_open = 0;
	look_around(n, false);
	return true;
}

static __attribute__((noinline)) void around_end(const struct agent_future *f, uint32_t outer,
						 uint32_t base)
{
	struct agent_notes *n = f->notes;
	struct agent_future held = *f;

	n->n_chain = (uint16_t)base;
	if (n->around != f->result)
		return;
	look_around(n, false);
	held.future = n->around_future;
	n->around = NULL;
	if (!held.future)
		return;
	chain_pending(&held, outer, base);
	if (n->around_open)
		handler_end(&held, AE_FUTURE_PENDING);
}

void agent_put_chain(struct agent_notes *n, uint64_t ticks)
{
	uint32_t end = n->chain_end < AGENT_CHAIN_MAX ? n->chain_end : AGENT_CHAIN_MAX;

	for (uint32_t i = n->chain_first; i < end;) {
		uint64_t word = 0;

		for (uint32_t shift = 0; shift < 64 && i < end; shift += 16)
			word |= (uint64_t)n->chain[i++] << shift;
		agent_put_at(n, ticks, AE_CHAIN, word);
	}
	for (uint32_t i = n->chain_first; i < end; i++)
		if (n->resources[i])
			agent_put_at(n, ticks, AE_RESOURCE,
				     (uint64_t)(i - n->chain_first) << 56 | n->resources[i]);
}

/* ---- begin and end ---- */

/* Of what is no plain future: whether its end is of interest. */
static __attribute__((noinline)) bool may_begin(struct agent_future *f, void *second)
{
	uint32_t flags = f->hook->flags;

	if (flags & AGENT_HOOK_LOOK) {
		if (!is_around(f->notes, f->result))
			f->result = second;
		if (!is_around(f->notes, f->result))
			return false;
		look_around(f->notes, false);
		return !f->notes->around_future;
	}
	if (!(flags & AGENT_HOOK_HELD))
		return find_borrowed(f);
	if (!__atomic_load_n(&f->hook->last_state, __ATOMIC_ACQUIRE))
		return false;
	if (f->hook->future.held_second)
		f->result = second;
	return flags & AGENT_HOOK_AROUND ? around_begin(f) : find_held(f);
}

/* False: nothing is recorded, the thunk jumps on to the original. */
bool agent_future_begin(struct agent_hook *hook, struct agent_future *f, void *first, void *second)
{
	uint8_t from = __atomic_load_n(&hook->future.result.from, __ATOMIC_ACQUIRE);

	/* What it returns, or where its state is, is not known, or not yet. */
	if (unlikely(from == AR_UNKNOWN && hook->flags & AGENT_HOOK_CHAIN))
		return false;
	if (unlikely(!agent_may_frame(hook)))
		return false;
	struct agent_notes *n = agent_notes();
	if (unlikely(!n)) {
		agent_no_ring(2);
		return false;
	}
	f->notes = n;
	f->claim = agent_claim(n);
	f->hook = hook;
	f->result = first;
	f->future = hook->flags & AGENT_HOOK_MEMORY || from == AR_MEMORY ? second : first;
	f->outer = n->futures;
	if (!f->outer) {
		n->n_pages = 0;
		n->n_futures = 0;
		n->handler = 0;
		n->around = NULL;
	}
	/* A program that recurses deeply needs its stack itself. Of boxes nothing is lost by that. */
	if (unlikely(hook->flags & AGENT_HOOK_CHAIN && n->n_futures >= AGENT_MAX_BOXES))
		return false;
	if (unlikely(n->n_futures >= AGENT_MAX_FUTURES)) {
		agent_lose(n, 2);
		return false;
	}
	if (unlikely(hook->flags & (AGENT_HOOK_INDIRECT | AGENT_HOOK_HELD | AGENT_HOOK_LOOK)) &&
	    !may_begin(f, second))
		return false;
	f->depth = ++n->n_futures;
	if (hook->flags & AGENT_HOOK_CHAIN)
		chain_begin(f);
	else
		put_begin(f);
	arch_barrier_local();
	n->futures = f;
	return true;
}

/* A function that returns in memory returns that memory's address, too: then it is there. */
static bool has_result(const struct agent_future *f, uint64_t first, const char *at)
{
	const struct agent_reach reach = agent_reach(f->notes, f->result, 1);

	return likely(first == (uint64_t)f->result)
		       ? agent_reaches(&reach, at, f->hook->future.result.size)
		       : agent_readable(f->notes, (uint64_t)at, f->hook->future.result.size);
}

/* How a coroutine's poll has ended. */
static inline uint64_t by_state(const struct agent_hook *hook, uint64_t state)
{
	return state > hook->future.pending	    ? AE_FUTURE_PENDING
	       : state == hook->future.result.ready ? AE_FUTURE_READY
						    : AE_FUTURE_UNKNOWN;
}

/* At the method's end, when the object is still borrowed. What is no longer there has ended: then that it is
 * ready. *ret_polled: whether it ever was, since a method need not poll what its object holds. */
static inline uint64_t held_outcome(const struct agent_future *f, bool *ret_polled)
{
	const struct agent_hook *hook = f->hook;
	const char *box = (const char *)agent_state_value(box_pointer(f), 8);
	bool there = box + hook->future.future_offset == f->future;
	uint64_t state;

	*ret_polled = true;
	if (hook->future.result.from == AR_PRESENT)
		return there && is_present(hook, box) ? AE_FUTURE_PENDING : AE_FUTURE_READY;
	if (!there || !has_tag(hook, box))
		return AE_FUTURE_READY;
	state = agent_state_value(future_state(hook, f->future), hook->future.result.size);
	*ret_polled = state != 0;
	return state <= hook->last_state ? by_state(hook, state) : AE_FUTURE_READY;
}

/* How a poll has ended by what it returned. */
static __attribute__((noinline)) uint64_t returned_outcome(const struct agent_future *f,
							   uint64_t first, uint64_t second)
{
	const struct agent_hook *hook = f->hook;
	uint32_t size = hook->future.result.size;
	const char *at;
	uint64_t value;

	switch (hook->future.result.from) {
	case AR_FIRST:
		value = agent_state_value((const char *)&first, size);
		break;
	case AR_SECOND:
		value = agent_state_value((const char *)&second, size);
		break;
	case AR_MEMORY:
		at = (const char *)f->result + hook->future.result.offset;
		if (!has_result(f, first, at))
			return AE_FUTURE_UNKNOWN;
		value = agent_state_value(at, size);
		break;
	default:
		return AE_FUTURE_UNKNOWN;
	}
	if (value == hook->future.pending)
		return AE_FUTURE_PENDING;
	return hook->future.result.ready == AR_ANY_READY || value == hook->future.result.ready
		       ? AE_FUTURE_READY
		       : AE_FUTURE_UNKNOWN;
}

/* A coroutine's state must be there to be read. */
static inline uint64_t outcome(const struct agent_future *f, uint64_t first, uint64_t second)
{
	const struct agent_hook *hook = f->hook;

	if (unlikely(hook->future.result.from != AR_STATE))
		return returned_outcome(f, first, second);
	return by_state(hook,
			agent_state_value(future_state(hook, f->future), hook->future.result.size));
}

/* Outside of every task's poll no event takes the chain. The state lies within what the
 * vtable says that the future takes: the tool has seen to that. */
static inline void chain_end(const struct agent_future *f, uint64_t first, uint64_t second)
{
	const struct agent_hook *hook = f->hook;
	struct agent_notes *n = f->notes;
	if (unlikely(hook->flags & AGENT_HOOK_LOOK)) {
		if (is_around(n, f->result))
			look_around(n, true);
		return;
	}
	uint32_t outer, base = chain_close(f, &outer);
	bool polled = true;
	if (unlikely(hook->flags & AGENT_HOOK_AROUND)) {
		around_end(f, outer, base);
		return;
	}
	uint64_t type = unlikely(hook->flags & AGENT_HOOK_HELD) ? held_outcome(f, &polled)
								: outcome(f, first, second);

	if (unlikely(!f->outer && !n->depth))
		n->n_chain = n->chain_base = 0;
	else if (type == AE_FUTURE_PENDING)
		chain_pending(f, outer, base);
	else
		n->n_chain = (uint16_t)base;
	if (unlikely(f->listed))
		handler_end(f, polled ? type : AE_FUTURE_PENDING);
}

/* Whether its end may be recorded: not if we were switched off since, in the child of a fork, or if
 * the ring is another recording's. Then nothing of the ring is touched. */
static bool is_still_open(const struct agent_future *f)
{
	return likely(agent_live() && agent_claim(f->notes) == f->claim);
}

/*
 * The poll is no longer open, nor are those in it: what a program has left on another stack (a coroutine's)
 * ends later or never. False: it is such a one, and those around it are gone: what is open now is not
 * changed by its end.
 */
static inline bool close_poll(const struct agent_future *f)
{
	struct agent_notes *n = f->notes;

	if (unlikely(f != n->futures && f->outer && f->depth > n->n_futures))
		return false;
	n->futures = f->outer;
	n->n_futures = (uint16_t)(f->depth - 1);
	return true;
}

/* The end of a poll. */
static inline void put_end(const struct agent_future *f, uint64_t type, uint64_t point)
{
	if (point)
		agent_put(f->notes, AE_FUTURE_PENDING_AT, agent_ref(point, (uint64_t)f->future));
	else
		agent_put(f->notes, type, agent_ref(f->hook->kind, (uint64_t)f->future));
}

/* `first` and `second` are the registers of the result. */
void agent_future_end(struct agent_future *f, uint64_t first, uint64_t second)
{
	if (!is_still_open(f))
		return;
	struct agent_notes *n = f->notes;
	uint64_t type, point = 0;
	uint32_t state;

	/* Of a poll that was left and is gone on with nothing waits for the links; another
	 * thread, if it is there now, has a ring of its own. */
	if (!close_poll(f) && (f->hook->flags & AGENT_HOOK_CHAIN || agent_peek_notes() != n))
		return;
	arch_barrier_local();
	if (f->hook->flags & AGENT_HOOK_CHAIN) {
		chain_end(f, first, second);
		return;
	}
	if (unlikely(!has_state(f))) {
		put_end(f, AE_FUTURE_UNKNOWN, 0);
		return;
	}
	if (likely(is_known_alone(f->hook, f->future, &state) && state)) {
		point = known_point(f->hook, state);
		put_end(f, AE_FUTURE_PENDING, point);
		return;
	}
	type = outcome(f, first, second);
	if (type == AE_FUTURE_PENDING && f->hook->flags & AGENT_HOOK_LIST) {
		if (unlikely(!is_alone(f->hook, f->future, &point)))
			point = list_end(f);
	} else if (type == AE_FUTURE_PENDING) {
		const struct agent_reach reach = reach_of(f);
		uint64_t resource; /* of no event */
		point = agent_point(f->hook, &reach, true, &resource);
	}
	if (unlikely(f->listed) && type == AE_FUTURE_READY &&
	    f->hook->future.result.from != AR_STATE)
		list_previous(f);
	put_end(f, type, point);
}

/* ---- a block_on's own future ---- */

/* Once: the call at the end of all, when the future has been dropped, may be its second one. */
static void put_root_ready(struct agent_future *f, bool at_end)
{
	struct agent_notes *n = f->notes;

	if (at_end && n->root == ROOT_OVER) {
		n->root = ROOT_POLLS;
		return;
	}
	n->root = at_end ? ROOT_POLLS : ROOT_OVER;
	put_end(f, AE_FUTURE_READY, 0);
}

/*
 * block_on waits: the poll of its future has ended, pending; or the future has returned: that of
 * async-io makes such calls at its end, too. The future lies in block_on's frame, which is there
 * until block_on returns, and no other thread uses it.
 */
bool agent_root_park_begin(struct agent_hook *hook, struct agent_future *f)
{
	const struct poll_caller at = frame_around(f);
	struct agent_hook *site = agent_hooks() + hook->park.first_site;
	uint32_t n_sites = hook->park.n_sites;
	bool at_end = hook->flags & AGENT_HOOK_ROOT_END;
	uint64_t type, point = 0;

	while (n_sites && site->orig != at.back) {
		site++;
		n_sites--;
	}
	if (!n_sites) { /* another's wait: what this thread does next isn't known */
		struct agent_notes *known = agent_live() ? agent_peek_notes() : NULL;
		if (known && known->root == (at_end ? ROOT_OVER : ROOT_WAITS))
			known->root = ROOT_POLLS;
		return false;
	}
	struct agent_notes *n = agent_may_frame(hook) ? agent_notes() : NULL;
	if (!n)
		return false;
	f->notes = n;
	f->claim = agent_claim(n);
	f->hook = site;
	f->future = at.sp + site->future.frame_offset;
	n->n_pages = 0;
	type = has_state(f) ? outcome(f, 0, 0) : AE_FUTURE_UNKNOWN;
	if (type == AE_FUTURE_READY) {
		put_root_ready(f, at_end);
		return !at_end; /* a frame, so that what it calls isn't taken for the site's call */
	}
	if (type != AE_FUTURE_PENDING || at_end)
		return false;
	if (n->root == ROOT_WAITS)
		return true;
	n->root = ROOT_POLLS;
	if (!is_alone(site, f->future, &point))
		point = list_end(f);
	put_end(f, AE_FUTURE_PENDING, point);
	return true;
}

/* Right after that it polls again, or waits again. */
void agent_root_park_end(struct agent_future *f, uint64_t first)
{
	if (!is_still_open(f) || f->notes->root == ROOT_OVER)
		return;
	if (f->hook->flags & AGENT_HOOK_RETURNS_READY && !(first & 0xff)) {
		f->notes->root = ROOT_WAITS;
		return;
	}
	f->notes->root = ROOT_POLLS;
	f->notes->n_pages = 0;
	put_begin(f);
}

static void unwound_chain(struct agent_future *f, uint64_t type)
{
	struct agent_notes *n = f->notes;
	uint32_t outer;

	if (f->hook->flags & AGENT_HOOK_LOOK)
		return;
	n->n_chain = (uint16_t)chain_close(f, &outer);
	if (f->hook->flags & AGENT_HOOK_AROUND && n->around == f->result) {
		f->listed = n->around_open;
		f->future = n->around_future;
		n->around = NULL;
	}
	if (f->listed)
		handler_end(f, type);
}

/*
 * A panic, or a thread's forced end, passes the thunk's frame, in which the future lies. If that is
 * not the innermost one the program has left another one on another stack, which may be gone: that
 * is not looked at, and nothing is recorded.
 */
void agent_future_unwound(bool forced, void *context, uint64_t from)
{
	struct agent_notes *n = agent_live() ? agent_peek_notes() : NULL;
	uint64_t rbp;

	if (!n || !agent_unwound_register(context, from, ARCH_RBP, &rbp))
		return;
	struct agent_future *f = (struct agent_future *)(rbp - 8) - 1;
	if (f != n->futures || f->claim != agent_claim(n))
		return;
	close_poll(f);
	if (f->hook->flags & AGENT_HOOK_CHAIN) {
		unwound_chain(f, forced ? AE_FUTURE_UNKNOWN : AE_FUTURE_PANICKED);
		return;
	}
	agent_put(n, forced ? AE_FUTURE_UNKNOWN : AE_FUTURE_PANICKED,
		  agent_ref(f->hook->kind, (uint64_t)f->future));
}
