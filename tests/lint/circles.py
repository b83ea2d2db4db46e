#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files that call each other in a circle: those of docs/architecture.md, which says why, and no others.

Reads the symbols of the object files of a build (without LTO). Prints each circle that the table does not have, and
each of the table that is gone; exits 1 if there is any.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/architecture.md"


def symbols(objects):
    """({symbol: object that defines it}, {object: symbols that it uses})."""
    defined, used = {}, {path: set() for path in objects}
    text = subprocess.run(["nm", "-A", *objects], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        path, _, rest = line.partition(":")
        kind, name = rest.split()[-2:]
        if kind == "U":
            used[path].add(name)
        elif kind in "TDBRVW":
            defined[name] = path
    return defined, used


def circles(calls):
    """The sets of nodes that reach each other."""
    def reached(start):
        seen, todo = set(), [start]
        while todo:
            for node in calls[todo.pop()] - seen:
                seen.add(node)
                todo.append(node)
        return seen

    reach = {node: reached(node) for node in calls}
    return {frozenset(other for other in reach[node] if node in reach[other]) for node in calls if node in reach[node]}


def source(path):
    """src/capture/libpollux_capture.a.p/agent_drain.c.o: ("capture", "agent_drain.c")."""
    module, name = re.search(r"src/(\w+)/[^/]*\.p/(.*)\.o$", path).groups()
    return module, name


def built(folder):
    """({(module, frozenset of files)} of a build, all its files)."""
    objects = [str(path) for path in sorted(folder.glob("src/*/*.a.p/*.c.o")) if not path.name.startswith("meson-")]
    defined, used = symbols(objects)
    calls = {path: {defined[name] for name in names if name in defined} - {path} for path, names in used.items()}
    found = {frozenset(source(path) for path in circle) for circle in circles(calls)}
    files = {source(path) for path in objects}
    return {("/".join(sorted({module for module, _ in circle})), frozenset(name for _, name in circle))
            for circle in found}, files


def described(files):
    """The same of the page's table."""
    rows = re.findall(r"^\| `(\w+)(/\w+)?`: (.*?) \|", PAGE.read_text(), re.M)
    result = set()
    for module, folder, text in rows:
        folder = folder and folder[1:] + "/"
        names = {(folder + name).replace("/", "_") for name in re.findall(r"`([\w/]+\.c)`", text)}
        if text.startswith("all but"):
            names = {name for at, name in files if at == module} - names
        result.add((module, frozenset(names)))
    return result


def check(folder):
    """Sentences on what differs, and how many circles there are."""
    found, files = built(folder)
    said = described(files)
    return [f"{module}: {', '.join(sorted(names))}: a circle that {PAGE.name} does not explain"
            for module, names in sorted(found - said, key=str)] + \
        [f"{module}: {', '.join(sorted(names))}: no circle any more, as {PAGE.name} says"
         for module, names in sorted(said - found, key=str)], len(found)


def main():
    wrong, n = check(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build")
    print("\n".join(wrong) if wrong else f"circles: {n}, each with its reason")
    return 1 if wrong or not n else 0


if __name__ == "__main__":
    sys.exit(main())
