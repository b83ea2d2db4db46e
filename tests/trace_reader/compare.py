# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compares what plx.py and `pollux print --json` read from a trace, event by event."""
import collections
import json
import os
import subprocess
from pathlib import Path

from trace_reader import plx

ROOT = Path(__file__).resolve().parents[2]
POLLUX = Path(os.environ.get("POLLUX", ROOT / "build/src/cli/pollux"))
# Of Linux's table for x86-64.
SYSCALLS = {0: "read", 1: "write", 202: "futex", 232: "epoll_wait", 230: "clock_nanosleep", 281: "epoll_pwait"}


def printed(path):
    done = subprocess.run([POLLUX, "print", "--json", path], capture_output=True, text=True, timeout=300)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def syscall(number):
    return {"call": SYSCALLS[number]} if number in SYSCALLS else {}


def stack_text(trace, index):
    names = []
    while index and len(names) < 256:
        stack = trace.stack.get(index - 1)
        if not stack:
            break
        frame = trace.frame.get(stack["frame"], {"function": "", "addr": 0})
        names.append(frame["function"] or f"0x{frame['addr']:x}")
        index = stack["parent"]
    return ";".join(reversed(names))


def outcome(event, name):
    words = {"poll_end": plx.OUTCOME, "future_end": plx.OUTCOME, "cancel": plx.OUTCOME, "wake": plx.WAKE,
             "off_cpu": plx.REASON, "sample": plx.SAMPLE, "machine": plx.MACHINE,
             "resource": plx.RESOURCE}
    if name not in words:
        return {}
    return {"outcome": words[name].get(3 if name == "cancel" and not event.arg else event.arg, "?")}


def expected(trace, event, first_ns):
    """An event as `print --json` shows it, but for the thread's name: it may change while events are read."""
    name = plx.EVENT.get(event.type, "?")
    line = {"time_ns": max(event.time - first_ns, 0), "event": name,
            "tid": trace.thread.get(event.thread, {"tid": 0})["tid"]}
    of_task = event.kind != plx.NONE and name != "root_enter"
    if of_task and (name != "spawn" or event.arg & 1):
        line["task"] = event.task
    if of_task:
        kind = trace.kind.get(event.kind)
        line |= {"kind": kind["name"] if kind else "", "role": plx.ROLE[kind["role"]] if kind else ""}
    line |= outcome(event, name)
    if name in ("park", "unpark", "block"):
        line["call"] = plx.CALL.get(event.arg & plx.CALL_NUMBER, "?")
    if name == "block" and event.arg & plx.CALL_CANNOT_WAIT:
        line["nonblocking"] = True
    if name == "syscall":
        line |= syscall(event.arg) | {"result": event.task - (event.task >> 63 << 64)}
    if name == "off_cpu" and event.task:
        line |= syscall(event.task - 1)
    if name in ("block", "syscall", "off_cpu", "woken", "ran_instead"):
        line["ns"] = event.value
    if name in ("left_cpu", "got_cpu") and event.value:
        line["cpu"] = event.value - 1
    if name in ("left_cpu", "got_cpu", "woken", "ran_instead") and event.task - 1 in trace.neighbour:
        seen = trace.neighbour[event.task - 1]
        line["neighbour"] = {key: seen[key] for key in ("pid", "tid", "name")}
        line["neighbour"]["idle"] = bool(seen["flags"] & plx.NEIGHBOUR_IDLE)
    if name == "sample" and line["outcome"] != "panic":
        line["weight"] = event.task
    elif name == "sample" and event.task - 1 in trace.message:
        line["message"] = trace.message[event.task - 1]["text"]
    if name == "resource":
        line["address"] = event.task
    if name == "lost":
        line["events"] = event.value
    if name in ("poll_end", "future_end") and event.value - 1 in trace.place:
        place = trace.own_place(event.value - 1)
        line |= {key: place[key] for key in ("function", "file", "line", "awaits")}
    stack = stack_text(trace, event.value) if name == "sample" else ""
    return line | ({"stack": stack} if stack else {})


def given(**fields):
    """Without what is not known: that is left out."""
    return {key: value for key, value in fields.items() if value}


def held_json(held):
    shown = {"kind": plx.HELD_KIND[held["held"]], "type": held["type"] or "", "address": held["address"]}
    shown |= given(bytes=held["bytes"])
    if held["flags"] & 1:
        shown |= {"length": held["length"], "senders": held["senders"], "closed": bool(held["flags"] & 2)}
        shown |= given(capacity=held["capacity"])
    return shown


def node_json(node):
    """A node as `tree --json` shows it, but for what follows from other tasks."""
    leaf = plx.NODE_KIND[node["kind"]] == "leaf"
    wait = plx.WAITS_FOR[node["waits_for"]]
    shown = {"kind": plx.NODE_KIND[node["kind"]], "state": plx.NODE_STATE[node["state"]], "name": node["name"],
             "type": node["type"] or "", "address": node["address"]} | given(bytes=node["bytes"])
    if node["file"]:
        shown |= {"file": node["file"], "line": node["line"]}
    if leaf:
        shown |= {"waits_for": wait} | given(resource=node["resource"], ends=node["ends"])
        shown |= {"granted": True} if node["granted"] & 1 else {}
        value = {"sleep": "deadline_ns", "socket": "fd"}.get(wait, "permits_wanted")
        if node["value"] or value != "permits_wanted":
            shown[value] = node["value"]
    if node["detail"] and plx.NODE_KIND[node["kind"]] != "note":
        shown["detail"] = node["detail"]
    return shown | given(holds=node["holds"], held=[held_json(held) for held in node["held"]], children=[node_json(child) for child in node["children"]])


def task_json(task, threads):
    kind = task["kind"]
    shown = {"id": task["id"], "address": task["address"], "name": kind["name"], "type": kind["full_name"] or "",
             "role": plx.ROLE[kind["role"]], "object": kind["object"] or "", "spawned_at": kind["site"] or "",
             "state": plx.TASK_STATE[task["state"]], "cancelled": bool(task["flags"] & 1),
             "references": task["references"], "state_word": task["state_word"], "owner": task["owner"]}
    shown |= given(queue=task["queue"], future_bytes=kind["future_bytes"], task_bytes=kind["task_bytes"],
                   thread=threads.get(task["tid"]), torn=bool(task["flags"] & 4))
    return shown | ({"tree": node_json(task["tree"])} if task["tree"] else {"no_tree": task["no_tree"] or ""})


def task_without_derived(task):
    """The same of a task: its part of its thread's stack, its size by its tree."""
    task = {key: value for key, value in task.items() if key not in ("stack", "block_in_place", "boxed_bytes")}
    return task | ({"tree": without_derived(task["tree"])} if "tree" in task else {})


def without_derived(node):
    """Drops what print makes of several tasks together."""
    drop = ("internal", "waiting", "held_by", "task_id", "task_address")
    node = {key: value for key, value in node.items() if key not in drop}
    if "children" in node:
        node["children"] = [without_derived(child) for child in node["children"]]
    return node


def compare_moment(moment, shown):
    names = {thread["tid"]: {"tid": thread["tid"]} | given(name=thread["name"]) for thread in moment.threads}
    head = moment.head
    for key, value in (("now_ns", "now_ns"), ("stop_ns", "stop_ns"), ("torn", "n_torn"), ("missed_reads", "n_missed")):
        assert shown[key] == head.get(value, 0)
    assert [task_without_derived(task) for task in shown["tasks"]] == [task_json(task, names) for task in moment.tasks]
    assert shown.get("left_out", 0) == max(head.get("n_found", 0) - len(moment.tasks), 0)
    assert [(thread["tid"], thread["name"], thread.get("call_number", -1) + 1) for thread in shown["threads"]] == \
        [(thread["tid"], thread["name"] or "", thread["call"]) for thread in moment.threads]
    for ours, thread in zip(moment.threads, shown["threads"]):
        assert [(f["function"], f.get("line", 0), f["address"]) for f in thread["stack"]] == \
            [(f["function"] or "", f["line"], f["address"]) for f in ours["frames"]]
    if head.get("n_descriptors"):
        assert shown["descriptors"] == {"open": head["n_descriptors"], "limit": head["max_descriptors"]}
    assert shown["notes"] == moment.notes


def compare(path):
    """Asserts that both read the same; returns how many events of each type."""
    trace = plx.Trace(path)
    code, lines = printed(path)
    assert code == 0
    events = trace.events()
    moments = [line for line in lines if line["event"] == "moment"]
    assert len(moments) == len(trace.moments)
    for line, ((process, when), moment) in zip(moments, trace.moments.items()):
        assert (line["pid"], line["at"]) == (trace.process.get(process, {"pid": 0})["pid"], when)
        compare_moment(moment, line["moment"])
    lines = [line for line in lines if line["event"] != "moment"]
    assert len(lines) == len(events)
    first_ns = events[0].time if events else 0
    ours = [expected(trace, event, first_ns) for event in events]
    names = {}
    for index, of_thread in trace.thread_names.items():
        if index in trace.thread:
            names.setdefault(trace.thread[index]["tid"], set()).update(of_thread)
    for line in lines:
        assert line.pop("thread") in names.get(line["tid"], {""})
        if line["event"] in ("syscall", "off_cpu") and line.get("call") not in SYSCALLS.values():
            line.pop("call", None)
    # Of one time and several threads the file tells no order, and what comes late is out of order.
    several = {trace.thread_of(source) for source in trace.by_source if trace.thread_of(source) != source}
    tids = {trace.thread.get(thread, {"tid": 0})["tid"] for thread in several}
    for tid in {line["tid"] for line in lines}:
        theirs_here, ours_here = ([line for line in side if line["tid"] == tid] for side in (lines, ours))
        if tid in tids:
            theirs_here, ours_here = (sorted(side, key=lambda x: json.dumps(x, sort_keys=True))
                                      for side in (theirs_here, ours_here))
        assert theirs_here == ours_here
    return collections.Counter(plx.EVENT.get(event.type) for event in events)
