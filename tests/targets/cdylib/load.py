# SPDX-License-Identifier: MIT OR Apache-2.0
"""Loads the libraries that are named first, lets each work, prints the truth of them all. With --wait
behind them: prints "ready PID" once they are loaded, works when a line comes, ends when another comes."""
import ctypes
import json
import os
import sys


def load(path):
    library = ctypes.CDLL(path)
    library.inside_begin.restype = ctypes.c_void_p
    library.inside_work.restype = ctypes.c_uint64
    library.inside_work.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    library.inside_end.restype = ctypes.c_char_p
    library.inside_end.argtypes = [ctypes.c_void_p]
    return library, library.inside_begin()


def together(truths):
    """One truth: all families, and the sums of all counts."""
    whole = truths[0]
    for truth in truths[1:]:
        whole["families"] += truth["families"]
        for what, count in truth["totals"].items():
            whole["totals"][what] += count
    return whole


def main():
    wait = "--wait" in sys.argv[2:]
    loaded = [load(path) for path in sys.argv[1:] if path != "--wait"]
    if wait:
        print("ready", os.getpid(), flush=True)
        sys.stdin.readline()
    for library, runtime in loaded:
        print("sum", library.inside_work(runtime, 500), flush=True)
    truths = [library.inside_end(runtime).decode() for library, runtime in loaded]
    print(json.dumps(together([json.loads(truth) for truth in truths])), flush=True)
    if wait:
        sys.stdin.readline()


main()
