# SPDX-License-Identifier: MIT OR Apache-2.0
"""Web services, which count their requests by route and are their own load (tests/targets/src/service)."""
import collections
import json
import re
import subprocess
import sys

import driver
import pytest
from build import ROOT, TARGETS, build

sys.path.insert(0, str(ROOT / "tests" / "trace_reader"))
import plx  # noqa: E402

ROUTES = ["blocks", "file", "hello", "item", "order", "pool"]
CLIENTS, ROUNDS = 4, 20
# CI has time for one; --all builds the others.
SLICE = [
    ("axum", "release-debug"), ("axum", "release"), ("hyper", "release-debug"), ("tonic", "release-debug"), ("actix", "debug"),
]
MORE = [
    (framework, profile)
    for framework in ("axum", "hyper", "actix", "tonic")
    for profile in ("debug", "release-debug", "release", "v0", "line-tables", "stripped")
]


def pytest_generate_tests(metafunc):
    if "service" in metafunc.fixturenames:
        everything = metafunc.config.getoption("--all")
        chosen = MORE if everything else SLICE
        metafunc.parametrize("service", chosen, ids=["-".join(one) for one in chosen])


def serve(pollux, path, trace, *options):
    """The report's JSON of a recording of all the service's work, and its truth."""
    with driver.Target(path) as target:
        recorder = driver.Recorder(pollux, target.pid, trace, *options)
        recorder.until_compiled()
        target.go()
        truth = target.truth()
        recorder.stop()
        assert target.end() == 0
    return driver.report(pollux, trace), truth


def test_its_own_truth(service, all_of_it):
    """What it says without pollux."""
    framework, profile = service
    result = driver.run(build(f"service-{framework}", profile, "service"))
    truth = driver.split_output(result.stdout)[1]
    assert truth["truth"] == framework
    assert {r["name"]: r["requests"] for r in truth["routes"]} == dict.fromkeys(ROUTES, CLIENTS * ROUNDS)
    assert all(r["p50_us"] <= r["p99_us"] <= r["max_us"] for r in truth["routes"])


def line_of(source, text):
    """The line of src/service/SOURCE.rs that has this text."""
    lines = (TARGETS / "src" / "service" / f"{source}.rs").read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def chains(trace):
    """How often a poll ended pending at each chain of (function, line), the innermost first."""
    read = plx.Trace(trace)
    found = collections.Counter()
    for event in read.events():
        if plx.EVENT.get(event.type) == "poll_end" and event.value:
            found[tuple((p["function"], p["line"]) for p in read.chain(event.value - 1))] += 1
    return found


def in_order(chain, *functions):
    """Whether these functions are links of the chain, from the innermost outwards."""
    links = iter(function for function, _ in chain)
    return all(any(link == wanted for link in links) for wanted in functions)


def chains_of_pauses(found, handlers):
    """Each poll that ended in these handlers' sleeps has the whole chain around them. How many there are depends on
    the machine: the connection may be polled meanwhile, and the time may be over at the first poll."""
    for handler, around in handlers.items():
        of_handler = [chain for chain in found if in_order(chain, "service::work::pause", handler)]
        assert of_handler and all(in_order(chain, handler, *around) for chain in of_handler), of_handler


IN_HYPER = dict.fromkeys(("service::item", "service::work::query"), ("service::route", "service::serve::{async_block#1}"))


def test_places_of_axum(pollux, tmp_path):
    """A default recording knows the await point in the handler, and the whole chain around it."""
    path = build("service-axum", "release-debug", "service")
    trace = tmp_path / "t.plx"
    report, truth = serve(pollux, path, trace)
    assert report["lost"] == 0 and report["waits_without_place"] == 0
    requests = {r["name"]: r["requests"] for r in truth["routes"]}
    connections = {
        (w["function"], w["line"]): w
        for w in report["waits"]
        if w["family"].startswith("axum::serve::")
    }
    # An await point has an item for each handler that waits there.
    n_waits = collections.Counter()
    for w in report["waits"]:
        if w["family"].startswith("axum::serve::"):
            n_waits[w["function"], w["line"]] += w["wait_ns"]["count"]
    own = {key for key in connections if key[0].startswith("service::")}
    pause = ("service::work::pause", line_of("work", "tokio::time::sleep("))
    order = ("service::order", line_of("axum", "orders.send(1)"))
    take_item = ("service::work::take_item", line_of("work", "stock.lock()"))
    # Each of these handlers sleeps once, and no other does; a thread without a CPU may find the time over at once.
    assert 0 < n_waits[pause] <= requests["item"] + requests["pool"]
    assert connections[pause]["awaits"] == "tokio::time::sleep::Sleep"
    # How often the channel is full and the lock is taken depends on the machine; each pending poll has its place.
    by_handler = collections.defaultdict(collections.Counter)
    for w in report["waits"]:
        by_handler[w["handler"]][w["function"], w["line"]] += w["wait_ns"]["count"]
    for f in report["futures"]:
        assert sum(by_handler[f["name"]].values()) == f["polls"] - f["instances"], f["name"]
    assert set(by_handler["service::order"]) <= {order} and set(by_handler["service::item"]) <= {pause, take_item}
    if order in connections:
        assert connections[order]["awaits"].startswith("tokio::sync::mpsc::bounded::send")
        assert connections[order]["leaf"]["function"].startswith("tokio::sync::mpsc::bounded::reserve")
    # A handler that is never pending is no place.
    assert not any(re.search(r"::(blocks|hello)$", function) for function, _ in own)

    found = chains(trace)
    around = "axum::handler::call"
    chains_of_pauses(found, {"service::item": (around,), "service::pool": (around,)})
    # Two boxes: the middleware's, the handler's.
    assert all(
        in_order(chain, "service::item", around, "service::logged")
        and chain[-1][0].startswith("axum::serve::")
        for chain in found
        if in_order(chain, "service::item")
    )


def test_requests_of_hyper(pollux, service, tmp_path):
    """The function that service_fn has got is the handler of all routes, though its poll is a part of hyper's."""
    framework, profile = service
    if framework != "hyper" or profile not in ("debug", "release-debug"):
        pytest.skip("other tests have the other frameworks; there is no debug information")
    trace = tmp_path / "t.plx"
    report, truth = serve(pollux, build("service-hyper", profile, "service"), trace)
    assert report["lost"] == 0 and report["waits_without_place"] == 0
    (family,) = [f for f in report["families"] if "handlers" in f]
    adds_up(family)
    assert family["name"].startswith("service::serve")
    route, none = family["handlers"]
    total = sum(r["requests"] for r in truth["routes"])
    assert route["handler"] == "service::route" and none["handler"] is None
    assert route["requests"] == route["ready"] == route["latency_ns"]["count"] == total
    # The handler's own clock, in whole microseconds, runs within its first and its last poll.
    assert route["latency_ns"]["max"] + 1000 > 1000 * max(r["max_us"] for r in truth["routes"])
    slept = sum(c["count"] for c in route["blocking_calls"] if "nanosleep" in c["call"])
    requests = {r["name"]: r["requests"] for r in truth["routes"]}
    assert slept == requests["blocks"]

    # Waits are in the program's own code, below the handler.
    waits = collections.Counter()
    for w in report["waits"]:
        if w["family"] == family["name"]:
            waits[w["handler"], w["function"], w["line"]] += w["wait_ns"]["count"]
    pause = ("service::route", "service::work::pause", line_of("work", "tokio::time::sleep("))
    assert 0 < waits[pause] <= requests["item"] + requests["pool"]
    # Whether a request waits there at all depends on the machine.
    assert {(function, line) for handler, function, line in waits if handler} <= {
        pause[1:],
        ("service::order", line_of("hyper", "orders.send(1)")),
        *(("service::work::" + function, line_of("work", text)) for function, text in (
            ("take_item", "stock.lock()"), ("query", "acquire"), ("read_file", "tokio::fs::read")))}
    assert {function for handler, function, _ in waits if handler is None} <= {"service::serve::{async_block#1}"}
    chains_of_pauses(chains(trace), IN_HYPER)


def test_hyper_in_its_caller(pollux, tmp_path):
    """Where there is no method that only polls, the one around it has the same requests: hyper 0.14, warp 0.3."""
    path, trace = tmp_path / "service", tmp_path / "t.plx"
    subprocess.run(["objcopy", "--wildcard", "--strip-symbol", "_ZN5hyper*dispatch*10poll_write17h*",
                    build("service-hyper", "release-debug", "service"), path], check=True)
    assert b"10poll_write17h" not in subprocess.run(["nm", path], capture_output=True, check=True).stdout.replace(
        b"AsyncWrite$GT$10poll_write17h", b"")
    report, truth = serve(pollux, path, trace)
    assert report["lost"] == 0 and report["waits_without_place"] == 0
    (family,) = [f for f in report["families"] if "handlers" in f]
    adds_up(family)
    route, none = family["handlers"]
    assert route["handler"] == "service::route" and none["handler"] is None
    assert route["requests"] == route["ready"] == sum(r["requests"] for r in truth["routes"])
    assert route["latency_ns"]["max"] + 1000 > 1000 * max(r["max_us"] for r in truth["routes"])
    chains_of_pauses(chains(trace), IN_HYPER)


def test_hyper_without_debug_information(pollux, tmp_path):
    """The report says why there are no rows by handler, and what to build with."""
    path, trace = tmp_path / "service", tmp_path / "t.plx"
    subprocess.run(["strip", "--strip-debug", "-o", path, build("service-hyper", "release-debug", "service")], check=True)
    report, _ = serve(pollux, path, trace)
    assert "futures" not in report and not any("handlers" in f for f in report["families"])
    (row,) = [c for c in report["coverage"] if c["id"] == "handlers"]
    assert (row["seen"], row["total"]) == (0, 1) and "debug = true" in row["note"]
    text = " ".join(driver.run(pollux, "report", trace).stdout.split())
    assert "no requests by handler here, no lines where tasks wait: build with debug = true in [profile.release]" in text


def test_area_of_hyper(pollux, tmp_path):
    """Another recording uses the area that is there, though the first one has told it where hyper's methods have their future."""
    trace = tmp_path / "t.plx"
    with driver.Target(build("service-hyper", "release-debug", "service")) as target:
        for _ in range(2):
            recorder = driver.Recorder(pollux, target.pid, trace)
            recorder.until_compiled()
            assert recorder.stop()[0] == 0
        recorder = driver.Recorder(pollux, target.pid, trace)
        recorder.until_compiled()
        with open(f"/proc/{target.pid}/mem", "rb") as memory:
            assert len(list(driver.agent_states(target.pid, memory))) == 1
        target.go()
        truth = target.truth()
        assert recorder.stop()[0] == 0 and target.end() == 0
    (family,) = [f for f in driver.report(pollux, trace)["families"] if "handlers" in f]
    assert family["handlers"][0]["requests"] == sum(r["requests"] for r in truth["routes"])


# How the names of tasks begin that serve.
HANDLERS = {
    "axum": "axum::serve::",
    "tonic": "hyper::proto::h2::server::H2Stream",
    "actix": "service::main::{closure",
}


def route_of(name):
    """The route that a handler of this name serves: service::order, service::Shop::order."""
    assert re.fullmatch(r"service::(\w+::)*\w+", name), name
    return name.rsplit("::", 1)[1]


def test_requests_by_handler(pollux, service, tmp_path):
    """A default recording has each route's handler: all its requests, and how long they took."""
    framework, profile = service
    if framework not in HANDLERS or profile not in ("debug", "release-debug"):
        pytest.skip("its handlers are in no boxes, or there is no debug information")
    family = HANDLERS[framework]
    path = build(f"service-{framework}", profile, "service")
    report, truth = serve(pollux, path, tmp_path / "t.plx")
    assert report["lost"] == 0
    rows = {}
    for row in report["futures"]:
        rows[route_of(row["name"])] = row
    assert sorted(rows) == ROUTES and len(report["futures"]) == len(ROUTES)
    # A method without a self has its type's name.
    assert rows["hello"]["name"] == ("service::Pages::hello" if framework == "axum" else rows["hello"]["name"])
    for route in truth["routes"]:
        row = rows[route["name"]]
        assert row["instances"] == row["ready"] == row["life_ns"]["count"] == route["requests"]
        assert row["family"].startswith(family)
        # The handler's own clock runs within its first and its last poll, and in whole microseconds.
        assert row["life_ns"]["max"] + 1000 > 1000 * route["max_us"]
    # One that blocks is never pending, one that sleeps is once at least.
    assert rows["blocks"]["wait_ns"]["count"] == 0
    sleeps = rows["pool"]
    assert 2 * sleeps["instances"] <= sleeps["polls"]
    assert sleeps["life_ns"]["max"] >= sleeps["wait_ns"]["max"] >= 2_000_000


def routes_of(name):
    """The routes that a handler of this name may serve: of functions that do the same there is one."""
    names = re.sub(r" #\d+$", "", name).split(" or ")
    return set(ROUTES) if "another" in names else {route_of(one) for one in names}


def test_requests_by_symbols(pollux, service, tmp_path):
    """Without debug information the same, by symbols; without these, or without boxes, no rows."""
    framework, profile = service
    if profile in ("debug", "release-debug"):
        pytest.skip("there is debug information")
    trace = tmp_path / "t.plx"
    report, truth = serve(pollux, build(f"service-{framework}", profile, "service"), trace)
    assert report["lost"] == 0
    known = [(c["seen"], c["total"], bool(c["note"])) for c in report["coverage"] if c["id"] == "handlers"]
    advice = driver.run(pollux, "report", trace).stdout.partition("What to do next")[2].split("\n\n")[0]
    if framework not in HANDLERS or profile == "stripped":
        assert "futures" not in report
        assert not any("handlers" in f for f in report["families"])
        # The report says why, and what to build with.
        assert known == ([] if profile == "stripped" else [(0, 1, True)])
        assert "no requests by handler here" in " ".join(advice.split()) or profile == "stripped" and "stripped" in advice
        return
    rows = report["futures"]
    unique = sum(" or " not in row["name"] for row in rows)
    assert known == [(unique, len(rows), unique < len(rows))]
    assert ("two handlers have one name" in " ".join(advice.split())) == (unique < len(rows))
    assert len(rows) == len(ROUTES)
    requests = {r["name"]: r["requests"] for r in truth["routes"]}
    for row in rows:
        routes = routes_of(row["name"])
        assert routes <= set(ROUTES)
        assert row["instances"] == row["ready"] == row["life_ns"]["count"]
        assert row["instances"] in {requests[route] for route in routes}
        if len(routes) == 1:
            slowest = max(r["max_us"] for r in truth["routes"] if r["name"] in routes)
            assert row["life_ns"]["max"] + 1000 > 1000 * slowest
        # Not more rows than there are functions of that name.
        same = [other for other in rows if routes_of(other["name"]) == routes]
        assert len(same) <= len(routes)
    assert set.union(*(routes_of(row["name"]) for row in rows)) == set(ROUTES)
    assert sum(len(routes_of(row["name"])) == 1 for row in rows) >= len(ROUTES) - 2
    assert sum(row["instances"] for row in rows) == sum(requests.values())
    for family in report["families"]:
        if "handlers" in family:
            adds_up(family)


# What handlers and families have in common: numbers, and histograms by their exact members.
SUMS = ["polls", "polls_of_unknown_length", "wakes", "self_wakes", "deferred_wakes", "stray_wakes", "waiting_ns",
        "scheduled_ns", "blocked_ns"]
HISTS = ["poll_ns", "sched_delay_ns"]


def adds_up(family):
    """A family's handlers, and what is in none, add up to the family."""
    parts = family["handlers"]
    assert [p["handler"] for p in parts].count(None) == 1 and parts[-1]["handler"] is None
    for key in SUMS:
        assert family[key] == sum(p[key] for p in parts), key
    for key in HISTS:
        assert family[key]["count"] == sum(p[key]["count"] for p in parts), key
        assert family[key]["sum"] == sum(p[key]["sum"] for p in parts), key
        assert family[key]["max"] == max(p[key]["max"] for p in parts), key
    calls = collections.Counter()
    for part in parts:
        for call in part["blocking_calls"]:
            calls[call["call"]] += call["count"]
    assert calls == {call["call"]: call["count"] for call in family["blocking_calls"]}


def test_families_by_handler(pollux, service, tmp_path):
    """What a connection's tasks do is split by what they serve, exactly."""
    framework, profile = service
    if framework not in HANDLERS or profile not in ("debug", "release-debug"):
        pytest.skip("its handlers are in no boxes, or there is no debug information")
    trace = tmp_path / "t.plx"
    report, truth = serve(pollux, build(f"service-{framework}", profile, "service"), trace)
    assert report["lost"] == 0
    split = [f for f in report["families"] if "handlers" in f]
    requests = collections.Counter()
    for family in split:
        assert family["name"].startswith(HANDLERS[framework])
        adds_up(family)
        for part in family["handlers"][:-1]:
            assert part["requests"] == part["ready"] == part["latency_ns"]["count"]
            requests[route_of(part["handler"])] += part["requests"]
    assert requests == {r["name"]: r["requests"] for r in truth["routes"]}
    by_route = {route_of(p["handler"]): p for f in split for p in f["handlers"][:-1]}
    # The handler's own clock, in whole microseconds, runs within its first and its last poll.
    for route in truth["routes"]:
        assert by_route[route["name"]]["latency_ns"]["max"] + 1000 > 1000 * route["max_us"]
    # One blocks in each request, and is the only one that does for long.
    blocks = by_route["blocks"]
    slept = sum(c["count"] for c in blocks["blocking_calls"] if "nanosleep" in c["call"])
    assert slept == requests["blocks"] and blocks["waiting_ns"] == 0
    assert by_route["order"]["blocked_ns"] < blocks["blocked_ns"]
    long = [p for p in report["longest_polls"]
            if any("nanosleep" in c["call"] and c["ns"] >= 1_000_000 for c in p["blocking_calls"])]
    assert long and all(route_of(p["handler"]) == "blocks" for p in long)

    # A method of a trait is called after its type; what calls it is generated, and is no handler.
    if framework == "tonic":
        assert {p["handler"] for f in split for p in f["handlers"][:-1]} == {f"service::work::Shop::{r}" for r in ROUTES}

    # Waits are told with the handler that waits.
    waits = collections.Counter()
    for w in report["waits"]:
        if w["handler"]:
            waits[route_of(w["handler"]), w["function"]] += w["wait_ns"]["count"]
    if framework == "axum":
        for route in ("item", "pool"):
            assert 0 < waits[route, "service::work::pause"] <= requests[route]
        assert {route for route, function in waits if function == "service::order"} <= {"order"}

    # In a window, too.
    begins = sorted(p["begin_ns"] for p in report["longest_polls"])
    middle = begins[len(begins) // 2]
    halves = [driver.report(pollux, trace, "--to", f"{middle}ns"), driver.report(pollux, trace, "--from", f"{middle}ns")]
    for half in halves:
        for family in half["families"]:
            if "handlers" in family:
                adds_up(family)
    plain = driver.report(pollux, trace, "--by", "task")
    assert not any("handlers" in f for f in plain["families"])


def test_one_handler(pollux, tmp_path):
    """--family finds a handler; --task shows the requests that a task served."""
    trace = tmp_path / "t.plx"
    report, truth = serve(pollux, build("service-axum", "release-debug", "service"), trace)
    family = next(f for f in report["families"] if "handlers" in f)
    order = next(p for p in family["handlers"] if p["handler"] == "service::order")
    alone = driver.report(pollux, trace, "--family", "order")
    (only,) = alone["families"]
    adds_up(only)
    assert [p["handler"] for p in only["handlers"]] == ["service::order", None]
    for key in SUMS + ["requests"]:
        assert only["handlers"][0][key] == order[key], key
    assert only["polls"] == order["polls"] and only["handlers"][1]["polls"] == 0
    assert {w["handler"] for w in alone["waits"]} == {"service::order"}
    printed = driver.run(pollux, "print", trace, "--json", "--family", "order").stdout.splitlines()
    printed = [json.loads(line) for line in printed]
    ends = [e for e in printed if e["event"] == "future_end"]
    assert {e["event"] for e in printed} == {"future_begin", "future_end"} and len(ends) == order["polls"]
    result = driver.run(pollux, "print", trace, "--family", "ordr")
    assert result.returncode == 1 and not result.stdout and "ordr" in result.stderr
    result = driver.run(pollux, "report", trace, "--family", "ordr")
    assert result.returncode == 1 and "service::" in result.stderr

    assert driver.run(pollux, "report", trace, "--by", "route").returncode == 2

    # In the export each request is a slice around its polls; with --family, those of the handler.
    def slices(*options):
        result = driver.run(pollux, "export", trace, "-o", "-", *options)
        assert result.returncode == 0, result.stderr
        return [e for e in json.loads(result.stdout)["traceEvents"] if e["ph"] == "X"]

    exported = [e for e in slices() if e["cat"] == "request"]
    # One has none if it shares its only poll with another, which took longer: its client was quick.
    shown = collections.Counter(e["name"] for e in exported)
    by_route = collections.Counter({route_of("service::" + name): n for name, n in shown.items()})
    assert all(1 <= by_route[r["name"]] <= r["requests"] for r in truth["routes"]) and len(shown) == len(ROUTES), shown
    polls = collections.Counter()
    for e in exported:
        polls[e["args"]["handler"]] += e["args"]["polls"]
    assert polls == {p["handler"]: p["polls"] for p in family["handlers"][:-1]}
    of_order = slices("--family", "order")
    assert collections.Counter(e["name"] for e in of_order if e["cat"] == "request") == {"order": shown["order"]}
    named = [e["name"] for e in of_order if e["cat"] == "poll" and e["name"] != "poll"]
    assert len(named) == order["polls"] and all(re.fullmatch(r"order #\d+", name) for name in named)

    lives = driver.report(pollux, trace, *(w for p in report["longest_polls"][:1] for w in ("--task", str(p["task"]))))
    requests = lives["lives"][0]["requests"]
    # Each client asks for the routes in its own order, over and over again, on one connection.
    assert collections.Counter(route_of(q["handler"]) for q in requests) == dict.fromkeys(ROUTES, ROUNDS)
    assert [q["begin_ns"] for q in requests] == sorted(q["begin_ns"] for q in requests)
    for before, after in zip(requests, requests[1:]):
        assert before["begin_ns"] + before["duration_ns"] <= after["begin_ns"]
    for q in requests:
        assert q["outcome"] == "ready"
        assert sum(w["ns"] for w in q["waits"]) <= q["duration_ns"]
    assert all(w["function"] == "service::order" for q in requests if q["handler"] == "service::order" for w in q["waits"])


def requests_by_route(report):
    """How many requests each handler's row has."""
    return {
        route_of(p["handler"]): p["requests"]
        for f in report["families"] if "handlers" in f
        for p in f["handlers"][:-1]
    }


def test_installed_service(pollux, tmp_path):
    """Of a program whose source lies in cargo's registry, its own package is its own."""
    trace = tmp_path / "t.plx"
    report, truth = serve(pollux, build("service-axum", "installed", "service"), trace)
    assert requests_by_route(report) == {r["name"]: r["requests"] for r in truth["routes"]}
    # Its files are named as those of any other program, a library's as before.
    files = {(w["function"].split("::")[0], w["file"]) for w in report["waits"]}
    assert {file for crate, file in files if crate == "service"} == {
        f"src/service/{name}.rs" for name in ("axum", "work")
    }
    assert all("/registry/src/" in file for crate, file in files if crate != "service")


@pytest.mark.parametrize("profile", ["release-debug", "release"])
def test_own_crates(pollux, profile, tmp_path):
    """record --own says which crates' handlers are recorded."""
    path = build("service-axum", profile, "service")
    of_shop, truth = serve(pollux, path, tmp_path / "shop.plx", "--own", "service", "--own", "shop")
    if profile == "release-debug":
        assert requests_by_route(of_shop) == {r["name"]: r["requests"] for r in truth["routes"]}
    else:
        total = sum(sum(p["requests"] for p in f["handlers"][:-1]) for f in of_shop["families"] if "handlers" in f)
        assert total == sum(r["requests"] for r in truth["routes"])
    of_none, _ = serve(pollux, path, tmp_path / "none.plx", "--own", "shop")
    # Legacy symbols do not tell of some handlers whose they are.
    left = {p["handler"] for f in of_none["families"] if "handlers" in f for p in f["handlers"][:-1]}
    assert not any(name and name.startswith("service::") for name in left)
    if profile == "release-debug":
        assert not left
        assert not any(w["function"] == "service::order" for w in of_none["waits"] if "axum" in w["family"])


def test_near_places_of_axum(pollux, tmp_path):
    """--places=near ends at the first box, off has none; --own chooses another crate's places."""
    path = build("service-axum", "release-debug", "service")
    traces = {}
    for depth in ("near", "deep", "off"):
        traces[depth] = tmp_path / f"{depth}.plx"
        serve(pollux, path, traces[depth], f"--places={depth}")
    of = {
        depth: {w["function"] for w in driver.report(pollux, trace)["waits"] if "axum" in w["family"]}
        for depth, trace in traces.items()
    }
    assert not of["off"]
    assert "futures" not in driver.report(pollux, traces["near"])
    assert len(of["near"]) == 1 and of["near"] < of["deep"] and "service::work::pause" in of["deep"]
    theirs = driver.report(pollux, traces["deep"], "--own", "axum")
    places = {w["function"] for w in theirs["waits"] if "axum" in w["family"]}
    assert places == of["near"] | {"axum::handler::call"}


def test_depth_of_places(pollux):
    """What --places takes."""
    result = driver.run(pollux, "record", "--places=far", "--", "true")
    assert result.returncode == 2 and "deep, near or off" in result.stderr


def test_requests_among_futures(pollux, service, tmp_path):
    """--futures has the rows by handler that a default recording has, and each handler's future as well."""
    framework, profile = service
    if profile not in ("debug", "release-debug"):
        pytest.skip("there is no debug information")
    trace = tmp_path / "t.plx"
    report, truth = serve(pollux, build(f"service-{framework}", profile, "service"), trace, "--futures")
    assert report["lost"] == 0
    requests = {r["name"]: r["requests"] for r in truth["routes"]}
    rows = [p for f in report["families"] if "handlers" in f for p in f["handlers"] if p["handler"]]
    for family in report["families"]:
        if "handlers" in family:
            adds_up(family)
    counted = collections.Counter()
    for row in rows:
        assert row["requests"] == row["ready"] == row["latency_ns"]["count"]
        counted[route_of(row["handler"])] += row["requests"]
    if framework == "hyper":
        assert counted == {"route": sum(requests.values())}
        return
    assert counted == requests
    # What a task waits for is in the program's own code, as in the default recording.
    waits = collections.Counter()
    for w in report["waits"]:
        if w["handler"]:
            waits[route_of(w["handler"]), w["function"]] += w["wait_ns"]["count"]
    for route in ("item", "pool"):
        assert 0 < waits[route, "service::work::pause"] <= requests[route]
    if framework == "axum":
        handlers = {f["name"]: f["instances"] for f in report["futures"] if f["name"].startswith("axum::handler::call<")}
        assert handlers == {f"axum::handler::call<service::{name}>": n for name, n in requests.items()}
    # The table of futures leaves out what the table of requests has.
    text = driver.run(pollux, "report", trace, "--no-pager", "--top", "1000").stdout
    futures = text.partition("\nFutures\n")[2].partition("\n\n")[0]
    names = [line.split("  ")[1] for line in futures.splitlines()[1:]]
    assert len(names) == len(report["futures"]) - len(rows)


def test_attached_again(pollux, tmp_path):
    """What a recording learns of handlers does not make the next one need memory of its own."""
    with driver.Target(build("service-axum", "release-debug", "service")) as target:
        for i in range(3):
            recorder = driver.Recorder(pollux, target.pid, tmp_path / f"{i}.plx", "-v")
            recorder.until_compiled()
            code, said = recorder.stop()
            assert code == 0, said
            assert ("(used again)" in said) == (i > 0), said
        target.go()
        target.truth()
        assert target.end() == 0
