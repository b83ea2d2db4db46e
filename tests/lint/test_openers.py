# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files are opened by src/base/file.c: a path that somebody else has a hand in needs all of what it does.

The files named here open nothing but what the kernel itself provides (below /proc and /sys), or folders of
which they check the owner."""
import re
from pathlib import Path

SRC = Path(__file__).resolve().parents[2] / "src"
OPENER = re.compile(
    r"\b(?:SYS_openat2?\b|(?:open|openat|openat2|creat|fopen|freopen|mkstemp|mkostemp|tmpfile|unlink|unlinkat|rename"
    r"|renameat|link|linkat|truncate|elf_begin)\()"
)
KNOWN = {
    "base/file.c": "the opener",
    "base/cache.c": "the cache's folder, if it is ours alone",
    "binary/dwarf/debug_file.c": "libelf, by a descriptor",
    "binary/elf/elf_image.c": "libelf, by a descriptor",
    "capture/cpu_use.c": "/proc",
    "capture/kernel/core.c": "/proc/self and /sys",
    "capture/samples/samples.c": "/proc",
    "capture/sched/sched.c": "/proc",
    "cli/doctor.c": "/proc and /sys",
    "cli/input.c": "/proc",
    "cli/main.c": "/dev/null",
    "cli/recording.c": "/proc",
    "future/moment.c": "/proc",
    "future/sockets.c": "/proc",
    "import/parts.c": "the folder that is open already",
    "process/filters.c": "/proc",
    "process/objects.c": "/proc/PID/root, by O_PATH",
    "process/pages.c": "/proc",
    "process/process.c": "/proc",
    "process/rights.c": "/proc",
    "process/ring_memory.c": "/proc: shared memory, by its seals",
    "process/find_processes.c": "/proc",
    "process/seccomp.c": "/proc",
    "process/threads.c": "/proc",
}


def openers():
    """{file: the lines in which it opens or removes something}."""
    found = {}
    for path in sorted(SRC.rglob("*.[ch]")):
        text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), path.read_text(), flags=re.S)
        text = re.sub(r'"(\\.|[^"\\\n])*"', '""', text)
        for number, line in enumerate(text.splitlines(), 1):
            for match in OPENER.finditer(line):
                # ops->open(), and a function of that name
                if line[: match.start()].endswith(("->", ".")):
                    continue
                found.setdefault(str(path.relative_to(SRC)), []).append(f"{number}: {line.strip()}")
    return found


def test_one_opener():
    found = openers()
    strangers = {name: lines for name, lines in found.items() if name not in KNOWN}
    assert not strangers, f"use file_open() or file_output_open() of base/file.h: {strangers}"
    assert "base/file.c" in found, "the search finds nothing"
