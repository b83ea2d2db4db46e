/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fd -> socket:[inode] by the link /proc/PID/fd/N, inode -> addresses by
 * /proc/PID/net/{tcp,udp}{,6} and unix. The tables are read once, when the first fd is asked for.
 * Address words there are the bytes in memory order, printed as native u32 in hexadecimal
 * (net/ipv4/tcp_ipv4.c, tcp_ipv6.c).
 */
#include "future/sockets.h"

#include "base/cleanup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TCP_LISTEN_STATE = 10, MAX_LINES = 1000000 };

void sockets_init(struct sockets *s, int proc_fd)
{
	*s = (struct sockets){.proc_fd = proc_fd};
}

void sockets_done(struct sockets *s)
{
	map_free(&s->by_inode, free);
	map_done(&s->by_fd);
}

/* "0100007F:0FA0" or 32 digits for IPv6. */
static bool address_text(const char *hex, struct buf *out)
{
	size_t digits = strcspn(hex, ":");
	uint32_t words[4];
	char text[INET6_ADDRSTRLEN];
	unsigned port;

	if ((digits != 8 && digits != 32) || sscanf(hex + digits, ":%4x", &port) != 1)
		return false;
	for (size_t i = 0; i < digits / 8; i++)
		if (sscanf(hex + 8 * i, "%8x", &words[i]) != 1)
			return false;
	if (!inet_ntop(digits == 8 ? AF_INET : AF_INET6, words, text, sizeof(text)))
		return false;
	buf_printf(out, digits == 8 ? "%s:%u" : "[%s]:%u", text, port);
	return true;
}

static FILE *open_table(const struct sockets *s, const char *name)
{
	int fd = openat(s->proc_fd, name, O_RDONLY | O_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (!f && fd >= 0)
		close(fd);
	return f;
}

static void add(struct sockets *s, uint64_t inode, struct buf *text)
{
	char *old, *v = buf_steal(text);

	if (!v || !inode) {
		free(v);
		return;
	}
	old = map_get(&s->by_inode, inode, 0);
	if (map_put(&s->by_inode, inode, 0, v) < 0)
		free(v);
	else
		free(old);
}

static void read_inet(struct sockets *s, const char *name, bool tcp)
{
	FILE *f = open_table(s, name);
	char line[512], local[64], remote[64];

	for (unsigned i = 0; f && i < MAX_LINES && fgets(line, sizeof(line), f); i++) {
		struct buf b = BUF_INIT;
		unsigned long inode;
		unsigned state;

		if (sscanf(line, " %*u: %63s %63s %x %*s %*s %*s %*u %*u %lu", local, remote,
			   &state, &inode) != 4)
			continue;
		if (!address_text(local, &b)) {
			buf_done(&b);
			continue;
		}
		if (tcp && state == TCP_LISTEN_STATE) {
			buf_str(&b, " listening");
		} else if (!strstr(remote, ":0000")) {
			buf_str(&b, " <-> ");
			address_text(remote, &b);
		}
		add(s, inode, &b);
	}
	if (f)
		fclose(f);
}

/* Num RefCount Protocol Flags Type St Inode Path; the peer is not listed. */
static void read_unix(struct sockets *s)
{
	FILE *f = open_table(s, "net/unix");
	char line[512], path[256];

	for (unsigned i = 0; f && i < MAX_LINES && fgets(line, sizeof(line), f); i++) {
		struct buf b = BUF_INIT;
		unsigned long inode;

		if (sscanf(line, "%*s %*s %*s %*s %*s %*s %lu %255s", &inode, path) != 2)
			continue;
		buf_printf(&b, "unix %s", path);
		add(s, inode, &b);
	}
	if (f)
		fclose(f);
}

const char *sockets_ends(struct sockets *s, unsigned fd)
{
	char name[32], link[64];
	const char *text = map_get(&s->by_fd, (uint64_t)fd + 1, 0);
	unsigned long inode;
	ssize_t n;

	if (text || s->proc_fd < 0)
		return text ? text : "";
	if (!s->read) {
		s->read = true;
		read_inet(s, "net/tcp", true);
		read_inet(s, "net/tcp6", true);
		read_inet(s, "net/udp", false);
		read_inet(s, "net/udp6", false);
		read_unix(s);
	}
	snprintf(name, sizeof(name), "fd/%u", fd);
	n = readlinkat(s->proc_fd, name, link, sizeof(link) - 1);
	link[n > 0 ? n : 0] = 0;
	text = sscanf(link, "socket:[%lu]", &inode) == 1 ? map_get(&s->by_inode, inode, 0) : NULL;
	if (!text)
		text = "";
	map_put(&s->by_fd, (uint64_t)fd + 1, 0, (void *)(uintptr_t)text);
	return text;
}
