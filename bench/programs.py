# SPDX-License-Identifier: MIT OR Apache-2.0
"""The measured programs: built by cargo, started, and driven over their pipes."""
import json
import os
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CARGO_DIR = Path(os.environ.get("POLLUX_BENCH_DIR", ROOT / "build" / "cargo-bench"))
TICKS = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """One sentence for the user."""


def cargo(manifest, target, *options, flags=""):
    command = ["cargo", "build", "-q", "--locked", "--manifest-path", str(ROOT / manifest),
               "--target-dir", str(CARGO_DIR / target), *options]
    env = dict(os.environ, RUSTFLAGS=flags)
    if subprocess.run(command, env=env).returncode:
        raise Failed(f"cargo could not build {manifest} {' '.join(options)}")
    return CARGO_DIR / target


def build(builtin):
    """Paths of the builds: {"plain": folder, "load": folder, "dial9": ..., "console": ...}."""
    paths = {"plain": cargo("bench/targets/Cargo.toml", "plain", "--release",
                            flags="--cfg tokio_unstable") / "release"}
    paths["load"] = cargo("tests/targets/tokio-1.54/Cargo.toml", "load", "--release", "--bin",
                          "echo_load") / "release"
    for feature in builtin:
        paths[feature] = cargo("bench/targets/Cargo.toml", feature, "--release", "--features",
                               feature, flags="--cfg tokio_unstable") / "release"
    return paths


def build_links():
    """The program whose await points are measured."""
    return cargo("tests/futures/tokio-1.54/Cargo.toml", "links", "--profile", "release-debug", "--bin",
                 "links") / "release-debug" / "links"


def links(binary, recorder, kind, n):
    """CPU ns of a poll of a task that is so many futures deep."""
    with Program(binary, kind, n) as program:
        with recorder.recording(program.pid, binary):
            program.tell()
            cpu_ns = float(program.line().split()[0])
    return {"cpu_ns": cpu_ns, "n": n}


def build_big():
    """A debug build as large as that of a large service."""
    return cargo("bench/big/Cargo.toml", "big") / "debug" / "bench-big"


def cpu_seconds(pid):
    """User and system time of a process, all threads, as far as the clock of ticks tells."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Program:
    """A program that prints a word and something when it is ready: "ready PID"."""

    def __init__(self, path, *args, env=None):
        self.process = subprocess.Popen([str(path), *map(str, args)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, **(env or {})))
        self.pid = self.process.pid
        self.name = Path(path).name
        self.ready = self.line().split()[-1]

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"{self.name} ended early, status {self.process.wait()}")
        return line

    def tell(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, *what):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=20)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def storm(folder, recorder, what, on, n):
    """CPU ns for each yield or spawn, with the recorder running meanwhile."""
    with Program(folder / "storm", what, on, n, "--wait", env=recorder.env()) as program:
        with recorder.recording(program.pid, folder / "storm"):
            program.tell()
            result = json.loads(program.line())
        program.tell()
    return {"cpu_ns": result["cpu_ns_each"], "wall_ns": result["wall_ns_each"], "n": n}


def echo(folder, load, recorder, connections, seconds):
    """Requests a second and the server's CPU time for each, under full load."""
    with Program(folder / "echo_server", env=recorder.env()) as server:
        with recorder.recording(server.pid, folder / "echo_server"):
            before = cpu_seconds(server.pid)
            done = subprocess.run([str(load / "echo_load"), server.ready, str(connections),
                                   str(seconds)], capture_output=True, text=True)
            cpu = cpu_seconds(server.pid) - before
    if done.returncode:
        raise Failed(f"echo_load lost answers: {done.stderr.strip() or done.stdout.strip()}")
    result = json.loads(done.stdout)
    return {"per_second": result["per_second"], "p50_ns": result["p50_ns"],
            "p99_ns": result["p99_ns"], "cpu_ns": cpu * 1e9 / result["requests"],
            "n": result["requests"]}


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"waited {seconds} s for {what}")
        time.sleep(0.01)
