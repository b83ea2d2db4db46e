# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints C: the names of x86-64's system calls, from what the C compiler finds in <asm/unistd_64.h>.

Traces have x86-64's numbers. Headers of other machines have others, so there calls have no names.
"""
import re
import subprocess
import sys

text = subprocess.run([*sys.argv[1:], "-E", "-dM", "-x", "c", "-"], capture_output=True, text=True, check=True,
                      input="#ifdef __x86_64__\n#include <asm/unistd_64.h>\n#endif\n").stdout
calls = {int(number): name for name, number in re.findall(r"#define __NR_(\w+) (\d+)$", text, re.M)}
assert len(calls) > 300 or "#define __x86_64__ 1\n" not in text, "that is no list of system calls"
print("/* Made by syscalls.py. */")
if not calls:
    print("NULL,")
for number, name in sorted(calls.items()):
    print(f'[{number}] = "{name}",')
