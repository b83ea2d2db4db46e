# SPDX-License-Identifier: MIT OR Apache-2.0
"""Calls in polls, and wakes, are what they are called: a call that can't wait is no blocking call, one in
block_in_place keeps no worker, a block_on beside the workers is none, and who yields wakes itself. By the agent and by
the kernel."""
import json

import driver
import pytest
from test_kernel import KERNEL, forbidden


@pytest.fixture(params=["agent", "kernel"])
def backend(request):
    """The options of `record` for it."""
    if request.param == "agent":
        return ()
    why = forbidden()
    if why:
        pytest.skip(why)
    return KERNEL


def families(report):
    """{last word of its name: family}"""
    return {f["name"].split("<")[0].split("::")[-1]: f for f in report["families"]}


def printed(pollux, trace, *options):
    return [json.loads(line) for line in driver.run(pollux, "print", "--json", trace, *options).stdout.splitlines()]


def test_sockets_block_nobody(pollux, suite, trace, backend):
    """All sockets of a Tokio program are non-blocking, and so is what wakes its driver."""
    driver.record_launched(pollux, trace, suite("tokio-1.54"), "net", "--scale", "1000", options=backend)
    names = ("send", "sendto", "recv", "recvfrom", "accept4", "connect", "write")
    calls = [e for e in printed(pollux, trace, "--event", "block")
             if e["call"] in names and e["thread"] != "suite"]  # the main thread writes to our pipe
    assert any(c["call"] in ("send", "sendto") for c in calls)
    assert [c for c in calls if not c.get("nonblocking")] == []
    families_calls = [c for f in driver.report(pollux, trace)["families"] for c in f["blocking_calls"]]
    assert [c for c in families_calls if c["call"] in names] == []
    assert "send" not in driver.run(pollux, "report", trace).stdout.split("Families")[0]


def test_pipes_block(pollux, suite, trace, backend):
    """Mostly the first read waits for the writer; where the writer was quicker, none does: once more."""
    for _ in range(20):
        trace.unlink(missing_ok=True)
        driver.record_launched(pollux, trace, suite("tokio-1.54"), "system_calls", options=backend)
        reads = [e for e in printed(pollux, trace, "--event", "block") if e["call"] == "read" and e["ns"] > 100_000]
        if reads:
            break
    assert reads and not any(e.get("nonblocking") for e in reads)
    calls = families(driver.report(pollux, trace))["reads"]["blocking_calls"]
    (call,) = [c for c in calls if c["call"] == "read"]
    assert call["ns"] >= sum(e["ns"] for e in reads)


def test_block_in_place_blocks_no_worker(pollux, suite, trace, backend):
    driver.record_launched(pollux, trace, suite("tokio-1.54"), "block_in_place", options=backend)
    report = driver.report(pollux, trace)
    found = families(report)["in_place"]
    assert found["blocked_ns"] == 0 and found["blocking_calls"] == []
    assert found["poll_ns"]["sum"] >= found["tasks"] * 1_000_000
    assert not [c for f in report["families"] for c in f["blocking_calls"] if "sleep" in c["call"]]
    assert "sleep" not in driver.run(pollux, "report", trace).stdout.split("Families")[0]


def test_block_on_beside_workers(pollux, suite, trace, backend):
    """The main thread's block_on waits for the workers; it is none."""
    driver.record_launched(pollux, trace, suite("tokio-1.54"), "net", options=backend)
    (main,) = [w for w in driver.report(pollux, trace)["workers"] if w["role"] == "block_on"]
    speedscope = trace.with_suffix(".json")
    driver.run(pollux, "export", trace, "--format", "speedscope", "-o", speedscope)
    names = [p["name"] for p in json.loads(speedscope.read_text())["profiles"]]
    assert any(n.startswith("worker ") for n in names)
    assert not any(n.startswith("worker ") and n.endswith(f" {main['tid']}") for n in names)


@pytest.mark.parametrize("package", ["tokio-1.38", "tokio-1.54"])
def test_who_yields_wakes_itself(pollux, suite, trace, backend, package):
    """Most of these wakes come from the worker: of each at least half, for a thread that loses its CPU
    while it looks for events may as well have waited for them."""
    recorded = driver.record_launched(pollux, trace, suite(package), "yields", options=backend)
    true = {f["name"]: f for f in recorded.truth["families"]}
    found = families(driver.report(pollux, trace))
    for name in ("yielding", "yielding_alone"):
        assert found[name]["wakes"] == true[name]["wakes"] > 0
        assert found[name]["wakes"] >= found[name]["self_wakes"] >= found[name]["wakes"] / 2
    if found["yielding"]["self_wakes"] > found["yielding"]["polls"] * 0.95:
        assert "yielding woke itself in" in driver.run(pollux, "report", trace).stdout


def test_who_waits_does_not(pollux, suite, trace, backend):
    """Timers, sockets and other tasks wake these."""
    for program in ("timers", "net"):
        trace.unlink(missing_ok=True)
        driver.record_launched(pollux, trace, suite("tokio-1.54"), program, options=backend)
        report = driver.report(pollux, trace)
        assert report["wakes"] > 40
        assert report["self_wakes"] <= report["wakes"] / 20, report["families"]


def test_places_from_the_first_poll_on(pollux, suite, trace):
    """A program that runs: what it waits for is known when events begin, or the coverage says from when on."""
    with driver.Target(suite("tokio-1.38", "debug"), "steady") as target:
        target.go()
        for seconds in (0.5, 2, 8, 32):  # a busy machine reads the debug information for longer
            trace.unlink(missing_ok=True)
            result = driver.record_a_while(pollux, target.pid, trace, seconds)
            assert result.returncode == 0, result.stderr
            report = driver.report(pollux, trace)
            if "ended before all debug information was read" not in result.stderr:
                break
    late = [c for c in report["coverage"] if c["item"] == "await points from the first event on"]
    assert report["waits"]
    assert late or report["waits_without_place"] == 0
    pending = [e for e in printed(pollux, trace, "--event", "poll_end") if e["outcome"] == "pending"]
    awaited = {(w["function"], w["line"]): w["awaits"] for w in report["waits"]}
    for e in pending:
        if "line" in e and (e["function"], e["line"]) in awaited:
            assert e["awaits"] == awaited[e["function"], e["line"]]
    assert any(e.get("awaits") for e in pending)
