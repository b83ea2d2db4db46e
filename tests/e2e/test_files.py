# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files in whose names or places others have a hand: what is opened, what is waited for, what is
overwritten, and what a terminal gets to see of their names."""
import os
import re
import shutil
import stat
import struct
import subprocess
from pathlib import Path

import driver
import pytest

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
ROOT = Path(__file__).resolve().parents[1]
TRACE = ROOT / "traces" / "good" / "small.plx"
RECORDING = ROOT / "import" / "files" / "tokio.txt"
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv"
)
# Each writes a file; none needs more than a moment.
WRITERS = {
    "record": lambda out: ["record", "-o", out, "--", "/bin/true"],
    "export": lambda out: ["export", "-f", "speedscope", "-o", out, TRACE],
    "import": lambda out: ["import", "-o", out, RECORDING],
    "report": lambda out: ["report", "--html", out, TRACE],
}
# Each reads a file that it was given.
READERS = {
    "report": ["report"],
    "print": ["print"],
    "hist": ["hist"],
    "why": ["why"],
    "export": ["export", "-o", "-"],
    "import": ["import", "-o", "/dev/null"],
    "tree": ["tree"],
    "doctor": ["doctor"],
    "probes": ["probes"],
}


def run(pollux, *words, **options):
    """A run that has to end at once."""
    return driver.run(pollux, *words, timeout=20, **options)


def refused(result, *words):
    assert result.returncode == 1, result.stdout + result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr
    for word in words:
        assert word in result.stderr, result.stderr


@pytest.fixture
def sticky(tmp_path):
    """A folder like /tmp."""
    folder = tmp_path / "sticky"
    folder.mkdir()
    folder.chmod(0o1777)
    for path in (folder, *folder.parents):
        if path == Path("/tmp"):
            break
        path.chmod(path.stat().st_mode | 0o011)
    return folder


# ---- outputs ----


@needs_root
@pytest.mark.parametrize("verb", WRITERS)
def test_what_another_user_put_there(pollux, sticky, verb):
    """Another user's pipe (without a reader: opening would wait), file, link to a file of this user."""
    victim = sticky.parent / "victim"
    victim.write_text("precious")
    make = {
        "fifo": "mkfifo -m 666 fifo",
        "file": "echo theirs >file; chmod 666 file",
        "link": f"ln -s {victim} link",
    }
    for name, command in make.items():
        subprocess.run([*NOBODY, "sh", "-c", command], cwd=sticky, check=True)
        refused(run(pollux, *WRITERS[verb](sticky / name)), name)
    assert victim.read_text() == "precious"
    assert (sticky / "file").read_text() == "theirs\n"
    assert (sticky / "link").is_symlink() and stat.S_ISFIFO((sticky / "fifo").stat().st_mode)
    assert sorted(os.listdir(sticky)) == sorted(make), "something was left"


@pytest.fixture
def older(pollux, tmp_path):
    """older(verb): a file that the verb may replace, which is another one than it writes."""
    trace = TRACE.parent / "inside.plx"
    export = tmp_path / "older.json"
    assert run(pollux, "export", "-f", "speedscope", "-o", export, trace).returncode == 0
    return lambda verb: (export if verb == "export" else trace).read_bytes()


@pytest.mark.parametrize("verb", ["export", "import"])
def test_hard_link(pollux, tmp_path, older, verb):
    victim, out = tmp_path / "victim", tmp_path / "out"
    victim.write_bytes(older(verb))
    os.link(victim, out)
    assert run(pollux, *WRITERS[verb](out)).returncode == 0
    assert victim.read_bytes() == older(verb)
    assert out.stat().st_size > 1000 and out.stat().st_mode & 0o777 == 0o600


def test_record_through_a_hard_link(pollux, suite, tmp_path, older):
    victim, out = tmp_path / "victim", tmp_path / "out.plx"
    victim.write_bytes(older("record"))
    os.link(victim, out)
    driver.record_launched(pollux, out, suite(), "multi_thread")
    assert victim.read_bytes() == older("record")
    assert driver.report(pollux, out)["events"] > 0


@pytest.mark.parametrize("verb", WRITERS)
def test_only_its_own_kind_is_replaced(pollux, tmp_path, verb):
    """Of what is there a file of the same kind is replaced, and one without content."""
    chrome = tmp_path / "chrome.json"
    assert run(pollux, "export", "-o", chrome, TRACE).returncode == 0
    others = {"text": b"precious", "page": b"<!DOCTYPE html>\n<title>mine</title>\n", "program": Path("/bin/true").read_bytes(), "chrome": chrome.read_bytes()}
    if verb == "export":
        others["trace"] = TRACE.read_bytes()
    for name, content in others.items():
        (tmp_path / name).write_bytes(content)
        refused(run(pollux, *WRITERS[verb](tmp_path / name)), f"cannot replace {tmp_path / name}: it is not ",
                "remove it or choose another name")
        assert (tmp_path / name).read_bytes() == content
    if verb != "record":
        out = tmp_path / "empty"
        out.write_bytes(b"")
        for _ in range(2):
            assert run(pollux, *WRITERS[verb](out)).returncode == 0
        assert out.stat().st_size > 1000


def test_failure_keeps_the_older_output(pollux, tmp_path, older):
    """Nothing is begun over it, and no other file is left."""
    out, bad = tmp_path / "out", tmp_path / "bad"
    bad.write_text("no recording\n")
    cut = tmp_path / "cut.plx"
    cut.write_bytes(TRACE.read_bytes()[:40])
    left = sorted([*os.listdir(tmp_path), "out"])
    for words in (["import", "-o", out, bad], ["export", "-f", "speedscope", "-o", out, cut],
                  ["record", "-o", out, "-p", "999999999"],
                  ["record", "-o", out, "--", tmp_path / "missing"]):
        out.write_bytes(older(words[0]))
        refused(run(pollux, *words))
        assert out.read_bytes() == older(words[0]), words
        assert sorted(os.listdir(tmp_path)) == left, words


def test_output_is_its_own_input(pollux, suite, tmp_path):
    trace, text, program = tmp_path / "a.plx", tmp_path / "perf.txt", tmp_path / "suite"
    for path, content in ((trace, TRACE), (text, RECORDING), (program, suite())):
        shutil.copy(content, path)
    os.link(trace, tmp_path / "b.plx")
    for words in (["export", "-f", "chrome", trace, "-o", trace], ["export", "-f", "chrome", trace, "-o", tmp_path / "b.plx"],
                  ["import", text, "-o", text], ["record", "-o", program, "--", program, "list"]):
        refused(run(pollux, *words), "it is the input")
    with driver.Target(program, "steady") as target:
        refused(run(pollux, "record", "-d", "1", "-o", program, "-p", target.pid), "it is the input")
    for path, content in ((trace, TRACE), (text, RECORDING), (program, suite())):
        assert path.read_bytes() == Path(content).read_bytes()
    with open(trace, "r+b") as both:
        result = subprocess.run([pollux, "export", trace, "-o", "-"], stdout=both,
                                stderr=subprocess.PIPE, text=True, timeout=20)
        refused(result, "it is the input")


def content(pollux, output):
    """An export, or a trace's events: what making it has cost is in it, too."""
    if not output.startswith(b"\x89PLX"):
        return output
    return subprocess.run([pollux, "print", "--format", "{time} {tid} {event} {task} {stack}", "-"], input=output, check=True,
                          capture_output=True, timeout=20).stdout


@pytest.mark.parametrize("verb", ["export", "import"])
def test_outputs_that_are_no_files(pollux, tmp_path, verb):
    """Standard output by each of its names, process substitution, a pipe of this test, /dev/null."""
    wanted = tmp_path / "wanted"
    assert run(pollux, *WRITERS[verb](wanted)).returncode == 0
    wanted = content(pollux, wanted.read_bytes())
    assert len(wanted) > 1000
    for name in ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        result = subprocess.run([pollux, *map(str, WRITERS[verb](name))], capture_output=True,
                                timeout=20)
        assert result.returncode == 0 and content(pollux, result.stdout) == wanted, name
    words = " ".join(f"'{word}'" for word in [pollux, *WRITERS[verb]("OUT")])
    got, fifo = tmp_path / "got", tmp_path / "fifo"
    os.mkfifo(fifo)
    for line in (f"cat {fifo} >{got} & {words.replace('OUT', str(fifo))}; wait",
                 f"{words} > >(cat >{got}; echo done >{fifo})".replace("'OUT'", "/dev/stdout")
                 + f"; cat {fifo}",
                 words.replace("'OUT'", f">(cat >{got}; echo done >{fifo})") + f"; cat {fifo}",
                 words.replace("'OUT'", "/dev/stdout") + f" >{got}"):
        got.unlink(missing_ok=True)
        subprocess.run(["bash", "-c", line], check=True, capture_output=True, timeout=20)
        assert content(pollux, got.read_bytes()) == wanted, line
    assert run(pollux, *WRITERS[verb]("/dev/null")).returncode == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    refused(run(pollux, *WRITERS[verb]("/dev/zero")), "neither a regular file nor a pipe")


# ---- inputs ----


@needs_root
@pytest.mark.parametrize("verb", READERS)
def test_inputs_that_are_no_files(pollux, sticky, verb):
    """A pipe of another user, a device, a link to one: refused, and never opened."""
    subprocess.run([*NOBODY, "mkfifo", "-m", "666", sticky / "fifo"], check=True)
    (sticky / "link").symlink_to("/dev/zero")
    os.mknod(sticky / "device", stat.S_IFCHR | 0o600, os.makedev(1, 5))
    for name, sentence in (("fifo", "pipe"), ("link", "no regular file"),
                           ("device", "no regular file")):
        refused(run(pollux, *READERS[verb], sticky / name), name, sentence)


@pytest.mark.parametrize("words", [["report", "--json"], ["print"], ["import", "-o", "-"]],
                         ids=lambda words: words[0])
def test_inputs_from_pipes(pollux, tmp_path, words):
    """A trace or a recording may come from a pipe, by each of its names."""
    source = RECORDING if "import" in words else TRACE
    words = [str(pollux), *words]
    wanted = subprocess.run([*words, str(source)], capture_output=True, timeout=20).stdout
    wanted = content(pollux, wanted)
    assert len(wanted) > 100
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    command = " ".join(f"'{word}'" for word in words)
    for line in (f"cat {source} | {command} -", f"cat {source} | {command} /dev/stdin",
                 f"{command} <(cat {source})", f"{command} /dev/stdin <{source}",
                 f"cat {source} >{fifo} & {command} {fifo}; wait"):
        got = subprocess.run(["bash", "-c", line], capture_output=True, timeout=20)
        # What is in a pipe can't be exported afterwards.
        assert content(pollux, got.stdout) == wanted, (line, got.stderr)


def test_no_export_of_a_pipe(pollux, tmp_path):
    """A report says how to export the trace if that can be read again, so that a shell understands it."""
    def told(line):
        done = subprocess.run(["bash", "-c", line], capture_output=True, check=True, text=True, timeout=20)
        return [words for words in done.stdout.splitlines() if "pollux export" in words]

    assert told(f"'{pollux}' report {TRACE}")
    assert not told(f"cat {TRACE} | '{pollux}' report -")
    assert not told(f"'{pollux}' report /dev/stdin <{TRACE}")
    odd = tmp_path / "odd name;.plx"
    odd.write_bytes(TRACE.read_bytes())
    lines = told(f"'{pollux}' report '{odd}'")
    assert lines and all(f"'{odd}'" in words for words in lines), lines


def note(kind, data):
    return struct.pack("<III", 5, len(data), kind) + b"CORE\0\0\0\0" + data + b"\0" * (-len(data) % 4)


def core_of(program):
    """A core with nothing in it but the name of its program."""
    name = os.fsencode(program) + b"\0"
    notes = note(6, struct.pack("<QQQQ", 9, 0x401000, 0, 0))  # auxv: where it began
    notes += note(0x46494C45, struct.pack("<QQQQQ", 1, 4096, 0x400000, 0x500000, 0) + name)
    head = b"\x7fELF\2\1\1" + b"\0" * 9
    head += struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, 2, 64, 0, 0)
    where = 64 + 2 * 56
    head += struct.pack("<IIQQQQQQ", 4, 0, where, 0, 0, len(notes), 0, 4)
    head += struct.pack("<IIQQQQQQ", 1, 5, where, 0x400000, 0, 16, 4096, 4096)
    return head + notes + b"\0" * 16


def test_programs_that_a_core_names(pollux, tmp_path):
    core = tmp_path / "core"
    os.mkfifo(tmp_path / "fifo")
    for program, sentence in ((tmp_path / "fifo", "pipe"), ("/dev/zero", "no regular file"),
                              ("/proc/self/maps", "empty"), (tmp_path, "folder"),
                              (tmp_path / "missing", "No such file")):
        core.write_bytes(core_of(program))
        refused(run(pollux, "tree", core), "--exe", str(program), sentence)


# ---- text ----

EVIL = "e\x1b]0;owned\x07\x1b[31m\u202e\u200b\x7f\x9b"
SHOWN = r"e\x1b]0;owned\x07\x1b[31m\xe2\x80\xae\xe2\x80\x8b\x7f\xc2\x9b"


def shows(text):
    """Nothing in it moves a terminal, and the name is readable."""
    assert SHOWN in text, text
    assert not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u200b-\u200f]", text), ascii(text)


def test_names_in_errors(pollux, tmp_path):
    core = tmp_path / "core"
    core.write_bytes(core_of(tmp_path / EVIL))
    for code, *words in ((1, "tree", core), (1, "report", tmp_path / EVIL), (1, "doctor", tmp_path / EVIL),
                         (1, "import", tmp_path / EVIL), (1, "export", TRACE, "-o", tmp_path / EVIL / "x"),
                         (1, "record", "-o", tmp_path / "x", "--", tmp_path / EVIL),
                         (2, "record", "-p", "no" + EVIL), (2, "report", "--" + EVIL), (2, EVIL),
                         (1, "probes", tmp_path / EVIL)):
        result = run(pollux, *words)
        assert result.returncode == code, words
        shows(result.stderr)


def test_name_of_a_program(pollux, suite, tmp_path):
    """What is said of a program at such a path, as text and as JSON."""
    program = tmp_path / EVIL
    shutil.copy(suite(), program)
    trace = tmp_path / "trace.plx"
    with driver.Target(program, "steady") as target:
        recorder = driver.Recorder(pollux, target.pid, trace)
        code, said = recorder.stop()
        assert code == 0, said
        for words in (["doctor", target.pid], ["report", trace], ["doctor", "--json", target.pid],
                      ["export", trace, "-o", "-"], ["export", trace, "-f", "speedscope", "-o", "-"]):
            result = run(pollux, *words)
            assert result.returncode == 0, result.stderr
            text = result.stdout + result.stderr + said
            assert not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u200b-\u200f]", text), words
        shutil.copy(suite(), tmp_path / "x")
        result = run(pollux, "record", "-o", program, "-p", target.pid)
        refused(result, "it is the input")
        shows(result.stderr)
