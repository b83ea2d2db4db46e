/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/file_kind.h"

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static const struct {
	const char *magic, *kind;
} kinds[] = {
	{"PERFILE2", "a recording of perf"},
	{"SQLite format 3", "a SQLite database"},
	{"PAR1", "a Parquet file"},
	{"\x1f\x8b", "compressed (gzip)"},
	{"\x28\xb5\x2f\xfd", "compressed (zstd)"},
	{"\xfd"
	 "7zXZ",
	 "compressed (xz)"},
	{"PK\x03\x04", "compressed (zip)"},
};

static const char *elf_kind(const unsigned char *head, size_t n)
{
	uint16_t type;

	if (n < offsetof(Elf64_Ehdr, e_type) + sizeof(type))
		return "an ELF file";
	memcpy(&type, head + offsetof(Elf64_Ehdr, e_type), sizeof(type));
	return type == ET_CORE	 ? "a core file"
	       : type == ET_EXEC ? "an executable"
	       : type == ET_DYN	 ? "an executable or a library"
	       : type == ET_REL	 ? "an object file"
				 : "an ELF file";
}

const char *file_kind(const void *bytes, size_t n)
{
	const unsigned char *head = bytes;
	size_t i = 0;

	if (n >= SELFMAG && !memcmp(head, ELFMAG, SELFMAG))
		return elf_kind(head, n);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		size_t len = strlen(kinds[k].magic);

		if (n >= len && !memcmp(head, kinds[k].magic, len))
			return kinds[k].kind;
	}
	while (i < n && (head[i] == '\t' || head[i] == '\n' || head[i] == '\r' || head[i] >= ' '))
		i++;
	if (i < n || n == 0)
		return NULL;
	return head[0] == '{' || head[0] == '[' ? "JSON" : head[0] == '<' ? "HTML or XML" : "text";
}
