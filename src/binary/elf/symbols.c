/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Symbols by address. .symtab and .dynsym together, sorted in linear time: a debug build has some
 * hundred thousand of them with names of a hundred bytes, so names are neither copied nor
 * demangled here, they point into the string tables.
 */
#include "base/search.h"
#include "binary/elf/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void add_symbols(struct elf_image *img, const struct image_bytes *tab,
			const struct image_bytes *str)
{
	size_t terminated = str->len;

	/* A name is good if it begins before the last 0 of the string table. */
	while (terminated > 0 && str->data[terminated - 1] != 0)
		terminated--;
	for (size_t at = 0; at + sizeof(Elf64_Sym) <= tab->len; at += sizeof(Elf64_Sym)) {
		Elf64_Sym s;
		unsigned type;

		memcpy(&s, tab->data + at, sizeof(s));
		type = ELF64_ST_TYPE(s.st_info);
		if (s.st_shndx == SHN_UNDEF || s.st_name >= terminated || s.st_name == 0)
			continue;
		if (type != STT_FUNC && type != STT_OBJECT && type != STT_TLS &&
		    type != STT_GNU_IFUNC)
			continue;
		img->symbols[img->n_symbols++] = (struct elf_symbol){
			.addr = s.st_value,
			.size = s.st_size,
			.name = (const char *)str->data + s.st_name,
			.type = (uint8_t)(type == STT_GNU_IFUNC ? STT_FUNC : type),
		};
	}
}

static struct image_bytes read_table(struct elf_image *img, const struct image_table *at)
{
	struct image_bytes bytes = {0};

	int rc = at->bytes ? image_view(img, at->offset, at->bytes, &bytes, NULL) : 0;

	if (rc < 0)
		image_note_trouble(img, rc);
	return bytes;
}

static void load(struct elf_image *img)
{
	struct image_bytes symtab, dynsym;
	size_t n;

	if (img->symbols_done)
		return;
	img->symbols_done = true;
	symtab = read_table(img, &img->symtab_at);
	dynsym = read_table(img, &img->dynsym_at);
	img->strtab = read_table(img, &img->strtab_at);
	img->dynstr = read_table(img, &img->dynstr_at);
	n = (symtab.len + dynsym.len) / sizeof(Elf64_Sym);
	img->symbols = n ? calloc(n, sizeof(*img->symbols)) : NULL;
	if (img->symbols) {
		add_symbols(img, &symtab, &img->strtab);
		add_symbols(img, &dynsym, &img->dynstr);
		if (image_sort(img->symbols, img->n_symbols, sizeof(*img->symbols)) == 0)
			n = 0;
		else
			img->n_symbols = 0;
	}
	if (n)
		image_note_trouble(img, -ENOMEM);
	image_bytes_free(&symtab);
	image_bytes_free(&dynsym);
}

size_t elf_image_symbols(struct elf_image *img, const struct elf_symbol **ret)
{
	load(img);
	*ret = img->symbols;
	return img->n_symbols;
}

bool elf_image_has_symtab(struct elf_image *img)
{
	return img->has_symtab;
}

const struct elf_symbol *elf_image_symbol_at(struct elf_image *img, uint64_t addr)
{
	const struct elf_symbol *best = NULL;
	size_t lo;

	load(img);
	lo = PARTITION_POINT(i, 0, img->n_symbols, img->symbols[i].addr <= addr);
	/* Several names may be at one address, aliases and empty ones among them: the first that
	 * covers addr, functions before objects. Thread-local offsets are no addresses. */
	for (size_t i = lo; i > 0 && i + 16 > lo; i--) {
		const struct elf_symbol *s = &img->symbols[i - 1];

		if (best && s->addr != best->addr)
			break;
		if (s->type == STT_TLS || addr - s->addr >= s->size)
			continue;
		if (!best || s->type == STT_FUNC || best->type != STT_FUNC)
			best = s;
	}
	return best;
}
