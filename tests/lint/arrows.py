#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The dependency rules: which module may include which.

docs/architecture.md has them as a table; this checks them. A module under src/ may include its own
headers and those of the modules listed here; no module includes cli; and the agent, which runs in
another process, includes only its own files and three freestanding headers. The headers that it
shares with the tool are agent/ring.h and the facts about each runtime's tasks, agent/runtime*.h.

Prints each violation as FILE:LINE, or how much was checked; exits 1 if there is any.
"""
import re
import sys
from pathlib import Path

BASE = {"base"}
MODULES = {
    "base": {"arch"},
    "arch": set(),
    "trace": BASE,
    "moment": BASE | {"trace"},
    "binary": BASE,
    "runtime": BASE | {"binary", "trace"},
    "future": BASE | {"arch", "binary", "trace", "runtime", "process"},
    "process": BASE | {"arch", "binary", "trace", "runtime"},
    "capture": BASE | {"arch", "binary", "trace", "runtime", "process"},
    "import": BASE | {"trace", "binary", "runtime"},
    "timeline": BASE | {"trace"},
    "causes": BASE | {"trace", "timeline"},
    "findings": BASE | {"trace", "moment", "timeline"},
    "report": BASE | {"trace", "moment", "timeline", "findings"},
    "export": BASE | {"trace", "timeline"},
    "index": BASE | {"trace", "timeline"},
    "view": BASE | {"trace", "moment", "timeline", "index", "report", "export"},
}
MODULES["cli"] = set(MODULES)
SHARED = re.compile(r"agent/(ring|runtimes|runtime_\w+)\.h")
# These fill the agent's tables, read the ring, and write programs for the agent.
SEES_RING = {"arch", "process", "capture", "runtime", "future"}
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


def check_module(path, module):
    """Sentences about the wrong includes of one file of src/MODULE."""
    for number, system, name in includes(path):
        if system:
            continue
        other = name.split("/")[0]
        if "/" not in name:
            yield number, f'"{name}": a header is named by its module: "{module}/{name}"'
        elif other == "agent":
            if not SHARED.fullmatch(name):
                yield number, f'"{name}": the agent shares agent/ring.h and agent/runtime*.h only'
            elif module not in SEES_RING and module != "cli":
                yield number, f'"{name}": only {", ".join(sorted(SEES_RING))} know the ring'
        elif other not in MODULES:
            yield number, f'"{name}": there is no module {other}'
        elif other != module and other not in MODULES[module]:
            yield number, f'"{name}": {module} may not use {other}'


def check_agent(path, agent):
    for number, system, name in includes(path):
        if system and name not in AGENT_SYSTEM:
            yield number, f"<{name}>: the agent is freestanding"
        if not system and name.startswith("agent/"):
            name = name[len("agent/"):]
        if not system and not (agent / name).is_file():
            yield number, f'"{name}": the agent includes its own files only'


def check(root):
    """(number of files looked at, violations as text)."""
    files = 0
    broken = []
    for path in sorted((root / "src").rglob("*.[chS]")):
        module = path.relative_to(root / "src").parts[0]
        if module not in MODULES:
            broken.append(f"{path.relative_to(root)}:1: src/{module} is no known module")
            continue
        files += 1
        wrong = [*check_module(path, module), *compares(path)]
        broken += [f"{path.relative_to(root)}:{n}: {text}" for n, text in wrong]
    for path in sorted((root / "agent").rglob("*.[chS]")):
        files += 1
        broken += [f"{path.relative_to(root)}:{n}: {text}" for n, text in check_agent(path, root / "agent")]
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
    print(f"arrows: {files} files, every include follows the rules")
    return 0


if __name__ == "__main__":
    sys.exit(main())
