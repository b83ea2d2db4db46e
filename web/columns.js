// SPDX-License-Identifier: MIT OR Apache-2.0
// The block of data in a one-file report: base64 of gzip of { u32 length, JSON, columns }.
// src/report/page_data.h says what columns are; this gives them back as typed arrays.

// Times may be larger than 32 bits, all else is not.
const WIDE = new Set(["begin", "length", "ready", "blocked", "last", "number", "serial", "parent"]);

export async function readBlock(text) {
	const packed = bytesOf(text.trim());
	const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
	const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
	const length = new DataView(bytes.buffer).getUint32(0, true);
	const json = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));

	const { tables, at } = readTables(json.tables, bytes, 4 + length);

	return { ...json, tables, cells: json.cells ? readCells(json.cells, bytes, at) : null };
}

function bytesOf(base64) {
	if (Uint8Array.fromBase64)
		return Uint8Array.fromBase64(base64);
	const text = atob(base64);
	const bytes = new Uint8Array(text.length);

	for (let i = 0; i < bytes.length; i++)
		bytes[i] = text.charCodeAt(i);
	return bytes;
}

// {name: {n, leftOut, leftOutBelow, column: typed array, ...}} of the directory, whose columns begin
// at bytes[at].
function readTables(directory, bytes, at) {
	const tables = {};

	for (const [name, table] of Object.entries(directory)) {
		const out = { n: table.n, leftOut: table.left_out, leftOutBelow: table.left_out_below_ns };

		for (const column of table.columns) {
			const differences = column.endsWith("~");
			const key = differences ? column.slice(0, -1) : column;
			const values = WIDE.has(key) ? new Float64Array(table.n) : new Uint32Array(table.n);

			at = readColumn(values, bytes, at, differences);
			out[key] = values;
		}
		tables[name] = out;
	}
	return { tables, at };
}

// {n, cell_ns, threads: {index: {polling_ns: [n], ...}}, families: {kind: ...}}
function readCells(cells, bytes, at) {
	const lane = () => {
		const out = {};

		for (const name of [...cells.sums, "polls", "longest_ns"]) {
			const values = new Float64Array(cells.n);

			at = readColumn(values, bytes, at, false);
			out[name] = cells.sums.includes(name)
				? values.map((v) => v / cells.shares * cells.cell_ns) : values;
		}
		return out;
	};
	const lanes = (numbers) => Object.fromEntries(numbers.map((number) => [number, lane()]));

	return { ...cells, threads: lanes(cells.threads), families: lanes(cells.families) };
}

// LEB128 numbers into `values`; where the next column begins.
function readColumn(values, bytes, at, differences) {
	let before = 0;

	for (let i = 0; i < values.length; i++) {
		let value = 0;
		let weight = 1;
		let byte;

		do {
			byte = bytes[at++];
			value += (byte & 127) * weight;
			weight *= 128;
		} while (byte & 128);
		if (differences) {
			value = before + (value % 2 ? -(value + 1) / 2 : value / 2);
			before = value;
		}
		values[i] = value;
	}
	return at;
}
