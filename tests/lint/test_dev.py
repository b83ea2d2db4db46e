# SPDX-License-Identifier: MIT OR Apache-2.0
"""./dev where something is missing that it can't install."""
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("command", ["build", "demo", "test"])
def test_without_root_it_says_what_is_missing(tmp_path, command):
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "dirname", "ls", "grep", "mkdir", "tail"):
        (tools / tool).symlink_to(shutil.which(tool))
    for name, text in {"id": "echo 1000", "dpkg-query": "exit 1", "apt-get": "exit 0"}.items():
        (tools / name).write_text(f"#!{tools}/bash\n{text}\n")
        (tools / name).chmod(0o755)
    dev = tmp_path / "dev"
    shutil.copy(ROOT / "dev", dev)
    done = subprocess.run([tools / "bash", dev, command], env={"PATH": str(tools), "HOME": str(tmp_path)},
                          capture_output=True, text=True)
    assert done.returncode == 1
    sentence, rest = done.stderr.split("\n", 1)
    assert sentence.startswith("./dev: without root and sudo") and not rest, done.stderr
    packages = sentence.partition("'apt-get install ")[2].rstrip("'").split()
    assert {"gcc", "libzydis-dev"} <= set(packages), sentence
    assert ("cargo" in packages) == (command != "build"), sentence
    assert ("python3-pytest" in packages) == (command == "test"), sentence
    assert len(set(packages)) == len(packages), sentence
