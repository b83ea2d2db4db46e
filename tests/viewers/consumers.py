# SPDX-License-Identifier: MIT OR Apache-2.0
"""What reads exports in programs, from PyPI: fetched once into a cache outside of the tree."""
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

PACKAGES = {
    # Perfetto's own protobuf messages. Its trace processor is no part of the package.
    "perfetto": ("perfetto==0.59.1", "protobuf==7.36.2"),
    "duckdb": ("duckdb==2.0.1",),
    "otlp": ("opentelemetry-proto==1.45.2", "protobuf==7.36.2"),
}


def cache_dir():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "pollux-tests" / "consumers"


def fetch(name):
    """Makes the packages of a consumer importable. RuntimeError where they can't be had."""
    folder = cache_dir() / name
    wanted = "\n".join((*PACKAGES[name], sys.version))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        done = folder / "done"
        if not done.exists() or done.read_text() != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            run = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-input", "--target",
                                  folder, *PACKAGES[name]], capture_output=True, text=True, timeout=300)
            if run.returncode:
                raise RuntimeError(run.stderr.strip()[-500:])
            done.write_text(wanted)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
