// SPDX-License-Identifier: MIT OR Apache-2.0
// Times and numbers as people read them, as in the text of `pollux report`: three digits.

const STEPS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

// "850 ns", "12.3 µs", "4.56 ms", "1.23 s", "2 min 05 s"
export function duration(ns) {
	if (ns === null || ns === undefined || Number.isNaN(ns))
		return "–";
	if (ns >= 120e9)
		return `${Math.floor(ns / 60e9)} min ${String(Math.floor(ns / 1e9) % 60).padStart(2, "0")} s`;
	// What would be rounded to 1000 of a unit is 1 of the next.
	const [unit, name] = STEPS.find(([u]) => Math.abs(ns) >= u * (u > 1 ? 0.9995 : 1)) ?? [1, "ns"];
	const value = ns / unit;

	return `${unit === 1 ? Math.round(value) : digits(value)} ${name}`;
}

function digits(value) {
	const size = Math.abs(value);

	return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

// Points in time have one unit everywhere on the page: that of the trace's length.
let pointUnit = STEPS[0];

export function setSpan(ns) {
	pointUnit = STEPS.find(([u]) => ns >= u * (u > 1 ? 0.9995 : 1)) ?? STEPS.at(-1);
}

// A point in time, in as many digits as a window of that width shows.
export function point(ns, width = 0) {
	const [unit, name] = pointUnit;
	const most = Math.round(Math.log10(unit));
	const places = width > 0 ? Math.min(most, Math.max(2, Math.ceil(-Math.log10(width / unit)) + 2)) : Math.min(most, 6);

	return `${(ns / unit).toFixed(Math.min(places, most))} ${name}`;
}

// "12,345"
export function count(n) {
	return n === null || n === undefined ? "–" : Math.round(n).toLocaleString("en-US");
}

// "0.3", "12", for means
export function mean(n) {
	if (n > 0 && n < 0.005)
		return "0.01";
	return n >= 10 ? count(n) : n.toFixed(n >= 1 ? 1 : 2);
}

export function percent(part, whole) {
	if (!whole || !part)
		return "0 %";
	const share = part / whole * 100;

	return share < 0.1 ? "< 0.1 %" : `${share.toFixed(share < 9.95 ? 1 : 0)} %`;
}

// Round times in a window, about one in every `pixels` of its width: [{at, text}].
export function ticks(from, to, width, pixels = 110) {
	const wanted = (to - from) / Math.max(1, width / pixels);
	const power = 10 ** Math.floor(Math.log10(Math.max(wanted, 1)));
	const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= wanted) ?? wanted;
	const [unit, name] = pointUnit;
	const places = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
	const out = [];

	for (let at = Math.ceil(from / step) * step; at <= to; at += step)
		out.push({ at, text: `${(at / unit).toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places })} ${name}` });
	return out;
}

// Of a name what tells it from others: "serve (String) #7" of "app::some::serve (alloc::string::String) #7". Modules go first,
// then, as long as that leaves something to read, the middle.
export function fitName(text, room, widthOf = (t) => t.length * 6.3) {
	if (widthOf(text) <= room)
		return text;
	const brief = text.replace(/([\p{L}\p{N}_$]+::)+(?=[\p{L}\p{N}_$<])/gu, "");
	const width = widthOf(brief);
	let most = Math.min(brief.length, Math.ceil(room / width * brief.length) + 2);
	let shown = brief;

	while (widthOf(shown) > room && most)
		shown = cut(brief, --most, most < 14 ? 0 : Math.floor(most * 0.35));
	return shown;
}

// At most `most` characters, of which `tail` are the last ones.
function cut(text, most, tail) {
	return most < 3 ? "" : `${text.slice(0, most - 1 - tail)}…${tail ? text.slice(-tail) : ""}`;
}

// What a family's role is called: the one that a block_on polls is known by that.
export function roleText(role) {
	return role === "root" ? "block_on" : role;
}

// "buy shop.rs:47", for lanes: what comes first is seen where there is little room.
export function placeBrief(place) {
	const whole = place?.function ?? "";
	const name = whole.startsWith("<") ? whole
		: whole.replace(/<.*$/, "").replace(/(::\{[^}]*\})+$/, "").split("::").at(-1);

	return place?.file ? `${name} ${place.file.split("/").at(-1)}:${place.line}` : placeText(place);
}

// The same of a place's text, "src/shop.rs:47 shop::buy"; any other text as it is.
export function briefText(text) {
	const [, file, line, name] = /^(\S+):(\d+) (.+)$/.exec(text) ?? [];

	return file ? placeBrief({ file, line, function: name }) : text;
}

export function placeText(place) {
	if (!place)
		return "";
	const file = place.file ? place.file.replace(/^.*\/registry\/src\/[^/]*\//, "")
		.replace(/^\/rustc\/[^/]*\//, "") : "";

	return `${file ? `${file}:${place.line} ` : ""}${place.function ?? place.text ?? ""}`;
}
