// SPDX-License-Identifier: MIT OR Apache-2.0
// What stands out, the worst first. Each is a button to its place in the timeline.

import { byId, el, fill, say } from "./dom.js";
import { fitName, placeText, point } from "./units.js";

const WARNING = 50; // src/findings/findings.h
const MINOR = 15;
const AROUND_NS = 2e7; // of a moment

export class Findings {
	constructor(app) {
		this.app = app;
		this.all = false;
		this.box = byId("findings");
		app.state.on("selection", () => this.show());
		this.show();
	}

	get shown() {
		return this.app.trace.findings.map((f, index) => ({ ...f, index }))
			.filter((f) => this.all || f.score >= MINOR);
	}

	show() {
		const { trace, state } = this.app;
		const shown = this.shown;
		const hidden = trace.findings.length - shown.length;
		const had = this.box.contains(document.activeElement) ? state.selection : null;

		fill(this.box,
			el("h2", {}, "What stands out", shown.length > 1 && el("small", {}, " ", el("kbd", {}, "j"), el("kbd", {}, "k"))),
			shown.length ? null : el("p", { class: "calm" }, trace.events
				? "Nothing stands out: no rule found anything wrong."
				: "The trace has no events."),
			el("ol", {}, shown.map((f) => this.card(f))),
			hidden ? el("button", { class: "quiet", onclick: () => {
				this.all = true;
				this.show();
			} }, `${hidden} minor ${hidden === 1 ? "one" : "ones"}`) : null,
			...this.notes());
		if (had?.type === "finding")
			this.box.querySelector("[aria-pressed=true]")?.focus({ preventScroll: true });
	}

	card(f) {
		const { selection } = this.app.state;
		const chosen = selection?.type === "finding" && selection.id === f.index;

		return el("li", { class: f.score >= WARNING ? "warning" : "note" },
			el("button", { "aria-pressed": String(chosen), onclick: () => this.goTo(f.index) },
				el("span", { class: "title" },
					el("span", { class: "score", title: `score ${f.score} of 100` },
						el("i", { style: { width: `${f.score}%` } })), f.title),
				el("span", { class: "sentence", title: brief(f.text) === f.text ? null : f.text }, brief(f.text)),
				chosen && f.advice && el("span", { class: "advice" }, f.advice),
				chosen && f.place && el("code", {}, brief(placeText(f.place))),
				chosen && f.stack?.length ? el("code", {}, f.stack.slice(0, 6)
					.map((s) => `${brief(s.function || "?")}${s.file ? `  ${s.file.split("/").at(-1)}:${s.line}` : ""}`).join("\n")) : null,
				f.time_ns !== undefined && el("span", { class: "when" }, `at ${point(f.time_ns, this.app.state.span / 100)}`)),
			chosen && this.links(f));
	}

	// The tasks and threads that it is about.
	links(f) {
		const { data, state, trace, timeline } = this.app;
		const link = (text, onclick) => el("button", { class: "link", onclick }, text);
		const threads = (f.threads ?? []).map((tid) => trace.lanes.find((l) => l.kind === "thread" && l.tid === tid))
			.filter((l) => l);

		if (!f.tasks?.length && !threads.length)
			return null;
		return el("p", { class: "about" },
			(f.tasks ?? []).map((t) => link(`task #${t.number}`, async () => {
				state.select("task", await data.idOfTask(t, trace.lanes[f.lane]), f.time_ns);
			})),
			threads.map((l) => link(l.short, () => {
				timeline.reveal(l.id);
				state.select("lane", l.id);
			})));
	}

	// What the trace lacks, so that nobody takes it for all there was.
	notes() {
		const { trace } = this.app;
		const lacking = (trace.coverage ?? []).filter((c) => c.seen < c.total && c.note);
		const out = [];

		if (trace.lost)
			out.push(el("p", { class: "caution" }, `${trace.lost.toLocaleString("en-US")} events were lost: counts are too low around those times.`));
		if (trace.truncated)
			out.push(el("p", { class: "caution" }, trace.truncated));
		if (trace.left_out)
			out.push(el("p", { class: "caution" }, `This page has the longest polls; ${trace.left_out.toLocaleString("en-US")} short ones are left out. "pollux view" shows all.`));
		if (lacking.length)
			out.push(el("details", {}, el("summary", {}, "Not seen by this recording"),
				el("ul", {}, lacking.map((c) => el("li", {}, `${c.item}: ${c.note}`)))));
		return out;
	}

	// Its window, and its lane; where it is about waits, with the tasks of its family.
	goTo(index) {
		const { state, trace, timeline } = this.app;
		const f = trace.findings[index];

		if (!f)
			return;
		state.select("finding", index);
		say(f.text);
		if (f.time_ns === undefined)
			state.fit();
		else if (f.to_ns > f.from_ns)
			state.lookAt(f.from_ns, f.to_ns, 0.5);
		else
			state.look(f.time_ns - AROUND_NS, f.time_ns + AROUND_NS, true);
		if (f.lane === undefined || f.lane === null)
			return;
		if (f.place && f.tasks?.length) {
			timeline.sortTasks("wait");
			state.toggle(f.lane, true);
		}
		timeline.reveal(f.lane);
	}

	step(by) {
		const shown = this.shown;
		const { selection } = this.app.state;
		const at = selection?.type === "finding"
			? shown.findIndex((f) => f.index === selection.id) : by > 0 ? -1 : 0;

		if (shown.length)
			this.goTo(shown[(at + by + shown.length) % shown.length].index);
	}
}

// A sentence without the modules of names that take more than a line or two.
function brief(text) {
	return text.replace(/\S{60,}/g, (name) => fitName(name, 60, (t) => t.length));
}
