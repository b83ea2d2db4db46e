#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Attaches to a loaded echo server and detaches, over and over: `./dev soak [SECONDS]`.

The server must answer every request, must have the same threads and descriptors at the end, and must not grow
beyond what one attach leaves in it. Prints how often it went well; exits 1 at the first trouble.
"""
import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "e2e"))

import build  # noqa: E402
import driver  # noqa: E402


class Trouble(Exception):
    pass


def state(pid):
    """Threads, descriptors, and KiB of address space of a process."""
    status = dict(line.split(":\t", 1) for line in
                  Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    return {"threads": int(status["Threads"]), "files": len(list(Path(f"/proc/{pid}/fd").iterdir())),
            "size": int(status["VmSize"].split()[0])}


def record(pid, trace):
    """One recording of a moment: (events, lost)."""
    done = subprocess.run([str(driver.pollux_path()), "record", "-p", str(pid), "-d", "200ms", "-o",
                           str(trace)], capture_output=True, text=True)
    if done.returncode:
        raise Trouble(f"record: {done.stderr.strip()}")
    said = subprocess.run([str(driver.pollux_path()), "report", "--json", str(trace)],
                          capture_output=True, text=True)
    if said.returncode:
        raise Trouble(f"report: {said.stderr.strip()}")
    report = json.loads(said.stdout)
    if not report["events"]:
        raise Trouble("a recording under load has no events")
    return report["events"], report["lost"]


def soak(seconds):
    server = subprocess.Popen([str(build.build("tokio-1.54", "release", "echo_server"))],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    address = server.stdout.readline().split()[-1]
    load = subprocess.Popen([str(build.build("tokio-1.54", "release", "echo_load")), address, "16",
                             str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + seconds - 1
    n = events = lost = 0
    first = None
    try:
        with tempfile.TemporaryDirectory() as folder:
            while time.monotonic() < end:
                got = record(server.pid, Path(folder) / "soak.plx")
                n, events, lost = n + 1, events + got[0], lost + got[1]
                first = first or state(server.pid)
                if n % 20 == 0:
                    print(f"   {n} times, {events:,} events, {lost:,} lost", flush=True)
        now = state(server.pid)
        out, err = load.communicate(timeout=60)
    finally:
        load.kill()
        server.stdin.close()
        server.wait(timeout=30)
    if load.returncode:
        raise Trouble(f"the load lost answers: {(err or out).strip()}")
    if server.returncode:
        raise Trouble(f"the server ended with status {server.returncode}")
    if not n or any(now[key] > first[key] for key in ("threads", "files")) or \
            now["size"] > first["size"] + 1024:
        raise Trouble(f"the server grew: {first} after the first recording, {now} after the last")
    print(f"attached and detached {n} times, {events:,} events, {lost:,} lost; "
          f"{json.loads(out)['requests']:,} requests, every one answered")


def main():
    parser = argparse.ArgumentParser(prog="./dev soak", description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=int, default=600)
    try:
        soak(max(parser.parse_args().seconds, 3))
    except Trouble as why:
        sys.exit(f"./dev soak: {why}")


if __name__ == "__main__":
    main()
