#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The house's arrows: who may include whom.

docs/architecture.md draws them; this holds them. A room under src/ may include its own headers and
those of the rooms listed here, nobody includes cli, and the agent, which lives in somebody else's
process, knows nothing but its own files and three freestanding headers. The headers that it shares
with the tool are agent/ring.h and what is known of each runtime's tasks, agent/runtime*.h.

Prints each broken edge as FILE:LINE, or how much was checked; exits 1 if any edge is broken.
"""
import re
import sys
from pathlib import Path

BASE = {"base"}
ROOMS = {
    "base": set(),
    "trace": BASE,
    "binary": BASE,
    "runtime": BASE | {"binary", "trace"},
    "future": BASE | {"binary", "trace", "runtime", "process"},
    "process": BASE | {"binary", "trace", "runtime"},
    "capture": BASE | {"binary", "trace", "runtime", "process"},
    "import": BASE | {"trace", "binary", "runtime"},
    "timeline": BASE | {"trace"},
    "report": BASE | {"trace", "timeline"},
    "export": BASE | {"trace", "timeline"},
}
ROOMS["cli"] = set(ROOMS)
SHARED = re.compile(r"agent/(ring|runtimes|runtime_\w+)\.h")
# Who fills the agent's tables, who reads the ring, and who writes programs for the agent.
SEES_RING = {"process", "capture", "runtime", "future"}
AGENT_SYSTEM = {"stdbool.h", "stddef.h", "stdint.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# What differs between runtimes is in their model (src/runtime/runtime.h), not in a name.
COMPARES = re.compile(r'\bstr\w*cmp\([^;"]*"(tokio|async-task|async-std|smol)"')


def compares(path):
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if COMPARES.search(line):
            yield number, "a runtime's name is compared: ask for its model"


def includes(path):
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        found = INCLUDE.match(line)
        if found:
            yield number, found[1] == "<", found[2]


def check_room(path, room):
    """Sentences about the wrong includes of one file of src/ROOM."""
    for number, system, name in includes(path):
        if system:
            continue
        other = name.split("/")[0]
        if "/" not in name:
            yield number, f'"{name}": a header is named by its room: "{room}/{name}"'
        elif other == "agent":
            if not SHARED.fullmatch(name):
                yield number, f'"{name}": the agent shares agent/ring.h and agent/runtime*.h only'
            elif room not in SEES_RING and room != "cli":
                yield number, f'"{name}": only {", ".join(sorted(SEES_RING))} know the ring'
        elif other not in ROOMS:
            yield number, f'"{name}": there is no room {other}'
        elif other != room and other not in ROOMS[room]:
            yield number, f'"{name}": no arrow from {room} to {other}'


def check_agent(path):
    for number, system, name in includes(path):
        if system and name not in AGENT_SYSTEM:
            yield number, f"<{name}>: the agent is freestanding"
        if not system and name.startswith("agent/"):
            name = name[len("agent/"):]
        if not system and not (path.parent / name).is_file():
            yield number, f'"{name}": the agent includes its own files only'


def check(root):
    """(number of files looked at, broken edges as text)."""
    files = 0
    broken = []
    for path in sorted((root / "src").rglob("*.[chS]")):
        room = path.relative_to(root / "src").parts[0]
        if room not in ROOMS:
            broken.append(f"{path.relative_to(root)}:1: src/{room} is no room of the house")
            continue
        files += 1
        wrong = [*check_room(path, room), *compares(path)]
        broken += [f"{path.relative_to(root)}:{n}: {text}" for n, text in wrong]
    for path in sorted((root / "agent").rglob("*.[chS]")):
        files += 1
        broken += [f"{path.relative_to(root)}:{n}: {text}" for n, text in check_agent(path)]
    return files, broken


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    files, broken = check(root)
    for line in broken:
        print(line)
    if not files:
        print(f"no sources under {root}")
    if broken or not files:
        return 1
    print(f"arrows: {files} files, every include goes the right way")
    return 0


if __name__ == "__main__":
    sys.exit(main())
