# SPDX-License-Identifier: MIT OR Apache-2.0
"""Panics of programs with one unwinder or another, or several: they go where they go without pollux,
whatever of the agent's is on the stack."""
import json
import re

import build
import catalogue
import driver
import pytest

LIBGCC = "libgcc_s.so.1"
LIBRARIES = ("release", "own-libunwind", "own-libgcc", "second-libgcc", "lazy", "std-apart")
OPTIONS = {"plain": [], "futures": ["--futures"]}


@pytest.fixture
def steps(suite):
    """steps(STEP...): the command of tests/targets/unwinders/load.c, with a profile for its library."""

    def step(text):
        how, name = re.fullmatch(r"((?:\w+:)?)(.*)", text).groups()
        library = name in LIBRARIES and suite("unwinders", name, "libpanics_inside.so")
        return f"{how}{library}" if library else text

    load = build.compile_c(build.TARGETS / "unwinders" / "load.c", "load-panics", "-ldl")
    return lambda *texts: [load, *map(step, texts)]


def wait_for(target, n, wanted):
    """Until the program has printed n lines that are as wanted."""
    target.wait_for(lambda _: sum(map(wanted, target.lines)) >= n)


def record(pollux, trace, command, options=(), env=None):
    """(exit status, output) of a program that is recorded at each of its "--wait"."""
    stages = " ".join(map(str, command)).split("--wait")[1:]
    n_done = 0
    with driver.Target(*command, env=env, wait=()) as target:
        for n, stage in enumerate(stages):
            wait_for(target, n + 1, lambda line: line.startswith("ready "))
            recorder = driver.Recorder(pollux, target.pid, trace, *options)
            target.go()
            n_done += stage.count("=")
            wait_for(target, n_done, str.isdigit)
            code, said = recorder.stop()
            assert code == 0, said
        return target.end(), target.output()


# What is loaded, in this order, what is after "--wait" when pollux is there; and whether what a panic
# does in the library can be seen.
ORDERS = {
    "libunwind-first": (["own-libunwind", LIBGCC, "--wait"], False),
    "libunwind-last": ([LIBGCC, "own-libunwind", "--wait"], False),
    "libunwind-alone": (["own-libunwind", "--wait"], False),
    "libgcc-later": (["own-libunwind", "--wait", LIBGCC], False),
    "libgcc-inside": ([LIBGCC, "own-libgcc", "--wait"], False),
    "second-libgcc-first": (["second-libgcc", LIBGCC, "--wait"], True),
    "second-libgcc-last": ([LIBGCC, "second-libgcc", "--wait"], True),
    "lazy": (["lazy:lazy", "--wait"], True),
    "deep": ([LIBGCC, "deep:second-libgcc", "--wait"], True),
    "apart": ([LIBGCC, "apart:release", "--wait"], True),
    "both": (["second-libgcc", "release", "--wait", "own-libunwind"], False),
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("order", ORDERS)
def test_panics_of_a_library(pollux, steps, trace, order, options):
    libraries, seen = ORDERS[order]
    work = ["=run", "=task", "=boxed", "=read"]
    code, output = record(pollux, trace, steps(*libraries, *work), OPTIONS[options])
    assert code == 0
    assert output == ["25", "25", "25", "50"]
    if libraries[-1] == "own-libunwind":
        return  # it came when pollux had looked
    report = driver.report(pollux, trace)
    tasks = report["tasks"]
    assert tasks["panicked"] == (75 if seen else None), tasks
    # Fifty in each, but the ends of runs may be unknown. The two workers' tasks never end. The program waits for
    # results, which are there before the poll is over: each worker may be in one still when the program ends.
    families = [f for f in report["families"] if f["role"] == "task" and not f["name"].endswith("panics_run")]
    still_in = sum(f["alive"] for f in families)
    ended = tasks["completed"] + (tasks["panicked"] or 0)
    assert ended + min(still_in, 2) == (200 if seen else 150), tasks


@pytest.mark.parametrize("libraries,seen", [
    (["own-libunwind", LIBGCC], False), (["own-libgcc"], False), ([LIBGCC, "second-libgcc"], True),
], ids=["own-libunwind", "own-libgcc", "second-libgcc"])
def test_coverage_of_unwinders(pollux, steps, trace, libraries, seen):
    """What isn't seen is reported, with the library's name."""
    code, _ = record(pollux, trace, steps(*libraries, "--wait", "=run"), ["--futures"])
    assert code == 0
    told = driver.report(pollux, trace)["coverage"]
    for item in ("objects' poll ends", "objects' panics"):
        found = [c for c in told if c["item"] == item]
        assert len(found) == (not seen), item
        for c in found:
            assert (c["seen"], c["total"]) == (0, 1)
            assert "libpanics_inside.so" in c["note"]
    assert any(c["seen"] for c in told if c["item"] == "future polls") == seen


def test_panics_that_start_in_another_library(pollux, steps, trace):
    """std lies in a library that has no runtime and isn't hooked."""
    code, output = record(pollux, trace, steps("std-apart", "--wait", "=task"))
    assert code == 0
    assert output == ["25"]
    report = driver.report(pollux, trace)
    told = [c for c in report["coverage"] if c["item"] == "objects' panics"]
    assert [(c["seen"], c["total"]) for c in told] == [(0, 1)]
    assert report["tasks"]["panicked"] is None


@pytest.mark.parametrize("work", ["run", "boxed"])
def test_another_unwinder_at_the_second_attach(pollux, steps, trace, work):
    """The frames were registered with libgcc_s when a library comes that has a copy of it."""
    command = steps("release", "--wait", f"={work}", "second-libgcc", "--wait", f"={work}")
    code, output = record(pollux, trace, command, ["--futures"])
    assert code == 0
    assert output == ["25", "25"]
    assert driver.report(pollux, trace)["tasks"]["panicked"] == 25


@pytest.mark.parametrize("libraries", [["release"], [LIBGCC, "own-libgcc"], [LIBGCC, "second-libgcc"]],
                         ids=lambda libraries: libraries[-1])
def test_cancelled_threads(pollux, steps, trace, libraries):
    """pthread_cancel() unwinds a thread out of a call that is hooked: what it holds is dropped."""
    code, output = record(pollux, trace, steps(*libraries, "--wait", "=cancel"))
    assert code == 0
    assert output == ["50"]


@pytest.mark.parametrize("profile", ["own-libunwind", "own-libgcc"])
@pytest.mark.parametrize("work", ["run", "task"])
def test_backtrace_of_an_unwinder_that_does_not_know(pollux, steps, trace, profile, work):
    """A backtrace may end at the agent's frame. The panic goes on."""
    env = {"PANIC_MESSAGES": "1", "RUST_BACKTRACE": "full"}
    code, output = record(pollux, trace, steps(profile, "--wait", f"={work}"), env=env)
    assert code == 0
    assert output == ["25"]


SUITES = [
    ("smol-2.0", "own-libunwind", "own_panic"),
    ("smol-2.0", "second-libgcc", "own_panic"),
    ("smol-2.0", "static-stripped", "own_panic"),
    ("tokio-1.54", "own-libunwind", "panic"),
    ("tokio-1.54", "static-stripped", "panic"),
]


@pytest.mark.parametrize("case_of", [
    ("tokio-1.54", "own-libunwind", "abort", "launched"),
    ("tokio-1.54", "own-libunwind", "sleep_in_poll", "attached"),
    ("tokio-1.54", "static-stripped", "abort", "attached"),
    ("tokio-1.54", "static-stripped", "panic_caught", "launched"),
    ("smol-2.0", "second-libgcc", "panic", "attached"),
], ids="-".join)
def test_truth_with_any_unwinder(pollux, case_of, tmp_path, all_of_it):
    """Tokio's polls are seen whole, whatever the unwinder."""
    wrong = catalogue.check(pollux, case_of, tmp_path, all_of_it)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("mode", catalogue.MODES)
@pytest.mark.parametrize("package,profile,program", SUITES)
def test_panics_of_a_program(pollux, suite, trace, package, profile, program, mode, options):
    """With libgcc_s in addition to its own unwinder."""
    output, code, _ = catalogue.alone(package, profile, program)
    record = driver.record_launched if mode == "launched" else driver.record_attached
    env = {} if "static" in profile else {"LD_PRELOAD": LIBGCC}
    recorded = record(pollux, trace, suite(package, profile), program, env=env,
                      options=OPTIONS[options])
    assert recorded.output == output
    assert recorded.code == code
    if package.startswith("tokio"):
        tasks, true = driver.report(pollux, trace)["tasks"], recorded.truth["totals"]
        assert tasks["completed"] == true["completed"] + true["panicked"], (tasks, true)


@pytest.mark.parametrize("name, seen", [("own-libunwind", False), ("own-libgcc", False), ("release", True)])
def test_doctor_says_where_panics_are_not_seen(pollux, suite, name, seen):
    done = driver.run(pollux, "doctor", "--json", suite("unwinders", name, "libpanics_inside.so"))
    rows = [c for o in json.loads(done.stdout)["objects"] for c in o["coverage"] if c["item"] == "panics"]
    assert [(c["seen"], c["total"]) for c in rows] == ([] if seen else [(0, 1)])


def test_two_libraries_of_one_name(pollux, steps, trace):
    """Each has a Tokio and an async-task of its own: whose a row is, is said."""
    code, _ = record(pollux, trace, steps("second-libgcc", "release", "--wait", "=task"))
    assert code == 0
    report = driver.report(pollux, trace)
    rows = [(f["name"], f["role"]) for f in report["families"]]
    assert len(rows) == len(set(rows)), rows
    objects = {f["object"] for f in report["families"]}
    assert objects and all(o.endswith("/libpanics_inside.so") for o in objects)
    told = [(c["object"], c["runtime"], c["item"]) for c in report["coverage"] if c["object"]]
    assert len(told) == len(set(told)), told
    assert len({c[0] for c in told}) == 2 and {c[1] for c in told} == {"tokio", "async-task", ""}
    head = " ".join(driver.run(pollux, "report", trace).stdout.split("\n\n")[0].split())
    folders = [o.split("/")[-2] for o in sorted({c[0] for c in told})]
    assert all(f" in {folder}/libpanics_inside" in head for folder in folders), head
