// SPDX-License-Identifier: MIT OR Apache-2.0
// Search over names, tasks (by number), places, threads and findings. Enter goes to the next hit,
// with shift to the one before.

import { afterPause, byId, el } from "./dom.js";

export class Search {
	constructor(app) {
		this.app = app;
		this.hits = [];
		this.at = -1;
		this.input = el("input", { type: "search", placeholder: "Search names, #tasks, places  /", "aria-label": "Search",
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

			this.hits = [...findings.map((f, finding) => ({ kind: "finding", text: f.text, finding }))
				.filter((h) => h.text.toLowerCase().includes(q.toLowerCase())), ...answer?.hits ?? []];
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
		if (hit.kind === "finding") {
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
