/*
 * A thread's ring: found by the thread pointer, claimed once, and the slow ways of writing to it.
 *
 * A ring belongs to the thread whose tid stands in its `owner`; `generation` counts the owners.
 * Both together are the claim that a thread remembers in its slot of the table, so that a ring that
 * was given to another thread in between is noticed at the next look. A new thread at a dead one's
 * thread pointer (nearly every new thread is) takes the dead one's ring over and says so with
 * AE_THREAD.
 *
 * Several threads may enter themselves at once, and the tool gives back dead threads' rings at the
 * same time: every claim is one compare-and-swap. Nothing here waits for anybody.
 */
#include "agent/agent.h"

/* A slot's `claim` while its new owner fills it; no tid is as large. */
#define SLOT_TAKEN UINT64_MAX

/* About a millisecond: so long nobody looks for a free ring again when there was none. */
#define NO_RING_TICKS (1u << 21)

static struct ring *ring_at(uint32_t i)
{
	const struct agent_state *s = agent_state();
	const struct ring_area *area = (const struct ring_area *)s->rings;

	return (struct ring *)(s->rings + sizeof(*area) +
			       (uint64_t)i * (area->ring_bytes + sizeof(struct ring)));
}

static bool swap64(uint64_t *word, uint64_t from, uint64_t to)
{
	return __atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

/* Turns the ring over to the thread if it is still as `claim` says. */
static bool ring_take(struct ring *r, uint64_t claim, uint32_t tid, uint64_t *ret_claim)
{
	uint64_t mine = ((claim >> 32) + 1) << 32 | tid;

	if (!swap64((uint64_t *)&r->owner, claim, mine))
		return false;
	const struct ring_area *area = (const struct ring_area *)agent_state()->rings;
	struct agent_notes *n = agent_notes(r);
	n->busy = 1;
	n->head = r->head;
	n->limit = 0;
	n->mask = area->ring_bytes - 1;
	n->wake = 0;
	n->wake_end = UINT64_MAX;
	n->tail_open = 0;
	n->unnamed = 1;
	n->depth = 0;
	n->futures = NULL;
	n->shutting = NULL;
	n->thread_id = tid;
	arch_barrier_local();
	n->busy = 0;
	*ret_claim = mine;
	return true;
}

/* The next poll of this task that is open on some thread; NULL if there is none. There may be two:
 * a thread that has let the task go is not yet back in agent_tokio_poll() when the next one polls
 * it. Only for rare cases. */
struct agent_poll *agent_find_poll(const void *header, struct agent_search *at)
{
	struct ring_area *area = (struct ring_area *)agent_state()->rings;
	uint32_t n_used = __atomic_load_n(&area->n_used, __ATOMIC_ACQUIRE);

	for (; at->ring < n_used && at->ring < AGENT_MAX_RINGS; at->ring++, at->poll = 0) {
		struct agent_notes *n = agent_notes(ring_at(at->ring));
		uint32_t depth = __atomic_load_n(&n->depth, __ATOMIC_ACQUIRE);

		while (at->poll < depth && at->poll < AGENT_MAX_POLLS) {
			struct agent_poll *poll = &n->polls[at->poll++];

			if (poll->header == header)
				return poll;
		}
	}
	return NULL;
}

/* Whether some thread is about to shut this task down. Only for rare cases. */
bool agent_is_shutting(const void *header)
{
	struct ring_area *area = (struct ring_area *)agent_state()->rings;
	uint32_t n_used = __atomic_load_n(&area->n_used, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < n_used && i < AGENT_MAX_RINGS; i++)
		if (__atomic_load_n(&agent_notes(ring_at(i))->shutting, __ATOMIC_ACQUIRE) == header)
			return true;
	return false;
}

static struct ring *ring_claim(uint32_t tid, uint64_t *ret_claim)
{
	struct ring_area *area = (struct ring_area *)agent_state()->rings;
	uint32_t n_rings = area->n_rings;
	uint32_t n_used = __atomic_load_n(&area->n_used, __ATOMIC_ACQUIRE);

	if (n_rings > AGENT_MAX_RINGS)
		n_rings = AGENT_MAX_RINGS;
	for (uint32_t i = 0; i < n_rings; i++) {
		struct ring *r = ring_at(i);
		uint64_t claim = agent_claim(r);

		if ((uint32_t)claim != RING_FREE || !ring_take(r, claim, tid, ret_claim))
			continue;
		while (n_used <= i &&
		       !__atomic_compare_exchange_n(&area->n_used, &n_used, i + 1, false,
						    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			;
		return r;
	}
	return NULL;
}

/* Whether a thread may enter itself here: nobody did, or the one who did is dead, since its ring
 * went to somebody else. */
static bool slot_is_free(const struct agent_thread *slot, uint64_t claim)
{
	return claim != SLOT_TAKEN && (!claim || agent_claim(slot->ring) != claim);
}

/* Where the thread is or may be entered, and the slot's claim as it was found. */
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
static struct ring *enter(struct agent_thread *slot, uint64_t was, uint64_t thread)
{
	struct agent_private *p = agent_private();
	uint32_t tid_offset = p->state.tid_offset;
	uint32_t tid = tid_offset ? *(uint32_t *)(thread + tid_offset) : (uint32_t)arch_gettid();
	struct ring *r = slot->ring;
	uint64_t claim;

	if (slot->thread != thread || !was || !ring_take(r, was, tid, &claim)) {
		r = ring_claim(tid, &claim);
		if (!r) {
			__atomic_store_n(&slot->claim, was, __ATOMIC_RELEASE);
			__atomic_store_n(&p->no_ring_until, arch_ticks() + NO_RING_TICKS,
					 __ATOMIC_RELAXED);
			return NULL;
		}
	}
	slot->thread = thread;
	slot->ring = r;
	__atomic_store_n(&slot->claim, claim, __ATOMIC_RELEASE);
	return r;
}

struct ring *agent_find_ring(uint64_t thread)
{
	struct agent_private *p = agent_private();

	/* Another thread may take the slot first; it is looked for anew then. */
	for (int tries = 0; tries < 16; tries++) {
		uint64_t was = 0;
		struct agent_thread *slot = find_slot(thread, &was);

		if (!slot)
			return NULL;
		bool known = slot->thread == thread && was;
		if (known && agent_slot_holds(slot, thread))
			return slot->ring;
		uint64_t until = __atomic_load_n(&p->no_ring_until, __ATOMIC_RELAXED);
		if (!known && until && (int64_t)(arch_ticks() - until) < 0)
			return NULL;
		if (swap64(&slot->claim, was, SLOT_TAKEN))
			return enter(slot, was, thread);
	}
	return NULL;
}

struct ring *agent_peek_ring_slowly(uint64_t thread)
{
	struct agent_private *p = agent_private();
	uint64_t first = agent_slot_of(thread);

	for (uint32_t i = 0; i < AGENT_THREAD_PROBES; i++) {
		struct agent_thread *s = &p->threads[(first + i) % AGENT_N_THREADS];
		uint64_t claim = __atomic_load_n(&s->claim, __ATOMIC_ACQUIRE);

		if (s->thread == thread && claim && claim != SLOT_TAKEN)
			return agent_slot_holds(s, thread) ? s->ring : NULL;
		if (!s->thread)
			return NULL;
	}
	return NULL;
}

/* A thread without a ring comes to a blocking call: it gets one if it stood in a block_on at
 * attach.
 */
struct ring *agent_root_ring(void)
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
		return agent_find_ring(thread);
	}
	return NULL;
}

void agent_no_ring(uint32_t n_events)
{
	__atomic_fetch_add(&agent_state()->no_ring, n_events, __ATOMIC_RELAXED);
}

void agent_lose(struct ring *r, uint64_t n_events)
{
	arch_add_local(&r->dropped, n_events);
	arch_add_local(&r->lost, n_events);
	agent_notes(r)->limit = 0;
}

/* A burst: the tool sleeps for longer than the ring may take. */
static void wake_tool(void)
{
	struct ring_area *area = (struct ring_area *)agent_state()->rings;

	if (__atomic_load_n(&area->asleep, __ATOMIC_RELAXED) &&
	    __atomic_exchange_n(&area->asleep, 0, __ATOMIC_ACQ_REL))
		arch_wake(&area->asleep);
}

/*
 * Finds the place of the head, and how far the room goes on from there in one piece, or until it is
 * time to look again whether the tool keeps up: notes.place, notes.limit. Returns all the room that
 * there is, also in other pieces.
 */
static uint64_t find_room(struct ring *r, uint64_t tail)
{
	struct agent_notes *n = agent_notes(r);
	uint64_t size = (uint64_t)n->mask + 1, used = n->head - tail, room, run;
	uint64_t near = ring_near(size), far = size - near;
	bool wide = r->far_end == UINT64_MAX;

	if (used > size)
		return 0; /* a tail that can't be */
	/* A turn in the far part is over, nothing unread lies in the near one: calm enough? */
	if (wide && ((n->head - r->far_begin) & n->mask) == far && used <= near / 2) {
		__atomic_store_n(&r->far_end, n->head, __ATOMIC_RELEASE);
		wide = false;
	}
	if (!wide) {
		bool over = tail >= r->far_end; /* nothing unread lies in the far part */
		uint64_t filled = over ? used : n->head - r->far_end;

		if (filled >= near) {
			/* If it isn't over, then the turns go on as if they had not ended: it is
			 * just the far part's turn. */
			if (over)
				__atomic_store_n(&r->far_begin, n->head, __ATOMIC_RELEASE);
			__atomic_store_n(&r->far_end, UINT64_MAX, __ATOMIC_RELEASE);
			wide = true;
		} else {
			room = near - filled;
		}
	}
	if (wide)
		room = size - used;
	if (used >= near)
		wake_tool();
	n->place = ring_place(n->head, r->far_begin, r->far_end, size, &run);
	run = run < near ? run : near;
	n->limit = n->head + (run < room ? run : room);
	return room;
}

static void write_event(struct ring *r, uint64_t tail, uint64_t word0, uint64_t word1)
{
	struct agent_notes *n = agent_notes(r);
	struct agent_event *event = (struct agent_event *)((char *)(r + 1) + n->place);

	event->word0 = word0;
	event->word1 = word1;
	n->head += sizeof(*event);
	__atomic_store_n(&r->head, n->head, __ATOMIC_RELEASE);
	find_room(r, tail);
}

/*
 * Looks how far the reader has come and makes the way free for one event at notes.head, after what
 * must be told first. False: there is no room, the event was counted as dropped. The caller has set
 * notes.busy. The tool's death shows here too: it renews the deadline as long as it lives.
 */
bool agent_room(struct ring *r, uint64_t ticks)
{
	struct agent_notes *n = agent_notes(r);
	struct ring_area *area = (struct ring_area *)agent_state()->rings;
	uint64_t tail = __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE) & ~(uint64_t)15;
	uint64_t lost = r->lost;
	uint64_t need = sizeof(struct agent_event) * (1 + (lost != 0) + n->unnamed);

	if (find_room(r, tail) < need) {
		uint64_t deadline = __atomic_load_n(&area->deadline, __ATOMIC_RELAXED);

		agent_lose(r, 1);
		if (deadline && ticks > deadline)
			__atomic_store_n(&((struct agent_switch *)agent_image.live)->enabled, 0,
					 __ATOMIC_RELAXED);
		return false;
	}
	if (lost) {
		write_event(r, tail, ticks << 8 | AE_LOST, lost);
		arch_add_local(&r->lost, -lost);
	}
	if (n->unnamed) {
		write_event(r, tail, ticks << 8 | AE_THREAD, n->thread_id);
		n->unnamed = 0;
	}
	arch_barrier_local();
	if (r->lost) /* a signal handler's, just now */
		n->limit = 0;
	return true;
}

/* Whether so many events, and what must be told before them, find room in the half of the ring that
 * what may be left out may fill. */
bool agent_has_room(struct ring *r, uint64_t n_events)
{
	const struct agent_notes *n = agent_notes(r);
	uint64_t tail = __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE);

	return n->head - tail + (n_events + 2) * sizeof(struct agent_event) <= n->mask / 2;
}

/*
 * Tells the program's unwinder of our frames. It takes a lock of libgcc's and allocates, so it is
 * done where no such lock can be held: at the start of a poll. Once per process; the others go on
 * meanwhile (their frames are walkable as soon as this is done).
 */
void agent_register(void)
{
	struct agent_state *s = agent_state();
	uint32_t none = 0;

	if (!__atomic_compare_exchange_n(&s->registered, &none, s->register_frame ? 1 : 3, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED) ||
	    !s->register_frame)
		return;
	((void (*)(const void *))s->register_frame)((const void *)s->eh_frame);
	__atomic_store_n(&s->registered, 2, __ATOMIC_RELEASE);
}
