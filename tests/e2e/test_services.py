# SPDX-License-Identifier: MIT OR Apache-2.0
"""Web services, which count their requests by route and are their own load (tests/targets/src/service)."""
import driver
import pytest
from build import build

ROUTES = ["blocks", "file", "hello", "item", "order", "pool"]
CLIENTS, ROUNDS = 4, 20
# CI has time for one; --all builds the others.
SLICE = [("axum", "release-debug")]
MORE = [
    (framework, profile)
    for framework in ("axum", "hyper", "actix")
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


@pytest.mark.parametrize("profile", ["release-debug"])
def test_handlers_of_axum_are_futures(pollux, profile, tmp_path):
    """--futures has an instance of each route's handler for each request to it."""
    path = build("service-axum", profile, "service")
    report, truth = serve(pollux, path, tmp_path / "t.plx", "--futures")
    assert report["lost"] == 0
    handlers = {
        f["name"]: f["instances"]
        for f in report["futures"]
        if f["name"].startswith("axum::handler::call<")
    }
    assert handlers == {
        f"axum::handler::call<service::{r['name']}>": r["requests"] for r in truth["routes"]
    }
