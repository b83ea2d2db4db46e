// SPDX-License-Identifier: MIT OR Apache-2.0
// Colours for canvases, from the variables of app.css: they follow the system's light or dark. The
// states differ in lightness and in height too, so that no colour alone tells them apart.

const NAMES = ["text", "muted", "line", "panel", "page", "accent", "select", "poll", "blocked", "ready",
	"wait", "off-cpu", "park", "unknown", "call", "on-poll", "on-ready", "on-wait", "wake"];

let colours = null;

export function theme() {
	if (!colours) {
		const style = getComputedStyle(document.documentElement);

		colours = Object.fromEntries(NAMES.map((n) => [n, style.getPropertyValue(`--${n}`).trim()]));
	}
	return colours;
}

// fn() whenever the system changes between light and dark.
export function onThemeChange(fn) {
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
		colours = null;
		fn();
	});
}

// What a slice's kind is called, for people.
export const STATES = {
	poll: "polling",
	blocked: "in a blocking call",
	ready: "ready, not polled",
	wait: "waiting",
	off_cpu: "off the CPU",
	park: "parked",
	unknown: "not known",
};
