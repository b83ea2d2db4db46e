#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""An input of a fuzz target that reads folders, from a folder: make_folder.py FOLDER > FILE"""
import sys
from pathlib import Path

FIRST = ("info", "data")

files = sorted(Path(sys.argv[1]).iterdir(),
               key=lambda p: (p.name not in FIRST, p.suffix == ".dat", p.name))
for path in files[:12]:
    data = path.read_bytes()
    sys.stdout.buffer.write(f"@{path.name} {len(data)}\n".encode() + data)
