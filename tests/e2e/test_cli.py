# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command line as such: help, wrong use, pipes; man pages and completion from the same tables."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import driver
import pytest

SCREEN = (50, 80)  # lines and columns


def run(*words, **options):
    return subprocess.run([str(driver.pollux_path()), *words], capture_output=True, text=True,
                          timeout=30, **options)


def verbs():
    overview = run("--help").stdout.split("\n\n")[2]
    return [line.split()[0] for line in overview.splitlines() if re.match(r"  \w", line)]


def fits(text):
    lines = text.splitlines()
    return len(lines) <= SCREEN[0] and all(len(line) <= SCREEN[1] for line in lines)


def test_version(pollux):
    done = run("--version")
    assert (done.returncode, done.stderr) == (0, "")
    commit = r"(?:[0-9a-f]{10,}(?:-dirty)?, )?"
    assert re.fullmatch(rf"pollux \d+\.\d+\.\d+ \({commit}with(?:out)? BPF\)\n", done.stdout)
    assert run("version").stdout == run("-V").stdout == done.stdout


def test_overview(pollux):
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert fits(done.stdout)
    assert {"record", "report", "export", "doctor"} <= set(verbs())
    assert run("help").stdout == run("-h").stdout == done.stdout
    bare = run()
    assert (bare.returncode, bare.stdout, bare.stderr) == (2, "", done.stdout)


def test_help_of_each_verb(pollux):
    for verb in verbs():
        done = run(verb, "--help")
        assert (done.returncode, done.stderr) == (0, ""), verb
        assert fits(done.stdout), verb
        assert done.stdout.startswith(f"usage: pollux {verb} "), verb
        assert f"Examples:\n  pollux {verb} " in done.stdout, verb
        # All of it, as the man page has it: what --help has, and more.
        page = run("help", verb).stdout
        assert {line for line in done.stdout.splitlines() if line.startswith(" ")} <= set(page.splitlines()), verb
        assert max(map(len, page.splitlines())) <= 100 and "\nExit status: " in page, verb


@pytest.mark.parametrize("words, said", [
    (["recrod"], "there is no verb 'recrod'; did you mean 'record'?\nTry: pollux --help"),
    (["xyzzy"], "there is no verb 'xyzzy'\nTry: pollux --help"),
    (["help", "reprot"], "there is no verb 'reprot'; did you mean 'report'?\nTry: pollux --help"),
    (["-p", "1"], "a verb comes first, then its options\nTry: pollux --help"),
    (["report", "--jsn"], "report has no option --jsn; did you mean --json?\nTry: pollux report --help"),
    (["record", "--output"],
     "option --output needs a value: --output FILE\nTry: pollux record --help"),
])
def test_wrong_use(pollux, words, said):
    done = run(*words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"pollux: {said}\n")


@pytest.mark.parametrize("verb", ["record", "report", "export", "doctor"])
def test_nothing_to_do_is_wrong_use(pollux, verb):
    done = run(verb)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf"pollux: [^\n]+\nTry: pollux {verb} --help\n", done.stderr)


def test_failure_is_said_once(pollux, tmp_path):
    done = run("report", str(tmp_path / "nowhere.plx"))
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"pollux: [^\n]*nowhere.plx[^\n]*\n", done.stderr)


def test_a_reader_that_goes_away(pollux):
    """Writing to a closed pipe ends quietly, and SIGPIPE is not handed on."""
    read, write = os.pipe()
    os.close(read)
    for restore in (True, False):
        done = subprocess.run([str(pollux), "--help"], stdout=write, stderr=subprocess.PIPE,
                              restore_signals=restore)
        assert (done.returncode, done.stderr) == (0, b"")
    os.close(write)


def test_a_full_disk(pollux):
    with open("/dev/full", "w") as full:
        done = subprocess.run([str(pollux), "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "pollux: cannot write to standard output: No space left on device\n"


def test_closed_standard_files(pollux):
    """What was asked for went nowhere, which is an error also where nobody can read that."""
    done = subprocess.run(["sh", "-c", f"exec '{pollux}' --help >&- 2>&- <&-"])
    assert done.returncode == 1


def docs():
    return Path(driver.pollux_path()).parent


def test_man_pages(pollux):
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    pages = ["pollux.1"] + [f"pollux-{verb}.1" for verb in verbs()]
    for page in pages:
        done = subprocess.run(["groff", "-man", "-Tutf8", "-P-cbou", "-ww", str(docs() / page)],
                              capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), page
        assert "NAME" in done.stdout and "EXIT STATUS" in done.stdout, page
        assert done.stdout.splitlines()[0].startswith(page[:-2].upper() + "(1)"), page
        assert "POLLUX_DEBUG" in done.stdout if page == "pollux.1" else "--verbose" in done.stdout, page


def options_of_man(page):
    """[text of each option] of a page's source."""
    source = (docs() / page).read_text().split(".SH OPTIONS\n")[1].split(".SH ")[0]
    return [" ".join(block.splitlines()[1:]).replace("\\", "") for block in source.split(".TP\n")[1:]]


def test_man_pages_speak_in_sentences(pollux):
    for verb in verbs():
        texts = options_of_man(f"pollux-{verb}.1")
        assert texts
        for text in texts:
            assert text.endswith(".") and not text.endswith(".."), (verb, text)
            assert text.lower().count("more than once") <= 1, (verb, text)
            halves = [half.strip().lower() for half in re.split(r"[.;]", text) if half.strip()]
            assert len(halves) == len(set(halves)), (verb, text)


def complete(*words):
    """What bash offers for the last word."""
    script = f"""
        source '{docs() / "pollux.bash"}'
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _pollux; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_completion_of_bash(pollux):
    assert set(verbs()) <= set(complete("pollux", ""))
    assert complete("pollux", "rec") == ["record"]
    assert "--duration" in complete("pollux", "record", "--d")
    for verb in verbs():
        assert {"--verbose", "--help"} <= set(complete("pollux", verb, "--")), verb
    assert "/etc/passwd" in complete("pollux", "record", "-o", "/etc/pass")
    assert complete("pollux", "ver") == ["version"]


@pytest.mark.parametrize("words, want", [
    ("report --sort", "poll max delay wait tasks wakes name"),
    ("report -s", "poll max delay wait tasks wakes name"),
    ("report --sort =", "poll max delay wait tasks wakes name"),
    ("export --format", "chrome speedscope perfetto firefox folded flame pprof csv jsonl sqlite parquet otlp"),
    ("export --weight", "idle waiting scheduled polling blocked cpu"),
    ("export --lanes", "task packed auto"),
    ("record --backend", "agent kernel"),
    ("hist --backend", "agent kernel"),
    ("record --futures =", "generated all"),
    ("import --from", "perf-script perf-data uftrace-dump uftrace-data print-all"),
    ("record --duration", ""),
])
def test_completion_of_values(pollux, words, want):
    assert complete("pollux", *words.split(), "") == want.split()
    # and they are words that the option takes
    for word in want.split():
        option = words.split()[1] if words.split()[1] != "-s" else "--sort"
        said = run(words.split()[0], f"{option}={word}", "/nonexistent.plx")
        assert f"'{word}'" not in said.stderr, said.stderr


@pytest.mark.parametrize("words", ["record --pid", "record -p", "tree", "doctor", "hist", "why"])
def test_completion_of_processes(pollux, words):
    """Kernel threads, and where rights are lacking others' processes, can't be recorded."""
    offered = complete("pollux", *words.split(), str(os.getpid())[0])
    assert str(os.getpid()) in offered
    for pid in [word for word in offered if word.isdigit()]:
        try:
            assert int((Path("/proc") / pid / "stat").read_text().rpartition(")")[2].split()[6]) & 0x200000 == 0
        except OSError:
            pass  # it has ended


def test_completion_of_files(pollux, tmp_path, monkeypatch):
    for name in ("one.plx", "two two.plx", "other.json"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    for verb in ("report", "export", "print"):
        assert {"one.plx", "folder"} <= set(complete("pollux", verb, ""))
        assert "other.json" not in complete("pollux", verb, "")
    assert "other.json" in complete("pollux", "import", "")
    assert complete("pollux", "report", "tw") == ["two", "two.plx"]  # one word with a space
    assert "other.json" in complete("pollux", "record", "-o", "ot")


@pytest.mark.parametrize("shell, name", [("zsh", "_pollux"), ("fish", "pollux.fish")])
def test_completion_is_sound(pollux, shell, name):
    text = (docs() / name).read_text()
    for verb in verbs():
        assert verb in text
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-n", str(docs() / name)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_completion_of_zsh(pollux):
    """Before the first -- the verb's own operands, then a command with its words."""
    if not shutil.which("zsh"):
        pytest.skip("zsh is not installed")

    def complete(*words):
        script = ("_arguments() { print -rl -- $@ }; _normal() { print -r normal $CURRENT $words }; "
                  f"words=({' '.join(words)}); CURRENT={len(words)}; source '{docs() / '_pollux'}'")
        done = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    assert "*: :_pollux_processes" in complete("pollux", "record", "1")
    assert "*: :_pollux_processes_and_traces" in complete("pollux", "hist", "1")
    assert "*: :_pollux_traces" in complete("pollux", "report", "t")
    assert complete("pollux", "record", "-d", "1", "--", "cat", "t") == ["normal 2 cat t"]
    assert complete("pollux", "hist", "--", "ca") == ["normal 1 ca"]
    assert any("--duration" in word for word in complete("pollux", "record", "--"))
    assert any(word.startswith("-v[") for word in complete("pollux", "report", "-"))


def test_completion_of_fish(pollux, tmp_path):
    if not shutil.which("fish"):
        pytest.skip("fish is not installed")
    (tmp_path / "one.plx").touch()

    def complete(line):
        script = f"source '{docs() / 'pollux.fish'}'; complete -C '{line}'"
        done = subprocess.run(["fish", "--no-config", "-c", script], cwd=tmp_path, capture_output=True, text=True,
                              env={**os.environ, "HOME": str(tmp_path)})
        return {row.split("\t")[0] for row in done.stdout.splitlines()}

    assert {"poll", "wakes"} <= complete("pollux report --sort ")
    assert {"--verbose", "--help"} <= complete("pollux report --")
    assert str(os.getpid()) in complete("pollux record --pid ")
    assert str(os.getpid()) in complete("pollux tree ")
    assert "one.plx" in complete("pollux report o")
