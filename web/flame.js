// SPDX-License-Identifier: MIT OR Apache-2.0
// Flame graphs: where tasks wait, by family and the chain of await points; what the CPU does, by
// family and stack. A width is a time; rows go from the outermost at the top to the innermost.

import { el, fitCanvas, say, tooltip } from "./dom.js";
import { FONT } from "./draw.js";
import { theme } from "./theme.js";
import { briefText, count, duration, fitName, percent } from "./units.js";

const ROW = 19;

export class Flame {
	constructor(app) {
		this.app = app;
		this.path = []; // names from the root to the node that fills the width
		this.canvas = el("canvas", { tabindex: "0", role: "img", class: "flame" });
		this.where = el("div", { class: "where" });
		this.canvas.addEventListener("click", (e) => this.zoomTo(this.boxAt(e)?.node));
		this.canvas.addEventListener("pointermove", (e) => this.hover(e));
		this.canvas.addEventListener("pointerleave", () => tooltip(null, 0, 0, this));
		this.canvas.addEventListener("keydown", (e) => this.key(e));
		app.state.on("selection", () => this.root && this.canvas.isConnected && this.draw());
	}

	async load(tables, kind, window, current) {
		const root = await this.app.data.flame({ kind, ...window, lane: tables.lane });

		if (!current())
			return;
		if (kind !== this.kind)
			this.path = [];
		this.kind = kind;
		this.root = root;
		this.link(root, null);
		tables.options.replaceChildren(tables.laneChoice());
		if (!root.value) {
			tables.panel.replaceChildren(el("p", { class: "calm" }, kind === "cpu"
				? "No CPU samples here: record --cpu takes them." : "Nothing waits in this window."));
			return;
		}
		tables.panel.replaceChildren(this.where, this.canvas);
		this.width = tables.panel.clientWidth - 18;
		this.draw();
	}

	link(node, parent) {
		node.parent = parent;
		node.children = [...(node.children ?? [])].sort((a, b) => b.value - a.value);
		node.children.forEach((c) => this.link(c, node));
	}

	// The node of the path, as deep as it still exists.
	get top() {
		let node = this.root;

		for (const name of this.path) {
			const child = node.children.find((c) => c.name === name);

			if (!child)
				break;
			node = child;
		}
		return node;
	}

	draw() {
		const c = theme();
		const top = this.top;
		const boxes = [];
		let deepest = 0;
		const place = (node, x, width, depth) => {
			if (width < 0.4)
				return;
			boxes.push({ node, x, width, depth });
			deepest = Math.max(deepest, depth);
			let at = x;

			for (const child of node.children) {
				const w = node.value ? width * child.value / node.value : 0;

				place(child, at, w, depth + 1);
				at += w;
			}
		};

		place(top, 0, this.width, 0);
		this.boxes = boxes;
		this.chosen = this.chosen && boxes.some((b) => b.node === this.chosen) ? this.chosen : top;
		const ctx = fitCanvas(this.canvas, this.width, (deepest + 1) * ROW);

		ctx.font = FONT;
		ctx.textBaseline = "middle";
		for (const b of boxes) {
			ctx.fillStyle = this.colour(b.node, b.depth, c);
			ctx.fillRect(b.x, b.depth * ROW, Math.max(b.width - 0.6, 0.6), ROW - 1);
			if (b.width > 30) {
				const room = b.width - 8;
				const brief = b.node.name.length * 6.3 <= room ? b.node.name : briefText(b.node.name);

				ctx.fillStyle = !b.depth && !b.node.parent ? c.text : this.kind === "waiting" ? c["on-wait"] : c["on-ready"];
				ctx.fillText(fitName(brief, room), b.x + 4, b.depth * ROW + ROW / 2);
			}
			if (b.node === this.chosen && document.activeElement === this.canvas) {
				ctx.strokeStyle = c.select;
				ctx.lineWidth = 2;
				ctx.strokeRect(b.x + 1, b.depth * ROW + 1, Math.max(b.width - 3, 2), ROW - 3);
			}
		}
		this.canvas.setAttribute("aria-label", `Flame graph of ${this.kind === "cpu" ? "CPU time" : "waiting"}: ${this.text(this.chosen)}. Arrow keys walk, Enter zooms, Backspace goes back.`);
		this.showWhere(top);
	}

	showWhere(top) {
		const path = [];

		for (let n = top; n; n = n.parent)
			path.unshift(n);
		this.where.replaceChildren(...path.map((n, i) => el("button", { class: "link", onclick: () => this.zoomTo(n) },
			i ? n.name : this.kind === "cpu" ? "CPU time" : "waiting, all tasks together")),
		el("span", {}, ` ${duration(top.value)}`));
	}

	// By name, so that a function has one colour everywhere; in the colours of the states.
	colour(node, depth, c) {
		if (!depth && !node.parent)
			return c.line;
		let hash = 7;

		for (const letter of node.name)
			hash = (hash * 31 + letter.codePointAt(0)) % 997;
		const dark = matchMedia("(prefers-color-scheme: dark)").matches;
		const hue = this.kind === "cpu" ? 22 + hash % 34 : 196 + hash % 34;

		return `hsl(${hue} ${this.kind === "cpu" ? 72 : 38}% ${(dark ? 34 : 70) + hash % 9}%)`;
	}

	text(node) {
		return `${node.name}: ${duration(node.value)}, ${percent(node.value, this.root.value)} of all`;
	}

	boxAt(event) {
		const box = this.canvas.getBoundingClientRect();
		const x = event.clientX - box.left;
		const depth = Math.floor((event.clientY - box.top) / ROW);

		return this.boxes.find((b) => b.depth === depth && x >= b.x && x < b.x + b.width);
	}

	hover(event) {
		const node = this.boxAt(event)?.node;

		tooltip(node ? [node.name, ["in all", duration(node.value)], ["share", percent(node.value, this.root.value)],
			...(node.count ? [["times", count(node.count)]] : [])] : null, event.clientX, event.clientY, this);
	}

	zoomTo(node) {
		if (!node)
			return;
		this.path = [];
		for (let n = node; n.parent; n = n.parent)
			this.path.unshift(n.name);
		this.chosen = node;
		this.draw();
	}

	key(event) {
		const node = this.chosen ?? this.top;
		const near = node.parent?.children ?? [];
		const go = {
			ArrowDown: () => node.children[0], ArrowUp: () => node.parent,
			ArrowRight: () => near[near.indexOf(node) + 1], ArrowLeft: () => near[near.indexOf(node) - 1],
		}[event.key];

		if (event.key === "Enter")
			this.zoomTo(node);
		else if (event.key === "Backspace" || event.key === "Escape")
			this.zoomTo(this.top.parent ?? this.root);
		else if (go)
			this.chosen = go() ?? node;
		else
			return;
		event.preventDefault();
		event.stopPropagation();
		say(this.text(this.chosen));
		this.draw();
	}
}
