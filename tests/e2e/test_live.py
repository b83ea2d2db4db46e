# SPDX-License-Identifier: MIT OR Apache-2.0
"""Recordings that are read while they grow: record --print, hist."""
import json
import os
import signal
import subprocess
import time

import driver
import pytest


def role(truth, name):
    return [family for family in truth["families"] if family["role"] == name]


def total(truth, name, field):
    return sum(family[field] for family in role(truth, name))


def test_print_says_what_happened(pollux, suite):
    """Without a file, as it comes: all polls and ends of the program's own count."""
    result = driver.run(pollux, "record", "--print", "--format", "@ {event} {role} {outcome}", "--",
                        suite(), "yields")
    assert result.returncode == 0, result.stderr
    _, truth = driver.split_output("\n".join(
        line for line in result.stdout.splitlines() if not line.startswith("@ ")))
    said = [line for line in result.stdout.splitlines() if line.startswith("@ ")]
    assert said.count("@ poll_begin task ") == total(truth, "task", "polls")
    assert said.count("@ poll_end task ready") == total(truth, "task", "completed")
    assert said.count("@ spawn task ") == total(truth, "task", "spawned")


def test_print_beside_a_file(pollux, suite, trace):
    result = driver.run(pollux, "record", "--print", "--json", "-o", trace, "--", suite(), "timers")
    assert result.returncode == 0, result.stderr
    said = [line for line in result.stdout.splitlines() if line.startswith('{"time_ns"')]
    assert len(said) == len(driver.events(trace))
    again = driver.run(pollux, "print", "--json", trace).stdout.splitlines()
    assert again == said


def test_print_in_the_form_of_the_script(pollux, suite):
    result = driver.run(pollux, "record", "--print", "--event", "poll_end", "--", suite(), "timers")
    ends = [line for line in result.stdout.splitlines() if "task-poll-end(task=" in line]
    terminated = [line for line in result.stdout.splitlines() if "task-terminate(task=" in line]
    _, truth = driver.split_output("\n".join(
        line for line in result.stdout.splitlines() if not line.startswith("thread[")))
    workers = len(ends) - total(truth, "task", "polls") - total(truth, "blocking", "polls")
    assert 0 <= workers <= 8  # each ends its loop once
    assert len(terminated) - workers == total(truth, "task", "completed") + total(
        truth, "blocking", "completed")


def test_print_to_one_who_leaves(pollux, suite):
    """`| head`: the recording ends, the program is not harmed, nothing is said."""
    with subprocess.Popen([pollux, "record", "--print", "--", suite(), "yields"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(timeout=60) in (0, 101, 128 + signal.SIGPIPE), said
    assert "cannot" not in said


@pytest.mark.parametrize("words, said", [
    (["--print", "--format", "{nobody}"], "there is no field {nobody}"),
    (["--print", "--format", "{tid:999}"], "'999' is no width"),
    (["--print", "--format", "{tid"], "no closing brace"),
    (["--print", "--event", "nothing"], "there is no event 'nothing'"),
    (["--format", "{tid}"], "belong to --print"),
])
def test_print_refuses(pollux, words, said):
    result = driver.run(pollux, "record", *words, "--", "true")
    assert result.returncode == 2
    assert said in result.stderr


def hist_of(text):
    return json.loads(text[text.index('{\n  "version"'):])


def test_hist_of_a_started_program(pollux, suite):
    result = driver.run(pollux, "hist", "--json", "--", suite(), "sleep_in_poll")
    assert result.returncode == 0, result.stderr
    hist = hist_of(result.stdout)
    _, truth = driver.split_output(result.stdout[:result.stdout.index('{\n  "version"')])
    places = hist["spawn_locations"]
    assert sum(place["tasks"] for place in places) == total(truth, "task", "completed")
    assert sum(place["poll_ns"]["count"] for place in places) == total(truth, "task", "polls")
    assert all(place["lifetime_ns"]["count"] == place["active_ns"]["count"] == place["tasks"]
               for place in places)
    assert hist["lost"] == hist["lost_aux"] == 0
    # ten tasks sleep 1 ms and 10 ms in their polls: neither is a wait for a lock
    long_calls = sum(bucket["count"] for bucket in hist["other_calls_during_poll_us"]["buckets"]
                     if bucket["from"] >= 512)
    assert long_calls >= 2 * 10
    assert hist["poll_us"]["count"] >= total(truth, "task", "polls")
    assert hist["system_calls"] is (os.geteuid() == 0)


def start_hist(pollux, target, *options, out=subprocess.PIPE):
    """pollux hist of a program that runs, once it has attached."""
    command = [pollux, "hist", "--json", *options, str(target.pid)]
    hist = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + driver.TIMEOUT
    while not driver.enabled(target.pid):
        assert hist.poll() is None and time.monotonic() < deadline
        time.sleep(0.002)
    return hist


def test_hist_of_a_running_program(pollux, suite):
    with driver.Target(suite(), "timers") as target:
        hist = start_hist(pollux, target)
        target.go()
        truth = target.truth()
        hist.send_signal(signal.SIGINT)
        out, said = hist.communicate(timeout=60)
        assert hist.returncode == 0, said
        assert target.end() == 0
    places = hist_of(out)["spawn_locations"]
    assert sum(place["poll_ns"]["count"] for place in places) == total(truth, "task", "polls")


def test_hist_so_far(pollux, suite, tmp_path):
    """`--every`: what was counted grows, and the last one is the whole."""
    with driver.Target(suite(), "short_tasks") as target, open(tmp_path / "out", "w+") as out:
        # a file of its own: between two writes of one that is long the program may write
        hist = start_hist(pollux, target, "--every", "0.2", out=out)
        target.go()
        truth = target.truth()
        hist.send_signal(signal.SIGINT)
        said = hist.communicate(timeout=60)[1]
        assert hist.returncode == 0, said
        assert target.end() == 0
        out.seek(0)
        text, hists = out.read(), []
    while (at := text.find('{\n  "version"')) >= 0:
        one, end = json.JSONDecoder().raw_decode(text[at:])
        hists.append(one)
        text = text[at + end:]
    polls = [hist["poll_us"]["count"] for hist in hists]
    assert len(polls) >= 4 and polls == sorted(polls) and polls[0] < polls[-2]
    assert polls[-1] + driver.lost(hists[-1]) >= total(truth, "task", "polls")
    assert hists[0]["duration_ns"] >= 200_000_000
    for wrong in ("0", "x", "0.01"):
        assert driver.run(pollux, "hist", "--every", wrong, "1").returncode != 0


def test_hist_of_a_file(pollux, suite, trace):
    recorded = driver.record_launched(pollux, trace, suite(), "timers")
    hist = hist_of(driver.run(pollux, "hist", "--json", trace).stdout)
    assert sum(place["poll_ns"]["count"] for place in hist["spawn_locations"]) == total(
        recorded.truth, "task", "polls")
    one = hist_of(driver.run(pollux, "hist", "--json", "--family", "sleeper", trace).stdout)
    assert ["sleeper" in place["family"] for place in one["spawn_locations"]] == [True]


def test_hist_refuses(pollux, trace):
    assert driver.run(pollux, "hist").returncode == 2
    assert driver.run(pollux, "hist", trace).returncode == 1
    gone = driver.run(pollux, "hist", "999999999")
    assert gone.returncode == 1 and "there is no process 999999999" in gone.stderr
