# SPDX-License-Identifier: MIT OR Apache-2.0
"""cargo pollux, as the archive has it: it builds and starts what cargo would, with pollux in front."""
import json
import os
import re
import shutil
import subprocess
import tarfile

import build as builder
import driver
import pytest

MANIFEST = """[package]
name = "two"
version = "0.0.0"
edition = "2021"
default-run = "server"
[[bin]]
name = "server"
path = "main.rs"
[[bin]]
name = "other"
path = "main.rs"
[lib]
path = "lib.rs"
[profile.release]
debug = 0
strip = true
[workspace]
"""
PROGRAM = 'fn main() { println!("{:?}", std::env::args().skip(1).collect::<Vec<_>>()); }\n'
LIBRARY = "#[test]\nfn passes() {}\n#[test]\nfn also_passes() {}\n"
# In place of pollux: says how it was called, and runs the program.
FAKE = """#!/bin/sh
echo "$@" >> "$CALLED"
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""


@pytest.fixture(scope="session")
def unpacked(only, tmp_path_factory):
    """The folder in the archive."""
    archive = only("cargo-pollux-*.tgz")
    to = tmp_path_factory.mktemp("archive")
    with tarfile.open(archive) as tar:
        tar.extractall(to)
    return to / archive.stem


@pytest.fixture
def crate(tmp_path):
    """A crate with two programs and two tests, whose Cargo.toml leaves debug information out."""
    folder = tmp_path / "a crate"
    folder.mkdir()
    for name, text in (("Cargo.toml", MANIFEST), ("main.rs", PROGRAM), ("lib.rs", LIBRARY)):
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def cargo(unpacked, tmp_path):
    """cargo(FOLDER, *WORDS): cargo pollux WORDS there, and how pollux was called."""
    fake = tmp_path / "a bin" / "pollux"
    fake.parent.mkdir()
    fake.write_text(FAKE)
    fake.chmod(0o755)
    called = tmp_path / "called"

    def run(folder, *words, **env):
        called.unlink(missing_ok=True)
        path = f"{unpacked}:{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "POLLUX": str(fake), "CALLED": str(called), **env}
        done = driver.run("cargo", "pollux", *words, cwd=folder, env=env, timeout=600)
        return done, called.read_text().splitlines() if called.exists() else []

    return run


def test_archive_is_binstalls(only, unpacked):
    """cargo-binstall's default names: NAME-TARGET-vVERSION.tgz with a folder of that name, in it a file for each
    binary of Cargo.toml, also the one that cargo doesn't build."""
    manifest = (driver.ROOT / "crates/cargo-pollux/Cargo.toml").read_text()
    version = re.search(r'(?m)^version = "(.*)"', manifest)[1]
    assert only("cargo-pollux-*.tgz").name == f"cargo-pollux-x86_64-unknown-linux-musl-v{version}.tgz"
    bins = re.findall(r'\[\[bin\]\]\nname = "(.*)"', manifest)
    assert bins == ["cargo-pollux", "pollux"]
    for name in bins:
        assert os.access(unpacked / name, os.X_OK)
    assert (unpacked / "pollux").read_bytes() == only("pollux").read_bytes()
    assert {"LICENSE-MIT", "LICENSE-APACHE", "NOTICE", "README.md", "docs"} < {path.name for path in unpacked.iterdir()}
    # A text for each library that is linked statically, as the linker was called.
    texts = {path.name for path in (unpacked / "LICENSES").iterdir()}
    assert {"Zydis", "libc", "libelf", "libz", "libzstd", "libbpf", "libiberty", "libutf8proc"} <= texts


def test_record(cargo, crate):
    """What `cargo run` would start, with its arguments, with debug information against Cargo.toml."""
    before = (crate / "Cargo.toml").read_text()
    done, called = cargo(crate, "record", "--release", "--pollux", "-o a.plx --cpu", "--", "--port", "80 80")
    assert done.returncode == 0, done.stderr
    assert done.stdout == '["--port", "80 80"]\n'
    assert called == ["record -o a.plx --cpu -- target/release/server --port 80 80"]
    sections = driver.run("readelf", "-SW", crate / "target/release/server").stdout
    assert ".debug_info" in sections and ".symtab" in sections
    assert (crate / "Cargo.toml").read_text() == before
    done, called = cargo(crate, "record", "--bin=other", "--profile=dev")
    assert done.returncode == 0, done.stderr
    assert called == ["record -- target/debug/other"]


def test_tests(cargo, crate):
    done, called = cargo(crate, "test", "also", "--pollux=--no-snapshot", "--", "--exact", "also_passes")
    assert done.returncode == 0, done.stderr
    assert "1 passed" in done.stdout
    assert len(called) >= 1
    assert all(re.fullmatch(r"record --no-snapshot -- .*/deps/\w+-\w+ --exact also_passes also", line) or
               re.fullmatch(r"record --no-snapshot -- .*/deps/\w+-\w+ also --exact also_passes", line) for line in called)
    assert any("/deps/two-" in line for line in called)


def test_attach_and_others(cargo, crate):
    assert cargo(crate, "attach", "server", "-d", "1", "--", "true")[1] == ["record server -d 1 -- true"]
    assert cargo(crate, "tree", "--json", "server", "--", "true")[1] == ["tree --json server -- true"]


def test_wrong_uses(cargo, crate, unpacked, tmp_path):
    done, _ = cargo(crate, "record", POLLUX=str(tmp_path / "none"))
    assert done.returncode == 1
    assert done.stderr == f"cargo pollux: POLLUX={tmp_path}/none is no program\n"
    assert cargo(crate, "attach")[0].returncode == 2
    assert cargo(crate)[0].returncode == 2
    assert cargo(crate, "--help")[0].returncode == 0
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(unpacked / "cargo-pollux", alone)
    done = driver.run(alone / "cargo-pollux", "pollux", "report", env={"PATH": str(alone)})
    assert done.returncode == 1
    assert "pip install pollux-trace" in done.stderr


def test_finds_what_is_beside_it(unpacked):
    """As binstall leaves them: in one folder, which need not be in PATH."""
    done = driver.run(unpacked / "cargo-pollux", "pollux", "version", env={"PATH": "/nowhere"})
    assert done.stdout.startswith("pollux "), done.stderr


def test_a_tokio_program(unpacked, tmp_path):
    """From sources to a recording whose tasks have places, by one command."""
    trace = tmp_path / "trace.plx"
    # What is built here alike is not built again.
    builder.build("tokio-1.54", "release-debug", "tree", root=driver.ROOT / "tests/tree")
    env = {**os.environ, "PATH": f"{unpacked}:{os.environ['PATH']}", "CARGO_TARGET_DIR": str(builder.OUT / "cargo")}
    env.pop("RUSTFLAGS", None)
    with builder.locked("cargo-release-debug"):
        done = subprocess.run(["cargo", "pollux", "record", "--profile", "release-debug", "--bin", "tree",
                               "--manifest-path", driver.ROOT / "tests/tree/tokio-1.54/Cargo.toml", "--locked",
                               "--pollux", f"-o {trace}"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=env, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    assert "ready " in done.stdout
    report = json.loads(driver.run(unpacked / "pollux", "report", "--json", trace).stdout)
    assert report["tasks"]["spawned"] > 50
    named = driver.run(unpacked / "pollux", "report", "--json", "--family", "tree::own::chain", trace)
    assert [family["name"] for family in json.loads(named.stdout)["families"]] == ["tree::own::chain"]


@pytest.mark.parametrize("name", ["cargo-pollux", "pollux-probes"])
def test_package(name, tmp_path):
    """What `cargo publish` would send builds by itself."""
    done = driver.run("cargo", "package", "--allow-dirty", "--target-dir", tmp_path, timeout=600,
                      cwd=driver.ROOT / "crates" / name)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "package").glob("*.crate"))) == 1
