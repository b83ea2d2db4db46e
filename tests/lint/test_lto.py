# SPDX-License-Identifier: MIT OR Apache-2.0
"""Distributions build with link-time optimisation, which loses the symbols that an asm statement outside of
functions defines: such code is in files of its own, ending in .S."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE_LEVEL = re.compile(r"^(?:__)?asm(?:__)?\b", re.M)


def at_file_level(text):
    """Whether an asm statement outside of functions is in this C source."""
    return bool(FILE_LEVEL.search(re.sub(r"/\*.*?\*/", "", text, flags=re.S)))


def test_no_asm_at_file_level():
    # Not the agent's: it is linked on its own, without link-time optimisation.
    files = sorted((ROOT / "src").rglob("*.[ch]"))
    assert len(files) > 100
    assert [str(path.relative_to(ROOT)) for path in files if at_file_level(path.read_text())] == []


def test_it_is_found():
    assert at_file_level('void f(void);\n__asm__(".text\\nf:\\n\tret\\n");\n')
    assert not at_file_level("void f(void)\n{\n\t__asm__(\"nop\");\n}\n/*\n__asm__\n*/\n")
