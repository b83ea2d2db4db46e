# SPDX-License-Identifier: MIT OR Apache-2.0
"""The check of words in the documentation."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import phrases

ROOT = Path(__file__).resolve().parents[2]


def test_no_page_uses_them():
    files, uses = phrases.check(ROOT)
    assert files > 20 and not uses, uses


def test_a_use_is_found(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/glossary.md").write_text("whoever\n\n    example\n\ntext\n\n    whoever, so many,\n    anew\n")
    (tmp_path / "docs/page.md").write_text("fine\nSo many hours\nhoursome, so\nmany, anew\n")
    assert phrases.check(tmp_path) == (1, [
        "docs/page.md:2: 'So many': see docs/glossary.md",
        "docs/page.md:3: 'so many': see docs/glossary.md",
        "docs/page.md:4: 'anew': see docs/glossary.md",
    ])


def test_an_empty_list_checks_nothing(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/glossary.md").write_text("# Glossary\n")
    assert phrases.check(tmp_path) == (0, [])
