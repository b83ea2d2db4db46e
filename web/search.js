// SPDX-License-Identifier: MIT OR Apache-2.0
// Search over names, tasks (by number), places, threads, findings and times. Enter goes to the next hit,
// with shift to the one before.

import { afterPause, byId, el } from "./dom.js";
import { point } from "./units.js";

const UNITS = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, min: 60e9 };
const DAY_MS = 86400e3;

// The time that a text names, in ns since the begin: "2.5s", or as a log has it, "14:03:27.5" or "2026-11-30 14:03:27",
// in UTC or in the browser's zone; undefined: it names none of the trace.
export function timeOf(text, trace) {
	const [, number, unit] = /^(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|min)$/.exec(text) ?? [];
	const [, date, h, m, s] = /^(?:(\d{4}-\d\d-\d\d)[T ])?(\d\d):(\d\d):(\d\d(?:[.,]\d+)?)Z?$/.exec(text) ?? [];
	const inside = (ns) => ns >= 0 && ns <= trace.span_ns;
	const times = [];

	if (number !== undefined)
		times.push(Number(number) * UNITS[unit]);
	if (h !== undefined && trace.began_unix_ms) {
		const began = trace.began_unix_ms;
		const inDay = ((Number(h) * 60 + Number(m)) * 60 + Number(s.replace(",", "."))) * 1e3;
		const zone = new Date(began).getTimezoneOffset() * 60e3;
		const day = (offset) => Math.floor((began - offset) / DAY_MS) * DAY_MS + offset;
		const days = date ? [Date.parse(date), Date.parse(date) + zone] : [day(0), day(0) + DAY_MS, day(zone), day(zone) + DAY_MS];

		times.push(...days.map((d) => (d + inDay - began) * 1e6));
	}
	return times.find(inside);
}

export class Search {
	constructor(app) {
		this.app = app;
		this.hits = [];
		this.at = -1;
		this.input = el("input", { type: "search", placeholder: "Search names, #tasks, places, times  /", "aria-label": "Search",
			role: "combobox", "aria-expanded": "false", "aria-controls": "hits", "aria-autocomplete": "list", autocomplete: "off" });
		this.list = el("ul", { id: "hits", role: "listbox", "aria-label": "Hits", hidden: true });
		byId("search").append(this.input, this.list);
		this.find = afterPause(120, () => this.findNow());
		this.input.addEventListener("input", () => this.find());
		this.input.addEventListener("keydown", (e) => this.key(e));
		this.input.addEventListener("blur", () => setTimeout(() => this.close(), 150));
		this.input.addEventListener("focus", () => this.hits.length && this.show());
	}

	focus() {
		this.input.focus();
		this.input.select();
	}

	async findNow() {
		const q = this.input.value.trim();

		this.at = -1;
		this.hits = [];
		this.asked = q;
		if (q) {
			const answer = await this.app.data.search({ q, max: 50 }).catch(() => null);

			if (this.asked !== q)
				return;
			const { findings } = this.app.trace;
			const time = timeOf(q, this.app.trace);

			this.hits = [...findings.map((f, finding) => ({ kind: "finding", text: f.text, finding }))
				.filter((h) => h.text.toLowerCase().includes(q.toLowerCase())), ...answer?.hits ?? []];
			if (time !== undefined)
				this.hits.unshift({ kind: "time", text: point(time), time });
			this.more = answer?.more;
		}
		this.show();
	}

	show() {
		this.list.hidden = !this.input.value.trim();
		this.input.setAttribute("aria-expanded", String(!this.list.hidden));
		this.list.replaceChildren(...this.hits.map((h, i) => el("li", { role: "option", id: `hit${i}`,
			"aria-selected": String(i === this.at), onpointerdown: (e) => {
				e.preventDefault();
				this.go(i);
			} }, el("small", {}, h.kind), ` ${h.text}`)),
		this.hits.length ? this.more ? el("li", { class: "quiet", role: "option", "aria-disabled": "true", "aria-selected": "false" }, "and more") : ""
			: el("li", { class: "quiet", role: "option", "aria-disabled": "true", "aria-selected": "false" }, "nothing found"));
		if (this.at >= 0) {
			this.input.setAttribute("aria-activedescendant", `hit${this.at}`);
			this.list.children[this.at]?.scrollIntoView({ block: "nearest" });
		} else {
			this.input.removeAttribute("aria-activedescendant");
		}
	}

	close() {
		this.list.hidden = true;
		this.input.setAttribute("aria-expanded", "false");
	}

	async key(event) {
		if (event.key === "Escape") {
			this.close();
			this.input.blur();
			return;
		}
		const step = event.key === "Enter" ? event.shiftKey ? -1 : 1 : { ArrowDown: 1, ArrowUp: -1 }[event.key];

		if (!step)
			return;
		event.preventDefault();
		if (this.asked !== this.input.value.trim())
			await this.findNow();
		if (this.hits.length)
			this.go((this.at + step + this.hits.length) % this.hits.length);
	}

	go(i) {
		const hit = this.hits[i];
		const { app } = this;

		this.at = i;
		this.show();
		if (hit.kind === "time") {
			const width = Math.min(app.state.width, app.state.span / 10);

			app.state.look(hit.time - width / 2, hit.time + width / 2, true);
		} else if (hit.kind === "finding") {
			app.findings.goTo(hit.finding);
		} else if (hit.kind === "task") {
			app.goToTask(hit);
		} else if (hit.poll) {
			app.goToPoll(hit.poll);
		} else if (hit.kind === "place") {
			app.goToLane(hit.lane, true, hit.at);
		} else {
			app.goToLane(hit.lane);
		}
	}
}
