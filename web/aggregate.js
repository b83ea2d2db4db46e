// SPDX-License-Identifier: MIT OR Apache-2.0
// Sums over a window of a one-file report: the tables, flame graphs and heat maps that the server
// makes from its index. `data` is the Inlined.

// {count, sum, min, p50, p90, p99, max} of lengths, as in report --json.
function histogram(values) {
	const sorted = Float64Array.from(values).sort();
	const at = (q) => sorted.length ? sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] : 0;

	return { count: sorted.length, sum: sorted.reduce((a, b) => a + b, 0), min: sorted[0] ?? 0,
		p50: at(0.5), p90: at(0.9), p99: at(0.99), max: sorted.at(-1) ?? 0 };
}

// The value of a key that has none yet.
function getOrMake(map, key, make) {
	if (!map.has(key))
		map.set(key, make());
	return map.get(key);
}

// report --json of a window, as far as the columns tell.
export function reportOf(data, from, to) {
	const { tasks, polls } = data.tables;
	const families = new Map();
	const waits = new Map();
	const longest = [];

	for (let row = 0; row < tasks.n; row++) {
		if (tasks.end[row] < from || tasks.begin[row] >= to)
			continue;
		const kind = tasks.kind[row];
		const f = getOrMake(families, kind, () => ({
			kind, tasks: 0, polls: 0, lengths: [], delays: [], waiting_ns: 0, scheduled_ns: 0,
			blocked_ns: 0, spawned: 0, completed: 0, cancelled: 0, alive: 0, wakes: null }));

		f.tasks++;
		f.spawned += tasks.begin[row] >= from && (tasks.flags[row] & 1);
		count(data, f, row, to);
		data.stretches(row, (state, begin, end, poll, place) => {
			const ns = Math.min(end, to) - Math.max(begin, from);

			if (ns < 0 || begin >= to)
				return;
			if (poll >= 0) {
				f.polls++;
				f.lengths.push(end - begin);
				f.blocked_ns += polls.blocked[poll];
				longest.push(poll);
			} else if (state === "ready") {
				f.scheduled_ns += ns;
				f.delays.push(end - begin);
			} else if (state === "wait") {
				f.waiting_ns += ns;
				if (place)
					getOrMake(waits, `${kind} ${place}`, () => ({ kind, place, lengths: [] }))
						.lengths.push(ns);
			}
		}, from, to);
	}
	return {
		window_only: true, begin_ns: from, duration_ns: to - from,
		families: data.report.families.filter((f) => families.has(f.kind)).map((f) => {
			const { lengths, delays, ...here } = families.get(f.kind);

			return { ...here, name: f.name, role: f.role, poll_ns: histogram(lengths),
				sched_delay_ns: histogram(delays) };
		}),
		waits: [...waits.values()].map((w) => ({ kind: w.kind, ...data.place(w.place),
			family: nameOf(data, w.kind), wait_ns: histogram(w.lengths) }))
			.sort((a, b) => b.wait_ns.sum - a.wait_ns.sum),
		longest_polls: longest.filter((i) => isLong(data, i))
			.sort((a, b) => polls.length[b] - polls.length[a]).slice(0, 100)
			.map((i) => longPoll(data, i)),
		workers: workersOf(data, from, to), off_cpu: offCpuOf(data, from, to),
		cpu: cpuOf(data, from, to), futures: futuresOf(data, from, to),
	};
}

function count(data, f, row, to) {
	const { tasks } = data.tables;
	const outcome = data.outcomes[tasks.outcome[row]];

	if (!data.ended(row) || tasks.end[row] >= to)
		f.alive++;
	else if (outcome === "ready")
		f.completed++;
	else if (outcome === "cancelled")
		f.cancelled++;
}

function nameOf(data, kind) {
	return data.report.families.find((f) => f.kind === kind)?.name ?? data.kinds[kind]?.name ?? "?";
}

// To block is what a spawn_blocking closure is for, and a worker's loop never ends.
function isLong(data, poll) {
	const role = data.kinds[data.tables.tasks.kind[data.pollRow[poll]]]?.role;

	return role !== "blocking" && role !== "worker";
}

function longPoll(data, i) {
	const { polls, tasks } = data.tables;
	const row = data.pollRow[i];
	const thread = data.threads[polls.thread[i]];

	return { family: nameOf(data, tasks.kind[row]), kind: tasks.kind[row], task: tasks.number[row],
		serial: tasks.serial[row], tid: thread?.tid, name: thread?.name, begin_ns: polls.begin[i],
		duration_ns: polls.length[i], outcome: data.outcomes[polls.outcome[i]],
		blocked_ns: polls.blocked[i], blocking_calls: [] };
}

function clipped(table, i, from, to) {
	return Math.max(0, Math.min(table.end[i], to) - Math.max(table.begin[i], from));
}

function workersOf(data, from, to) {
	const { polls, parks, calls } = data.tables;

	return data.lanes.filter((l) => l.kind === "thread" && l.role !== "other").map((lane) => {
		const out = { tid: lane.tid, name: data.threads[lane.thread].name, role: lane.role, polls: 0,
			busy_ns: 0, parked_ns: 0, blocked_ns: 0, begin_ns: from, end_ns: to, lost: 0 };

		for (const i of data.overlapping(polls, lane.thread, from, to)) {
			out.polls++;
			if (!polls.depth[i])
				out.busy_ns += clipped(polls, i, from, to);
		}
		for (const i of data.overlapping(parks, lane.thread, from, to))
			out.parked_ns += clipped(parks, i, from, to);
		for (const i of data.overlapping(calls, lane.thread, from, to))
			out.blocked_ns += calls.keeps_worker[i] ? clipped(calls, i, from, to) : 0;
		return out;
	});
}

function offCpuOf(data, from, to) {
	const off = data.tables.off_cpu;
	const sums = new Map();

	for (let i = 0; i < off.n; i++) {
		const row = data.rowOfSerial.get(off.task[i]);
		const ns = clipped(off, i, from, to);

		if (row === undefined || !ns)
			continue;
		const kind = data.tables.tasks.kind[row];
		const reason = data.off_cpu_reasons[off.reason[i]];
		const s = getOrMake(sums, `${kind} ${reason}`, () => ({ reason, kind,
			family: nameOf(data, kind), count: 0, ns: 0, max_ns: 0 }));

		s.count++;
		s.ns += ns;
		s.max_ns = Math.max(s.max_ns, ns);
	}
	return [...sums.values()].sort((a, b) => b.ns - a.ns);
}

const CPU = ["cpu-clock", "cycles", "instructions"];

function cpuOf(data, from, to) {
	const { samples } = data.tables;
	const byEvent = new Map();

	for (let i = 0; i < samples.n; i++) {
		const event = data.sample_types[samples.type[i]];

		if (samples.begin[i] < from || samples.begin[i] >= to || !CPU.includes(event))
			continue;
		const c = getOrMake(byEvent, event, () => ({ event, samples: 0, weight: 0,
			samples_outside: 0, weight_outside: 0, functions: new Map() }));
		const inPoll = samples.task[i] > 0;

		c[inPoll ? "samples" : "samples_outside"]++;
		c[inPoll ? "weight" : "weight_outside"] += samples.length[i];
		if (!inPoll)
			continue;
		const seen = new Set();

		data.stack(samples.stack[i]).forEach((frame, depth) => {
			const name = frame.function || "?";
			const f = getOrMake(c.functions, name, () => ({ function: name, object: frame.object,
				self: 0, total: 0, samples: 0 }));

			f.self += depth ? 0 : samples.length[i];
			f.total += seen.has(name) ? 0 : samples.length[i];
			f.samples += depth ? 0 : 1;
			seen.add(name);
		});
	}
	return [...byEvent.values()].map((c) => ({ ...c,
		functions: [...c.functions.values()].sort((a, b) => b.self - a.self).slice(0, 200) }));
}

function futuresOf(data, from, to) {
	const { futures, tasks } = data.tables;
	const sums = new Map();

	for (let i = 0; i < futures.n; i++) {
		if (futures.end[i] < from || futures.begin[i] >= to)
			continue;
		const row = data.rowOfSerial.get(futures.task[i]);
		const family = row === undefined ? "" : nameOf(data, tasks.kind[row]);
		const f = getOrMake(sums, `${futures.kind[i]} ${family}`, () => ({
			name: data.kinds[futures.kind[i]]?.name ?? "?", family, serials: new Set(), polls: 0,
			lengths: [] }));

		f.serials.add(futures.serial[i]);
		f.polls++;
		f.lengths.push(futures.length[i]);
	}
	return [...sums.values()].map(({ serials, lengths, ...f }) => ({ ...f,
		instances: serials.size, poll_ns: histogram(lengths) }))
		.sort((a, b) => b.poll_ns.sum - a.poll_ns.sum);
}

// A tree of {name, value, count, children} from paths.
class Tree {
	constructor(name) {
		this.root = { name, value: 0, count: 0, children: [] };
	}

	add(path, value) {
		let node = this.root;

		node.value += value;
		node.count++;
		for (const step of path) {
			let child = node.children.find((c) => c.name === step.name);

			if (!child)
				node.children.push(child = { ...step, value: 0, count: 0, children: [] });
			child.value += value;
			child.count++;
			node = child;
		}
	}
}

export function flameOf(data, { kind, from, to, lane }) {
	const tree = new Tree(kind);
	const { tasks, samples } = data.tables;

	if (kind === "waiting") {
		for (const row of data.familyRows(lane)) {
			const family = data.kinds[tasks.kind[row]];

			if (family?.role === "worker" || tasks.end[row] < from || tasks.begin[row] >= to)
				continue;
			const head = { name: family?.short ?? "?", lane: data.laneOfFamily.get(tasks.kind[row]) };

			data.stretches(row, (state, begin, end, poll, place) => {
				const ns = Math.min(end, to) - Math.max(begin, from);

				if (ns > 0 && state === "wait")
					tree.add([head, ...waitingPath(data, place)], ns);
			}, from, to);
		}
		return { unit: "ns", ...tree.root };
	}
	const families = lane === undefined ? null : data.lanes[lane].family;

	for (let i = 0; i < samples.n; i++) {
		const row = data.rowOfSerial.get(samples.task[i]);

		if (samples.begin[i] < from || samples.begin[i] >= to || !samples.stack[i] ||
			!CPU.includes(data.sample_types[samples.type[i]]) ||
			(families !== null && (row === undefined || tasks.kind[row] !== families)))
			continue;
		const head = row === undefined ? { name: "outside of tasks" }
			: { name: data.kinds[tasks.kind[row]]?.short, lane: data.laneOfFamily.get(tasks.kind[row]) };

		tree.add([head, ...data.stack(samples.stack[i]).reverse().map((f) =>
			({ name: f.function || "?", own: f.own }))], samples.length[i]);
	}
	return { unit: "ns", ...tree.root };
}

// The chain of await points, and what the innermost awaits.
function waitingPath(data, place) {
	if (!place)
		return [{ name: "unknown" }];
	const path = data.chain(place).map((number) => ({ name: data.placeName(number), place: number,
		own: !data.places[number - 1].own }));
	const { awaits } = data.places[place - 1];

	return awaits ? [...path, { name: awaits }] : path;
}

// Counts by time and length; each row is wider by the square root of two than the one before.
export function heatOf(data, { what, lane, from, to, x = 256 }) {
	const lengths = [];

	for (const row of data.familyRows(lane)) {
		const kind = data.kinds[data.tables.tasks.kind[row]];

		if (kind?.role === "worker")
			continue;
		data.stretches(row, (state, begin, end, poll) => {
			if (begin < from || begin >= to)
				return;
			if (what === "polls" ? poll >= 0 : state === (what === "delays" ? "ready" : "wait"))
				lengths.push([begin, end - begin]);
		}, from, to);
	}
	const low = lengths.reduce((m, [, v]) => Math.min(m, Math.max(v, 64)), Infinity);
	const high = lengths.reduce((m, [, v]) => Math.max(m, v), 128);
	const first = Number.isFinite(low) ? Math.floor(2 * Math.log2(low)) : 14;
	const rows = Math.max(8, Math.ceil(2 * Math.log2(high + 1)) - first);
	const counts = Array.from({ length: rows }, () => new Array(x).fill(0));

	for (const [begin, ns] of lengths) {
		const row = Math.floor(2 * Math.log2(Math.max(ns, 1))) - first;
		const column = Math.floor((begin - from) / (to - from) * x);

		counts[Math.min(Math.max(row, 0), rows - 1)][Math.min(column, x - 1)]++;
	}
	return { from, to, cell_ns: (to - from) / x, x, counts, total: lengths.length,
		edges_ns: Array.from({ length: rows + 1 }, (_, i) => 2 ** ((first + i) / 2)) };
}
