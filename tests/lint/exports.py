#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Public functions without a caller: what a header of src/ declares is called in another file of src/, or by the header.

What only its own file calls is static. What only tests call is no part of the program, but for FOR_TESTS. A function
that its own file calls may stay public for a test. Prints each other one as FILE:LINE, or how many were checked; exits
1 if there is any.
"""
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

# What a test can't see otherwise.
FOR_TESTS = {
    "debug_missing",  # which of the files that a program's debug information names were not found
    "eh_table_functions", "eh_table_function",  # which functions have unwind rules, and how many of those were compiled
}
IGNORED = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
WORD = re.compile(r"[A-Za-z_]\w*")
# At the start of a line a type, the name and "(": a declaration, or a definition.
FUNCTION = re.compile(r"^(?!static\b|typedef\b|return\b)[A-Za-z_][\w \t*]*[ \t*](\w+)\(", re.M)


def code(path):
    """The source without comments and texts, as many lines as before."""
    return IGNORED.sub(lambda m: "\n" * m[0].count("\n") or " ", path.read_text(errors="replace"))


def sources(folder):
    return {path: code(path) for path in sorted(folder.rglob("*")) if path.suffix in (".c", ".h", ".S")}


def check(root):
    """(number of functions declared, those without a caller as text)."""
    texts = sources(root / "src")
    in_tests = set(WORD.findall(" ".join(sources(root / "tests").values())))
    files = defaultdict(dict)  # word -> {file: how often}
    for path, text in texts.items():
        for word, n in Counter(WORD.findall(text)).items():
            files[word][path] = n
    n_functions = 0
    unused = []
    for path, text in texts.items():
        for declared in FUNCTION.finditer(text) if path.suffix == ".h" else ():
            name = declared[1]
            n_functions += 1
            uses = {file: n for file, n in files[name].items() if file.suffix != ".h"}
            here = [file for file in uses if name in FUNCTION.findall(texts[file])]
            own = sum(uses[file] for file in here) > len(here)
            in_headers = sum(n for file, n in files[name].items() if file.suffix == ".h") - 1
            if not (len(uses) > len(here) or in_headers or own and name in in_tests or name in FOR_TESTS):
                line = text.count("\n", 0, declared.start(1)) + 1
                why = "is called in its own file only: make it static" if own else \
                      "is called by tests only" if name in in_tests else "is called nowhere"
                unused.append(f"{path.relative_to(root)}:{line}: {name}() {why}")
    return n_functions, unused


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    n_functions, unused = check(root)
    for line in unused:
        print(line)
    if not n_functions:
        print(f"no functions under {root}")
    if unused or not n_functions:
        return 1
    print(f"exports: {n_functions} public functions, each has a caller")
    return 0


if __name__ == "__main__":
    sys.exit(main())
