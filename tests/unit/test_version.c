/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Crates by the paths of panic locations: this test's own file has some. */
#include "binary/elf/elf_image.h"
#include "runtime/find.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define INDEX "/home/me/.cargo/registry/src/index-1949cf8c6b5b557f/"

static const char *const places[] = {
	INDEX "futures-util-0.3.31/src/lib.rs",
	INDEX "tokio-1.38.0/src/task/mod.rs",
	INDEX "tokio-1.38.0/src/runtime/task/core.rs",
	INDEX "sqlx_core-0.8.0-rc.1/src/rt.rs",
	INDEX "shop-cli-0.2.0/src/lib.rs",
	INDEX "shop-cli-0.2.0/src/bin/server.rs",
	INDEX "shops-1.0.0/src/main.rs",
	INDEX "no-version/src/lib.rs",
	INDEX "half-1.2/src/lib.rs",
	INDEX "elsewhere-1.2.3/build.rs",
	"/root/.cargo/registry/src/no-folder-behind",
	"/build/own-1.0.0/src/main.rs",
	"src/main.rs",
};

static bool has(const char *list, const char *crate)
{
	const char *at = strstr(list, crate);

	return at && (at == list || at[-1] == ',') && strchr(",", at[strlen(crate)]);
}

static void test_crates(void **state)
{
	struct elf_image *image = NULL;
	struct error err = {0};
	char *libraries, *version;

	(void)state;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		assert_non_null(*(const char *const volatile *)&places[i]);
	if (elf_image_open_path("/proc/self/exe", &image, &err) < 0)
		fail_msg("%s", err.text);
	libraries = libraries_find(image);
	assert_true(has(libraries, "futures_util") && has(libraries, "tokio") &&
		    has(libraries, "sqlx_core"));
	assert_int_equal(strlen(libraries), strlen("futures_util,tokio,sqlx_core"));
	version = version_find(image, "tokio");
	assert_string_equal(version, "1.38.0");
	free(libraries);
	free(version);
	elf_image_free(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
