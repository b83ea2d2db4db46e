# SPDX-License-Identifier: MIT OR Apache-2.0
"""OTLP's JSON lines, decoded by OpenTelemetry's own messages."""
import base64
import json
from collections import Counter

import pytest
from conftest import GOOD

SAMPLES = sorted(path.stem for path in GOOD.glob("*.plx"))


def ids_as_bytes(value):
    """OTLP's JSON has ids in hexadecimal, protobuf's would have them in base64."""
    if isinstance(value, list):
        return [ids_as_bytes(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: base64.b64encode(bytes.fromhex(item)).decode()
            if key in ("traceId", "spanId", "parentSpanId") else ids_as_bytes(item)
            for key, item in value.items()}


@pytest.fixture(scope="module")
def decode(consumer):
    """decode(path): spans and metrics, as the messages have them. A field that OTLP lacks is an error."""
    consumer("otlp")
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    def run(path):
        spans, metrics = [], {}
        for line in path.read_text().splitlines():
            assert len(line) < 4 << 20
            value = ids_as_bytes(json.loads(line))
            if "resourceSpans" in value:
                for resource in ParseDict(value, TracesData()).resource_spans:
                    assert attributes(resource.resource)["telemetry.sdk.name"] == "pollux"
                    spans += [span for scope in resource.scope_spans for span in scope.spans]
            else:
                for resource in ParseDict(value, MetricsData()).resource_metrics:
                    metrics |= {metric.name: metric for scope in resource.scope_metrics
                                for metric in scope.metrics}
        return spans, metrics

    return run


def attributes(item):
    return {a.key: a.value.string_value or a.value.int_value for a in item.attributes}


def check_spans(spans):
    ids = {span.span_id: span for span in spans}
    assert len(ids) == len(spans), "span ids are unique"
    for span in spans:
        assert len(span.trace_id) == 16 and len(span.span_id) == 8 and any(span.span_id)
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.name and span.kind in (1, 2)
        parent = ids.get(span.parent_span_id)
        if parent:
            assert parent.trace_id == span.trace_id


@pytest.mark.parametrize("name", SAMPLES)
def test_otlp(export, report, decode, name):
    trace = GOOD / f"{name}.plx"
    path, said = export(trace, f"{name}.otlp.jsonl")
    (spans, metrics), told = decode(path), report(trace)
    check_spans(spans)
    assert f"{len(spans)} spans" in said
    tasks = [span for span in spans if span.kind == 1]
    assert len(tasks) == sum(f["tasks"] for f in told["families"] if f["role"] != "worker")
    ends = Counter(attributes(span)["pollux.end"] for span in tasks
                   if attributes(span)["pollux.role"] in ("task", "blocking"))
    assert ends["alive"] == told["tasks"]["alive"] and ends["cancelled"] == told["tasks"]["cancelled"]
    assert sum(span.status.code == 2 for span in tasks) == (told["tasks"]["panicked"] or 0)
    for span in tasks:
        assert span.name in {f["name"] for f in told["families"]}

    sums, counts = Counter(), Counter()
    for metric, into in (("pollux.task.time", sums), ("pollux.task.count", counts)):
        for point in metrics[metric].sum.data_points:
            of = attributes(point)
            into[of["pollux.family"], of["pollux.state"]] += point.as_int
            assert point.time_unix_nano - point.start_time_unix_nano == told["duration_ns"]
    for family in told["families"]:
        name = family["name"]
        assert sums[name, "waiting"] == family["waiting_ns"]
        assert sums[name, "scheduled"] == family["scheduled_ns"]
        assert sums[name, "polling"] == family["poll_ns"]["sum"]
        assert sums[name, "blocked"] == family["blocked_ns"]
        assert counts[name, "polling"] == family["poll_ns"]["count"]


def test_requests(export, decode):
    """A request is a span of its handler, in that of the connection's task."""
    path, _ = export(GOOD / "requests.plx", "requests.otlp.jsonl")
    spans, _ = decode(path)
    tasks = {span.span_id: span for span in spans if span.kind == 1}
    requests = [span for span in spans if span.kind == 2]
    assert {span.name for span in requests} >= {"shop::order", "shop::user::login"}
    for span in requests:
        around = tasks[span.parent_span_id]
        assert around.start_time_unix_nano <= span.start_time_unix_nano
        assert span.end_time_unix_nano <= around.end_time_unix_nano
    events = [event for span in tasks.values() for event in span.events]
    assert any(event.name == "blocking call" for event in events)


def test_large(export, decode, synth):
    """Many lines; the same ids each time."""
    trace = synth(600)
    path, _ = export(trace, "large.otlp.jsonl")
    first = path.read_bytes()
    spans, _ = decode(path)
    check_spans(spans)
    assert len(first.splitlines()) > 2
    path, _ = export(trace, "large.otlp.jsonl")
    assert path.read_bytes() == first
