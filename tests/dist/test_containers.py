# SPDX-License-Identifier: MIT OR Apache-2.0
"""The recipes of docs/containers.md, as far as namespaces go without a container engine."""
import ctypes
import json
import os
import re
import shutil
import subprocess

import build as builder
import driver
import pytest
import sandbox
from conftest import Root

CLONE_NEWNS, MS_REC_PRIVATE = 0x20000, 0x44000
PR_CAPBSET_DROP, CAP_SYS_PTRACE, CAPS = 24, 19, 41
BPF, PERF_EVENT_OPEN, EPERM = 321, 298, 1


@pytest.fixture
def image(dist, tmp_path):
    """(root, entry point) of the image that Containerfile describes."""
    if os.geteuid() != 0:
        pytest.skip("only root can enter a root")
    folder = tmp_path / "image"
    folder.mkdir()
    entry = None
    for line in (driver.ROOT / "Containerfile").read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "COPY":
            source, to = rest.split()
            shutil.copy(dist / source, folder / to.lstrip("/"))
        elif word == "ENTRYPOINT":
            entry = json.loads(rest)
        else:
            assert word in ("#", "") or line == "FROM scratch", line
    return Root(folder), entry


def contained(folder, capabilities):
    """Makes this process one in a container: a root and mounts of its own, and of capabilities only these."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter():
        if libc.unshare(CLONE_NEWNS) or libc.mount(None, b"/", None, MS_REC_PRIVATE, None):
            raise OSError(ctypes.get_errno(), "unshare")
        if libc.mount(b"proc", bytes(folder / "proc"), b"proc", 0, None):
            raise OSError(ctypes.get_errno(), "mount")
        os.chroot(folder)
        os.chdir("/")
        for number in range(CAPS):
            if number not in capabilities:
                libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)

    return enter


def engine_filter():
    """As engines' default filters: what runs inside the kernel, and its counters, are refused."""
    rules = [(sandbox.LOAD, 0, 0, 0)]
    for number in (BPF, PERF_EVENT_OPEN):
        rules += [(sandbox.EQUAL, 0, 1, number), (sandbox.RETURN, 0, 0, 0x00050000 | EPERM)]
    return [*rules, (sandbox.RETURN, 0, 0, sandbox.ALLOW)]


def test_image(image, tree_program):
    """The image's entry point is pollux: its arguments are pollux's."""
    root, entry = image
    assert "tree::own::chain" in root.good(*entry, "tree", tree_program.pid)


def test_sys_ptrace_is_enough(image, tree_program):
    """CAP_SYS_PTRACE, under an engine's filter of system calls: tree and record work; without it, the refusal
    says what is lacking."""
    root, entry = image

    def run(capabilities, *words):
        enter = contained(root.folder, capabilities)

        def prepare():
            enter()
            sandbox.shut_in(engine_filter())

        return driver.run(*entry, *words, preexec_fn=prepare)

    tree = run({CAP_SYS_PTRACE}, "tree", tree_program.pid)
    assert "tree::own::chain" in tree.stdout, tree.stderr
    done = run({CAP_SYS_PTRACE}, "record", "-p", tree_program.pid, "-d", "1", "-o", "/t.plx")
    assert done.returncode == 0, done.stderr
    refused = run(set(), "tree", tree_program.pid)
    assert refused.returncode == 1
    assert "CAP_SYS_PTRACE" in refused.stderr, refused.stderr


def test_sys_ptrace_on_an_old_kernel(image, tree_program):
    """The same on Linux 4.18, where the mapped files of a program are found by their names in its root: all of
    them are opened."""
    root, entry = image
    enter = contained(root.folder, {CAP_SYS_PTRACE})

    def prepare():
        enter()
        sandbox.shut_in(sandbox.linux_4_18())

    done = driver.run(*entry, "record", "-p", tree_program.pid, "-d", "1", "-o", "/t.plx", preexec_fn=prepare)
    assert done.returncode == 0, done.stderr
    assert "can't be opened" not in done.stderr


def test_shared_process_namespace(image):
    """A sidecar, or `kubectl debug --target`: it shares the target's process namespace, in which the target is
    process 1, and has a root of its own."""
    root, entry = image
    program = builder.build("tokio-1.54", "release-debug", "tree", root=driver.ROOT / "tests/tree")
    with subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", program], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as target:
        try:
            assert any(line == "ready 1\n" for line in target.stdout)
            inner = re.search(r"\d+", driver.Path(f"/proc/{target.pid}/task/{target.pid}/children").read_text())[0]
            beside = ["nsenter", f"--target={inner}", "--pid", "--"]
            done = driver.run(*beside, *root.command(*entry, "tree", "1"))
            assert done.returncode == 0, done.stderr
            assert "tree::own::chain" in done.stdout
            done = driver.run(*beside, *root.command(*entry, "record", "-p", "1", "-d", "1", "-o", "/t.plx"))
            assert done.returncode == 0, done.stderr
        finally:
            target.stdin.close()
        assert target.wait(driver.TIMEOUT) == 0, "the program came to harm"


def test_target_of_another_root(image, root):
    """A target whose root and libc are another distribution's, looked at from the image."""
    here, entry = image
    program = builder.build("tokio-1.54", "release-debug", "tree", root=driver.ROOT / "tests/tree")
    shutil.copy(program, root.folder / "tmp/tree")
    with driver.Target("/tmp/tree", prefix=root.command(), wait=()) as target:
        tree = here.good(*entry, "tree", target.pid)
        assert re.search(r"tree::own::chain\s+\.\./src/own\.rs:\d+", tree)
        here.good(*entry, "record", "-p", target.pid, "-d", "1", "-o", "/t.plx")
        assert target.end() == 0, "the program came to harm"


def test_musl_root(pollux, tmp_path, tree_program):
    """Copied into the running root of a system of musl's."""
    if os.geteuid() != 0:
        pytest.skip("only root can enter a root")
    musl = driver.Path("/lib/ld-musl-x86_64.so.1")
    if not musl.exists() or not shutil.which("musl-gcc"):
        pytest.skip("no musl here: package musl-tools")
    folder = tmp_path / "musl"
    for name in ("lib", "tmp"):
        (folder / name).mkdir(parents=True)
    shutil.copy(musl.resolve(), folder / "lib/ld-musl-x86_64.so.1")
    source = tmp_path / "hold.c"
    source.write_text('#include <stdio.h>\nint main(void)\n{\n\tputs("up");\n\tfflush(stdout);\n\treturn getchar();\n}\n')
    subprocess.run(["musl-gcc", "-o", folder / "hold", source], check=True)
    with subprocess.Popen(Root(folder).command("/hold"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "up\n"
        assert "ld-musl" in driver.Path(f"/proc/{holder.pid}/maps").read_text()
        shutil.copy(pollux, f"/proc/{holder.pid}/root/tmp/pollux")
        enter = ["nsenter", f"--target={holder.pid}", "--mount", f"--root=/proc/{holder.pid}/root", "--wd=/"]
        done = driver.run(*enter, "/tmp/pollux", "tree", tree_program.pid)
        assert done.returncode == 0, done.stderr
        assert "tree::own::chain" in done.stdout
        holder.stdin.write("x")
