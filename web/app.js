// SPDX-License-Identifier: MIT OR Apache-2.0
// The page: gets the trace, makes the parts, and has what several of them need: names, and ways to
// go to a lane, a task, a poll.

import { openData } from "./data.js";
import { afterPause, byId, el, say, tooltip } from "./dom.js";
import { State } from "./state.js";
import { onThemeChange } from "./theme.js";
import { count, duration, placeBrief, placeText, point, setSpan } from "./units.js";
import { Overview } from "./overview.js";
import { Timeline } from "./timeline.js";
import { Findings } from "./findings.js";
import { Detail } from "./detail.js";
import { Tables } from "./tables.js";
import { Search } from "./search.js";
import { helpDialog, listenToKeys } from "./keys.js";
import { downloadButtons, viewAsText } from "./share.js";

class App {
	constructor(data, trace) {
		this.data = data;
		this.trace = trace;
		setSpan(trace.span_ns);
		this.state = new State(trace.span_ns, trace.begin_ns ?? 0);
		this.knowLanes();
		this.places = {};
		this.names = { slice: (s) => this.sliceTitle(s), place: (p) => placeText(this.places[p]) || "?" };
		this.state.readAddress(location.hash);
		this.keepPlaces();
		this.overview = new Overview(this);
		this.timeline = new Timeline(this);
		this.findings = new Findings(this);
		this.tables = new Tables(this);
		this.detail = new Detail(this);
		this.search = new Search(this);
		this.dialog = helpDialog();
		this.header();
		this.splitter();
		listenToKeys(this);
		const address = afterPause(200, () => history.replaceState(null, "", this.state.address()));

		this.state.on("address", address);
		window.addEventListener("hashchange", () => {
			this.state.readAddress(location.hash);
			this.state.changed("lanes");
			this.state.changed("selection");
			this.state.changed("table");
		});
		window.addEventListener("resize", afterPause(60, () => this.resized()));
		onThemeChange(() => this.resized());
	}

	knowLanes() {
		const { lanes } = this.trace;

		this.laneOfThread = new Map(lanes.filter((l) => l.kind === "thread").map((l) => [l.thread, l.id]));
		this.laneOfFamily = new Map(lanes.filter((l) => l.kind === "family").map((l) => [l.family, l.id]));
	}

	start() {
		this.timeline.start();
		this.overview.load();
		this.tables.loadNow();
		this.state.changed("selection");
		if (this.trace.live)
			this.data.follow(() => this.grown());
	}

	// A trace that is still recorded is longer now; who looks at its end goes on doing so.
	async grown() {
		const trace = await this.data.trace().catch(() => null);

		if (!trace)
			return;
		const { state } = this;
		const atEnd = state.to >= state.span;
		const { width } = state;

		Object.assign(this.trace, trace);
		this.knowLanes();
		state.span = Math.max(trace.span_ns, 1);
		setSpan(trace.span_ns);
		this.overview.load();
		this.timeline.lanes.layOut();
		if (atEnd)
			state.look(state.from <= state.begin ? state.begin : state.span - width, state.span);
		else
			state.changed("view");
		this.findings.show();
		this.header();
	}

	// Answers that have places tell what their numbers mean.
	keepPlaces() {
		for (const what of ["slices", "tasks", "task", "poll"]) {
			const ask = this.data[what].bind(this.data);

			this.data[what] = async (query) => {
				const answer = await ask(query);

				Object.assign(this.places, answer.places);
				return answer;
			};
		}
	}

	// ---- parts of the page ----

	header() {
		const { trace, state } = this;
		const button = (text, title, onclick) => el("button", { title, onclick }, text);

		byId("program").textContent = trace.program.split("/").at(-1) || "trace";
		document.title = `${byId("program").textContent} · pollux`;
		byId("program").title = trace.command || trace.program;
		byId("facts").replaceChildren(
			el("span", {}, duration(trace.span_ns)), el("span", {}, `${count(trace.events)} ${trace.events === 1 ? "event" : "events"}`),
			trace.lost ? el("span", { class: "bad" }, `${count(trace.lost)} lost`) : el("span", {}, "none lost"),
			trace.truncated ? el("span", { class: "bad", title: trace.truncated }, "incomplete") : "",
			trace.live ? el("span", { class: "live" }, "live") : "",
			trace.began_unix_ms ? el("time", {}, new Date(trace.began_unix_ms).toISOString().slice(0, 19).replace("T", " ") + " UTC") : "");
		byId("buttons").replaceChildren(
			button("Fit", "The whole trace (0)", () => state.fit()),
			button("◂", "Zoom back ([)", () => state.back()),
			button("▸", "Zoom forward (])", () => state.forward()),
			button("Copy", "Copy what is shown as text (c)", () => this.copyText()),
			button("Link", "Copy a link to this view (l)", () => this.copyLink()),
			...downloadButtons(this),
			button("?", "Keys and mouse (?)", () => this.help()));
	}

	splitter() {
		const bar = byId("splitter");
		const set = (percentOfPage) => {
			const value = Math.min(80, Math.max(10, percentOfPage));

			document.documentElement.style.setProperty("--tables", `${value}vh`);
			bar.setAttribute("aria-valuenow", String(Math.round(value)));
			this.resized();
		};

		bar.addEventListener("pointerdown", (event) => {
			bar.setPointerCapture(event.pointerId);
			bar.onpointermove = (e) => set((window.innerHeight - e.clientY) / window.innerHeight * 100);
			bar.onpointerup = () => { bar.onpointermove = null; };
		});
		bar.addEventListener("keydown", (event) => {
			const by = { ArrowUp: 4, ArrowDown: -4 }[event.key];

			if (!by)
				return;
			event.preventDefault();
			set(Number(bar.getAttribute("aria-valuenow")) + by);
		});
	}

	laneNamed(family) {
		return this.trace.lanes.find((l) => l.kind === "family" && l.name === family)?.id;
	}

	// The lane of a row's family: by the number of its kind, or by its name.
	laneOf(row) {
		return this.laneOfFamily.get(row.kind) ?? this.laneNamed(row.family);
	}

	gutter() {
		return window.innerWidth >= 1800 ? 260 : 190;
	}

	plotWidth() {
		return Math.max(100, byId("lanes").clientWidth - this.gutter());
	}

	resized() {
		this.timeline.lanes.load();
		this.timeline.showLabels();
		this.timeline.draw();
		this.overview.draw();
		this.tables.load();
	}

	fail(error) {
		say(error.message);
		tooltip([error.message], window.innerWidth / 2, 60, this);
		setTimeout(() => tooltip(null, 0, 0, this), 6000);
	}

	help() {
		this.dialog.showModal();
	}

	// ---- names ----

	familyName(s) {
		return this.trace.lanes[this.laneOfFamily.get(s.family)]?.short ?? "";
	}

	// What is written on a slice.
	sliceName(s, row) {
		if (s.kind === "poll")
			return row.type === "task" ? duration(s.to - s.from) : `${this.familyName(s)} #${s.number}`;
		if (s.kind === "wait")
			return placeBrief(this.places[s.place]) || "waiting";
		return s.kind === "ready" ? `ready ${duration(s.to - s.from)}` : s.text ?? "";
	}

	sliceTitle(s) {
		const of = `${this.familyName(s)} #${s.number}`;

		return { poll: `poll of ${of}`, wait: `${of} waits`, ready: `${of} is ready, not polled`,
			call: `blocking call ${s.text}`, syscall: `system call ${s.text}`, off_cpu: `off the CPU: ${s.text}`,
			park: `parked in ${s.text}` }[s.kind] ?? "not known";
	}

	// ---- going somewhere ----

	async goToPoll(id) {
		if (!id)
			return;
		const poll = await this.data.poll({ id }).catch((error) => this.fail(error));

		if (!poll)
			return;
		const { state } = this;
		const took = Math.max(poll.to - poll.from, 1);

		// So that it can be seen, and what is around it.
		if (poll.from < state.from || poll.to > state.to || took < state.width / 300)
			state.look(poll.from - 12 * took, poll.to + 12 * took, true);
		state.select("poll", id);
		this.timeline.reveal(this.laneOfThread.get(poll.thread));
	}

	goToTask(hit) {
		if (hit.at !== undefined && hit.to !== undefined && (hit.to < this.state.from || hit.at > this.state.to))
			this.state.lookAt(hit.at, hit.to, 0.1);
		this.state.select("task", hit.task, hit.at);
		if (hit.lane !== undefined)
			this.openTask(hit.lane, hit.task);
	}

	goToLane(lane, open = false, at) {
		if (lane === undefined || lane === null || lane < 0)
			return;
		if (at !== undefined && (at < this.state.from || at > this.state.to))
			this.state.look(at - this.state.width / 2, at + this.state.width / 2, true);
		if (open)
			this.state.toggle(lane, true);
		this.state.select("lane", lane);
		this.timeline.reveal(lane);
	}

	openTask(lane, task) {
		this.state.toggle(lane, true);
		setTimeout(() => this.timeline.reveal(lane, task), 250);
	}

	// The longest poll of that lane around that time.
	async pollAt(lane, time, margin = 0) {
		if (lane === undefined || lane === null)
			return null;
		const answer = await this.data.slices({ lane, from: Math.max(0, Math.floor(time - margin)), to: Math.ceil(time + margin) + 1,
			kind: "poll", sort: "longest", max: 1 })
			.catch(() => null);
		const polls = answer?.slices.filter((s) => s.kind === "poll" && s.to >= time - margin) ?? [];

		return polls.length ? polls.reduce((a, b) => b.to - b.from > a.to - a.from ? b : a) : null;
	}

	async goToTime(lane, from, to, thread) {
		const on = this.trace.lanes.find((l) => l.kind === "thread" && l.short === thread)?.id;
		const poll = await this.pollAt(on ?? lane, (from + to) / 2);

		if (poll)
			this.goToPoll(poll.id);
		else
			this.state.lookAt(from, to, 2);
	}

	walk(where) {
		const poll = this.state.selection?.type === "poll" ? this.detail.current : null;
		const id = { next: poll?.next, previous: poll?.previous, "woken by": poll?.woken_by?.poll,
			woke: poll?.wakes.find((w) => w.poll)?.poll }[where];

		if (id)
			this.goToPoll(id);
		else
			say(poll ? `There is no poll: ${where}` : "No poll is selected");
	}

	selectTask() {
		const poll = this.state.selection?.type === "poll" ? this.detail.current : null;

		if (poll?.task)
			this.state.select("task", poll.task, poll.from);
	}

	async fitSelection() {
		const { selection } = this.state;

		if (selection?.type === "poll" && this.detail.current)
			this.state.lookAt(this.detail.current.from, this.detail.current.to, 1);
		else if (selection?.type === "task") {
			const t = await this.data.task({ id: selection.id, at: selection.at }).catch((error) => this.fail(error));

			if (!t)
				return;

			this.state.lookAt(t.from, t.to, 0.03);
		} else if (selection?.type === "finding")
			this.findings.goTo(selection.id);
		else
			this.state.fit();
	}

	stepLane(by) {
		const rows = this.timeline.lanes.rows.filter((r) => ["thread", "family", "task"].includes(r.type));
		const { selection, state } = { selection: this.state.selection, state: this.state };
		const at = rows.findIndex((r) => r.type === "task" ? selection?.type === "task" && selection.id === r.task.task
			: selection?.type === "lane" && selection.id === r.lane.id);
		const row = rows[Math.min(rows.length - 1, Math.max(0, at + by))];

		if (!row)
			return;
		if (row.type === "task")
			state.select("task", row.task.task, row.task.from);
		else
			state.select("lane", row.lane.id);
		this.timeline.reveal(row.lane.id, row.task?.task);
		say(row.type === "task" ? `task ${row.task.number}` : `${row.type} ${row.lane.short}`);
	}

	enterLane() {
		const { selection } = this.state;
		const lane = selection?.type === "lane" ? this.trace.lanes[selection.id] : null;

		if (lane?.kind === "family")
			this.state.toggle(lane.id);
		else if (lane)
			this.pollAt(lane.id, (this.state.from + this.state.to) / 2, this.state.width / 2)
				.then((poll) => poll && this.goToPoll(poll.id));
	}

	// ---- sharing ----

	async copyText() {
		await this.copy(viewAsText(this), "Copied what is shown as text");
	}

	async copyLink() {
		await this.copy(location.href.replace(/#.*/, "") + this.state.address(), "Copied a link to this view");
	}

	async copy(text, done) {
		try {
			await navigator.clipboard.writeText(text);
		} catch {
			// Not allowed for pages of files: by way of a selection.
			const area = el("textarea", { class: "unseen" }, text);

			document.body.append(area);
			area.select();
			document.execCommand("copy");
			area.remove();
		}
		this.copied = text;
		say(done);
		tooltip([done], window.innerWidth / 2 - 80, 50, this);
		setTimeout(() => tooltip(null, 0, 0, this), 1500);
	}
}

async function main() {
	try {
		const data = await openData();
		const trace = await data.trace();

		document.body.classList.add("running");
		byId("app").hidden = false;
		window.pollux = new App(data, trace);
		window.pollux.start();
		byId("app").dataset.ready = "yes";
	} catch (error) {
		byId("failed").textContent = `The page cannot show the trace: ${error.message}`;
		byId("failed").hidden = false;
		throw error;
	}
}

main();
