# SPDX-License-Identifier: MIT OR Apache-2.0
"""pollux view: what its server answers, and what it refuses."""
import contextlib
import http.client
import json
import signal
import socket
import subprocess
import urllib.parse

import driver
import pytest
from build import ROOT

GOOD = ROOT / "tests" / "traces" / "good"
BAD = ROOT / "tests" / "traces" / "bad"


class Server:
    """A pollux view that has printed its address."""

    def __init__(self, pollux, trace, *options):
        self.process = subprocess.Popen([pollux, "view", "--no-open", *options, trace], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
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
def serving(pollux, trace, *options):
    server = Server(pollux, trace, *options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)


@pytest.fixture(scope="module")
def server(pollux):
    with serving(pollux, GOOD / "small.plx") as one:
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
    others = {line.split()[3] for line in driver.run("ss", "-ltnH").stdout.splitlines()}
    assert {where for where in others if where.endswith(f":{server.port}")} == {f"127.0.0.1:{server.port}"}


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


def test_the_report_is_that_of_the_command(server, pollux):
    assert server.json("api/report") == driver.report(pollux, GOOD / "small.plx")
    window = server.json("api/report?from=1000&to=50000")
    assert window == driver.report(pollux, GOOD / "small.plx", "--from", "1000ns", "--to", "50000ns")


@pytest.mark.parametrize("query", ["from=x", "from=-1", "to=1e9", "to=99999999999999999999", "from=", "%", "a=%0", "&".join("abcdefghijklmnopq")])
def test_a_wrong_query_is_refused(server, query):
    status, _, body = server.ask("api/report?" + query)
    assert status == 400 and json.loads(body)["error"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_ends_with_its_answers(pollux, how):
    with serving(pollux, GOOD / "small.plx") as one:
        with socket.create_connection(("127.0.0.1", one.port), 20) as plain:
            plain.sendall(f"GET {one.page}api/report HTTP/1.1\r\nHost: 127.0.0.1:{one.port}\r\n\r\n".encode())
            assert one.end(how) == (0, "")


@pytest.mark.parametrize("trace", sorted(BAD.glob("*.plx")), ids=lambda path: path.stem)
def test_a_damaged_trace_ends_no_server(pollux, trace):
    with serving(pollux, trace) as one:
        if not one.url:
            code, errors = one.process.wait(60), one.process.stderr.read()
            assert code == 1 and errors.startswith("pollux: cannot show ")
            return
        for path in ("api/report",):
            status, _, body = one.ask(path)
            assert status in (200, 404, 500) and json.loads(body)
        assert one.ask("")[0] == 200
        assert one.end()[0] == 0


def test_a_pipe_is_no_trace_to_view(pollux):
    result = subprocess.run([pollux, "view", "--no-open", "-"], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and "give a file" in result.stderr
