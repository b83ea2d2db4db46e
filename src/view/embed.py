#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""embed.py FOLDER OUTPUT.c DEPFILE: the files of a folder as a C table (src/view/assets.h).

Each with its path, content type and a tag of its content. The depfile names the files and the folders, so that a new
file is embedded by the next build."""
import hashlib
import sys
from pathlib import Path

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}


def bytes_of(data):
    for at in range(0, len(data), 24):
        yield "\t" + ",".join(str(b) for b in data[at : at + 24]) + ",\n"


def main(folder, output, depfile):
    folder = Path(folder)
    entries = sorted(folder.rglob("*"))
    files = [p for p in entries if p.is_file() and not any(part.startswith(".") for part in p.relative_to(folder).parts)]
    unknown = [p for p in files if p.suffix not in TYPES]
    if unknown:
        sys.exit(f"{unknown[0]}: embed.py has no content type for {unknown[0].suffix or 'a name without ending'}")
    table = []
    with open(output, "w", encoding="ascii") as out:
        out.write('/* Made by embed.py. */\n#include "view/assets.h"\n\n')
        for number, path in enumerate(files):
            data = path.read_bytes()
            out.write(f"static const unsigned char file_{number}[] = {{\n")
            out.writelines(bytes_of(data))
            out.write("\t0};\n")
            name = path.relative_to(folder).as_posix()
            if not all(c.isascii() and (c.isalnum() or c in "._-/") for c in name):
                sys.exit(f"{path}: a name of other characters than letters, digits, '.', '_', '-'")
            tag = hashlib.sha256(data).hexdigest()[:32]
            table.append(f'\t{{"{name}", "{TYPES[path.suffix]}", "\\"{tag}\\"", file_{number}, {len(data)}}},\n')
        out.write("\nconst struct view_asset view_assets[] = {\n")
        out.writelines(table)
        out.write("\t{0}};\n")
    folders = [p for p in entries if p.is_dir()]
    with open(depfile, "w", encoding="utf-8") as dep:
        dep.write(f"{output}: " + " ".join(str(p).replace(" ", "\\ ") for p in [folder, *folders, *files]) + "\n")


main(*sys.argv[1:])
