#!/usr/bin/env python3
"""An input of fuzz_import_uftrace_data from a folder of uftrace record: make_uftrace.py FOLDER > FILE"""
import sys
from pathlib import Path

files = sorted(Path(sys.argv[1]).iterdir(), key=lambda p: (p.name != "info", p.suffix == ".dat"))
for path in files[:8]:
    data = path.read_bytes()
    sys.stdout.buffer.write(f"@{path.name} {len(data)}\n".encode() + data)
