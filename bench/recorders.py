# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is compared: each records one program that runs already, or is built into it.

A recorder gives `env()` for the program and `recording(pid, binary)`, a context in which it
records. After it, `facts` holds what it says of itself.
"""
import contextlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from programs import ROOT, Failed, wait_for

POLLUX = Path(os.environ.get("POLLUX", ROOT / "build" / "src" / "cli" / "pollux"))
TRACEFS = Path("/sys/kernel/tracing")


class Nothing:
    name = "nothing"
    build = "plain"
    slow = 1  # a storm is made so many times smaller, or it would take all day

    def __init__(self):
        self.facts = {}

    def env(self):
        return {}

    @contextlib.contextmanager
    def recording(self, pid, binary):
        yield


class Slower(Nothing):
    """Not recorded, but each answer of the echo server takes a little longer: what that alone does."""

    def __init__(self, ns):
        super().__init__()
        self.name = f"nothing, {ns} ns more work"
        self.ns = ns

    def env(self):
        return {"ECHO_WORK_NS": str(self.ns)}


class Pollux(Nothing):
    name = "pollux"

    def __init__(self, keep=None, options=()):
        super().__init__()
        self.keep = keep  # the trace is moved there
        self.options = options

    def start(self, pid, trace):
        process = subprocess.Popen([str(POLLUX), "record", "-p", str(pid), "-o", str(trace), *self.options],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        maps = Path(f"/proc/{pid}/maps")

        def loaded():
            if process.poll() is not None:
                raise Failed(f"pollux: {process.stdout.read().strip()}")
            return "pollux-agent" in maps.read_text()

        wait_for(loaded, 20, "pollux to load its agent")
        time.sleep(0.3)  # then the hooks are set, and it is enabled
        return process

    def stop(self, process, trace):
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[0]
        if process.returncode:
            raise Failed(f"pollux: {said.strip()}")
        report = subprocess.run([str(POLLUX), "report", "--json", str(trace)], capture_output=True,
                                text=True)
        if report.returncode:
            raise Failed(f"pollux report: {report.stderr.strip()}")
        self.facts = json.loads(report.stdout)
        self.facts["bytes"] = trace.stat().st_size

    @contextlib.contextmanager
    def recording(self, pid, binary):
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "bench.plx"
            process = self.start(pid, trace)
            try:
                yield
            finally:
                self.stop(process, trace)
            if self.keep:
                shutil.move(trace, self.keep)


class Places(Pollux):
    """With await points of this depth."""

    def __init__(self, depth):
        super().__init__(options=["--places", depth, "--ring-size", "64M"])
        self.name = depth


class Detached(Pollux):
    """Attached, recorded for a moment, gone before the work begins."""
    name = "pollux, detached"

    @contextlib.contextmanager
    def recording(self, pid, binary):
        with super().recording(pid, binary):
            pass
        self.facts = {}
        yield


class Kernel(Pollux):
    """pollux record --backend kernel: uprobes on the same functions, and on those that wake and spawn."""
    name = "pollux, kernel"
    slow = 40

    def __init__(self):
        super().__init__()
        if os.geteuid() != 0:
            raise Failed("uprobes need root")

    def start(self, pid, trace):
        process = subprocess.Popen([str(POLLUX), "record", "--backend", "kernel", "-p", str(pid),
                                    "-o", str(trace)],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        def attached():
            if process.poll() is not None:
                raise Failed(f"pollux: {process.stdout.read().strip()}")
            with contextlib.suppress(OSError):
                return any("link_type:\tuprobe_multi" in fd.read_text()
                           for fd in Path(f"/proc/{process.pid}/fdinfo").iterdir())
            return False

        wait_for(attached, 20, "pollux to put its probes in")
        time.sleep(0.3)
        return process


class Perf(Nothing):
    """perf record on uprobes at raw::poll (entry and return) and raw::schedule: what the agent sees.

    The probes are written into tracefs by hand, by file offset. perf probe of Debian 12 mixes up
    addresses and offsets in binaries linked by lld, and would break the program.
    """
    name = "perf uprobes"
    slow = 40
    group = "pollux_bench"

    def __init__(self):
        super().__init__()
        if os.geteuid() != 0:
            raise Failed("uprobes need root")
        if not shutil.which("perf"):
            raise Failed("perf is not installed (linux-perf)")
        if not (TRACEFS / "uprobe_events").exists():
            subprocess.run(["mount", "-t", "tracefs", "tracefs", str(TRACEFS)],
                           capture_output=True)
        if not (TRACEFS / "uprobe_events").exists():
            raise Failed("this kernel has no uprobe_events in tracefs")

    def define(self, binary):
        lines = []
        for i, (function, offset) in enumerate(task_functions(binary)):
            place = f"{self.group}/{function}_{i} {binary}:{offset:#x}"
            lines.append("p:" + place)
            if function == "poll":
                lines.append("r:" + place.replace("/poll_", "/poll_end_"))
        if not lines:
            raise Failed(f"{binary} has no symbols of raw::poll")
        self.remove()
        for line in lines:
            self.tell(line)

    @staticmethod
    def tell(line):
        """One definition in one write, as the kernel wants it."""
        events = os.open(TRACEFS / "uprobe_events", os.O_WRONLY | os.O_APPEND)
        try:
            os.write(events, line.encode() + b"\n")
        except OSError as why:
            raise Failed(f"the kernel refuses the uprobe '{line}': {why.strerror}") from why
        finally:
            os.close(events)

    def remove(self):
        have = (TRACEFS / "uprobe_events").read_text().splitlines()
        for line in have:
            name = line.split()[0].split(":", 1)[1]
            if name.startswith(self.group + "/"):
                self.tell(f"-:{name}")

    @contextlib.contextmanager
    def recording(self, pid, binary):
        self.define(binary)
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "perf.data"
            process = subprocess.Popen(["perf", "record", "-q", "-e", f"{self.group}:*", "-m", "8M",
                                        "-p", str(pid), "-o", str(data)],
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            try:
                wait_for(lambda: process.poll() is not None or data.exists(), 20, "perf")
                time.sleep(0.5)
                if process.poll() is not None:
                    raise Failed(f"perf: {process.stdout.read().strip()}")
                yield
            finally:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=120)
                self.remove()
            self.facts = {"bytes": data.stat().st_size, **self.count(data)}

    @staticmethod
    def count(data):
        """Events and losses by perf's own statistics."""
        said = subprocess.run(["perf", "report", "--stats", "-i", str(data)], capture_output=True,
                              text=True).stdout
        samples = re.search(r"SAMPLE events:\s+(\d+)", said)
        lost = re.search(r"LOST_SAMPLES events:\s+(\d+)", said)
        return {"events": int(samples[1]) if samples else 0, "lost": int(lost[1]) if lost else 0}


class Builtin(Nothing):
    """A recorder in the program itself: no other process."""

    def __init__(self, name):
        super().__init__()
        self.name = self.build = name

    def env(self):
        return {"DIAL9_TRACE_DIR": str(self.folder)} if self.name == "dial9" else {}

    @property
    def folder(self):
        path = Path(tempfile.gettempdir()) / f"pollux-bench-{os.getpid()}-dial9"
        shutil.rmtree(path, ignore_errors=True)
        return path


def clean():
    shutil.rmtree(Path(tempfile.gettempdir()) / f"pollux-bench-{os.getpid()}-dial9",
                  ignore_errors=True)


def task_functions(binary):
    """("poll"|"schedule", file offset) of each function of Tokio's tasks in an ELF file's symbols."""
    data = Path(binary).read_bytes()
    (ph_offset, sh_offset) = struct.unpack_from("<QQ", data, 32)
    (ph_size, n_ph, sh_size, n_sh) = struct.unpack_from("<HHHH", data, 54)
    loads = []
    for i in range(n_ph):
        kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", data, ph_offset + i * ph_size)
        if kind == 1:  # PT_LOAD
            loads.append((address, offset, size))
    found = []
    for i in range(n_sh):
        header = sh_offset + i * sh_size
        kind = struct.unpack_from("<I", data, header + 4)[0]
        if kind != 2:  # SHT_SYMTAB
            continue
        offset, size, link = struct.unpack_from("<QQI", data, header + 24)
        strings = struct.unpack_from("<Q", data, sh_offset + link * sh_size + 24)[0]
        for at in range(offset, offset + size, 24):
            name_at, info, _, _, value, length = struct.unpack_from("<IBBHQQ", data, at)
            name_at += strings
            name = data[name_at:data.index(b"\0", name_at)]
            match = re.search(rb"4task3raw(4poll|8schedule)", name)
            if match and info & 15 == 2 and length:  # STT_FUNC
                for address, start, n in loads:
                    if address <= value < address + n:
                        found.append((match[1][1:].decode(), value - address + start))
    return sorted(set(found))
