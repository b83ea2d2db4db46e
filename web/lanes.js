// SPDX-License-Identifier: MIT OR Apache-2.0
// The rows of the timeline: threads, families, and the tasks of those that are open; and what is
// known of each in the window: cells always, exact slices where there are few. Asks for it again when
// the window or the rows change.

import { afterPause } from "./dom.js";
import { duration } from "./units.js";

const HEAD = 22;
const THREAD = 30;
const FAMILY = 44;
const TASK = 17;
const GAP = 3;
const MOST_SLICES = 3000; // of a lane that are drawn one by one
const TASKS_AT_ONCE = 40;

const isWorker = (l) => l.role === "worker" || l.role === "block_on";
const GROUPS = [
	["Worker threads", (l) => l.kind === "thread" && isWorker(l)],
	["Families of tasks", (l) => l.kind === "family"],
	["Other threads", (l) => l.kind === "thread" && !isWorker(l)],
];

export class Lanes {
	constructor(app) {
		this.app = app;
		this.cells = null; // the last answer
		this.slices = new Map(); // by lane: an answer
		this.tasks = new Map(); // by lane: an answer
		this.mostTasks = new Map(); // by lane: how many are asked for
		this.rows = [];
		this.height = 0;
		this.asked = 0;
		this.onRows = () => {};
		this.onData = () => {};
		this.load = afterPause(30, () => this.loadNow());
		this.layOut();
	}

	// ---- rows ----

	layOut() {
		const { lanes } = this.app.trace;
		const rows = [];
		const add = (row, height) => {
			rows.push({ ...row, y: this.height, height });
			this.height += height + (row.type === "task" ? 1 : GAP);
		};

		this.height = 0;
		for (const [text, is] of GROUPS) {
			const of = lanes.filter((l) => is(l) && this.shown(l)).sort((a, b) => a.rank - b.rank);

			if (!of.length)
				continue;
			add({ type: "head", text, n: of.length }, HEAD);
			for (const lane of of) {
				add({ type: lane.kind, lane }, lane.kind === "thread" ? THREAD : FAMILY);
				if (lane.kind === "family" && this.app.state.open.has(lane.id))
					this.layOutTasks(lane, add);
			}
		}
		this.rows = rows;
		this.onRows();
	}

	// A thread that never polled and a runtime's own loop say little.
	shown(lane) {
		return lane.kind === "thread" ? lane.polls || lane.role !== "other" : lane.role !== "worker";
	}

	layOutTasks(lane, add) {
		const answer = this.tasks.get(lane.id);

		if (answer && !answer.exact && answer.tasks.length)
			add({ type: "note", lane, text: `only > ${duration(this.app.trace.index.exact_ns)}: zoom in`,
				title: "The window has too many events: of these tasks only what took longer is shown." }, TASK);
		for (const task of answer?.tasks ?? [])
			add({ type: "task", lane, task, whole: answer.exact }, TASK);
		if (!answer || answer.more || !answer.tasks.length)
			add({ type: "more", lane, text: !answer ? "reading…" : answer.more ? "more tasks"
				: answer.exact ? "no task here now" : "too many events: zoom in" }, TASK);
	}

	rowAt(y) {
		return this.rows.find((r) => y >= r.y && y < r.y + r.height + GAP);
	}

	rowOf(lane, task) {
		return (task && this.rows.find((r) => r.type === "task" && r.lane.id === lane &&
			r.task.task === task)) ||
			this.rows.find((r) => r.lane?.id === lane && ["thread", "family"].includes(r.type));
	}

	moreTasks(lane) {
		this.mostTasks.set(lane, (this.mostTasks.get(lane) ?? TASKS_AT_ONCE) + TASKS_AT_ONCE);
		this.load();
	}

	// ---- data ----

	async loadNow() {
		const { data, state, trace } = this.app;
		const asked = ++this.asked;
		const { from, to } = state;
		const width = Math.max(256, Math.min(2048, 2 ** Math.round(Math.log2(this.app.plotWidth()))));
		const lanes = trace.lanes.filter((l) => this.shown(l)).slice(0, 256);

		try {
			const cells = await data.cells({ from, to, n: width, lanes: lanes.map((l) => l.id) });

			if (asked !== this.asked)
				return;
			this.cells = cells;
			this.onData();
			await Promise.all([
				this.loadSlices(lanes, from, to, asked),
				...[...state.open].filter((id) => trace.lanes[id]?.kind === "family").map((id) => this.loadTasks(id, from, to, asked))]);
		} catch (error) {
			this.app.fail(error);
		}
	}

	// Of all threads that have few polls in the window, by one question.
	async loadSlices(lanes, from, to, asked) {
		const few = lanes.filter((l) => l.kind === "thread" &&
			(this.cells.lanes[l.id]?.polls ?? []).reduce((a, b) => a + b, 0) <= MOST_SLICES);
		const around = (to - from) / 4;
		const answer = few.length ? await this.app.data.slices({ lanes: few.map((l) => l.id),
			from: Math.max(0, from - around), to: to + around, n: this.pixels(1.5) }) : null;

		if (asked !== this.asked)
			return;
		this.slices.clear();
		for (const [id, lane] of Object.entries(answer?.exact ? answer.lanes : {}))
			if (!lane.more)
				this.slices.set(Number(id), { ...lane, from: answer.from, to: answer.to,
					cells: shortSlices(lane.thin, answer.from, answer.to) });
		this.onData();
	}

	// Cells in which an answer is drawn that covers the window this many times.
	pixels(times) {
		return Math.max(1, Math.min(4096, Math.ceil(this.app.plotWidth() * times)));
	}

	async loadTasks(lane, from, to, asked) {
		const answer = await this.app.data.tasks({ lane, from, to, sort: this.app.state.sort,
			max: this.mostTasks.get(lane) ?? TASKS_AT_ONCE, n: this.pixels(1) });

		if (asked !== this.asked)
			return;
		for (const task of answer.tasks)
			task.cells = shortSlices(task.thin, answer.from, answer.to);
		this.tasks.set(lane, answer);
		this.layOut();
		this.onData();
	}

	// Exact slices of a lane, if they cover that window.
	exact(lane, from, to) {
		const answer = this.slices.get(lane);

		return answer && answer.from <= from && answer.to >= to ? answer : null;
	}
}

const SUMS = { poll: "polling_ns", call: "blocked_ns", ready: "ready_ns", wait: "waiting_ns", park: "parked_ns",
	off_cpu: "off_cpu_ns" };

// The sums of slices that are too short to be seen, as an answer of api/cells has them; null: there are none.
function shortSlices(thin, from, to) {
	if (!thin)
		return null;
	const lane = {};

	for (const [kind, name] of [...Object.entries(SUMS), ["n", "slices"]])
		if (thin[kind])
			lane[name] = Object.fromEntries(thin.cell.map((cell, i) => [cell, thin[kind][i]]));
	return { from, cell_ns: thin.cell_ns, n: Math.ceil((to - from) / thin.cell_ns), lane };
}
