#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Shows how the golden files (tests/golden/traces) would change, then changes them: `./dev bless [FILTER]`.

The difference is for reading: what changed has to be meant. git takes anything back.
"""
import difflib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "e2e"))

import golden  # noqa: E402


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    changed = 0
    golden.GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, words in golden.cases():
        if wanted not in name:
            continue
        path = golden.GOLDEN / name
        old, new = path.read_bytes() if path.exists() else b"", golden.output(words)
        if new.startswith(b"exit "):
            print(f"pollux {' '.join(words)}: {new.decode().strip()}")
            return 1
        if old == new:
            continue
        sys.stdout.writelines(line + "\n" for line in difflib.unified_diff(
            old.decode().splitlines(), new.decode().splitlines(), f"tests/golden/traces/{name}", "now",
            lineterm=""))
        path.write_bytes(new)
        changed += 1
    print(f"{changed} golden files changed" if changed else "no golden file changes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
