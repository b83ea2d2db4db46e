# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints C: the names of the system calls, from what the C compiler finds in <asm/unistd_64.h>."""
import re
import subprocess
import sys

text = subprocess.run([*sys.argv[1:], "-E", "-dM", "-x", "c", "-"], input="#include <asm/unistd_64.h>\n",
                      capture_output=True, text=True, check=True).stdout
calls = {int(number): name for name, number in re.findall(r"#define __NR_(\w+) (\d+)$", text, re.M)}
assert len(calls) > 300, "that is no list of system calls"
print("/* Made by syscalls.py. */")
for number, name in sorted(calls.items()):
    print(f'[{number}] = "{name}",')
