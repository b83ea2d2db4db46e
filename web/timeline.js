// SPDX-License-Identifier: MIT OR Apache-2.0
// The timeline: lanes under a ruler, with what is selected and its wakes; zoom and pan by wheel and
// drag, selection by click. One canvas as high as what is visible, and labels over it as buttons.

import { byId, el, fitCanvas, inFrame, tooltip } from "./dom.js";
import { Lanes } from "./lanes.js";
import { FONT, Scale, drawArrow, drawFamilyCells, drawGrid, drawInside, drawSlices, drawTaskCells, drawThreadCells, mostOf, sliceLines } from "./draw.js";
import { STATES, theme } from "./theme.js";
import { count, duration, fitName, mean, percent, placeText, point, roleText, ticks } from "./units.js";

const CLICK_PX = 4;

export class Timeline {
	constructor(app) {
		this.app = app;
		this.box = byId("lanes");
		this.canvas = el("canvas", { role: "img", "aria-label": "Lanes of threads and families" });
		this.labels = el("div", { class: "labels" });
		this.nothing = el("p", { class: "nothing", hidden: true }, "No task was polled: there is nothing to draw.");
		this.inner = el("div", { class: "inner" }, this.canvas, this.labels, this.nothing);
		this.box.append(this.inner);
		this.rulerCanvas = el("canvas", { "aria-hidden": "true" });
		this.rulerText = el("div", { class: "window" });
		byId("ruler").append(this.rulerText, this.rulerCanvas);
		this.makeLegend();
		this.draw = inFrame(() => this.drawNow());
		this.lanes = new Lanes(app);
		this.lanes.onRows = () => this.showLabels();
		this.lanes.onData = () => this.draw();
		this.wakes = null; // of the selected poll: an answer of api/poll
		this.band = null; // times between which the mouse is dragged with shift

		app.state.on("view", () => {
			this.lanes.load();
			this.draw();
		});
		app.state.on("lanes", () => {
			this.lanes.layOut();
			this.lanes.load();
			this.draw();
		});
		app.state.on("selection", () => this.draw());
		this.box.addEventListener("scroll", () => {
			this.showLabels();
			this.draw();
		});
		this.listen();
	}

	start() {
		this.lanes.layOut();
		this.lanes.load();
	}

	get gutter() {
		return this.app.gutter();
	}

	get scale() {
		return new Scale(this.app.state.from, this.app.state.to, this.app.plotWidth());
	}

	makeLegend() {
		const item = (kind, text) => el("span", { class: "key" },
			el("i", { class: `swatch ${kind}` }), text);

		this.sort = el("select", { "aria-label": "Order of tasks in open families", onchange: () => {
			this.app.state.sort = this.sort.value;
			this.lanes.load();
		} }, [["begin", "by begin"], ["poll", "most polled first"], ["wait", "longest wait first"],
			["ready", "longest delay first"]].map(([value, text]) => el("option", { value }, text)));
		byId("legend").append(item("poll", STATES.poll), item("blocked", STATES.blocked),
			item("ready", STATES.ready), item("wait", STATES.wait), item("off_cpu", STATES.off_cpu),
			item("park", STATES.park), el("label", { class: "sort" }, "tasks ", this.sort));
	}

	sortTasks(by) {
		this.sort.value = this.app.state.sort = by;
	}

	// ---- labels ----

	showLabels() {
		const top = this.box.scrollTop - 100;
		const bottom = this.box.scrollTop + this.box.clientHeight + 100;
		const { selection } = this.app.state;

		this.inner.style.height = `${this.lanes.height + 12}px`;
		this.nothing.hidden = this.lanes.rows.length > 0;
		const had = document.activeElement?.dataset?.row;

		this.labels.replaceChildren(...this.lanes.rows
			.filter((r) => r.y + r.height > top && r.y < bottom)
			.map((r) => this.label(r, selection)));
		if (had)
			this.labels.querySelector(`[data-row="${CSS.escape(had)}"]`)?.focus({ preventScroll: true });
	}

	label(row, selection) {
		const place = { top: `${row.y}px`, height: `${row.height}px` };
		const { state } = this.app;

		if (row.type === "head")
			return el("h2", { class: "row head", style: place }, row.text,
				el("small", {}, ` ${row.n}`));
		if (row.type === "note")
			return el("p", { class: "row more", style: place, title: row.title }, row.text);
		if (row.type === "more")
			return el("button", { class: "row more", style: place, "data-row": `more${row.lane.id}`,
				onclick: () => this.lanes.moreTasks(row.lane.id) }, row.text);
		if (row.type === "task")
			return el("button", { class: "row task", style: place, "data-row": `task${row.task.task}`,
				"aria-pressed": selection?.type === "task" && selection.id === row.task.task
					? "true" : "false",
				onclick: () => state.select("task", row.task.task, row.task.from) }, `#${row.task.number}`,
			row.whole && el("small", {}, ` ${duration(row.task.to - row.task.from)}`));
		const open = state.open.has(row.lane.id);
		const chosen = selection?.type === "lane" && selection.id === row.lane.id;

		return el("div", { class: `row ${row.type}${chosen ? " chosen" : ""}`, style: place },
			row.type === "family" && el("button", { class: "open", "aria-expanded": String(open),
				"aria-label": `Tasks of ${row.lane.short}`, "data-row": `open${row.lane.id}`,
				onclick: () => state.toggle(row.lane.id) }, open ? "▾" : "▸"),
			el("button", { class: "name", title: row.lane.name, "data-row": `lane${row.lane.id}`,
				onclick: () => state.select("lane", row.lane.id) },
			el("span", {}, fitName(row.lane.short, this.gutter - (row.type === "family" ? 36 : 24), labelWidth)),
			el("small", {}, row.type === "family"
				? `${row.lane.role === "task" ? "" : `${roleText(row.lane.role)} · `}${count(row.lane.tasks)} ${row.lane.tasks === 1 ? "task" : "tasks"}`
				: `${row.lane.role} · ${count(row.lane.polls)} polls`)));
	}

	// ---- drawing ----

	drawNow() {
		const width = this.app.plotWidth();
		const height = this.box.clientHeight;
		const scale = this.scale;

		if (width <= 0 || height <= 0)
			return;
		this.canvas.style.marginLeft = `${this.gutter}px`;
		const ctx = fitCanvas(this.canvas, width, height);
		const marks = ticks(scale.from, scale.to, width);
		const top = this.box.scrollTop;

		drawGrid(ctx, marks, scale, height);
		for (const row of this.lanes.rows)
			if (row.y + row.height > top && row.y < top + height)
				this.drawRow(ctx, row, row.y - top, scale);
		this.drawWakes(ctx, scale, top);
		if (this.band) {
			ctx.fillStyle = theme().select;
			ctx.globalAlpha = 0.18;
			ctx.fillRect(scale.x(this.band[0]), 0, scale.x(this.band[1]) - scale.x(this.band[0]), height);
			ctx.globalAlpha = 1;
		}
		this.drawRuler(marks, scale);
	}

	drawRow(ctx, row, y, scale) {
		const c = theme();
		const cells = this.lanes.cells;
		const chosen = (s) => this.isChosen(s);

		if (!["thread", "family", "task"].includes(row.type))
			return;
		ctx.fillStyle = c.panel;
		ctx.globalAlpha = row.type === "task" ? 0.35 : 0.7;
		ctx.fillRect(0, y, scale.width, row.height);
		ctx.globalAlpha = 1;
		if (row.type === "task") {
			if (row.task.cells)
				drawTaskCells(ctx, row.task.cells, scale, y, row.height);
			drawSlices(ctx, row.task.slices, scale, y, row.height, (s) => this.app.sliceName(s, row),
				chosen);
			return;
		}
		const lane = cells?.lanes[row.lane.id];

		if (row.type === "thread") {
			const exact = this.lanes.exact(row.lane.id, scale.from, scale.to);

			if (exact) {
				const slices = exact.slices;

				if (exact.cells)
					drawThreadCells(ctx, exact.cells, exact.cells.lane, scale, y, row.height);
				drawSlices(ctx, slices, scale, y, row.height, (s) => this.app.sliceName(s, row), chosen,
					true);
				drawInside(ctx, slices, scale, y, row.height);
			} else if (lane) {
				drawThreadCells(ctx, cells, lane, scale, y, row.height);
			}
		} else if (lane) {
			drawFamilyCells(ctx, cells, lane, scale, y, row.height, mostOf(cells, lane, scale));
		}
	}

	isChosen(s) {
		const { selection } = this.app.state;

		return (selection?.type === "poll" && s.kind === "poll" && s.id === selection.id) ||
			(selection?.type === "task" && s.kind === "poll" && s.task === selection.id);
	}

	// Who woke the selected poll, and whom it woke.
	drawWakes(ctx, scale, top) {
		const poll = this.wakes;

		if (!poll || this.app.state.selection?.type !== "poll")
			return;
		const y = (thread) => {
			const row = this.lanes.rowOf(this.app.laneOfThread.get(thread));

			return row ? row.y + row.height / 2 - top : -10;
		};

		if (poll.woken_by)
			drawArrow(ctx, scale.x(poll.woken_by.at), y(poll.woken_by.thread), scale.x(poll.from),
				y(poll.thread));
		for (const wake of poll.wakes.slice(0, 100))
			if (wake.from !== undefined)
				drawArrow(ctx, scale.x(wake.at), y(poll.thread), scale.x(wake.from), y(wake.thread));
	}

	drawRuler(marks, scale) {
		const ctx = fitCanvas(this.rulerCanvas, scale.width, 22);
		const c = theme();

		this.rulerCanvas.style.left = `${this.gutter}px`;
		ctx.font = FONT;
		ctx.textBaseline = "middle";
		for (const { at, text } of marks) {
			ctx.fillStyle = c.line;
			ctx.fillRect(Math.round(scale.x(at)), 14, 1, 8);
			ctx.fillStyle = c.muted;
			ctx.fillText(text, Math.min(scale.x(at) + 4, scale.width - ctx.measureText(text).width - 2), 11);
		}
		this.rulerText.textContent = `${duration(scale.to - scale.from)} visible`;
	}

	// ---- pointer ----

	listen() {
		const at = (event) => this.scale.ns(event.clientX - this.canvas.getBoundingClientRect().left);

		this.canvas.addEventListener("wheel", (event) => this.wheel(event, at(event)), { passive: false });
		byId("ruler").addEventListener("wheel", (event) => this.wheel(event, at(event)),
			{ passive: false });
		this.canvas.addEventListener("pointerdown", (event) => this.press(event, at));
		this.canvas.addEventListener("pointermove", (event) => this.hover(event));
		this.canvas.addEventListener("pointerleave", () => tooltip(null, 0, 0, this));
		this.canvas.addEventListener("dblclick", (event) => this.app.state.zoom(0.25, at(event)));
	}

	wheel(event, at) {
		event.preventDefault();
		const unit = event.deltaMode === 1 ? 16 : 1;

		if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
			this.app.state.pan((event.deltaX || event.deltaY) * unit / this.app.plotWidth());
		else
			this.app.state.zoom(1.0018 ** (event.deltaY * unit), at);
	}

	// Drag moves the window and scrolls; with shift it chooses one; without motion it is a click.
	press(event, at) {
		if (event.button)
			return;
		const { state } = this.app;
		const start = { x: event.clientX, y: event.clientY, from: state.from, to: state.to,
			top: this.box.scrollTop, ns: at(event) };
		let moved = false;
		const move = (e) => {
			moved ||= Math.hypot(e.clientX - start.x, e.clientY - start.y) > CLICK_PX;
			if (!moved)
				return;
			tooltip(null);
			if (event.shiftKey) {
				this.band = [Math.min(start.ns, at(e)), Math.max(start.ns, at(e))];
				this.draw();
				return;
			}
			const by = (start.x - e.clientX) / this.app.plotWidth() * (start.to - start.from);

			state.look(start.from + by, start.to + by);
			this.box.scrollTop = start.top + start.y - e.clientY;
		};
		const up = (e) => {
			this.canvas.removeEventListener("pointermove", move);
			this.canvas.removeEventListener("pointerup", up);
			this.canvas.removeEventListener("pointercancel", up);
			if (this.band) {
				const [from, to] = this.band;

				this.band = null;
				state.look(from, to, true);
			} else if (!moved) {
				this.click(e);
			}
		};

		this.canvas.setPointerCapture(event.pointerId);
		this.canvas.addEventListener("pointermove", move);
		this.canvas.addEventListener("pointerup", up);
		this.canvas.addEventListener("pointercancel", up);
	}

	// The row and the slice, or the cell, at the pointer.
	find(event) {
		const box = this.canvas.getBoundingClientRect();
		const x = event.clientX - box.left;
		const row = this.lanes.rowAt(event.clientY - box.top + this.box.scrollTop);
		const scale = this.scale;
		const ns = scale.ns(x);

		if (!row?.lane)
			return { row: null, ns };
		const exact = row.type === "task" ? row.task
			: row.type === "thread" ? this.lanes.exact(row.lane.id, scale.from, scale.to) : null;
		const slice = exact ? nearest(exact.slices, ns, 2 / scale.perNs) : null;
		const cells = exact ? exact.cells : this.lanes.cells;
		const lane = exact ? cells?.lane : cells?.lanes[row.lane.id];
		const cell = cells && !slice ? Math.floor((ns - cells.from) / cells.cell_ns) : -1;

		return { row, ns, slice, lines: cell >= 0 && cell < cells.n && lane ? this.cellLines(row, cells, lane, cell) : null };
	}

	hover(event) {
		if (event.buttons)
			return;
		const { ns, slice, ...found } = this.find(event);
		const lines = slice ? sliceLines(slice, this.app.names) : found.lines;

		this.canvas.style.cursor = slice ? "pointer" : "default";
		tooltip(lines && [...lines, ["at", point(ns, this.app.state.width)]], event.clientX,
			event.clientY, this);
	}

	// null: there is nothing in the cell.
	cellLines(row, cells, lane, cell) {
		const value = (name) => lane[name]?.[cell] ?? 0;
		const lines = [`${row.lane.short} in ${duration(cells.cell_ns)}`];

		if (lane.slices && !value("slices"))
			return null;
		if (row.type === "task") {
			lines[0] = `#${row.task.number} in ${duration(cells.cell_ns)}`;
			for (const [text, name] of [["polled", "polling_ns"], ["ready, not polled", "ready_ns"], ["waiting", "waiting_ns"]])
				lines.push([text, percent(value(name), cells.cell_ns)]);
			return [...lines, ["short slices", count(value("slices"))]];
		}
		if (row.type === "thread") {
			lines.push(["polling", percent(value("polling_ns"), cells.cell_ns)],
				["blocked", percent(value("blocked_ns"), cells.cell_ns)],
				["parked", percent(value("parked_ns"), cells.cell_ns)]);
		} else {
			lines.push(["tasks polling", mean(value("polling_ns") / cells.cell_ns)],
				["ready, not polled", mean(value("ready_ns") / cells.cell_ns)],
				["waiting", mean(value("waiting_ns") / cells.cell_ns)]);
			const cause = cells.causes?.[lane.cause?.[cell]];

			if (cause)
				lines.push(["mostly at", cause.text ?? placeText(cause)]);
		}
		lines.push(lane.slices ? ["short slices", count(value("slices"))] : ["polls", count(value("polls"))]);
		if (value("longest_ns"))
			lines.push(["longest poll", duration(value("longest_ns"))]);
		return lines;
	}

	async click(event) {
		const { row, slice, ns } = this.find(event);
		const { state } = this.app;

		this.box.focus({ preventScroll: true });
		if (slice?.kind === "poll")
			state.select("poll", slice.id);
		else if (slice?.task && row.type === "task")
			state.select("task", slice.task, slice.from);
		else if (row?.type === "task")
			state.select("task", row.task.task, row.task.from);
		else if (row?.type === "thread" || row?.type === "family")
			await this.selectLongest(row.lane, ns);
		else
			state.select(null);
	}

	// Of what is drawn as cells: the longest poll about there.
	async selectLongest(lane, ns) {
		const { state } = this.app;
		const around = Math.max(3 * state.width / this.app.plotWidth(),
			this.lanes.cells?.cell_ns ?? 0);
		const poll = await this.app.pollAt(lane.id, ns, around);

		if (poll)
			state.select("poll", poll.id);
		else
			state.select("lane", lane.id);
	}

	// Scrolls so that a lane (or a task in it) is visible.
	reveal(lane, task) {
		const row = this.lanes.rowOf(lane, task);

		if (!row)
			return;
		if (row.y < this.box.scrollTop)
			this.box.scrollTop = row.y - 8;
		else if (row.y + row.height > this.box.scrollTop + this.box.clientHeight)
			this.box.scrollTop = row.y + row.height - this.box.clientHeight + 60;
	}
}

// Of the name of a lane.
function labelWidth(text) {
	const ctx = labelWidth.ctx ??= document.createElement("canvas").getContext("2d");

	ctx.font = "600 13px system-ui, sans-serif";
	return ctx.measureText(text).width;
}

// The innermost slice at that time, or one that is very near to it.
function nearest(slices, ns, margin) {
	let found = null;

	for (const s of slices) {
		if (s.from > ns + margin)
			break;
		if (s.to < ns - margin || (s.kind === "park" && found))
			continue;
		const hit = s.from <= ns && s.to >= ns;

		if (!found || hit || found.to < ns)
			if (!(found?.kind === "poll" && (s.kind === "call" || s.kind === "off_cpu")))
				found = s;
	}
	return found;
}
