# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files as C arrays: `page_parts.py FILE...` defines `page_NAME[]` for each, and its length."""
import pathlib
import sys

for path in map(pathlib.Path, sys.argv[1:]):
    data = path.read_bytes()
    print(f"static const char page_{path.stem}[{len(data) + 1}] =")
    for line in data.splitlines(keepends=True):
        print('\t"' + "".join(chr(c) if 32 <= c < 127 and chr(c) not in '"\\?' else f"\\{c:03o}" for c in line) + '"')
    print(";")
