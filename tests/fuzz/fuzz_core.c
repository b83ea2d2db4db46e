/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * `pollux tree CORE --exe PROGRAM`, both from a stranger: it may find nothing or nonsense, but
 * never read beyond, hang, or leave memory behind. make_core.py makes the seeds.
 */
#include "fuzz_core.h"

#include "fuzz.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "future/inspect.h"
#include "moment/graph.h"
#include "moment/render.h"

#include <stdio.h>

static void look(struct inspect *in, bool json)
{
	const struct inspect_options opt = {.finished = json};
	const struct render_options render = {
		.raw = json, .ungrouped = json, .select = {.finished = json}};
	struct inspect_result result = {0};
	struct trace_moment moment = {0};
	struct graph graph = {0};
	struct error err = {0};
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct json j;

	json_init(&j, &out, true);
	if (inspect_snapshot(in, &opt, &result, &err) == 0 &&
	    inspect_moment(in, &result, &moment, &err) == 0 &&
	    graph_make(&moment, &graph, &err) == 0) {
		if (json)
			render_json(&graph, &render, &j, NULL);
		else
			render_text(&graph, &render, &out);
	}
	graph_done(&graph);
	moment_done(&moment);
	inspect_result_done(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct fuzz_core in = fuzz_core_of(data, size);
	int core = fuzz_file(in.core, in.core_size),
	    program = fuzz_file(in.program, in.program_size);
	char core_path[64], program_path[64];
	struct inspect *inspect;
	struct error err = {0};

	/* no file of this machine's may be found by a build-id or a debuglink */
	setenv("XDG_CACHE_HOME", "/nonexistent", 1);
	setenv("HOME", "/nonexistent", 1);
	snprintf(core_path, sizeof(core_path), "/proc/self/fd/%d", core);
	snprintf(program_path, sizeof(program_path), "/proc/self/fd/%d", program);
	if (inspect_open_core(core_path, program_path, &inspect, &err) == 0) {
		look(inspect, false);
		look(inspect, true);
		inspect_free(inspect);
	} else if (!err.text[0]) {
		abort();
	}
	close(core);
	close(program);
	return 0;
}
