# SPDX-License-Identifier: MIT OR Apache-2.0
"""The check of dependency rules finds each kind of violation."""
import arrows
import pytest


def violations(tmp_path, where, line):
    path = tmp_path / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"/* a file */\n{line}\n")
    for name in ("agent/ring.h", "agent/own.h"):
        other = tmp_path / name
        other.parent.mkdir(parents=True, exist_ok=True)
        if not other.exists():
            other.write_text("")
    return arrows.check(tmp_path)[1]


@pytest.mark.parametrize("where, line", [
    ("src/report/a.c", '#include "timeline/timeline.h"'),
    ("src/report/a.c", "#include <elfutils/libdw.h>"),
    ("src/process/a.c", '#include "agent/ring.h"'),
    ("src/process/a.c", '#include "runtime/runtime.h"'),
    ("src/process/a.c", '#include "agent/runtime_tokio.h"'),
    ("src/cli/a.c", '#include "capture/capture.h"'),
    ("agent/a.c", '#include "ring.h"'),
    ("agent/a.c", '#include "agent/own.h"'),
    ("agent/a.c", "#include <stdint.h>"),
])
def test_allowed(tmp_path, where, line):
    assert violations(tmp_path, where, line) == []


@pytest.mark.parametrize("where, line, text", [
    ("src/timeline/a.c", '#include "report/report.h"', "timeline may not use report"),
    ("src/base/a.c", '# include "trace/event.h"', "base may not use trace"),
    ("src/report/a.h", '#include "cli/cli.h"', "report may not use cli"),
    ("src/export/a.c", '#include "export.h"', "named by its module"),
    ("src/process/a.c", '#include "agent/own.h"', "agent/ring.h and agent/runtime*.h only"),
    ("src/report/a.c", '#include "agent/ring.h"', "know the ring"),
    ("src/trace/a.c", '#include "agent/ring.h"', "know the ring"),
    ("src/timeline/a.c", '#include "agent/ring.h"', "know the ring"),
    ("src/process/a.c", 'if (!strcmp(rt->name, "async-task"))', "ask for its model"),
    ("src/cellar/a.c", "", "is no known module"),
    ("src/trace/a.c", '#include "cellar/a.h"', "there is no module cellar"),
    ("agent/a.c", "#include <string.h>", "freestanding"),
    ("agent/a.c", '#include "base/buf.h"', "its own files only"),
])
def test_broken(tmp_path, where, line, text):
    broken = violations(tmp_path, where, line)
    assert len(broken) == 1 and text in broken[0]


def test_this_tree():
    root = arrows.Path(__file__).resolve().parents[2]
    files, broken = arrows.check(root)
    assert broken == []
    assert files > 20
