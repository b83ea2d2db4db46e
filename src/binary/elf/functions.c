/*
 * Where functions begin and end. Symbols tell it exactly; without them the unwind tables do:
 * .eh_frame has one entry (FDE) per function and is loaded with the program, so strip leaves it.
 * Format: LSB Core, "Exception Frames"; only the encodings that compilers use for the first two
 * fields are read (absolute and pc-relative). It is found by PT_GNU_EH_FRAME or its section.
 */
#include "binary/elf/image.h"

#include "base/cursor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	PE_ABSPTR = 0x00,
	PE_UDATA4 = 0x03,
	PE_SDATA4 = 0x0b,
	PE_UDATA8 = 0x04,
	PE_SDATA8 = 0x0c,
	PE_PCREL = 0x10,
	PE_OMIT = 0xff,
};

/* One encoded pointer at address `at`. `relative`: apply pc-relative (sizes are not). */
static uint64_t encoded(struct cursor *c, uint8_t encoding, uint64_t at, bool relative)
{
	uint64_t value = 0;

	switch (encoding & 0x0f) {
	case PE_ABSPTR:
	case PE_UDATA8:
	case PE_SDATA8:
		value = cursor_u64(c);
		break;
	case PE_UDATA4:
		value = cursor_u32(c);
		break;
	case PE_SDATA4:
		value = (uint64_t)(int64_t)(int32_t)cursor_u32(c);
		break;
	default:
		c->failed = true;
	}
	switch (encoding & 0x70) {
	case 0:
		return value;
	case PE_PCREL:
		return relative ? value + at : value;
	default:
		c->failed = true;
		return 0;
	}
}

/* The pointer encoding of the CIE whose length field is at `addr`: the argument of 'R' in its
 * augmentation. */
static bool cie_encoding(const struct elf_image *img, uint64_t addr, uint8_t *ret)
{
	struct cursor c;
	size_t left;
	const uint8_t *p = elf_image_bytes(img, addr, &left);
	const uint8_t *aug;
	uint32_t len;

	if (!p)
		return false;
	cursor_init(&c, p, left);
	len = cursor_u32(&c);
	if (len > cursor_left(&c) || len == 0)
		return false;
	cursor_init(&c, p + 4, len);
	if (cursor_u32(&c) != 0)
		return false;
	cursor_u8(&c); /* version */
	aug = c.at;
	while (cursor_u8(&c) != 0 && cursor_ok(&c))
		;
	if (!cursor_ok(&c))
		return false;
	*ret = PE_ABSPTR;
	if (aug[0] != 'z')
		return aug[0] == 0;
	cursor_uleb(&c); /* code alignment */
	cursor_uleb(&c); /* data alignment, signed: the same length */
	cursor_uleb(&c); /* return address register (a byte in version 1, always < 128 here) */
	cursor_uleb(&c); /* augmentation's length */
	for (aug++; *aug; aug++) {
		uint8_t personality;

		switch (*aug) {
		case 'R':
			*ret = cursor_u8(&c);
			return cursor_ok(&c);
		case 'P':
			personality = cursor_u8(&c);
			encoded(&c, personality & 0x0f, 0, false);
			break;
		case 'L':
			cursor_u8(&c);
			break;
		case 'S':
		case 'B':
			break;
		default:
			return false;
		}
	}
	return cursor_ok(&c);
}

static uint64_t eh_frame_by_header(const struct elf_image *img)
{
	const uint8_t *p = image_at(img, img->eh_frame_hdr, 12);
	struct cursor c;
	uint8_t encoding;
	uint64_t addr;

	if (!img->eh_frame_hdr || !p)
		return 0;
	cursor_init(&c, p, 12);
	if (cursor_u8(&c) != 1)
		return 0;
	encoding = cursor_u8(&c);
	cursor_u8(&c);
	cursor_u8(&c);
	addr = encoded(&c, encoding, img->eh_frame_hdr + 4, true);
	return cursor_ok(&c) ? addr : 0;
}

static void load(struct elf_image *img)
{
	uint64_t addr = img->eh_frame, cie_known = 0;
	uint8_t encoding = PE_ABSPTR;
	const uint8_t *p;
	struct cursor c;
	size_t left, cap = 0;

	if (img->functions_done)
		return;
	img->functions_done = true;
	if (!addr)
		addr = eh_frame_by_header(img);
	p = addr ? elf_image_bytes(img, addr, &left) : NULL;
	if (!p)
		return;
	if (img->eh_frame_bytes && left > img->eh_frame_bytes)
		left = img->eh_frame_bytes;
	cursor_init(&c, p, left);
	while (cursor_left(&c) >= 8) {
		uint32_t len = cursor_u32(&c);
		uint64_t at = addr + (uint64_t)(c.at - p); /* of the id field */
		struct cursor entry;
		uint32_t id;
		const uint8_t *body;
		uint64_t start, size;

		if (len == 0) { /* a terminator; in a section of known size not always the last */
			if (!img->eh_frame_bytes)
				break;
			continue;
		}
		body = cursor_bytes(&c, len);
		if (!body)
			break;
		cursor_init(&entry, body, len);
		id = cursor_u32(&entry);
		if (id == 0)
			continue;
		if (cie_known != at - id) {
			if (!cie_encoding(img, at - id, &encoding))
				continue;
			cie_known = at - id;
		}
		start = encoded(&entry, encoding, at + 4, true);
		size = encoded(&entry, encoding, 0, false);
		if (!cursor_ok(&entry) || size == 0 || size > UINT32_MAX ||
		    !elf_image_is_code(img, start))
			continue;
		if (img->n_functions == cap) {
			size_t n = cap ? cap * 2 : 4096;
			struct elf_function *f = reallocarray(img->functions, n, sizeof(*f));

			if (!f) {
				image_note_trouble(img, -ENOMEM);
				break;
			}
			img->functions = f;
			cap = n;
		}
		img->functions[img->n_functions++] = (struct elf_function){start, start + size};
	}
	if (image_sort(img->functions, img->n_functions, sizeof(*img->functions)) < 0) {
		image_note_trouble(img, -ENOMEM);
		img->n_functions = 0;
	}
}

size_t elf_image_functions(struct elf_image *img, const struct elf_function **ret)
{
	load(img);
	*ret = img->functions;
	return img->n_functions;
}

bool elf_image_function(struct elf_image *img, uint64_t addr, uint64_t *ret_start,
			uint64_t *ret_end)
{
	const struct elf_symbol *s = elf_image_symbol_at(img, addr);
	size_t lo = 0, hi;

	if (s && s->type == STT_FUNC && elf_image_is_code(img, s->addr)) {
		*ret_start = s->addr;
		*ret_end = s->addr + s->size;
		return true;
	}
	load(img);
	hi = img->n_functions;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (img->functions[mid].start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == 0 || addr >= img->functions[lo - 1].end)
		return false;
	*ret_start = img->functions[lo - 1].start;
	*ret_end = img->functions[lo - 1].end;
	return true;
}
