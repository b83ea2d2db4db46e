// SPDX-License-Identifier: MIT OR Apache-2.0
// Answers from the columns of a one-file report, in the shapes that docs/view.md gives for those of
// the server. Polls are by thread and begin; their numbers are the ids of polls.

import { flameOf, heatOf, reportOf } from "./aggregate.js";

const BEGIN_SEEN = 1;
const INFERRED = 4;
const UNKNOWN_BEFORE = 16;
const AFTER_GAP = 32;
const SELF_WAKE = 64;
const SPAWN_SEEN = 1;
const MOST_DRAWN = 9000; // slices of a lane, one by one
const STATES = ["unknown", "ready", "poll", "wait", "end"];

export class Inlined {
	constructor({ cells, ...block }) {
		Object.assign(this, block);
		this.coarse = cells;
		this.began_unix_ms = block.began_unix_ms;
		this.span = Math.max(block.end_ns, 1);
		this.indexTables();
		this.makeLanes();
	}

	// ---- indexes ----

	indexTables() {
		const { calls, polls, tasks } = this.tables;

		for (const table of Object.values(this.tables)) {
			table.end = new Float64Array(table.n);
			for (let i = 0; i < table.n; i++)
				table.end[i] = table.begin[i] + table.length[i];
			if (table.thread)
				this.indexThreads(table);
		}
		this.rowOfSerial = new Map();
		for (let row = 0; row < tasks.n; row++) {
			this.rowOfSerial.set(tasks.serial[row], row);
			if (!this.ended(row))
				tasks.end[row] = this.span;
		}

		// Polls of each task in order: taskPolls[taskFirst[row]] to taskPolls[taskFirst[row + 1] - 1];
		// pollAt is a poll's place in there, pollRow its task.
		this.pollRow = new Int32Array(polls.n);
		this.taskFirst = new Uint32Array(tasks.n + 1);
		for (let i = 0; i < polls.n; i++) {
			this.pollRow[i] = this.rowOfSerial.get(polls.task[i]) ?? -1;
			this.taskFirst[this.pollRow[i] + 1] += this.pollRow[i] >= 0;
		}
		for (let row = 0; row < tasks.n; row++)
			this.taskFirst[row + 1] += this.taskFirst[row];
		const next = this.taskFirst.slice();

		this.taskPolls = new Uint32Array(this.taskFirst[tasks.n]);
		for (let i = 0; i < polls.n; i++)
			if (this.pollRow[i] >= 0)
				this.taskPolls[next[this.pollRow[i]]++] = i;
		for (let row = 0; row < tasks.n; row++)
			this.taskPolls.subarray(this.taskFirst[row], this.taskFirst[row + 1])
				.sort((x, y) => polls.begin[x] - polls.begin[y]);
		this.pollAt = new Uint32Array(polls.n);
		this.taskPolls.forEach((i, at) => { this.pollAt[i] = at; });
		this.callKind = Int32Array.from(calls.task, (serial) => tasks.kind[this.rowOfSerial.get(serial)] ?? -1);
	}

	// first[thread] to first[thread + 1] - 1 are a thread's items; maxEnd grows within them.
	indexThreads(table) {
		table.first = new Uint32Array(this.threads.length + 1);
		table.maxEnd = new Float64Array(table.n);
		for (let i = 0; i < table.n; i++) {
			const same = i > 0 && table.thread[i - 1] === table.thread[i];

			table.maxEnd[i] = Math.max(table.end[i], same ? table.maxEnd[i - 1] : 0);
			table.first[table.thread[i] + 1]++;
		}
		for (let t = 0; t < this.threads.length; t++)
			table.first[t + 1] += table.first[t];
	}

	// The numbers of a thread's items that overlap a window.
	*overlapping(table, thread, from, to) {
		let low = table.first[thread];
		let high = table.first[thread + 1];
		const last = high;

		while (low < high) {
			const middle = (low + high) >>> 1;

			if (table.maxEnd[middle] < from)
				low = middle + 1;
			else
				high = middle;
		}
		for (let i = low; i < last && table.begin[i] < to; i++)
			if (table.end[i] >= from)
				yield i;
	}

	ended(row) {
		return this.outcomes[this.tables.tasks.outcome[row]] !== "pending";
	}

	makeLanes() {
		const { polls, parks, calls, off_cpu: off } = this.tables;
		const families = new Map(this.report.families.map((f) => [f.kind, f]));
		const some = (t) => [polls, parks, calls, off].some((x) => x.first[t + 1] > x.first[t]);

		this.lanes = [];
		this.threads.map((t, thread) => ({ ...t, thread }))
			.filter((t) => t.role !== "other" || some(t.thread))
			.forEach((t) => this.lanes.push({
				id: this.lanes.length, kind: "thread", name: t.name, short: t.name, role: t.role,
				tid: t.tid, thread: t.thread,
				process: t.process, polls: t.polls,
			}));
		for (const [kind, f] of families)
			this.lanes.push({
				id: this.lanes.length, kind: "family", name: f.name,
				short: this.kinds[kind]?.short ?? f.name, role: f.role, family: kind,
				process: f.process, tasks: f.tasks, polls: f.polls,
				sites: f.spawn_sites,
			});
		this.laneOfThread = new Map();
		this.laneOfFamily = new Map();
		for (const lane of this.lanes)
			(lane.kind === "thread" ? this.laneOfThread.set(lane.thread, lane.id)
				: this.laneOfFamily.set(lane.family, lane.id));
		this.rowsOfFamily = new Map();
		for (let row = 0; row < this.tables.tasks.n; row++) {
			const kind = this.tables.tasks.kind[row];

			if (!this.rowsOfFamily.has(kind))
				this.rowsOfFamily.set(kind, []);
			this.rowsOfFamily.get(kind).push(row);
		}
	}

	familyRows(lane) {
		return lane === undefined || lane === null
			? this.tables.tasks.serial.keys()
			: this.rowsOfFamily.get(this.lanes[lane].family) ?? [];
	}

	// ---- pieces of answers ----

	// Of a number that is 1 + an index; the program's own await point and the innermost one.
	place(number) {
		const p = number ? this.places[number - 1] : null;

		if (!p)
			return null;
		const own = p.own ?? p;
		const where = own.file ? `${short(own.file)}:${own.line} ` : "";

		return { function: own.function, file: own.file, line: own.line, awaits: own.awaits,
			text: where + own.function };
	}

	// Of the place itself, which may be a library's.
	placeName(number) {
		const p = this.places[number - 1];

		return `${p.file ? `${short(p.file)}:${p.line} ` : ""}${p.function || "?"}`;
	}

	// Await points from the outermost to the innermost, as numbers of places.
	chain(number) {
		const chain = [];

		for (let at = number; at && chain.length < 256; at = this.places[at - 1]?.outer ?? 0)
			chain.unshift(at);
		return chain;
	}

	stack(number) {
		const frames = [];

		for (let at = number; at && frames.length < 1024; at = this.stacks[2 * at - 2])
			frames.push(this.frames[this.stacks[2 * at - 1]]);
		return frames;
	}

	resource(number) {
		const r = number ? this.resources[number - 1] : null;

		return r ? { what: r.what, address: `0x${r.address.toString(16)}` } : null;
	}

	pollSlice(i) {
		const { polls, tasks } = this.tables;
		const row = this.pollRow[i];

		return {
			id: String(i), kind: "poll", from: polls.begin[i], to: polls.end[i],
			thread: polls.thread[i], family: row >= 0 ? tasks.kind[row] : undefined,
			task: row >= 0 ? String(tasks.serial[row]) : undefined,
			number: row >= 0 ? String(tasks.number[row]) : "?",
			outcome: this.outcomes[polls.outcome[i]], place: polls.place[i] || undefined,
			depth: polls.depth[i], blocked_ns: polls.blocked[i],
			ready_from: polls.ready[i] ? polls.begin[i] - polls.ready[i] + 1 : undefined,
			inferred: Boolean(polls.flags[i] & INFERRED),
			open: !(polls.flags[i] & BEGIN_SEEN) || polls.end[i] >= this.span,
		};
	}

	callSlice(i) {
		const { calls } = this.tables;

		return { kind: "call", from: calls.begin[i], to: calls.end[i], thread: calls.thread[i],
			text: this.calls[calls.call[i]], task: String(calls.task[i]),
			blocks: Boolean(calls.keeps_worker[i]) };
	}

	offSlice(i) {
		const off = this.tables.off_cpu;

		return { kind: "off_cpu", from: off.begin[i], to: off.end[i], thread: off.thread[i],
			text: this.off_cpu_reasons[off.reason[i]] };
	}

	// What a task did in a window (and perhaps a little around it), in order: fn(kind, from, to, poll or
	// -1, place, resource). A poll that was left out leaves a gap.
	stretches(row, fn, from = 0, to = Infinity) {
		const { polls, tasks } = this.tables;
		let at = this.firstPoll(row, from);
		let before = tasks.begin[row];
		let place = 0;

		if (at > this.taskFirst[row]) {
			before = polls.end[this.taskPolls[at - 1]];
			place = polls.place[this.taskPolls[at - 1]];
		}
		for (; at < this.taskFirst[row + 1]; at++) {
			if (before >= to)
				return;
			const i = this.taskPolls[at];
			const begin = polls.begin[i];
			const ready = polls.ready[i] ? begin - polls.ready[i] + 1 : begin;

			if (!(polls.flags[i] & AFTER_GAP) && ready > before)
				fn(polls.flags[i] & UNKNOWN_BEFORE ? "unknown" : "wait", before, ready, -1, place,
					polls.resource[i]);
			if (begin > ready)
				fn("ready", Math.max(ready, 0), begin, -1, 0, 0);
			fn("poll", begin, polls.end[i], i, polls.place[i], 0);
			before = polls.end[i];
			place = polls.place[i];
		}
		if (!tasks.last[row])
			return;
		const since = tasks.last[row] - 1;

		if (since > before)
			fn("wait", before, since, -1, place, 0);
		if (tasks.end[row] > since)
			fn(STATES[tasks.state[row]], since, tasks.end[row], -1, tasks.place[row],
				tasks.resource[row]);
	}

	// The place in taskPolls of a task's first poll that ends after that time.
	firstPoll(row, time) {
		let low = this.taskFirst[row];
		let high = this.taskFirst[row + 1];

		while (low < high) {
			const middle = (low + high) >>> 1;

			if (this.tables.polls.end[this.taskPolls[middle]] < time)
				low = middle + 1;
			else
				high = middle;
		}
		return low;
	}

	taskRef(row) {
		const { tasks } = this.tables;

		return { task: String(tasks.serial[row]), number: String(tasks.number[row]),
			lane: this.laneOfFamily.get(tasks.kind[row]),
			name: this.kinds[tasks.kind[row]]?.short };
	}

	// The innermost poll that a thread was in; -1: none.
	pollOn(thread, time, not) {
		let found = -1;

		for (const i of this.overlapping(this.tables.polls, thread, time, time + 1))
			if (this.tables.polls.begin[i] <= time && this.tables.polls.end[i] >= time && i !== not)
				found = i;
		return found;
	}

	placesOf(slices) {
		const places = {};

		for (const s of slices)
			if (s.place)
				places[s.place] ??= this.place(s.place);
		return places;
	}

	// ---- the interface ----

	trace() {
		const r = this.report;

		return {
			format: 1, file: this.file, program: r.processes[0]?.exe ?? "",
			command: r.processes[0]?.cmdline ?? "",
			began_unix_ms: this.began_unix_ms, span_ns: this.span,
			begin_ns: this.begin_ns, events: r.events, lost: r.lost, live: false,
			truncated: r.truncated ? r.truncated_text : null, processes: r.processes,
			lanes: this.lanes, moments: this.moments.map((m) => m.at),
			left_out: this.tables.polls.leftOut,
			left_out_below_ns: this.tables.polls.leftOutBelow,
		};
	}

	kindOf(task) {
		return this.tables.tasks.kind[this.rowOfSerial.get(Number(task))];
	}

	cells({ from, to, n, lanes }) {
		// Where polls were left out the whole is in cells made before: exact, but no finer than that.
		const coarse = this.coarse && to - from > 8 * this.coarse.cell_ns;
		const cells = coarse ? new CoarseCells(this.coarse, from, to) : new Cells(from, to, n);
		const busy = cells.series();
		const blocked = cells.series();
		const ready = cells.series();
		const out = {};
		const causes = [];

		for (const lane of this.lanes) {
			const wanted = !lanes || lanes.includes(lane.id);
			const one = coarse ? cells.lane(lane) : lane.kind === "thread"
				? this.threadCells(lane, cells) : this.familyCells(lane, cells, causes);

			if (wanted)
				out[lane.id] = one;
			if (lane.kind === "thread" && lane.role === "worker") {
				one.polling_ns.forEach((v, i) => { busy[i] += v; });
				one.blocked_ns.forEach((v, i) => { blocked[i] += v; });
			} else if (lane.kind === "family" && lane.role !== "worker") {
				one.ready_ns.forEach((v, i) => { ready[i] += v; });
			}
		}
		return { from: cells.from, to, n: cells.n, cell_ns: cells.width, lanes: out, causes,
			overview: { busy_ns: busy, ready_ns: ready, blocked_ns: blocked } };
	}

	threadCells(lane, cells) {
		const { polls, calls, parks, off_cpu: off } = this.tables;
		const out = { polls: cells.series(), longest_ns: cells.series() };
		const sum = (table, of) => {
			const series = cells.sums();

			for (const i of this.overlapping(table, lane.thread, cells.from, cells.to))
				if (of(i))
					cells.add(series, table.begin[i], table.end[i]);
			return cells.finish(series);
		};

		for (const i of this.overlapping(polls, lane.thread, cells.from, cells.to))
			cells.note(out, polls.begin[i], polls.length[i]);
		out.polling_ns = sum(polls, (i) => !polls.depth[i]);
		out.blocked_ns = sum(calls, (i) => calls.keeps_worker[i]);
		out.parked_ns = sum(parks, () => true);
		out.off_cpu_ns = sum(off, (i) => off.task[i]);
		return out;
	}

	familyCells(lane, cells, causes) {
		const out = { polls: cells.series(), longest_ns: cells.series() };
		const sums = { poll: cells.sums(), ready: cells.sums(), wait: cells.sums() };
		const byPlace = new Map();
		const { tasks, calls } = this.tables;
		const blocked = cells.sums();

		for (const row of this.familyRows(lane.id)) {
			if (tasks.end[row] < cells.from || tasks.begin[row] >= cells.to)
				continue;
			this.stretches(row, (kind, from, to, poll, place) => {
				if (to < cells.from || from >= cells.to)
					return;
				if (poll >= 0)
					cells.note(out, from, to - from);
				if (sums[kind])
					cells.add(sums[kind], from, to);
				if (kind === "wait" && place) {
					if (!byPlace.has(place))
						byPlace.set(place, cells.sums());
					cells.add(byPlace.get(place), from, to);
				}
			}, cells.from, cells.to);
		}
		for (let i = 0; i < calls.n; i++)
			if (this.callKind[i] === lane.family && calls.keeps_worker[i])
				cells.add(blocked, calls.begin[i], calls.end[i]);
		out.polling_ns = cells.finish(sums.poll);
		out.ready_ns = cells.finish(sums.ready);
		out.waiting_ns = cells.finish(sums.wait);
		out.blocked_ns = cells.finish(blocked);
		out.cause = this.causeOf(byPlace, cells, causes);
		return out;
	}

	// For each cell the index in `causes` of what was waited for longest; -1: nothing.
	causeOf(byPlace, cells, causes) {
		const most = cells.series();
		const out = new Array(cells.n).fill(-1);

		for (const [place, sums] of byPlace) {
			const series = cells.finish(sums);
			let index = causes.findIndex((c) => c.place === place);

			if (index < 0)
				index = causes.push({ place, ...this.place(place) }) - 1;
			series.forEach((v, i) => {
				if (v > most[i]) {
					most[i] = v;
					out[i] = index;
				}
			});
		}
		return out;
	}

	// Of one lane, or of several.
	slices({ lane, lanes, from, to, n, max = n ? MOST_DRAWN : 2000, kind, sort }) {
		if (!lanes)
			return this.slicesOf({ lane, from, to, max, kind, sort });
		const all = lanes.map((id) => [id, this.slicesOf({ lane: id, from, to, max })]);

		return { from, to, exact: !this.tables.polls.leftOut, lanes: Object.fromEntries(all),
			places: Object.assign({}, ...all.map(([, answer]) => answer.places)) };
	}

	slicesOf({ lane, from, to, max: shown, kind, sort }) {
		const l = this.lanes[lane];
		const longest = sort === "longest";
		const max = longest ? Infinity : shown;
		let found = [];
		const { polls, calls, parks, off_cpu: off } = this.tables;
		const add = (table, make, wanted = () => true) => {
			for (const i of this.overlapping(table, l.thread, from, to)) {
				if (found.length > max)
					return;
				if (wanted(i))
					found.push(make(i));
			}
		};

		if (l.kind === "thread") {
			add(polls, (i) => this.pollSlice(i));
			add(calls, (i) => this.callSlice(i));
			add(off, (i) => this.offSlice(i), (i) => off.task[i]);
			add(parks, (i) => ({ kind: "park", from: parks.begin[i], to: parks.end[i],
				thread: l.thread, text: this.calls[parks.call[i]] }));
		} else {
			for (const row of this.familyRows(lane)) {
				found.push(...this.rowSlices(row, from, to, max + 1 - found.length));
				if (found.length > max)
					break;
			}
		}
		if (kind)
			found = found.filter((s) => s.kind === kind);
		const more = found.length > shown;

		if (!longest)
			found.length = Math.min(found.length, shown);
		found.sort((a, b) => (longest && b.to - b.from - (a.to - a.from)) || a.from - b.from || b.to - a.to);
		found.length = Math.min(found.length, shown);
		return { from, to, exact: !this.tables.polls.leftOut, more, slices: found,
			places: this.placesOf(found) };
	}

	rowSlices(row, from, to, max) {
		const { tasks } = this.tables;
		const out = [];

		if (tasks.end[row] < from || tasks.begin[row] >= to)
			return out;
		this.stretches(row, (kind, begin, end, poll, place, resource) => {
			if (end < from || begin >= to || out.length >= max)
				return;
			out.push(poll >= 0 ? this.pollSlice(poll) : {
				kind, from: begin, to: end, family: tasks.kind[row],
				task: String(tasks.serial[row]), number: String(tasks.number[row]),
				place: place || undefined, resource: this.resource(resource),
				open: end >= this.span && !this.ended(row),
			});
		}, from, to);
		return out;
	}

	tasks({ lane, from, to, sort = "begin", max = 100 }) {
		const { tasks } = this.tables;
		const found = [];

		for (const row of this.familyRows(lane)) {
			if (tasks.end[row] < from || tasks.begin[row] >= to)
				continue;
			found.push({ row, task: String(tasks.serial[row]), number: String(tasks.number[row]),
				from: tasks.begin[row], to: tasks.end[row], ...this.sums(row, from, to) });
		}
		const key = { poll: "poll_ns", wait: "wait_ns", ready: "ready_ns" }[sort];

		if (key)
			found.sort((a, b) => b[key] - a[key]);
		const shown = found.slice(0, max).map((t) =>
			({ ...t, slices: this.rowSlices(t.row, from, to, 2000) }));

		return { from, to, exact: true, more: found.length > max, total: found.length,
			tasks: shown, places: this.placesOf(shown.flatMap((t) => t.slices)) };
	}

	sums(row, from = 0, to = Infinity) {
		const sums = { poll_ns: 0, wait_ns: 0, ready_ns: 0, unknown_ns: 0, polls: 0 };

		this.stretches(row, (kind, begin, end, poll) => {
			const ns = Math.min(end, to) - Math.max(begin, from);

			if (ns < 0)
				return;
			sums[`${kind}_ns`] += ns;
			sums.polls += poll >= 0;
		}, from, to);
		return sums;
	}

	task({ id }) {
		const row = this.rowOfSerial.get(Number(id));
		const { tasks, futures } = this.tables;

		if (row === undefined)
			throw new Error(`There is no task ${id} in this report.`);
		const steps = this.rowSlices(row, 0, Infinity, 2001);
		const kind = this.kinds[tasks.kind[row]];
		const byFuture = new Map();

		for (let i = 0; i < futures.n; i++)
			if (futures.task[i] === Number(id)) {
				const key = futures.serial[i];
				const f = byFuture.get(key) ?? { name: this.kinds[futures.kind[i]]?.short,
					from: futures.begin[i], polls: 0, poll_ns: 0 };

				f.polls++;
				f.poll_ns += futures.length[i];
				f.to = Math.max(f.to ?? 0, futures.end[i]);
				f.outcome = this.outcomes[futures.outcome[i]];
				byFuture.set(key, f);
			}
		return {
			...this.taskRef(row), family: tasks.kind[row], name: kind?.name, full_name: kind?.full_name,
			role: kind?.role, from: tasks.begin[row], to: tasks.end[row],
			spawn_seen: Boolean(tasks.flags[row] & SPAWN_SEEN), ended: this.ended(row),
			outcome: this.outcomes[tasks.outcome[row]], site: kind?.sites[0],
			parent: this.parentOf(row), whole: true, wakes: tasks.wakes[row],
			self_wakes: tasks.self_wakes[row], ...this.sums(row), polls: tasks.polls[row],
			steps: steps.slice(0, 2000), more: steps.length > 2000,
			rounds: this.rounds(row), futures: [...byFuture.values()].sort((a, b) => a.from - b.from)
				.slice(0, 200),
			...this.tree(row), places: this.placesOf(steps),
		};
	}

	// A task's parent is known by its number only.
	parentOf(row) {
		const { tasks } = this.tables;
		const number = tasks.parent[row];

		if (!number)
			return null;
		for (let r = 0; r < tasks.n; r++)
			if (tasks.number[r] === number && tasks.begin[r] <= tasks.begin[row])
				return String(tasks.serial[r]);
		return null;
	}

	rounds(row) {
		const { polls } = this.tables;
		const out = [];

		for (let at = this.taskFirst[row]; at < this.taskFirst[row + 1]; at++) {
			const i = this.taskPolls[at];
			const handler = polls.handler[i];
			const last = out.at(-1);

			if (!handler)
				continue;
			if (last?.kind === handler && last.outcome === "pending") {
				last.to = polls.end[i];
				last.polls++;
			} else {
				out.push({ kind: handler, handler: this.kinds[handler - 1]?.name,
					from: polls.begin[i], to: polls.end[i], polls: 1, outcome: "pending" });
			}
		}
		return out;
	}

	// The await tree of the last moment that has the task, as nodes.
	tree(row) {
		const { tasks } = this.tables;

		for (const m of [...this.moments].reverse()) {
			const found = m.moment.tasks.find((t) => t.tree && this.isTask(t, m, row));

			if (found)
				return { tree: { when: m.at, nodes: found.tree, number: tasks.number[row] } };
		}
		return {};
	}

	isTask(t, moment, row) {
		const { tasks } = this.tables;
		const kind = this.kinds[tasks.kind[row]];

		return kind?.process === moment.process && t.id === tasks.number[row] &&
			(t.type === kind.full_name || t.name === kind.name || kind.name.startsWith(t.name));
	}

	poll({ id }) {
		const i = Number(id);
		const { polls, calls, off_cpu: off, futures, samples } = this.tables;

		if (!(i < polls.n))
			throw new Error(`There is no poll ${id} in this report.`);
		const inside = (table, make) => [...this.overlapping(table, polls.thread[i], polls.begin[i],
			polls.end[i])].filter((k) => table.begin[k] >= polls.begin[i] &&
				table.end[k] <= polls.end[i]).map(make);
		const at = this.pollAt[i];
		const row = this.pollRow[i];
		const neighbour = (k) => k >= this.taskFirst[row] && k < this.taskFirst[row + 1]
			? String(this.taskPolls[k]) : null;
		const slice = this.pollSlice(i);
		const out = {
			...slice, ...(row >= 0 ? this.taskRef(row) : {}),
			calls: inside(calls, (k) => this.callSlice(k)), off_cpu: inside(off, (k) => this.offSlice(k)),
			syscalls: [],
			futures: inside(futures, (k) => ({ name: this.kinds[futures.kind[k]]?.short,
				from: futures.begin[k], to: futures.end[k], depth: futures.depth[k],
				outcome: this.outcomes[futures.outcome[k]] })).slice(0, 100),
			stacks: [...this.overlapping({ ...samples, end: samples.begin, maxEnd: samples.begin },
				polls.thread[i], polls.begin[i], polls.end[i])]
				.filter((k) => samples.stack[k] && this.sample_types[samples.type[k]] !== "spawn")
				.map((k) => ({ at: samples.begin[k], state: this.sample_types[samples.type[k]],
					frames: this.stack(samples.stack[k]) })).slice(-20),
			woken_by: this.wokenBy(i), wakes: this.wakesOf(i),
			previous: neighbour(at - 1), next: neighbour(at + 1),
		};

		return { ...out, places: this.placesOf([slice]) };
	}

	wokenBy(i) {
		const { polls } = this.tables;

		if (!polls.waker[i] || !polls.ready[i])
			return null;
		const thread = polls.waker[i] - 1;
		const time = polls.begin[i] - polls.ready[i] + 1;
		const by = this.pollOn(thread, time, i);
		const row = by >= 0 ? this.pollRow[by] : -1;

		return { at: time, thread, self: Boolean(polls.flags[i] & SELF_WAKE),
			poll: by >= 0 ? String(by) : null, ...(row >= 0 ? this.taskRef(row) : { task: null }) };
	}

	// Polls that were scheduled while this one ran, by its thread.
	wakesOf(i) {
		const { polls } = this.tables;
		const out = [];

		this.byReady ??= Uint32Array.from(polls.begin.keys())
			.filter((k) => polls.ready[k] && polls.waker[k])
			.sort((a, b) => this.readyAt(a) - this.readyAt(b));
		let low = 0;
		let high = this.byReady.length;

		while (low < high) {
			const middle = (low + high) >>> 1;

			if (this.readyAt(this.byReady[middle]) < polls.begin[i])
				low = middle + 1;
			else
				high = middle;
		}
		for (let k = low; k < this.byReady.length && out.length < 200; k++) {
			const other = this.byReady[k];
			const at = this.readyAt(other);

			if (at > polls.end[i])
				break;
			if (polls.waker[other] - 1 === polls.thread[i] &&
				this.pollOn(polls.thread[i], at, other) === i)
				out.push({ at, effect: "scheduled", poll: String(other),
					thread: polls.thread[other], from: polls.begin[other],
					...(this.pollRow[other] >= 0 ? this.taskRef(this.pollRow[other]) : {}) });
		}
		return out;
	}

	readyAt(i) {
		return this.tables.polls.begin[i] - this.tables.polls.ready[i] + 1;
	}

	reportIn({ from = 0, to = Infinity }) {
		return from <= this.begin_ns && to >= this.end_ns ? this.report : reportOf(this, from, to);
	}

	flame(query) {
		return flameOf(this, query);
	}

	heat(query) {
		return heatOf(this, query);
	}

	search({ q, max = 50 }) {
		const word = q.toLowerCase();
		const number = /^#?(\d+)$/.exec(q)?.[1];
		const hits = [];
		const { tasks } = this.tables;
		const has = (text) => text?.toLowerCase().includes(word);

		for (const lane of this.lanes) {
			const text = lane.kind === "thread" ? `${lane.name}/${lane.tid}` : lane.name;

			if (has(text) || has(lane.short))
				hits.push({ kind: lane.kind, text, lane: lane.id });
		}
		this.places.forEach((p, i) => {
			const place = this.place(i + 1);
			const text = `${place.text} ${p.awaits}`;

			if (has(text) && !hits.some((h) => h.kind === "place" && h.text === text))
				hits.push({ kind: "place", text, place: i + 1, ...this.firstAt(i + 1) });
		});
		for (let row = 0; row < tasks.n && hits.length <= max; row++)
			if (number ? tasks.number[row] === Number(number) : has(this.kinds[tasks.kind[row]]?.name))
				hits.push({ kind: "task", text: `${this.kinds[tasks.kind[row]]?.short} #${tasks.number[row]}`,
					...this.taskRef(row), at: tasks.begin[row], to: tasks.end[row] });
		return { hits: hits.slice(0, max), more: hits.length > max };
	}

	// The poll that first ended at a place.
	firstAt(place) {
		const { polls } = this.tables;
		let first = -1;

		for (let i = 0; i < polls.n; i++)
			if (polls.place[i] === place && (first < 0 || polls.begin[i] < polls.begin[first]))
				first = i;
		return first < 0 ? {} : { at: polls.begin[first], poll: String(first),
			lane: this.laneOfFamily.get(this.tables.tasks.kind[this.pollRow[first]]) };
	}
}

// Equal stretches of a window, and sums over them.
class Cells {
	constructor(from, to, n) {
		Object.assign(this, { from, to, n, width: (to - from) / n });
	}

	series() {
		return new Float64Array(this.n);
	}

	// `part`: what falls into a cell alone; `step`: where whole cells begin and end.
	sums() {
		return { part: new Float64Array(this.n), step: new Float64Array(this.n + 1) };
	}

	add(sums, begin, end) {
		const a = Math.max(begin, this.from) - this.from;
		const b = Math.min(end, this.to) - this.from;

		if (b <= a)
			return;
		const first = Math.min(Math.floor(a / this.width), this.n - 1);
		const last = Math.min(Math.floor(b / this.width), this.n - 1);

		if (first === last) {
			sums.part[first] += b - a;
			return;
		}
		sums.part[first] += (first + 1) * this.width - a;
		sums.part[last] += b - last * this.width;
		sums.step[first + 1]++;
		sums.step[last]--;
	}

	finish(sums) {
		let whole = 0;

		return sums.part.map((part, i) => part + (whole += sums.step[i]) * this.width);
	}

	// A poll that begins in a cell.
	note(out, begin, length) {
		const cell = Math.floor((begin - this.from) / this.width);

		if (cell < 0 || cell >= this.n)
			return;
		out.polls[cell]++;
		if (length > out.longest_ns[cell])
			out.longest_ns[cell] = length;
	}
}

// The same of cells that were made from all of a trace.
class CoarseCells {
	constructor(coarse, from, to) {
		this.coarse = coarse;
		this.width = coarse.cell_ns;
		this.first = Math.max(0, Math.floor(from / this.width));
		this.from = this.first * this.width;
		this.n = Math.min(coarse.n, Math.ceil(to / this.width)) - this.first;
	}

	series() {
		return new Float64Array(this.n);
	}

	lane({ kind, thread, family }) {
		const all = kind === "thread" ? this.coarse.threads[thread] : this.coarse.families[family];
		const out = { polling_ns: [], blocked_ns: [], ready_ns: [] };

		for (const [name, values] of Object.entries(all ?? {}))
			out[name] = values.subarray(this.first, this.first + this.n);
		return out;
	}
}

function short(file) {
	return file.replace(/^.*\/registry\/src\/[^/]*\//, "").replace(/^\/rustc\/[^/]*\//, "");
}
