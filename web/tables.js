// SPDX-License-Identifier: MIT OR Apache-2.0
// The tables below the timeline. They are of the visible window, or of the whole trace; a click on a
// column's head sorts, a word filters, a click on a row goes to what it is about.

import { afterPause, byId, el } from "./dom.js";
import { Flame } from "./flame.js";
import { Heat } from "./heat.js";
import { count, duration, fitName, percent, roleText, placeText, point } from "./units.js";

const ROWS_SHOWN = 300;
const TOO_MANY = "This window has too many events for percentiles and single polls: zoom in.";

const WHOLE_ONLY = "A page in one file knows when requests ended for the whole trace only.";

const time = (title, get, more = {}) => ({ title, get, text: duration, number: true, ...more });
const number = (title, get, more = {}) => ({ title, get, text: count, number: true, ...more });
const name = (title, get, more = {}) => ({ title, get, text: (v) => v ?? "", ...more });
// As its lane is called; the whole name is in the tooltip.
const family = (get = (r) => r.family) => name("family", get, { wide: true, family: true });

const TABLES = {
	families: {
		title: "Families",
		rows: (r) => (r.families ?? []).filter((f) => f.role !== "worker"),
		columns: [family((f) => f.name), name("role", (f) => roleText(f.role)),
			number("tasks", (f) => f.tasks), number("alive", (f) => f.alive), number("polls", (f) => f.polls),
			time("poll time", (f) => f.poll_ns?.sum, { sort: true }), time("poll p50", (f) => f.poll_ns?.p50),
			time("poll p99", (f) => f.poll_ns?.p99), time("poll max", (f) => f.poll_ns?.max),
			time("delay p99", (f) => f.sched_delay_ns?.p99), time("delay max", (f) => f.sched_delay_ns?.max),
			time("waiting", (f) => f.waiting_ns), time("blocked", (f) => f.blocked_ns)],
		go: (app, f) => app.goToLane(app.laneOf(f)),
	},
	requests: {
		title: "Requests",
		served: true, // a part of the trace: by a server only
		rows: (r) => (r.families ?? []).flatMap((f) => (f.handlers ?? []).filter((h) => h.handler)
			.map((h) => ({ ...h, family: f.name, kind: f.kind }))),
		none: "No handlers of requests are known: programs with debug information that serve HTTP with axum, actix, tonic or hyper have them.",
		columns: [name("handler", (h) => h.handler, { wide: true }), number("requests", (h) => h.requests),
			time("latency p50", (h) => h.latency_ns?.p50), time("latency p99", (h) => h.latency_ns?.p99, { sort: true }),
			time("latency max", (h) => h.latency_ns?.max), time("poll time", (h) => h.poll_ns?.sum), time("longest poll", (h) => h.poll_ns?.max),
			time("ready", (h) => h.scheduled_ns), time("waiting", (h) => h.waiting_ns), time("blocked", (h) => h.blocked_ns),
			number("dropped", (h) => h.dropped || undefined), number("panicked", (h) => h.panicked || undefined),
			number("in progress", (h) => h.in_progress || undefined), family()],
		go: (app, h) => app.goToLane(app.laneOf(h), true),
	},
	waits: {
		title: "Waits",
		rows: (r) => r.waits ?? [],
		none: "No await points are known: only programs with debug information have them.",
		columns: [name("await point", (w) => placeText(w), { wide: true }), name("what is awaited", (w) => w.awaits, { wide: true }),
			family(), name("handler", (w) => w.handler ?? ""), number("waits", (w) => w.wait_ns?.count),
			time("total", (w) => w.wait_ns?.sum, { sort: true }), time("p50", (w) => w.wait_ns?.p50),
			time("p99", (w) => w.wait_ns?.p99), time("max", (w) => w.wait_ns?.max)],
		go: (app, w) => app.goToLane(app.laneOf(w), true),
	},
	longest: {
		title: "Longest polls",
		rows: (r) => r.longest_polls ?? [],
		columns: [time("took", (p) => p.duration_ns, { sort: true }), time("blocked", (p) => p.blocked_ns),
			family(), name("handler", (p) => p.handler ?? ""), name("task", (p) => `#${p.task}`),
			name("calls", (p) => (p.blocking_calls ?? []).map((c) => `${c.call} ${duration(c.ns)}`).join(", "), { wide: true }),
			name("code", (p) => codeOf(p.seen?.stack), { wide: true }), name("thread", (p) => `${p.name}/${p.tid}`),
			{ title: "at", get: (p) => p.begin_ns, text: (v) => point(v), number: true }, name("end", (p) => p.outcome)],
		go: (app, p) => app.goToTime(app.laneOf(p), p.begin_ns, p.begin_ns + p.duration_ns, `${p.name}/${p.tid}`),
	},
	threads: {
		title: "Threads",
		rows: (r) => r.workers ?? [],
		columns: [name("thread", (t) => `${t.name}/${t.tid}`, { wide: true }), name("role", (t) => t.role), number("polls", (t) => t.polls),
			time("busy", (t) => t.busy_ns, { sort: true }),
			{ title: "% busy", get: (t) => t.busy_ns / Math.max(1, t.end_ns - t.begin_ns), text: (v) => percent(v, 1), number: true },
			time("parked", (t) => t.parked_ns), time("blocked", (t) => t.blocked_ns), number("lost", (t) => t.lost)],
		go: (app, t) => app.goToLane(app.trace.lanes.find((l) => l.tid === t.tid && l.kind === "thread")?.id),
	},
	futures: {
		title: "Futures",
		rows: (r) => r.futures ?? [],
		none: "No futures inside of tasks were recorded: record --futures does.",
		columns: [name("future", (f) => f.name, { wide: true }), family(),
			number("instances", (f) => f.instances), number("polls", (f) => f.polls), number("dropped", (f) => f.dropped),
			time("self", (f) => f.self_ns), time("poll time", (f) => f.poll_ns?.sum, { sort: true }),
			time("poll max", (f) => f.poll_ns?.max), time("wait max", (f) => f.wait_ns?.max), time("life p99", (f) => f.life_ns?.p99)],
		go: (app, f) => app.goToLane(app.laneNamed(f.family)),
	},
	cpu: {
		title: "CPU",
		rows: (r) => (r.cpu ?? []).flatMap((c) => c.functions.map((f) => ({ ...f, event: c.event, of: c.weight }))),
		none: "No CPU samples were recorded: record --cpu takes them.",
		columns: [name("function", (f) => f.function || `0x${(f.addr ?? 0).toString(16)}`, { wide: true }), name("object", (f) => f.object?.split("/").at(-1) ?? ""),
			name("of", (f) => f.event), time("self", (f) => f.self, { sort: true }),
			{ title: "% self", get: (f) => f.self / Math.max(1, f.of), text: (v) => percent(v, 1), number: true },
			time("with callees", (f) => f.total), number("samples", (f) => f.samples)],
		go: (app) => app.tables.scopeTo("cpu-flame"),
	},
	"off-cpu": {
		title: "Off CPU",
		rows: (r) => r.off_cpu ?? [],
		none: "It is not known when threads were off their CPUs: record --sched tells.",
		columns: [family(), name("reason", (o) => o.reason), name("in call", (o) => o.call ?? ""),
			number("times", (o) => o.count), time("total", (o) => o.ns, { sort: true }), time("max", (o) => o.max_ns)],
		go: (app, o) => app.goToLane(app.laneOf(o)),
	},
};

// The program's own line in a stack, else the innermost function.
function codeOf(stack) {
	const own = stack?.find((f) => f.file && !/\/(registry|rustc|git\/checkouts)\//.test(f.file) && f.function.includes("::")) ?? stack?.[0];

	return own ? `${own.file ? `${own.file.split("/").slice(-2).join("/")}:${own.line} ` : ""}${own.function}` : "";
}

export class Tables {
	constructor(app) {
		this.app = app;
		this.box = byId("bottom");
		this.flame = new Flame(app);
		this.heat = new Heat(app);
		this.views = { waiting: "Waiting flame", "cpu-flame": "CPU flame", heat: "Heat map" };
		this.sorts = {}; // by table: {column, down}
		this.word = "";
		this.lane = undefined; // that flame graphs and heat maps are of; undefined: all
		this.asked = 0;
		this.makeBar();
		this.load = afterPause(120, () => this.loadNow());
		app.state.on("view", () => this.app.state.whole || this.load());
		app.state.on("table", () => this.loadNow());
	}

	get window() {
		const { state } = this.app;

		return state.whole ? { from: Math.floor(state.begin), to: Math.ceil(state.span) }
			: { from: Math.floor(state.from), to: Math.ceil(state.to) };
	}

	makeBar() {
		const { state } = this.app;
		const tab = ([id, title]) => el("button", { role: "tab", id: `tab-${id}`, "aria-controls": "panel",
			onclick: () => state.show(id) }, title);

		this.tabs = el("div", { role: "tablist", "aria-label": "Tables", onkeydown: (e) => this.tabKey(e) },
			[...Object.entries(TABLES).map(([id, t]) => [id, t.title]), ...Object.entries(this.views)].map(tab));
		this.filter = el("input", { type: "search", placeholder: "filter", "aria-label": "Filter rows",
			oninput: () => {
				this.word = this.filter.value.toLowerCase();
				this.showRows();
			} });
		this.whole = el("input", { type: "checkbox", id: "whole", onchange: () => {
			state.whole = this.whole.checked;
			state.changed("address");
			this.loadNow();
		} });
		this.span = el("span", { class: "span" });
		this.options = el("span", { class: "options" });
		this.panel = el("div", { id: "panel", role: "tabpanel", tabindex: "0" });
		this.box.append(el("div", { class: "bar" }, this.tabs, el("div", { class: "scope" }, this.options, this.filter,
			this.span, el("label", { for: "whole" }, this.whole, " whole trace"))), this.panel);
	}

	tabKey(event) {
		const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];

		if (!step)
			return;
		event.stopPropagation();
		const all = [...this.tabs.children];
		const next = all[(all.indexOf(document.activeElement) + step + all.length) % all.length];

		next.focus();
		next.click();
	}

	// Shows a flame graph or heat map of one lane.
	scopeTo(table, lane) {
		this.lane = lane;
		this.app.state.show(table);
	}

	async loadNow() {
		const { state, data } = this.app;
		const id = Object.hasOwn(TABLES, state.table) || Object.hasOwn(this.views, state.table) ? state.table : "families";
		const asked = ++this.asked;
		const window = this.window;

		this.id = id;
		this.whole.checked = state.whole;
		for (const tab of this.tabs.children) {
			const chosen = tab.id === `tab-${id}`;

			tab.setAttribute("aria-selected", String(chosen));
			tab.tabIndex = chosen ? 0 : -1;
		}
		this.panel.setAttribute("aria-labelledby", `tab-${id}`);
		this.filter.hidden = !(id in TABLES);
		this.span.textContent = state.whole ? "" : `${point(window.from, state.width)} to ${point(window.to, state.width)}`;
		try {
			if (id in TABLES) {
				await this.loadReport(window, () => asked === this.asked);
			} else if (id === "heat") {
				await this.heat.load(this, window, () => asked === this.asked);
			} else {
				await this.flame.load(this, id === "waiting" ? "waiting" : "cpu", window, () => asked === this.asked);
			}
		} catch (error) {
			if (asked === this.asked)
				this.panel.replaceChildren(el("p", { class: "caution" }, error.message));
		}
	}

	// Of the window; of all, which costs a server nothing, where that is asked for or the window's costs
	// too much.
	async loadReport(window, current) {
		const { data, state } = this.app;
		const all = state.whole || (state.from <= state.begin && state.to >= state.span) ||
			(TABLES[this.id].served && !data.served);
		let note = all && !state.whole && state.width < state.span - state.begin ? WHOLE_ONLY : "";
		const report = await data.report(all ? {} : window).catch((error) => {
			note = error.message;
			return data.report({});
		});

		if (!current())
			return;
		this.options.replaceChildren(note ? el("span", { class: "bad", title: note }, "of the whole trace")
			: report.sums_only ? el("span", { class: "bad", title: TOO_MANY }, "sums only") : "");
		if (note)
			this.span.textContent = "";
		this.report = report;
		this.showRows();
	}

	// A choice of families for flame graphs and heat maps.
	laneChoice() {
		const families = this.app.trace.lanes.filter((l) => l.kind === "family" && l.role !== "worker");

		return el("select", { "aria-label": "Family", onchange: (e) => {
			this.lane = e.target.value === "" ? undefined : Number(e.target.value);
			this.loadNow();
		} }, el("option", { value: "" }, "all families"), families.map((l) =>
			el("option", { value: l.id, selected: this.lane === l.id }, l.short)));
	}

	showRows() {
		const table = TABLES[this.id];

		if (!table)
			return;
		const sort = this.sorts[this.id] ??= { column: table.columns.findIndex((c) => c.sort), down: true };
		const column = table.columns[sort.column] ?? table.columns[0];
		// Columns in which nothing is known say nothing.
		const all = table.rows(this.report);
		const columns = table.columns.filter((c) => all.some((r) => {
			const v = c.get(r);

			return v !== undefined && v !== null && v !== "";
		}));
		const has = (c, r) => this.shownText(c, r).toLowerCase().includes(this.word) ||
			(c.family && wholeText(c, r).toLowerCase().includes(this.word));
		const rows = all.filter((r) => !this.word || columns.some((c) => has(c, r)))
			.sort((a, b) => compare(column.get(a), column.get(b)) * (sort.down ? -1 : 1));
		const most = new Map(columns.filter((c) => c.number).map((c) => [c, Math.max(...rows.map((r) => c.get(r) ?? 0), 1)]));

		this.rows = rows;
		this.columns = columns;
		if (!rows.length) {
			this.panel.replaceChildren(el("p", { class: "calm" }, this.word ? "Nothing has that word."
				: this.report.sums_only ? TOO_MANY : table.none ?? "Nothing in this window."));
			return;
		}
		this.panel.replaceChildren(el("table", {},
			el("caption", { class: "unseen" }, table.title),
			el("thead", {}, el("tr", {}, columns.map((c) => this.head(c, table.columns.indexOf(c), sort)))),
			el("tbody", {}, rows.slice(0, ROWS_SHOWN).map((r) => el("tr", {}, columns.map((c, i) =>
				this.cell(table, r, c, i, c === column && most.get(c)))))),
			rows.length > ROWS_SHOWN && el("tfoot", {}, el("tr", {}, el("td", { colspan: columns.length },
				`and ${count(rows.length - ROWS_SHOWN)} more: filter, or choose a shorter window`)))));
	}

	head(c, index, sort) {
		const sorted = sort.column === index;

		return el("th", { scope: "col", class: c.number ? "n" : "", "aria-sort": sorted ? sort.down ? "descending" : "ascending" : null },
			el("button", { onclick: () => {
				this.sorts[this.id] = { column: index, down: sorted ? !sort.down : Boolean(c.number) };
				this.showRows();
				this.panel.querySelectorAll("th button")[this.columns.indexOf(c)]?.focus();
			} }, c.title, sorted ? sort.down ? " ▾" : " ▴" : ""));
	}

	// The first cell is a button; the sorted column has bars.
	cell(table, row, c, index, most) {
		const value = c.get(row);
		const text = this.shownText(c, row);
		const title = c.number ? null : wholeText(c, row);

		if (!index)
			return el("td", { class: c.number ? "n" : "wide", title }, el("button", { class: "link",
				onclick: () => table.go(this.app, row) }, inCell(c, text) || "?"));
		return el("td", { class: c.number ? "n" : c.wide ? "wide" : "", title },
			most ? el("i", { class: "share", style: { width: `${Math.max(0, value ?? 0) / most * 100}%` } }) : null,
			el("span", {}, c.number ? text : inCell(c, text)));
	}

	shownText(column, row) {
		const lane = column.family ? this.app.trace.lanes[this.app.laneOf({ ...row, family: column.get(row) })] : null;

		return lane?.short ?? wholeText(column, row);
	}

	// The table as text, aligned.
	asText() {
		if (!this.rows?.length || !(this.id in TABLES))
			return "";
		const lines = [this.columns.map((c) => c.title), ...this.rows.map((r) => this.columns.map((c) => wholeText(c, r)))];
		const widths = this.columns.map((_, i) => Math.max(...lines.map((l) => l[i].length)));

		return lines.map((l) => l.map((cell, i) => this.columns[i].number ? cell.padStart(widths[i]) : cell.padEnd(widths[i]))
			.join("  ").trimEnd()).join("\n");
	}
}

// A family's name where a column is at most a quarter of the window wide; its tooltip has all of it.
function inCell(column, text) {
	return column.family ? fitName(text, Math.max(200, window.innerWidth * 0.26), (t) => t.length * 8) : text;
}

function wholeText(column, row) {
	const value = column.get(row);

	return value === undefined || value === null ? "" : String(column.text(value));
}

function compare(a, b) {
	if (typeof a === "number" || typeof b === "number")
		return (a ?? -1) - (b ?? -1);
	return String(a ?? "").localeCompare(String(b ?? ""));
}
