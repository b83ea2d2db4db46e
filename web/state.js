// SPDX-License-Identifier: MIT OR Apache-2.0
// What is looked at: the window of time, what is selected, which lanes are open, which table. All
// parts of the page read it and hear of changes; it is in the address (#…), so that a link shows the
// same.

const SHORTEST_NS = 200;
const HISTORY = 200;

export class State {
	constructor(span, begin) {
		this.span = Math.max(span, 1);
		this.begin = Math.min(begin, this.span - 1);
		this.from = this.begin;
		this.to = this.span;
		this.selection = null; // {type: "poll" | "task" | "lane" | "finding", id, at: a time in a task's life}
		this.open = new Set(); // lanes whose tasks are shown
		this.table = "families";
		this.whole = false; // tables are of the whole trace, not of the window
		this.sort = "begin";
		this.past = [];
		this.future = [];
		this.listeners = {};
	}

	on(names, fn) {
		for (const name of names.split(" "))
			(this.listeners[name] ??= []).push(fn);
	}

	changed(name) {
		for (const fn of this.listeners[name] ?? [])
			fn();
		if (name !== "address")
			this.changed("address");
	}

	get width() {
		return this.to - this.from;
	}

	// A window within the trace. A `step` is one that zoom history goes back to.
	look(from, to, step = false) {
		const width = Math.min(Math.max(to - from, SHORTEST_NS), this.span - this.begin);
		const middle = (from + to) / 2;
		const begin = Math.min(Math.max(middle - width / 2, this.begin), this.span - width);

		if (step && (this.from !== begin || this.to !== begin + width)) {
			this.past.push([this.from, this.to]);
			this.past.splice(0, this.past.length - HISTORY);
			this.future = [];
		}
		this.from = begin;
		this.to = begin + width;
		this.changed("view");
	}

	zoom(factor, at = (this.from + this.to) / 2) {
		const share = (at - this.from) / this.width;
		const width = Math.max(SHORTEST_NS, Math.min(this.width * factor, this.span - this.begin));

		this.look(at - share * width, at + (1 - share) * width);
	}

	pan(share) {
		this.look(this.from + share * this.width, this.to + share * this.width);
	}

	// So that it is not at the edges.
	lookAt(from, to, margin = 1) {
		const around = Math.max((to - from) * margin, SHORTEST_NS);

		this.look(from - around, to + around, true);
	}

	fit() {
		this.look(this.begin, this.span, true);
	}

	back(from = this.past, to = this.future) {
		const window = from.pop();

		if (!window)
			return;
		to.push([this.from, this.to]);
		this.look(...window);
	}

	forward() {
		this.back(this.future, this.past);
	}

	select(type, id, at) {
		this.selection = type ? { type, id, at } : null;
		this.changed("selection");
	}

	toggle(lane, open = !this.open.has(lane)) {
		if (open)
			this.open.add(lane);
		else
			this.open.delete(lane);
		this.changed("lanes");
	}

	show(table) {
		this.table = table;
		this.changed("table");
	}

	// ---- the address ----

	address() {
		const parts = [`t=${Math.round(this.from)}-${Math.round(this.to)}`];

		if (this.selection)
			parts.push(`${this.selection.type}=${encodeURIComponent(this.selection.id)}`);
		if (this.selection?.at !== undefined)
			parts.push(`at=${Math.round(this.selection.at)}`);
		if (this.open.size)
			parts.push(`open=${[...this.open].join(",")}`);
		if (this.table !== "families")
			parts.push(`table=${this.table}`);
		if (this.whole)
			parts.push("whole");
		return `#${parts.join("&")}`;
	}

	// Whatever somebody wrote into an address: what is no part of it is passed over.
	readAddress(hash) {
		for (const part of hash.replace(/^#/, "").split("&")) {
			const [key, value = ""] = part.split("=");
			const window = /^(\d{1,16})-(\d{1,16})$/.exec(value);

			if (key === "t" && window)
				this.look(Number(window[1]), Number(window[2]));
			else if (["poll", "task", "lane", "finding"].includes(key))
				this.selection = { type: key, id: key === "poll" || key === "task"
					? decoded(value) : Number(value) };
			else if (key === "at" && this.selection && /^\d{1,16}$/.test(value))
				this.selection.at = Number(value);
			else if (key === "open")
				this.open = new Set(value.split(",").filter((v) => /^\d+$/.test(v)).map(Number));
			else if (key === "table" && /^[a-z-]+$/.test(value))
				this.table = value;
			else if (key === "whole")
				this.whole = true;
		}
	}
}

function decoded(text) {
	try {
		return decodeURIComponent(text);
	} catch {
		return text; // no address that the page has made
	}
}
