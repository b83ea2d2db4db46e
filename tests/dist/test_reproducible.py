# SPDX-License-Identifier: MIT OR Apache-2.0
"""./dev dist in another folder, at another time and without git, gives the same bytes."""
import os
import shutil
import sys

import driver

sys.path.insert(0, str(driver.ROOT / "packaging"))

import dist as made_from  # noqa: E402


def test_same_bytes(dist, tmp_path):
    tree = tmp_path / "another/folder"
    made_from.copy_tree(tree)
    env = {**os.environ, "TZ": "Pacific/Kiritimati", "LC_ALL": "C",
           "SOURCE_DATE_EPOCH": str(made_from.epoch()), "POLLUX_COMMIT": made_from.commit()}
    done = driver.run(sys.executable, tree / "packaging/dist.py", env=env, timeout=1800)
    assert done.returncode == 0, done.stderr
    assert (tree / "dist/SHA256SUMS").read_text() == (dist / "SHA256SUMS").read_text()
    shutil.rmtree(tree)
