/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is there of the server in a build without libevent. */
#include "view/view.h"

#include <errno.h>

int view_serve(const struct view_options *opt, struct error *err)
{
	(void)opt;
	return error_set(err, -ENOTSUP,
			 "this pollux was built without libevent, which serves the page: install "
			 "it (Debian: libevent-dev) and build again, or use pollux export");
}
