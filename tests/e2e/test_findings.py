# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a report finds: tests/targets/incidents has a program for each trouble. Its finding leads, and names
where the trouble is; the healthy one has none."""
import os
import re
import subprocess
import time

import driver
import pytest

WARNING = 50
# On a machine without a free CPU these are true, too, and others are left out for them.
OF_THE_MACHINE = {"no-cpu", "events-lost"}

# program: the rule, what its sentence says
TROUBLES = {
    "blocking": ("long-polls", r"render_page held its thread in \d+ polls of .* in clock_nanosleep"),
    "std_mutex": ("long-polls", r"request held its thread in \d+ polls of .* in futex"),
    "smol_blocking": ("long-polls", r"conn held its thread in \d+ polls of .* in clock_nanosleep"),
    "driver": ("long-polls", r"reindex held its thread"),
    "coop": ("long-polls", r"count_events held its thread for 1"),
    "lifo": ("long-polls", r"decoder held its thread in \d+ polls of 1"),
    "futurelock": ("deadlock", r"DEADLOCK: task \d+ .*saga waits for Mutex::lock at src/futurelock.rs:\d+ "),
    "rwlock": ("no-progress", r"tasks of .*get wait for .*rwlock.* at src/rwlock.rs:\d+ "),
    "leak": ("no-progress", r"tasks of .*watch_session wait for .*Notified at src/leak.rs:\d+ "),
    "pool_dead": ("pool-full", r"21 had none by the end\); its 8 threads were mostly in .*futex"),
    "spin closed": ("spin", r"dispatcher woke itself in \d+ % of its .* polls"),
    "yield_loop": ("spin", r"reconcile woke itself in \d+ % of its .* polls"),
    "slow_holder": ("lock-convoy", r"waits of .*share_doc for .*mutex.*: .*sync_org let go at the end of "
                                   r"\d+ convoys?; it had held it while it waited at .* .*remote_call"),
    "recv": ("open-poll", r"scheduler \(task \d+\) has been in one poll for .* in futex"),
    "panic": ("panicked", r"1 task panicked: .*flush_metrics, task \d+ at "),
}
# The same, recorded when the trouble has set in, and nothing happens any more
LATE = {
    "mutex_block_on": ("stuck-poll", r"in a poll of task \d+ .*flusher since before the recording: futex at "
                                     r"src/mutex_block_on.rs:\d+ "),
    "recv": ("stuck-poll", r"in a poll of task \d+ .*scheduler since before the recording: futex at src/recv.rs:\d+ "),
    "pool_dead": ("pool-stuck", r"8 closures run, the first of .* \(futex at src/pool_dead.rs:\d+ .*scan_file\); 21 "
                                r"wait for a thread"),
    "join_set": ("kept-tasks", r"\d+ tasks of .*serve_rpc have ended, but are kept by join handles"),
}
# Their trouble is CPU time: where there is none it may be the machine's.
COMPUTES = {"driver", "coop", "lifo"}
SECONDS = {"panic": 3, "recv": 3, "rwlock": 4, "driver": 4, "coop": 3.5}


@pytest.fixture(scope="module")
def recorded(pollux, suite, tmp_path_factory):
    """recorded(PROGRAM, OPTION...): the report of its first seconds, as JSON and as text."""
    def record(command, *options, late=0.0):
        name, *args = command.split()
        program = suite("incidents", "release-debug", "incidents")
        trace = tmp_path_factory.mktemp("findings") / f"{name}.plx"
        process = subprocess.Popen([program, name, *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(0.3 + late)
            driver.run(pollux, "record", "-p", str(process.pid), "-d", str(SECONDS.get(name, 2.5)), "-o", trace,
                       *options)
            assert process.poll() is None, "the program should live on"
        finally:
            process.kill()
            process.wait()
        return driver.report(pollux, trace), driver.run(pollux, "report", trace).stdout
    return record


def of_the_program(report):
    return [f for f in report["findings"] if f["rule"] not in OF_THE_MACHINE]


@pytest.mark.parametrize("program", TROUBLES)
def test_trouble(recorded, program):
    rule, says = TROUBLES[program]
    report, text = recorded(program)
    found = of_the_program(report)
    if program in COMPUTES and not any(f["rule"] == rule for f in found):
        assert any(f["rule"] == "no-cpu" for f in report["findings"]), report["findings"]
        return
    (first, *_) = found
    assert first["rule"] == rule, [(f["rule"], f["score"], f["text"]) for f in found]
    assert re.search(says, first["text"]), first["text"]
    assert first["score"] >= WARNING and first["advice"]
    assert "What stands out" in text and first["text"][:60] in " ".join(text.split())


@pytest.mark.parametrize("program", LATE)
def test_late(recorded, program):
    """What hangs already has no event: its memory says where it hangs."""
    rule, says = LATE[program]
    report, text = recorded(program, late=3.2)
    (first, *_) = of_the_program(report)
    assert first["rule"] == rule, [(f["rule"], f["score"], f["text"]) for f in report["findings"]]
    assert re.search(says, first["text"]), first["text"]
    assert first["score"] >= WARNING and first["text"][:60] in " ".join(text.split())


def test_dropped(recorded):
    """By the program's own count two of three are dropped."""
    report, _ = recorded("cancel_box", "--futures")
    (dropped,) = [f for f in report["findings"] if f["rule"] == "dropped"]
    n, of = map(int, re.search(r"take_and_enrich was dropped unfinished (\d+) of (\d+) times", dropped["text"]).groups())
    assert of >= 20 and n * 2 > of


def test_healthy(recorded):
    report, _ = recorded("healthy")
    assert [f for f in of_the_program(report) if f["score"] >= WARNING] == []


def test_every_rule_is_told(recorded, pollux):
    """--all-findings says of each rule what became of it, and docs/findings.md has a row for each."""
    report, _ = recorded("healthy")
    rules = [r["rule"] for r in report["rules"]]
    assert len(rules) == len(set(rules)) and all(r["verdict"] != "not applicable" or r["reason"] for r in report["rules"])
    page = open(os.path.join(os.path.dirname(__file__), "../../docs/findings.md")).read()
    assert re.findall(r"^\| `([\w-]+)` \|", page, re.M) == rules, "in the order of the table"
