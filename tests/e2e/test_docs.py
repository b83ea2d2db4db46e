# SPDX-License-Identifier: MIT OR Apache-2.0
"""The documentation against the product: each command that it shows parses, each link has a target."""
import re
import shlex
import subprocess
from pathlib import Path

import driver
import pytest
from test_cli import run, verbs

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("crates/*/*.md"), *ROOT.glob("packaging/*.md")])


def pages():
    return pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def code(page):
    """What a page shows as code: the lines of its blocks, and the spans between backticks."""
    text, spans = page.read_text(), []
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S):
        spans += block.splitlines()
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    spans += re.findall(r"^ {4,}(\S.*)", text, re.M)
    text = re.sub(r"^ {4,}\S.*", "", text, flags=re.M)
    return spans + [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]


def commands(page):
    """The words after `pollux` of each command, and spans such as `record --futures`."""
    known = "|".join(verbs())
    for span in code(page):
        shown = re.findall(rf"(?:^|(?<!cargo)[ /(])pollux +((?:{known})\b.*)", span)
        shown += re.findall(rf"^((?:{known}) --?[a-z].*)", span)
        for text in shown:
            # Up to a comment, the explanation in a second column, and what the shell takes.
            text = re.split(r"\s#|\s{3,}|[|<>;&\n]", text)[0].replace("…", "").replace("...", "")
            if not re.search(r"\{\w*$|^\w+ (?:and|or|as|is|of|the|to|prints) ", text):
                yield text, shlex.split(re.sub(r"[`.,:) ]+$", "", text).replace("'s ", " "))


def check_commands(shown):
    gen_docs = Path(driver.pollux_path()).parent / "gen-docs"
    for text, words in shown:
        done = subprocess.run([gen_docs, "parse", *words], capture_output=True, text=True)
        # A span that ends with an option's name is about that option: `report --html`.
        names_it = words[-1].startswith("-") and " needs a value: " in done.stderr
        assert done.returncode == 0 or names_it, f"pollux {text}: {done.stderr}"


@pages()
def test_commands_parse(pollux, page):
    check_commands(commands(page))


def test_commands_are_found():
    found = [text for page in PAGES for text, words in commands(page)]
    assert len(found) > 120 and {text.split()[0] for text in found} == set(verbs())


def test_a_wrong_command_is_found(pollux, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Text `pollux record --no-such 1`.\n\n    sudo pollux report --jsn x.plx   # all\n\n"
                    "see `hist --spwans`, or `pollux tree PID`.\n")
    assert [words for text, words in commands(page)] == [
        ["report", "--jsn", "x.plx"], ["record", "--no-such", "1"], ["hist", "--spwans"], ["tree", "PID"]]
    for shown in commands(page):
        if shown[1] != ["tree", "PID"]:
            with pytest.raises(AssertionError, match="has no option"):
                check_commands([shown])


def test_examples_of_help_parse(pollux):
    for verb in verbs():
        examples = run(verb, "--help").stdout.split("Examples:\n")[1]
        shown = [re.split(r"[|<>;&]", text)[0] for text in re.findall(rf"^  pollux ({verb} .*)", examples, re.M)]
        assert shown, verb
        check_commands([(text, shlex.split(text)) for text in shown])


def anchors(page):
    """The names under which a forge offers the headings of a page."""
    headings = re.findall(r"^#+ (.*)", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    headings = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pages()
def test_links_have_targets(page):
    text = re.sub(r"^ {4,}\S.*|`[^`]+`", "", page.read_text(), flags=re.M)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pages()
def test_files_are_there(page):
    """A source file between backticks, such as `src/base/vec.h`, exists; those of programs are .rs files."""
    for span in code(page):
        for path in re.findall(r"^((?:src|agent|docs|tests|bench|demo|web|packaging|crates)/[\w./-]+\.\w+)$", span):
            assert path.endswith((".rs", ".pb.h", ".plx")) or (ROOT / path).exists(), path


# Options of other programs that texts name.
OTHERS = {"--cap-add", "--mount-proc", "--version"}


def unknown_options(text, known):
    """The options that strings of C code name and that no verb has."""
    strings = re.findall(r'"(?:[^"\\\n]|\\.)*"', re.sub(r"/\*.*?\*/", "", text, flags=re.S))
    named = {option for string in strings for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", string)}
    return named - known


def test_options_in_texts_exist(pollux):
    """Errors, advice and coverage name options that pollux has, so that they can be typed as they are."""
    known = {option for verb in verbs() for option in re.findall(r"--[a-z][a-z-]+", run(verb, "--help").stdout)} | OTHERS
    for path in sorted((ROOT / "src").rglob("*.[ch]")):
        assert not unknown_options(path.read_text(), known), path
    assert unknown_options('/* "--ring" */ say("larger rings (--ring), or --cap-add")', known) == {"--ring"}


def test_names_in_docs_exist():
    """An event, a hook or a flag between backticks (AE_POLL_ABORTED) is one of the code."""
    code_of = "".join(path.read_text() for room in ("src", "agent") for path in (ROOT / room).rglob("*.[chS]"))
    names = set(re.findall(r"\w+", code_of))
    for page in PAGES:
        for span in re.findall(r"`([^`]+)`", page.read_text()):
            for name in re.findall(r"\b(?:(?:A|T)[EHOR]|AGENT|NODE|POINT|END|POLL|TRACE)_[A-Z_]+\b(?!\*)", span):
                assert name in names or name.endswith("_"), f"{page}: {name}"
