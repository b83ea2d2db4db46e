// SPDX-License-Identifier: MIT OR Apache-2.0
// What keys do, and the page that says so.

import { el } from "./dom.js";

// [keys, what they do, fn(app)]; a key is as KeyboardEvent.key spells it.
export const KEYS = [
	["Look around", [
		[["w", "+", "="], "zoom in", (app) => app.state.zoom(1 / 1.5)],
		[["s", "-"], "zoom out", (app) => app.state.zoom(1.5)],
		[["a", "ArrowLeft"], "to the left", (app) => app.state.pan(-0.2)],
		[["d", "ArrowRight"], "to the right", (app) => app.state.pan(0.2)],
		[["0"], "the whole trace", (app) => app.state.fit()],
		[["f"], "fit what is selected", (app) => app.fitSelection()],
		[["["], "zoom back", (app) => app.state.back()],
		[["]"], "zoom forward", (app) => app.state.forward()],
	]],
	["Go to", [
		[["j"], "next finding", (app) => app.findings.step(1)],
		[["k"], "previous finding", (app) => app.findings.step(-1)],
		[["n"], "the poll that the selected one woke", (app) => app.walk("woke")],
		[["p"], "the poll that woke the selected one", (app) => app.walk("woken by")],
		[["."], "next poll of the same task", (app) => app.walk("next")],
		[[","], "previous poll of the same task", (app) => app.walk("previous")],
		[["ArrowDown"], "next lane", (app) => app.stepLane(1)],
		[["ArrowUp"], "previous lane", (app) => app.stepLane(-1)],
		[["Enter"], "open a family; a thread's longest poll here", (app) => app.enterLane()],
		[["t"], "the selected poll's task", (app) => app.selectTask()],
		[["/"], "search; Enter: next hit", (app) => app.search.focus()],
	]],
	["And", [
		[["c"], "copy what is shown as text", (app) => app.copyText()],
		[["l"], "copy a link to this view", (app) => app.copyLink()],
		[["?"], "this help", (app) => app.help()],
		[["Escape"], "select nothing", (app) => app.state.select(null)],
	]],
];

const SHOWN = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Enter: "↵", Escape: "Esc" };

export function listenToKeys(app) {
	const byKey = new Map(KEYS.flatMap(([, group]) => group.flatMap(([keys, , fn]) => keys.map((k) => [k, fn]))));

	document.addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented)
			return;
		const { target } = event;
		const fn = byKey.get(event.key.length === 1 ? event.key.toLowerCase() : event.key);

		if (!fn || target.matches?.("input, select, textarea, dialog *"))
			return;
		// Enter on a button is a click; in a table, arrows scroll.
		if (event.key === "Enter" && target.matches("button, summary, a"))
			return;
		if (event.key.startsWith("Arrow") && target.closest("#panel, #detail, #findings, [role=tablist], #splitter"))
			return;
		event.preventDefault();
		fn(app);
	});
}

export function helpDialog() {
	const dialog = el("dialog", { "aria-labelledby": "help-title", onclick: (e) => e.target === dialog && dialog.close() },
		el("form", { method: "dialog" }, el("button", { class: "close", "aria-label": "Close" }, "×")),
		el("h2", { id: "help-title" }, "Keys and mouse"),
		el("div", { class: "help" }, KEYS.map(([title, group]) => el("section", {}, el("h3", {}, title),
			el("dl", {}, group.map(([keys, text]) => el("div", {}, el("dt", {}, keys.filter((k) => k !== "=")
				.map((k) => el("kbd", {}, SHOWN[k] ?? k))), el("dd", {}, text)))))),
		el("section", {}, el("h3", {}, "Mouse"), el("dl", {}, [
			["wheel", "zoom"], ["shift wheel", "to the left and right"], ["drag", "move; up and down scrolls"],
			["shift drag", "zoom into that time"], ["click", "select a poll; on bars, the longest one there"],
			["double click", "zoom in"], ["wheel on names", "scroll"],
		].map(([what, text]) => el("div", {}, el("dt", {}, el("kbd", {}, what)), el("dd", {}, text)))))));

	document.body.append(dialog);
	return dialog;
}
