# SPDX-License-Identifier: MIT OR Apache-2.0
"""The check of words in the documentation."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import phrases

ROOT = Path(__file__).resolve().parents[2]


def test_no_page_uses_them():
    files, uses = phrases.check(ROOT)
    assert files > 500 and not uses, uses


def test_a_use_is_found(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/glossary.md").write_text("whoever\n\n    example\n\ntext\n\n    whoever, so many,\n    anew\n")
    (tmp_path / "docs/page.md").write_text("fine\nSo many hours\nhoursome, so\nmany, anew\n")
    assert phrases.check(tmp_path) == (1, [
        "docs/page.md:2: 'So many': see docs/glossary.md",
        "docs/page.md:3: 'so many': see docs/glossary.md",
        "docs/page.md:4: 'anew': see docs/glossary.md",
    ])


def test_comments_and_strings_of_c_are_read(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/glossary.md").write_text("    so many, anew\n")
    (tmp_path / "src/room").mkdir(parents=True)
    (tmp_path / "src/room/file.c").write_text(
        "/* So\n * many words. */\nint anew = '\"'; // anew\nconst char *x = \"so \"\n\t\"many\";\n")
    assert phrases.check(tmp_path) == (1, [
        "src/room/file.c:1: 'So many': see docs/glossary.md",
        "src/room/file.c:3: 'anew': see docs/glossary.md",
        "src/room/file.c:4: 'so many': see docs/glossary.md",
    ])


def test_an_empty_list_checks_nothing(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/glossary.md").write_text("# Glossary\n")
    assert phrases.check(tmp_path) == (0, [])
