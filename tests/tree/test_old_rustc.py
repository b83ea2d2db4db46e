"""Trees of a program from Debian 12's rustc 1.63, whose async fns are GenFuture wrappers.

That compiler's cargo knows crates.io only as a git repository, so the newer one beside it fetches the
sources. Where there is no such compiler, TREE_RUSTC_1_63 may name a program that one has built of
rustc-1.63/.
"""
import os
import shutil
import subprocess
from pathlib import Path

import driver
import forest
import pytest
import test_tree
from conftest import HERE, Program, builder

BIN = Path("/usr/bin")
CONFIG = """[source.crates-io]
replace-with = "fetched"
[source.fetched]
directory = "crates"
"""


def why_not():
    rustc = BIN / "rustc"
    if not os.access(rustc, os.X_OK) or not os.access(BIN / "cargo", os.X_OK):
        return "no /usr/bin/rustc and cargo, which Debian 12 has in version 1.63"
    version = driver.run(rustc, "--version").stdout.strip()
    return None if version.startswith("rustc 1.63.") else f"/usr/bin/rustc is {version}, not 1.63"


def build():
    """The path of the built program."""
    there = builder.OUT / "tree" / "rustc-1.63"
    package = there / "rustc-1.63"
    shutil.copytree(HERE / "rustc-1.63", package, dirs_exist_ok=True)
    shutil.copytree(HERE / "src", there / "src", dirs_exist_ok=True)
    if not (package / "crates").exists():
        subprocess.run(["cargo", "vendor", "--quiet", "--locked", "fetching"], cwd=package,
                       check=True, capture_output=True)
        (package / "fetching").rename(package / "crates")
    (package / ".cargo").mkdir(exist_ok=True)
    (package / ".cargo" / "config.toml").write_text(CONFIG)
    own = {"CARGO_HOME": str(there / "home"), "RUSTC": str(BIN / "rustc")}
    result = subprocess.run(
        [str(BIN / "cargo"), "build", "--quiet", "--release", "--locked", "--offline"], cwd=package,
        env={**{k: v for k, v in os.environ.items() if not k.startswith(("CARGO", "RUST"))}, **own},
        capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return package / "target" / "release" / "tree"


def test_every_place(pollux):
    path = os.environ.get("TREE_RUSTC_1_63")
    if not path:
        reason = why_not()
        if reason:
            pytest.skip(reason)
        path = build()
    program = Program(path)
    looked = test_tree.look(pollux, program.pid)
    expected = forest.Forest("old.rs").trees
    wrong = test_tree.differences(expected, test_tree.trees_of(looked))
    program.close()
    assert not wrong, "\n".join([f"{len(wrong)} of {len(expected)} differ", *wrong])
    assert looked["deadlocks"] == [] and looked["missed_reads"] == 0
