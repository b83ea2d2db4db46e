#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Words that texts do not use: the list is the last block of docs/glossary.md.

Texts are the documentation, and the comments and strings of the C code in src and agent.

Prints each use as FILE:LINE, or how much was checked; exits 1 if there is any use.
"""
import re
import sys
from pathlib import Path

GLOSSARY = "docs/glossary.md"
C = (".c", ".h", ".S")
C_TEXTS = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*|'(?:\\.|[^'\\])'""", re.S)


def phrases(root):
    """The words of the glossary's last indented block."""
    blocks = re.findall(r"(?:^    .*\n?)+", (root / GLOSSARY).read_text(), re.M)
    return [word.strip() for word in blocks[-1].replace("\n", ",").split(",") if word.strip()] if blocks else []


def texts(path):
    """(position, text) of all texts of a file: a page's whole, the comments and strings of C."""
    text = path.read_text()
    if path.suffix not in C:
        return text, [(0, text)]
    return text, [(found.start(), found[0]) for found in C_TEXTS.finditer(text) if found[0][0] != "'"]


def check(root):
    """(number of files looked at, uses as text)."""
    words = phrases(root)
    # A phrase may go on in the next line, which begins with a star in a comment and a quote in a string.
    bad = re.compile(r"\b(" + "|".join(r"[\s*\"]+".join(word.split()) for word in words) + r")\b", re.I)
    files = [root / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    files += sorted(path for path in (root / "docs").glob("*.md") if path != root / GLOSSARY)
    files += sorted(path for room in ("src", "agent") for path in (root / room).rglob("*") if path.suffix in C)
    files = [path for path in files if path.is_file()]
    uses = []
    for path in files if words else []:
        text, parts = texts(path)
        for begin, part in parts:
            for found in bad.finditer(part):
                number = text.count("\n", 0, begin + found.start()) + 1
                use = " ".join(re.split(r"[\s*\"]+", found[0]))
                uses.append(f"{path.relative_to(root)}:{number}: '{use}': see {GLOSSARY}")
    return len(files) if words else 0, uses


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    files, uses = check(root)
    print("\n".join(uses) if uses else f"phrases: {files} files")
    return 1 if uses or not files else 0


if __name__ == "__main__":
    sys.exit(main())
