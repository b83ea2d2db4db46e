#!/usr/bin/env python3
"""Builds what a test needs of tests/targets, when it needs it.

    build.py PACKAGE PROFILE [BINARY]      prints the path of the built file
    build.py --list                        packages and profiles

One cargo target folder per package below POLLUX_TARGET_DIR (default build/targets), so that a
package's profiles share what can be shared; cargo itself knows what is up to date. A profile that
changes the compiler's flags has a target folder of its own.
"""
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ROOT / "tests" / "targets"
OUT = Path(os.environ.get("POLLUX_TARGET_DIR", ROOT / "build" / "targets")).resolve()
JOBS = os.environ.get("CARGO_BUILD_JOBS", "2")
HOST = "x86_64-unknown-linux-gnu"


@dataclass(frozen=True)
class Profile:
    cargo: str  # cargo's name of it
    flags: str = ""  # RUSTFLAGS; not empty: built in a folder of its own
    strip: bool = False  # then stripped by strip(1)
    unwind: bool = True  # panics unwind
    symbols: bool = True
    unwinder: str = ""  # linked instead of libgcc_s: a name of unwinder_flags()
    sees_panics: bool = True  # pollux finds where a panic starts
    what: str = ""


PROFILES = {
    "debug": Profile("dev", what="debug"),
    "release": Profile("release", what="release without debug info, with symbols"),
    "release-lto": Profile(
        "release-lto", unwind=False, what="release, fat LTO, codegen-units=1, panic=abort"
    ),
    "stripped": Profile("release", strip=True, symbols=False, what="release, stripped"),
    "lto-stripped": Profile(
        "release-lto", strip=True, unwind=False, symbols=False, what="release-lto, stripped"
    ),
    "release-debug": Profile("release-debug", what="release with debug=true"),
    "v0": Profile("release", "-C symbol-mangling-version=v0", what="release, v0 mangling"),
    "nonpie": Profile("release", "-C relocation-model=static", what="release, not PIE"),
    "bfd": Profile("release", "-C linker-features=-lld", what="release, linked by bfd"),
    "static-pie": Profile("release", "-C target-feature=+crt-static", what="release, static-pie"),
    "static-debug": Profile(
        "release-debug",
        "-C target-feature=+crt-static -C relocation-model=static",
        what="release with debug=true, static, not PIE",
    ),
    "static": Profile(
        "release",
        "-C target-feature=+crt-static -C relocation-model=static",
        what="release, static, not PIE",
    ),
    "static-stripped": Profile(
        "release",
        "-C target-feature=+crt-static -C relocation-model=static",
        strip=True,
        symbols=False,
        sees_panics=False,
        what="release, static, not PIE, stripped",
    ),
    "own-libunwind": Profile(
        "release",
        unwinder="libunwind",
        sees_panics=False,
        what="release, LLVM's libunwind linked in",
    ),
    "own-libgcc": Profile(
        "release",
        strip=True,
        symbols=False,
        unwinder="libgcc_eh",
        sees_panics=False,
        what="release, libgcc's unwinder linked in, stripped",
    ),
    "lazy": Profile("release", "-C relro-level=off", what="release, functions bound when called"),
    "std-apart": Profile("release", "-C prefer-dynamic -C rpath", what="release, std in a library"),
    "second-libgcc": Profile(
        "release", unwinder="libgcc_s-2", what="release, with a copy of libgcc_s of its own"
    ),
}

PACKAGES = sorted(path.parent.name for path in TARGETS.glob("*/Cargo.toml"))


class BuildError(Exception):
    """cargo failed; the message is what it said."""


def available():
    """Why nothing can be built here, or None."""
    return None if shutil.which("cargo") else "no cargo in PATH"


@functools.lru_cache(maxsize=None)
def patched(package, root):
    """cargo's options for a package that has CRATE.patch files: a crate's source from the registry,
    copied and patched, instead of the crate."""
    options = []
    for patch in sorted((root / package).glob("*.patch")):
        manifest = root / package / "Cargo.toml"
        named = rf'(?:^{patch.stem} = |package = "{patch.stem}").*"=([^"]+)"'
        version = re.search(named, manifest.read_text(), re.M)[1]
        place = OUT / package / "patched" / f"{patch.stem}-{version}"
        if not (place / "done").exists() or (place / "done").read_text() != patch.read_text():
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(registry_source(patch.stem, version), place)
            subprocess.run(["patch", "-s", "-p1", "-d", str(place), "-i", str(patch)], check=True)
            (place / "done").write_text(patch.read_text())
        options += ["--config", f'patch.crates-io.{patch.stem}.path="{place}"']
    return options


def flags_folder(profile):
    """The profile's folder, which one that differs only by strip(1) shares."""
    how = PROFILES[profile]
    return next(
        name
        for name, other in PROFILES.items()
        if (other.cargo, other.flags, other.unwinder) == (how.cargo, how.flags, how.unwinder)
    )


def registry_source(crate, version):
    """Where cargo has unpacked the crate, after fetching it."""
    fetch = OUT / "fetch" / f"{crate}-{version}"
    (fetch / "src").mkdir(parents=True, exist_ok=True)
    (fetch / "src" / "lib.rs").touch()
    (fetch / "Cargo.toml").write_text(
        f'[package]\nname = "fetch"\nversion = "0.0.0"\n[workspace]\n'
        f'[dependencies]\n{crate} = "={version}"\n'
    )
    command = ["cargo", "metadata", "--format-version", "1", "--manifest-path"]
    told = subprocess.run([*command, str(fetch / "Cargo.toml")], capture_output=True, text=True)
    if told.returncode != 0:
        raise BuildError(told.stderr[-4000:])
    packages = json.loads(told.stdout)["packages"]
    return next(Path(p["manifest_path"]).parent for p in packages if p["name"] == crate)


@functools.lru_cache(maxsize=None)
def unwinder_flags(name):
    """RUSTFLAGS by which what is said to need libgcc_s gets another unwinder."""
    folder = OUT / "unwinders" / name
    folder.mkdir(parents=True, exist_ok=True)
    rpath = ""
    if name == "libunwind":
        found = sorted(Path("/usr/lib").glob("llvm-*/lib/libunwind.a"))
        if not found:
            raise BuildError("no libunwind.a of LLVM's: install libunwind-14-dev")
        unwinder = found[-1]
    elif name == "libgcc_eh":
        unwinder = gcc_file("libgcc_eh.a")
    else:
        # as wheels of Python have them: another file, known by a name of its own
        unwinder = folder / "libgcc_s-2.so"
        same = gcc_file("libgcc_s.so.1").read_bytes()
        unwinder.write_bytes(same.replace(b"libgcc_s.so.1\0", b"libgcc_s-2.so\0"))
        rpath = f" -C link-arg=-Wl,-rpath,{folder}"
    (folder / "libgcc_s.so").write_text(f"INPUT({unwinder})\n")
    return f"-L native={folder}{rpath}"


def gcc_file(name):
    """A file of gcc's or libc's, by the path that gcc knows."""
    told = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True)
    return Path(told.stdout.strip())


@functools.lru_cache(maxsize=None)
def build(package, profile, binary="suite", root=TARGETS):
    """The path of `binary` (a binary's name, or of a library its file's name), built."""
    how = PROFILES[profile]
    folder = OUT / package if root == TARGETS else OUT / root.name / package
    if how.flags or how.unwinder:
        folder = folder / flags_folder(profile)
    own = root / package / "RUSTFLAGS"
    flags = f"{how.flags} {own.read_text().strip() if own.exists() else ''}".strip()
    if how.unwinder:
        flags = f"{flags} {unwinder_flags(how.unwinder)}".strip()
    command = ["nice", "cargo", "build", "--quiet", "--locked", "--jobs", JOBS]
    command += ["--profile", how.cargo, "--target-dir", str(folder)]
    command += ["--manifest-path", str(root / package / "Cargo.toml")]
    command += [] if binary.endswith(".so") else ["--bin", binary]
    command += patched(package, root)
    env = {k: v for k, v in os.environ.items() if k not in ("RUSTFLAGS", "CARGO_TARGET_DIR")}
    built = folder
    if flags:
        # with --target the flags are not those of build scripts and procedural macros
        command += ["--target", HOST]
        env["RUSTFLAGS"] = flags
        built = folder / HOST
    result = subprocess.run(command, env=env, capture_output=True, text=True)
    if result.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{result.stderr[-4000:]}")
    path = built / ("debug" if how.cargo == "dev" else how.cargo) / binary
    if how.strip:
        whole, path = path, OUT / package / profile / binary
        if not path.exists() or path.stat().st_mtime < whole.stat().st_mtime:
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            subprocess.run(["strip", "-o", str(part), str(whole)], check=True)
            part.rename(path)
    return path


@functools.lru_cache(maxsize=None)
def compile_c(source, name, *flags):
    """A C program of tests/, compiled; `name` is the file's name."""
    path = OUT / "c" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["gcc", "-O1", "-Wall", "-o", str(path), str(source), *flags], check=True)
    return path


def main():
    if sys.argv[1:] == ["--list"]:
        print("packages:", *PACKAGES)
        print("profiles:", *PROFILES)
        return 0
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(build(*sys.argv[1:]))
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
