// SPDX-License-Identifier: MIT OR Apache-2.0
// What leaves the page: the view as text, the visible window as a file.

import { byId, el } from "./dom.js";
import { duration, point } from "./units.js";

// What is selected and the table, with where they are from.
export function viewAsText(app) {
	const { trace, state } = app;
	const parts = [`${trace.program} ${trace.file ?? ""}`.trim(),
		`${point(state.from, state.width)} to ${point(state.to, state.width)} (${duration(state.width)}) of ${duration(trace.span_ns)}`];
	const finding = state.selection?.type === "finding" ? trace.findings[state.selection.id] : null;
	const detail = byId("detail").innerText.replace(/^×\s*/, "").trim();

	if (finding)
		parts.push(`${finding.title}: ${finding.text}${finding.advice ? `\n${finding.advice}` : ""}`);
	if (detail)
		parts.push(detail);
	const table = app.tables.asText();

	if (table)
		parts.push(table);
	return `${parts.join("\n\n")}\n`;
}

export function downloadButtons(app) {
	const save = (name, href) => {
		const link = el("a", { href, download: name });

		link.click();
	};
	const name = (app.trace.file ?? "trace").split("/").at(-1).replace(/\.plx$/, "");

	if (!app.data.served)
		return [el("button", { title: "The visible window for ui.perfetto.dev or chrome://tracing", onclick: async () => {
			const address = URL.createObjectURL(new Blob([await traceEvents(app)], { type: "application/json" }));

			save(`${name}-part.json`, address);
			setTimeout(() => URL.revokeObjectURL(address), 10000);
		} }, "Save")];
	const { state } = app;

	return [el("select", { "aria-label": "Download the visible window", title: "Download the visible window", onchange: (e) => {
		const as = e.target.value;

		if (as)
			save(`${name}-part`, app.data.downloadAddress(state.from, state.to, as));
		e.target.value = "";
	} }, el("option", { value: "" }, "Save"), [["plx", "window as .plx"], ["perfetto", "for Perfetto"], ["chrome", "for chrome://tracing"],
		["speedscope", "for speedscope"]].map(([value, text]) => el("option", { value }, text)))];
}

// Slices of all threads in the window, as Chrome's trace events.
export async function traceEvents(app) {
	const { trace, state, data } = app;
	const events = [];

	for (const lane of trace.lanes.filter((l) => l.kind === "thread")) {
		const pid = trace.processes[lane.process]?.pid ?? 1;
		const { slices } = await data.slices({ lane: lane.id, from: state.from, to: state.to, max: 200000 });

		events.push({ ph: "M", pid, tid: lane.tid, name: "thread_name", args: { name: lane.short } });
		for (const s of slices)
			if (s.kind === "poll" || s.kind === "call" || s.kind === "park")
				events.push({ ph: "X", pid, tid: lane.tid, ts: s.from / 1000, dur: (s.to - s.from) / 1000, cat: s.kind,
					name: s.kind === "poll" ? app.familyName(s) : s.text });
	}
	return JSON.stringify({ traceEvents: events });
}
