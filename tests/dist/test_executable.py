# SPDX-License-Identifier: MIT OR Apache-2.0
"""The one executable: what it is, and that it needs nothing of the system but the kernel."""
import json
import re
import struct
import subprocess
import time

import build as builder
import driver
import sandbox
import smoke

MAX_BYTES = 8 << 20
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE = 1, 2, 3, 4
DT_NEEDED = 1
ET_DYN, EM_X86_64 = 3, 62


def segments(data):
    """(type, bytes) of each program header."""
    at, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    for i in range(count):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", data, at + i * size)
        yield kind, data[offset:offset + length]


def needed_isa(data):
    """Bits of GNU_PROPERTY_X86_ISA_1_NEEDED: 1 is the baseline, 2 is x86-64-v2."""
    for kind, note in segments(data):
        at = note.find(struct.pack("<II", 0xC0008002, 4)) if kind == PT_NOTE else -1
        if at >= 0:
            return struct.unpack_from("<I", note, at + 8)[0]
    return 0


def test_elf(pollux):
    """A static, position-independent program of the x86-64 baseline, without an interpreter or a library:
    which makes the wheel's tags true, whatever the libc."""
    data = pollux.read_bytes()
    assert len(data) <= MAX_BYTES
    assert data[:6] == b"\x7fELF\x02\x01"
    assert struct.unpack_from("<HH", data, 16) == (ET_DYN, EM_X86_64)
    found = dict(segments(data))
    assert PT_INTERP not in found
    dynamic = found[PT_DYNAMIC]
    tags = [tag for tag, _ in struct.iter_unpack("<QQ", dynamic[:len(dynamic) // 16 * 16])]
    assert DT_NEEDED not in tags
    assert needed_isa(data) & ~1 == 0
    sections = driver.run("readelf", "-SW", pollux).stdout
    assert ".text" in sections
    assert ".symtab" not in sections and ".debug_info" not in sections, "not stripped"


def test_no_path_of_the_build(pollux):
    """Neither the folder it was built in nor a home is in it."""
    strings = driver.run("strings", "-n", "6", pollux).stdout
    assert "build-dist" not in strings
    assert str(driver.ROOT) not in strings


def test_version(pollux):
    """The version is meson's; it says how it was linked."""
    declared = re.search(r"^\s*version: '([^']+)'", (driver.ROOT / "meson.build").read_text(), re.M)[1]
    said = driver.run(pollux, "--version").stdout
    assert re.fullmatch(rf"pollux {re.escape(declared)} \((?:[0-9a-f]{{10}}(?:-dirty)?, )?static, with BPF\)\n", said)


def test_empty_root(empty, tree_program):
    """With nothing beside the file: no libc, no /tmp, no /dev, no /etc."""
    smoke.works(empty, "/pollux", tree_program)
    assert sorted(path.name for path in empty.folder.iterdir()) == ["pollux", "proc", *smoke.LEFT]


def shut_in_4_18():
    """From now on this process and what it starts have the system calls of Linux 4.18."""
    sandbox.shut_in(sandbox.linux_4_18())


def test_calls_of_an_old_kernel(empty, tree_program):
    """All that an answer needs is there in Linux 4.18."""
    smoke.works(empty, "/pollux", tree_program, preexec_fn=shut_in_4_18)


def test_answers_of_an_old_engine(empty, tree_program):
    """Where a container engine answers EPERM to each call that it does not know, also to clone3: glibc, which is in the
    executable, would make no thread."""
    smoke.works(empty, "/pollux", tree_program, preexec_fn=lambda: sandbox.shut_in(sandbox.old_engine()))


def test_launches_on_an_old_kernel(pollux, tmp_path):
    """The program's system calls are those of Linux 4.18, too: nothing that pollux lets it do needs a newer one."""
    program = builder.build("tokio-1.54", "release", "suite")
    done = driver.run(pollux, "record", "-o", tmp_path / "t.plx", "--", program, "multi_thread", preexec_fn=shut_in_4_18)
    assert done.returncode == 0, done.stderr
    truth = json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"truth"')))
    report = json.loads(driver.run(pollux, "report", "--json", tmp_path / "t.plx").stdout)
    assert report["lost"] == 0
    assert report["tasks"]["spawned"] == truth["totals"]["spawned"]


def test_brings_its_manual(empty):
    """Man pages and completions, where neither man nor a package is."""
    page = empty.good("/pollux", "help", "record")
    assert "Exit status: " in page
    assert len(page) > len(empty.good("/pollux", "record", "--help"))
    for shell, sign in (("bash", "complete -o filenames -F _pollux pollux"), ("zsh", "#compdef pollux"),
                        ("fish", "complete -c pollux")):
        assert sign in empty.good("/pollux", "completion", shell)
    assert empty.run("/pollux", "completion", "tcsh").returncode == 2


def test_launches_in_empty_root(empty):
    """`record -- CMD` there, of the only program there is."""
    done = empty.run("/pollux", "record", "-o", "/t.plx", "--", "/pollux", "--version")
    assert done.stdout.startswith("pollux "), done.stderr


def test_own_namespaces(empty, tree_program):
    """As a debug container beside a target: namespaces of its own but for the processes', no capability
    but that to trace."""
    words = empty.command("/pollux", "tree", tree_program.pid)
    alone = ["unshare", "--net", "--uts", "--ipc"]
    dropped = ["setpriv", "--bounding-set", "-all,+sys_ptrace,+sys_chroot,+sys_admin", "--"]
    done = driver.run(*alone, *dropped, *words)
    assert done.returncode == 0, done.stderr
    assert "tree::own::chain" in done.stdout


def test_copied_into_a_running_root(pollux, root, tree_program):
    """As one file that is copied through /proc/PID/root into a container that runs already."""
    sleeper = subprocess.Popen(root.command("sleep", "600"))
    try:
        there = driver.Path(f"/proc/{sleeper.pid}/root")
        deadline = time.monotonic() + driver.TIMEOUT
        while there.readlink() != root.folder:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        (there / "tmp/pollux").write_bytes(pollux.read_bytes())
        (there / "tmp/pollux").chmod(0o755)
        entered = ["nsenter", f"--target={sleeper.pid}", "--mount", f"--root=/proc/{sleeper.pid}/root", "--wd=/"]
        done = driver.run(*entered, "/tmp/pollux", "tree", tree_program.pid)
        assert done.returncode == 0, done.stderr
        assert "tree::own::chain" in done.stdout
    finally:
        sleeper.kill()
        sleeper.wait()
