# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where `pollux why` says that the time went, against programs of which it is known: tests/targets/causes, and
the demo's server. Who waited for whom, and that all adds up, is exact; times have room for a busy machine."""
import json
import subprocess
import time

import build as builder
import driver
import pytest

WAIT = 60e6  # ns, as in the program
UNKNOWN = "unknown"


@pytest.fixture(scope="module")
def program(pollux, suite, tmp_path_factory):
    path = suite("causes", "release-debug", "causes")
    trace = tmp_path_factory.mktemp("cache") / "causes.plx"
    with driver.Target(path, wait=()) as target:
        driver.into_cache(pollux, target.pid, trace)
    return path


def record(pollux, program, trace, *options, **how):
    done = driver.run(pollux, "record", "-o", trace, *options, "--", program, stdin=subprocess.DEVNULL, **how)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def trace_of_all(pollux, program, tmp_path_factory):
    """A recording in which await points are known early. pollux reads them at a low priority while the program
    runs, so that on a busy machine a program of a second may be over before."""
    trace = tmp_path_factory.mktemp("causes") / "causes.plx"
    for _ in range(5):
        record(pollux, program, trace)
        waits = driver.report(pollux, trace)["waits"]
        if any(w["family"].endswith("lock_client") for w in waits):
            break
    return trace


def causes_of(pollux, trace, *options):
    """{(family, handler): its causes}; everything in them adds up."""
    done = driver.run(pollux, "why", trace, "--json", *options)
    assert done.returncode == 0, done.stderr
    found = {}
    for one in json.loads(done.stdout)["causes"]:
        assert one["tree"]["ns"]["sum"] == one["length_ns"]["sum"] and one["left_out"] == 0, one
        assert one["tree"]["slowest"]["sum"] == one["slowest"]["sum"]
        check_sums(one["tree"])
        found[one["family"], one["handler"]] = one
    return found


def check_sums(node):
    if not node["below"]:
        return
    assert sum(n["ns"]["sum"] for n in node["below"]) == node["ns"]["sum"], node
    assert sum(n["slowest"]["sum"] for n in node["below"]) == node["slowest"]["sum"], node
    for below in node["below"]:
        check_sums(below)


@pytest.fixture(scope="module")
def tasks(pollux, trace_of_all):
    """tasks(NAME): the tree of the one whole task of that family."""
    found = causes_of(pollux, trace_of_all, "--unit", "task", "--family", "causes::")

    def tree(name):
        one = found[f"causes::{name}", None]
        assert one["unit"] == "task" and one["length_ns"]["count"] == 1, one
        return one["tree"]
    return tree


def what(node):
    place = node.get("place") or {}
    return node["cause"], (node.get("family") or node.get("call") or place.get("awaits") or "")


def find(node, *path):
    """The cause at the end of the path of (cause, part of its name), of which each must be the only one."""
    for cause, name in path:
        fitting = [n for n in node["below"] if what(n)[0] == cause and name in what(n)[1]]
        assert len(fitting) == 1, (cause, name, [what(n) for n in node["below"]])
        (node,) = fitting
    return node


def sum_of(node):
    return node["ns"]["sum"]


def near(ns, wanted, of=None):
    """It took so long, or longer: nothing that sleeps is woken early (but for the clock's own steps)."""
    return wanted - 3e6 <= ns <= (of or wanted * 20)


def test_lock(tasks):
    """Its holders in turn, each for as long as it had the lock since the client came."""
    client = tasks("lock::lock_client")
    lock = find(client, ("waiting", "mutex"))
    assert {what(n) for n in lock["below"]} == {
        ("holder", "causes::lock::first_holder"), ("holder", "causes::lock::second_holder")}
    second = find(lock, ("holder", "second_holder"))
    assert near(sum_of(find(second, ("waiting", "Sleep"), ("timer", ""))), WAIT)
    first = find(lock, ("holder", "first_holder"))
    # The client comes after a quarter of its time.
    assert sum_of(find(first, ("waiting", "Sleep"), ("timer", ""))) < sum_of(second) * 20
    # The second one waits for the first alone.
    waits = find(tasks("lock::second_holder"), ("waiting", "mutex"))
    assert [what(n) for n in waits["below"]] == [("holder", "causes::lock::first_holder")]
    assert near(sum_of(waits), WAIT)


def test_lines(pollux, program, tmp_path):
    """With the stacks of long polls, a call has the line that it is in."""
    trace = tmp_path / "causes.plx"
    record(pollux, program, trace, "--long-poll=10ms")
    found = causes_of(pollux, trace, "--unit", "task", "--family", "ready_task")
    ready = find(found["causes::busy::ready_task", None]["tree"], ("ready", ""))
    calls = [n for n in find(ready, ("worker_busy", "keeps_worker"))["below"] if n["cause"] == "blocking_call"]
    places = {(n["place"] or {}).get("function") for n in calls}
    assert any(name and "keeps_worker" in name for name in places), calls


@pytest.mark.skipif(driver.os.geteuid() != 0, reason="needs root")
def test_sched(pollux, program, tmp_path):
    """With --sched a poll that had no CPU says so, and calls are still the calls they were."""
    trace = tmp_path / "causes.plx"
    cpu = min(driver.os.sched_getaffinity(0))
    said = record(pollux, program, trace, "--sched", preexec_fn=lambda: driver.os.sched_setaffinity(0, {cpu}))
    if "CAP_BPF" in said:
        pytest.skip(said.strip())
    found = causes_of(pollux, trace, "--unit", "task", "--family", "causes::")
    computes = found["causes::computing::computes", None]["tree"]
    without_cpu = [n for n in computes["below"] if n["cause"] == "preempted"]
    assert without_cpu and sum(map(sum_of, without_cpu)) > 5e6, computes["below"]
    ran = [n for below in without_cpu for n in below["below"]]
    assert {n["cause"] for n in ran} == {"ran_instead"} and any(n["thread"] for n in ran), without_cpu
    assert all(n["longest_tid"] for n in ran if n["thread"] and not n["idle"]), ran
    ready = find(found["causes::busy::ready_task", None]["tree"], ("ready", ""))
    busy = find(ready, ("worker_busy", "keeps_worker"), ("blocking_call", "nanosleep"))
    assert near(sum_of(busy), WAIT, sum_of(ready))


def test_busy(tasks):
    ready = find(tasks("busy::ready_task"), ("ready", ""))
    busy = find(ready, ("worker_busy", "keeps_worker"), ("blocking_call", "nanosleep"))
    assert near(sum_of(busy), WAIT, sum_of(ready))
    assert near(sum_of(find(tasks("busy::keeps_worker"), ("blocking_call", "nanosleep"))), WAIT)


def test_pool(tasks):
    # Functions as closures of the pool have one name, by their type: "fn()".
    job = find(tasks("pool::waits_for_pool"), ("waiting", "JoinHandle"), ("task", ""))
    queued = find(job, ("ready", ""), ("worker_busy", ""), ("blocking_call", "nanosleep"))
    assert near(sum_of(queued), WAIT * 0.9, sum_of(job))
    assert near(sum_of(find(job, ("blocking_call", "nanosleep"))), WAIT / 2, sum_of(job))


def test_channel(tasks):
    source = find(tasks("channel::message_sink"), ("waiting", "recv"), ("task", "message_relay"),
                  ("waiting", "recv"), ("task", "message_source"))
    assert near(sum_of(find(source, ("waiting", "Sleep"), ("timer", ""))), WAIT)


def test_join(tasks):
    joined = find(tasks("join::joins"), ("waiting", "JoinHandle"), ("task", "joined_task"))
    assert near(sum_of(find(joined, ("waiting", "Sleep"), ("timer", ""))), WAIT)


def test_select(tasks):
    tells = find(tasks("select::selects"), ("waiting", "select!"), ("task", "tells"))
    assert near(sum_of(find(tells, ("waiting", "Sleep"), ("timer", ""))), WAIT)
    assert near(sum_of(find(tasks("select::times_out"), ("waiting", "Timeout"), ("timer", ""))), WAIT)


def test_runtimes(tasks):
    other = find(tasks("runtimes::asks_other"), ("waiting", "oneshot"), ("task", "other_runtime"))
    assert near(sum_of(find(other, ("blocking_call", "nanosleep"))), WAIT)
    assert near(sum_of(find(tasks("runtimes::asks_thread"), ("waiting", "oneshot"), ("thread", ""))), WAIT)


@pytest.mark.parametrize("package", ["smol-2", "async-std-1.13"])
def test_async_task(pollux, tmp_path, package):
    """The same on smol and async-std, whose executors, pools and timers are others."""
    trace = tmp_path / "causes.plx"
    program = builder.build(package, "release-debug", "causes", root=builder.ROOT / "tests" / "futures")
    with driver.Target(program, wait=()) as target:
        recorder = driver.Recorder(pollux, target.pid, trace)
        recorder.until_compiled()
        target.go()
        target.wait_for(lambda line: line == "done")
        code, said = recorder.stop()
        assert code == 0, said
        assert target.end() == 0
    found = causes_of(pollux, trace, "--unit", "task", "--family", "causes::")
    trees = {family.split("causes::")[-1]: one["tree"] for (family, _), one in found.items()}

    def on_the_way(name, *causes):
        """The only cause of that name below its task that has the path of causes above it."""
        paths = [path for path in all_paths(trees[name]) if fits(path, causes)]
        assert len(paths) == 1, (causes, [[what(n) for n in path] for path in all_paths(trees[name])])
        return sum_of(paths[0][-1])
    assert near(on_the_way("lock_client", ("holder", "first_holder"), ("waiting", ""), ("", "")), WAIT * 0.8)
    chain = ("task", "message_relay"), ("task", "message_source")
    assert near(on_the_way("message_sink", *chain, ("waiting", ""), ("", "")), WAIT)
    assert near(on_the_way("joins", ("task", "joined_task"), ("blocking_call", "nanosleep")), WAIT)
    assert near(on_the_way("asks_pool", ("task", ""), ("blocking_call", "nanosleep")), WAIT)
    assert near(on_the_way("times_out", ("waiting", ""), ("", "")), WAIT)


def all_paths(node, above=()):
    for below in node["below"]:
        yield (*above, below)
        yield from all_paths(below, (*above, below))


def fits(path, causes):
    """Whether the path ends with the last cause and has the others above it, in that order."""
    wanted = list(causes)
    fits_one = lambda node, one: one[0] in ("", what(node)[0]) and one[1] in what(node)[1]
    if not fits_one(path[-1], wanted.pop()):
        return False
    for node in path[:-1]:
        if wanted and fits_one(node, wanted[0]):
            wanted.pop(0)
    return not wanted


def test_rounds(pollux, trace_of_all):
    """From a request at the socket to the wait for the next."""
    found = causes_of(pollux, trace_of_all, "--unit", "round", "--family", "rounds::", "--slowest", "10%")
    ((_, server),) = ((k, v) for k, v in found.items() if "async_block" in k[0])
    # The last one ends with the connection, the first wait may not be seen to begin.
    assert server["unit"] == "round" and 28 <= server["length_ns"]["count"] <= 31, server
    slow = find(server["tree"], ("waiting", "Sleep"))
    assert slow["ns"]["count"] == 10 and slow["ns"]["min"] >= WAIT / 3 - 3e6
    assert not [n for n in server["tree"]["below"] if n["cause"] == "waiting" and what(n)[1] != what(slow)[1]]
    assert 3 <= server["slowest"]["units"] <= 10
    assert slow["slowest"]["units"] == server["slowest"]["units"]


def test_text(pollux, trace_of_all):
    """It fits the columns; a family that is not there is said not to be."""
    done = driver.run(pollux, "why", trace_of_all, "--unit=task", "--family=lock::lock_client",
                      env={**driver.os.environ, "COLUMNS": "100"})
    text = done.stdout[done.stdout.index("Where the time went"):]
    assert all(len(line) <= 100 for line in text.splitlines()), text
    assert "causes::lock::lock_client: 1 task" in text and "held by lock::second_holder" in text, text
    none = driver.run(pollux, "why", trace_of_all, "--family=nobody")
    assert none.returncode == 1 and "no family whose name contains 'nobody'" in none.stderr
    assert driver.run(pollux, "why", trace_of_all, "--own=nobody").returncode == 1
    for wrong in ("--unit=day", "--slowest=1", "--slowest=0%", "--slowest=101%", "--slowest=x", "--task=x", "--task="):
        assert driver.run(pollux, "why", trace_of_all, wrong).returncode == 2


def unknown_ns(node):
    """What is not explained of the slowest units."""
    own = node["slowest"]["sum"] if node["cause"] == UNKNOWN else 0
    return own + sum(unknown_ns(n) for n in node["below"])


def test_service(pollux, suite, tmp_path):
    """Each request of a handler is a unit, as the service counts them; what it waits for is known."""
    trace = tmp_path / "service.plx"
    with driver.Target(suite("service-axum", "release-debug", "service")) as target:
        recorder = driver.Recorder(pollux, target.pid, trace)
        recorder.until_compiled()
        target.go()
        requests = {route["name"]: route["requests"] for route in target.truth()["routes"]}
        recorder.stop()
        assert target.end() == 0
    by_handler = {handler.split("::")[-1]: one for (_, handler), one in
                  causes_of(pollux, trace, "--unit", "round").items() if handler}
    assert {name: by_handler[name]["length_ns"]["count"] for name in requests} == requests
    for one in by_handler.values():
        assert one["unit"] == "round" and unknown_ns(one["tree"]) <= one["slowest"]["sum"] * 0.05, one
    (send,) = (n for n in by_handler["order"]["tree"]["below"] if "send" in what(n)[1])
    assert [what(n) for n in send["below"]] == [("task", "service::work::mailer")]
    # One with the line of the call, and, on a busy machine, one without: the stack was taken too late.
    blocks = [n for n in by_handler["blocks"]["tree"]["below"] if n["cause"] == "blocking_call"]
    assert all(n["call"].endswith("nanosleep") for n in blocks)
    assert sum(n["ns"]["count"] for n in blocks) == requests["blocks"]


def test_demo(pollux, tmp_path):
    """Of the time of the demo server's slow requests at least 95 % has a cause, and the lock leads them."""
    shop, customers = (builder.build("demo", "release", name, root=builder.ROOT)
                       for name in ("shop", "customers"))
    trace = tmp_path / "shop.plx"
    server = subprocess.Popen([shop], stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split()[-1]
        load = subprocess.Popen([customers, address, "24", "7"], stdout=subprocess.DEVNULL)
        try:
            time.sleep(1)
            done = driver.record_a_while(pollux, server.pid, trace, "3")
            assert done.returncode == 0, done.stderr
            live = driver.run(pollux, "why", server.pid, "-d", "1", "--unit=round")
        finally:
            load.kill()
            load.wait()
    finally:
        server.kill()
        server.wait()
    # A program that runs has them, too, below its findings.
    text = live.stdout
    assert live.returncode == 0, live.stderr
    assert text.index("What stands out") < text.index("Where the time went") < text.rindex("shop::serve_connection: "), text
    found = causes_of(pollux, trace, "--unit", "round", "--family", "serve_connection")
    served = found["shop::serve_connection", None]
    slowest = served["slowest"]["sum"]
    assert served["length_ns"]["count"] > 500 and served["slowest"]["units"] >= 5
    assert unknown_ns(served["tree"]) <= slowest * 0.05, served
    # Of its locks that of the stock leads; others are waited for now and then.
    lock = max(served["tree"]["below"], key=lambda n: n["slowest"]["sum"])
    assert what(lock) == ("waiting", "tokio::sync::mutex::lock")
    assert lock["place"]["function"] == "shop::buy"
    assert find(lock, ("holder", "shop::serve_connection"))["slowest"]["sum"] > slowest / 2
