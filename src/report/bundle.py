#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Puts the page into one piece, for report --html: C strings for src/report/page_template.h.

    bundle.py FOLDER OUTPUT.c DEPFILE

A browser loads no modules from file://, so each becomes a function that gives back what it exports,
in the order in which they need each other. That takes little, as long as modules are written so:
imports are `import { a, b } from "./x.js";`, exports are `export function`, `export class` and
`export const`, and no two modules import each other. Anything else is an error.
"""
import base64
import hashlib
import re
import sys
from pathlib import Path

IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+\.js)";\n', re.M)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.M)
EXPORTED = re.compile(r"^export (?:async )?(?:function|class|const) (\w+)", re.M)
LEFT = re.compile(r"^\s*(?:import|export)\b.*$|\bimport\(|<(?:/script|!--)", re.M)
MARKS = ["<!-- title -->", "<!-- tables -->", "<!-- data -->"]


def name_of(file):
    return "m_" + re.sub(r"\W", "_", file[:-3])


def bundle(folder, start):
    """The modules that `start` needs, and itself, as one script."""
    done, doing, parts = set(), [], []

    def add(file):
        if file in done:
            return
        if file in doing:
            sys.exit(f"bundle.py: modules import each other: {' -> '.join(doing + [file])}")
        doing.append(file)
        text = (folder / file).read_text()
        heads = []
        for names, other in IMPORT.findall(text):
            add(other)
            names = re.sub(r"(\w+) as (\w+)", r"\1: \2", " ".join(names.split()))
            heads.append(f"const {{ {names} }} = {name_of(other)};\n")
        exported = EXPORTED.findall(text)
        text = EXPORT.sub("", IMPORT.sub("", text))
        left = LEFT.search(text)
        if left:
            sys.exit(f"bundle.py: {file}: not understood: {left[0].strip()}")
        parts.append(f"const {name_of(file)} = (() => {{\n{''.join(heads)}{text}"
                     f"return {{ {', '.join(exported)} }};\n}})();\n")
        doing.pop()
        done.add(file)

    add(start)
    return "'use strict';\n" + "".join(parts)


def hashed(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def c_string(name, text):
    lines = []
    for line in text.splitlines(keepends=True):
        for at in range(0, len(line), 400):
            piece = line[at:at + 400].encode()
            lines.append('\t"' + "".join(
                {34: '\\"', 92: "\\\\", 10: "\\n", 9: "\\t", 63: "\\?"}.get(b) or
                (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in piece) + '"')
    return f"const char {name}[] =\n" + "\n".join(lines or ['\t""']) + ";\n"


def main(folder, output, depfile):
    folder, output = Path(folder), Path(output)
    script, style = bundle(folder, "app.js"), (folder / "app.css").read_text()
    policy = (f"default-src 'none'; script-src {hashed(script)}; style-src {hashed(style)}; "
              "img-src data: blob:; base-uri 'none'; form-action 'none'")
    page = (folder / "index.html").read_text()
    for old, new in {
            # What `report --html` replaces begins so (src/cli/report.c).
            "<!DOCTYPE html>\n": "<!DOCTYPE html>\n<!-- pollux report -->\n",
            '<meta charset="utf-8">': '<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" '
                                      f'content="{policy}">',
            "<title>pollux</title>": "<title><!-- title --> · pollux</title>",
            '<link rel="stylesheet" href="app.css">': f"<style>{style}</style>",
            '<script type="module" src="app.js"></script>':
                '<script type="application/octet-stream" id="pollux-data"><!-- data --></script>\n'
                f"<script>{script}</script>",
    }.items():
        if page.count(old) != 1:
            sys.exit(f"bundle.py: index.html: {old} is not there once")
        page = page.replace(old, new)
    parts = []
    for mark in MARKS:
        before, found, page = page.partition(mark)
        if not found or mark in page:
            sys.exit(f"bundle.py: index.html: {mark} is not there once")
        parts.append(before)
    parts.append(page)
    names = ["page_before_title", "page_before_tables", "page_before_data", "page_after_data"]
    output.write_text('/* Made by bundle.py. */\n#include "report/page_template.h"\n\n' +
                      "\n".join(map(c_string, names, parts)))
    files = [folder, *sorted(folder.iterdir())]
    Path(depfile).write_text(f"{output}: " + " ".join(str(f).replace(" ", "\\ ") for f in files) + "\n")


main(*sys.argv[1:])
