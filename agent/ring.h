/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The memory that the agent (inside the traced program) and the tool (pollux) share: the events,
 * the rings that carry them, and the tables of hooks. Two programs see all of it at once: fields
 * have a fixed width and are little-endian, sizes are asserted, structs grow only at their end,
 * and any change raises AGENT_ABI.
 *
 *     the agent mapping in the target, at an address that the tool chooses, has in this order:
 *
 *     image   R-X  private   the agent's code and constants
 *     stubs   R-X  private   one 16-byte stub per hook: mov $hook,%eax; jmp thunk
 *     state   RW-  private   struct agent_state, the agent's own tables, its notes on each ring,
 *                            then the hook table, then layout programs
 *     enable  RW-  private   one page, MADV_WIPEONFORK: struct agent_switch
 *     rings   RW-  memfd     struct ring_area, then n_rings x (struct ring + its events); not in a
 *                            fork's child, not in a core dump
 *
 * All hooks have one form. A *hook* is a pointer or instruction through which the program calls a
 * function (a slot of a task's vtable, of a waker's vtable, of a GOT, a patched spawn site, a call
 * whose target was changed); it has a number, a type, a kind and the original function. The stub
 * of hook i puts i into %eax and jumps to the thunk of its type. So the kind of any task is known
 * without a table: the poll slot of its vtable holds the address of a stub, and the position of
 * that stub is the hook's number.
 *
 * The image is position independent and has nothing left to relocate. It starts with struct
 * agent_image; the tool fills in the tool's words of that, writes image_bytes of it once, R-X, and
 * the stubs right after it (at area + image_bytes). The image has no data: all that the agent
 * changes is in the state part, whose first image.state_bytes are struct agent_state and the
 * agent's private tables after it (zeroed memory); the hook table follows.
 *
 * Neither side trusts the rings, since any process that maps them can write there. The reader (the
 * tool) treats events and heads as untrusted. The agent *writes* events, heads, counts, and copies
 * of what the reader must know; it *reads* only `tail`, to know whether there is room, and
 * `asleep`, where a wrong value costs a needless wake at worst (and none if AGENT_MAY_WAKE is not
 * set). All that it dereferences, calls, or uses as a position is in the private state part: the
 * rings' addresses and sizes, their owners, how far each is written, the open polls.
 *
 * The rings of an agent mapping never change their number, size or address. A thread that was
 * stopped inside the agent while one tool detached and another attached goes on writing where the
 * old rings were: there are the new ones, or memory without a reader.
 */
#pragma once

#include "agent/runtimes.h"

#include <stdint.h>

#define AGENT_MAGIC 0x0031786c6c6f70ULL /* "pollx1\0" */
#define AGENT_ABI 26u
#define AGENT_STUB_BYTES 16u
#define AGENT_MAX_HOOKS 65535u
#define AGENT_KIND_NONE 0xffffu
#define AGENT_MAX_RINGS 1024u
#define AGENT_MIN_RING_BYTES 4096u
#define AGENT_MAX_ROOTS 15u
#define AGENT_MAX_UNWINDERS 8u

/*
 * An event is two words, written in place:
 *   word0 = tsc << 8 | type         the low 56 bits of the time stamp counter; the reader restores
 *                                   the rest (it knows the present counter to within a day)
 *   word1 = kind << 48 | low 48 bits   a *task reference*, unless the type's comment says other
 * In a task reference the low 48 bits are the task's id where the runtime has one (Tokio), the
 * header's address where it has none (async-task) and where the kind is AGENT_KIND_NONE.
 *
 * The agent writes the end of a poll a little after the poll. If the task was woken in the poll,
 * another thread may have polled it by then, and it may even be complete. So if another poll of
 * the task began, or the task ended, after the begin of a poll, that poll ended pending, whatever
 * its end event says.
 */
struct agent_event {
	uint64_t word0;
	uint64_t word1;
};
_Static_assert(sizeof(struct agent_event) == 16, "agent_event");

enum agent_event_type {
	AE_NONE = 0,
	AE_POLL_BEGIN,	   /* task */
	AE_POLL_PENDING,   /* task: end of the innermost open poll of this thread */
	AE_POLL_READY,	   /* task: the same, the future returned */
	AE_POLL_PANICKED,  /* task: the same, it panicked */
	AE_POLL_CANCELLED, /* task: the same, it was dropped (abort) */
	AE_POLL_UNKNOWN,   /* task: the same, how it ended can't be known */
	AE_SPAWN,	   /* kind << 48 | last id given out as seen here, 0 if not known */
	AE_WAKE,	   /* task: the wake moves it from idle to scheduled */
	AE_WAKE_RUNNING,   /* task: woken while it is being polled */
	AE_WAKE_NOOP,	   /* task: already scheduled, or ended */
	AE_SCHEDULE,	   /* task: scheduled by something else than a waker (spawn, abort) */
	AE_CANCEL, /* task: dropped outside of a poll (aborted before it, runtime shutdown) */
	AE_DROP,   /* task: its memory is freed; the reference may be used again */
	AE_PARK,   /* call's number << 48: a wait (AH_WAIT) begins outside of every task's poll */
	AE_UNPARK, /* the same call << 48: it returned; | AGENT_UNPARK_IDLE */
	AE_BLOCK,  /* call's number << 48 | duration in ticks: a long call just ended, either a wait
		    * (AH_WAIT) inside a poll, or another call (AH_CALL) anywhere */
	AE_THREAD, /* tid: all that follows in this ring is this thread's */
	AE_LOST,   /* number of events dropped since the event before this one in this ring */
	/* kind << 48 | low 48 bits of a return address, 0: none: a block_on made its waker here
	 * (its kind is a root kind) */
	AE_ROOT_ENTER,
	AE_ROOT_WAKE,	    /* kind << 48 | low 48 bits of the waker's data: a block_on was woken */
	AE_POLL_PENDING_AT, /* await point << 48 | low 48 bits of the task reference: as
			     * AE_POLL_PENDING, with the task's await point. The kind is the point's
			     */
	/* Of futures, whose reference is kind << 48 | low 48 bits of the address of the future. A
	 * poll of one lies within whatever is open on the thread. */
	AE_FUTURE_BEGIN,
	AE_FUTURE_PENDING,
	AE_FUTURE_PENDING_AT, /* await point << 48 | low 48 bits of the reference: with its await
			       * point. The kind is the point's */
	AE_FUTURE_READY,
	AE_FUTURE_PANICKED,
	AE_FUTURE_UNKNOWN,
	/* await point << 48 | low 48 bits of the address of a state: a future inside the polled one
	 * (a task, another future) is suspended there. They come right after the begin of a poll
	 * and right before its end, all that are suspended, outer ones before those in them. Where
	 * a pointer leads to them there are two more before, with the pointer's number in place of
	 * a point's: its own address, and the address that it holds. */
	AE_FUTURE_SNAPSHOT_BEGIN, /* when the poll began */
	AE_FUTURE_SNAPSHOT_END,	  /* when it ended */
	AE_POLL_ABORTED, /* task: end of what was no poll: it was aborted between our look at it
			   * and the runtime's, and dropped unpolled */
	/* which << 48 | a word of the stack: right before an AE_SPAWN, AE_BLOCK or AE_RAISE, all
	 * with one time, the thread's registers there (agent_stack_word) and, in order, those
	 * words from rsp on that may be addresses, each with its place in words. The others are
	 * left out. */
	AE_STACK,
	/* As AE_FUTURE_SNAPSHOT_END, of a future that is no coroutine and is ready: the futures
	 * whose state is still in its memory, also those that have returned, by separate
	 * numbers. */
	AE_FUTURE_SNAPSHOT_PREV,
	AE_POLL_UNSEEN,	 /* task: right after the poll's begin: its end won't be seen, and what
			  * follows may be in it or after it */
	AE_FUTURE_FIRST, /* as AE_FUTURE_BEGIN, of a coroutine that was never polled: not the one
			  * that was there before */
	/* which descriptor << 32 | flags: right before the AE_BLOCK of a call that takes one. The
	 * flags are those of the call itself (MSG_DONTWAIT), 0 where it has none. */
	AE_DESCRIPTOR,
	/* Four links of the chain of what the task awaits in boxes, 16 bits each, the innermost
	 * first (AGENT_CHAIN_*; 0: no more): right before the end of its poll, with its time. What
	 * is in no box comes after them: the end's own await point. */
	AE_CHAIN,
	/* link << 56 | resource << 48 | low 48 bits of an address: what is waited for at a link
	 * of the chain, by its number from the innermost on (AGENT_LINK_OWN: at the end's own
	 * await point), as the program's node says (`resource`). After the chain, before the
	 * end, with its time. */
	AE_RESOURCE,
	/* Inside a poll a panic starts. Right before it, with its time, are its stack (AE_STACK)
	 * and what may be its message (AE_TEXT). */
	AE_RAISE,
	AE_TEXT, /* which << 48 | six bytes of a text, by their number from 0 on; 0: no more */
	AE_N_TYPES,
};

/* AE_UNPARK: an epoll that returned no event. */
#define AGENT_UNPARK_IDLE 1u

/* Calls have the numbers of the trace (src/trace/event.h, enum trace_call), which the agent passes
 * on. These are the calls and the ends of ranges that it knows: READ to CONNECT take a descriptor,
 * PTHREAD_MUTEX_LOCK to PTHREAD_COND_TIMEDWAIT wait for a lock. */
enum agent_call {
	AC_FUTEX = 1, /* syscall(SYS_futex, ..., FUTEX_WAIT*) only */
	AC_EPOLL_WAIT = 2,
	AC_EPOLL_PWAIT = 3,
	AC_EPOLL_PWAIT2 = 4,
	AC_READ = 12,
	AC_RECV = 18,
	AC_RECVFROM = 19,
	AC_SEND = 21,
	AC_SENDTO = 22,
	AC_CONNECT = 26,
	AC_PTHREAD_MUTEX_LOCK = 33,
	AC_PTHREAD_COND_TIMEDWAIT = 35,
};

/* What a hook's thunk does. `orig` is always the function that was there before. */
enum agent_hook_type {
	AH_NONE = 0,
	AH_TOKIO_POLL,	   /* Vtable.poll(header) */
	AH_TOKIO_SCHEDULE, /* Vtable.schedule(header) */
	AH_TOKIO_DEALLOC,  /* Vtable.dealloc(header) */
	AH_TOKIO_SHUTDOWN, /* Vtable.shutdown(header) */
	AH_TOKIO_WAKE,	   /* task WAKER_VTABLE: wake_by_val and wake_by_ref (header) */
	AH_ASYNC_RUN,	   /* TaskVTable.run(header) -> bool */
	AH_ASYNC_SCHEDULE, /* TaskVTable.schedule(header, ...) */
	AH_ASYNC_DESTROY,  /* TaskVTable.destroy(header) */
	AH_ASYNC_WAKE,	   /* RAW_WAKER_VTABLE: wake and wake_by_ref (header) */
	AH_ROOT_WAKE,	   /* waker of a block_on: wake and wake_by_ref (data) */
	AH_CALL,	   /* a call that may block, in a GOT; `kind` is its number */
	AH_SPAWN,	   /* the spawn site of a kind */
	AH_ROOT_ENTER,	   /* the place where a block_on makes its waker */
	AH_PANIC,	   /* _Unwind_RaiseException in a GOT: a panic starts on this thread */
	AH_ASYNC_CANCEL,   /* TaskVTable.drop_future(header), called where a task isn't run any more
			    */
	AH_FUTURE,     /* a word (of a vtable, of a GOT) that holds a future's poll function, or a
			* call of it */
	AH_TOKIO_READ, /* Vtable.try_read_output(header, ...) */
	AH_WAIT,       /* as AH_CALL: a call in which a thread waits, so that its begin is
		        * recorded */
	AH_ROOT_PARK,  /* a function by which a block_on waits, between two polls of its future, or
			* that it calls at its end */
	AH_ROOT_SITE, /* no hook: a call of it, that returns to `orig`. The future, of `kind`, is in
			* the frame of the caller */
	AH_CONFINE,   /* a function through which the program may put itself under a seccomp
			* filter; `kind` is the enum agent_confine */
	AH_FORK,      /* fork() */
	AH_N_TYPES,
};

/*
 * How a stub and a trampoline reach a thunk (all addresses: image + agent_image.thunks[type]):
 *
 *   slot (all types but two)     b8 imm32   mov $hook,%eax
 *                                e9 rel32   jmp thunk           padded to AGENT_STUB_BYTES
 *                                (also what a call of AGENT_HOOK_CALL leads to)
 *
 *   AH_SPAWN, AH_ROOT_ENTER      lea -128(%rsp),%rsp            over the red zone
 *   (a trampoline near the       pushfq; push %rax
 *   patched instruction)         mov $hook,%eax
 *                                call *thunk                    keeps every register but rax, flags
 *                                pop %rax; popfq
 *                                lea 128(%rsp),%rsp
 *                                the displaced instruction; jmp back
 *   These two thunks need no aligned stack and look at agent_switch themselves.
 */

/* Which calls of it do that. AC_FUTEX's hooks, which are syscall()'s, look for them, too. */
enum agent_confine {
	AGENT_CONFINE_LOAD = 1, /* seccomp_load(): each */
	AGENT_CONFINE_PRCTL,	/* prctl(PR_SET_SECCOMP, ...), or PR_SET_SYSCALL_USER_DISPATCH */
	AGENT_CONFINE_SYSCALL,	/* syscall(SYS_seccomp, ...), syscall(SYS_prctl, ...) */
};

/*
 * System calls that the agent may make by itself, on any thread. The tool sets the bits of those
 * for which it has proven that no seccomp filter kills the program, and clears all when it sees a
 * further filter. The agent clears all before the program makes a call that installs one.
 */
enum agent_may {
	AGENT_MAY_ASK = 1,    /* rt_sigprocmask: whether memory can be read */
	AGENT_MAY_WAKE = 2,   /* futex: wake the tool */
	AGENT_MAY_GETTID = 4, /* gettid, where tid_offset is 0 */
	AGENT_MAY_COPY = 8,   /* gettid and process_vm_readv: what a panic said */
};

/* What the tool knows of a hook's kind. While the program runs the agent sets flags of the low
 * byte, the tool of the high byte, neither of the other's. */
enum agent_hook_flags {
	/* Polls of this kind are a worker's main loop. The agent sets this too, when it sees
	 * another poll inside one, unless the next bit is set. */
	AGENT_HOOK_WORKER = 1,
	AGENT_HOOK_TASK = 2, /* known to be no worker's main loop: never learned as one */
	/* AH_FUTURE: what it returns is in memory, whose address is the first argument; the future
	 * is the second one then. */
	AGENT_HOOK_MEMORY = 4,
	/* Every future inside the polled one is recorded by AE_FUTURE_SNAPSHOT_BEGIN and
	 * AE_FUTURE_SNAPSHOT_END, and the end of the poll has no await point then, except when
	 * there is one future only. */
	AGENT_HOOK_LIST = 8,
	/* No slot, but four bytes in the code by which an instruction reaches the function: the
	 * target of a call or jump, relative to what follows them. */
	AGENT_HOOK_CALL = 16,
	/* AH_ROOT_SITE: the call returns whether a poll follows (in %al); else one always does. */
	AGENT_HOOK_RETURNS_READY = 32,
	/* AH_FUTURE: pointers lead from an argument to the future. */
	AGENT_HOOK_INDIRECT = 64,
	/* The unwinder of the object that calls through the hook is one of agent_state.unwinders: a
	 * frame of the agent may be where a panic passes, once it is registered. Without the flag
	 * there must be none. */
	AGENT_HOOK_FRAME = 128,
	/* AH_FUTURE, AR_STATE: the function begins by reading that state, unconditionally. So it is
	 * there, and all before it in the future, and the pointers of AGENT_HOOK_INDIRECT are. */
	AGENT_HOOK_SHOWN = 256,
	/* AH_ROOT_PARK, AH_ROOT_SITE: no wait, but a call that a block_on makes when it is over,
	 * and perhaps before. */
	AGENT_HOOK_ROOT_END = 512,
	/* AH_FUTURE: the poll slot of a `dyn Future`. Its polls are not recorded: where one has
	 * ended pending is a link of the chain of the poll around it (AE_CHAIN). Of one that was
	 * written by hand the tool sets what it returns (`result`, after `pending`) while the
	 * program runs. */
	AGENT_HOOK_CHAIN = 1024,
	/* AGENT_HOOK_CHAIN: within the poll of a task with the next flag its polls are recorded,
	 * but not those of others of this kind in it. The tool sets both while the program runs. */
	AGENT_HOOK_HANDLER = 2048,
	AGENT_HOOK_SERVES = 4096, /* AH_TOKIO_POLL, AH_ASYNC_RUN */
	/* AGENT_HOOK_CHAIN, but no poll slot: a method of a library's, of which the poll of a
	 * future has become a part, or which calls it. The future lies in a box that an
	 * argument's object has, and it may have none: `last_state`. */
	AGENT_HOOK_HELD = 8192,
	/* AGENT_HOOK_HELD: the method reads what the future is made for, too: it begins and ends in it. */
	AGENT_HOOK_AROUND = 16384,
	/* AGENT_HOOK_CHAIN: polls nothing, but is called in a method with the flag before, on the same object or
	 * a member of it, where that makes or drops the future. */
	AGENT_HOOK_LOOK = 32768,
};

/*
 * How the outcome of a future's poll is known: by a value that is read when the poll has returned.
 * Of a coroutine it is its own state, of others the discriminant of what was returned.
 */
enum agent_result_from {
	AR_UNKNOWN = 0,
	AR_STATE,  /* at the future's address + offset; what is above `pending` means pending */
	AR_FIRST,  /* in the first register of the result */
	AR_SECOND, /* in the second one */
	AR_MEMORY, /* in memory, at the address of the result + offset */
	/* AGENT_HOOK_HELD, a future written by hand: at the box's begin + offset; `pending`
	 * means that the box has none, any more */
	AR_PRESENT,
};

struct agent_result {
	uint32_t offset;
	uint8_t from; /* enum agent_result_from */
	uint8_t size; /* 1, 2, 4 or 8 bytes */
	/* AR_STATE: this value is ready. Else, AR_ANY_READY: all values but `pending` are,
	 * or only this one. */
	uint16_t ready;
};
#define AR_ANY_READY 0xffffu
_Static_assert(sizeof(struct agent_result) == 8, "agent_result");

/*
 * One entry of the hook table, 64 bytes, written by the tool. Which arm of the union holds depends
 * on `type`. The agent writes only what it learns: flags, and the two offsets where they are
 * OFFSET_UNKNOWN.
 */
struct agent_hook {
	uint64_t orig;	  /* address of the original function (0 for AH_SPAWN, AH_ROOT_ENTER) */
	uint64_t slot;	  /* address of the hooked slot, or of the patched instruction */
	uint64_t saved;	  /* the slot's original 8 bytes, for a later attach that must take over */
	uint64_t program; /* AH_TOKIO_POLL, AH_ASYNC_RUN, AH_FUTURE, AH_ROOT_SITE: address of the
			   * kind's layout program, 0: none. The tool sets it while the program
			   * runs */
	uint16_t type;	  /* enum agent_hook_type */
	uint16_t kind;	  /* kind number, number of a call, or AGENT_KIND_NONE */
	uint16_t flags;	  /* enum agent_hook_flags */
	/* AGENT_HOOK_HELD: the last of the future's states; a larger value means that there is
	 * no future (AR_PRESENT: 1). 0: where it is isn't known. The tool sets it while the
	 * program runs, after what says where. */
	uint16_t last_state;
	union {
		/* AH_TOKIO_*, AH_ASYNC_*: what is called with a task's header. */
		struct {
			uint64_t vtable; /* its address */
			/* AH_ASYNC_RUN: TaskVTable.drop_ref, 0: it has none. AH_TOKIO_POLL,
			 * AH_TOKIO_SHUTDOWN: the original dealloc. */
			uint64_t drop_ref;
			/* From the header to the id (Tokio), the state word, the vtable's
			 * address. */
			uint16_t id_offset, state_offset, vtable_offset;
			union {
				/* AH_TOKIO_POLL: from the header to where the output ends at the
				 * latest. AH_ASYNC_RUN: to the task's end; the tool sets it before
				 * the program. Both are what the program's own tables say; 0xffff:
				 * there or further. */
				uint16_t end_offset;
				/* Wakers: from the vtable to the slot of the poll function. */
				uint16_t poll_offset;
			};
		} task;
		/* AH_FUTURE, AH_ROOT_SITE. */
		struct {
			struct agent_result result;
			/* The value that means pending; AR_STATE: those above it. */
			uint64_t pending;
			union {
				/* AR_STATE of one byte: in the states whose bits are set nothing
				 * is to be listed, and the program begins with the future's node,
				 * from state 0 on. The tool sets it after the program. */
				uint32_t alone;
				/* AGENT_HOOK_HELD: from the box's begin to the future; the box
				 * begins with a tag of this number of bytes, 0: it has none,
				 * that has this value if there is a future. */
				struct {
					uint16_t future_offset;
					uint8_t tag_size, tag_some;
				};
			};
			union {
				/* AGENT_HOOK_INDIRECT: from argument `argument` (1 to 6) this
				 * number of pointers, each at the place to which the one before
				 * it leads, lead to the future. */
				struct {
					uint16_t argument, n_pointers;
				};
				/* AGENT_HOOK_CHAIN: how large the future is, by the vtable. */
				uint32_t value_bytes;
				/* AGENT_HOOK_HELD: from the object to the pointer to the box; the object
				 * is the second argument if the first is the memory for a result. */
				struct {
					uint32_t held_offset : 31;
					uint32_t held_second : 1;
				};
				/* AH_ROOT_SITE: from where the stack pointer was at the call to
				 * the future. */
				int32_t frame_offset;
			};
		} future;
		/* AH_ROOT_PARK: the calls that block_ons make of it are these entries. */
		struct {
			uint32_t first_site, n_sites;
		} park;
		/* AH_SPAWN. */
		struct {
			uint64_t next_id; /* address of Tokio's counter, 0 if not known */
		} spawn;
		/* AH_ROOT_ENTER: where several block_ons share the place, from the stack pointer
		 * there to the return address of its function, plus 1; 0: it is not asked for. */
		struct {
			uint64_t back;
		} root;
	};
};
_Static_assert(sizeof(struct agent_hook) == 64, "agent_hook");

/*
 * A layout program describes where in a task's cell the state of its future is and what each state
 * means, so that the agent can name the await point at which the task stopped. It is a sequence of
 * 8-byte words: the first is the step from the header (of a future: from its address) to the first
 * node, the rest are nodes, each two words and then n + 1 steps, the last of them for all values
 * that are none of the n. The innermost step that has a point gives it.
 *
 * Where a way ends at what waits for something with an address, the last node is a NODE_RESOURCE.
 * Its pointer lies in the future itself. What that leads to is read only if it lies in the memory
 * of the same future or of the task around it, which are there; else the pointer is the address.
 *
 * Where every future is listed (AGENT_HOOK_LIST) there are nodes without a state, too:
 * NODE_BRANCHES and NODE_POINTER. A program has pointers only if it is that of a future, which its
 * poller lends to the poll: what that owns or borrows exclusively is there. What a task owns may be
 * gone at the end of its poll, so its program asks for no pointer to be followed.
 *
 * A program of chains has pointers, too. That of a task is run when the poll is over: there they
 * are followed only to what lies in the task itself.
 *
 * A program that hooks refer to is never changed.
 *
 * It is made from debug information, which may be wrong. So a step that leads to where nothing
 * shows that memory can be read ends its way there (agent/point.h), and so does a pointer that
 * isn't aligned for what it should lead to.
 */
struct agent_step {
	uint16_t point; /* 0: as before this step */
	uint16_t next;	/* the next node, in words from the program's start; 0: it ends here */
	int32_t delta;	/* the next node's state lies so far from this one's; the first: from the
			 * header */
};
_Static_assert(sizeof(struct agent_step) == 8, "agent_step");

enum agent_node_kind {
	NODE_STATE = 0, /* a state, whose value chooses among n + 1 steps */
	NODE_BRANCHES,	/* n steps, which are all gone, each from the state before it */
	NODE_POINTER,	/* a pointer: one step, from where it leads */
	NODE_RESOURCE,	/* a pointer to what is waited for; no step */
};

struct agent_node {
	union {
		uint64_t base;	/* NODE_STATE: value of the first step */
		uint64_t point; /* NODE_POINTER: its number */
		/* NODE_RESOURCE, n 1: the address is there, so far from where the pointer leads. */
		uint64_t target_offset;
	};
	union {
		uint32_t n;	    /* NODE_STATE, NODE_BRANCHES; NODE_RESOURCE: 0 or 1 */
		uint32_t zero_bits; /* NODE_POINTER: that are 0 in the address of what is there, by
				     * its alignment */
	};
	uint8_t kind;	   /* enum agent_node_kind */
	uint8_t size;	   /* of a state: 1, 2, 4 or 8 bytes */
	uint16_t resource; /* NODE_RESOURCE: one byte, which the agent passes on */
	struct agent_step steps[];
};
_Static_assert(sizeof(struct agent_node) == 16, "agent_node");
_Static_assert(__builtin_offsetof(struct agent_node, kind) == 12 &&
		       __builtin_offsetof(struct agent_node, size) == 13,
	       "capture/kernel/point.bpf.h");

/* What has an AE_STACK. */
enum agent_stacks {
	AGENT_STACKS_SPAWNS = 1,
	AGENT_STACKS_LOCKS = 2,	 /* waits for a lock inside a poll */
	AGENT_STACKS_CALLS = 4,	 /* long calls inside a poll */
	AGENT_STACKS_PANICS = 8, /* starts of panics inside a poll: AE_RAISE */
};

#define AGENT_TEXT_WORD_BYTES 6u
#define AGENT_TEXT_BYTES 240u /* of a message; the rest is left out */

enum agent_stack_word {
	AGENT_STACK_WORDS = 1024, /* below: a word at rsp + 8 * which */
	AGENT_STACK_IP = 0xfffc,  /* the first; then the others */
	AGENT_STACK_SP,
	AGENT_STACK_BP,
};

#define AGENT_PROGRAM_DEPTH 16u
#define AGENT_LIST_MAX 32u /* this many of AE_FUTURE_SNAPSHOT_BEGIN or AE_FUTURE_SNAPSHOT_END */
/* Polls of futures that may be open in each other on a thread: each has a frame on its stack. */
#define AGENT_MAX_FUTURES 256u
#define AGENT_MAX_POINTS 65535u /* of a process */

/* A link of a chain is the number of an await point, or one of these. */
#define AGENT_MAX_CHAIN_POINTS 0x7fffu /* of a process whose programs are of chains */
#define AGENT_CHAIN_KIND 0x8000u       /* + kind: a future of this kind, nothing else is known */
#define AGENT_CHAIN_OTHERS 0xffffu     /* the next one has awaited others, too, in this poll */
#define AGENT_CHAIN_MAX 24u	       /* links in boxes; outer ones are left out */
#define AGENT_LINK_OWN 0xffu	       /* AE_RESOURCE */
#define AGENT_MAX_BOXES 64u	       /* open polls on a thread; inner ones are left alone */

/* An unwinder of libgcc's in the target: addresses of three of its functions. */
struct agent_unwinder {
	uint64_t register_frame; /* __register_frame(eh_frame) */
	uint64_t find_fde;	 /* _Unwind_Find_FDE(pc, bases), NULL: the pc isn't known to it */
	uint64_t get_register;	 /* _Unwind_GetGR(context, number), in a personality routine */
};

/*
 * The agent's private state at the start of the state part. The tool fills it before it flips the
 * first slot; the agent changes only what is said so, and rarely: all threads read it all the time.
 */
struct agent_state {
	uint64_t magic;
	uint32_t abi;
	uint32_t n_hooks;
	uint64_t area;	     /* address of the area, which starts with the image */
	uint64_t area_bytes; /* of all parts, the rings included */
	uint64_t stubs;	     /* address of stub 0 */
	uint64_t hooks; /* address of the hook table: struct agent_hook[AGENT_MAX_HOOKS at most] */
	uint64_t live;	/* address of struct agent_switch */
	uint64_t rings; /* address of struct ring_area */
	uint32_t tid_offset; /* %fs:tid_offset is the thread's tid (int): glibc 0x2d0, musl 0x30;
			      * found in the target at attach, 0 if not found: then no thread is
			      * ever reused */
	uint32_t n_unwinders;
	uint64_t eh_frame;   /* address of the agent's .eh_frame, to be registered */
	uint32_t registered; /* agent: 0 not yet, 1 under way, 2 all unwinders know it, 3 some don't
			      */
	uint32_t call_min_ticks; /* AE_BLOCK only for calls that took at least as long */
	uint64_t no_ring;	 /* agent: events dropped since no ring was free (exact) */
	/* Threads that were in a block_on at the attach, by tid: they get a ring at their next
	 * blocking call, as the others do at their first poll, wake or spawn. The agent zeroes
	 * those that have got it. */
	uint32_t n_roots;
	uint32_t roots[AGENT_MAX_ROOTS];
	uint32_t stacks;	 /* enum agent_stacks; taken only with AGENT_MAY_ASK */
	uint32_t lock_min_ticks; /* AGENT_STACKS_LOCKS: of waits that took at least as long */
	uint32_t n_rings;	 /* AGENT_MAX_RINGS at most */
	uint32_t ring_bytes;	 /* of events, a power of two; stride: + sizeof(struct ring) */
	uint32_t n_used;	 /* agent: rings [0, n_used) were claimed at least once */
	uint32_t no_ring_ticks;	 /* for how long no thread searches for a free ring after there was
				  * none */
	/* Ticks (0: none) after which a full ring means that the tool is dead: the agent then
	 * clears agent_switch.enabled. The tool renews it as long as it lives. */
	uint64_t deadline;
	uint32_t may_call; /* enum agent_may; once it is 0 it stays so until the next attach */
	uint32_t call_stack_ticks; /* AGENT_STACKS_CALLS: of calls that took at least as long */
	struct agent_unwinder unwinders[AGENT_MAX_UNWINDERS];
};

/*
 * The owner of a ring: the start of the agent's notes on it. A thread claims the ring by
 * compare-and-swap of `claim`, if that has owner 0, or an owner that the tool has found dead, or
 * the dead thread that had the same thread pointer before; it owns the ring as long as `claim`
 * remains. Only a tracer could write here from outside. The tool writes one word, `dead`, when it
 * has read the last event of a dead owner: the owner's generation. That word can't take a ring
 * from any thread: if a new thread took the ring over in the same moment, its generation is
 * another one.
 */
struct agent_owner {
	uint64_t claim; /* tid | generation << 32; the generation counts claims, from 1 on */
	uint32_t dead;	/* tool: this generation's owner is dead, the ring is free */
	uint32_t mask;	/* agent: ring_bytes - 1 */
};
_Static_assert(sizeof(struct agent_owner) == 16, "agent_owner");

/* The start of the image. */
struct agent_image {
	uint64_t magic;
	uint32_t abi;
	uint32_t image_bytes;  /* a multiple of 4096; the stubs follow */
	uint32_t state_bytes;  /* of struct agent_state and private tables; then the hook table */
	uint32_t eh_frame;     /* offset of .eh_frame (it ends with a zero word) */
	uint32_t eh_frame_end; /* offset of its end */
	uint32_t stubs_range; /* offset of a u32 in .eh_frame: the tool puts there how many bytes of
			       * stubs there are, so that they can be unwound */
	uint32_t thunks[24];  /* offset of the thunk by enum agent_hook_type, 0 for AH_NONE */
	/* the tool fills these before it writes the image */
	uint64_t state; /* address of struct agent_state */
	uint64_t hooks; /* address of the hook table (as agent_state.hooks) */
	uint64_t live;	/* address of struct agent_switch (as agent_state.live) */
	/* of the agent's notes on a ring, which begin with struct agent_owner */
	uint32_t notes;	      /* offset of the first one's in the state part */
	uint32_t notes_bytes; /* of each */
};
_Static_assert(sizeof(struct agent_image) == 160, "agent_image");
_Static_assert(AH_N_TYPES <= 24, "agent_image.thunks");

/* Alone in its page; the kernel zeroes it in a fork's child, so the child is never traced. */
struct agent_switch {
	uint32_t enabled;  /* written last at attach, first at detach */
	uint32_t no_clock; /* agent: a thread has forbidden itself to read the clock; it stays so */
};

/*
 * A ring has one writer (the thread that owns it) and one reader (the tool). `head` and `tail`
 * count bytes since the ring was made and only grow; ring_place() converts a count to a position
 * in the ring. If the ring is full, the agent drops the event and counts it; AE_LOST follows as
 * soon as there is room again. When the owner is dead and the tool has read its last event (head
 * == tail), the tool frees the ring: agent_owner.dead. A new thread at the dead one's thread
 * pointer may take the ring over at any time: AE_THREAD.
 */
struct ring {
	/* written by the agent, and never read back */
	uint64_t head;	  /* release store */
	uint64_t dropped; /* all events ever dropped here, exact */
	/* Where the far part was last used (ring_place). The begin is written first, both before
	 * the head moves on. */
	uint64_t far_begin, far_end;
	/* ticks << 8 | call number: in a poll the thread waits in this call since then; 0: in none.
	 * It stays where the thread never came back. */
	uint64_t wait;
	uint8_t pad0[24];
	/* written by the tool */
	uint64_t tail; /* release store */
	uint8_t pad1[56];
	/* events follow: ring_bytes of them */
};
_Static_assert(sizeof(struct ring) == 128, "ring");

/*
 * The position of a count. While the reader keeps up, the writer stays in the near part of the
 * ring: few pages, which remain in the caches and the TLB (each new page of a large ring costs as
 * much as hundreds of events), and untouched pages take no memory. When the near part is full, the
 * writer goes on in the far part, then in the near one, and so on through the whole ring, from
 * count far_begin until far_end. Meanwhile far_end is UINT64_MAX; it becomes the end of a turn
 * through the far part at which little was unread.
 *
 * *ret_run: this many bytes are contiguous from there. With counts that are a multiple of an event
 * place + run <= size, whatever far_begin and far_end hold.
 */
#define AGENT_RING_NEAR 65536u /* at most; and at most a quarter of the ring */

static inline uint64_t ring_near(uint64_t size)
{
	return size / 4 < AGENT_RING_NEAR ? size / 4 : AGENT_RING_NEAR;
}

static inline uint64_t ring_place(uint64_t count, uint64_t far_begin, uint64_t far_end,
				  uint64_t size, uint64_t *ret_run)
{
	uint64_t near = ring_near(size), far = size - near;
	uint64_t place = count & (near - 1), run = near - place;

	if (count < far_begin) {
		*ret_run = run < far_begin - count ? run : far_begin - count;
		return place;
	}
	if (count < far_end) {
		uint64_t turn = (count - far_begin) & (size - 1);

		if (turn < far) {
			place = near + turn;
			run = far - turn;
		} else if (run > size - turn) {
			run = size - turn;
		}
	}
	*ret_run = run;
	return place;
}

struct ring_area {
	uint32_t n_used; /* agent: a copy of agent_state.n_used */
	/* tool: 1 when it goes to sleep here (a futex). When a near part's worth of a ring is
	 * unread, the agent sets 0 and wakes the tool. */
	uint32_t asleep;
	uint8_t pad[4096 - 8];
};
_Static_assert(sizeof(struct ring_area) == 4096, "ring_area");
