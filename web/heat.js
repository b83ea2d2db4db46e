// SPDX-License-Identifier: MIT OR Apache-2.0
// The heat map: when (across) something took how long (up, in steps of a logarithm), and how often
// (darker). Of polls, of delays until a poll, of waits. A click goes to that time.

import { el, fitCanvas, say, tooltip } from "./dom.js";
import { FONT } from "./draw.js";
import { theme } from "./theme.js";
import { count, duration, point, ticks } from "./units.js";

const LEFT = 64;
const FOOT = 20;

export class Heat {
	constructor(app) {
		this.app = app;
		this.what = "polls";
		this.canvas = el("canvas", { tabindex: "0", role: "img", class: "heat" });
		this.canvas.addEventListener("pointermove", (e) => {
			const cell = this.cellAt(e);

			tooltip(cell && this.lines(cell), e.clientX, e.clientY, this);
		});
		this.canvas.addEventListener("pointerleave", () => tooltip(null, 0, 0, this));
		this.canvas.addEventListener("click", (e) => this.goTo(this.cellAt(e)));
		this.canvas.addEventListener("keydown", (e) => this.key(e));
	}

	async load(tables, window, current) {
		const answer = await this.app.data.heat({ what: this.what, ...window, lane: tables.lane, x: 192 });

		if (!current())
			return;
		this.answer = answer;
		this.window = window;
		this.most = answer.counts.reduce((m, row) => row.reduce((a, b) => Math.max(a, b), m), 0);
		tables.options.replaceChildren(
			el("select", { "aria-label": "What is counted", onchange: (e) => {
				this.what = e.target.value;
				tables.loadNow();
			} }, [["polls", "lengths of polls"], ["delays", "delays: ready until polled"], ["waits", "lengths of waits"]].map(([value, text]) =>
				el("option", { value, selected: value === this.what }, text))),
			tables.laneChoice());
		if (!this.most) {
			tables.panel.replaceChildren(el("p", { class: "calm" }, `No ${this.what} in this window.`));
			return;
		}
		tables.panel.replaceChildren(this.canvas);
		this.size = [tables.panel.clientWidth - 18, Math.max(120, tables.panel.clientHeight - 16)];
		this.canvas.setAttribute("aria-label", `Heat map of ${this.what}. Arrow keys walk, Enter goes to a time.`);
		this.draw();
	}

	get box() {
		const { x, cell_ns: cell, from, counts, edges_ns: edges } = this.answer;
		const columns = counts[0].length || x;
		// Only rows in which there is anything.
		const used = counts.map((row) => row.some((n) => n));
		const first = used.indexOf(true);
		const last = used.lastIndexOf(true);

		return { columns, from, to: from + cell * columns, first, last, rows: last - first + 1, edges,
			w: (this.size[0] - LEFT) / columns, h: (this.size[1] - FOOT) / Math.max(6, last - first + 1) };
	}

	draw() {
		const c = theme();
		const b = this.box;
		const ctx = fitCanvas(this.canvas, ...this.size);
		const bottom = this.size[1] - FOOT;

		ctx.fillStyle = c.panel;
		ctx.fillRect(LEFT, 0, this.size[0] - LEFT, bottom);
		for (let r = b.first; r <= b.last; r++)
			this.answer.counts[r].forEach((n, i) => {
				if (!n)
					return;
				ctx.globalAlpha = 0.22 + 0.78 * Math.log1p(n) / Math.log1p(this.most);
				ctx.fillStyle = c.poll;
				ctx.fillRect(LEFT + i * b.w, bottom - (r - b.first + 1) * b.h, b.w + 0.3, b.h - 0.5);
			});
		ctx.globalAlpha = 1;
		ctx.font = FONT;
		ctx.textBaseline = "middle";
		ctx.fillStyle = c.muted;
		ctx.textAlign = "right";
		const step = Math.max(1, Math.ceil(18 / b.h));

		for (let r = b.first; r <= b.last + 1; r += step)
			ctx.fillText(duration(b.edges[r]), LEFT - 6, Math.min(bottom - 4, Math.max(8, bottom - (r - b.first) * b.h)));
		ctx.textAlign = "left";
		for (const { at, text } of ticks(b.from, b.to, this.size[0] - LEFT))
			ctx.fillText(text, Math.min(LEFT + (at - b.from) / (b.to - b.from) * (this.size[0] - LEFT),
				this.size[0] - ctx.measureText(text).width - 2), bottom + 11);
		if (this.cursor && document.activeElement === this.canvas) {
			ctx.strokeStyle = c.select;
			ctx.lineWidth = 2;
			ctx.strokeRect(LEFT + this.cursor.column * b.w, bottom - (this.cursor.row - b.first + 1) * b.h, Math.max(b.w, 4), b.h);
		}
	}

	cellAt(event) {
		const box = this.canvas.getBoundingClientRect();
		const b = this.box;
		const column = Math.floor((event.clientX - box.left - LEFT) / b.w);
		const row = b.first + Math.floor((this.size[1] - FOOT - (event.clientY - box.top)) / b.h);

		return column >= 0 && column < b.columns && row >= b.first && row <= b.last ? { row, column } : null;
	}

	lines({ row, column }) {
		const { counts, edges_ns: edges, from, cell_ns: cell } = this.answer;

		return [`${count(counts[row][column])} ${this.what}`, ["took", `${duration(edges[row])} to ${duration(edges[row + 1])}`],
			["at", point(from + column * cell, cell)]];
	}

	// The time of a cell, and the longest poll in it.
	goTo(cell) {
		if (!cell)
			return;
		const { from, cell_ns: width } = this.answer;
		const at = from + (cell.column + 0.5) * width;

		this.app.state.look(at - 2 * width, at + 2 * width, true);
	}

	key(event) {
		const b = this.box;
		const at = this.cursor ?? { row: b.last, column: 0 };
		const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [1, 0], ArrowDown: [-1, 0] }[event.key];

		if (event.key === "Enter")
			this.goTo(at);
		else if (step)
			this.cursor = { row: Math.min(b.last, Math.max(b.first, at.row + step[0])),
				column: Math.min(b.columns - 1, Math.max(0, at.column + step[1])) };
		else
			return;
		event.preventDefault();
		event.stopPropagation();
		if (this.cursor)
			say(this.lines(this.cursor).flat().join(" "));
		this.draw();
	}
}
