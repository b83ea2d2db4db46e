/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * CRC-32C, eight bytes at a time (Kounavis and Berry's "slicing by 8"): portable, and about as fast
 * as memory for the two or three bytes that an event has in the file.
 */
#include "trace/format.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u

static uint32_t tables[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_tables(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		tables[0][byte] = crc;
	}
	for (int t = 1; t < 8; t++)
		for (uint32_t byte = 0; byte < 256; byte++)
			tables[t][byte] =
				tables[t - 1][byte] >> 8 ^ tables[0][tables[t - 1][byte] & 0xff];
}

uint32_t plx_crc32c(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint32_t crc = 0xffffffff;

	pthread_once(&once, fill_tables);
	for (; len >= 8; len -= 8, p += 8) {
		uint64_t v;
		memcpy(&v, p, 8);
		v ^= crc;
		crc = tables[7][v & 0xff] ^ tables[6][v >> 8 & 0xff] ^ tables[5][v >> 16 & 0xff] ^
		      tables[4][v >> 24 & 0xff] ^ tables[3][v >> 32 & 0xff] ^
		      tables[2][v >> 40 & 0xff] ^ tables[1][v >> 48 & 0xff] ^ tables[0][v >> 56];
	}
	for (; len; len--, p++)
		crc = crc >> 8 ^ tables[0][(crc ^ *p) & 0xff];
	return ~crc;
}
