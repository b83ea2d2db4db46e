# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a report finds: tests/targets/incidents has a program for each trouble. Its finding leads, and names
where the trouble is; the healthy one has none."""
import functools
import json
import os
import re
import subprocess
import time

import build as builder
import driver
import pytest
from conftest import everything

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
    "rwlock": ("read-twice", r"DEADLOCK: task \d+ .* has a guard of an RwLock and waits for RwLock::read of the same lock "
                             r"at src/rwlock.rs:\d+ .*, behind task \d+ .*, which waits to write it at src/rwlock.rs:\d+ "),
    "leak": ("no-progress", r"tasks of .*watch_session wait for .*Notified at src/leak.rs:\d+ "),
    "pool_dead": ("pool-full", r"\d+ had none by the end\); its 8 threads were mostly in .*futex"),
    "spin closed": ("spin", r"dispatcher woke itself in \d+ % of its .* polls"),
    "yield_loop": ("spin", r"reconcile woke itself in \d+ % of its .* polls"),
    "slow_holder": ("lock-convoy", r"waits of .*share_doc for .*mutex.*: .*sync_org let go at the end of "
                                   r"\d+ convoys?; it had held it while it waited at .* .*remote_call"),
    "writer": ("lock-convoy", r"waits of .*apply_update for .*rwlock.*write at src/writer.rs:\d+ .*: .*scan_table let go at the "
                              r"end of .*; it had held it while it waited at src/writer.rs:\d+ .*scan_table"),
    "export": ("lock-convoy", r"waits of .*(lookup|refresh) for .*rwlock.* at src/export.rs:\d+ .*: .*export let go at the end of .*; "
                              r"it had held it while it waited at src/export.rs:\d+ .*export"),
    "retry": ("busy-task", r"agent did nothing but connect, .* at src/retry.rs:\d+ .*dial"),
    "lost_answer": ("no-progress", r"\d+ tasks of .*rpc_call wait for .*oneshot.* at src/lost_answer.rs:\d+ .*, and more all "
                                   r"the time, while others went on there after "),
    "names": ("pool-full", r"its 32 threads were mostly in .*fetch::\{.*clock_nanosleep"),
    "descriptors": ("descriptors", r"\d+ of 60 descriptors are open"),
    "recv": ("open-poll", r"scheduler \(task \d+\) has been in one poll for .* in futex"),
    "biased": ("channel-full", r"6 tasks of .*control wait for room in a channel at src/biased.rs:\d+ .*control, the longest "
                               r"for .*: task \d+ .*actor, which receives from it, .*; it is polled, but takes nothing"),
    "full_channel": ("channel-full", r"waits of .*handle for room in a channel at src/full_channel.rs:\d+ .*handle took up to "
                                     r".*: task \d+ .*audit_writer, which receives from it, "),
    # At the end one task may just have given the lock to the next.
    "slow_owner": ("lock-convoy", r"waits of .*try_update for .*mutex.* at src/slow_owner.rs:\d+ .*(: task \d+ .*slow_owner "
                                  r"has the lock when the recording ends, and waits at src/slow_owner.rs:\d+ |convoys?)"),
    "lag": ("broadcast-lag", r"(all|6\d of) 64 messages of a broadcast channel are new to one of its receivers: task \d+ "
                             r".*slow_subscriber, "),
    "panic": ("panicked", r"1 task panicked: .*flush_metrics, task \d+ at .*, in src/panic.rs:\d+ .*flush_metrics: "
                          r'"attempt to divide by zero"$'),
}
# The same, recorded when the trouble has set in, and nothing happens any more
LATE = {
    "mutex_block_on": ("stuck-poll", r"in a poll of task \d+ .*flusher since before the recording: futex at "
                                     r"src/mutex_block_on.rs:\d+ "),
    "recv": ("stuck-poll", r"in a poll of task \d+ .*scheduler since before the recording: futex at src/recv.rs:\d+ "),
    "pool_dead": ("pool-stuck", r"8 closures run, the first of .* \(futex at src/pool_dead.rs:\d+ .*scan_file\); \d+ "
                                r"wait for a thread"),
    "join_set": ("kept-tasks", r"\d+ tasks of .*serve_rpc have ended, but are kept by join handles"),
    "mailbox": ("unserved-channel", r"messages? (is|are) in the channel that task \d+ .*actor receives from, but all the time it "
                                    r"has waited for oneshot receive at src/mailbox.rs:\d+ .*ask"),
    "parked_guard": ("guard-over-await", r"task \d+ .* holds a lock_api::mutex::MutexGuard<.*> over the await at "
                                         r"src/parked_guard.rs:\d+ .*refresh; 1 thread sleeps until it lets go, .* in futex at "
                                         r"src/parked_guard.rs:\d+ .*get"),
    "endless": ("stuck-poll", r"in a poll of task \d+ .*consume since before the recording: it computes at src/endless.rs:\d+ "),
}
# Their trouble is CPU time: where there is none it may be the machine's.
COMPUTES = {"driver", "coop", "lifo"}
SECONDS = {"lost_answer": 6, "full_channel": 4, "panic": 3, "recv": 3, "rwlock": 4, "driver": 4, "coop": 3.5}


# Without debug information, as most ship: neither places nor what memory says, but names.
WITHOUT_DEBUG_INFO = {
    "blocking": ("long-polls", r"render_page held its thread in .* in clock_nanosleep, called at .*blocking::"),
    "std_mutex": ("long-polls", r"request held its thread in .* in futex, called at .*std_mutex::"),
    "smol_blocking": ("long-polls", r"conn held its thread in .* in clock_nanosleep, called at .*smol_blocking::"),
    "driver": ("long-polls", r"reindex held its thread"),
    "coop": ("long-polls", r"count_events held its thread for 1"),
    "names": ("pool-full", r"its 32 threads were mostly in .*fetch::\{"),
    "yield_loop": ("spin", r"reconcile woke itself in \d+ % of its .* polls"),
    "panic": ("panicked", r'flush_metrics, task \d+ at .*, in .*flush_metrics.*: "attempt to divide by zero"$'),
    "mutex_block_on": ("stuck-poll", r"in a poll of task \d+ .*flusher since before the recording: futex"),
    "join_set": ("kept-tasks", r"\d+ tasks of .*serve_rpc have ended, but are kept by join handles"),
}


@pytest.fixture(scope="module")
def recorded(pollux, suite, tmp_path_factory):
    """recorded(PROGRAM, OPTION...): the report of its first seconds, as JSON and as text."""
    @functools.lru_cache(maxsize=None)
    def known(profile):
        program = suite("incidents", profile, "incidents")
        process = subprocess.Popen([program, "healthy"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            if profile == "release-debug":
                driver.into_cache(pollux, process.pid, tmp_path_factory.mktemp("cache") / "trace.plx")
        finally:
            process.kill()
            process.wait()
        return program

    def record(command, *options, late=0.0, profile="release-debug"):
        name, *args = command.split()
        program = known(profile)
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
    # On a busy machine what hangs soon may hang when the recording begins.
    if program in LATE and found and found[0]["rule"] == LATE[program][0]:
        rule, says = LATE[program]
    if program in COMPUTES and not any(f["rule"] == rule for f in found):
        assert any(f["rule"] == "no-cpu" for f in report["findings"]), report["findings"]
        return
    (first, *_) = found
    assert first["rule"] == rule, [(f["rule"], f["score"], f["text"]) for f in found]
    assert re.search(says, first["text"]), first["text"]
    assert first["score"] >= WARNING and first["advice"]
    assert "What stands out" in text and first["text"][:60] in " ".join(text.split())


def pytest_generate_tests(metafunc):
    if "bare" in metafunc.fixturenames:
        metafunc.parametrize("bare", WITHOUT_DEBUG_INFO if everything(metafunc.config) else ("blocking", "panic"))


def test_without_debug_info(recorded, bare):
    program, (rule, says) = bare, WITHOUT_DEBUG_INFO[bare]
    report, _ = recorded(program, late=3.2 if program in LATE else 0, profile="release")
    found = of_the_program(report)
    if program in COMPUTES and not any(f["rule"] == rule for f in found):
        assert any(f["rule"] == "no-cpu" for f in report["findings"]), report["findings"]
        return
    (first, *_) = found
    assert first["rule"] == rule and re.search(says, first["text"]), [(f["rule"], f["text"]) for f in found]


@pytest.mark.parametrize("program", LATE)
def test_late(recorded, program):
    """What hangs already has no event: its memory says where it hangs."""
    rule, says = LATE[program]
    report, text = recorded(program, late=3.2)
    (first, *_) = of_the_program(report)
    assert first["rule"] == rule, [(f["rule"], f["score"], f["text"]) for f in report["findings"]]
    assert re.search(says, first["text"]), first["text"]
    assert first["score"] >= WARNING and first["text"][:60] in " ".join(text.split())


def test_lanes(recorded):
    """A finding says when, on which threads, in which tasks: those of the long poll that it is about."""
    report, _ = recorded("blocking")
    (found, *_) = [f for f in report["findings"] if f["rule"] == "long-polls"]
    assert found["from_ns"] == found["time_ns"] and found["to_ns"] - found["from_ns"] > 100e6
    assert report["processes"][found["process"]]["pid"]
    (task,), (thread,) = found["tasks"], found["threads"]
    assert task["number"] in {p["task"] for p in report["longest_polls"]}
    assert thread in {w["tid"] for w in report["workers"]}
    for f in report["findings"]:
        assert 0 <= f["from_ns"] <= f["to_ns"] and len(f["threads"]) <= 8 and len(f["tasks"]) <= 8


def test_cancelled(recorded):
    """Some programs cancel all tasks of a family on purpose: it is no warning."""
    report, _ = recorded("impatient")
    (cancelled,) = [f for f in of_the_program(report) if f["rule"] == "cancelled"]
    n, others = re.search(r"^([\d,]+) tasks of .*query were cancelled before they had ended, .*; (\S+) ended by itself$",
                          cancelled["text"]).groups()
    (family,) = [f for f in report["families"] if f["name"].endswith("query")]
    assert int(n.replace(",", "")) == family["cancelled"] >= 20
    assert (0 if others == "none" else int(others)) == family["completed"]
    assert cancelled["score"] < WARNING


def test_dropped(recorded):
    """By the program's own count two of three are dropped."""
    report, _ = recorded("cancel_box", "--futures")
    (dropped,) = [f for f in report["findings"] if f["rule"] == "dropped"]
    n, of = map(int, re.search(r"take_and_enrich was dropped unfinished (\d+) of (\d+) times", dropped["text"]).groups())
    assert of >= 20 and n * 2 > of


def test_healthy(recorded):
    report, _ = recorded("healthy")
    assert [f for f in of_the_program(report) if f["score"] >= WARNING] == []


def test_shop_without_troubles(pollux, tmp_path):
    """The demo's server, as it would be without them, under the load of its customers."""
    shop, customers = (builder.build("demo", "release", name, root=builder.ROOT) for name in ("shop", "customers"))
    server = subprocess.Popen([shop, "--well"], stdout=subprocess.PIPE, text=True)
    try:
        load = subprocess.Popen([customers, server.stdout.readline().split()[-1], "24", "9"], stdout=subprocess.DEVNULL)
        try:
            done = driver.record_a_while(pollux, server.pid, tmp_path / "shop.plx", "3")
            assert done.returncode == 0, done.stderr
        finally:
            load.kill()
            load.wait()
        assert server.poll() is None, "the program should live on"
    finally:
        server.kill()
        server.wait()
    report = driver.report(pollux, tmp_path / "shop.plx")
    served = [f for f in report["families"] if f["name"] == "shop::serve_connection"]
    assert served and served[0]["polls"] > 500
    # Where the machine has no CPU for it, that is what it waits for: at locks and in queues, too.
    if not any(f["rule"] == "no-cpu" and f["score"] >= WARNING for f in report["findings"]):
        assert [f for f in of_the_program(report) if f["score"] >= WARNING] == []


@pytest.fixture
def running(suite):
    """running(PROGRAM): its process, when its trouble has set in."""
    processes = []

    def start(name):
        program = suite("incidents", "release-debug", "incidents")
        processes.append(subprocess.Popen([program, name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        time.sleep(3.5)
        return processes[-1]
    yield start
    for process in processes:
        process.kill()
        process.wait()


def why(pollux, *words, **env):
    done = driver.run(pollux, "why", *words, env={**os.environ, **env})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", ["recv", "pool_dead"])
def test_why_it_hangs(running, pollux, tmp_path, program):
    """What hangs is recorded for one second, whatever -d says; the kept recording says the same."""
    rule, says = LATE[program]
    process, kept = running(program), tmp_path / "kept.plx"
    done = driver.run(pollux, "why", process.pid, "-d", "20", "--json", "-o", kept)
    assert done.returncode == 0 and f"the recording is in {kept}" in done.stderr
    told = json.loads(done.stdout)
    (first, *_) = of_the_program(told)
    assert first["rule"] == rule and re.search(says, first["text"]), told["findings"]
    assert told["duration_ns"] < 20e9 and told["rules"]
    assert process.poll() is None, "the program should live on"
    report = driver.report(pollux, kept)
    assert (told["findings"], told["rules"]) == (report["findings"], report["rules"])
    text = why(pollux, kept)
    assert first["text"][:60] in " ".join(text.split()) and first["advice"][:40] in " ".join(text.split())
    assert "Families" not in text and text.count("\n  to see ") <= 1


def test_why_takes_no_longer(running, pollux, tmp_path):
    """And leaves no file of its own."""
    process, began = running("recv"), time.monotonic()
    text = why(pollux, process.pid, "-d", "20", TMPDIR=str(tmp_path))
    assert time.monotonic() - began < 20
    assert re.search(LATE["recv"][1], " ".join(text.split())), text
    assert process.poll() is None and not list(tmp_path.iterdir())


def test_why_it_is_healthy(running, pollux, tmp_path):
    """Nothing stands out, but for what the machine does to it; it is recorded for all of -d."""
    kept = tmp_path / "kept.plx"
    text = why(pollux, running("healthy").pid, "-d", "3", "-o", kept)
    told = json.loads(why(pollux, "--json", kept))
    assert [f for f in of_the_program(told) if f["score"] >= WARNING] == []
    assert told["duration_ns"] > 2e9
    nothing = not any(f["score"] >= 15 for f in told["findings"])
    assert ("Nothing stands out" if nothing else "What stands out") in text


def test_why_with_few_descriptors(running, pollux):
    """Whatever pollux can't open then: a process that lives is never said to be gone."""
    pid, said = running("healthy").pid, []
    for limit in range(5, 24):
        done = driver.run("sh", "-c", f'ulimit -n {limit} && exec "$0" why {pid} -d 0.1', pollux)
        assert "there is no process" not in done.stderr and done.returncode in (0, 1, 127), (limit, done.stderr)
        said.append(done.stderr)
    assert any("raise the limit of pollux' open files" in one for one in said), said


def test_every_rule_is_listed(recorded, pollux):
    """--all-findings says of each rule what became of it, and docs/findings.md has a row for each."""
    report, _ = recorded("healthy")
    rules = [r["rule"] for r in report["rules"]]
    assert len(rules) == len(set(rules)) and all(r["verdict"] != "not applicable" or r["reason"] for r in report["rules"])
    page = open(os.path.join(os.path.dirname(__file__), "../../docs/findings.md")).read()
    assert re.findall(r"^\| `([\w-]+)` \|", page, re.M) == rules, "in the order of the table"
