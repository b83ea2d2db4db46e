# SPDX-License-Identifier: MIT OR Apache-2.0
"""Facts that are in one place: what docs/architecture.md promises of runtimes, architectures and unwind tables."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = {path.relative_to(ROOT).as_posix(): path.read_text()
        for folder in ("src", "agent") for path in sorted((ROOT / folder).rglob("*.[ch]"))}
OPS = r'struct runtime_ops \w+ = {"([^"]+)"'
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)


def uses(pattern, but=()):
    """The files whose code, without comments, has the pattern."""
    return sorted(name for name, text in CODE.items()
                  if not name.startswith(tuple(but)) and re.search(pattern, COMMENT.sub("", text)))


def runtimes():
    """The names in the tables of operations of src/runtime."""
    return {name for path, text in CODE.items() if path.startswith("src/runtime/")
            for name in re.findall(OPS, text)}


def test_no_other_code_asks_for_a_runtime_by_its_name():
    names = runtimes()
    assert names == {"tokio", "async-task"}
    compared = r'str\w*cmp\([^;]*"(?:' + "|".join(map(re.escape, names)) + r'|async-std|smol|async-executor)"'
    assert uses(compared) == []


def test_each_runtime_is_a_file_and_a_line():
    for name in runtimes():
        files = uses(rf'struct runtime_ops \w+ = {{"{name}"')
        assert len(files) == 1
        ops = re.search(r"struct runtime_ops (\w+) =", CODE[files[0]])[1]
        assert uses(rf"\b{ops}\b(?!\.h)", but=files) == ["src/runtime/find.c", "src/runtime/find.h"]
        assert len(re.findall(rf"\b{ops}\b", CODE["src/runtime/find.c"])) == 1


def test_unwind_tables_have_one_reader():
    """The section is looked up once; only one file knows the augmentation of a CIE."""
    assert uses(r'"\.eh_frame"') == ["src/binary/elf/elf_image.c"]
    assert uses(r"\baugmentation\b|\bDW_CFA_\w+") == ["src/binary/dwarf/eh_frame.c"]


def test_instructions_are_in_folders_of_their_architecture():
    """Bytes of instructions (calls, jumps by relative address, system calls), and registers by their names."""
    own = ("src/arch/x86_64/", "src/binary/x86_64/", "agent/x86_64/")
    assert uses(r"==? 0x(?:e8|e9|eb|0f05|8d)\b|0x0f, 0x05|\bregs?\.(?:rip|rsp|rax|rdi)\b", but=own) == []


def test_a_struct_has_a_tag_of_its_own():
    """So that editors and debuggers tell them apart. A backend defines the struct that its table of operations leaves
    open."""
    files = {}
    for name, text in CODE.items():
        for tag in re.findall(r"^struct (\w+) {", COMMENT.sub("", text), re.M):
            files.setdefault(tag, set()).add(name)
    shared = {tag: where for tag, where in files.items() if len(where) > 1}
    assert shared.keys() == {"capture", "sched_backend"}
    assert all(name.startswith("src/capture/") for where in shared.values() for name in where)
