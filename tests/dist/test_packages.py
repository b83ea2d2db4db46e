# SPDX-License-Identifier: MIT OR Apache-2.0
"""The wheel and the .deb: what is in them, and that they install, work and go away."""
import base64
import hashlib
import os
import sys
import zipfile

import driver
import smoke


def test_sums(dist):
    for line in (dist / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest
    names = {path.name for path in dist.iterdir()}
    assert names == {"SHA256SUMS"} | {line.split("  ")[1] for line in (dist / "SHA256SUMS").read_text().splitlines()}


def test_wheel(only, pollux):
    """It has the same executable; its tags are those of a program that needs no libc (test_elf); RECORD is right."""
    path = only("*.whl")
    name, version, *tags = path.stem.split("-")
    with zipfile.ZipFile(path) as wheel:
        assert wheel.read(f"{name}-{version}.data/scripts/pollux") == pollux.read_bytes()
        said = wheel.read(f"{name}-{version}.dist-info/WHEEL").decode()
        assert said.count("\nTag: ") == len(tags[2].split("."))
        for tag in tags[2].split("."):
            assert f"Tag: {tags[0]}-{tags[1]}-{tag}\n" in said
        record = wheel.read(f"{name}-{version}.dist-info/RECORD").decode().splitlines()
        assert sorted(line.split(",")[0] for line in record) == sorted(wheel.namelist())
        for line in record:
            if line.endswith("/RECORD,,"):
                continue
            file, digest, size = line.split(",")
            data = wheel.read(file)
            right = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={right}", len(data))


def test_wheel_installs(only, pollux, tmp_path):
    done = driver.run(sys.executable, "-m", "pip", "install", "--no-index", "--target", tmp_path / "there", only("*.whl"))
    assert done.returncode == 0, done.stderr
    said = driver.run("pollux", "--version", env={"PATH": str(tmp_path / "there/bin")})
    assert said.returncode == 0
    assert said.stdout == driver.run(pollux, "--version").stdout
    shown = driver.run(sys.executable, "-m", "pip", "show", "pollux-trace", env={**os.environ, "PYTHONPATH": str(tmp_path / "there")})
    assert "Name: pollux-trace\n" in shown.stdout.replace("_", "-")


def test_lintian(only):
    done = driver.run("lintian", "--fail-on", "error", "--allow-root", only("*.deb"), timeout=600)
    assert done.returncode == 0, done.stdout


def files(root):
    """All files but those in which apt and dpkg keep what they did, and a user's."""
    own = ("var/lib/dpkg", "var/lib/apt", "var/cache/apt", "var/cache/debconf", "var/log", "root", "proc")
    found = set()
    for folder, folders, names in os.walk(root.folder):
        below = os.path.relpath(folder, root.folder)
        if below in own:
            folders.clear()
            continue
        found |= {os.path.join(below, name) for name in (*folders, *names)}
    return found


def test_deb(only, root, pollux, tree_program):
    """apt installs it without another package; it works; apt removes all of it."""
    before = files(root)
    (root.folder / "package.deb").write_bytes(only("*.deb").read_bytes())
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "COLUMNS": "500"}
    said = root.good("apt-get", "install", "-y", "--no-install-recommends", "/package.deb", env=env)
    (root.folder / "package.deb").unlink()
    assert "0 upgraded, 1 newly installed" in said
    assert (root.folder / "usr/bin/pollux").read_bytes() == pollux.read_bytes()
    smoke.works(root, "pollux", tree_program, "/tmp/")
    for name in smoke.LEFT:
        (root.folder / "tmp" / name).unlink()
    new = files(root) - before
    for name in ("usr/share/man/man1/pollux-record.1.gz", "usr/share/man/man1/pollux.1.gz",
                 "usr/share/bash-completion/completions/pollux.bash", "usr/share/zsh/site-functions/_pollux",
                 "usr/share/fish/vendor_completions.d/pollux.fish", "usr/include/pollux/probes.h",
                 "usr/share/pollux/poll-stats.bt", "usr/share/doc/pollux/docs/README.md", "usr/share/doc/pollux/copyright"):
        assert name in new, name
    installed = (root.folder / "usr/share/bash-completion/completions/pollux.bash").read_text()
    assert root.good("pollux", "completion", "bash") == installed
    root.good("apt-get", "remove", "-y", "pollux", env=env)
    assert files(root) == before
