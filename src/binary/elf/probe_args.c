/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The arguments of a probe: assembler operands as the compiler chose them at each site, AT&T's on
 * x86-64, ARM's on aarch64, into numbers that need no assembler any more.
 *
 *     x86-64    -4@%eax  8@$5  1@%ah  8@-20+4(%rbp)  4@8(%rax,%rcx,4)  8@16(%rip)  8f@%xmm0
 *     aarch64   -4@w0  8@x19  8@5  8@[sp]  4@[x29, -20]  8@[x0, x1, lsl #3]  8@[x0, w1, sxtw 3]
 *
 * Registers become words of what the kernel hands to a uprobe. What can't be read that way
 * (symbols, segments, parts that no compiler writes) is refused with the reason, only that operand:
 * the others of the probe are as good as before. The text comes from a stranger's file.
 */
#include "binary/elf/probes.h"

#include "base/buf.h"

#include <ctype.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static const char *const x86_words[PROBE_X86_N_WORDS] = {
	"r15", "r14", "r13", "r12", "rbp",	"rbx", "r11", "r10",	"r9",  "r8", "rax",
	"rcx", "rdx", "rsi", "rdi", "orig_rax", "rip", "cs",  "eflags", "rsp", "ss",
};

/* What is left of one operand. */
struct text {
	const char *at, *end;
};

struct reg {
	uint8_t word; /* or number of the vector register */
	uint8_t bytes, shift;
	bool vector, zero;
};

static int peek(const struct text *t)
{
	return t->at < t->end ? *t->at : 0;
}

static bool take(struct text *t, char c)
{
	if (peek(t) != c)
		return false;
	t->at++;
	return true;
}

static void skip_spaces(struct text *t)
{
	while (peek(t) == ' ' || peek(t) == '\t')
		t->at++;
}

static bool refuse(struct probe_arg *a, const char *reason)
{
	a->form = PA_REFUSED;
	a->reason = reason;
	return false;
}

/* An unsigned number as an assembler has it: 12, 0x1f, 017. Over 64 bits is none. */
static bool take_digits(struct text *t, uint64_t *ret)
{
	unsigned base = 10, digit, n = 0;
	uint64_t v = 0;

	if (peek(t) == '0' && t->end - t->at > 1) {
		base = 8;
		if (t->at[1] == 'x' || t->at[1] == 'X') {
			base = 16;
			t->at += 2;
		}
	}
	for (; base == 16 ? isxdigit((unsigned char)peek(t)) : isdigit((unsigned char)peek(t));
	     t->at++, n++) {
		int c = tolower((unsigned char)*t->at);

		digit = isdigit(c) ? (unsigned)(c - '0') : (unsigned)(c - 'a' + 10);
		if (digit >= base || __builtin_mul_overflow(v, base, &v) ||
		    __builtin_add_overflow(v, digit, &v))
			return false;
	}
	*ret = v;
	return n > 0;
}

/* A sum of numbers: "-20", "4+8", "-20+16". */
static bool take_sum(struct text *t, int64_t *ret)
{
	uint64_t sum = 0, v;
	bool first = true;

	for (;; first = false) {
		bool minus = peek(t) == '-';

		if (minus || peek(t) == '+')
			t->at++;
		else if (!first)
			break;
		if (!take_digits(t, &v))
			return false;
		sum = minus ? sum - v : sum + v;
	}
	*ret = (int64_t)sum;
	return true;
}

/* A run of letters and digits; its length. */
static size_t take_word(struct text *t, char *word, size_t size)
{
	size_t n = 0;

	for (; isalnum((unsigned char)peek(t)); t->at++) {
		if (n + 1 < size)
			word[n++] = (char)tolower((unsigned char)*t->at);
	}
	word[n] = 0;
	return n;
}

/* "r12d", "xmm7": the number after a prefix, at most max. */
static bool number_behind(const char *word, const char *prefix, unsigned max, unsigned *ret,
			  const char **ret_rest)
{
	size_t n = strlen(prefix);
	unsigned v = 0;

	if (strncmp(word, prefix, n) != 0 || !isdigit((unsigned char)word[n]))
		return false;
	for (word += n; isdigit((unsigned char)*word); word++) {
		v = v * 10 + (unsigned)(*word - '0');
		if (v > max)
			return false;
	}
	*ret = v;
	*ret_rest = word;
	return true;
}

static uint8_t x86_word(const char *name)
{
	for (size_t i = 0; i < LENGTH(x86_words); i++) {
		if (strcmp(x86_words[i], name) == 0)
			return (uint8_t)i;
	}
	return PROBE_NO_REG;
}

/* r8 to r15 with their suffixes. */
static bool x86_new_register(const char *word, struct reg *r)
{
	const char *rest;
	char name[8] = "r";
	unsigned n;

	if (!number_behind(word, "r", 15, &n, &rest) || n < 8 || (*rest && rest[1]))
		return false;
	if (n >= 10)
		name[1] = '1';
	name[n >= 10 ? 2 : 1] = (char)('0' + n % 10);
	r->word = x86_word(name);
	r->bytes = *rest == 0 ? 8 : *rest == 'd' ? 4 : *rest == 'w' ? 2 : 1;
	return !*rest || strchr("dwbl", *rest);
}

static bool x86_register(const char *word, struct reg *r)
{
	static const struct {
		const char *name;
		const char *parts[5]; /* 8, 4, 2 bytes, the low one, the high one */
	} old[] = {
		{"rax", {"rax", "eax", "ax", "al", "ah"}},
		{"rbx", {"rbx", "ebx", "bx", "bl", "bh"}},
		{"rcx", {"rcx", "ecx", "cx", "cl", "ch"}},
		{"rdx", {"rdx", "edx", "dx", "dl", "dh"}},
		{"rsi", {"rsi", "esi", "si", "sil", ""}},
		{"rdi", {"rdi", "edi", "di", "dil", ""}},
		{"rbp", {"rbp", "ebp", "bp", "bpl", ""}},
		{"rsp", {"rsp", "esp", "sp", "spl", ""}},
		{"rip", {"rip", "eip", "ip", "", ""}},
	};
	static const uint8_t bytes[5] = {8, 4, 2, 1, 1};
	const char *rest;
	unsigned n;

	*r = (struct reg){0};
	for (size_t i = 0; *word && i < LENGTH(old); i++) {
		for (size_t p = 0; p < 5; p++) {
			if (strcmp(word, old[i].parts[p]) != 0)
				continue;
			r->word = x86_word(old[i].name);
			r->bytes = bytes[p];
			r->shift = p == 4 ? 8 : 0;
			return true;
		}
	}
	if (x86_new_register(word, r))
		return true;
	if ((number_behind(word, "xmm", 31, &n, &rest) ||
	     number_behind(word, "ymm", 31, &n, &rest) ||
	     number_behind(word, "zmm", 31, &n, &rest)) &&
	    !*rest) {
		r->word = (uint8_t)n;
		r->vector = true;
		return true;
	}
	return false;
}

static bool arm_register(const char *word, struct reg *r)
{
	static const char vectors[][2] = {"b", "h", "s", "d", "q", "v"};
	const char *rest;
	unsigned n;

	*r = (struct reg){.bytes = 8};
	if (strcmp(word, "sp") == 0 || strcmp(word, "wsp") == 0) {
		r->word = PROBE_ARM_SP;
		r->bytes = *word == 'w' ? 4 : 8;
		return true;
	}
	if (strcmp(word, "fp") == 0 || strcmp(word, "lr") == 0) {
		r->word = *word == 'f' ? 29 : 30;
		return true;
	}
	if (strcmp(word, "xzr") == 0 || strcmp(word, "wzr") == 0) {
		r->zero = true;
		return true;
	}
	if ((number_behind(word, "x", 30, &n, &rest) || number_behind(word, "w", 30, &n, &rest)) &&
	    !*rest) {
		r->word = (uint8_t)n;
		r->bytes = *word == 'w' ? 4 : 8;
		return true;
	}
	for (size_t i = 0; i < LENGTH(vectors); i++) {
		if (number_behind(word, vectors[i], 31, &n, &rest) && !*rest) {
			r->word = (uint8_t)n;
			r->vector = true;
			return true;
		}
	}
	return false;
}

/* The operand is this register. */
static bool set_register(struct probe_arg *a, const struct reg *r)
{
	if (r->zero) {
		a->form = PA_CONST;
		a->value = 0;
		return true;
	}
	a->base = r->word;
	if (r->vector) {
		a->form = PA_VECTOR;
		return true;
	}
	a->form = PA_REG;
	a->shift = r->shift;
	if (a->size > r->bytes)
		a->size = r->bytes;
	return true;
}

static const char symbol_reason[] = "names a symbol, which is known to the assembler only";

static bool is_symbol(int c)
{
	return isalpha((unsigned char)c) || c == '_' || c == '.';
}

/* "(base,index,scale)", all parts optional; the displacement is read. */
static bool x86_address(struct probe_arg *a, struct text *t)
{
	static const char reason[] = "not an address that x86-64 knows";
	struct reg r;
	char word[16];
	int64_t scale = 1;

	skip_spaces(t);
	if (take(t, '%')) {
		if (!take_word(t, word, sizeof(word)) || !x86_register(word, &r) || r.vector ||
		    r.bytes != 8)
			return refuse(a, reason);
		a->base = r.word;
	}
	skip_spaces(t);
	if (take(t, ',')) {
		skip_spaces(t);
		if (!take(t, '%') || !take_word(t, word, sizeof(word)) || !x86_register(word, &r) ||
		    r.vector || r.bytes != 8 || r.word == PROBE_X86_RSP || r.word == PROBE_X86_RIP)
			return refuse(a, reason);
		a->index = r.word;
		skip_spaces(t);
		if (take(t, ',')) {
			skip_spaces(t);
			if (!take_sum(t, &scale) ||
			    (scale != 1 && scale != 2 && scale != 4 && scale != 8))
				return refuse(a, reason);
			skip_spaces(t);
		}
		a->shift = (uint8_t)__builtin_ctz((unsigned)scale);
	}
	if (!take(t, ')') || (a->base == PROBE_NO_REG && a->index == PROBE_NO_REG))
		return refuse(a, reason);
	a->form = PA_MEMORY;
	return true;
}

static bool x86_operand(struct probe_arg *a, struct text *t)
{
	struct reg r;
	char word[16];

	if (take(t, '$')) {
		if (is_symbol(peek(t)))
			return refuse(a, symbol_reason);
		if (!take_sum(t, &a->value))
			return refuse(a, "not a number");
		a->form = PA_CONST;
		return true;
	}
	if (take(t, '%')) {
		if (!take_word(t, word, sizeof(word)))
			return refuse(a, "a register without a name");
		if (peek(t) == ':')
			return refuse(
				a, "relative to a segment, whose base isn't among the registers");
		if (!x86_register(word, &r))
			return refuse(a, "a register that the kernel does not hand out");
		return set_register(a, &r);
	}
	if (is_symbol(peek(t)))
		return refuse(a, symbol_reason);
	if (peek(t) != '(' && !take_sum(t, &a->value)) {
		while (peek(t) == '+' || peek(t) == '-' || isdigit((unsigned char)peek(t)))
			t->at++;
		return refuse(a, is_symbol(peek(t)) ? symbol_reason : "not a number");
	}
	if (take(t, '('))
		return x86_address(a, t);
	a->form = PA_MEMORY;
	return true;
}

/* ", x1, lsl #3" without the comma. */
static bool arm_index(struct probe_arg *a, struct text *t, const struct reg *r)
{
	char word[16];
	int64_t shift = 0;

	if (r->vector || r->word == PROBE_ARM_SP)
		return refuse(a, "not an address that aarch64 knows");
	if (!r->zero)
		a->index = r->word;
	a->index_bits = r->bytes * 8;
	skip_spaces(t);
	if (!take(t, ','))
		return a->index_bits == 64 || refuse(a, "half a register without its extension");
	skip_spaces(t);
	take_word(t, word, sizeof(word));
	skip_spaces(t);
	take(t, '#');
	if (peek(t) != ']' && (!take_sum(t, &shift) || shift < 0 || shift > 4))
		return refuse(a, "not a shift that aarch64 knows");
	a->shift = (uint8_t)shift;
	if (a->index_bits == 32 && (strcmp(word, "sxtw") == 0 || strcmp(word, "uxtw") == 0))
		a->index_signed = *word == 's';
	else if (a->index_bits != 64 || (strcmp(word, "lsl") != 0 && strcmp(word, "sxtx") != 0))
		return refuse(a, "not an extension that aarch64 knows");
	return true;
}

static bool arm_operand(struct probe_arg *a, struct text *t)
{
	struct reg r;
	char word[16];

	if (take(t, '[')) {
		skip_spaces(t);
		take_word(t, word, sizeof(word));
		if (!arm_register(word, &r) || r.vector || r.zero || r.bytes != 8)
			return refuse(a, "not an address that aarch64 knows");
		a->base = r.word;
		skip_spaces(t);
		if (take(t, ',')) {
			skip_spaces(t);
			take(t, '#');
			if (isalpha((unsigned char)peek(t))) {
				take_word(t, word, sizeof(word));
				if (!arm_register(word, &r))
					return refuse(a, symbol_reason);
				if (!arm_index(a, t, &r))
					return false;
			} else if (!take_sum(t, &a->value)) {
				return refuse(a, is_symbol(peek(t)) || peek(t) == ':'
							 ? symbol_reason
							 : "not a number");
			}
		}
		skip_spaces(t);
		if (!take(t, ']'))
			return refuse(a, "not an address that aarch64 knows");
		a->form = PA_MEMORY;
		return true;
	}
	if (take(t, '#') || !is_symbol(peek(t))) {
		if (!take_sum(t, &a->value))
			return refuse(a, "not a number");
		a->form = PA_CONST;
		return true;
	}
	take_word(t, word, sizeof(word));
	if (!arm_register(word, &r))
		return refuse(a, symbol_reason);
	return set_register(a, &r);
}

/* "-4@", "8f@" in front of the operand; without it a whole register or word counts. */
static bool take_size(struct probe_arg *a, struct text *t)
{
	const char *at = memchr(t->at, '@', (size_t)(t->end - t->at));
	uint64_t size;

	a->size = 8;
	if (!at)
		return true;
	a->is_signed = take(t, '-');
	if (!take_digits(t, &size))
		return refuse(a, "its width is not a number");
	a->is_float = take(t, 'f');
	if (!take(t, '@'))
		return refuse(a, "its width is not a number");
	if (size != 1 && size != 2 && size != 4 && size != 8)
		return refuse(a, "not 1, 2, 4 or 8 bytes wide");
	a->size = (uint8_t)size;
	return true;
}

static void parse_operand(enum probe_machine machine, struct probe_arg *a, const char *at,
			  size_t len)
{
	struct text t = {at, at + len};

	*a = (struct probe_arg){.machine = machine,
				.base = PROBE_NO_REG,
				.index = PROBE_NO_REG,
				.index_bits = 64,
				.operand = at,
				.operand_len = (uint32_t)len};
	if (!take_size(a, &t))
		return;
	if (!(machine == PROBE_X86_64 ? x86_operand(a, &t) : arm_operand(a, &t)))
		return;
	if (t.at != t.end)
		refuse(a, "unknown text after it");
}

size_t probe_args_parse(enum probe_machine machine, const char *text,
			struct probe_arg args[PROBE_MAX_ARGS])
{
	size_t n = 0;

	while (n < PROBE_MAX_ARGS) {
		const char *end;
		int depth = 0;

		while (*text == ' ' || *text == '\t')
			text++;
		if (!*text)
			break;
		for (end = text; *end && (depth > 0 || (*end != ' ' && *end != '\t')); end++)
			depth += (*end == '[' || *end == '(') - (*end == ']' || *end == ')');
		parse_operand(machine, &args[n++], text, (size_t)(end - text));
		text = end;
	}
	return n;
}

/* ---- values ---- */

uint64_t probe_arg_extend(const struct probe_arg *arg, uint64_t raw)
{
	unsigned unused = 64 - 8 * (unsigned)arg->size;

	if (unused == 0 || unused > 56)
		return raw;
	raw <<= unused;
	return arg->is_signed ? (uint64_t)((int64_t)raw >> unused) : raw >> unused;
}

/* ---- for people ---- */

static void word_name(struct buf *out, enum probe_machine machine, unsigned word)
{
	if (machine == PROBE_X86_64)
		buf_str(out, word < LENGTH(x86_words) ? x86_words[word] : "?");
	else if (word == PROBE_ARM_SP)
		buf_str(out, "sp");
	else
		buf_printf(out, "x%u", word);
}

static void address_text(struct buf *out, enum probe_machine machine, const struct probe_arg *arg)
{
	const char *plus = "";
	uint64_t disp = (uint64_t)arg->value;

	if (arg->base != PROBE_NO_REG) {
		word_name(out, arg->machine, arg->base);
		plus = " + ";
	}
	if (arg->index != PROBE_NO_REG) {
		buf_str(out, plus);
		if (arg->index_bits == 32)
			buf_str(out, arg->index_signed ? "(i32)" : "(u32)");
		word_name(out, machine, arg->index);
		if (arg->shift)
			buf_printf(out, " * %u", 1u << (arg->shift & 15));
		plus = " + ";
	}
	if (!*plus)
		buf_printf(out, "0x%llx", (unsigned long long)disp);
	else if (arg->value < 0)
		buf_printf(out, " - %llu", (unsigned long long)-disp);
	else if (disp)
		buf_printf(out, " + %llu", (unsigned long long)disp);
}

void probe_arg_text(struct buf *out, const struct probe_arg *arg)
{
	if (arg->form == PA_REFUSED) {
		buf_printf(out, "not readable: %s", arg->reason ? arg->reason : "unknown");
		return;
	}
	buf_printf(out, "%c%u ", arg->is_float ? 'f' : arg->is_signed ? 'i' : 'u', arg->size * 8u);
	switch (arg->form) {
	case PA_CONST:
		if (arg->is_signed)
			buf_printf(out, "constant %lld",
				   (long long)probe_arg_extend(arg, (uint64_t)arg->value));
		else
			buf_printf(out, "constant %llu",
				   (unsigned long long)probe_arg_extend(arg, (uint64_t)arg->value));
		break;
	case PA_REG:
		buf_str(out, "in ");
		word_name(out, arg->machine, arg->base);
		if (arg->shift)
			buf_printf(out, " >> %u", arg->shift);
		break;
	case PA_MEMORY:
		buf_str(out, "at [");
		address_text(out, arg->machine, arg);
		buf_char(out, ']');
		break;
	case PA_VECTOR:
		buf_printf(out, "in vector register %u", arg->base);
		break;
	}
}
