/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A thread's ring: found by the thread pointer, claimed once, and the slow paths of writing to it.
 *
 * A ring belongs to the thread whose tid is in the claim of the ring's notes; the generation in
 * the claim counts the owners. A thread remembers the claim in its slot of the table of threads,
 * so it notices when its ring went to another thread. Nearly every new thread has the thread
 * pointer of a dead one: it takes the dead thread's ring over, and writes AE_THREAD.
 *
 * Several threads may enter themselves at once, while the tool frees rings of dead threads: every
 * claim is one compare-and-swap in private memory. Nothing here waits.
 */
#include "agent/agent.h"

/* A slot's `claim` while its new owner fills it; no tid is as large. */
#define SLOT_TAKEN UINT64_MAX

static struct agent_notes *notes_at(uint32_t i)
{
	return &agent_private()->notes[i];
}

static struct ring_area *ring_area(void)
{
	return (struct ring_area *)agent_state()->rings;
}

static struct ring *ring_of(const struct agent_notes *n)
{
	const struct agent_state *s = agent_state();

	return (struct ring *)(s->rings + sizeof(struct ring_area) +
			       (uint64_t)(n - notes_at(0)) * (s->ring_bytes + sizeof(struct ring)));
}

static uint32_t n_rings(void)
{
	uint32_t n = agent_state()->n_rings;

	return n < AGENT_MAX_RINGS ? n : AGENT_MAX_RINGS;
}

static uint32_t n_used(void)
{
	return __atomic_load_n(&agent_state()->n_used, __ATOMIC_ACQUIRE);
}

static bool swap64(uint64_t *word, uint64_t from, uint64_t to)
{
	return __atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

static uint64_t next_claim(uint64_t claim, uint32_t tid)
{
	uint32_t generation = (uint32_t)(claim >> 32) + 1;

	return (uint64_t)(generation ? generation : 1) << 32 | tid;
}

/* Gives the ring to the thread if its claim is still `claim`. The thread goes on writing where the
 * last owner stopped. */
static bool notes_take(struct agent_notes *n, uint64_t claim, uint32_t tid, uint64_t *ret_claim)
{
	uint64_t mine = next_claim(claim, tid);

	if (!swap64(&n->owner.claim, claim, mine))
		return false;
	n->busy = 1;
	n->limit = 0;
	n->ring = ring_of(n);
	n->owner.mask = agent_state()->ring_bytes - 1;
	agent_put_wait(n, 0);
	n->wake = 0;
	n->wake_end = UINT64_MAX;
	n->unnamed = 1;
	n->root = ROOT_POLLS;
	__atomic_store_n(&n->depth, 0, __ATOMIC_RELAXED);
	n->n_pages = 0;
	n->futures = NULL;
	n->n_chain = n->chain_base = 0;
	n->handler = 0;
	__atomic_store_n(&n->shutting, NULL, __ATOMIC_RELAXED);
	arch_barrier_local();
	n->busy = 0;
	*ret_claim = mine;
	return true;
}

/* The next poll of this task that is open on some thread; NULL if there is none. There may be
 * two: a thread that has released the task may not be back in agent_tokio_poll() when the next
 * one polls it. Only for rare cases. */
struct agent_poll *agent_find_poll(const void *header, struct agent_search *at)
{
	for (; at->ring < n_used() && at->ring < AGENT_MAX_RINGS; at->ring++, at->poll = 0) {
		struct agent_notes *n = notes_at(at->ring);
		uint32_t depth = __atomic_load_n(&n->depth, __ATOMIC_ACQUIRE);

		while (at->poll < depth && at->poll < AGENT_MAX_POLLS) {
			struct agent_poll *poll = &n->polls[at->poll++];

			if (__atomic_load_n(&poll->header, __ATOMIC_RELAXED) == header)
				return poll;
		}
	}
	return NULL;
}

/* Whether some thread is about to shut this task down. Only for rare cases. */
bool agent_is_shutting(const void *header)
{
	for (uint32_t i = 0; i < n_used() && i < AGENT_MAX_RINGS; i++)
		if (__atomic_load_n(&notes_at(i)->shutting, __ATOMIC_ACQUIRE) == header)
			return true;
	return false;
}

/* Notes that rings [0, i] are used. The reader has a copy of that number, which must include all
 * claimed rings: a thread that finds that the number grew while it copied it copies it again. */
static void note_used(uint32_t i)
{
	struct agent_state *s = agent_state();
	uint32_t n = n_used();

	while (n <= i && !__atomic_compare_exchange_n(&s->n_used, &n, i + 1, false,
						      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;
	do {
		n = n_used();
		__atomic_store_n(&ring_area()->n_used, n, __ATOMIC_SEQ_CST);
	} while (__atomic_load_n(&s->n_used, __ATOMIC_SEQ_CST) != n);
}

static struct agent_notes *claim_any(uint32_t tid, uint64_t *ret_claim)
{
	for (uint32_t i = 0; i < n_rings(); i++) {
		struct agent_notes *n = notes_at(i);
		uint64_t claim = agent_claim(n);

		if (((uint32_t)claim && !agent_is_dead(n, claim)) ||
		    !notes_take(n, claim, tid, ret_claim))
			continue;
		if (agent_live())
			note_used(i);
		return n;
	}
	return NULL;
}

/* Whether a thread may enter itself here: the slot is free, or its thread is dead, because its ring
 * is free or has another owner. */
static bool slot_is_free(const struct agent_thread *slot, uint64_t claim)
{
	return claim != SLOT_TAKEN &&
	       (!claim || agent_claim(slot->notes) != claim || agent_is_dead(slot->notes, claim));
}

/* The slot in which the thread is, or may enter itself, and that slot's claim. */
static struct agent_thread *find_slot(uint64_t thread, uint64_t *ret_claim)
{
	struct agent_thread *threads = agent_private()->threads;
	uint64_t first = agent_slot_of(thread);
	struct agent_thread *free = NULL;

	for (uint32_t i = 0; i < AGENT_THREAD_PROBES; i++) {
		struct agent_thread *slot = &threads[(first + i) % AGENT_N_THREADS];
		uint64_t claim = __atomic_load_n(&slot->claim, __ATOMIC_ACQUIRE);

		if (slot->thread == thread && claim && claim != SLOT_TAKEN) {
			*ret_claim = claim;
			return slot;
		}
		if (!free && slot_is_free(slot, claim)) {
			free = slot;
			*ret_claim = claim;
		}
		if (!slot->thread && claim != SLOT_TAKEN)
			break;
	}
	return free;
}

/* Enters the thread at the slot with a ring: a dead thread's at the same thread pointer, else a
 * free one. NULL: there is none. */
static struct agent_notes *enter(struct agent_thread *slot, uint64_t was, uint64_t thread)
{
	struct agent_private *p = agent_private();
	uint32_t tid_offset = p->state.tid_offset;
	uint32_t tid = tid_offset		     ? *(uint32_t *)(thread + tid_offset)
		       : agent_may(AGENT_MAY_GETTID) ? (uint32_t)arch_gettid()
						     : 0;
	struct agent_notes *n = slot->notes;
	uint64_t claim;

	if (!tid || slot->thread != thread || !was || !notes_take(n, was, tid, &claim)) {
		n = tid ? claim_any(tid, &claim) : NULL;
		if (!n) {
			__atomic_store_n(&slot->claim, was, __ATOMIC_RELEASE);
			__atomic_store_n(&p->no_ring_until, arch_ticks() + p->state.no_ring_ticks,
					 __ATOMIC_RELAXED);
			return NULL;
		}
	}
	/* The thread last: a signal handler of the same thread reads the rest if it finds itself
	 * there. */
	agent_check((uint32_t)claim == tid && n->ring == ring_of(n));
	slot->notes = n;
	arch_barrier_local();
	slot->thread = thread;
	__atomic_store_n(&slot->claim, claim, __ATOMIC_RELEASE);
	return n;
}

struct agent_notes *agent_find_notes(uint64_t thread)
{
	struct agent_private *p = agent_private();

	/* Another thread may take the slot first; the search starts again then. */
	for (int tries = 0; tries < 16; tries++) {
		uint64_t was = 0;
		struct agent_thread *slot = find_slot(thread, &was);

		if (!slot)
			return NULL;
		bool known = slot->thread == thread && was;
		if (known && agent_slot_holds(slot, thread))
			return slot->notes;
		uint64_t until = __atomic_load_n(&p->no_ring_until, __ATOMIC_RELAXED);
		if (!known && until && (int64_t)(arch_ticks() - until) < 0)
			return NULL;
		if (swap64(&slot->claim, was, SLOT_TAKEN))
			return enter(slot, was, thread);
	}
	return NULL;
}

/* The slot in which the thread is; NULL: in none. */
static struct agent_thread *slot_of(uint64_t thread)
{
	struct agent_thread *threads = agent_private()->threads;
	uint64_t first = agent_slot_of(thread);

	for (uint32_t i = 0; i < AGENT_THREAD_PROBES; i++) {
		struct agent_thread *s = &threads[(first + i) % AGENT_N_THREADS];
		uint64_t claim = __atomic_load_n(&s->claim, __ATOMIC_ACQUIRE);

		if (s->thread == thread && claim && claim != SLOT_TAKEN)
			return s;
		if (!s->thread)
			return NULL;
	}
	return NULL;
}

struct agent_notes *agent_peek_notes_slowly(uint64_t thread)
{
	const struct agent_thread *slot = slot_of(thread);

	return slot && agent_slot_holds(slot, thread) ? slot->notes : NULL;
}

struct agent_notes *agent_kept_notes_slowly(uint64_t thread)
{
	const struct agent_thread *slot = slot_of(thread);

	return slot && agent_claim(slot->notes) == slot->claim ? slot->notes : NULL;
}

/* A thread without a ring comes to a blocking call: it gets one if it was in a block_on at attach.
 */
struct agent_notes *agent_root_notes(void)
{
	struct agent_state *s = agent_state();
	uint64_t thread = arch_thread();
	uint32_t tid;

	if (likely(!s->n_roots) || !s->tid_offset)
		return NULL;
	tid = *(uint32_t *)(thread + s->tid_offset);
	for (uint32_t i = 0; i < AGENT_MAX_ROOTS && i < s->n_roots; i++) {
		if (s->roots[i] != tid)
			continue;
		s->roots[i] = 0;
		return agent_find_notes(thread);
	}
	return NULL;
}

void agent_no_ring(uint32_t n_events)
{
	__atomic_fetch_add(&agent_state()->no_ring, n_events, __ATOMIC_RELAXED);
}

void agent_lose(struct agent_notes *n, uint64_t n_events)
{
	if (!agent_live())
		return;
	arch_add_local(&n->ring->dropped, n_events);
	arch_add_local(&n->lost, n_events);
	n->limit = 0;
}

/* In a burst of events the ring would be full before the tool wakes up by itself. */
static void wake_tool(void)
{
	struct ring_area *area = ring_area();

	if (agent_may(AGENT_MAY_WAKE) && __atomic_load_n(&area->asleep, __ATOMIC_RELAXED) &&
	    __atomic_exchange_n(&area->asleep, 0, __ATOMIC_ACQ_REL))
		arch_wake(&area->asleep);
}

static void set_far_end(struct agent_notes *n, uint64_t end)
{
	n->far_end = end;
	__atomic_store_n(&n->ring->far_end, end, __ATOMIC_RELEASE);
}

/*
 * Sets notes.ring_pos, the position of the head, and notes.limit, the count up to which events can
 * be written from there on: the end of the contiguous room, or earlier, to check whether the tool
 * keeps up. Returns all room in the ring, contiguous or not.
 */
static uint64_t find_room(struct agent_notes *n, uint64_t tail)
{
	uint64_t size = (uint64_t)n->owner.mask + 1, used = n->head - tail, room, run;
	uint64_t near = ring_near(size), far = size - near;
	bool wide = n->far_end == UINT64_MAX;

	if (used > size)
		return 0; /* a tail that can't be */
	/* The end of a turn through the far part. If little is unread, the near part suffices. */
	if (wide && ((n->head - n->far_begin) & n->owner.mask) == far && used <= near / 2) {
		set_far_end(n, n->head);
		wide = false;
	}
	if (!wide) {
		bool over = tail >= n->far_end; /* nothing unread lies in the far part */
		uint64_t filled = over ? used : n->head - n->far_end;

		if (filled >= near) {
			/* If the reader is still in the far part, the turns through the whole
			 * ring go on as if they had not ended: the far part is next. */
			if (over) {
				n->far_begin = n->head;
				__atomic_store_n(&n->ring->far_begin, n->head, __ATOMIC_RELEASE);
			}
			set_far_end(n, UINT64_MAX);
			wide = true;
		} else {
			room = near - filled;
		}
	}
	if (wide)
		room = size - used;
	if (used >= near)
		wake_tool();
	n->ring_pos = (uint32_t)ring_place(n->head, n->far_begin, n->far_end, size, &run);
	run = run < near ? run : near;
	n->limit = n->head + (run < room ? run : room);
	agent_check(room <= size && n->ring_pos + (n->limit - n->head) <= size);
	return room;
}

static void write_event(struct agent_notes *n, uint64_t tail, uint64_t word0, uint64_t word1)
{
	struct agent_event *event =
		(struct agent_event *)((char *)(n->ring + 1) + (n->ring_pos & n->owner.mask));

	event->word0 = word0;
	event->word1 = word1;
	n->head += sizeof(*event);
	__atomic_store_n(&n->ring->head, n->head, __ATOMIC_RELEASE);
	find_room(n, tail);
}

/*
 * Reads the tail and makes room for one event at notes.head, after events that must come before it
 * (AE_LOST, AE_THREAD). False: there is no room, and the event was counted as dropped. The caller
 * has set notes.busy. If the ring is full and the tool has not renewed the deadline, the tool is
 * dead: the agent disables itself.
 */
bool agent_room(struct agent_notes *n, uint64_t ticks)
{
	uint64_t tail = __atomic_load_n(&n->ring->tail, __ATOMIC_ACQUIRE) & ~(uint64_t)15;
	uint64_t lost = n->lost;
	uint64_t need = sizeof(struct agent_event) * (1 + (lost != 0) + n->unnamed);

	if (find_room(n, tail) < need) {
		uint64_t deadline = __atomic_load_n(&agent_state()->deadline, __ATOMIC_RELAXED);

		agent_lose(n, 1);
		if (deadline && ticks > deadline)
			__atomic_store_n(&((struct agent_switch *)agent_image.live)->enabled, 0,
					 __ATOMIC_RELAXED);
		return false;
	}
	if (lost) {
		write_event(n, tail, ticks << 8 | AE_LOST, lost);
		arch_add_local(&n->lost, -lost);
	}
	if (n->unnamed) {
		write_event(n, tail, ticks << 8 | AE_THREAD, (uint32_t)agent_claim(n));
		n->unnamed = 0;
	}
	arch_barrier_local();
	if (n->lost) /* a signal handler's, just now */
		n->limit = 0;
	return true;
}

/* Whether this many events, and those that must come before them, fit into the half of the ring
 * that optional events may fill. */
bool agent_has_room(struct agent_notes *n, uint64_t n_events)
{
	if (!agent_live())
		return false;
	uint64_t tail = __atomic_load_n(&n->ring->tail, __ATOMIC_ACQUIRE);

	return n->head - tail + (n_events + 2) * sizeof(struct agent_event) <= n->owner.mask / 2;
}

/*
 * In the child of a fork() there are no rings, and nothing is recorded. But if a signal handler has
 * forked in the middle of an event and returns in the child, the thread writes the rest of its
 * event: so this maps memory there. The child would crash without it, so nothing is lost if a
 * seccomp filter kills the child for this call.
 */
void agent_child(void)
{
	const struct agent_state *s = agent_state();
	const struct agent_notes *n = agent_kept_notes();
	const uint64_t page = AGENT_PAGE - 1;

	if (likely(!n || !n->busy))
		return;
	uint64_t ring = (uint64_t)n->ring, end = ring + sizeof(struct ring) + n->owner.mask + 1;
	arch_fill_hole(s->rings, sizeof(struct ring_area));
	if ((ring & ~page) < s->rings + sizeof(struct ring_area))
		ring = s->rings + sizeof(struct ring_area);
	arch_fill_hole(ring & ~page, ((end + page) & ~page) - (ring & ~page));
}

/* Whether its library was unloaded since pollux found it: then no code uses this unwinder. */
static bool is_gone(const struct agent_unwinder *u)
{
	return agent_may(AGENT_MAY_ASK) &&
	       !(arch_readable(u->find_fde & ~7ull) && arch_readable(u->register_frame & ~7ull));
}

/* Whether an unwinder knows the agent's frames. */
static bool knows_us(const struct agent_unwinder *u)
{
	typedef const void *(*find_fn)(const void *pc, void *bases);
	uint64_t bases[4]; /* struct dwarf_eh_bases has three */

	return ((find_fn)u->find_fde)((const void *)agent_register, bases) != NULL;
}

/*
 * Registers the agent's frames with the program's unwinders, except those that know them from an
 * earlier recording. This takes a lock of libgcc's and allocates, so the agent does it where the
 * thread can hold no such lock: at the start of a poll. Once per attach; other threads go on
 * meanwhile, and their frames can be unwound as soon as this is done. An unwinder that doesn't know
 * the frames afterwards isn't libgcc's.
 */
void agent_register(void)
{
	struct agent_state *s = agent_state();
	struct arch_vectors vectors;
	uint32_t registered = 0;

	if (!__atomic_compare_exchange_n(&s->registered, &registered, 1, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return;
	/* A future's poll may have arguments there. */
	arch_save_vectors(&vectors);
	registered = s->n_unwinders ? 2 : 3;
	for (uint32_t i = 0; i < s->n_unwinders; i++) {
		const struct agent_unwinder *u = &s->unwinders[i];

		if (is_gone(u) || knows_us(u))
			continue;
		((void (*)(const void *))u->register_frame)((const void *)s->eh_frame);
		if (!knows_us(u))
			registered = 3;
	}
	arch_restore_vectors(&vectors);
	__atomic_store_n(&s->registered, registered, __ATOMIC_RELEASE);
}

/*
 * The value of a register in the frame that a panic passes, whichever stack the frame is on. The
 * unwinder that called the personality routine, from code at `from`, knows it; of several unwinders
 * that is the nearest one. False: unknown.
 */
bool agent_unwound_register(void *context, uint64_t from, int number, uint64_t *ret_value)
{
	const struct agent_state *s = agent_state();
	const struct agent_unwinder *nearest = NULL;
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < s->n_unwinders && i < AGENT_MAX_UNWINDERS; i++) {
		const struct agent_unwinder *u = &s->unwinders[i];
		uint64_t far = u->find_fde > from ? u->find_fde - from : from - u->find_fde;

		if (far < least) {
			nearest = u;
			least = far;
		}
	}
	if (!nearest || !nearest->get_register)
		return false;
	*ret_value = ((uint64_t(*)(void *, int))nearest->get_register)(context, number);
	return true;
}
