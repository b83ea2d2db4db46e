// SPDX-License-Identifier: MIT OR Apache-2.0
// Drawing into lanes: exact slices where there are few, shares of cells where there are many. A
// slice's kind is its colour and its height, so that colours are not all that tells kinds apart:
//
//   poll      full height, its blocking calls striped at the foot
//   ready     two thirds
//   waiting   a bar in the middle
//   parked    a thin line

import { theme } from "./theme.js";
import { duration, fitName } from "./units.js";

export const FONT = "11px system-ui, sans-serif";

// Maps times of a window to x.
export class Scale {
	constructor(from, to, width) {
		Object.assign(this, { from, to, width, perNs: width / (to - from) });
	}

	x(ns) {
		return (ns - this.from) * this.perNs;
	}

	ns(x) {
		return this.from + x / this.perNs;
	}
}

const SHAPES = { poll: [0, 1], ready: [0.33, 0.67], wait: [0.36, 0.28], park: [0.46, 0.08],
	unknown: [0.3, 0.4] };

const stripes = new Map();

// Diagonal stripes of a colour.
export function striped(ctx, colour) {
	if (!stripes.has(colour)) {
		const tile = document.createElement("canvas");

		tile.width = tile.height = 6;
		const t = tile.getContext("2d");

		t.fillStyle = colour;
		t.fillRect(0, 0, 6, 6);
		t.strokeStyle = "rgb(255 255 255 / 45%)";
		t.lineWidth = 1.6;
		t.beginPath();
		t.moveTo(-1, 7);
		t.lineTo(7, -1);
		t.stroke();
		stripes.set(colour, ctx.createPattern(tile, "repeat"));
	}
	return stripes.get(colour);
}

// Slices of one row, in order of their begins. `name` gives what to write on one; `chosen` whether it
// is selected; callsFollow: drawInside() draws the blocking calls, each in its place.
export function drawSlices(ctx, slices, scale, y, height, name, chosen, callsFollow = false) {
	const c = theme();
	const last = {};

	ctx.font = FONT;
	ctx.textBaseline = "middle";
	for (const s of slices) {
		const shape = SHAPES[s.kind];

		if (!shape || s.to < scale.from || s.from > scale.to)
			continue;
		const x = Math.max(scale.x(s.from), -2);
		const right = Math.min(scale.x(s.to), scale.width + 2);
		const w = Math.max(right - x, 1);

		// Of what falls on a pixel that its kind has coloured, there is nothing to see.
		if (right - x < 1 && last[s.kind] !== undefined && right < last[s.kind] && !s.depth)
			continue;
		last[s.kind] = x + w;
		const inset = Math.min(s.depth ?? 0, 3) * 3;
		const top = y + shape[0] * height + inset;
		const h = Math.max(shape[1] * height - inset, 2);

		ctx.fillStyle = c[s.kind];
		ctx.fillRect(x, top, w > 3 ? w - 0.5 : w, h);
		if (s.kind === "poll" && s.blocked_ns && s.to > s.from && !callsFollow) {
			ctx.fillStyle = striped(ctx, c.blocked);
			ctx.fillRect(x, top + h * 0.6, Math.max(w * Math.min(s.blocked_ns / (s.to - s.from), 1), 1), h * 0.4);
		}
		if (s.open && w > 12)
			drawOpen(ctx, right, top, h, c);
		if (w > 34 && s.kind !== "park" && h >= 9)
			label(ctx, name(s), x, w, top + h * (s.blocked_ns ? 0.3 : 0.5), s.kind === "poll" ? c["on-poll"]
				: s.kind === "ready" ? c["on-ready"] : c["on-wait"]);
		else if (w > 90 && s.kind === "wait" && height >= 12)
			label(ctx, name(s), x, w, y + height / 2, c.muted, c.page);
	}
	for (const s of slices)
		if (chosen(s))
			outline(ctx, scale, s, y, height, c);
}

// Calls and times off the CPU, on the polls that they are in.
export function drawInside(ctx, slices, scale, y, height) {
	const c = theme();

	for (const s of slices) {
		// That a thread is off the CPU where it polls nothing says no more than that it is parked.
		if ((s.kind !== "call" && (s.kind !== "off_cpu" || !s.task) && s.kind !== "syscall") ||
			s.to < scale.from || s.from > scale.to)
			continue;
		const x = Math.max(scale.x(s.from), -2);
		const w = Math.max(Math.min(scale.x(s.to), scale.width + 2) - x, 1);
		const foot = s.kind === "off_cpu" ? 0 : height * 0.6;

		ctx.fillStyle = s.kind === "off_cpu" ? c["off-cpu"]
			: s.kind === "call" && s.blocks !== false ? striped(ctx, c.blocked) : c.call;
		ctx.fillRect(x, y + foot, w, s.kind === "off_cpu" ? Math.max(3, height * 0.2) : height * 0.4);
		if (w > 50 && s.kind === "call" && height >= 18)
			label(ctx, s.text ?? "", x, w, y + height * 0.8, "#fff", s.blocks !== false ? c.blocked : c.call);
	}
}

function label(ctx, text, x, w, y, colour, behind) {
	const left = Math.max(x, 0) + 4;
	const shown = fitName(text, Math.min(x + w, ctx.canvas.clientWidth) - left - 4);

	if (!shown)
		return;
	if (behind) {
		ctx.fillStyle = behind;
		ctx.fillRect(left - 3, y - 6, ctx.measureText(shown).width + 6, 12);
	}
	ctx.fillStyle = colour;
	ctx.fillText(shown, left, y + 0.5);
}

// A slice that went on when the trace ended, or began before it.
function drawOpen(ctx, right, top, h, c) {
	ctx.fillStyle = c.page;
	ctx.beginPath();
	ctx.moveTo(right + 0.5, top);
	ctx.lineTo(right - 5, top + h / 2);
	ctx.lineTo(right + 0.5, top + h);
	ctx.fill();
}

function outline(ctx, scale, s, y, height, c) {
	const x = Math.max(scale.x(s.from), -4);
	const w = Math.max(Math.min(scale.x(s.to), scale.width + 4) - x, 3);

	ctx.strokeStyle = c.select;
	ctx.lineWidth = 2;
	ctx.strokeRect(x - 1, y - 1, w + 1, height + 2);
}

// fn(cell, x, width) for each cell of a window, of cells that begin at answer.from; in whole pixels, so
// that there is nothing between neighbours.
export function columns(answer, scale, fn) {
	const first = Math.max(0, Math.floor((scale.from - answer.from) / answer.cell_ns));
	const last = Math.min(answer.n - 1, Math.floor((scale.to - answer.from) / answer.cell_ns));

	for (let i = first; i <= last; i++) {
		const x = Math.round(scale.x(answer.from + i * answer.cell_ns));

		fn(i, x, Math.max(1, Math.round(scale.x(answer.from + (i + 1) * answer.cell_ns)) - x));
	}
}

// A thread's cells: how much of each it was polling, blocked, off the CPU.
export function drawThreadCells(ctx, answer, lane, scale, y, height) {
	const c = theme();
	const at = (name, i) => (lane[name]?.[i] ?? 0) / answer.cell_ns;

	columns(answer, scale, (i, x, w) => {
		const polling = Math.min(1, at("polling_ns", i));
		const blocked = Math.min(polling, at("blocked_ns", i));
		const off = Math.min(polling - blocked, at("off_cpu_ns", i));
		let foot = y + height;
		const bar = (share, colour, least) => {
			const h = share > 0 ? Math.max(share * height, least) : 0;

			ctx.fillStyle = colour;
			ctx.fillRect(x, foot - h, w, h);
			foot -= h;
		};

		if (at("parked_ns", i) > 0.5) {
			ctx.fillStyle = c.park;
			ctx.fillRect(x, y + height * 0.46, w, height * 0.08);
		}
		bar(blocked, striped(ctx, c.blocked), 2);
		bar(off, c["off-cpu"], 0);
		bar(polling - blocked - off, c.poll, 2);
	});
}

// Slices of one task that are too short to be seen: how much of each cell it was polled, ready, waiting.
export function drawTaskCells(ctx, answer, scale, y, height) {
	const c = theme();
	const at = (name, i) => (answer.lane[name]?.[i] ?? 0) / answer.cell_ns;

	columns(answer, scale, (i, x, w) => {
		let foot = y + height;

		for (const [name, colour] of [["polling_ns", c.poll], ["ready_ns", c.ready], ["waiting_ns", c.wait]]) {
			const h = at(name, i) > 0 ? Math.max(Math.min(at(name, i), 1) * height, 1.5) : 0;

			ctx.fillStyle = colour;
			ctx.fillRect(x, Math.max(foot - h, y), w, Math.min(h, foot - y));
			foot = Math.max(foot - h, y);
		}
	});
}

// A family's cells, in two parts with a scale each: above, how many tasks were polled or ready; below,
// how many were waiting.
export function drawFamilyCells(ctx, answer, lane, scale, y, height, most) {
	const c = theme();
	const at = (name, i) => (lane[name]?.[i] ?? 0) / answer.cell_ns;
	const split = y + Math.round(height * 0.68);

	columns(answer, scale, (i, x, w) => {
		const polling = at("polling_ns", i);
		const blocked = Math.min(polling, at("blocked_ns", i));
		const ready = at("ready_ns", i);
		const waiting = at("waiting_ns", i);
		let foot = split;
		const bar = (value, colour) => {
			const h = value > 0 ? Math.max(value / most.active * (split - y - 2), 1.5) : 0;

			ctx.fillStyle = colour;
			ctx.fillRect(x, foot - h, w, h);
			foot -= h;
		};

		bar(blocked, striped(ctx, c.blocked));
		bar(polling - blocked, c.poll);
		bar(ready, c.ready);
		if (waiting > 0) {
			const h = Math.max(waiting / most.waiting * (y + height - split - 1), 1);

			ctx.fillStyle = c.wait;
			ctx.fillRect(x, split + 1, w, h);
		}
	});
}

// The highest means of a family's cells in the window.
export function mostOf(answer, lane, scale) {
	const most = { active: 0, waiting: 0, polls: 0, longest: 0 };

	columns(answer, scale, (i) => {
		const at = (name) => (lane[name]?.[i] ?? 0) / answer.cell_ns;

		most.active = Math.max(most.active, at("polling_ns") + at("ready_ns"));
		most.waiting = Math.max(most.waiting, at("waiting_ns"));
		most.polls += lane.polls?.[i] ?? 0;
		most.longest = Math.max(most.longest, lane.longest_ns?.[i] ?? 0);
	});
	most.active ||= 1;
	most.waiting ||= 1;
	return most;
}

// Vertical lines at round times.
export function drawGrid(ctx, marks, scale, height) {
	ctx.fillStyle = theme().line;
	for (const { at } of marks)
		ctx.fillRect(Math.round(scale.x(at)), 0, 1, height);
}

// From where and when a wake came to the poll that it led to.
export function drawArrow(ctx, x1, y1, x2, y2) {
	const c = theme();
	const bend = Math.max(18, Math.min(80, Math.abs(x2 - x1) / 2));

	ctx.strokeStyle = c.wake;
	ctx.fillStyle = c.wake;
	ctx.lineWidth = 1.8;
	ctx.beginPath();
	ctx.moveTo(x1, y1);
	ctx.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2 - 4, y2);
	ctx.stroke();
	ctx.beginPath();
	ctx.moveTo(x2, y2);
	ctx.lineTo(x2 - 7, y2 - 4);
	ctx.lineTo(x2 - 7, y2 + 4);
	ctx.fill();
	ctx.beginPath();
	ctx.arc(x1, y1, 3, 0, 7);
	ctx.fill();
}

// What to say of a slice, for tooltips.
export function sliceLines(s, names) {
	const lines = [names.slice(s)];

	lines.push(["took", duration(s.to - s.from)]);
	if (s.ready_from !== undefined && s.ready_from !== null && s.kind === "poll")
		lines.push(["was ready for", duration(s.from - s.ready_from)]);
	if (s.blocked_ns)
		lines.push(["blocked", duration(s.blocked_ns)]);
	if (s.outcome)
		lines.push(["end", s.outcome]);
	if (s.place)
		lines.push([s.kind === "poll" ? "then waits at" : "at", names.place(s.place)]);
	if (s.resource)
		lines.push(["for", `${s.resource.what} ${s.resource.address}`]);
	return lines;
}
