# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exported files against the rules that viewers hold them to, without a viewer."""
import bisect
import json
import subprocess
from collections import defaultdict

import pytest
from conftest import ROOT

# What Catapult knows; any other aborts its whole import.
CNAMES = {
    "good", "bad", "terrible", "black", "grey", "white", "yellow", "olive", "generic_work", "startup",
    "thread_state_uninterruptible", "thread_state_iowait", "thread_state_running",
    "thread_state_runnable", "thread_state_sleeping", "thread_state_unknown",
    "background_memory_dump", "light_memory_dump", "detailed_memory_dump",
    "cq_build_running", "cq_build_passed", "cq_build_failed", "cq_build_abandoned",
    "cq_build_attempt_passed", "cq_build_attempt_failed",
}

WINDOWS = [
    (), ("--from", "20ms"), ("--to", "30ms"), ("--from", "10ms", "--to", "10.5ms"),
    ("--from", "50ms"), ("--family", "handle"), ("--thread", "4244"), ("--task", "4"),
    ("--lanes", "packed"), ("--lanes", "task", "--max-lanes", "7"), ("--max-lanes", "1"),
    ("--lanes", "packed", "--max-lanes", "9"), ("--max-slices", "500"),
    ("--max-slices", "100", "--max-lanes", "5"),
]


def ns(text):
    """Microseconds with three decimals, without a double's error."""
    whole, _, rest = text.partition(".")
    assert len(rest) == 3, text
    return int(whole) * 1000 + int(rest)


def load_chrome(path):
    return json.loads(path.read_text(), parse_float=ns)


def check_nesting(slices):
    """Slices of a lane touch or nest; Perfetto drops what overlaps otherwise.

    Of two that begin at once Catapult takes the first in the file for the outer one.
    """
    stack = []
    for begin, minus_dur, name in sorted(slices, key=lambda s: s[0]):
        end = begin - minus_dur
        while stack and stack[-1] <= begin:
            stack.pop()
        assert not stack or end <= stack[-1], f"{name} at {begin} reaches beyond what is around it"
        stack.append(end)


def cover(slices):
    """What of time a lane's slices cover: sorted begins, and their ends."""
    begins, ends = [], []
    for begin, minus_dur, _ in sorted(slices):
        end = begin - minus_dur
        if ends and begin <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            begins.append(begin)
            ends.append(end)
    return begins, ends


def check_chrome(path):
    events = load_chrome(path)["traceEvents"]
    lanes, flows, named = defaultdict(list), defaultdict(dict), set()
    for e in events:
        lane = (e["pid"], e.get("tid"))
        if e["ph"] == "X":
            assert e.get("cname", "good") in CNAMES
            assert e["ts"] >= 0 and e["dur"] >= 0
            lanes[lane].append((e["ts"], -e["dur"], e["name"]))
        elif e["ph"] in "sf":
            assert e["ph"] not in flows[e["id"]]
            flows[e["id"]][e["ph"]] = (lane, e["ts"])
        else:
            assert e["ph"] in "Mi"  # a moment: a sample of a long poll
            if e["ph"] == "M" and e["name"] in ("process_name", "thread_name"):
                assert (e["name"], *lane) not in named, "named twice"
                named.add((e["name"], *lane))
    for lane, slices in lanes.items():
        assert ("thread_name", *lane) in named, lane
        assert ("process_name", lane[0], None) in named
        check_nesting(slices)
    covered = {lane: cover(slices) for lane, slices in lanes.items()}
    for flow in flows.values():
        assert set(flow) == {"s", "f"}
        assert flow["s"][1] <= flow["f"][1]
        for lane, ts in flow.values():
            begins, ends = covered[lane]
            i = bisect.bisect_right(begins, ts) - 1
            assert i >= 0 and ts <= ends[i], "a flow's end lies outside of all slices"
    return events, lanes, flows


def check_speedscope(path):
    file = json.loads(path.read_text())
    for profile in file["profiles"]:
        if profile["type"] == "sampled":
            assert sum(profile["weights"]) == profile["endValue"]
            continue
        stack, last = [], profile["startValue"]
        for e in profile["events"]:
            assert isinstance(e["at"], int) and e["at"] >= last
            last = e["at"]
            if e["type"] == "O":
                stack.append(e["frame"])
            else:
                assert e["type"] == "C" and stack.pop() == e["frame"]
        assert not stack and last <= profile["endValue"]
    assert 0 <= file["activeProfileIndex"] < max(1, len(file["profiles"]))
    return file


@pytest.mark.parametrize("options", WINDOWS, ids=" ".join)
def test_chrome(export, trace, options):
    path, _ = export(trace, "rules.json", *options)
    check_chrome(path)


@pytest.mark.parametrize("options", WINDOWS, ids=" ".join)
def test_speedscope(export, trace, options):
    path, _ = export(trace, "rules.speedscope.json", *options)
    check_speedscope(path)


CUTS = ["1ms", "2030us", "5ms", "8055us", "15ms", "21055us", "22022us", "102075us", "252205us", "310ms"]


@pytest.mark.parametrize("name", ["requests", "inside"])
def test_no_overlap_at_a_cut(export, name):
    """What is open where a window begins is cut there, and is still one in the other."""
    for cut in CUTS if name == "inside" else CUTS[:7]:
        path, _ = export(ROOT / f"tests/traces/good/{name}.plx", "cut.json", "--from", cut)
        _, lanes, _ = check_chrome(path)
        for slices in lanes.values():
            begins = [begin for begin, minus_dur, _ in slices if minus_dur]
            assert len(begins) == len(set(begins)), f"two slices begin at once: --from {cut}"


@pytest.mark.parametrize("name", ["inside", "requests", "moments"])
def test_findings(export, report, name):
    """Each finding of the report has a lane with the time that it is about, or all of the window."""
    sample = ROOT / f"tests/traces/good/{name}.plx"
    events, _, _ = check_chrome(export(sample, "findings.json")[0])
    drawn = [e for e in events if e["ph"] == "X" and e["cat"] == "finding"]
    told = [f for f in report(sample)["findings"] if f["score"] >= 15]
    assert told and [(e["name"], e["args"]["finding"]) for e in drawn] == [(f["title"], f["text"]) for f in told]
    end = max(e["ts"] + e["dur"] for e in events if e["ph"] == "X")
    for slice_, finding in zip(drawn, told):
        if "time_ns" in finding:
            begin, until = finding.get("from_ns", finding["time_ns"]), finding.get("to_ns", finding["time_ns"])
            assert (slice_["ts"], slice_["dur"]) == (begin, max(until - begin, 1))
        else:
            assert (slice_["ts"], slice_["dur"]) == (0, end)
    events, _, _ = check_chrome(export(sample, "findings.json", "--no-findings")[0])
    assert not [e for e in events if e["ph"] == "X" and e["cat"] == "finding"]


def test_requests(export):
    """Requests have names, lie around their polls, and differ from waits by their colours."""
    path, _ = export(ROOT / "tests/traces/good/requests.plx", "requests.json")
    events, lanes, _ = check_chrome(path)
    requests = [e for e in events if e["ph"] == "X" and e["cat"] == "request"]
    assert sorted(e["name"] for e in requests) == ["hello", "order", "order", "user::login"]
    order = next(e for e in requests if e["name"] == "order" and e["args"]["polls"] == 2)
    assert order["args"]["handler"] == "shop::order"
    polls = [e for e in events if e["ph"] == "X" and e["cat"] == "poll"]
    on_thread = [e["name"] for e in polls if e["pid"] == 100]
    assert on_thread == ["mailer #3", "axum connection #7", "order #7", "order #8", "mailer #3", "order #7",
                         "user::login #7", "hello #7"]
    (long,) = (e for e in polls if e["name"] == "user::login #7")
    assert long["cname"] == "terrible"
    waits = [e for e in events if e["ph"] == "X" and e["cat"] == "wait" and "args" in e]
    colours = {e["name"]: e["cname"] for e in waits}
    assert colours == {"order.rs:24 shop::order": "cq_build_running", "serve.rs:257 axum::serve::into_future":
                       "thread_state_sleeping", "main.rs:60 shop::mailer": "grey"}
    names = {e["args"]["name"] for e in events if e["name"] in ("process_name", "thread_name")}
    assert {"axum connection: 2 tasks", "axum connection #7", "mailer #3"} <= names
    assert not any("futures in" in name for name in names)

    path, _ = export(ROOT / "tests/traces/good/requests.plx", "requests.speedscope.json", "--task", "7")
    file = check_speedscope(path)
    frames = [f["name"] for f in file["shared"]["frames"]]
    stacks = {p["name"]: [[frames[i] for i in s] for s in p["samples"]]
              for p in file["profiles"] if p["type"] == "sampled"}
    login = ["axum connection", "user::login", "hyper::proto::h1::dispatch::poll", "shop::user::login"]
    assert stacks["cpu-clock of all tasks by family"] == [login]
    assert stacks["long polls by stack"] == [login + ["clock_nanosleep"]]
    (task,) = (p for p in file["profiles"] if p["name"] == "axum connection #7")
    opened = [frames[e["frame"]] for e in task["events"] if e["type"] == "O"]
    at = opened.index("waiting", opened.index("order"))
    assert opened[at + 1] == "src/api/order.rs:24 shop::order, for tokio::sync::mpsc::bounded::send"


def test_chrome_counts(export, synth, pollux):
    """Every poll is on its task's lane and on its thread's; every wake that led to one is a flow."""
    trace = synth(60, 1500)
    tool = pollux.parents[2] / "tests/viewers/synth"
    again = trace.with_suffix(".again")
    made = json.loads(subprocess.run([tool, again, "60", "1500"], check=True,
                                     capture_output=True).stdout)
    path, said = export(trace, "counts.json", "--lanes", "task")
    events, lanes, flows = check_chrome(path)
    polls = [e for e in events if e["ph"] == "X" and e["cat"] == "poll"]
    assert len(polls) == 2 * made["polls"]
    lives = [e for e in events if e["ph"] == "X" and e["cat"] == "task"]
    assert len(lives) == made["spawns"]
    first_polls = sum(1 for life in lives if life["args"]["polls"])
    assert len(flows) == made["polls"] - first_polls
    assert f"{len(flows)} wake arrows" in said


def test_window(export, trace):
    """Nothing reaches out of the window, and both together show what one shows."""
    path, _ = export(trace, "window.json", "--from", "10ms", "--to", "20ms")
    for e in load_chrome(path)["traceEvents"]:
        if e["ph"] == "X" and e["name"] not in ("wake",):
            assert 10_000_000 <= e["ts"] and e["ts"] + e["dur"] <= 20_000_000


def test_packed_lanes_count_concurrency(export, synth):
    path, said = export(synth(300, 3000), "packed.json")
    events, lanes, _ = check_chrome(path)
    lives = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X" and e["cat"] == "task"]
    assert len(lives) > 500
    task_lanes = {(e["pid"], e["tid"]) for e in events if e["ph"] == "X" and e["cat"] == "task"}
    edges = sorted([(b, 1) for b, _ in lives] + [(e, -1) for _, e in lives], key=lambda x: (x[0], x[1]))
    alive = most = 0
    for _, step in edges:
        alive += step
        most = max(most, alive)
    assert len(task_lanes) <= most * 1.3 + 10


def test_cut_is_reported(export, synth):
    path, said = export(synth(300, 3000), "cut.json", "--max-slices", "5000", "--max-lanes", "12")
    file = load_chrome(path)
    notice = file["otherData"]["cut"]
    assert "first" in notice and "--max-slices 5000" in notice
    assert notice in said
    slices = [e for e in file["traceEvents"] if e["ph"] == "X" and e["cat"] != "finding"]
    assert 2500 < len(slices) <= 5001
    assert any(e["name"] == notice for e in slices), "a lane says it too"
    assert len({(e["pid"], e["tid"]) for e in slices}) <= 13


def test_too_many_lanes_refused(pollux, synth, tmp_path):
    out = tmp_path / "big.json"
    command = [pollux, "export", synth(1500, 3000), "--lanes", "task", "--max-lanes", "5000", "-o", out]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "--force" in done.stderr
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
    done = subprocess.run([*command, "--force"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    check_chrome(out)


@pytest.mark.parametrize("form", ["chrome", "speedscope"])
def test_trace_cut_off(pollux, synth, tmp_path, form):
    """A trace that breaks off gives a whole file of what is there."""
    content = synth(300, 3000).read_bytes()
    cut = tmp_path / "cut.plx"
    cut.write_bytes(content[: len(content) * 2 // 3])
    out = tmp_path / "cut.json"
    done = subprocess.run([pollux, "export", cut, "-f", form, "-o", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "cut" in done.stderr
    (check_chrome if form == "chrome" else check_speedscope)(out)


def test_names_from_the_target_are_harmless(export, synth):
    """The synthetic ticker has quotes in its name."""
    path, _ = export(synth(60, 1500), "quotes.json")
    names = {e["args"]["name"] for e in load_chrome(path)["traceEvents"] if e["name"] == "process_name"}
    assert '<shop::Ticker<"10ms"> as Tick>::run: 1 task' in names
