// SPDX-License-Identifier: MIT OR Apache-2.0
// Elements. Text gets into the page by this alone, as text: nothing in a trace can become markup.

// el("button", { class: "x", onclick: f, style: { left: "3px" } }, "text", element, null, ...)
export function el(name, props = {}, ...children) {
	const e = document.createElement(name);

	for (const [key, value] of Object.entries(props)) {
		if (value === undefined || value === null || value === false)
			continue;
		if (key.startsWith("on"))
			e.addEventListener(key.slice(2), value);
		else if (key === "style")
			for (const [property, v] of Object.entries(value))
				e.style.setProperty(property, v);
		else
			e.setAttribute(key === "class" ? "class" : key, value === true ? "" : value);
	}
	e.append(...there(children));
	return e;
}

// Puts these into an element, in place of what was in it.
export function fill(e, ...children) {
	e.replaceChildren(...there(children));
}

function there(children) {
	return children.flat().filter((c) => c !== undefined && c !== null && c !== false);
}

export function byId(id) {
	return document.getElementById(id);
}

// A canvas as large as its box, in device pixels; drawing is in CSS pixels.
export function fitCanvas(canvas, width, height) {
	const scale = window.devicePixelRatio || 1;
	const ctx = canvas.getContext("2d");

	if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
		canvas.width = Math.round(width * scale);
		canvas.height = Math.round(height * scale);
		canvas.style.width = `${width}px`;
		canvas.style.height = `${height}px`;
	}
	ctx.setTransform(scale, 0, 0, scale, 0, 0);
	ctx.clearRect(0, 0, width, height);
	return ctx;
}

// What a screen reader reads out.
export function say(text) {
	byId("says").textContent = text;
}

// fn, once in the next frame however often it is asked for.
export function inFrame(fn) {
	let waiting = false;

	return () => {
		if (waiting)
			return;
		waiting = true;
		requestAnimationFrame(() => {
			waiting = false;
			fn();
		});
	};
}

// fn, when nobody has asked for it for a while.
export function afterPause(ms, fn) {
	let timer = 0;

	return (...args) => {
		clearTimeout(timer);
		timer = setTimeout(() => fn(...args), ms);
	};
}

// A row of a tooltip or a list of facts.
export function fact(name, ...value) {
	return el("div", { class: "fact" }, el("dt", {}, name), el("dd", {}, ...value));
}

let tipFor = null;

// Lines next to the pointer: [text, ...] or [[name, value], ...]; null hides.
export function tooltip(lines, x, y, owner) {
	const tip = byId("tooltip");

	if (!lines) {
		if (!owner || owner === tipFor)
			tip.hidden = true;
		return;
	}
	tipFor = owner;
	tip.replaceChildren(...lines.map((line) => Array.isArray(line)
		? el("div", { class: "tip-row" }, el("span", {}, line[0]), el("b", {}, line[1]))
		: el("div", {}, line)));
	tip.hidden = false;
	const box = tip.getBoundingClientRect();

	tip.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - box.width - 6))}px`;
	tip.style.top = `${y + 18 + box.height > window.innerHeight ? Math.max(4, y - box.height - 10)
		: y + 18}px`;
}
