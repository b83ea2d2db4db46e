# SPDX-License-Identifier: MIT OR Apache-2.0
"""Perfetto's format, decoded by Perfetto's own descriptors and held to what its trace processor wants.

The trace processor counts these as errors: an end without a begin, a track or a name that nobody has
described, a flow with one end, times that a clock snapshot does not cover.
"""
import json
from collections import Counter, defaultdict

import pytest
from conftest import GOOD

BEGIN, END, MOMENT, COUNTER = 1, 2, 3, 4
UNKNOWN = 2**31 - 1  # the thread of times in which it is not known what ran

WINDOWS = [(), ("--from", "20ms"), ("--to", "30ms"), ("--from", "10ms", "--to", "10.5ms"),
           ("--family", "handle"), ("--thread", "4244"), ("--task", "4"), ("--lanes", "packed"),
           ("--lanes", "task", "--max-lanes", "7"), ("--max-slices", "500")]


class Decoded:
    """What a trace processor would make of a file."""

    def __init__(self, path):
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
        trace = perfetto_trace_pb2.Trace()
        trace.ParseFromString(path.read_bytes())
        assert not any(unknown(packet) for packet in trace.packet), "a field that Perfetto does not have"
        self.tracks, self.slices, self.counters = {}, defaultdict(list), defaultdict(list)
        self.starts, self.ends, self.samples = Counter(), Counter(), []
        self.switches, self.wakings = defaultdict(list), []  # by CPU: (ns, from, its state, to)
        self.names = defaultdict(dict)  # (sequence, table) -> iid -> value
        events, clocks = [], set()
        for packet in trace.packet:
            sequence = packet.trusted_packet_sequence_id
            assert sequence
            for table, values in packet.interned_data.ListFields():
                for value in values:
                    assert value.iid and value.iid not in self.names[sequence, table.name]
                    self.names[sequence, table.name][value.iid] = value
            if packet.HasField("clock_snapshot"):
                clocks |= {clock.clock_id for clock in packet.clock_snapshot.clocks}
            if packet.HasField("trace_packet_defaults"):
                assert packet.trace_packet_defaults.timestamp_clock_id in clocks
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                assert track.uuid not in self.tracks
                assert not track.parent_uuid or track.parent_uuid in self.tracks
                self.tracks[track.uuid] = track
            if packet.HasField("track_event"):
                self.event(packet, events)
            if packet.HasField("perf_sample"):
                self.sample(packet)
            if packet.HasField("ftrace_events"):
                for event in packet.ftrace_events.event:
                    self.ftrace(packet.ftrace_events.cpu, event)
        self.nest(sorted(events, key=lambda event: event[0]))

    def event(self, packet, events):
        event = packet.track_event
        assert event.track_uuid in self.tracks
        names = self.names[packet.trusted_packet_sequence_id, "event_names"]
        categories = self.names[packet.trusted_packet_sequence_id, "event_categories"]
        if event.type == COUNTER:
            assert self.tracks[event.track_uuid].HasField("counter")
            self.counters[self.tracks[event.track_uuid].name].append(
                (packet.timestamp, event.double_counter_value))
            return
        name = names[event.name_iid].name if event.name_iid else event.name
        category = [categories[iid].name for iid in event.category_iids]
        notes = {self.names[packet.trusted_packet_sequence_id, "debug_annotation_names"][note.name_iid].name:
                 note.string_value or note.uint_value or note.int_value for note in event.debug_annotations}
        self.starts.update(event.flow_ids)
        self.ends.update(event.terminating_flow_ids)
        events.append((packet.timestamp, len(events), event.type, event.track_uuid, name, category, notes))

    def ftrace(self, cpu, event):
        if event.HasField("sched_switch"):
            told = event.sched_switch
            # The trace processor counts it as an error if another thread leaves the CPU than got it.
            if self.switches[cpu]:
                assert self.switches[cpu][-1][0] <= event.timestamp and self.switches[cpu][-1][3] == told.prev_pid
            assert event.pid == told.prev_pid != told.next_pid and told.prev_comm and told.next_comm
            self.switches[cpu].append((event.timestamp, told.prev_pid, told.prev_state, told.next_pid))
        else:
            assert event.HasField("sched_waking") and event.sched_waking.target_cpu == cpu
            self.wakings.append((event.timestamp, event.sched_waking.pid, cpu, event.pid))

    def sample(self, packet):
        names = {table: self.names[packet.trusted_packet_sequence_id, table] for table in
                 ("callstacks", "frames", "function_names", "mappings", "mapping_paths", "source_paths")}
        frames = [names["frames"][iid] for iid in names["callstacks"][packet.perf_sample.callstack_iid].frame_ids]
        for frame in frames:
            mapping = names["mappings"][frame.mapping_id]
            assert all(path in names["mapping_paths"] for path in mapping.path_string_ids)
            assert mapping.start <= frame.rel_pc <= mapping.end
            assert not frame.source_path_iid or frame.source_path_iid in names["source_paths"]
        self.samples.append((packet.timestamp, packet.perf_sample.tid,
                             [names["function_names"][frame.function_name_id].str.decode() for frame in frames]))

    def nest(self, events):
        """Begins and ends as the trace processor pairs them: an end is of the innermost open slice."""
        open_ = defaultdict(list)
        for time, number, type_, track, name, category, notes in events:
            if type_ == BEGIN:
                open_[track].append((number, time, name, category, notes))
            elif type_ == END:
                begun = open_[track].pop()
                assert begun[0] == number - 1, f"{begun[2]} is ended by another slice's end"
                self.slices[track].append((begun[1], time, *begun[2:]))
            else:
                assert type_ == MOMENT
        assert not any(open_.values()), "slices that do not end"


def unknown(message):
    from google.protobuf.unknown_fields import UnknownFieldSet
    return len(UnknownFieldSet(message)) or any(
        unknown(value) for field, values in message.ListFields() if field.type == field.TYPE_MESSAGE
        for value in (values if field.is_repeated else [values]))


@pytest.fixture(scope="module")
def decode(consumer):
    consumer("perfetto")
    return Decoded


def check(decoded):
    assert decoded.starts == decoded.ends, "a flow has one end each"
    assert all(n == 1 for n in decoded.starts.values()), "a flow can't fork"


@pytest.mark.parametrize("options", WINDOWS, ids=" ".join)
def test_windows(export, trace, decode, options):
    path, _ = export(trace, "windows.pftrace", *options)
    decoded = decode(path)
    check(decoded)
    assert decoded.slices


@pytest.mark.parametrize("name", sorted(path.stem for path in GOOD.glob("*.plx")))
def test_sums(export, report, decode, name):
    """Polls and waits on the tasks' tracks are those of the report."""
    trace = GOOD / f"{name}.plx"
    path, said = export(trace, f"{name}.pftrace")
    decoded, told = decode(path), report(trace)
    check(decoded)
    tasks = [f for f in told["families"] if f["role"] != "worker"]
    on_tasks = [s for uuid, slices in decoded.slices.items()
                if not decoded.tracks[uuid].HasField("thread") for s in slices]
    assert sum("poll" in s[3] for s in on_tasks) == sum(f["polls"] for f in tasks)
    assert {t.thread.tid for t in decoded.tracks.values() if t.HasField("thread")} >= {
        w["tid"] for w in told["workers"] if w["polls"]}
    assert f"{len(decoded.starts)} wake arrows" in said or not decoded.starts
    if tasks:
        assert len(decoded.counters) == 2


def test_slices_nest_where_clocks_differ(export, decode, synth):
    """A call by one clock, the time off the CPU in it by another: what crosses is moved to the nearer edge."""
    path, _ = export(synth(mode="skew"), "skew.pftrace")
    decoded = decode(path)
    lengths = defaultdict(list)
    for slices in decoded.slices.values():
        for begin, end, name, *_ in slices:
            if name == "off CPU, sleeping" or name.endswith("in write"):
                lengths["off" if name.startswith("off") else "call"].append(end - begin)
    assert len(lengths["off"]) == len(lengths["call"]) > 5
    # Each is around the call, which it began 1 µs after.
    assert all(1000 < off - call < 1010 for off, call in zip(sorted(lengths["off"]), sorted(lengths["call"])))


def test_counters(export, report, decode, trace):
    """Ready tasks, summed up over time, are the time in which tasks were scheduled; likewise workers."""
    path, _ = export(trace, "counters.pftrace")
    decoded, told = decode(path), report(trace)
    end = told["duration_ns"]
    for name, wanted in (("ready tasks", sum(f["scheduled_ns"] for f in told["families"]
                                             if f["role"] in ("task", "blocking"))),
                         ("busy workers", sum(w["busy_ns"] for w in told["workers"]
                                              if w["role"] == "worker"))):
        values = decoded.counters[name]
        assert values == sorted(values, key=lambda v: v[0])
        ends = [v[0] for v in values[1:]] + [values[0][0] + end]
        area = sum(value * (until - at) for (at, value), until in zip(values, ends))
        assert area == pytest.approx(wanted, rel=1e-6), name


def test_names(export, decode, trace):
    """A lane of a task says which, a family's track has its short name, and the cut is told."""
    path, _ = export(trace, "names.pftrace", "--max-lanes", "12")
    decoded = decode(path)
    groups = [t for t in decoded.tracks.values() if t.child_ordering and not t.HasField("process")]
    assert groups and all("<" not in t.name for t in groups)
    assert any(t.name.startswith("cut: showing") for t in groups)
    ranks = defaultdict(set)
    for track in decoded.tracks.values():
        if track.parent_uuid and not track.HasField("counter"):
            assert track.sibling_order_rank not in ranks[track.parent_uuid]
            ranks[track.parent_uuid].add(track.sibling_order_rank)


def test_samples(export, report, decode):
    """CPU samples are samples, with stacks that begin at the outermost function."""
    path, _ = export(GOOD / "inside.plx", "samples.pftrace")
    decoded = decode(path)
    assert decoded.samples
    cpu = report(GOOD / "inside.plx")["cpu"][0]
    assert len(decoded.samples) == cpu["samples"] + cpu["samples_outside"]
    inner = Counter(stack[-1] for _, _, stack in decoded.samples)
    for function in cpu["functions"]:
        if function["function"] and function["self"]:
            assert inner[function["function"]] * 1000000 == function["self"]


def test_switches(export, decode):
    """What CPUs ran: switches and wakings of the scheduler, as far as --sched knows them."""
    path, _ = export(GOOD / "switches.plx", "switches.pftrace")
    decoded = decode(path)
    rows = [json.loads(line) for line in export(GOOD / "switches.plx", "switches.jsonl")[0].read_text().splitlines()]
    away = [row for row in rows if row["table"] == "off_cpu"]
    begin = min(packet[0] for cpu in decoded.switches.values() for packet in cpu) - min(row["time_ns"] for row in away)
    states = {"preempted": 0, "sleeping": 1, "uninterruptible": 2}
    left = {(at, who): state for cpu in decoded.switches.values() for at, who, state, _ in cpu}
    got = {(at, who) for cpu in decoded.switches.values() for at, _, _, who in cpu}
    for row in away:
        assert left[begin + row["time_ns"], row["thread"]] == states[row["reason"]]
    assert sum((begin + row["time_ns"] + row["duration_ns"], row["thread"]) in got for row in away) >= 3
    # Who ran in place of the thread, from when it was ready; not known is not made up.
    assert [(at - begin, *rest) for at, *rest in decoded.switches[3]] == [
        (6900000, 0, 1, 201), (8920000, 201, 1, 0), (8921000, 0, 1, UNKNOWN), (14910000, UNKNOWN, 1, 901), (19890000, 901, 1, 201)]
    assert [(at - begin, *rest) for at, *rest in decoded.wakings] == [(14910000, 201, 3, 202)]
