// SPDX-License-Identifier: MIT OR Apache-2.0
// All that is known of what is selected: a poll, a task, or a lane.

import { byId, el, fact, fill, say } from "./dom.js";
import { STATES } from "./theme.js";
import { count, duration, percent, placeText, point, roleText } from "./units.js";

const STEPS_SHOWN = 60;

export class Detail {
	constructor(app) {
		this.app = app;
		this.box = byId("detail");
		this.asked = 0;
		app.state.on("selection", () => this.load());
	}

	async load() {
		const { selection } = this.app.state;
		const asked = ++this.asked;

		this.app.timeline.wakes = null;
		if (!selection || selection.type === "finding") {
			this.close();
			return;
		}
		try {
			const content = selection.type === "poll" ? await this.poll(selection.id)
				: selection.type === "task" ? await this.task(selection) : this.lane(selection.id);

			if (asked === this.asked && content)
				this.open(content);
		} catch (error) {
			if (asked === this.asked)
				this.open([el("p", { class: "caution" }, error.message)]);
		}
	}

	open(content) {
		fill(this.box, el("button", { class: "close", "aria-label": "Close (Escape)",
			onclick: () => this.app.state.select(null) }, "×"), ...content);
		document.body.classList.add("selected");
		this.box.scrollTop = 0;
		this.app.resized();
	}

	close() {
		if (!document.body.classList.contains("selected"))
			return;
		document.body.classList.remove("selected");
		this.box.replaceChildren();
		this.app.resized();
	}

	// ---- a poll ----

	async poll(id) {
		const p = await this.app.data.poll({ id });

		if (this.app.state.selection?.id !== id)
			return null;
		this.current = p;
		await this.completeWakes(p);
		this.app.timeline.wakes = p;
		this.app.timeline.draw();
		const took = p.to - p.from;
		const off = (p.off_cpu ?? []).reduce((a, o) => a + Math.min(o.to, p.to) - Math.max(o.from, p.from), 0);
		const name = this.nameOf(p);

		say(`Poll of ${name} number ${p.number}, ${duration(took)}, ${p.outcome}`);
		return [
			el("h2", {}, "Poll of ", el("span", { class: "what" }, name)),
			el("p", { class: "big" }, duration(took), el("small", {}, ` at ${point(p.from, took * 4)}`)),
			this.parts([["blocked", p.blocked_ns], ["off_cpu", off],
				["poll", Math.max(0, took - (p.blocked_ns ?? 0) - off)]], took),
			el("dl", {},
				fact("task", this.taskLink(p.task, `#${p.number}`, p.from)),
				fact("thread", this.threadLink(p.thread)),
				p.ready_from !== undefined && p.ready_from !== null &&
					fact("was ready for", duration(p.from - p.ready_from)),
				fact("ended", outcomeText(p.outcome)),
				p.place && fact("then waits at", this.place(p.places?.[p.place])),
				p.inferred && fact("note", "inferred: its begin and end are those of what was seen in it")),
			this.section("Blocking calls", p.calls, (c) => el("li", {}, this.timeLink(c.from, c.to,
				`${c.text} ${duration(c.to - c.from)}`), c.blocks === false ? el("small", {}, " kept no worker") : null)),
			this.section("Off the CPU", p.off_cpu, (o) => el("li", {}, this.timeLink(o.from, o.to,
				`${o.text} ${duration(o.to - o.from)}`))),
			this.section("System calls", p.syscalls, (c) => el("li", {}, this.timeLink(c.from, c.to,
				`${c.text} ${duration(c.to - c.from)}`))),
			this.stacks(p),
			this.section("Futures polled in it", p.futures, (f) => el("li", { style: { "padding-left": `${(f.depth ?? 0) * 10}px` } },
				this.timeLink(f.from, f.to, f.name ?? "?"), el("small", {}, ` ${duration(f.to - f.from)} ${f.outcome}`))),
			el("h3", {}, "Woken by", el("small", {}, " p")),
			this.wokenBy(p),
			el("h3", {}, `Woke ${p.wakes.length ? count(p.wakes.length) : "nobody"}`,
				p.wakes.length ? el("small", {}, " n") : null),
			p.wakes.length ? el("ul", { class: "wakes" }, p.wakes.slice(0, 30).map((w) => el("li", {},
				this.pollLink(w.poll, `${this.nameOf(w)} #${w.number}`),
				el("small", {}, w.from !== undefined ? ` polled ${duration(w.from - w.at)} later` : ` ${w.effect}`)))) : null,
			el("p", { class: "row-buttons" },
				el("button", { disabled: !p.previous, onclick: () => this.app.goToPoll(p.previous) }, "◂ previous poll ,"),
				el("button", { disabled: !p.next, onclick: () => this.app.goToPoll(p.next) }, "next poll . ▸"))];
	}

	// Where each woken task was polled: drawn as arrows.
	async completeWakes(p) {
		await Promise.all(p.wakes.slice(0, 12).map(async (w) => {
			if (w.from !== undefined || !w.poll)
				return;
			const other = await this.app.data.poll({ id: w.poll }).catch(() => null);

			if (other)
				Object.assign(w, { from: other.from, thread: other.thread, family: other.family });
		}));
	}

	wokenBy(p) {
		const by = p.woken_by;

		if (!by)
			return el("p", { class: "quiet" }, "Not known: it was not woken, or that was before the recording.");
		const ago = el("small", {}, ` ${duration(p.from - by.at)} before this poll`);

		if (by.task && by.poll)
			return el("p", {}, this.pollLink(by.poll, by.self ? "itself" : `${this.nameOf(by)} #${by.number}`), ago);
		return el("p", {}, "the thread ", this.threadLink(by.thread),
			el("small", {}, " outside of any task: a driver, a timer, another thread"), ago);
	}

	stacks(p) {
		const last = p.stacks?.at(-1);

		if (!last?.frames.length)
			return null;
		return el("div", {}, el("h3", {}, "Stack ", el("small", {}, `${last.state}, ${duration(last.at - p.from)} after its begin`)),
			this.frames(last.frames));
	}

	frames(frames) {
		const own = frames.findIndex((f) => f.own);

		return el("ol", { class: "stack" }, frames.slice(0, 24).map((f, i) =>
			el("li", { class: i === own || f.own ? "own" : "" }, f.function || "?",
				f.file ? el("small", {}, ` ${f.file.split("/").slice(-2).join("/")}:${f.line}`) : null)));
	}

	// ---- a task ----

	async task({ id, at }) {
		const t = await this.app.data.task({ id, at });

		if (this.app.state.selection?.id !== id)
			return null;
		this.current = null;
		const life = t.to - t.from;
		const name = this.nameOf(t);

		say(`Task ${name} number ${t.number}, lived ${duration(life)}`);
		return [
			el("h2", {}, "Task ", el("span", { class: "what" }, `${name} #${t.number}`)),
			el("p", { class: "big" }, duration(life), el("small", {}, t.ended ? ` until ${outcomeText(t.outcome)}` : " so far: alive at the end")),
			this.parts([["poll", t.poll_ns], ["ready", t.ready_ns], ["wait", t.wait_ns]], life),
			el("dl", {},
				fact("spawned", t.spawn_seen ? point(t.from, life) : "before the recording"),
				t.parent && fact("by", this.taskLink(t.parent, "its parent", t.from)),
				t.site && fact("at", el("code", {}, t.site)),
				fact("polls", `${count(t.polls)}, ${duration(t.poll_ns)}`),
				fact("wakes", `${count(t.wakes)}${t.self_wakes ? `, ${count(t.self_wakes)} by itself` : ""}`),
				t.full_name && t.full_name !== name && fact("type", el("code", {}, t.full_name))),
			el("p", { class: "row-buttons" },
				el("button", { onclick: () => this.app.state.lookAt(t.from, t.to, 0.03) }, "show its life f"),
				t.lane !== undefined && el("button", { onclick: () => this.app.openTask(t.lane, id) }, "show its lane")),
			this.tree(t.tree),
			this.waits(t),
			this.section("Requests", t.rounds, (r) => el("li", {}, this.timeLink(r.from, r.to, r.handler ?? "?"),
				el("small", {}, ` ${duration(r.to - r.from)}, ${count(r.polls)} polls, ${r.outcome}`))),
			this.section("Futures", t.futures, (f) => el("li", {}, this.timeLink(f.from, f.to, f.name ?? "?"),
				el("small", {}, ` ${count(f.polls)} polls, ${duration(f.poll_ns)}, ${f.outcome}`))),
			this.steps(t)];
	}

	waits(t) {
		const sums = new Map();

		for (const s of t.steps)
			if (s.kind === "wait" && s.place) {
				const sum = sums.get(s.place) ?? { place: s.place, ns: 0, n: 0, longest: s };

				sum.ns += s.to - s.from;
				sum.n++;
				if (s.to - s.from > sum.longest.to - sum.longest.from)
					sum.longest = s;
				sums.set(s.place, sum);
			}
		return this.section("Where it waits", [...sums.values()].sort((a, b) => b.ns - a.ns), (w) => el("li", {},
			this.timeLink(w.longest.from, w.longest.to, duration(w.ns)),
			el("small", {}, ` ${percent(w.ns, t.to - t.from)}, ${count(w.n)} ×`), this.place(t.places?.[w.place])));
	}

	steps(t) {
		const at = (this.app.state.from + this.app.state.to) / 2;
		const middle = Math.max(0, t.steps.findIndex((s) => s.to >= at) - STEPS_SHOWN / 2);
		const shown = t.steps.length > STEPS_SHOWN ? t.steps.slice(middle, middle + STEPS_SHOWN) : t.steps;

		return el("div", {}, el("h3", {}, "Its life ", el("small", {}, t.steps.length > shown.length
			? `${count(shown.length)} of ${count(t.steps.length)}${t.more || !t.whole ? " and more" : ""} steps, around the middle of the window`
			: `${count(t.steps.length)} steps`)),
		el("ol", { class: "life" }, shown.map((s) => el("li", { class: s.kind },
			el("i", { class: `swatch ${s.kind}` }),
			s.kind === "poll" ? this.pollLink(s.id, `polled ${duration(s.to - s.from)}`)
				: this.timeLink(s.from, s.to, `${STATES[s.kind] ?? s.text ?? s.kind} ${duration(s.to - s.from)}`),
			el("small", {}, ` ${point(s.from, this.app.state.span / 1000)}`),
			s.kind === "wait" && s.place ? this.place(t.places?.[s.place], s.resource) : null,
			s.blocked_ns ? el("small", { class: "bad" }, ` blocked ${duration(s.blocked_ns)}`) : null))));
	}

	// Its await tree: text as `pollux tree` prints it, or nodes as tree --json has them.
	tree(tree) {
		if (!tree)
			return null;
		return el("div", {}, el("h3", {}, "Await tree ", el("small", {}, `at the recording's ${tree.when}`)),
			tree.nodes ? el("ul", { class: "tree" }, this.node(tree.nodes)) : el("pre", {}, tree.text));
	}

	node(n) {
		const inner = (n.children ?? []).map((c) => this.node(c));

		if (n.internal && inner.length === 1)
			return inner[0];
		return el("li", { class: n.kind }, el("span", {}, n.name ?? "?"),
			n.file ? el("small", {}, ` ${n.file.split("/").slice(-2).join("/")}:${n.line}`) : null,
			n.detail ? el("em", {}, ` ${n.detail}`) : null,
			n.state && n.state !== "suspended" ? el("small", { class: "bad" }, ` ${n.state}`) : null,
			n.holds?.length ? el("small", { class: "bad" }, ` holds ${n.holds.length === 1 ? "a lock" : `${n.holds.length} locks`}`) : null,
			inner.length ? el("ul", {}, inner) : null);
	}

	// ---- a lane ----

	lane(id) {
		const l = this.app.trace.lanes[id];

		if (!l)
			return [el("p", { class: "caution" }, "There is no such lane in this trace.")];
		const { state } = this.app;

		return [
			el("h2", {}, l.kind === "thread" ? "Thread " : "Family ", el("span", { class: "what" }, l.short)),
			el("dl", {},
				fact("role", roleText(l.role)),
				l.tid && fact("tid", String(l.tid)),
				l.tasks !== undefined && fact("tasks", count(l.tasks)),
				fact("polls", count(l.polls)),
				l.name !== l.short && fact("name", el("code", {}, l.name)),
				l.sites?.length && fact("spawned at", ...l.sites.slice(0, 5).map((s) => el("code", {}, s)))),
			l.kind === "family" && el("p", { class: "row-buttons" },
				el("button", { onclick: () => state.toggle(id) }, "open or close its tasks ↵"),
				el("button", { onclick: () => this.app.tables.scopeTo("waiting", id) }, "its waiting as a flame graph"),
				el("button", { onclick: () => this.app.tables.scopeTo("heat", id) }, "its polls over time"))];
	}

	// ---- pieces ----

	nameOf(x) {
		const lane = x.lane ?? this.app.laneOfFamily.get(x.family ?? this.app.data.kindOf(x.task));

		return this.app.trace.lanes[lane]?.short ?? x.name ?? "task";
	}

	section(title, items, make) {
		if (!items?.length)
			return null;
		const shown = items.slice(0, 40);

		return el("div", {}, el("h3", {}, title, el("small", {}, items.length > shown.length
			? ` ${count(shown.length)} of ${count(items.length)}` : ` ${count(items.length)}`)),
		el("ul", {}, shown.map(make)));
	}

	// A bar of shares, and what each is.
	parts(parts, whole) {
		const there = parts.filter(([, ns]) => ns > 0);

		if (!whole || !there.length)
			return null;
		return el("div", { class: "parts" },
			el("div", { class: "bar" }, there.map(([kind, ns]) => el("i", { class: `swatch ${kind}`,
				style: { width: `${Math.min(100, ns / whole * 100)}%` } }))),
			there.map(([kind, ns]) => el("span", { class: "key" }, el("i", { class: `swatch ${kind}` }),
				`${STATES[kind]} ${duration(ns)}`, el("small", {}, ` ${percent(ns, whole)}`))));
	}

	place(place, resource) {
		if (!place)
			return el("code", {}, "?");
		return el("code", {}, placeText(place), place.awaits ? el("small", {}, ` awaits ${place.awaits}`) : null,
			resource ? el("small", {}, ` (${resource.what} ${resource.address})`) : null);
	}

	pollLink(id, text) {
		return id ? el("button", { class: "link", onclick: () => this.app.goToPoll(id) }, text) : el("span", {}, text);
	}

	taskLink(id, text, at) {
		return id ? el("button", { class: "link", onclick: () => this.app.state.select("task", id, at) }, text) : text;
	}

	threadLink(thread) {
		const lane = this.app.laneOfThread.get(thread);
		const name = this.app.trace.lanes[lane]?.short ?? `thread ${thread}`;

		return lane === undefined ? name : el("button", { class: "link", onclick: () => {
			this.app.timeline.reveal(lane);
			this.app.state.select("lane", lane);
		} }, name);
	}

	timeLink(from, to, text) {
		return el("button", { class: "link", onclick: () => this.app.state.lookAt(from, to, 0.5) }, text);
	}
}

function outcomeText(outcome) {
	return { pending: "pending: it waits", ready: "ready: the task is done", panicked: "panicked",
		cancelled: "cancelled", unknown: "not known" }[outcome] ?? outcome;
}
