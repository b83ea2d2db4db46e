/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Unwind rules: programs put together here byte by byte, in every opcode that compilers write; and
 * the rules of this very program and of its libraries, compared address by address with what
 * binutils' readelf makes of them.
 */
#include "binary/dwarf/eh_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dwarf.h>
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SECTION 0x1000u /* where the section lies */
#define CODE 0x4000u	/* where the functions lie */

/* ---- a section being put together ---- */

struct made {
	uint8_t data[4096];
	size_t len, entry, cie;
};

static void put(struct made *m, const void *data, size_t len)
{
	assert_true(m->len + len <= sizeof(m->data));
	memcpy(m->data + m->len, data, len);
	m->len += len;
}

static void put_u8(struct made *m, uint8_t v)
{
	put(m, &v, 1);
}

static void put_u32(struct made *m, uint32_t v)
{
	put(m, &v, 4);
}

#define PUT(m, ...) put(m, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void begin(struct made *m)
{
	m->entry = m->len;
	put_u32(m, 0);
}

static void end(struct made *m)
{
	uint32_t len;

	while (m->len % 4)
		put_u8(m, DW_CFA_nop);
	len = (uint32_t)(m->len - m->entry - 4);
	memcpy(m->data + m->entry, &len, 4);
}

/* The usual one: zR, pc-relative, CFA = sp + 8, return address below it. */
static void put_cie(struct made *m)
{
	m->cie = m->len;
	begin(m);
	put_u32(m, 0);
	PUT(m, 1, 'z', 'R', 0, 1, 0x78, 16, 1, DW_EH_PE_pcrel | DW_EH_PE_sdata4, DW_CFA_def_cfa, 7,
	    8, DW_CFA_offset | 16, 1);
	end(m);
}

static void begin_fde(struct made *m, uint32_t start, uint32_t size)
{
	begin(m);
	put_u32(m, (uint32_t)(m->len - m->cie));
	put_u32(m, start - (SECTION + (uint32_t)m->len));
	put_u32(m, size);
	put_u8(m, 0);
}

static struct eh_table *compile(const struct made *m)
{
	/* exactly as large, so that a sanitizer sees one byte too far */
	uint8_t *copy = malloc(m->len ? m->len : 1);
	struct eh_table *t = NULL;

	memcpy(copy, m->data, m->len);
	assert_int_equal(eh_table_compile(&machine_x86_64, copy, m->len, SECTION, true, &t), 0);
	free(copy);
	return t;
}

static void check_row(struct eh_table *t, uint64_t addr, enum eh_cfa rule, int cfa,
		      enum eh_fp fp_rule, int rbp)
{
	const struct eh_row *r = eh_table_at(t, addr);

	assert_non_null(r);
	assert_int_equal(r->cfa_rule, rule);
	assert_int_equal(r->cfa, cfa);
	assert_int_equal(r->fp_rule, fp_rule);
	assert_int_equal(r->fp, rbp);
	assert_int_equal(r->ra_rule, EH_RA_AT_CFA);
}

/* ---- what compilers write ---- */

static void test_usual(void **state)
{
	struct made m = {.len = 0};
	struct eh_table *t;

	put_cie(&m);
	begin_fde(&m, CODE, 100);
	PUT(&m, DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, 16, DW_CFA_offset | 6, 2);
	PUT(&m, DW_CFA_advance_loc | 3, DW_CFA_def_cfa_register, 6);
	PUT(&m, DW_CFA_offset | 3, 3, DW_CFA_advance_loc1, 40, DW_CFA_remember_state);
	PUT(&m, DW_CFA_restore | 6, DW_CFA_def_cfa, 7, 8, DW_CFA_advance_loc2, 1, 0);
	PUT(&m, DW_CFA_restore_state);
	end(&m);
	begin_fde(&m, CODE + 100, 10); /* follows at once */
	end(&m);
	begin_fde(&m, CODE + 0x200, 10); /* after a gap */
	PUT(&m, DW_CFA_advance_loc4, 2, 0, 0, 0, DW_CFA_undefined, 16);
	end(&m);
	t = compile(&m);

	assert_null(eh_table_at(t, 0));
	assert_null(eh_table_at(t, CODE - 1));
	check_row(t, CODE, EH_CFA_SP, 8, EH_FP_SAME, 0);
	check_row(t, CODE + 1, EH_CFA_SP, 16, EH_FP_AT_CFA, -16);
	check_row(t, CODE + 3, EH_CFA_SP, 16, EH_FP_AT_CFA, -16);
	check_row(t, CODE + 4, EH_CFA_FP, 16, EH_FP_AT_CFA, -16);
	check_row(t, CODE + 43, EH_CFA_FP, 16, EH_FP_AT_CFA, -16);
	check_row(t, CODE + 44, EH_CFA_SP, 8, EH_FP_SAME, 0);
	check_row(t, CODE + 45, EH_CFA_FP, 16, EH_FP_AT_CFA, -16);
	check_row(t, CODE + 99, EH_CFA_FP, 16, EH_FP_AT_CFA, -16);
	check_row(t, CODE + 100, EH_CFA_SP, 8, EH_FP_SAME, 0);
	check_row(t, CODE + 109, EH_CFA_SP, 8, EH_FP_SAME, 0);
	assert_null(eh_table_at(t, CODE + 110));
	assert_null(eh_table_at(t, CODE + 0x1ff));
	check_row(t, CODE + 0x201, EH_CFA_SP, 8, EH_FP_SAME, 0);
	assert_int_equal(eh_table_at(t, CODE + 0x202)->ra_rule, EH_RA_END);
	assert_null(eh_table_at(t, CODE + 0x20a));
	assert_null(eh_table_at(t, UINT64_MAX));
	eh_table_free(t);
}

static void test_rare(void **state)
{
	struct made m = {.len = 0};
	struct eh_table *t;

	put_cie(&m);
	begin_fde(&m, CODE, 100);
	/* gcc's aligned stack: CFA in a register, then after rbp */
	PUT(&m, DW_CFA_def_cfa, 10, 0, DW_CFA_advance_loc | 1);
	PUT(&m, DW_CFA_expression, 6, 2, DW_OP_breg6, 0);
	PUT(&m, DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 0x78, DW_OP_deref);
	/* signed forms, and GNU's */
	PUT(&m, DW_CFA_advance_loc | 1, DW_CFA_def_cfa_sf, 7, 0x7c, DW_CFA_offset_extended_sf, 6,
	    4);
	PUT(&m, DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset_sf, 0x78);
	PUT(&m, DW_CFA_GNU_args_size, 16, DW_CFA_offset_extended, 6, 5);
	PUT(&m, DW_CFA_advance_loc | 1, DW_CFA_GNU_negative_offset_extended, 6, 1);
	PUT(&m, DW_CFA_advance_loc | 1, DW_CFA_restore_extended, 6);
	PUT(&m, DW_CFA_advance_loc | 1, DW_CFA_register, 6, 3);
	PUT(&m, DW_CFA_advance_loc | 1, DW_CFA_same_value, 6, DW_CFA_val_offset, 3, 1);
	PUT(&m, DW_CFA_val_offset_sf, 3, 0x7f, DW_CFA_val_expression, 3, 1, DW_OP_lit0);
	PUT(&m, DW_CFA_advance_loc | 1, DW_CFA_val_expression, 6, 1, DW_OP_lit0);
	PUT(&m, DW_CFA_advance_loc | 1, DW_CFA_offset | 16, 2);
	PUT(&m, DW_CFA_set_loc);
	put_u32(&m, CODE + 50 - (SECTION + (uint32_t)m.len));
	PUT(&m, DW_CFA_offset | 16, 1, DW_CFA_undefined, 6);
	PUT(&m, DW_CFA_advance_loc | 1, 0x3f /* nobody's */, DW_CFA_advance_loc | 1);
	end(&m);
	t = compile(&m);

	assert_null(eh_table_at(t, CODE));
	check_row(t, CODE + 1, EH_CFA_AT_FP, -8, EH_FP_AT_FP, 0);
	check_row(t, CODE + 2, EH_CFA_SP, 32, EH_FP_AT_CFA, -32);
	check_row(t, CODE + 3, EH_CFA_SP, 64, EH_FP_AT_CFA, -40);
	check_row(t, CODE + 4, EH_CFA_SP, 64, EH_FP_AT_CFA, 8);
	check_row(t, CODE + 5, EH_CFA_SP, 64, EH_FP_SAME, 0);
	check_row(t, CODE + 6, EH_CFA_SP, 64, EH_FP_LOST, 0);
	check_row(t, CODE + 7, EH_CFA_SP, 64, EH_FP_SAME, 0);
	check_row(t, CODE + 8, EH_CFA_SP, 64, EH_FP_LOST, 0);
	assert_int_equal(eh_table_at(t, CODE + 9)->ra_rule, EH_RA_LOST);
	assert_int_equal(eh_table_at(t, CODE + 49)->ra_rule, EH_RA_LOST);
	check_row(t, CODE + 50, EH_CFA_SP, 64, EH_FP_LOST, 0);
	assert_null(eh_table_at(t, CODE + 51)); /* after what isn't understood */
	eh_table_free(t);
}

static void test_plt_and_signal(void **state)
{
	struct made m = {.len = 0};
	struct eh_table *t;

	put_cie(&m);
	begin_fde(&m, CODE, 64);
	PUT(&m, DW_CFA_def_cfa_expression, 11, DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15,
	    DW_OP_and, DW_OP_lit11, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus);
	end(&m);
	begin_fde(&m, CODE + 64, 9);
	PUT(&m, DW_CFA_def_cfa_expression, 4, DW_OP_breg7, 0xa0, 1, DW_OP_deref);
	PUT(&m, DW_CFA_expression, 6, 3, DW_OP_breg7, 0xf8, 0);
	PUT(&m, DW_CFA_expression, 16, 3, DW_OP_breg7, 0xa8, 1);
	end(&m);
	begin_fde(&m, CODE + 128, 9); /* a signal frame that isn't the kernel's */
	PUT(&m, DW_CFA_def_cfa_expression, 4, DW_OP_breg7, 0xa0, 1, DW_OP_deref);
	PUT(&m, DW_CFA_expression, 16, 3, DW_OP_breg7, 0xb0, 1);
	end(&m);
	t = compile(&m);
	check_row(t, CODE + 5, EH_CFA_PLT, 11, EH_FP_SAME, 0);
	assert_int_equal(eh_table_at(t, CODE + 64)->cfa_rule, EH_CFA_SIGNAL);
	assert_null(eh_table_at(t, CODE + 130));
	eh_table_free(t);
}

/* Entries that are no good are left out, the others stay. */
static void test_malformed(void **state)
{
	struct made m = {.len = 0};
	struct eh_table *t;
	size_t cut;

	put_cie(&m);
	begin_fde(&m, CODE, 10);
	PUT(&m, DW_CFA_restore_state); /* nothing was remembered */
	end(&m);
	begin_fde(&m, CODE + 16, 10);
	PUT(&m, DW_CFA_advance_loc | 11, DW_CFA_def_cfa_offset, 16); /* out of the function */
	end(&m);
	begin_fde(&m, 0, 10); /* what the linker left out; its start is not relative */
	end(&m);
	begin_fde(&m, CODE + 20, 10); /* overlaps */
	PUT(&m, DW_CFA_def_cfa_offset, 32);
	end(&m);
	put_u32(&m, 0); /* a terminator in the middle, as crtend.o makes them */
	begin_fde(&m, CODE + 32, 10);
	end(&m);
	put_u32(&m, 0x7fffffff); /* beyond the end */
	t = compile(&m);
	assert_null(eh_table_at(t, CODE));
	check_row(t, CODE + 16, EH_CFA_SP, 8, EH_FP_SAME, 0);
	check_row(t, CODE + 25, EH_CFA_SP, 8, EH_FP_SAME, 0);
	assert_null(eh_table_at(t, CODE + 27));
	check_row(t, CODE + 32, EH_CFA_SP, 8, EH_FP_SAME, 0);
	eh_table_free(t);
	for (cut = 0; cut < m.len; cut++) {
		struct made part = m;

		part.len = cut;
		eh_table_free(compile(&part));
	}
}

/* ---- against readelf ---- */

static struct eh_table *table_of(const char *path, struct elf_image **ret_image)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct eh_table *t = NULL;
	struct error err = {0};

	assert_true(fd >= 0);
	if (elf_image_open(fd, path, ret_image, &err) < 0)
		fail_msg("%s", err.text);
	close(fd);
	assert_int_equal(eh_table_of_image(*ret_image, &t), 0);
	return t;
}

/* "rsp+16", "rbp+16", "exp"; "u", "s", "c-16", "exp", as readelf prints them. */
static void check_text(const char *path, uint64_t addr, const struct eh_row *r, const char *cfa,
		       const char *rbp, const char *ra, unsigned *n)
{
	char want[32];

	if (!strcmp(cfa, "exp")) {
		if (r && r->cfa_rule != EH_CFA_PLT && r->cfa_rule != EH_CFA_SIGNAL &&
		    r->cfa_rule != EH_CFA_AT_FP)
			fail_msg("%s: %" PRIx64 ": an expression it is not", path, addr);
		return;
	}
	if (strncmp(cfa, "rsp", 3) != 0 && strncmp(cfa, "rbp", 3) != 0) {
		if (r)
			fail_msg("%s: %" PRIx64 ": there is no rule for %s", path, addr, cfa);
		return;
	}
	if (!r)
		fail_msg("%s: no rules at %" PRIx64 ", should be %s", path, addr, cfa);
	snprintf(want, sizeof(want), "%s%+d", r->cfa_rule == EH_CFA_SP ? "rsp" : "rbp", r->cfa);
	if (strcmp(want, cfa) != 0)
		fail_msg("%s: %" PRIx64 ": %s, should be %s", path, addr, want, cfa);
	if (*rbp == 'c') {
		snprintf(want, sizeof(want), "c%+d", r->fp);
		if (r->fp_rule != EH_FP_AT_CFA || strcmp(want, rbp) != 0)
			fail_msg("%s: rbp at %" PRIx64 ": %s, should be %s", path, addr, want, rbp);
	} else if ((*rbp == 'u' || *rbp == 's' || !*rbp) != (r->fp_rule == EH_FP_SAME) &&
		   *rbp != 'e' && *rbp != 'v') {
		fail_msg("%s: rbp at %" PRIx64 ": should be %s", path, addr, rbp);
	}
	if (!strcmp(ra, "c-8") != (r->ra_rule == EH_RA_AT_CFA) ||
	    (*ra == 'u') != (r->ra_rule == EH_RA_END))
		fail_msg("%s: return address at %" PRIx64 ": should be %s", path, addr, ra);
	(*n)++;
}

/* The columns of one table of readelf's: "   LOC           CFA      rbx   rbp   ra". */
struct columns {
	char name[24][8];
	int n;
};

static void read_columns(char *line, struct columns *c)
{
	c->n = 0;
	for (char *save, *word = strtok_r(line, " \n", &save); word && c->n < 24;
	     word = strtok_r(NULL, " \n", &save))
		snprintf(c->name[c->n++], sizeof(c->name[0]), "%s", word);
}

static void compare_with_readelf(const char *path)
{
	struct elf_image *image;
	struct eh_table *t = table_of(path, &image);
	char command[4096], line[1024];
	struct columns c = {.n = 0};
	bool fde = false;
	unsigned n = 0;
	FILE *f;

	snprintf(command, sizeof(command), "readelf --debug-dump=frames-interp --wide '%s' 2>&1",
		 path);
	f = popen(command, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		const char *cfa = "", *rbp = "", *ra = "";
		char *save, *word = line;

		if (strstr(line, " FDE ") || strstr(line, " CIE "))
			fde = strstr(line, " FDE ");
		if (strstr(line, "LOC ")) {
			read_columns(line, &c);
			continue;
		}
		if (!fde || strspn(line, "0123456789abcdef") != 16 || line[16] != ' ' ||
		    strstr(line, " FDE "))
			continue;
		uint64_t addr = strtoull(line, NULL, 16);
		word = strtok_r(line, " \n", &save);
		for (int i = 0; word && i < c.n; i++, word = strtok_r(NULL, " \n", &save)) {
			if (*word == '(') /* the register's name, after its number */
				i--;
			else if (!strcmp(c.name[i], "CFA"))
				cfa = word;
			else if (!strcmp(c.name[i], "rbp"))
				rbp = word;
			else if (!strcmp(c.name[i], "ra"))
				ra = word;
		}
		check_text(path, addr, eh_table_at(t, addr), cfa, rbp, ra, &n);
	}
	pclose(f); /* readelf complains of libc, but reads all of it */
	print_message("%s: %u places compared\n", path, n);
	assert_true(n > 100);
	eh_table_free(t);
	elf_image_free(image);
}

static const char *own_path(void)
{
	static char path[4096];

	assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
	return path;
}

static const char *libc_path(void)
{
	static char path[4096];
	char line[4096];
	FILE *f = fopen("/proc/self/maps", "r");

	while (fgets(line, sizeof(line), f))
		if (strstr(line, "/libc.so.6") || strstr(line, "/libc-2"))
			sscanf(strchr(line, '/'), "%4095s", path);
	fclose(f);
	assert_true(path[0]);
	return path;
}

static void test_own_program(void **state)
{
	compare_with_readelf(own_path());
}

static void test_libc(void **state)
{
	compare_with_readelf(libc_path());
}

/* A file without .eh_frame_hdr, or with one that has no entries: the list is made. */
static void test_without_header(void **state)
{
	const char *own = own_path();
	char path[64];

	for (int cut = 0; cut < 2; cut++) {
		int from = open(own, O_RDONLY | O_CLOEXEC), fd = memfd_create("copy", 0);
		uint32_t none = 0;
		char bytes[4096];
		Elf64_Ehdr eh;
		ssize_t len;

		while ((len = read(from, bytes, sizeof(bytes))) > 0)
			assert_int_equal(write(fd, bytes, (size_t)len), len);
		close(from);
		assert_int_equal(pread(fd, &eh, sizeof(eh), 0), sizeof(eh));
		for (int i = 0; i < eh.e_phnum; i++) {
			off_t at = (off_t)(eh.e_phoff + (unsigned)i * sizeof(Elf64_Phdr));
			Elf64_Phdr ph;

			assert_int_equal(pread(fd, &ph, sizeof(ph), at), sizeof(ph));
			if (ph.p_type == PT_GNU_EH_FRAME) /* p_type, or the count of entries */
				pwrite(fd, &none, sizeof(none), cut ? at : (off_t)ph.p_offset + 8);
		}
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), fd);
		compare_with_readelf(path);
		close(fd);
	}
}

/* Of some thousand functions only those are compiled that are looked up, and each of them once. */
static void test_compiles_what_is_looked_up(void **state)
{
	struct elf_image *image;
	struct eh_table *t = table_of(libc_path(), &image);
	size_t compiled, n = eh_table_functions(t, &compiled);
	uint64_t some = eh_table_function(t, n / 2);

	assert_true(n > 1000);
	assert_int_equal(compiled, 0);
	assert_non_null(eh_table_at(t, some));
	assert_ptr_equal(eh_table_at(t, some), eh_table_at(t, some));
	eh_table_functions(t, &compiled);
	assert_int_equal(compiled, 1);
	assert_null(eh_table_at(t, 0));
	for (size_t i = 0; i < n; i += 100)
		eh_table_at(t, eh_table_function(t, i));
	eh_table_functions(t, &compiled);
	assert_in_range(compiled, n / 100, n / 100 + 2);
	eh_table_free(t);
	elf_image_free(image);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_usual),
		cmocka_unit_test(test_rare),
		cmocka_unit_test(test_plt_and_signal),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_own_program),
		cmocka_unit_test(test_libc),
		cmocka_unit_test(test_without_header),
		cmocka_unit_test(test_compiles_what_is_looked_up),
	};

	for (int i = 1; i < argc; i++)
		compare_with_readelf(argv[i]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
