#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs every program in every build, launched and attached, and writes the tables of docs/matrix.md.

    matrix.py [--slice] [--page FILE] [ROW...]    a row is PACKAGE/PROFILE, or the name of a host

Without ROW all rows are measured (pgo only with an llvm-profdata of rustc's LLVM: LLVM_PROFDATA); --slice:
only the builds that CI runs. Each row is written when it is
measured; the others stay, with the commit of the pollux that they were measured with.

A number smaller than its whole is a defect: what differed is listed below the tables. A case that differed
is run once more, for a busy machine; if it is exact then, it is listed as such.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import catalogue
import driver
from build import PROFILES, ROOT, BuildError, build, llvm_profdata

PAGE = ROOT / "docs" / "matrix.md"
BEGIN, END = "<!-- matrix: begin -->", "<!-- matrix: end -->"
WIDTH = 120

# Processes with several runtimes or unwinders: what is in them, and the tests that check each number.
HOSTS = {
    "five-libraries": ("five libraries that each have a Tokio", "test_record.py::test_five_libraries"),
    "library": ("a C and a Python program that load a library with a Tokio", "test_record.py -k library_attached"),
    "own-libunwind-beside-libgcc": (
        "a library with its own libunwind, and libgcc_s, in each order", "test_unwinders.py -k libunwind"),
    "two-libgcc": (
        "libgcc_s and a library with its own copy of it, in each order", "test_unwinders.py -k second-libgcc"),
    "unwinder-later": ("an unwinder that is loaded later", "test_unwinders.py -k later"),
}


class Page:
    """What the page's tables say. Rows: {(package, profile): [launched, attached, commit]}; hosts:
    {name: [tests passed, commit]}; notes: {(package, profile): [sentence]}."""

    def __init__(self, path):
        self.path = path
        self.text = path.read_text()
        tables = self.text.split(BEGIN)[1].split(END)[0]
        cells = [[cell.strip() for cell in line.strip("| ").split("|")]
                 for line in tables.splitlines() if line.startswith("| ")]
        self.rows = {(c[0], c[1]): c[2:] for c in cells if len(c) == 5 and c[1] in PROFILES}
        what = {host: name for name, (host, _) in HOSTS.items()}
        self.hosts = {what[c[0]]: c[1:] for c in cells if len(c) == 3 and c[0] in what}
        self.notes = {}
        for note in re.findall(r"^- (.+(?:\n  .+)*)", tables.split("## Not exact")[-1], re.M):
            words = note.split()
            if len(words) > 2 and words[1] in PROFILES:
                self.notes.setdefault((words[0], words[1]), []).append(" ".join(words[2:]))

    def write(self):
        out = ["", "| runtime | build | launched | attached | pollux |", "|---|---|---|---|---|"]
        out += [f"| {' | '.join([*key, *self.rows[key]])} |" for key in sorted(self.rows)]
        out += ["", "Processes with several runtimes or unwinders:", "", "| process | tests passed | pollux |",
                "|---|---|---|"]
        out += [f"| {' | '.join([HOSTS[name][0], *self.hosts[name]])} |" for name in HOSTS if name in self.hosts]
        out += ["", "The builds:", ""]
        profiles = {profile for _, profile in self.rows}
        out += [f"- `{name}`: {how.what}" for name, how in PROFILES.items() if name in profiles]
        out += ["", "The programs:", ""]
        for package in ("tokio-1.54", "async-std-1.13", "smol-2.0"):
            names = [name for name, _ in catalogue.programs(package) if name not in catalogue.APART]
            out += item(f"{catalogue.runtime_of(package)}: {', '.join(names)}")
        out += ["", "## Not exact", ""]
        notes = [f"{' '.join(key)} {note}" for key in sorted(self.notes) for note in self.notes[key]]
        out += [line for note in notes for line in item(note)] or ["Nothing."]
        head, rest = self.text.split(BEGIN)[0], self.text.split(END)[1]
        self.path.write_text(head + BEGIN + "\n".join(out) + "\n\n" + END + rest)


def item(text):
    return textwrap.wrap(text, WIDTH, initial_indent="- ", subsequent_indent="  ",
                         break_long_words=False, break_on_hyphens=False)


def commit(pollux):
    return re.search(r"\((\w+)", driver.run(pollux, "--version").stdout)[1]


def check(pollux, case, folder):
    try:
        return catalogue.check(pollux, case, folder)
    except AssertionError as error:
        return [str(error)]


def measure(pollux, key, folder, page):
    """A row of the first table."""
    exact, notes = {mode: [] for mode in catalogue.MODES}, []
    for case in catalogue.cases_of([key]):
        print(f"\r{'-'.join(case):70}", end="", file=sys.stderr)
        wrong = check(pollux, case, folder)
        again = wrong and check(pollux, case, folder)
        exact[case[3]].append(not again)
        if wrong:
            said = "exact only the second time: " if not again else ""
            notes.append(f"{' '.join(case[2:])}: {said}{'; '.join(again or wrong)}"[:400])
            print(f"\n    {notes[-1]}", file=sys.stderr)
    page.rows[key] = [f"{sum(exact[mode])} of {len(exact[mode])}" for mode in catalogue.MODES]
    page.rows[key].append(commit(pollux))
    page.notes[key] = notes


def measure_host(pollux, name, page):
    tests = HOSTS[name][1].split()
    command = [sys.executable, "-m", "pytest", "-p", "kept", "-p", "no:cacheprovider", "-q",
               f"{ROOT}/tests/e2e/{tests[0]}", *tests[1:]]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "POLLUX": str(pollux)}
    last = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()[-1]
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error|skipped)", last)}
    page.hosts[name] = [f"{counts.get('passed', 0)} of {sum(counts.values())}", commit(pollux)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slice", action="store_true")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    args = parser.parse_args()
    pollux = driver.pollux_path()
    page = Page(args.page)
    rows = args.rows or ["/".join(key) for key in catalogue.builds(not args.slice)] + list(HOSTS)
    if llvm_profdata() and not args.rows and not args.slice:
        rows.append("tokio-1.54/pgo")
    with tempfile.TemporaryDirectory() as folder:
        for row in dict.fromkeys(rows):
            key = tuple(row.split("/"))
            if row in HOSTS:
                measure_host(pollux, row, page)
            elif len(key) != 2 or key[1] not in PROFILES:
                sys.exit(f"{row} is no row: PACKAGE/PROFILE, or one of {', '.join(HOSTS)}")
            else:
                try:
                    build(*key)
                except BuildError as error:
                    page.notes[key] = [f"was not built: {str(error).splitlines()[-1]}"]
                else:
                    measure(pollux, key, Path(folder), page)
            page.write()
            print(f"\r{row}: {page.hosts.get(row) or page.rows.get(key)}", file=sys.stderr)
    short = [row for row in [*page.rows.values(), *page.hosts.values()]
             for cell in row[:-1] if len(set(cell.split(" of "))) > 1]
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
