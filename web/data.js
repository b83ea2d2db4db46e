// SPDX-License-Identifier: MIT OR Apache-2.0
// Where answers come from: a server (docs/view.md), or the block of data in a one-file report. Both
// have the same questions; each gives a promise.

import { byId } from "./dom.js";
import { readBlock } from "./columns.js";
import { Inlined } from "./inlined.js";

const KEPT_ANSWERS = 200;

export async function openData() {
	const block = byId("pollux-data");

	return block ? new InlinedData(new Inlined(await readBlock(block.textContent)))
		: new ServerData();
}

const ROLES = ["worker", "block_on", "blocking", "other"];

// What the page needs first: the trace, with what its report says of it as a whole. Lanes are called as
// in the report, and have a rank, by which they are shown.
function withReport(trace, report) {
	const rank = new Map(report.families.map((f, i) => [f.kind, i]));
	const lanes = [];

	for (const lane of trace.lanes) {
		const family = report.families[rank.get(lane.family)];
		const name = family?.name ?? lane.name;

		lanes[lane.id] = lane.kind === "thread"
			? { ...lane, short: `${lane.name}/${lane.tid}`, rank: ROLES.indexOf(lane.role) * 1e9 + lane.tid }
			: { ...lane, name, rank: rank.get(lane.family) ?? report.families.length };
	}
	const named = (family) => family && lanes.find((l) => l.kind === "family" && l.name === family)?.id;

	return { ...trace, lanes, coverage: report.coverage, rules: report.rules,
		findings: report.findings.map((f) => ({ ...f, lane: named(f.family) })) };
}

class InlinedData {
	constructor(inlined) {
		this.inlined = inlined;
		this.served = false;
	}

	async trace() { return withReport(this.inlined.trace(), this.inlined.report); }
	async cells(query) { return this.inlined.cells(query); }
	async slices(query) { return this.inlined.slices(query); }
	async tasks(query) { return this.inlined.tasks(query); }
	async task(query) { return this.inlined.task(query); }
	async poll(query) { return this.inlined.poll(query); }
	async report(query) { return this.inlined.reportIn(query); }
	async flame(query) { return this.inlined.flame(query); }
	async heat(query) { return this.inlined.heat(query); }
	async search(query) { return this.inlined.search(query); }
	follow() {}

	// The id of a task that a finding names.
	async idOfTask(task) { return String(task.serial); }

	// The number of a task's kind, where an answer has no lane for it.
	kindOf(task) { return this.inlined.kindOf(task); }
}

class ServerData {
	constructor() {
		this.served = true;
		this.answers = new Map(); // by address, the one used last at the end
	}

	async ask(what, query = {}) {
		const params = new URLSearchParams();

		for (const [key, value] of Object.entries(query))
			if (value !== undefined && value !== null)
				params.set(key, typeof value === "number" && !Number.isInteger(value)
					? Math.round(value) : value);
		const address = `api/${what}?${params}`;
		const known = this.answers.get(address);

		this.answers.delete(address);
		const answer = known ?? this.load(address);

		this.answers.set(address, answer);
		if (this.answers.size > KEPT_ANSWERS)
			this.answers.delete(this.answers.keys().next().value);
		try {
			return await answer;
		} catch (error) {
			this.answers.delete(address);
			throw error;
		}
	}

	async load(address, again = 3) {
		const response = await fetch(address);

		if (response.status === 503 && again) {
			await new Promise((done) => setTimeout(done, 150));
			return this.load(address, again - 1);
		}
		const body = await response.json().catch(() => null);

		if (!response.ok)
			throw new Error(body?.error ?? `The server answered ${response.status}.`);
		return body;
	}

	async trace() {
		return withReport(...await Promise.all([this.ask("trace"), this.ask("report")]));
	}

	cells({ lanes, ...query }) { return this.ask("cells", { ...query, lanes: lanes?.join(",") }); }
	slices({ lanes, ...query }) { return this.ask("slices", { ...query, lanes: lanes?.join(",") }); }
	tasks(query) { return this.ask("tasks", query); }
	task(query) { return this.ask("task", query); }
	poll(query) { return this.ask("poll", query); }
	report(query) { return this.ask("report", query); }
	flame(query) { return this.ask("flame", query); }
	heat(query) { return this.ask("heat", query); }
	search(query) { return this.ask("search", query); }

	kindOf(task) { return Number(task?.split(".")[0]); }

	// The id of a task that a finding names. People's number of it is the runtime's id, of which the
	// server makes its own, or (async-std, smol) not: then it finds the task.
	async idOfTask(task, lane) {
		const answer = await this.search({ q: String(task.number) }).catch(() => null);
		const hit = answer?.hits.find((h) => h.kind === "task" && h.lane === lane?.id);

		return hit?.task ?? `${lane?.family}.${task.number}`;
	}

	downloadAddress(from, to, as) {
		return `download?from=${Math.round(from)}&to=${Math.round(to)}&as=${as}`;
	}

	// fn() when a trace that is still recorded has grown.
	follow(fn) {
		const source = new EventSource("api/follow");

		// Where the connection breaks it is made again, until the trace is whole.
		source.onmessage = (event) => {
			this.answers.clear();
			if (!JSON.parse(event.data).live)
				source.close();
			fn();
		};
	}
}
