// SPDX-License-Identifier: MIT OR Apache-2.0
// The whole trace at the top: how many workers are busy and how many blocked, how many tasks are
// ready and not polled; and the window in it, which can be dragged, moved and drawn anew.

import { byId, el, fitCanvas, inFrame, tooltip } from "./dom.js";
import { theme } from "./theme.js";
import { FONT, Scale, columns, striped } from "./draw.js";
import { mean, point } from "./units.js";

const HEIGHT = 64;
const EDGE_PX = 6;

export class Overview {
	constructor(app) {
		this.app = app;
		this.canvas = el("canvas", { role: "img", "aria-label": "Overview of the whole trace" });
		this.text = el("div", { class: "text" });
		byId("overview").append(this.text, this.canvas);
		this.answer = null;
		this.draw = inFrame(() => this.drawNow());
		app.state.on("view", () => this.draw());
		this.listen();
	}

	async load() {
		const { data, state } = this.app;

		try {
			this.answer = await data.cells({ from: state.begin, to: state.span, n: 1024,
				lanes: this.app.trace.lanes.slice(0, 1).map((l) => l.id) });
			this.workers = Math.max(1, this.app.trace.lanes.filter((l) => l.kind === "thread" && l.role === "worker").length);
			this.mostReady = Math.max(1, ...this.values("ready_ns"));
			this.mostBusy = Math.max(...this.values("busy_ns"), 0);
			this.tellWhat();
			this.draw();
		} catch (error) {
			this.app.fail(error);
		}
	}

	values(name) {
		return Array.from(this.answer.overview[name] ?? [], (v) => v / this.answer.cell_ns);
	}

	tellWhat() {
		this.text.replaceChildren(
			el("b", {}, "Whole trace"),
			el("div", { class: "key" }, el("i", { class: "swatch poll" }), this.mostBusy ? `busy workers, ≤ ${mean(this.mostBusy)} of ${this.workers}` : "busy workers"),
			el("div", { class: "key" }, el("i", { class: "swatch blocked" }), "in blocking calls"),
			el("div", { class: "key" }, el("i", { class: "swatch ready-line" }), `tasks ready, ≤ ${mean(this.mostReady)}`));
	}

	get scale() {
		return new Scale(this.app.state.begin, this.app.state.span, this.app.plotWidth());
	}

	drawNow() {
		if (!this.answer)
			return;
		const scale = this.scale;
		const c = theme();
		const { state } = this.app;
		const ctx = fitCanvas(this.canvas, scale.width, HEIGHT);

		this.canvas.style.left = `${this.app.gutter()}px`;
		ctx.fillStyle = c.panel;
		ctx.fillRect(0, 0, scale.width, HEIGHT);
		// All of the height is all workers, or what is busy at most where that is few.
		const most = this.mostBusy > this.workers / 4 ? this.workers : this.mostBusy || 1;

		this.area(ctx, scale, "busy_ns", most, c.poll);
		this.area(ctx, scale, "blocked_ns", most, striped(ctx, c.blocked));
		this.line(ctx, scale, "ready_ns", this.mostReady, c.ready);
		this.findings(ctx, scale, c);

		// Outside of the window it is dim.
		const left = scale.x(state.from);
		const right = scale.x(state.to);

		ctx.globalAlpha = 0.62;
		ctx.fillStyle = c.page;
		ctx.fillRect(0, 0, left, HEIGHT);
		ctx.fillRect(right, 0, scale.width - right, HEIGHT);
		ctx.globalAlpha = 1;
		ctx.strokeStyle = c.select;
		ctx.lineWidth = 1.5;
		ctx.strokeRect(left + 0.75, 0.75, Math.max(right - left - 1.5, 2), HEIGHT - 1.5);
		ctx.fillStyle = c.select;
		for (const x of [left, right])
			ctx.fillRect(x - 2, HEIGHT / 2 - 9, 4, 18);
	}

	area(ctx, scale, name, most, colour) {
		const values = this.values(name);

		ctx.fillStyle = colour;
		columns(this.answer, scale, (i, x, w) => {
			const h = values[i] > 0 ? Math.max(1, Math.min(1, values[i] / most) * (HEIGHT - 4)) : 0;

			ctx.fillRect(x, HEIGHT - h, w, h);
		});
	}

	line(ctx, scale, name, most, colour) {
		ctx.strokeStyle = colour;
		ctx.lineWidth = 1.5;
		ctx.beginPath();
		this.values(name).forEach((value, i) => {
			const x = scale.x(this.answer.from + (i + 0.5) * this.answer.cell_ns);
			const y = HEIGHT - 2 - Math.min(1, value / most) * (HEIGHT - 8);

			if (i)
				ctx.lineTo(x, y);
			else
				ctx.moveTo(x, y);
		});
		ctx.stroke();
	}

	findings(ctx, scale, c) {
		ctx.font = FONT;
		for (const f of this.app.trace.findings) {
			if (f.time_ns === undefined || f.score < 50)
				continue;
			const x = scale.x(f.time_ns);

			ctx.fillStyle = c.text;
			ctx.beginPath();
			ctx.moveTo(x - 4, 0);
			ctx.lineTo(x + 4, 0);
			ctx.lineTo(x, 7);
			ctx.fill();
		}
	}

	// Drag in the window moves it, at its edges widens it, elsewhere draws a new one.
	listen() {
		const at = (e) => this.scale.ns(e.clientX - this.canvas.getBoundingClientRect().left);
		const { state } = this.app;

		this.canvas.addEventListener("pointerdown", (event) => {
			const ns = at(event);
			const edge = EDGE_PX / this.scale.perNs;
			const { from, to } = state;
			const whole = from <= state.begin && to >= state.span;
			const part = Math.abs(ns - from) < edge ? "from" : Math.abs(ns - to) < edge ? "to"
				: ns > from && ns < to && !whole ? "window" : "new";
			const move = (e) => {
				const now = at(e);

				if (part === "window")
					state.look(from + now - ns, to + now - ns);
				else if (part === "new" && Math.abs(now - ns) > edge / 2)
					state.look(Math.min(ns, now), Math.max(ns, now));
				else if (part === "from")
					state.look(Math.min(now, to), to);
				else if (part === "to")
					state.look(from, Math.max(now, from));
			};
			const up = () => {
				this.canvas.removeEventListener("pointermove", move);
				this.canvas.removeEventListener("pointerup", up);
				state.past.push([from, to]);
			};

			this.canvas.setPointerCapture(event.pointerId);
			this.canvas.addEventListener("pointermove", move);
			this.canvas.addEventListener("pointerup", up);
		});
		this.canvas.addEventListener("pointermove", (event) => {
			if (!this.answer || event.buttons)
				return;
			const ns = at(event);
			const i = Math.floor((ns - this.answer.from) / this.answer.cell_ns);

			tooltip([["workers busy", mean(this.values("busy_ns")[i] ?? 0)],
				["in blocking calls", mean(this.values("blocked_ns")[i] ?? 0)],
				["tasks ready", mean(this.values("ready_ns")[i] ?? 0)], ["at", point(ns)]],
			event.clientX, event.clientY, this);
		});
		this.canvas.addEventListener("pointerleave", () => tooltip(null, 0, 0, this));
		this.canvas.addEventListener("wheel", (event) => {
			event.preventDefault();
			state.zoom(1.0018 ** event.deltaY, at(event));
		}, { passive: false });
	}
}
