# SPDX-License-Identifier: MIT OR Apache-2.0
"""For tests of what hostile input may cost: commands with their time and memory, and a hostile library."""
import os
import resource
import signal
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MB = 1 << 20
GB = 1 << 30


class Limited:
    """A command, run to its end within this number of seconds: .seconds (since the signal, if it gets one),
    .peak (bytes of memory), .returncode, .stdout, .stderr."""

    def __init__(self, *command, seconds=60, interrupt_after=None, env=None):
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                env={**os.environ, **(env or {})},
                # a failure must not take the machine with it
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (16 * GB, 16 * GB)),
            )
            if interrupt_after is not None:
                time.sleep(interrupt_after)
                process.send_signal(signal.SIGINT)
            began = time.monotonic()
            ended = 0
            while not ended and time.monotonic() < began + seconds:
                ended, status, used = os.wait4(process.pid, os.WNOHANG)
                time.sleep(0.02)
            if not ended:
                process.kill()
                process.wait()
                raise AssertionError(f"{command} did not end within {seconds} s")
            self.seconds = time.monotonic() - began
            self.peak = used.ru_maxrss * 1024
            self.returncode = process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            errors.seek(0)
            self.stdout, self.stderr = out.read(), errors.read()


def hostile_library(folder):
    """hostile.c, built with the layout of the rings that this pollux has."""
    path = Path(folder) / "hostile.so"
    source = Path(__file__).resolve().parent / "hostile.c"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O2", "-pthread", "-I", ROOT, "-o", path, source], check=True
    )
    return str(path)
