# SPDX-License-Identifier: MIT OR Apache-2.0
"""Probes: `pollux probes`, and the ones that pollux gives (include/pollux/probes.h, crates/pollux-probes)."""
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import time

import build as builder
import driver
import pytest

ROOT = builder.ROOT
CRATE = ROOT / "crates" / "pollux-probes"
TASK_PROBES = ["task-poll-end", "task-poll-start", "task-spawn", "task-terminate"]
THREAD_PROBES = [f"worker-thread-{what}" for what in ("park", "start", "stop", "unpark")]
CHROME_PROBES = [
    "task_blocking_begin", "task_blocking_end", "task_finish", "task_poll_begin", "task_poll_end",
    "task_schedule_start", "task_start",
]
ASYNC_STD = {
    "async_std_machine_blocked": ["machine"],
    "async_std_machine_scheduled_task": ["machine", "task", "local"],
    "async_std_machine_starting": ["machine"],
    "async_std_task_completed": ["task"],
    "async_std_task_spawn": ["task", "parent", "name", "name_bytes"],
}


def listed(pollux, what):
    result = driver.run(pollux, "probes", "--json", what)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def names(probes):
    return [probe["name"] for probe in probes]


def check_sites(path, probes):
    """Each site is a nop in the file, each semaphore a word that is 0."""
    whole = path.read_bytes()
    for probe in probes:
        assert probe["refused"] is None
        assert whole[int(probe["offset"], 16)] == 0x90, probe
        if "semaphore" in probe:
            at = int(probe["semaphore_offset"], 16)
            assert whole[at : at + 2] == b"\0\0", probe


# ---- listing ----


@pytest.mark.parametrize("profile", ["release", "bfd"])
def test_chrome(pollux, suite, profile):
    """Whoever linked it: lld's addresses are not offsets in the file."""
    path = suite("probes-tokio2chrome", profile)
    told = listed(pollux, path)
    probes = told["objects"][0]["probes"]
    assert names(probes) == CHROME_PROBES and told["usable"] == 7
    check_sites(path, probes)
    assert any(p["offset"] != p["address"] for p in probes) == (profile == "release")
    end = probes[4]
    assert [arg["name"] for arg in end["arguments"]] == ["task", "is_ready", "panicked"]
    assert all(arg["operand"].startswith("-8@") for arg in end["arguments"])
    text = driver.run(pollux, "probes", path).stdout
    assert "Tokio2Chrome" in text and "record --backend kernel" in text


def test_stripped(pollux, suite):
    told = [listed(pollux, suite("probes-tokio2chrome", p)) for p in ("release", "stripped")]
    assert told[0]["objects"][0]["probes"] == told[1]["objects"][0]["probes"]


@pytest.mark.parametrize("package", ["probes-pollux", "probes-tokio-dtrace"])
def test_hooks(pollux, suite, package):
    """tokio-dtrace's own probes are at several sites each, those of the target at one."""
    path = suite(package)
    told = listed(pollux, path)
    probes = told["objects"][0]["probes"]
    assert sorted(set(names(probes))) == TASK_PROBES + THREAD_PROBES
    assert told["usable"] == len(probes) and (len(probes) == 8) == (package == "probes-pollux")
    check_sites(path, probes)
    for probe in probes:
        arguments = [] if probe["name"] in THREAD_PROBES else ["task", "file", "line", "column"]
        assert [arg["name"] for arg in probe["arguments"]] == arguments
        assert "tokio-dtrace" in probe["source"]
        assert int(probe["semaphore"], 16) % 2 == 0
    assert len({probe["semaphore"] for probe in probes}) == 8


@pytest.mark.parametrize("profile", ["release", "release-lto"])
def test_async_std(pollux, suite, profile):
    told = listed(pollux, suite("probes-async-std", profile))
    functions = told["objects"][0]["functions"]
    assert {f["symbol"]: [a["name"] for a in f["arguments"]] for f in functions} == ASYNC_STD
    assert all(f["refused"] is None for f in functions)
    assert len({f["address"] for f in functions}) == told["usable"] == 5


def test_folded(pollux, tmp_path):
    """Functions that became one can't be distinguished; what is missing is named."""
    source = tmp_path / "folded.s"
    source.write_text(
        ".text\n.globl _start\n_start: ret\n"
        ".globl async_std_task_completed, async_std_machine_blocked, async_std_task_spawn\n"
        ".type async_std_task_completed, @function\n.type async_std_machine_blocked, @function\n"
        ".type async_std_task_spawn, @function\n"
        "async_std_task_spawn: nop\nret\n"
        "async_std_task_completed:\nasync_std_machine_blocked: nop\nret\n"
    )
    path = tmp_path / "folded"
    subprocess.run(["gcc", "-nostdlib", "-static", "-o", path, source], check=True)
    told = listed(pollux, path)
    refused = {f["symbol"]: f["refused"] for f in told["objects"][0]["functions"]}
    assert refused["async_std_task_spawn"] is None and told["usable"] == 1
    assert "merged several functions" in refused["async_std_task_completed"]
    assert "merged several functions" in refused["async_std_machine_blocked"]
    text = driver.run(pollux, "probes", path).stdout
    assert "no function async_std_machine_starting" in text


def test_none(pollux, suite):
    path = suite("tokio-1.54")
    assert listed(pollux, path)["usable"] == 0
    text = driver.run(pollux, "probes", path).stdout
    assert "no probes" in text and "pollux record" in text and "--backend kernel" in text
    result = driver.run(pollux, "probes", "/etc/passwd")
    assert result.returncode == 1 and "not an ELF file" in result.stderr
    assert driver.run(pollux, "probes").returncode == 2


def test_table(pollux):
    """All that is known, whatever program; each make once."""
    text = driver.run(pollux, "probes", "--list").stdout
    heads = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert len(heads) == len(set(heads)) and any("7717" in head for head in heads)
    rows = json.loads(driver.run(pollux, "probes", "--list", "--json").stdout)
    assert {row["symbol"] for row in rows} - {None} == set(ASYNC_STD)
    assert {"task_start", "task-spawn", "task-details"} <= {row["name"] for row in rows}
    assert driver.run(pollux, "probes", "--list", "/bin/true").returncode == 2


def test_process(pollux, suite):
    with driver.Target(suite("probes-pollux"), "steady") as target:
        told = listed(pollux, target.pid)
        assert told["pid"] == target.pid and told["usable"] == 8
        assert all(probe["listeners"] == 0 for probe in told["objects"][0]["probes"])
        assert "(0 listen)" in driver.run(pollux, "probes", target.pid).stdout
        target.go()
        target.go()
        assert target.end() == 0


# ---- the ones that pollux gives ----


def disassembled(path):
    """{function: [instructions]}"""
    out = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True
    ).stdout
    functions = {}
    for block in out.split("\n\n"):
        head = re.search(r"^[0-9a-f]+ <(.+)>:$", block, re.M)
        if head:
            lines = block[head.end() :].strip().splitlines()
            functions[head[1]] = [line.split("\t", 1)[1] for line in lines if "\t" in line]
    return functions


def checks_first(instructions, semaphore):
    """Whether it begins with the load of the semaphore and a branch that a 0 doesn't take."""
    loads = [f"# {semaphore:x} <" in line for line in instructions[:3]]
    text = [line.split("#")[0] for line in instructions[:4]]
    if not loads[0]:
        return False
    compare = text[0].startswith("cmpw") or text[1].startswith("test")
    branch = text[1 if text[0].startswith("cmpw") else 2]
    after = text[2 if text[0].startswith("cmpw") else 3]
    return compare and branch.startswith("jne") and after.startswith("ret")


def test_disabled_is_a_load_and_a_branch(pollux, suite):
    """The hooks that Tokio calls, as compiled."""
    path = suite("probes-pollux")
    functions = disassembled(path)
    for probe in listed(pollux, path)["objects"][0]["probes"]:
        semaphore = int(probe["semaphore"], 16)
        found = [name for name, code in functions.items() if checks_first(code, semaphore)]
        assert found, f"no function begins with a look at the semaphore of {probe['name']}"


C_SOURCE = """
#include <pollux/probes.h>
void spawned(uint64_t id) { pollux_task_spawn(id, "lib.c", 3, 4); }
void parked(void) { pollux_worker_thread_park(); }
"""
C_MAIN = """
#include <pollux/probes.h>
void spawned(uint64_t id);
void parked(void);
int main(void)
{
	spawned(7);
	pollux_task_spawn(8, "main.c", 9, 1);
	pollux_task_poll_start(8, "main.c", 9, 1);
	pollux_task_poll_end(8, "main.c", 9, 1);
	pollux_task_terminate(8, "main.c", 9, 1);
	parked();
	pollux_worker_thread_start();
	pollux_worker_thread_stop();
	pollux_worker_thread_unpark();
	return POLLUX_ENABLED(task_spawn);
}
"""


@pytest.mark.parametrize("compiler", ["gcc -std=c11", "gcc -O0", "clang -std=c17", "g++ -x c++ -std=c++20"])
def test_header(pollux, tmp_path, compiler):
    """In two files of one program, by each compiler; semaphores are shared."""
    command = compiler.split()
    if not shutil.which(command[0]):
        pytest.fail(f"no {command[0]} here")
    for name, text in (("lib.c", C_SOURCE), ("main.c", C_MAIN)):
        (tmp_path / name).write_text(text)
    path = tmp_path / "program"
    if "-O0" not in command:
        command.append("-O2")
    command += ["-Wall", "-Wextra", "-Werror", "-I", str(ROOT / "include"), "-o", str(path)]
    subprocess.run([*command, tmp_path / "lib.c", tmp_path / "main.c"], check=True)
    probes = listed(pollux, path)["objects"][0]["probes"]
    assert sorted(set(names(probes))) == TASK_PROBES + THREAD_PROBES
    spawns = [probe for probe in probes if probe["name"] == "task-spawn"]
    assert len(spawns) >= 2 and len({probe["semaphore"] for probe in spawns}) == 1
    check_sites(path, probes)
    operands = [arg["operand"] for arg in spawns[0]["arguments"]]
    assert operands == ["8@%rdi", "8@%rsi", "4@%edx", "4@%ecx"]
    assert subprocess.run([path]).returncode == 0
    if command[0] == "gcc" and "-O2" in command:
        parked = disassembled(path)["parked"]
        park = next(probe for probe in probes if probe["name"] == "worker-thread-park")
        assert checks_first(parked, int(park["semaphore"], 16)), parked


def test_header_on_arm(tmp_path):
    """The note as an assembler for aarch64 makes it."""
    clang = shutil.which("clang") or shutil.which("clang-14")
    assert clang, "no clang here"
    source = tmp_path / "lib.c"
    source.write_text(C_SOURCE)
    subprocess.run(
        [clang, "--target=aarch64-linux-gnu", "-O2", "-ffreestanding", "-nostdlibinc", "-Wall",
         "-Werror", "-I", ROOT / "include", "-c", "-o", tmp_path / "lib.o", source],
        check=True,
    )
    notes = subprocess.run(
        ["readelf", "-n", tmp_path / "lib.o"], capture_output=True, text=True, check=True
    ).stdout
    assert "Arguments: 8@x0 8@x1 4@w2 4@w3" in notes and "Name: worker-thread-park" in notes


# ---- the crate ----


one_at_a_time = pytest.mark.xdist_group("crate")


@functools.lru_cache(maxsize=None)
def crate(version):
    """A copy of the crate whose Tokio is of that version; None: the newest."""
    place = builder.OUT / "pollux-probes" / (version or "newest")
    shutil.rmtree(place / "crate", ignore_errors=True)
    shutil.copytree(CRATE, place / "crate", ignore=shutil.ignore_patterns("target"))
    manifest = ["--manifest-path", str(place / "crate" / "Cargo.toml")]
    precise = ["--precise", version] if version else []
    subprocess.run(["cargo", "update", "--quiet", *manifest, "-p", "tokio", *precise], check=True)
    return place


def cargo(version, unstable, *command):
    place = crate(version)
    env = {k: v for k, v in os.environ.items() if k != "CARGO_TARGET_DIR"}
    env["RUSTFLAGS"] = "-D warnings" + (" --cfg tokio_unstable" if unstable else "")
    folder = place / ("unstable" if unstable else "stable")
    result = subprocess.run(
        ["nice", "cargo", *command, "--locked", "--jobs", builder.JOBS, "--target-dir", folder,
         "--manifest-path", place / "crate" / "Cargo.toml"],
        env=env, capture_output=True, text=True,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return folder, result.stdout


@one_at_a_time
@pytest.mark.parametrize("unstable", [True, False], ids=["unstable", "stable"])
@pytest.mark.parametrize("version", ["1.46.1", None], ids=["oldest", "newest"])
def test_crate(version, unstable):
    """Its own tests: without unstable features register_hooks is an error that says why."""
    _, said = cargo(version, unstable, "test", "--lib")
    assert f"test result: ok. {3 if unstable else 2} passed" in said


@one_at_a_time
@pytest.mark.parametrize("version", ["1.46.1", None], ids=["oldest", "newest"])
def test_example_has_the_probes(pollux, version):
    folder, _ = cargo(version, True, "build", "--release", "--example", "basic")
    told = listed(pollux, folder / "release" / "examples" / "basic")
    assert names(told["objects"][0]["probes"]) == TASK_PROBES + THREAD_PROBES


@one_at_a_time
def test_without_unstable_the_threads_alone(pollux):
    folder, _ = cargo(None, False, "build", "--release", "--example", "basic")
    path = folder / "release" / "examples" / "basic"
    result = subprocess.run([path], capture_output=True, text=True)
    assert result.returncode == 1 and "UnstableFeaturesRequired" in result.stderr


# ---- bpftrace ----


def bpftrace_or_skip():
    if not shutil.which("bpftrace"):
        pytest.skip("no bpftrace here")
    if os.geteuid() != 0:
        pytest.skip("bpftrace needs root")


def listening(pollux, pid):
    return [p["listeners"] for p in listed(pollux, pid)["objects"][0]["probes"]]


def interrupted(process):
    """Its exit status; one that is just attaching may not heed the first Ctrl-C."""
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        try:
            return process.wait(20)
        except subprocess.TimeoutExpired:
            pass
    return None


@one_at_a_time
@pytest.mark.parametrize("script,uses", [("print-all", 8), ("count-spawns", 1), ("poll-stats", 4)])
def test_bpftrace(pollux, script, uses, tmp_path):
    """Each script on a program that runs; its probes listen while the script does."""
    bpftrace_or_skip()
    folder, _ = cargo(None, True, "build", "--release", "--example", "basic")
    with open(tmp_path / "out", "w+") as out, subprocess.Popen(
        [folder / "release" / "examples" / "basic", "60"], stdout=subprocess.DEVNULL
    ) as program:
        tracer = subprocess.Popen(
            ["bpftrace", "-p", str(program.pid), CRATE / "bpftrace" / f"{script}.bt"],
            stdout=out, stderr=subprocess.STDOUT,
        )
        try:
            deadline = time.monotonic() + driver.TIMEOUT
            while time.monotonic() < deadline:
                counts = listening(pollux, program.pid)
                if sum(counts) == uses or tracer.poll() is not None:
                    break
                time.sleep(0.1)
            assert sum(counts) == uses and max(counts) == 1, (tmp_path / "out").read_text()
            time.sleep(2)
            assert interrupted(tracer) == 0
            assert sum(listening(pollux, program.pid)) == 0
        finally:
            tracer.kill()
            program.kill()
    said = (tmp_path / "out").read_text()
    if script == "print-all":
        spawns = re.findall(r"task-spawn\(task=(\d+)\) at examples/basic.rs:\d+:\d+", said)
        starts = set(re.findall(r"task-poll-start\(task=(\d+)\)", said))
        assert len(spawns) > 50 and len(set(spawns)) == len(spawns)
        # bpftrace loses lines when it can't print as fast as they come
        assert sum(task in starts for task in spawns) > len(spawns) * 0.5
        assert "worker-thread-park" in said and "worker-thread-unpark" in said
    elif script == "count-spawns":
        counts = [int(n) for n in re.findall(r"^\]: (\d+)$", said, re.M)]
        assert sum(counts) > 50 and "probes" in said
    else:
        for table in ("poll_duration_ns", "lifetime_ns", "active_time_ns"):
            assert re.search(rf"@{table}\[examples/basic.rs, \d+, \d+\]", said), (table, said)
        # the tasks that sleep for 20 ms, or longer if they get no CPU
        sleeps = said.split("@lifetime_ns[examples/basic.rs, 12,")[1].split("@")[0]
        counts = dict(re.findall(r"\[(\w+), \w+\)\s+(\d+)", sleeps))
        assert "16M" in counts or "32M" in counts, said
        assert sum(map(int, counts.values())) > 10, said
        assert not [least for least in counts if not re.fullmatch(r"(16|32|64|128|256|512)M|\d+G", least)
                    and counts[least] != "0"], said
