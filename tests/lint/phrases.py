#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Words that the documentation does not use: the list is the last block of docs/glossary.md.

Prints each use as FILE:LINE, or how much was checked; exits 1 if there is any use.
"""
import re
import sys
from pathlib import Path

GLOSSARY = "docs/glossary.md"


def phrases(root):
    """The words of the glossary's last indented block."""
    blocks = re.findall(r"(?:^    .*\n?)+", (root / GLOSSARY).read_text(), re.M)
    return [word.strip() for word in blocks[-1].replace("\n", ",").split(",") if word.strip()] if blocks else []


def check(root):
    """(number of files looked at, uses as text)."""
    words = phrases(root)
    # A phrase may go on in the next line.
    bad = re.compile(r"\b(" + "|".join(r"\s+".join(word.split()) for word in words) + r")\b", re.I)
    files = [root / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    files += sorted(path for path in (root / "docs").glob("*.md") if path != root / GLOSSARY)
    files = [path for path in files if path.is_file()]
    uses = []
    for path in files if words else []:
        text = path.read_text()
        for found in bad.finditer(text):
            number = text.count("\n", 0, found.start()) + 1
            uses.append(f"{path.relative_to(root)}:{number}: '{' '.join(found[0].split())}': see {GLOSSARY}")
    return len(files) if words else 0, uses


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    files, uses = check(root)
    print("\n".join(uses) if uses else f"phrases: {files} pages")
    return 1 if uses or not files else 0


if __name__ == "__main__":
    sys.exit(main())
