/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which requests are answered: those with the token, for this host, by the page itself. */
#include "view/request.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define TOKEN "0123456789abcdef0123456789abcdef"
#define PAGE "/" TOKEN "/"

static const struct request_gate gate = {
	.token = TOKEN, .port = 8900, .viewer = "https://viewer.example", .viewer_path = "file"};

static int get(const char *uri, struct view_request *ret)
{
	struct request_head head = {.uri = uri, .host = "127.0.0.1:8900"};

	return request_read(&gate, &head, ret);
}

static void a_request_is_its_path_and_parameters(void **state)
{
	struct view_request r, copy;
	uint64_t from = 7, to = 7, other = 7;

	assert_int_equal(get(PAGE, &r), 200);
	assert_string_equal(r.path, "");
	assert_int_equal(
		get(PAGE "api/cells?from=12&to=18446744073709551615&q=a%20b+c%2Fd&e&=", &r), 200);
	request_copy(&copy, &r);
	memset(&r, 'x', sizeof(r));
	assert_string_equal(copy.path, "api/cells");
	assert_int_equal(request_u64(&copy, "from", &from), 0);
	assert_int_equal(request_u64(&copy, "to", &to), 0);
	assert_int_equal(request_u64(&copy, "other", &other), 0);
	assert_int_equal(from, 12);
	assert_true(to == UINT64_MAX);
	assert_int_equal(other, 7);
	assert_string_equal(request_param(&copy, "q"), "a b c/d");
	assert_string_equal(request_param(&copy, "e"), "");
	assert_null(request_param(&copy, "x"));
}

static void what_is_no_number_is_refused(void **state)
{
	static const char *const wrong[] = {
		"", "-1", "+1", " 1", "1x", "0x1", "18446744073709551616", "%31%00"};
	struct view_request r;
	uint64_t v = 7;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		char uri[128];
		snprintf(uri, sizeof(uri), PAGE "a?n=%s", wrong[i]);
		if (get(uri, &r) == 200)
			assert_int_equal(request_u64(&r, "n", &v), -EINVAL);
		assert_int_equal(v, 7);
	}
}

static void a_wrong_token_finds_nothing(void **state)
{
	static const char *const wrong[] = {"/",
					    "/api/trace",
					    "/" TOKEN,
					    "/" TOKEN "0/",
					    "/0123456789abcdef0123456789abcdeF/",
					    "/0123456789abcdef0123456789abcde/",
					    "//" TOKEN "/",
					    "/1" TOKEN "/"};
	struct view_request r;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(get(wrong[i], &r), 404);
}

static void malformed_requests_are_refused(void **state)
{
	static const char *const wrong[] = {
		"", "x", PAGE "a?%", PAGE "a?%0", PAGE "a?%zz=1", PAGE "a?a=%00", PAGE "a?a=%g0"};
	static char many[REQUEST_BYTES + 8] = PAGE "a?x";
	struct view_request r;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(get(wrong[i], &r), 400);
	for (int i = 1; i < REQUEST_PARAMS; i++)
		strcat(many, "&x");
	assert_int_equal(get(many, &r), 200);
	strcat(many, "&x");
	assert_int_equal(get(many, &r), 400);
	memset(many, 'a', sizeof(many) - 1);
	memcpy(many, PAGE, sizeof(PAGE) - 1);
	many[REQUEST_BYTES - 1] = 0;
	assert_int_equal(get(many, &r), 200);
	many[REQUEST_BYTES - 1] = 'a';
	assert_int_equal(get(many, &r), 400);
}

static void only_this_host_and_this_page_are_answered(void **state)
{
	static const struct {
		const char *host, *origin, *site;
		int status;
	} cases[] = {
		{"127.0.0.1:8900", NULL, NULL, 200},
		{"localhost:8900", NULL, NULL, 200},
		{NULL, NULL, NULL, 403},
		{"", NULL, NULL, 403},
		{"127.0.0.1", NULL, NULL, 403},
		{"127.0.0.1:8901", NULL, NULL, 403},
		{"127.0.0.1:89000", NULL, NULL, 403},
		{"evil.example:8900", NULL, NULL, 403},
		{"127.0.0.1:8900", "http://127.0.0.1:8900", "same-origin", 200},
		{"127.0.0.1:8900", "http://localhost:8900", NULL, 200},
		{"127.0.0.1:8900", NULL, "none", 200},
		{"127.0.0.1:8900", NULL, "cross-site", 403},
		{"127.0.0.1:8900", NULL, "same-site", 403},
		{"127.0.0.1:8900", "null", NULL, 403},
		{"127.0.0.1:8900", "https://127.0.0.1:8900", NULL, 403},
		{"127.0.0.1:8900", "http://127.0.0.1:8901", "same-site", 403},
		{"127.0.0.1:8900", "https://evil.example", NULL, 403},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct request_head head = {PAGE "api/trace", cases[i].host, cases[i].origin,
					    cases[i].site};
		struct view_request r;

		assert_int_equal(request_read(&gate, &head, &r), cases[i].status);
	}
}

static void the_viewer_that_was_opened_reads_its_file_and_nothing_else(void **state)
{
	struct request_head head = {PAGE "file", "127.0.0.1:8900", "https://viewer.example",
				    "cross-site"};
	struct request_gate none = gate;
	struct view_request r;

	assert_int_equal(request_read(&gate, &head, &r), 200);
	assert_true(r.for_viewer);
	head.uri = PAGE "api/trace";
	assert_int_equal(request_read(&gate, &head, &r), 403);
	head.uri = PAGE "file";
	none.viewer = NULL;
	assert_int_equal(request_read(&none, &head, &r), 403);
	head.origin = NULL;
	head.fetch_site = NULL;
	assert_int_equal(request_read(&gate, &head, &r), 200);
	assert_false(r.for_viewer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_its_path_and_parameters),
		cmocka_unit_test(what_is_no_number_is_refused),
		cmocka_unit_test(a_wrong_token_finds_nothing),
		cmocka_unit_test(malformed_requests_are_refused),
		cmocka_unit_test(only_this_host_and_this_page_are_answered),
		cmocka_unit_test(the_viewer_that_was_opened_reads_its_file_and_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
