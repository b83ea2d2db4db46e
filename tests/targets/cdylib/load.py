"""Loads the library that is named first, lets it work, prints the truth. With --wait behind it: prints
"ready PID" once the library is loaded, works when a line comes, ends when another comes."""
import ctypes
import os
import sys


def main():
    wait = "--wait" in sys.argv[2:]
    library = ctypes.CDLL(sys.argv[1])
    library.inside_begin.restype = ctypes.c_void_p
    library.inside_work.restype = ctypes.c_uint64
    library.inside_work.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    library.inside_end.restype = ctypes.c_char_p
    library.inside_end.argtypes = [ctypes.c_void_p]
    runtime = library.inside_begin()
    if wait:
        print("ready", os.getpid(), flush=True)
        sys.stdin.readline()
    print("sum", library.inside_work(runtime, 500), flush=True)
    print(library.inside_end(runtime).decode(), flush=True)
    if wait:
        sys.stdin.readline()


main()
