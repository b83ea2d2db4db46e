# SPDX-License-Identifier: MIT OR Apache-2.0
"""What tasks hold in locals while they are suspended, and how full channels are, of a process and in its recording."""
import json
import re

import driver
import forest
import pytest
from test_select import BUILD, look, text_of

GUARDS = {
    "std_mutex": r"std::sync::(poison::)?mutex::MutexGuard<u64>",
    "std_read": r"std::sync::(poison::)?rwlock::RwLockReadGuard<u64>",
    "std_write": r"std::sync::(poison::)?rwlock::RwLockWriteGuard<u64>",
    "parking_mutex": r"lock_api::mutex::MutexGuard<parking_lot::.*, u64>",
    "parking_write": r"lock_api::rwlock::RwLockWriteGuard<parking_lot::.*, u64>",
    "dash_ref": r"dashmap::.*RwLockReadGuard.*|lock_api::.*RwLockReadGuard.*",
    "dash_mut": r"dashmap::.*RwLockWriteGuard.*|lock_api::.*RwLockWriteGuard.*",
    "watch_ref": r"std::sync::.*RwLockReadGuard<u64>|lock_api::.*RwLockReadGuard<.*u64>",
    "cell": r"core::cell::RefMut<u64>",
}
# length, capacity, senders, closed
CHANNELS = {
    "slow_bounded": (5, 8, 2, False),
    "slow_unbounded": (1234, None, 1, False),
    "slow_closed": (2, 4, 0, True),
    "slow_broadcast": (9, 16, 1, False),
    "slow_watch": (1, 1, 1, False),
    "slow_async_channel": (3, 5, 1, False),
    "slow_futures": (2, 3 + 1, 1, False),
    "waits_bounded": (0, 2, 3, False),
    "waits_unbounded": (0, None, 1, False),
    "waits_broadcast": (0, 2, 1, False),
    "waits_watch": (0, 1, 1, False),
    "waits_oneshot": (0, 1, 1, False),
    "waits_async_channel": (0, None, 2, False),
    "waits_futures": (0, None, 1, False),
    "sends": (3, 3, 1, False),
}


def held(node, kind):
    found = [one for one in node.get("held", ()) if one["kind"] == kind]
    return found + [one for child in node.get("children", ()) for one in held(child, kind)]


@pytest.fixture
def holds(start, pollux, tmp_path):
    """holds(WAY): what is asked of the process is asked of its recording."""
    def run(way):
        program, trace = start(*BUILD, "holds", way), tmp_path / "holds.plx"
        result = driver.record_a_while(pollux, program.pid, trace, "0.2")
        assert result.returncode == 0, result.stderr
        return program.pid, trace
    return run


def test_guards(holds, pollux):
    for what in holds("guards"):
        looked = look(pollux, what)
        tasks = {forest.short(task["name"]): task for task in looked["tasks"]}
        for name, guard in GUARDS.items():
            (found,) = held(tasks[name]["tree"], "guard")
            assert re.fullmatch(guard, found["type"]), (name, found)
            assert found["address"] and "length" not in found
        assert not held(tasks["let_go"]["tree"], "guard")
        # the worker that waits for one of them
        (thread,) = [t for t in looked["threads"] if "blocked_by" in t]
        assert thread["task"]["id"] == tasks["blocked"]["id"]
        assert thread["blocked_by"]["address"] == tasks["std_mutex"]["address"]
        text = text_of(pollux, what)
        assert re.search(r"worker, polls task \d+ holds::blocked, in futex, waits for a lock of which task \d+\s+"
                         r"holds::std_mutex has the guard", " ".join(text.split())), text
        assert re.search(r"holds::std_mutex  .*holds.rs:\d+, holds\s+std::sync::.*MutexGuard<u64>", text)
        # It awaits pending(), which nothing wakes by design.
        (never,) = [one for one in looked["never_again"] if one["address"] == tasks["std_mutex"]["address"]]
        assert never["pending"] and re.search(r"NEVER AGAIN: task \d+ holds::std_mutex .*? it awaits a future without a size: "
                                              r"std::future::pending\(\)", " ".join(text.split())), text


def test_channels(holds, pollux):
    for what in holds("channels"):
        tasks = {forest.short(task["name"]): task for task in look(pollux, what)["tasks"]}
        found = {}
        for name in CHANNELS:
            (one, *others) = held(tasks[name]["tree"], "channel")
            assert not others or {other["address"] for other in others} == {one["address"]}, name
            found[name] = (one["length"], one.get("capacity"), one["senders"], one["closed"])
        assert found == CHANNELS
        text = " ".join(text_of(pollux, what).split())
        assert "has the receiver of channel" in text and ": 1,234 queued, 1 sender" in text
        assert re.search(r"mpsc receive, channel 0x[0-9a-f]+, 0 of 2 queued, 3 senders", text), text
        assert re.search(r": 2 of 4 queued, no senders, closed", text)


FOUND = {
    "guards": ("guard-over-await", r"task \d+ holds::std_mutex holds a std::sync::.*MutexGuard<u64> over the await at .*"
                                   r"@std_mutex .*; 1 thread sleeps until it lets go, thread \d+ in futex at .*@blocked "),
    "channels": ("channel-fills", r"1,234 messages are queued in a channel without a bound: task \d+ "
                                  r"holds::slow_unbounded, which receives from it, waits at .*; 1 sender$"),
    "permits": ("semaphore-stuck", r"6 tasks wait for one semaphore, .*: 4 have one and wait for more at .*@audit .*, the "
                                   r"others at .*@place_order "),
    "away": ("held-future", r"looks_away holds a future and does not poll it, though its timer is over, at .*@work .*: it "
                            r"waits at .*@looks_away "),
    "drops": ("runtime-drop", r"thread \d+ drops a runtime at .*@drops .* and waits for 1 thread of it, which runs task "
                              r"\d+ holds::drops.* \(clock_nanosleep "),
}


@pytest.mark.parametrize("way", FOUND)
def test_findings(holds, pollux, way):
    """What is held is found, in its place, with the threads and tasks that it is about."""
    rule, says = FOUND[way]
    says = re.sub(r"@(\w+)", lambda mark: re.escape(forest.marks("holds.rs")[mark[1]]), says)
    _, trace = holds(way)
    report = driver.report(pollux, trace)
    found = [f for f in report["findings"] if f["rule"] == rule]
    assert len(found) == 1, report["findings"]
    assert re.search(says, found[0]["text"]), found[0]["text"]
    # A channel that is as full as it was is no warning.
    assert (found[0]["score"] >= 50) == (way != "channels") and found[0]["advice"] and found[0]["tasks"]
    assert found[0]["family"].startswith("holds::") and not set(found[0]["threads"]) - {t["tid"] for t in report["workers"]}


def test_block_in_place(holds, pollux):
    mark = forest.marks("holds.rs")["in_place"]
    for what in holds("blocks"):
        (task,) = [t for t in look(pollux, what)["tasks"] if forest.short(t["name"]) == "in_place"]
        assert task["state"] == "running" and task["block_in_place"] is True
        assert task["stack"][-1]["function"].endswith("in_place")
        text = text_of(pollux, what)
        assert re.search(rf"in_place  running on thread \d+ tokio-rt-worker, in clock_nanosleep, in block_in_place(?s:.*?)"
                         rf"\n  holds::in_place  .*{mark}\n", text), text
        # another thread is the worker meanwhile
        looked = json.loads(driver.run(pollux, "tree", "--json", what).stdout)
        looked = looked["moments"][0]["moment"] if "moments" in looked else looked
        assert len([t for t in looked["threads"] if t.get("worker") and t.get("parked")]) == 2
