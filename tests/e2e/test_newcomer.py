# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a new user asks of a service: which handler blocks, where requests wait, a picture that shows it.
One record, one report, one export, without options; and each command that the report prints works."""
import json
import os
import re
import subprocess
import unicodedata

import driver
import pytest
from build import TARGETS, build

SOURCES = TARGETS / "src" / "service"


def line_of(source, text):
    lines = (SOURCES / f"{source}.rs").read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def section(report, title):
    """The lines below a title."""
    return report.partition(f"\n{title}\n")[2].partition("\n\n")[0].splitlines()


def hints(report):
    """The commands that a report prints at its end."""
    return re.findall(r"(?m)pollux (.*)$", "\n".join(section(report, "What to do next")))


@pytest.fixture
def shell(pollux, tmp_path):
    """Runs a command as somebody would type it in a folder of their own."""
    env = {**os.environ, "PATH": f"{pollux.parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "COLUMNS": "120"}

    def run(command, **more):
        done = subprocess.run(command, shell=True, cwd=tmp_path, env={**env, **more}, capture_output=True,
                              text=True, check=False, timeout=driver.TIMEOUT)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    return run


def text_of(report):
    """Without the ends of lines."""
    return " ".join(report.split())


def width(text):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def test_answers(pollux, tmp_path, shell):
    with driver.Target(build("service-axum", "release-debug", "service")) as target:
        recorder = driver.Recorder(pollux, target.pid, tmp_path / "shop.plx")
        recorder.until_compiled()
        target.go()
        requests = {route["name"]: route["requests"] for route in target.truth()["routes"]}
        recorder.stop()
        report = shell("pollux report")

        # Which handler blocks: in the first screen, with its requests.
        screen = " ".join(" ".join(report.splitlines()[:25]).split())
        assert re.search(r"What stands out .*axum connection › blocks\b.*clock_nanosleep", screen), report
        row = next(line for line in section(report, "Requests by handler") if "service::blocks" in line)
        assert int(row.split()[1]) == requests["blocks"] and "blocked in clock_nanosleep" in row, row

        # At which line, without another recording.
        line = line_of("work", "std::thread::sleep(")
        assert re.search(rf"work\.rs:{line} service::work::block, a poll of axum connection › blocks: blocked", text_of(report)), report

        # Where requests wait: the line of the program's own code, and for what.
        waits = "\n".join(section(report, "Where tasks wait"))
        for place, function, handler, what in (
                (f"axum.rs:{line_of('axum', 'orders.send(1)')} ", "order", "order", "send"),
                (f"work.rs:{line_of('work', 'stock.lock()')} ", "take_item", "item", "lock"),
                (f"work.rs:{line_of('work', 'tokio::time::sleep(')} ", "pause", "pool", "Sleep")):
            assert re.search(rf"/{place}service::.*{function} .*{what}.* › {handler} ", waits), (place, waits)

        # A picture, and where tasks wait now, by the commands that it ends with.
        commands = hints(report)
        assert 1 <= len(commands) <= 3
        assert not any("--long-poll" in one for one in commands)
        assert f"tree {target.pid}" in commands
        assert "export shop.plx -o shop.json" in commands
        for command in commands:
            shell(f"pollux {command}")
        events = json.loads((tmp_path / "shop.json").read_text())
        assert "order" in json.dumps(events)

        for columns in range(60, 201, 20):
            for command in ("report shop.plx", f"tree {target.pid}", f"doctor {target.pid}", "hist shop.plx"):
                text = shell(f"pollux {command}", COLUMNS=str(columns))
                assert text and all(width(line) <= columns for line in text.splitlines()), (command, text)
        target.go()
        assert target.end() == 0

    # The process has gone: nothing is said that needs it.
    assert hints(shell("pollux report shop.plx")) == ["export shop.plx -o shop.json", "why shop.plx", "view shop.plx"]
