# SPDX-License-Identifier: MIT OR Apache-2.0
"""How long things lasted: what is open at an end counts, what was not seen to end has no length."""
import re
import time

import driver


def family(report, name):
    (found,) = [f for f in report["families"] if name in f["full_name"]]
    return found


def record(pollux, target, trace, ms):
    """The report of this number of ms of the target, and what record said."""
    code, said = driver.Recorder(pollux, target.pid, trace, "-d", f"{ms}ms").wait()
    assert code == 0, said
    return driver.report(pollux, trace), said


def test_open_at_the_end(pollux, suite, trace):
    """A worker and the blocking pool's thread wait in a call all the time, and others for them."""
    with driver.Target(suite("tokio-1.54", "release-debug"), "stuck") as target:
        recorder = driver.Recorder(pollux, target.pid, trace)
        target.go()
        target.wait_for(lambda line: line == "stuck")
        time.sleep(1)
        code, said = recorder.stop()
        assert code == 0, said
        target.go()
        target.wait_for(lambda line: line == "stuck no more")
        target.go()
        assert target.end() == 0
    report = driver.report(pollux, trace)
    second = 10**9
    for name in ("keeps_worker", "keeps_pool"):
        kept = family(report, name)
        assert kept["blocked_ns"] > second * 0.9, kept
        assert [call["call"] for call in kept["blocking_calls"]][0] == "futex"
        assert kept["poll_ns"]["max"] >= kept["blocked_ns"]
    for name in ("never_polled", "never_begun"):
        waits = family(report, name)
        assert waits["never_polled"] == waits["tasks"] == 1
        assert waits["sched_delay_ns"]["max"] > second * 0.9, waits
    found = {f["rule"]: f["text"] for f in report["findings"]}
    assert re.match(r"a task was ready but waited [\d.]+ s for a worker \(not polled by the end\)", found["delay"])
    assert re.match(r"the blocking pool is full: a closure waited [\d.]+ s for a thread \(.*; 1 had none by the end\)",
                    found["pool-full"])
    assert re.match(r"2 tasks were spawned, but not polled by the end, for up to [\d.]+ s", found["never-polled"])


def test_calls_open_at_the_end(pollux, suite, trace, tmp_path):
    """Each poll is in a blocking call when the recording ends: whatever the call is, it counts. The workers
    slept since before the recording, and one sleeps on."""
    program = suite("tokio-1.54", "release-debug", "held_calls")
    with driver.Target(program, tmp_path, wait=()) as target:
        recorder = driver.Recorder(pollux, target.pid, trace)
        target.go()
        target.wait_for(lambda line: line == "held")
        time.sleep(0.5)
        code, said = recorder.stop()
        assert code == 0, said
        target.go()
        target.wait_for(lambda line: line == "free")
        target.go()
        assert target.end() == 0
    report = driver.report(pollux, trace)
    for name, call in {"read": "read", "write": "write", "recv": "recv", "accept": "accept4",
                       "connect": "connect", "flock": "flock", "lock": "pthread_mutex_lock",
                       "poll": "poll"}.items():
        held = family(report, f"held_{name}")
        long = [(c["call"], c["count"]) for c in held["blocking_calls"] if c["ns"] > 4 * 10**8]
        assert long == [(call, 1)], held
        assert 4 * 10**8 < held["blocked_ns"] <= held["poll_ns"]["max"], held
    workers = [w for w in report["workers"] if w["role"] == "worker"]
    assert len(workers) == 9, workers
    assert sorted(w["polls"] for w in workers) == [0] + [1] * 8, workers
    (asleep,) = [w for w in workers if not w["polls"]]
    assert asleep["begin_ns"] == 0 and asleep["parked_ns"] == asleep["end_ns"] and not asleep["busy_ns"], asleep
    assert asleep["end_ns"] == max(w["end_ns"] for w in workers) > 4 * 10**8, workers
    for worker in workers:
        # From the start of the recording up to its poll, which has not ended.
        assert worker["parked_ns"] > 0, worker
        assert worker["parked_ns"] + worker["busy_ns"] <= report["duration_ns"], worker


def test_workers_asleep_all_the_time(pollux, suite, trace, tmp_path):
    """A recording in which nothing happens has the workers that sleep, and for how long."""
    with driver.Target(suite("tokio-1.54", "release-debug", "held_calls"), tmp_path, wait=()) as target:
        driver.until_quiet(target.pid)
        report, said = record(pollux, target, trace, 300)
        target.process.kill()
    workers = [w for w in report["workers"] if w["role"] == "worker"]
    assert len(workers) == 9, (workers, said)
    for worker in workers:
        assert not worker["polls"] and not worker["busy_ns"], worker
        assert worker["parked_ns"] == report["duration_ns"], worker
    assert report["duration_ns"] >= 3 * 10**8


def test_last_poll_of_a_block_on(pollux, suite, trace):
    """What the thread does after a block_on is no poll of it."""
    with driver.Target(suite("tokio-1.54", "release-debug"), "short_roots") as target:
        recorder = driver.Recorder(pollux, target.pid, trace)
        target.go()
        target.wait_for(lambda line: line == "short")
        code, said = recorder.stop()
        assert code == 0, said
        target.go()
        assert target.end() == 0
    report = driver.report(pollux, trace)
    roots = [f for f in report["families"] if f["role"] == "root"]
    (root,) = [f for f in roots if f["name"].endswith("::rest::short_roots")]
    assert root["tasks"] == 3 and root["polls"] >= 6, root
    assert root["poll_ns"]["count"] >= 3, root
    assert sum(f["polls_of_unknown_length"] for f in roots) >= 3  # shutting the runtime down is one, too
    # 400 ms of work after each; the block_on itself takes a moment
    assert root["poll_ns"]["max"] < 4 * 10**8, root
    (main,) = [w for w in report["workers"] if w["role"] == "block_on"]
    assert main["busy_ns"] < 8 * 10**8 and main["polls_of_unknown_length"] >= 3, main
    text = driver.run(pollux, "report", trace).stdout
    assert "of unknown length: begin or end was not observed" in text


def test_one_length(pollux, suite, trace):
    """The length that record says is the report's."""
    with driver.Target(suite("tokio-1.54", "release-debug"), "steady") as target:
        target.go()
        report, said = record(pollux, target, trace, 500)
        target.go()
        target.wait_for(lambda line: line == "steady to the end")
        target.go()
        assert target.end() == 0
    length = re.search(r"recorded ([\d.]+ \w+) of ", said).group(1)
    text = driver.run(pollux, "report", trace).stdout
    assert text.splitlines()[1].startswith(f"{length}, "), (said, text)
    assert report["duration_ns"] >= 500_000_000
