/*
 * Calls that block, by the GOT entry through which they go. Rust binaries call libc by
 * `call *x@GOTPCREL(%rip)` with GLOB_DAT entries, C code in them through a PLT with JUMP_SLOT: both
 * are words that can be swapped. What never passes a GOT isn't seen: waits inside libc itself, and
 * `syscall` instructions in the program's own code (rustix in its linux_raw form); those are
 * counted.
 */
#include "runtime/find.h"

#include "agent/ring.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *symbol;
	uint16_t call;
} table[] = {
	{"syscall", AC_FUTEX},
	{"epoll_wait", AC_EPOLL_WAIT},
	{"epoll_pwait", AC_EPOLL_PWAIT},
	{"epoll_pwait2", AC_EPOLL_PWAIT2},
	{"poll", AC_POLL},
	{"ppoll", AC_PPOLL},
	{"select", AC_SELECT},
	{"nanosleep", AC_NANOSLEEP},
	{"clock_nanosleep", AC_CLOCK_NANOSLEEP},
	{"usleep", AC_USLEEP},
	{"sleep", AC_SLEEP},
	{"read", AC_READ},
	{"pread", AC_PREAD},
	{"pread64", AC_PREAD},
	{"readv", AC_READV},
	{"write", AC_WRITE},
	{"pwrite", AC_PWRITE},
	{"pwrite64", AC_PWRITE},
	{"writev", AC_WRITEV},
	{"recv", AC_RECV},
	{"recvfrom", AC_RECVFROM},
	{"recvmsg", AC_RECVMSG},
	{"send", AC_SEND},
	{"sendto", AC_SENDTO},
	{"sendmsg", AC_SENDMSG},
	{"accept", AC_ACCEPT},
	{"accept4", AC_ACCEPT4},
	{"connect", AC_CONNECT},
	{"fsync", AC_FSYNC},
	{"fdatasync", AC_FDATASYNC},
	{"flock", AC_FLOCK},
	{"waitpid", AC_WAITPID},
	{"waitid", AC_WAITID},
	{"pthread_join", AC_PTHREAD_JOIN},
	{"pthread_mutex_lock", AC_PTHREAD_MUTEX_LOCK},
	{"pthread_cond_wait", AC_PTHREAD_COND_WAIT},
	{"pthread_cond_timedwait", AC_PTHREAD_COND_TIMEDWAIT},
	{"getaddrinfo", AC_GETADDRINFO},
	{"sched_yield", AC_SCHED_YIELD},
	{"_Unwind_RaiseException", AC_NONE},
};

int calls_find(struct elf_image *image, struct finding *f)
{
	const struct elf_import *imports;
	size_t n = elf_image_imports(image, &imports);

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < sizeof(table) / sizeof(table[0]); k++) {
			int r;

			if (strcmp(imports[i].name, table[k].symbol) != 0)
				continue;
			r = find_add_call(f, imports[i].slot, table[k].call, table[k].symbol);
			if (r < 0)
				return r;
			break;
		}
	}
	return 0;
}
