# SPDX-License-Identifier: MIT OR Apache-2.0
"""pollux view: what its server answers, and what it refuses."""
import contextlib
import csv
import http.client
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
import urllib.parse
from collections import Counter
from pathlib import Path

import driver
import pytest
from build import ROOT
from trace_reader import plx

GOOD = ROOT / "tests" / "traces" / "good"
BAD = ROOT / "tests" / "traces" / "bad"


class Server:
    """A pollux view that has printed its address."""

    def __init__(self, pollux, trace, *options, env=None):
        self.process = subprocess.Popen([pollux, "view", "--no-open", *options, trace], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=env)
        self.url = self.process.stdout.readline().strip()
        where = urllib.parse.urlsplit(self.url)
        self.port, self.page = where.port, where.path

    def ask(self, path, method="GET", page=None, headers=None):
        """(status, headers, body) of a request below the page."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        with contextlib.closing(connection):
            connection.request(method, (self.page if page is None else page) + path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()

    def json(self, path):
        status, headers, body = self.ask(path)
        assert status == 200, body
        assert headers["content-type"] == "application/json"
        return json.loads(body)

    def end(self, how=signal.SIGINT):
        self.process.send_signal(how)
        code = self.process.wait(60)
        errors = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return code, errors


@contextlib.contextmanager
def serving(pollux, trace, *options, env=None):
    server = Server(pollux, trace, *options, env=env)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of traces, next to which pollux puts their indexes."""
    path = tmp_path_factory.mktemp("view")
    for trace in [*GOOD.glob("*.plx"), *BAD.glob("*.plx")]:
        shutil.copy(trace, path)
    return path


@pytest.fixture(scope="module")
def server(pollux, folder):
    with serving(pollux, folder / "small.plx") as one:
        yield one
        assert one.end() == (0, "")


@pytest.fixture(scope="module")
def requests(pollux, folder):
    with serving(pollux, folder / "requests.plx") as one:
        yield one
        assert one.end() == (0, "")


def test_the_page_may_load_nothing_from_elsewhere(server):
    status, headers, body = server.ask("")
    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8"
    assert body == (ROOT / "web" / "index.html").read_bytes()
    policy = headers["content-security-policy"].split("; ")
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy
    assert all(source in ("'none'", "'self'", "data:") for rule in policy for source in rule.split()[1:])
    assert headers["referrer-policy"] == "no-referrer" and headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers
    same, _, nothing = server.ask("index.html", headers={"If-None-Match": headers["etag"]})
    assert same == 304 and nothing == b""


def test_every_file_of_the_page_is_served(server):
    for path in (ROOT / "web").rglob("*"):
        if path.is_file():
            status, headers, body = server.ask(path.relative_to(ROOT / "web").as_posix())
            assert status == 200 and body == path.read_bytes(), path
            assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["../src/view/server.c", "..%2fmeson.build", "%2e%2e/meson.build", "./index.html",
                                  "/index.html", "index.html/", "api", "api/", "api/nothing", "index.html%00"])
def test_there_is_nothing_but_the_files_and_the_answers(server, path):
    status, _, body = server.ask(path)
    assert status == 404 and "error" in json.loads(body)


def test_only_the_address_that_was_printed_is_answered(server):
    token = server.page.strip("/")
    assert len(token) == 32 and server.url.startswith("http://127.0.0.1:")
    wrong = ["/", "/" + token, "/" + token[:-1] + ("0" if token[-1] != "0" else "1") + "/", "/" + token.upper() + "x/"]
    for page in wrong:
        assert server.ask("api/report", page=page)[0] == 404, page
    for headers in ({"Host": "evil.example"}, {"Host": f"evil.example:{server.port}"}, {"Host": "127.0.0.1"},
                    {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        status, answer, _ = server.ask("api/report", headers=headers)
        assert status == 403 and "access-control-allow-origin" not in answer, headers
    assert server.ask("", headers={"Host": f"localhost:{server.port}"})[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_other_methods_are_refused(server, method):
    assert server.ask("api/report", method)[0] in (405, 501)


def test_it_listens_on_the_loopback_only(server):
    listening = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/net/{table}", encoding="ascii") as lines:
            for words in map(str.split, lines):
                if words[3] == "0A" and words[1].endswith(f":{server.port:04X}"):
                    listening.add(words[1].split(":")[0])
    assert listening == {"0100007F"}


def test_a_head_has_no_body(server):
    for path in ("", "api/report"):
        status, headers, body = server.ask(path, "HEAD")
        assert status == 200 and body == b"" and headers["content-type"]


def test_what_is_no_http_ends_nothing(server):
    for data in (b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nno header\r\n\r\n", b"\x16\x03\x01" * 2000,
                 b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                 b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5000 + b"\r\n",
                 b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 100):
        with socket.create_connection(("127.0.0.1", server.port), 20) as plain:
            with contextlib.suppress(OSError):
                plain.sendall(data)
                plain.shutdown(socket.SHUT_WR)
                while plain.recv(65536):
                    pass
    assert server.ask("")[0] == 200


def test_a_browser_that_goes_away_ends_its_answer_only(server):
    for _ in range(30):
        with socket.create_connection(("127.0.0.1", server.port), 20) as plain:
            plain.sendall(f"GET {server.page}api/report HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
    assert server.json("api/report")["events"] > 0


def test_many_connections_are_borne(server):
    with contextlib.ExitStack() as stack:
        for _ in range(400):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 20))
    assert server.ask("")[0] == 200


def test_idle_connections_make_room(server):
    """Where there are more than a browser has, those that ask for nothing are closed soon: the first ones still wait."""
    with contextlib.ExitStack() as stack:
        first, *_ = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 20)) for _ in range(290)]
        assert server.ask("")[0] == 200
        first.setblocking(False)
        with pytest.raises(BlockingIOError):
            first.recv(1)


def test_the_report_is_that_of_the_command(server, pollux):
    assert server.json("api/report") == driver.report(pollux, GOOD / "small.plx")
    window = server.json("api/report?from=1000&to=50000")
    assert window == driver.report(pollux, GOOD / "small.plx", "--from", "1000ns", "--to", "50000ns")


@pytest.mark.parametrize("query", ["from=x", "from=-1", "to=1e9", "to=99999999999999999999", "from=", "%", "a=%0", "&".join("abcdefghijklmnopq")])
def test_a_wrong_query_is_refused(server, query):
    status, _, body = server.ask("api/report?" + query)
    assert status == 400 and json.loads(body)["error"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_ends_with_its_answers(pollux, folder, how):
    with serving(pollux, folder / "small.plx") as one:
        with socket.create_connection(("127.0.0.1", one.port), 20) as plain:
            plain.sendall(f"GET {one.page}api/report HTTP/1.1\r\nHost: 127.0.0.1:{one.port}\r\n\r\n".encode())
            assert one.end(how) == (0, "")


@pytest.mark.parametrize("trace", sorted(BAD.glob("*.plx")), ids=lambda path: path.stem)
def test_a_damaged_trace_ends_no_server(pollux, folder, trace):
    with serving(pollux, folder / trace.name) as one:
        if not one.url:
            code, errors = one.process.wait(60), one.process.stderr.read()
            assert code == 1 and errors.startswith("pollux: cannot show ")
            return
        for path in ("api/trace", "api/report", "api/cells", "api/slices?lane=0", "api/tasks?lane=0", "api/flame",
                     "api/flame?kind=cpu", "api/heat", "api/search?q=a"):
            status, _, body = one.ask(path)
            assert status in (200, 400, 404, 500) and json.loads(body), path
        assert one.ask("")[0] == 200
        assert one.end()[0] == 0


def test_a_pipe_is_no_trace_to_view(pollux):
    result = subprocess.run([pollux, "view", "--no-open", "-"], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and "give a file" in result.stderr


def test_the_lanes_are_the_threads_and_families_of_the_report(requests):
    trace, report = requests.json("api/trace"), requests.json("api/report")
    assert trace["format"] == 1 and trace["file"] == "requests.plx" and trace["events"] == report["events"]
    assert trace["truncated"] is None and not trace["live"]
    families = {lane["family"]: lane for lane in trace["lanes"] if lane["kind"] == "family"}
    assert {family["kind"]: (family["role"], family["tasks"], family["polls"]) for family in report["families"]} == \
        {kind: (lane["role"], lane["tasks"], lane["polls"]) for kind, lane in families.items()}
    threads = {lane["tid"]: lane for lane in trace["lanes"] if lane["kind"] == "thread"}
    for worker in report["workers"]:
        assert threads[worker["tid"]]["polls"] == worker["polls"]
    assert [lane["id"] for lane in trace["lanes"]] == list(range(len(trace["lanes"])))


@pytest.mark.parametrize("n", [1, 7, 100, 4096])
def test_the_cells_add_up_to_the_report(requests, n):
    trace, report = requests.json("api/trace"), requests.json("api/report")
    cells = requests.json(f"api/cells?n={n}")
    assert cells["n"] <= max(n, 1) and cells["from"] == 0 and cells["to"] == cells["n"] * cells["cell_ns"] > trace["span_ns"]
    for lane in trace["lanes"]:
        values = cells["lanes"][str(lane["id"])]
        assert all(len(series) == cells["n"] for series in values.values())
        total = {name: sum(series) for name, series in values.items()}
        if lane["kind"] == "thread":
            for worker in report["workers"]:
                if worker["tid"] == lane["tid"]:
                    assert [total.get(name, 0) for name in ("polling_ns", "parked_ns", "blocked_ns", "polls")] == \
                        [worker[name] for name in ("busy_ns", "parked_ns", "blocked_ns", "polls")]
        else:
            family = next(f for f in report["families"] if f["kind"] == lane["family"])
            assert [total.get(name, 0) for name in ("waiting_ns", "ready_ns", "blocked_ns", "polls")] == \
                [family[name] for name in ("waiting_ns", "scheduled_ns", "blocked_ns", "polls")]
            assert total.get("polling_ns", 0) == family["poll_ns"]["sum"]
            assert max(values["longest_ns"], default=0) == family["poll_ns"]["max"]
    assert cells["causes"] and all(cause["function"] for cause in cells["causes"])


def test_the_flame_graph_has_the_waiting_of_the_report(requests):
    trace, report = requests.json("api/trace"), requests.json("api/report")
    flame = requests.json("api/flame?kind=waiting")

    def check(node):
        assert node["value"] >= sum(check(one) for one in node["children"])
        return node["value"]

    assert check(flame) == sum(family["waiting_ns"] for family in report["families"]) > 0
    lanes = {lane["id"]: lane for lane in trace["lanes"]}
    for one in flame["children"]:
        family = next(f for f in report["families"] if f["kind"] == lanes[one["lane"]]["family"])
        assert one["value"] == family["waiting_ns"] == sum(inner["value"] for inner in one["children"])
        assert requests.json(f"api/flame?lane={one['lane']}")["children"] == [one]
    cpu = requests.json("api/flame?kind=cpu")
    assert cpu["name"] == "cpu" and cpu["value"] == sum(one["value"] for one in cpu["children"])


@pytest.mark.parametrize("x", [1, 100, 1024])
def test_the_heat_map_counts_what_the_report_counts(requests, x):
    report = requests.json("api/report")
    for what, count in (("polls", sum(f["polls"] - f["polls_of_unknown_length"] for f in report["families"] if f["role"] != "worker")),
                        ("waits", None), ("delays", None)):
        heat = requests.json(f"api/heat?what={what}&x={x}")
        assert heat["x"] <= x and len(heat["counts"]) == len(heat["edges_ns"])
        assert all(len(row) == heat["x"] for row in heat["counts"]) and heat["edges_ns"] == sorted(heat["edges_ns"])
        if count is not None:
            assert sum(map(sum, heat["counts"])) == count


def test_the_slices_of_a_window_are_cut_from_the_whole(requests):
    trace = requests.json("api/trace")
    for lane in trace["lanes"]:
        whole = requests.json(f"api/slices?lane={lane['id']}&max=20000")
        assert whole["exact"] and not whole["more"]
        polls = [one for one in whole["slices"] if one["kind"] == "poll"]
        assert len(polls) == lane["polls"]
        middle = trace["span_ns"] // 2
        part = requests.json(f"api/slices?lane={lane['id']}&from={middle}&to={middle + 1000}")
        assert part["slices"] == [one for one in whole["slices"] if one["from"] < middle + 1000 and
                                  (one["to"] > middle or one["from"] == one["to"] >= middle)]
        if lane["kind"] == "family":
            tasks = requests.json(f"api/tasks?lane={lane['id']}&max=1000")["tasks"]
            assert len(tasks) <= lane["tasks"] and sum(task["polls"] for task in tasks) == lane["polls"]
            assert all(task["slices"] for task in tasks)
            assert [task["from"] for task in tasks] == sorted(task["from"] for task in tasks)


def test_one_question_has_the_slices_of_several_lanes(requests):
    ids = [lane["id"] for lane in requests.json("api/trace")["lanes"]]
    several = requests.json(f"api/slices?lanes={','.join(map(str, ids))}&max=7")
    assert list(several["lanes"]) == [str(lane) for lane in ids] and len(ids) > 3
    places = {}
    for lane in ids:
        one = requests.json(f"api/slices?lane={lane}&max=7")
        assert several["lanes"][str(lane)] == {"more": one["more"], "slices": one["slices"]}
        assert [several[name] for name in ("from", "to", "exact")] == [one[name] for name in ("from", "to", "exact")]
        places.update(one["places"])
    assert several["places"] == places
    assert any(lane["more"] for lane in several["lanes"].values())
    assert requests.json("api/slices?lanes=")["lanes"] == {}


def lengths(row, kind, begin, end):
    """How many slices of a kind an answer has, and how long they are in the window; with the short ones that are added up."""
    inside = [min(one["to"], end) - max(one["from"], begin) for one in row["slices"] if one["kind"] == kind]
    return sum(max(0, ns) for ns in inside) + sum(row.get("thin", {}).get(kind, []))


def check_short(row, whole, answer):
    """A row whose short slices are added up has what the row with all slices has."""
    begin, end = answer["from"], answer["to"]
    for kind in {one["kind"] for one in whole["slices"]}:
        assert lengths(row, kind, begin, end) == lengths(whole, kind, begin, end), kind
    thin = row.get("thin")
    assert len(row["slices"]) + sum(thin["n"] if thin else []) == len(whole["slices"])
    assert [one for one in whole["slices"] if one in row["slices"]] == row["slices"]
    if not thin:
        return 0
    assert thin["cell"] == sorted(set(thin["cell"])) and max(thin["cell"]) * thin["cell_ns"] < end - begin
    short = Counter((max(one["from"], begin) - begin) // thin["cell_ns"] for one in row["slices"] if one["to"] - one["from"] < thin["cell_ns"])
    assert all(n <= 3 for n in short.values()) and not set(short) & {c for c, n in zip(thin["cell"], thin["n"]) if n}
    assert all(n > 3 or n == 0 for n in thin["n"])
    return sum(thin["n"])


@pytest.mark.parametrize("n", [1, 16, 300, 4096])
@pytest.mark.parametrize("part", [1, 3])
def test_slices_too_short_to_be_seen_are_added_up(requests, n, part):
    trace = requests.json("api/trace")
    window = f"from={trace['span_ns'] // 2 if part > 1 else 0}&to={trace['span_ns'] // 2 + trace['span_ns'] // part}"
    ids = [lane["id"] for lane in trace["lanes"]]
    several = requests.json(f"api/slices?lanes={','.join(map(str, ids))}&n={n}&{window}")
    added = 0
    for lane in trace["lanes"]:
        whole = requests.json(f"api/slices?lane={lane['id']}&max=20000&{window}")
        added += check_short(several["lanes"][str(lane["id"])], whole, several)
        assert not several["lanes"][str(lane["id"])]["more"]
        if lane["kind"] == "family":
            exact = requests.json(f"api/tasks?lane={lane['id']}&max=1000&{window}")
            drawn = requests.json(f"api/tasks?lane={lane['id']}&max=1000&n={n}&{window}")
            assert [{**task, "slices": 0, "thin": 0} for task in drawn["tasks"]] == [{**task, "slices": 0, "thin": 0} for task in exact["tasks"]]
            for few, all_of_it in zip(drawn["tasks"], exact["tasks"]):
                added += check_short(few, all_of_it, drawn)
    assert added or n > 1


def test_tasks_are_called_as_in_the_report(server):
    """Also those that their runtime names by address, of which one after another may have the same."""
    report, trace = server.json("api/report"), server.json("api/trace")
    lanes = {lane["family"]: lane["id"] for lane in trace["lanes"] if lane["kind"] == "family"}
    addresses = 0
    for lane in (one for one in trace["lanes"] if one["kind"] == "family" and one["role"] != "worker"):
        tasks = server.json(f"api/tasks?lane={lane['id']}&max=1000&n=100")["tasks"]
        assert len({task["number"] for task in tasks}) == len(tasks) and all(task["number"].isdigit() for task in tasks)
        addresses += sum(int(task["task"].split(".")[1]) > 2 ** 40 for task in tasks)
    assert addresses
    for poll in report["longest_polls"]:
        slices = server.json(f"api/slices?lane={lanes[poll['kind']]}&from={poll['begin_ns']}&to={poll['begin_ns'] + 1}&kind=poll")["slices"]
        assert str(poll["task"]) in [one["number"] for one in slices]
        one, = [one for one in slices if one["number"] == str(poll["task"])]
        assert server.json(f"api/poll?id={one['id']}")["number"] == one["number"]
        assert server.json(f"api/task?id={one['task']}&at={one['from']}")["number"] == one["number"]


def test_the_longest_slices_of_a_kind(requests):
    for lane in requests.json("api/trace")["lanes"]:
        polls = [one for one in requests.json(f"api/slices?lane={lane['id']}&max=20000")["slices"] if one["kind"] == "poll"]
        longest = requests.json(f"api/slices?lane={lane['id']}&kind=poll&sort=longest&max=3")
        assert [one["to"] - one["from"] for one in longest["slices"]] == sorted((one["to"] - one["from"] for one in polls), reverse=True)[:3]
        assert longest["more"] == (len(polls) > 3) and all(one in polls for one in longest["slices"])


@pytest.mark.parametrize("path", [
    "api/slices?lane=0&n=0", "api/slices?lane=0&n=4097", "api/tasks?lane=0&n=x", "api/slices?lane=0&kind=task", "api/slices?lane=0&kind=x",
    "api/slices?lane=0&sort=poll", "api/slices?lane=0&n=5&sort=longest",
    "api/slices?lanes=x", "api/slices?lanes=0,,1", "api/slices?lane=0,1", "api/tasks?lanes=0", "api/cells?n=0", "api/cells?n=4097", "api/cells?lanes=x", "api/cells?from=5&to=5",
    "api/cells?from=99999999999999", "api/slices", "api/slices?lane=x", "api/slices?lane=0&max=0", "api/tasks?lane=0&sort=name",
    "api/slices?lane=0&max=20001", "api/flame?kind=x", "api/heat?what=x", "api/heat?x=0", "api/heat?lane=x"])
def test_an_impossible_query_is_refused(requests, path):
    status, _, body = requests.ask(path)
    assert status == 400 and json.loads(body)["error"], path


@pytest.mark.parametrize("path", ["api/cells?lanes=999", "api/slices?lanes=0,999", "api/slices?lane=999", "api/slices?lane=4294967296"])
def test_what_is_not_there_is_not_found(requests, path):
    assert requests.ask(path)[0] == 404


def test_the_index_is_kept_and_belongs_to_its_trace(pollux, tmp_path):
    trace, index = tmp_path / "small.plx", tmp_path / "small.plx.index"

    def look():
        with serving(pollux, trace) as one:
            answer = one.json("api/trace")
            assert one.end() == (0, "")
        return answer, index.stat().st_ino

    shutil.copy(GOOD / "small.plx", trace)
    first, made = look()
    assert index.stat().st_mode & 0o777 == 0o600
    assert look() == (first, made)
    shutil.copy(GOOD / "requests.plx", trace)
    second, again = look()
    assert again != made and second["events"] != first["events"]
    # Damaged, or anybody's, it is made anew.
    index.write_bytes(index.read_bytes()[:-1] + b"x")
    index.write_bytes(index.read_bytes()[:200])
    assert look()[0] == second
    index.chmod(0o666)
    kept = index.stat().st_ino
    assert look()[0] == second and index.stat().st_ino != kept
    # A stranger's file of that name is not replaced.
    index.unlink()
    index.write_text("mine")
    with serving(pollux, trace) as one:
        assert one.json("api/trace") == second
        assert one.end() == (0, "")
    assert index.read_text() == "mine"


def test_a_folder_that_takes_no_file_needs_none(pollux, tmp_path):
    trace = tmp_path / "traces" / "small.plx"
    trace.parent.mkdir()
    shutil.copy(GOOD / "small.plx", trace)
    cache = tmp_path / "cache"
    index = trace.with_name("small.plx.index")
    index.mkdir()
    env = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    for _ in range(2):
        with serving(pollux, trace, env=env) as one:
            assert one.json("api/trace")["events"] > 0
            assert one.end() == (0, "")
        kept = list((cache / "pollux").glob("*.index"))
        assert len(kept) == 1


def test_a_trace_of_many_events_takes_little_memory(pollux, tmp_path):
    trace = many_events(tmp_path, 2)
    with serving(pollux, trace) as one:
        whole = one.json("api/trace")
        assert whole["events"] >= 2000000
        slices = one.json(f"api/slices?lane=0&from={whole['span_ns'] // 2}&to={whole['span_ns'] // 2 + 1000}")
        assert slices["exact"] and slices["slices"]
        status = open(f"/proc/{one.process.pid}/status", encoding="ascii").read()
        resident = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
        assert resident < 64 << 10, "the server itself holds next to nothing"
        assert one.end() == (0, "")


def all_polls(server):
    lanes = [lane for lane in server.json("api/trace")["lanes"] if lane["kind"] == "family"]
    slices = [one for lane in lanes for one in server.json(f"api/slices?lane={lane['id']}&max=20000")["slices"]]
    return [one for one in slices if one["kind"] == "poll"], slices


def test_a_poll_leads_to_its_neighbours(requests):
    polls, _ = all_polls(requests)
    details = {one["id"]: requests.json("api/poll?id=" + one["id"]) for one in polls}
    assert len(details) == len(polls) > 5
    for one in polls:
        detail = details[one["id"]]
        assert {key: detail[key] for key in one} == one
        for here, there in (("previous", "next"), ("next", "previous")):
            if detail[here]:
                assert details[detail[here]][there] == one["id"] and details[detail[here]]["task"] == one["task"]
        assert sum(call["to"] - call["from"] for call in detail["calls"] if call["blocks"]) == one["blocked_ns"]
        for wake in detail["wakes"]:
            assert one["from"] <= wake["at"] <= one["to"]
            if wake["poll"]:
                assert details[wake["poll"]]["task"] == wake["task"]
        if detail["woken_by"]:
            assert detail["woken_by"]["at"] <= one["from"]
            if detail["woken_by"]["poll"]:
                assert details[detail["woken_by"]["poll"]]["task"] == detail["woken_by"]["task"]
    assert any(detail["woken_by"] for detail in details.values())
    assert any(detail["futures"] for detail in details.values())


def test_a_task_has_its_whole_life(requests, pollux, folder):
    polls, slices = all_polls(requests)
    for task in sorted({one["task"] for one in polls}):
        of_it = [one for one in slices if one["task"] == task]
        life = requests.json(f"api/task?id={task}&at={of_it[0]['from']}")
        assert life["task"] == task and life["whole"]
        assert [one for one in life["steps"] if one["kind"] in ("poll", "wait", "ready")] == \
            sorted(of_it, key=lambda one: life["steps"].index(one))
        for name, kind in (("poll_ns", "poll"), ("wait_ns", "wait"), ("ready_ns", "ready")):
            assert life[name] == sum(one["to"] - one["from"] for one in of_it if one["kind"] == kind)
        assert life["polls"] == sum(one["kind"] == "poll" for one in of_it)
        number = requests.json(f"api/search?q={life['number']}")["hits"]
        assert any(hit["kind"] == "task" and hit["task"] == task for hit in number)
    rounds = sum(len(requests.json(f"api/task?id={task}&at={next(one['from'] for one in polls if one['task'] == task)}")["rounds"])
                 for task in {one["task"] for one in polls})
    handled = [handler for family in requests.json("api/report")["families"] for handler in family.get("handlers", [])]
    assert rounds == sum(handler["requests"] for handler in handled if handler["handler"]) > 0


def test_a_task_has_its_tree_of_the_moment(pollux, folder):
    with serving(pollux, folder / "moments.plx") as one:
        trace = one.json("api/trace")
        assert trace["moments"] == ["start", "end"]
        trees = []
        for lane in trace["lanes"]:
            if lane["kind"] == "family":
                for task in one.json(f"api/tasks?lane={lane['id']}")["tasks"]:
                    life = one.json(f"api/task?id={task['task']}&at={task['from']}")
                    trees += [life["tree"]] if "tree" in life else []
        assert trees and all(tree["when"] == "end" or tree["text"] for tree in trees)
        assert one.end() == (0, "")


def test_search_finds_parts_of_names(requests):
    trace = requests.json("api/trace")
    for lane in trace["lanes"]:
        hits = requests.json("api/search?max=1000&q=" + urllib.parse.quote(lane["name"][1:].upper()))["hits"]
        assert any(hit["lane"] == lane["id"] and hit["kind"] == lane["kind"] for hit in hits), lane
    place = requests.json("api/cells?n=1")["causes"][0]
    hits = requests.json("api/search?q=" + urllib.parse.quote(place["text"]))["hits"]
    assert any(hit["kind"] == "place" and hit["place"] == place["place"] for hit in hits)
    assert requests.json("api/search?q=there+is+no+such+name") == {"hits": [], "more": False}
    assert requests.json("api/search?max=1&q=a")["more"]


def test_search_finds_a_task_by_its_number(server, pollux, folder):
    """Also one that is shorter than what the index has of its own, of a runtime that numbers tasks or one that does not."""
    exact = server.json("api/trace")["index"]["exact_ns"]
    table = subprocess.run([pollux, "export", "-f", "csv", "--table", "tasks", "-o", "-", folder / "small.plx"], capture_output=True, text=True,
                           check=True).stdout
    short = {False: 0, True: 0}
    for row in csv.DictReader(table.splitlines()):
        if row["role"] == "worker" or int(row["task"]) < 0:  # a spawn whose task was never seen
            continue
        begin, end, by_address = int(row["spawn_ns"]), int(row["end_ns"]), int(row["id"]) > 1 << 40
        hits = [hit for hit in server.json(f"api/search?q={row['task']}")["hits"] if hit["kind"] == "task"]
        assert [hit for hit in server.json(f"api/search?q=%23{row['task']}")["hits"] if hit["kind"] == "task"] == hits
        # One runtime's number may be another's.
        hit, = [hit for hit in hits if hit["task"] == f"{row['kind']}.{row['id']}"]
        assert begin <= hit["at"] <= max(end, begin) and hit["text"] == f"{row['family']} #{row['task']}"
        life = server.json(f"api/task?id={hit['task']}&at={hit['at']}")
        assert life["polls"] == int(row["polls"]) or life["role"] == "root"
        short[by_address] += end >= 0 and end - begin <= exact
    assert short[False] > 3 and short[True] > 3
    assert not [hit for hit in server.json("api/search?q=987654321")["hits"] if hit["kind"] == "task"]


@pytest.mark.parametrize("path, status", [
    ("api/task", 400), ("api/task?id=5&at=1", 400), ("api/task?id=5.17", 400), ("api/task?id=x.y&at=1", 400),
    ("api/task?id=0.1&at=999999999999", 400), ("api/task?id=4000000.1&at=1", 404), ("api/task?id=0.999999&at=1", 404),
    ("api/poll", 400), ("api/poll?id=1.2.3", 400), ("api/poll?id=1.2.3.4.5", 400), ("api/poll?id=1.2.3.4", 404),
    ("api/poll?id=4294967295.1.1.1", 400), ("api/poll?id=1.1.1.99999999999999", 404), ("api/search", 400), ("api/search?q=", 400),
    ("api/search?q=a&max=0", 400)])
def test_what_names_nothing_is_refused(requests, path, status):
    code, _, body = requests.ask(path)
    assert code == status and json.loads(body)["error"], body


def formats(pollux):
    words = subprocess.run([pollux, "export", "--help"], capture_output=True, text=True, check=True).stdout
    return [name for name in ("chrome", "speedscope", "perfetto", "firefox") if name in words]


def exported(pollux, name, trace):
    """As a viewer gets it: without findings, which Speedscope's format has none of."""
    plain = [] if name == "speedscope" else ["--no-findings"]
    return subprocess.run([pollux, "export", "-f", name, *plain, "-o", "-", trace], capture_output=True, check=True)


def test_a_download_is_the_trace_or_an_export_of_it(requests, pollux, folder):
    status, headers, body = requests.ask("download")
    assert status == 200 and body == (folder / "requests.plx").read_bytes()
    assert headers["content-disposition"] == 'attachment; filename="requests.plx"'
    for name in formats(pollux):
        status, headers, body = requests.ask("download?as=" + name)
        export = exported(pollux, name, folder / "requests.plx")
        assert status == 200 and body == export.stdout, name
        assert headers["content-disposition"].startswith('attachment; filename="requests.')
    assert requests.ask("download?as=nothing")[0] == 400
    assert requests.ask("download?as=chrome&from=x")[0] == 400
    assert requests.ask("download?from=5&to=5")[0] == 400


def many_events(tmp_path, millions):
    speed = ROOT / "build" / "bench" / "trace_speed"
    if not speed.exists():
        pytest.skip("bench is not built here")
    trace = tmp_path / "many.plx"
    subprocess.run([speed, str(millions), "8", trace], check=True, stdout=subprocess.DEVNULL)
    return trace


def test_a_part_of_a_trace_is_a_trace(pollux, tmp_path):
    trace = many_events(tmp_path, 1)
    with serving(pollux, trace) as one:
        whole = one.json("api/trace")
        middle = whole["span_ns"] // 2
        status, _, body = one.ask(f"download?as=plx&from={middle}&to={middle + 1000000}")
        assert status == 200
        assert one.end() == (0, "")
    part = tmp_path / "part.plx"
    part.write_bytes(body)
    report = driver.report(pollux, part)
    assert not report["truncated"] and 0 < report["events"] < whole["events"] // 2
    # What the part has of the window is all that the whole has.
    options = ("--from", f"{middle}ns", "--to", f"{middle + 1000000}ns")
    wanted = driver.report(pollux, trace, *options)["wakes"]
    assert 0 < wanted <= report["wakes"]


def test_a_report_of_a_part_alone_is_near_that_of_the_whole(pollux, tmp_path):
    trace = many_events(tmp_path, 1)
    with serving(pollux, trace) as one:
        middle = one.json("api/trace")["span_ns"] // 2
        window = f"from={middle}&to={middle + 5000000}"
        whole, part = one.json(f"api/report?{window}"), one.json(f"api/report?{window}&max_events=1000")
        assert part.pop("window_only") and "window_only" not in whole
        assert one.end() == (0, "")
    assert part["begin_ns"] == whole["begin_ns"] == middle and part["duration_ns"] == whole["duration_ns"]
    # What has no past is the same; all threads are in the middle of something at its begin.
    assert part["polls"] == whole["polls"] > 0
    assert {worker["tid"]: worker["polls"] for worker in part["workers"]} == \
        {worker["tid"]: worker["polls"] for worker in whole["workers"]}
    assert part["events"] < whole["events"]


def uleb(n):
    return bytes([n & 0x7f | 0x80]) + uleb(n >> 7) if n > 0x7f else bytes([n])


def chunk(type, payload):
    head = struct.pack("<HHII", type, 0, len(payload), plx.crc32c(payload))
    return head + struct.pack("<I", plx.crc32c(head)) + payload


def meta(type, *fields):
    body = b"".join(uleb(field) if isinstance(field, int) else uleb(len(field)) + field.encode() for field in fields)
    return uleb(type) + uleb(len(body)) + body


def one_task(thread, kind, task, polled_ns):
    """The events of a thread that spawns a task and polls it once."""
    whole_name = 4
    shapes = bytes([3, 1, 1, whole_name, 2, 0, whole_name, 3, 1, whole_name])  # spawn, poll_begin, poll_end: ready
    tags = bytes(i << 2 | 3 for i in range(3))
    times = [struct.pack("<Q", delta) for delta in (1000, 1000, polled_ns)]
    rest = b"".join(uleb(kind + 1) + uleb(delta << 1) for delta in (task, 0, 0))
    columns = [tags, bytes(t[0] for t in times), b"".join(t[1:] for t in times), b"", b"", rest]
    sizes = b"".join(uleb(len(column)) * 2 for column in columns)
    return chunk(plx.EVENTS, uleb(thread) + uleb(3) + struct.pack("<Q", 10**9) + shapes + uleb(6) + sizes + b"".join(columns))


def test_search_finds_tasks_of_one_number_in_two_processes(pollux, tmp_path):
    """One is long, and known to the index; the other, of another process, is not."""
    records = b"".join(
        meta(1, i, 100 + i, f"/bin/app{i}", "", 10**9, 0) + meta(2, i, i, "tokio", "1", "app", "") +
        meta(3, i, i, 100 + i, "main") + meta(5, i, i, i, 0, 0, 0, 0, f"app{i}::serve", "", "", 0) for i in range(2))
    header = (GOOD / "small.plx").read_bytes()[:64]
    trace = tmp_path / "two.plx"
    trace.write_bytes(header + chunk(plx.META, records) + one_task(0, 0, 5, 10**6) + one_task(1, 1, 5, 10**4) +
                      chunk(plx.END, struct.pack("<Q", 6)))
    with serving(pollux, trace) as one:
        hits = one.json("api/search?q=5")["hits"]
        assert one.end() == (0, "")
    assert {hit["task"] for hit in hits if hit["kind"] == "task"} == {"0.5", "1.5"}


@pytest.mark.parametrize("from_, to", [(0, 1), (0.3, 0.6)])
def test_a_report_of_too_many_events_has_their_sums(pollux, tmp_path, from_, to):
    """From the index: exact of the whole, and nearly so where a part begins or ends within a cell."""
    with serving(pollux, many_events(tmp_path, 1)) as one:
        span = one.json("api/trace")["span_ns"]
        window = f"from={int(span * from_)}&to={int(span * to)}"
        whole, sums = one.json(f"api/report?{window}"), one.json(f"api/report?max_events=0&{window}")
        assert one.end() == (0, "")
    assert sums["sums_only"] and (sums["begin_ns"], sums["duration_ns"]) == (int(span * from_), int(span * to) - int(span * from_))
    near = {"rel": 0} if to == 1 else {"rel": 1e-3}
    families = {family["kind"]: family for family in whole["families"] if family["polls"]}
    assert sums["families"] and {family["kind"] for family in sums["families"]} == families.keys()
    for family in sums["families"]:
        told = families[family["kind"]]
        assert (family["name"], family["role"]) == (told["name"], told["role"])
        for key in ("polls", "waiting_ns", "scheduled_ns", "blocked_ns"):
            assert family[key] == pytest.approx(told[key], **near), key
        assert family["poll_ns"]["sum"] == pytest.approx(told["poll_ns"]["sum"], **near)
    told = {worker["tid"]: worker for worker in whole["workers"]}
    for worker in sums["workers"]:
        for key in ("polls", "busy_ns", "parked_ns", "blocked_ns"):
            assert worker[key] == pytest.approx(told[worker["tid"]][key], **near), key


@pytest.mark.parametrize("viewer, origin", [("firefox", "https://profiler.firefox.com"), ("speedscope", "https://www.speedscope.app")])
def test_another_viewer_reads_its_file_and_nothing_else(pollux, folder, viewer, origin):
    with serving(pollux, folder / "requests.plx", "--in", viewer) as one:
        assert one.url.startswith(origin + "/")
        where = urllib.parse.urlsplit(urllib.parse.unquote(one.url[one.url.index("http%3A"):]))
        one.port, one.page = where.port, where.path.removesuffix("file")
        assert where.path.endswith("/file") and len(one.page) == 34
        site = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
        status, headers, body = one.ask("file", headers=site)
        assert status == 200 and headers["access-control-allow-origin"] == origin
        export = exported(pollux, viewer, folder / "requests.plx")
        assert body == export.stdout
        for path in ("", "api/trace", "api/report", "download"):
            status, headers, _ = one.ask(path, headers=site)
            assert status == 403 and "access-control-allow-origin" not in headers
        status, headers, _ = one.ask("file", headers={"Origin": "https://evil.example"})
        assert status == 403 and "access-control-allow-origin" not in headers
        status, headers, _ = one.ask("file")
        assert status == 200 and "access-control-allow-origin" not in headers
        assert one.end() == (0, "")


def test_without_another_viewer_there_is_no_file_for_it(requests):
    assert requests.ask("file")[0] == 404


def test_an_unknown_viewer_is_a_wrong_use(pollux, folder):
    for words in (["--in", "netscape"], ["--in", "perfetto", "--follow"], ["--in", "perfetto", "--port", "9002"], ["--port", "0"], ["--port", "70000"]):
        result = subprocess.run([pollux, "view", "--no-open", *words, folder / "small.plx"], capture_output=True, text=True, check=False)
        assert result.returncode == 2, words


def events_of(response):
    """Each server-sent event."""
    for line in response:
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


def bytes_read(pid):
    return int(Path(f"/proc/{pid}/io").read_text().split()[1])


def test_a_trace_that_is_written_is_followed_to_its_end(pollux, tmp_path):
    """One process reads it, each part once, however often there is a new index."""
    whole = many_events(tmp_path, 3).read_bytes()
    trace = tmp_path / "growing.plx"
    trace.write_bytes(whole[: len(whole) // 3])
    with serving(pollux, trace, "--follow") as one:
        first = one.json("api/trace")
        assert first["live"] and first["truncated"] is None
        own = f"/proc/{one.process.pid}/task/{one.process.pid}/children"
        reader, = Path(own).read_text().split()
        before = bytes_read(reader)
        connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=300)
        with contextlib.closing(connection):
            connection.request("GET", one.page + "api/follow")
            response = connection.getresponse()
            assert response.getheader("content-type") == "text/event-stream"
            told = events_of(response)
            assert next(told) == {"span_ns": first["span_ns"], "events": first["events"], "live": True}
            with open(trace, "ab") as out:
                out.write(whole[len(whole) // 3 : len(whole) // 3 * 2])
                out.flush()
                more = next(told)
                assert more["live"] and more["events"] > first["events"] and more["span_ns"] > first["span_ns"]
                assert reader in Path(own).read_text().split()
                assert bytes_read(reader) - before < 1.7 * len(whole) / 3  # what was added, and a constant for each index
                out.write(whole[len(whole) // 3 * 2 :])
            *_, last = told
        assert not last["live"]
        end = one.json("api/trace")
        assert not end["live"] and end["events"] == last["events"] and end["truncated"] is None
        assert end["events"] == driver.report(pollux, trace)["events"]
        assert one.json("api/cells?n=1")["overview"]["busy_ns"]
        status, _, body = one.ask("api/follow")
        assert status == 200 and json.loads(body[6:])["live"] is False
        assert one.end() == (0, "")
    assert not trace.with_name("growing.plx.index").exists(), "that of a trace that grows is not kept"


def test_the_process_that_reads_a_growing_trace_may_die(pollux, tmp_path):
    """The next one reads the trace from its begin; also if it died when the trace was whole, and nothing is added any more."""
    whole = many_events(tmp_path, 3).read_bytes()
    trace = tmp_path / "growing.plx"
    trace.write_bytes(whole[: len(whole) // 3])
    with serving(pollux, trace, "--follow") as one:
        children = Path(f"/proc/{one.process.pid}/task/{one.process.pid}/children")
        first = one.json("api/trace")
        reader, = children.read_text().split()
        os.kill(int(reader), signal.SIGSTOP)
        with open(trace, "ab") as out:
            out.write(whole[len(whole) // 3 :])
        time.sleep(1.5)  # the server has asked for an index; where it has not, the test sees less, but the same
        os.kill(int(reader), signal.SIGKILL)
        deadline = time.monotonic() + 120
        while (end := one.json("api/trace"))["live"]:
            assert time.monotonic() < deadline, "no index after the first process died"
            time.sleep(0.1)
        assert end["events"] == driver.report(pollux, trace)["events"] > first["events"]
        assert reader not in children.read_text().split()
        assert one.end() == (0, "")


def test_the_index_of_another_build_is_made_again(pollux, tmp_path):
    """The report that is kept in it may say other things than the one that this pollux makes."""
    notes = subprocess.run(["readelf", "-n", pollux], capture_output=True, text=True, check=True).stdout
    build = bytes.fromhex(next(line.split()[-1] for line in notes.splitlines() if "Build ID" in line))
    program = pollux.read_bytes()
    assert program.count(build) == 1
    other = tmp_path / "pollux"
    other.write_bytes(program.replace(build, build[:-1] + bytes([build[-1] ^ 1])))
    other.chmod(0o755)
    trace = shutil.copy(GOOD / "small.plx", tmp_path)
    index = tmp_path / "small.plx.index"
    made = []
    for one in (pollux, other, other, pollux):
        with serving(one, trace) as server:
            assert server.json("api/report")["events"]
            assert server.end() == (0, "")
        made.append(index.stat().st_ino)
    assert made[0] != made[1] == made[2] != made[3]


def test_an_index_in_between_takes_nothing_from_the_next_one(pollux, tmp_path):
    """A copy of the process that reads makes it, and has read what the process itself still has to read."""
    whole = (GOOD / "moments.plx").read_bytes()
    trace = tmp_path / "growing.plx"
    parts = [len(whole) * i // 4 for i in range(1, 5)]
    trace.write_bytes(whole[: parts[0]])
    with serving(pollux, trace, "--follow") as one:
        with socket.create_connection(("127.0.0.1", one.port), 60) as plain:
            plain.sendall(f"GET {one.page}api/follow HTTP/1.1\r\nHost: 127.0.0.1:{one.port}\r\n\r\n".encode())
            got = plain.recv(65536)
            for begin, end in zip(parts, parts[1:]):
                n = got.count(b"data: ")
                with open(trace, "ab") as out:
                    out.write(whole[begin:end])
                while got.count(b"data: ") == n:
                    got += plain.recv(65536)
        grown = one.json("api/trace")
        assert grown["live"] is False
        report = one.json("api/report")
        assert one.end() == (0, "")
    alone = tmp_path / "alone"
    alone.mkdir()
    with serving(pollux, shutil.copy(trace, alone)) as one:
        assert one.json("api/report") == report
        assert {**one.json("api/trace"), "index": 0} == {**grown, "index": 0}


def test_a_follower_that_goes_away_ends_nothing(pollux, tmp_path):
    whole = (GOOD / "requests.plx").read_bytes()
    trace = tmp_path / "growing.plx"
    trace.write_bytes(whole[: len(whole) - 20])
    with serving(pollux, trace, "--follow") as one:
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", one.port), 20) as plain:
                plain.sendall(f"GET {one.page}api/follow HTTP/1.1\r\nHost: 127.0.0.1:{one.port}\r\n\r\n".encode())
                assert plain.recv(10)
        with socket.create_connection(("127.0.0.1", one.port), 20) as plain:
            plain.sendall(f"GET {one.page}api/follow HTTP/1.1\r\nHost: 127.0.0.1:{one.port}\r\n\r\n".encode())
            assert plain.recv(10)
            trace.write_bytes(whole)
            rest = b""
            while b'"live": false' not in rest:
                got = plain.recv(65536)
                assert got, rest
                rest += got
        assert one.json("api/trace")["live"] is False
        assert one.end() == (0, "")


def test_a_connection_lasts_as_long_as_its_answer(pollux, tmp_path):
    """Followers and slow readers send nothing for longer than a connection without a request is kept."""
    idle = 35
    trace = tmp_path / "growing.plx"
    whole = (GOOD / "requests.plx").read_bytes()
    trace.write_bytes(whole[: len(whole) - 20])
    with serving(pollux, trace, "--follow") as one:
        with socket.create_connection(("127.0.0.1", one.port), 20) as unused, \
                socket.create_connection(("127.0.0.1", one.port), 20) as plain:
            plain.sendall(f"GET {one.page}api/follow HTTP/1.1\r\nHost: 127.0.0.1:{one.port}\r\n\r\n".encode())
            got = plain.recv(65536)
            while b'"live": true' not in got:
                got += plain.recv(65536)
            plain.settimeout(idle)
            with pytest.raises(TimeoutError):
                while True:
                    assert plain.recv(65536), "the server has ended the stream"
            assert unused.recv(1) == b"", "one without a request is ended"
            trace.write_bytes(whole)
            plain.settimeout(60)
            got = b""
            while b'"live": false' not in got:
                more = plain.recv(65536)
                assert more, got
                got += more
        assert one.end() == (0, "")


def test_a_trace_that_is_written_to_is_not_shown(pollux, tmp_path):
    """Its index and its tables are those of before. One that has another file's name by now is shown on."""
    trace = shutil.copy(GOOD / "requests.plx", tmp_path)
    with serving(pollux, trace) as one:
        whole = one.json("api/trace")
        os.rename(shutil.copy(GOOD / "small.plx", tmp_path / "other.plx"), trace)
        assert one.json("api/trace") == whole and one.json("api/report?from=1&to=2000")
        assert one.end() == (0, "")
    with serving(pollux, trace) as one:
        assert one.json("api/trace")
        with open(trace, "ab") as out:
            out.write(b"x")
        for path in ("api/trace", "api/cells", "api/slices?lane=0", "download"):
            status, _, body = one.ask(path)
            assert status == 500 and "has changed" in json.loads(body)["error"], path
        assert one.end() == (0, "")
