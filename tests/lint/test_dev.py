# SPDX-License-Identifier: MIT OR Apache-2.0
"""./dev where something is missing that it can't install."""
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_without_root_it_says_what_is_missing(tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "dirname", "ls", "grep", "mkdir", "tail"):
        (tools / tool).symlink_to(shutil.which(tool))
    for name, text in {"id": "echo 1000", "dpkg-query": "exit 1", "apt-get": "exit 0"}.items():
        (tools / name).write_text(f"#!{tools}/bash\n{text}\n")
        (tools / name).chmod(0o755)
    dev = tmp_path / "dev"
    shutil.copy(ROOT / "dev", dev)
    done = subprocess.run([tools / "bash", dev, "build"], env={"PATH": str(tools), "HOME": str(tmp_path)},
                          capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("./dev: missing: gcc "), done.stderr
    assert "libzydis-dev" in done.stderr and "root" in done.stderr
