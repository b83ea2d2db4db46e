# SPDX-License-Identifier: MIT OR Apache-2.0
"""Wrong uses, as newcomers make them: the command line, its exit status, and the sentence that says
what is the matter and what to do."""
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path

import driver
import pytest
import sandbox

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
TRACES = Path(__file__).resolve().parents[1] / "traces"
GOOD = TRACES / "good" / "small.plx"
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv"
)
pytestmark = pytest.mark.xdist_group("uses")  # they share processes


class World:
    """Processes and files to which commands refer by {name}."""

    def __init__(self, pollux, suite, folder):
        self.folder, self.processes = folder, []
        self.target = driver.Target(suite(), "steady")
        self.target.go()
        self.idle = driver.Target(suite(), "steady")
        self.names = {
            "pollux": pollux, "suite": suite(), "old": suite("tokio-1.20"), "pid": self.target.pid,
            "idle": self.idle.pid, "stripped": suite("tokio-1.38", "stripped"), "here": folder,
            "sleep": self.start("sleep", "600"), "python": self.start(sys.executable, "-c", "input()"),
            "gone": self.gone(), "zombie": self.zombie(), "kernel": self.kernel_thread(),
            "thread": max(int(tid) for tid in os.listdir(f"/proc/{self.target.pid}/task")),
            "good": GOOD,
        }
        self.files()

    def start(self, *words, **options):
        process = subprocess.Popen(words, stdin=subprocess.PIPE, **options)
        self.processes.append(process)
        return process.pid

    def files(self):
        good = GOOD.read_bytes()
        middle = bytearray(good)
        middle[len(good) // 2] ^= 0xff
        # Of names that no other run of this has.
        self.names["twice"], self.names["once"] = f"twice{os.getpid()}", f"pollux-named-{os.getpid()}"
        shutil.copy(shutil.which("sleep"), self.folder / self.names["once"])
        for name, content in {
            "cut.plx": good[:-100], "middle.plx": bytes(middle), "head.plx": good[:100], "empty.plx": b"",
            "text.plx": b"no trace\n", "json.plx": b"{}\n", "trace.plx": good, "notes": b"precious",
            "moments.plx": (GOOD.parent / "moments.plx").read_bytes(),
            "quiet.plx": (GOOD.parent / "no-events.plx").read_bytes(),
            "elf.plx": Path("/bin/true").read_bytes(),
        }.items():
            (self.folder / name).write_bytes(content)
        os.mkfifo(self.folder / "fifo")
        for name in ("first", "second"):
            folder = self.folder / name
            folder.mkdir()
            shutil.copy(shutil.which("sleep"), folder / self.names["twice"])
            self.names[name] = self.start(folder / self.names["twice"], "600")
        self.start(self.folder / self.names["once"], "600")

    @staticmethod
    def gone():
        process = subprocess.Popen(["true"])
        process.wait()
        return process.pid

    def zombie(self):
        process = subprocess.Popen(["true"])
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self.processes.append(process)
        return process.pid

    @staticmethod
    def kernel_thread():
        """0 where there are none to be seen (a pid namespace)."""
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if "\nVmSize:" not in (path / "status").read_text() and os.stat(path).st_uid == 0 and \
                        (path / "stat").read_text().split()[3] == "2":
                    return int(path.name)
            except OSError:
                pass
        return 0

    def end(self):
        self.target.kill()
        self.idle.kill()
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def world(pollux, suite, tmp_path_factory):
    made = World(pollux, suite, tmp_path_factory.mktemp("uses"))
    yield made
    made.end()


NO_RUNTIME = r"has no Tokio, async-std or smol runtime that pollux can see"
CHOOSE = "give the number of one: ({first}, {second}|{second}, {first})"

# Verbs that choose tasks of a trace, and those that choose a time of it.
WINDOWS = ("report", "report --json", "report --html x.html", "report --machines", "export", "export -f csv")
FILTERING = ("why", "why --json", *WINDOWS)

# command, exit status, what it says (a pattern; {names} are those of World)
USES = [
    # ---- processes ----
    ("record -p {gone}", 1, "there is no process {gone}"),
    ("record -p {sleep}", 1, NO_RUNTIME),
    ("tree {sleep}", 1, "has no runtime that pollux knows"),
    ("doctor {sleep}", 1, "It can't be recorded: there is no Tokio, async-std or smol in it"),
    ("record -p {python}", 1, NO_RUNTIME),
    ("record -p {zombie}", 1, "has ended .it is a zombie."),
    ("doctor {pollux}", 1, "there is no Tokio, async-std or smol in it"),
    ("record -p {thread}", 1, "{thread} is a thread of process {pid}: give that number"),
    ("doctor {old}", 1, r"Tokio 1.20.* supported:\s+1.23 and newer"),
    ("record {pid} -p {pid}", 2, "process {pid} is given twice"),
    ("record -p {pid} -p {gone}", 1, "there is no process {gone}"),
    ("record {twice}", 2, "there are 2 processes '{twice}': " + CHOOSE),
    ("record {once}", 1, NO_RUNTIME),
    ("record -p no-such-name", 2, "there is no process 'no-such-name'"),
    ("record -p ./path", 2, "a process is given by its number or its name, not by './path'"),
    ("record {suite}", 2, "to start a program and record it: pollux record -- {suite}"),
    ("hist {gone} -d 1", 1, "there is no process {gone}"),
    ("tree {pid}", 0, "steady"),
    ("{pid}", 0, "steady"),
    ("{twice}", 2, "there is no verb '{twice}'; to record the process of this name: pollux record {twice}"),
    # ---- programs that are started ----
    ("record -- sh -c 'exit 7'", 7, "nothing was recorded of sh: .*" + NO_RUNTIME),
    ("record -- true", 0, "nothing was recorded of true: .*; if it starts another program that has one"),
    ("record -- {old} plain", 0, "nothing was recorded of suite: .*Tokio 1.20.* supported: 1.23 and newer"),
    ("record --backend kernel -- true", 0, "nothing was recorded of true"),
    ("hist -- sh -c 'exit 5'", 5, "nothing was recorded of sh"),
    ("record -- sh -c 'kill -ABRT $$'", 134, "nothing was recorded of sh"),
    ("record -- {here}/nosuch", 1, "cannot run {here}/nosuch: No such file"),
    ("record -- /etc/passwd", 1, "cannot run /etc/passwd: Permission denied"),
    ("record -o /dev/null -- {suite} no_such_program", 2, "no program no_such_program"),
    ("record --", 2, "nothing to record"),
    # ---- traces ----
    ("report cut.plx", 0, r"\AINCOMPLETE: the trace "),
    ("report middle.plx", 0, r"\AINCOMPLETE: "),
    ("report head.plx", 1, "cannot read head.plx: the trace ends at byte "),
    ("report empty.plx", 1, "empty"),
    ("report {here}", 1, "cannot open {here}: it is a folder"),
    ("report text.plx", 1, "not a pollux trace, but text"),
    ("report elf.plx", 1, "not a pollux trace, but an executable"),
    ("report json.plx", 1, "not a pollux trace, but JSON"),
    *((f"tree {name}", 1, f"{name} is {kind}, neither a trace nor a core file: give one of these, or the pid or name")
      for name, kind in [("notes", "text"), ("elf.plx", "an executable or a library"), ("json.plx", "JSON")]),
    ("report nosuch.plx", 1, "nosuch.plx: No such file"),
    ("report < trace.plx", 0, r"\A(?!pollux: the newest trace)"),
    *((f"{words} >&-", 1, "cannot write to standard output: Bad file descriptor")
      for words in ("report trace.plx", "tree {pid}", "why trace.plx", "--version")),
    ("report {pid}", 2, "{pid} is a process and no trace: pollux record {pid} makes one"),
    ("export {pid}", 2, "{pid} is a process and no trace: pollux record {pid} makes one"),
    ("print {pid}", 2, "{pid} is a process and no trace: pollux record {pid} makes one"),
    ("report trace.plx cut.plx", 2, "only one trace can be read: leave out 'cut.plx'"),
    # ---- view ----
    ("view nosuch.plx", 1, "cannot open nosuch.plx: No such file"),
    ("view empty.plx", 1, "empty"),
    ("view text.plx", 1, "not a pollux trace"),
    ("view {here}", 2, "give a file, not "),
    ("view {pid}", 2, "{pid} is a process and no trace: pollux record {pid} makes one"),
    ("view trace.plx cut.plx", 2, "only one trace can be read: leave out 'cut.plx'"),
    # ---- why: of processes and traces ----
    ("why", 2, "why needs a process .PID or NAME. or a trace"),
    ("why {gone}", 1, "there is no process {gone}"),
    ("why {sleep}", 1, NO_RUNTIME),
    ("why no-such-name", 2, "there is no process 'no-such-name'"),
    ("why {suite}", 2, "to start a program and record it: pollux record -- {suite}"),
    ("why {pid} -d 0", 2, "-d needs a time such as 10, 2.5s or 500ms, not '0'"),
    ("why {pid} -o -", 2, "-o needs a file that why can read again, not '-'"),
    ("why {pid} -o /dev/null", 2, "-o needs a file that why can read again, not '/dev/null'"),
    ("why {pid} -d .1 -o notes", 1, "cannot replace notes: it is not a pollux trace"),
    ("why {pid} -d .1 -o {here}", 1, "it is a folder"),
    ("why trace.plx", 0, r"tasks[^$]*(What|Nothing) stands out"),
    ("why cut.plx", 0, r"\AINCOMPLETE: the trace "),
    ("why empty.plx", 1, "empty"),
    ("why text.plx", 1, "not a pollux trace"),
    ("why nosuch.plx", 1, "nosuch.plx: No such file"),
    ("why trace.plx cut.plx", 2, "only one trace can be read: leave out 'cut.plx'"),
    ("why trace.plx -p {pid}", 2, "--pid goes with a process, not with a trace"),
    # ---- outputs ----
    ("export -f chrome trace.plx -o trace.plx", 1, "cannot write to trace.plx: it is the input"),
    ("export -f chrome trace.plx -o ./trace.plx", 1, "it is the input"),
    ("export trace.plx -o t.svg", 2, "no format has files that end in '.svg': give --format, or one of .json for chrome, .speedscope.json"),
    ("export trace.plx -o x.html", 2, "no format of export: pollux report --html x.html makes one"),
    ("export trace.plx -o trace.plx", 2, "no format has files that end in '.plx'"),
    ("export trace.plx -o notes", 1, "cannot replace notes: it is not an export of this format"),
    ("export -f chrome trace.plx -o elf.plx", 1, "cannot replace elf.plx: it is not an export of this format"),
    ("export -f csv trace.plx -o notes", 1, "cannot replace notes: it is not marked as an export .this format has no mark"),
    ("report trace.plx --html notes", 1, "cannot make a page of trace.plx: cannot replace notes: it is not a page of pollux"),
    ("report trace.plx --html {here}", 1, "cannot make a page of trace.plx: .*it is a folder"),
    ("report trace.plx --html trace.plx", 1, "it is the input"),
    ("export -f chrome trace.plx -o cut.plx", 1, "cannot replace cut.plx: it is not an export of this format"),
    ("record {pid} -d .1 -o notes", 1, "cannot replace notes: it is not a pollux trace"),
    ("export trace.plx -o {here}/no/where", 1, "cannot create {here}/no/where: No such file"),
    ("export trace.plx -o {here}", 1, "it is a folder"),
    *((f"{command} /dev/full", 1, "cannot write to /dev/full: it is neither a regular file nor a pipe")
      for command in ("record {pid} -d .1 -o", "export trace.plx -o", "report trace.plx --html")),
    # ---- numbers and words ----
    *((f"record {{pid}} -d {given}", 2, f"-d needs a time such as 10, 2.5s or 500ms, not '{given}'")
      for given in ("0", "-1", "5x", "1e9", ".")),
    ("record {pid} --ring-size 1", 2, "--ring-size needs 4K to 1G"),
    ("record {pid} --ring-size 1T", 2, "--ring-size needs 4K to 1G"),
    ("record {pid} --futures all", 2, "there is no process 'all'.* --long-poll=5ms"),
    ("record nosuch", 2, r"there is no process 'nosuch'\n"),
    ("record {pid} --cpu=0", 2, "--cpu is 1 to 1000000 samples a second, not '0'"),
    ("record {pid} --cpu=abc", 2, "--cpu is 1 to 1000000"),
    ("record {pid} --long-poll=abc", 2, "--long-poll is a time of at least 100us, not 'abc'"),
    ("record {pid} --futures=foo", 2, "--futures is 'generated' or 'all', not 'foo'"),
    ("record {pid} --include foo", 2, "--include and --exclude choose among --futures"),
    ("report trace.plx --sort foo", 2, "--sort is poll, max, delay"),
    ("report trace.plx --from abc", 2, "--from needs a time such as 2.5s"),
    ("report trace.plx --from 3s --to 2s", 2, "--to must be later than --from"),
    ("report trace.plx --top abc", 2, "--top needs a number"),
    ("doctor {pid} {pid}", 2, "doctor needs one process .PID or NAME. or program"),
    ("tree {pid} {pid}", 2, "tree needs one process .PID or NAME., core file or trace"),
    # ---- filters ----
    *((f"{verb} trace.plx --task 99999", 1, "no task 99999: the trace has [0-9]+ tasks, from number 3 to")
      for verb in FILTERING),
    *((f"{verb} trace.plx --task {task}", 2, f"--task is the number of a task, not '{task}'")
      for verb in (*FILTERING, "tree") for task in ("abc", "-1", "3x", "1e3", "99999999999999999999")),
    *((f"{verb} trace.plx --family nosuch", 1,
       r"\A(pollux: )?no family whose name contains 'nosuch': the trace has .*app::serve")
      for verb in (*FILTERING, "hist", "print", "print --json")),
    *((f"{verb} trace.plx --family serve --task 24", 1, "no task with one of these numbers belongs to one of these families")
      for verb in FILTERING),
    *((f"{verb} trace.plx --to 0", 2, "--to must be later than the begin of the trace") for verb in WINDOWS),
    *((f"{verb} trace.plx --thread nosuch", 1,
       "no thread of the number or name 'nosuch': the trace has main, ") for verb in ("report", "export")),
    *((f"{verb} trace.plx --from 10s", 1, "nothing is after --from 10.0 s: the trace ends at 1.00 s")
      for verb in ("report", "export")),
    ("report trace.plx --family serve --family nosuch", 1, "contains 'nosuch'"),
    *((f"{verb} trace.plx --own nosuch", 1, r"\A(pollux: )?no function of a crate 'nosuch' is among the await points")
      for verb in ("report", "report --json", "why")),
    ("print trace.plx --event syscall", 1, "no event of this name: the trace has poll_begin, poll_end"),
    ("print trace.plx --event moment", 2, "--event moment needs --json"),
    ("print quiet.plx", 0, "the trace has no events"),
    *((f"tree moments.plx {choice}", 1, says) for choice, says in [
        ("--family nosuch", "no task whose name contains 'nosuch' among 4 tasks: app::request, app::job, app::main"),
        ("--task 99999", "no task '99999' among 4 tasks: 2 idle, 1 scheduled, 1 running"),
        ("--waits-for nosuch", "no task that waits for 'nosuch' among 4 tasks: 2 idle"),
        ("--with nosuch", "no task with a function 'nosuch' among 4 tasks: app::request"),
        ("--state done", "no task in the state 'done' among 4 tasks: 2 idle"),
        ("--longer-than 99h", "no task in its state for at least this time among 4 tasks: 2 idle"),
        ("--state running --family request", "no task that all options match among 4 tasks: 2 idle")]),
    ("tree moments.plx --without nosuch", 0, "app::request"),
    ("tree trace.plx --at start", 1, "trace.plx has no moment of its start: "),
    # ---- options that would have no effect ----
    *((f"{verb} trace.plx {option}", 2, f"{says} goes with a process, not with a trace")
      for verb in ("why", "hist") for option, says in [
        ("-d 2", "--duration"), ("--ring-size 1M", "--ring-size"), ("--backend kernel", "--backend"),
        ("--force", "--force")]),
    *((f"report trace.plx --machines {option}", 2, f"{option.split()[0]} does not go with --machines")
      for option in ("--sort max", "--by task", "--longest 3", "--all-findings", "--own app")),
    *((f"export trace.plx -f {form} {option}", 2, f"{option.split()[0]} goes with .*, not with {form}")
      for form, option in [("csv", "--weight cpu"), ("chrome", "--weight cpu"), ("sqlite", "--lanes task"),
                           ("folded", "--max-slices 5"), ("parquet", "--max-lanes 5"), ("otlp", "--force"),
                           ("speedscope", "--no-findings")]),
    *((f"tree moments.plx {option}", 2, f"{option.split()[0]} does not go with a trace")
      for option in ("--depth 3", "--no-stop")),
    ("record {pid} --view -o -", 2, "--view shows a file, not what goes to -"),
    ("record {pid} --view --print", 2, "--view needs a file: with --print, name one by -o FILE"),
    ("record {pid} --stack-size 8K", 2, "--stack-size belongs to --cpu"),
    ("view trace.plx --in perfetto --follow", 2, "--follow works with pollux's own page only"),
    ("export trace.plx -f csv --for perfetto", 2, "--format and --for exclude each other"),
    # ---- words that name nothing, or something else ----
    *((f"{verb} ''", 2, "an empty word .''. names nothing") for verb in (
        "", "record", "why", "tree", "report", "view", "hist", "print", "export", "import", "probes", "doctor")),
    ("record -- ''", 2, "the command after -- is an empty word"),
    ("doctor {twice}", 2, "there are 2 processes '{twice}': " + CHOOSE),
    *((f"{verb} no-such-name", 2, "there is no process 'no-such-name', and no file")
      for verb in ("tree", "doctor", "probes")),
    *((f"{verb} trace.plx", 2, "trace.plx is a trace: pollux report trace.plx") for verb in ("doctor", "probes")),
    ("notes", 2, r"there is no verb 'notes'\n"),
    ("{here}", 2, r"there is no verb '{here}'\n"),
    ("view fifo", 2, "the trace is read many times: give a file, not 'fifo'"),
    *((f"{verb} fifo", 1, "cannot open fifo: it is a pipe") for verb in ("tree", "doctor", "probes")),
    *((f"view trace.plx --port {port}", 2, f"--port needs a number from 1 to 65535, not '{port}'")
      for port in ("0", "-1", "70000", "80x")),
    ("export trace.plx --for nosuch", 2, "no viewer 'nosuch': known are catapult, speedscope, perfetto, "),
    ("export trace.plx --max-slices 99999999999999999999", 2, "--max-slices needs a number from 1, not '9+'"),
    ("report trace.plx --top 1000001", 2, "--top needs a number up to 1000000, not '1000001'"),
    *((f"why trace.plx --slowest {part}", 2, f"--slowest is a percentage, such as 1%, not '{part}'")
      for part in ("0%", "101%", "5", "nan%", "inf%")),
    ("why trace.plx --unit nosuch", 2, "--unit is task or round, not 'nosuch'"),
    *((f"report trace.plx {option} ''", 2, f"option {option} needs a value")
      for option in ("--own", "--family", "--thread", "--from")),
    ("report trace.plx --family=", 2, "option --family needs a value: --family TEXT"),
    ("report --sort --json trace.plx", 2, "option --sort needs a value"),
    ("record -p -d 2", 2, "option --pid needs a value: --pid PID"),  # as an empty variable makes it
    ("record -o --cpu {idle}", 2, "option --output needs a value"),
    ("record --places", 2, "option --places needs a value: --places DEPTH"),
    ("record {idle} --places=all", 2, "--places is deep, near or off, not 'all'"),
    ("trace.plx", 2, "there is no verb 'trace.plx'; to read it as a trace: pollux report trace.plx"),
    ("report trace.plx --machines --family nosuch", 1, "contains 'nosuch'"),
    ("print trace.plx --event nosuch", 2, "there is no event 'nosuch'"),
    ("tree {pid} --family nosuch", 1, "no task whose name contains 'nosuch' among [0-9]+ tasks: .*steady"),
    ("tree {pid} --task 99999", 1, "no task '99999' among [0-9]+ tasks: "),
    *((f"tree {{pid}} --depth {depth}", 2, f"--depth needs a number from 1 up, not '{depth}'")
      for depth in ("0", "-1", "x", "4294967297")),
    # ---- verbs and options ----
    *((number, 2, f"there is no process {number}\\n") for number in ("0", "99999999", "99999999999999999999")),
    ("import trace.plx", 1, "the trace would replace its input trace.plx: give another name with -o"),
    ("import trace.plx -o new.plx", 1, "trace.plx is a trace of pollux already: pollux report trace.plx"),
    ("recrod", 2, "there is no verb 'recrod'; did you mean 'record'"),
    ("attach 1", 2, "there is no verb 'attach'; use pollux record PID"),
    ("top", 2, "there is no verb 'top'; use pollux hist PID --every 1"),
    ("ps", 2, "there is no verb 'ps'; use "),
    ("record --durat 5", 2, "did you mean --duration"),
    ("record", 2, "nothing to record: name a process"),
    ("tree", 2, "tree needs one process .PID or NAME., core file or trace"),
    ("doctor", 2, "doctor needs one process .PID or NAME. or program"),
    ("import", 2, "a recording is needed"),
]


def run(world, command, *prefix, folder=None, **options):
    script = f"exec {' '.join(prefix)} {{pollux}} {command}".format(**world.names)
    return driver.run("sh", "-c", script, cwd=folder or world.folder, **options)


def check(world, result, status, says):
    names = {name: re.escape(str(value)) for name, value in world.names.items()}
    said = result.stderr + result.stdout if result.stderr.startswith("pollux: ") else \
        result.stdout + result.stderr
    pattern = re.sub(r"\{([a-z]+)\}", lambda m: names[m[1]], says)
    assert result.returncode == status, said
    assert re.search(pattern, said), said
    assert "next: pollux report" not in said


@pytest.mark.parametrize("command, status, says", USES, ids=[use[0] for use in USES])
def test_use(world, command, status, says):
    before = {path.name for path in world.folder.iterdir()}
    kept = {path: path.read_bytes() for path in world.folder.iterdir() if path.is_file()}
    check(world, run(world, command), status, says)
    assert {path.name for path in world.folder.iterdir()} == before, "it left a file"
    assert all(path.read_bytes() == content for path, content in kept.items())


def test_kernel_thread(world):
    if not world.names["kernel"]:
        pytest.skip("no kernel thread is to be seen in this pid namespace")
    check(world, run(world, "record {kernel}"), 1, "is a kernel thread: it runs no program")


@needs_root
def test_process_of_another_user(world, public):
    world.names["public"] = public / "pollux"
    for command, says in (("record {pid} -o /dev/null", "belongs to user 0: run pollux as that user or as root"),
                          ("record -- true", r"record into this folder .-o FILE names another place.: cannot create pollux-true-"),
                          ("doctor {pid}", r"user +FAIL +the process belongs to user 0, pollux runs as 65534")):
        script = f"exec {' '.join(NOBODY)} {{public}} {command}".format(**world.names)
        result = driver.run("sh", "-c", script, cwd="/")
        check(world, result, 1, says)
        assert "all looked at" not in result.stdout  # nothing could be


def test_process_by_name(world, tmp_path):
    """A name is that of a file here, else of a process; a folder, as of the program's source, is in nobody's way."""
    (tmp_path / world.names["once"]).mkdir()
    for command, status, says in [("tree {once}", 1, "cannot look into [0-9]+: .* has no runtime|has no runtime"),
                                  ("doctor {once}", 1, "user +ok"), ("probes {once}", 0, "{once}")]:
        check(world, run(world, command, folder=tmp_path), status, says)


# A program of 32 bits that waits: pause() in a loop, behind an ELF header and one segment.
CODE_32 = bytes.fromhex("b81d000000 cd80 ebf7")
BASE_32 = 0x08048000
PROGRAM_32 = b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack(
    "<HHIIIIIHHHHHH", 2, 3, 1, BASE_32 + 84, 52, 0, 0, 52, 32, 1, 0, 0, 0) + struct.pack(
    "<IIIIIIII", 1, 0, BASE_32, BASE_32, 84 + len(CODE_32), 84 + len(CODE_32), 5, 4096) + CODE_32


def test_32_bits(world, tmp_path):
    (tmp_path / "program").write_bytes(PROGRAM_32)
    (tmp_path / "program").chmod(0o755)
    try:
        process = subprocess.Popen([tmp_path / "program"])
    except OSError:
        pytest.skip("this kernel runs no 32-bit program")
    world.names["bits"] = process.pid
    try:
        for verb in ("record", "tree", "doctor", "why"):
            check(world, run(world, f"{verb} {{bits}}", folder=tmp_path), 1,
                  "process {bits} is not a 64-bit x86 program: pollux can't trace it yet")
    finally:
        process.kill()
        process.wait()


def test_other_tracer(world, tmp_path):
    """Only one may trace a process: said which, by name."""
    tracer = subprocess.Popen(["strace", "-o", "/dev/null", "-p", str(world.idle.pid)], stderr=subprocess.PIPE, text=True)
    assert "attached" in tracer.stderr.readline()
    world.names["tracer"] = tracer.pid
    try:
        check(world, run(world, "record {idle}", folder=tmp_path), 1,
              "already traced by process {tracer} .strace., .* end that one first")
    finally:
        tracer.terminate()
        tracer.communicate()


def test_deleted_program(world, tmp_path):
    """Its file is gone, or another one by now: names are those of the program that runs."""
    shutil.copy(world.names["suite"], tmp_path / "program")
    with driver.Target(tmp_path / "program", "steady") as target:
        world.names["deleted"] = target.pid
        target.go()
        (tmp_path / "program").unlink()
        for content in (None, b"another"):
            if content:
                (tmp_path / "program").write_bytes(content)
            check(world, run(world, "tree {deleted}"), 0, "steady")
            result = run(world, "record {deleted} -d .2 -o d.plx", folder=tmp_path)
            assert result.returncode == 0, result.stderr
            check(world, run(world, "report d.plx", folder=tmp_path), 0, "steady")


def test_stopped_process(world):
    os.kill(world.idle.pid, signal.SIGSTOP)
    try:
        check(world, run(world, "record {idle} -o x.plx"), 1, "let it go on first .kill -CONT {idle}.")
    finally:
        os.kill(world.idle.pid, signal.SIGCONT)


def test_without_load(world):
    """Nothing ran: said, and where to look."""
    result = run(world, "record {idle} -d 0.2 -o idle.plx")
    check(world, result, 0, "no task ran while it was recorded: is there load. pollux tree idle.plx shows")


def test_why_without_samples(world):
    """Where CPU samples are forbidden, record --cpu says so, and why does without them."""
    prefix = sandbox.under(("perf_event_open", {}), error=True)
    check(world, run(world, "record {pid} -d .1 --cpu -o /dev/null", *prefix), 1, "perf_event_open is forbidden here")
    check(world, run(world, "why {pid} -d .2", *prefix), 0, r"tasks[^$]*(What|Nothing) stands out")


def test_why_of_what_ends(world, tmp_path):
    """A recording that the user or the program's end cuts short has findings all the same, and says what ended it."""
    with driver.Target(world.names["suite"], "steady") as target:
        target.go()
        early = "the recording ended early: "
        # Between its two recordings the second one fails, and the first one is shown.
        for number, says in ((signal.SIGTERM, early + "terminated"),
                             (None, early + "(killed by signal 9|the program ended)|there is no process")):
            process = subprocess.Popen([world.names["pollux"], "why", str(target.pid), "-d", "600", "-o", "x.plx"],
                                       cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while not (tmp_path / "x.plx").exists():
                assert process.poll() is None
                driver.time.sleep(0.01)
            (process if number else target.process).send_signal(number or signal.SIGKILL)
            text, said = process.communicate(timeout=driver.TIMEOUT)
            assert process.returncode == 0, said
            assert re.search(says, said) and re.search("(What|Nothing) stands out", text), said
            (tmp_path / "x.plx").unlink()


def test_two_recordings_at_once(world, pollux, tmp_path):
    recorder = driver.Recorder(pollux, world.target.pid, tmp_path / "one.plx")
    try:
        for command in ("record {pid} -d 1 -o two.plx", "hist {pid} -d 1"):
            check(world, run(world, command, folder=tmp_path), 1,
                  f"another pollux .process {recorder.process.pid}. is recording process {{pid}}")
        check(world, run(world, "tree {pid}"), 0, "steady")
    finally:
        recorder.stop()
    assert not (tmp_path / "two.plx").exists()


def test_names_of_recordings(world, tmp_path):
    """A second recording of a process does not take the place of the first; the newest is what report reads."""
    first = f"pollux-suite-{world.target.pid}"
    for i, name in enumerate((first, first + "-2", first + "-3")):
        how = ("{pid}", "-p {pid}", "{pid}")[i]
        result = run(world, f"record {how} -d .1", folder=tmp_path)
        assert result.returncode == 0, result.stderr
        assert (tmp_path / f"{name}.plx").exists()
        for verb in ("report", "hist", "print"):
            read = run(world, verb, folder=tmp_path)
            assert read.returncode == 0
            assert f"pollux: the newest trace here: {name}.plx\n" in read.stderr
    empty = tmp_path / "empty"
    empty.mkdir()
    for verb in ("report", "hist", "print", "export"):
        check(world, run(world, verb, folder=empty), 2, "no trace is named, and there is none here: pollux record PID")


def test_child_that_has_one(world, tmp_path):
    """Of a program without a runtime: which of its children has one, and the status of the program."""
    script = "'{suite} steady --wait <input & echo $!; read line; kill %1; wait; exit 9'"
    os.mkfifo(tmp_path / "input")
    hold = os.open(tmp_path / "input", os.O_RDWR)
    process = subprocess.Popen(
        ["sh", "-c", f"exec {{pollux}} record -d 1 -- bash -c {script}".format(**world.names)], cwd=tmp_path,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = []
    reader = threading.Thread(target=lambda: said.extend(iter(process.stderr.readline, "")))
    reader.start()
    child = process.stdout.readline().strip()
    reader_says(said, "is still running")
    process.stdin.write("\n")
    process.stdin.close()
    assert process.wait(driver.TIMEOUT) == 9
    reader.join()
    os.close(hold)
    process.stdout.close()
    text = "".join(said)
    assert f"below it suite (process {child}) has one: pollux record {child}" in text
    assert "pollux waits for it: Ctrl-C ends it" in text and "next:" not in text
    assert not list(tmp_path.glob("*.plx"))


def reader_says(lines, words):
    done = threading.Event()
    deadline = driver.time.monotonic() + driver.TIMEOUT
    while not any(words in line for line in lines):
        assert driver.time.monotonic() < deadline, lines
        done.wait(0.01)


def test_out_of_descriptors(world, tmp_path):
    """Whatever it was that found none left, the process has not ended."""
    for number in (5, 6, 8, 10, 14, 20):
        for verb in ("record {pid} -d .1 -o x.plx", "tree {pid}"):
            script = f"ulimit -n {number}; exec {{pollux}} {verb}".format(**world.names)
            result = driver.run("sh", "-c", script, cwd=tmp_path)
            assert result.returncode == 0 or "Too many open files" in result.stderr, (number, verb, result.stderr)


def test_killed_program(world, tmp_path):
    """How it ended is said."""
    result = run(world, "record -o x.plx -- sh -c 'exec {suite} steady --wait' <&-", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    process = subprocess.Popen([world.names["pollux"], "record", "-o", tmp_path / "y.plx", "--", world.names["suite"],
                                "steady", "--wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    pid = int(process.stdout.readline().split()[1])
    os.kill(pid, signal.SIGABRT)
    _, errors = process.communicate(timeout=driver.TIMEOUT)
    assert process.returncode == 134
    assert re.search(r"of suite into .*; it was killed by SIGABRT\n", errors), errors
    with driver.Target(world.names["suite"], "steady") as target:
        recorder = driver.Recorder(world.names["pollux"], target.pid, tmp_path / "z.plx")
        os.kill(target.pid, signal.SIGABRT)
        code, said = recorder.stop()
    assert code == 0
    assert re.search(r"of suite into .*; it was killed by SIGABRT\n", said), said


def test_limits(world, tmp_path):
    """A file that may not grow so far leaves nothing; a pipe can't be read twice."""
    script = "ulimit -f 4; exec {pollux} export {good} -o {here}/big.json"
    result = driver.run("bash", "-c", script.format(**world.names))
    check(world, result, 1, "File too large")
    assert not list(world.folder.glob("big*"))
    result = driver.run("sh", "-c", "cat {good} | {pollux} export -".format(**world.names))
    check(world, result, 1, "the trace is read more than once: give a file, not a pipe")


@pytest.mark.parametrize("locale, plain", [("C", True), ("POSIX", True), ("C.UTF-8", False), ("", False)])
def test_locales(world, locale, plain):
    """Only ASCII where nothing else is understood."""
    env = {**os.environ, "LC_ALL": locale, "LANG": "", "LC_CTYPE": ""}
    for command in ("report {good}", "hist {good}", "tree {pid}"):
        result = run(world, command, env=env)
        assert result.returncode == 0
        assert result.stdout.isascii() or not plain
    assert run(world, "report {good}", env=env).stdout.isascii() == plain
    assert not run(world, "report {good}", env={**env, "LC_ALL": "C.UTF-8"}).stdout.isascii()
