#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds what a test needs of tests/targets, when it needs it.

    build.py PACKAGE PROFILE [BINARY]      prints the path of the built file
    build.py --list                        packages and profiles
    build.py --ahead FILE                  builds what a whole run needs, and writes to FILE where it is:
                                           with POLLUX_BUILT=FILE a test waits for its line there

All packages share one cargo target folder below POLLUX_TARGET_DIR (default build/targets), so that a
crate is compiled once for all that use it alike; flags for all crates make another folder, flags for
the last one, which links, don't. Cargo itself knows what is up to date. Each package's files lie in a
folder of its own, ROOT/PACKAGE/PROFILE.
"""
import concurrent.futures
import contextlib
import fcntl
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ROOT / "tests" / "targets"
OUT = Path(os.environ.get("POLLUX_TARGET_DIR", ROOT / "build" / "targets")).resolve()
JOBS = os.environ.get("CARGO_BUILD_JOBS", "2")
HOST = "x86_64-unknown-linux-gnu"

# Debian 12's compiler. Its cargo knows crates.io only as a git repository, so the newer one fetches.
OLD_BIN = Path("/usr/bin")
OLD_CONFIG = """[source.crates-io]
replace-with = "fetched"
[source.fetched]
directory = "crates"
"""


@dataclass(frozen=True)
class Profile:
    cargo: str  # cargo's name of it
    flags: str = ""  # RUSTFLAGS; not empty: built in a folder of its own
    last: str = ""  # rustc's flags for the binary or library itself, which links: crates do without
    strip: bool = False  # then stripped by strip(1)
    unwind: bool = True  # panics unwind
    symbols: bool = True
    features: str = ""  # of the package, for cargo
    unwinder: str = ""  # linked instead of libgcc_s: a name of unwinder_flags()
    sees_panics: bool = True  # pollux finds where a panic starts
    trained: bool = False  # optimised by a profile of its own programs (PGO): needs llvm_profdata()
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
    "installed": Profile(
        "release-debug",
        last="--remap-path-prefix=../src=/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/shop-1.0.0/src",
        what="release with debug=true, as cargo install builds a package of a registry",
    ),
    "lto-debug": Profile("lto-debug", what="release with debug=true, fat LTO, codegen-units=1"),
    "line-tables": Profile("line-tables", what="release with debug=line-tables-only"),
    "v0": Profile("release", "-C symbol-mangling-version=v0", what="release, v0 mangling"),
    "nonpie": Profile("release", "-C relocation-model=static", what="release, not PIE"),
    "bfd": Profile("release", last="-C linker-features=-lld", what="release, linked by bfd"),
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
    "tracing-stripped": Profile(
        "release",
        "--cfg tokio_unstable",
        strip=True,
        symbols=False,
        features="tracing",
        what="release, tokio_unstable with Tokio's tracing, stripped",
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
    "pgo": Profile("release", trained=True, what="release, optimised by a profile (PGO) of its own programs"),
    "lazy": Profile("release", last="-C relro-level=off", what="release, functions bound when called"),
    "std-apart": Profile(
        "release", last="-C prefer-dynamic -C rpath", what="release, std in a library"
    ),
    "second-libgcc": Profile(
        "release", unwinder="libgcc_s-2", what="release, with a copy of libgcc_s of its own"
    ),
}

PACKAGES = sorted(path.parent.name for path in TARGETS.glob("*/Cargo.toml"))

# What a run without --all needs: root, package, profiles, files; what tests wait for first comes first.
# A test builds what is not in here when it comes to it, while other tests run: that only takes longer.
AHEAD = [
    ("targets", "tokio-1.38", "release debug stripped", "suite"),
    ("targets", "tokio-1.38", "release", "echo_server echo_load"),
    ("targets", "tokio-1.54", "release stripped own-libunwind", "suite"),
    ("targets", "smol-2.0", "release stripped own-libunwind second-libgcc", "suite"),
    ("targets", "smol-2.0", "debug", "suite"),
    ("targets", "tokio-1.20", "release", "suite"),
    ("targets", "cdylib", "release", "libtokio_inside.so"),
    ("targets", "async-std-1.13", "release", "suite"),
    ("targets", "probes-tokio2chrome", "release bfd stripped", "suite"),
    ("targets", "tokio-1.54", "release-lto static static-stripped", "suite"),
    ("targets", "probes-pollux", "release bfd", "suite"),
    ("targets", "probes-tokio-dtrace", "release", "suite"),
    ("targets", "tokio-1.54", "tracing-stripped", "suite"),
    ("targets", "tokio-1.23", "release", "suite"),
    ("targets", "probes-tokio-7717", "release", "suite"),
    ("targets", "smol-2.0", "nonpie static-pie static-stripped", "suite"),
    ("targets", "unwinders", "release own-libunwind own-libgcc", "libpanics_inside.so"),
    ("targets", "unwinders", "second-libgcc lazy std-apart", "libpanics_inside.so"),
    ("targets", "probes-async-std", "release release-lto", "suite"),
    ("targets", "async-std-1.12", "release-lto", "suite"),
    ("targets", "service-axum", "release-debug release installed", "service"),
    ("targets", "service-hyper", "release-debug", "service"),
    ("targets", "service-tonic", "release-debug", "service"),
    ("targets", "service-actix", "debug", "service"),
    ("targets", "incidents", "release-debug", "incidents"),
    ("targets", "causes", "release-debug", "causes"),
    ("targets", "spawns", "release-debug", "spawns_tokio spawns_async_task"),
    ("tree", "tokio-1.54", "release-debug", "tree places stuck crowd moment tangle holds"),
    ("tree", "tokio-1.54", "debug", "places moment"),
    ("tree", "smol-2", "debug", "tree"),
    ("tree", "rustc-1.63", "old-rustc", "tree"),
    ("futures", "tokio-1.54", "release-debug", "nested held rooted simple beside deep stamped links given_up resources pointed"),
    ("futures", "tokio-1.54", "debug", "nested held rooted simple given_up resources pointed"),
    ("futures", "smol-2", "debug", "simple"),
    ("futures", "smol-2", "release-debug", "rooted rooted_executor causes"),
    ("futures", "async-std-1.13", "release-debug", "rooted causes"),
]


class BuildError(Exception):
    """cargo failed; the message is what it said."""


def available():
    """Why nothing can be built here, or None."""
    return None if shutil.which("cargo") else "no cargo in PATH"


@contextlib.contextmanager
def locked(name):
    """Of several processes that build, one at a time is in here."""
    OUT.mkdir(parents=True, exist_ok=True)
    with open(OUT / f"{name}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@functools.lru_cache(maxsize=None)
def patched(package, root):
    """cargo's options for a package that has CRATE.patch files: a crate's source from the registry,
    copied and patched, instead of the crate."""
    options = []
    for patch in sorted((root / package).glob("*.patch")):
        manifest = root / package / "Cargo.toml"
        named = rf'(?:^{patch.stem} = |package = "{patch.stem}").*"=([^"]+)"'
        version = re.search(named, manifest.read_text(), re.M)[1]
        place = OUT / "patched" / package / f"{patch.stem}-{version}"
        if not (place / "done").exists() or (place / "done").read_text() != patch.read_text():
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(registry_source(patch.stem, version), place)
            subprocess.run(["patch", "-s", "-p1", "-d", str(place), "-i", str(patch)], check=True)
            (place / "done").write_text(patch.read_text())
        options += ["--config", f'patch.crates-io.{patch.stem}.path="{place}"']
    return options


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
    """rustc's flags by which what is said to need libgcc_s gets another unwinder."""
    folder = OUT / "unwinders" / name
    folder.mkdir(parents=True, exist_ok=True)
    rpath = ""
    if name == "libunwind":
        found = sorted(Path("/usr/lib").glob("llvm-*/lib/libunwind.a"))
        if not found:
            raise BuildError("no libunwind.a of LLVM's: install libunwind-dev of clang's version")
        unwinder = found[-1]
    elif name == "libgcc_eh":
        unwinder = gcc_file("libgcc_eh.a")
    else:
        # as wheels of Python have them: another file, known by a name of its own
        unwinder = folder / "libgcc_s-2.so"
        with locked("unwinders"):
            if not unwinder.exists():
                same = gcc_file("libgcc_s.so.1").read_bytes()
                unwinder.write_bytes(same.replace(b"libgcc_s.so.1\0", b"libgcc_s-2.so\0"))
        rpath = f" -C link-arg=-Wl,-rpath,{folder}"
    (folder / "libgcc_s.so").write_text(f"INPUT({unwinder})\n")
    return f"-L native={folder}{rpath}"


def gcc_file(name):
    """A file of gcc's or libc's, by the path that gcc knows."""
    told = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True)
    return Path(told.stdout.strip())


def ahead():
    """[(root, package, profile, binary)]: AHEAD in single ones."""
    return [
        (root, package, profile, binary)
        for root, package, profiles, binaries in AHEAD
        for profile in profiles.split()
        for binary in binaries.split()
    ]


def built_ahead(wanted):
    """The path of what is built for the whole run, when it is built; None: it is not, or can't be."""
    file = os.environ.get("POLLUX_BUILT")
    while file and wanted in ahead():
        ended = has_ended(file)
        for line in Path(file).read_text().splitlines(keepends=True):
            key, path = json.loads(line) if line.endswith("\n") else (None, None)
            if key == [*wanted]:
                return path and Path(path)
        if ended:
            break
        time.sleep(0.1)
    return None


def has_ended(file):
    """Whether the one who builds ahead, and has this file locked, is through."""
    with open(file) as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@functools.lru_cache(maxsize=None)
def build(package, profile, binary="suite", root=TARGETS):
    """The path of `binary` (a binary's name, or of a library its file's name), built."""
    path = built_ahead((root.name, package, profile, binary))
    return path or build_now(package, profile, binary, root)


def flags_of(package, profile, root):
    """RUSTFLAGS, for all crates."""
    how, own = PROFILES[profile], root / package / "RUSTFLAGS"
    trained = f"-C profile-use={training(package, root)}" if how.trained else ""
    return " ".join(filter(None, [how.flags, trained, own.read_text().strip() if own.exists() else ""]))


@functools.lru_cache(maxsize=None)
def llvm_profdata():
    """The command that reads the profiles of rustc's LLVM, whose major version it has to have; None. No
    toolchain has it; LLVM_PROFDATA says where there is one."""
    said = subprocess.run(["rustc", "--version", "--verbose"], capture_output=True, text=True).stdout
    major = re.search(r"^LLVM version: (\d+)", said, re.M)
    for name in (os.environ.get("LLVM_PROFDATA"), f"llvm-profdata-{major[1]}" if major else None, "llvm-profdata"):
        command = name and shutil.which(name)
        # Some say it in their help only.
        said = command and subprocess.run([command, "merge", "--version"], capture_output=True, text=True).stdout
        if said and major and f"LLVM version {major[1]}." in said:
            return command
    return None


# What a profile is made from: these, each once.
TRAINING = ("multi_thread", "current_thread", "timers", "channels", "net", "short_tasks", "yields", "abort", "panic")


@functools.lru_cache(maxsize=None)
def training(package, root):
    """The profile of a package's `suite`, as llvm-profdata has merged it."""
    if not llvm_profdata():
        raise BuildError("no llvm-profdata of rustc's LLVM: set LLVM_PROFDATA")
    folder = OUT / "training" / package
    merged = folder / "merged.profdata"
    with locked("training"):
        if not merged.exists():
            # Names that aren't compressed are read by each llvm-profdata.
            PROFILES["counting"] = Profile(
                "release", f"-C profile-generate={folder} -C llvm-args=-enable-name-compression=false")
            suite = build_now(package, "counting", "suite", root)
            for program in TRAINING:
                run([str(suite), program], env={**os.environ, "LLVM_PROFILE_FILE": f"{folder}/{program}.profraw"})
            run([llvm_profdata(), "merge", "-o", str(merged), *map(str, folder.glob("*.profraw"))])
    return merged


def name_of(*flags):
    """A name for what is built with these."""
    words = " ".join(["cargo", *flags]).replace(str(OUT), "").lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")


def build_now(package, profile, binary, root):
    if profile == "old-rustc":
        return build_by_old_rustc(package, binary, root)
    how = PROFILES[profile]
    flags = flags_of(package, profile, root)
    last = unwinder_flags(how.unwinder) if how.unwinder else how.last
    folder = OUT / name_of(flags)
    path = OUT / root.name / package / f"{name_of(flags, how.features, last)}-{how.cargo}" / binary
    command = ["nice", "cargo", "rustc" if last else "build", "--quiet", "--locked", "--jobs", JOBS]
    command += ["--profile", how.cargo, "--target-dir", str(folder)]
    command += ["--manifest-path", str(root / package / "Cargo.toml")]
    command += ["--lib"] if binary.endswith(".so") else ["--bin", binary]
    command += ["--features", how.features] if how.features else []
    with locked("patched"):
        command += patched(package, root)
    env = {k: v for k, v in os.environ.items() if k not in ("RUSTFLAGS", "CARGO_TARGET_DIR")}
    if binary.endswith(".so"):
        # or cargo's file of a cdylib has the same name with all flags, and is taken for another's
        env["__CARGO_DEFAULT_LIB_METADATA"] = "pollux"
    built = folder
    if flags:
        # with --target the flags are not those of build scripts and procedural macros
        command += ["--target", HOST]
        env["RUSTFLAGS"] = flags
        built = folder / HOST
    command += ["--", *last.split()] if last else []
    # The next package's binary of that name takes this one's place there.
    with locked(f"{folder.name}-{how.cargo}"):
        run(command, env=env)
        made = built / ("debug" if how.cargo == "dev" else how.cargo) / binary
        if not path.exists() or not path.samefile(made):
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            part.unlink(missing_ok=True)
            os.link(made, part)
            part.rename(path)
    return stripped(path, OUT / root.name / package / profile / binary) if how.strip else path


def why_no_old_rustc():
    rustc = OLD_BIN / "rustc"
    if not os.access(rustc, os.X_OK) or not os.access(OLD_BIN / "cargo", os.X_OK):
        return "no /usr/bin/rustc and cargo, which Debian 12 has in version 1.63"
    version = subprocess.run([rustc, "--version"], capture_output=True, text=True).stdout.strip()
    return None if version.startswith("rustc 1.63.") else f"/usr/bin/rustc is {version}, not 1.63"


def build_by_old_rustc(package, binary, root):
    there = OUT / root.name / "rustc-1.63"
    place = there / package
    shutil.copytree(root / package, place, dirs_exist_ok=True)
    shutil.copytree(root / "src", there / "src", dirs_exist_ok=True)
    fetch = ["cargo", "vendor", "--quiet", "--locked", "fetching"]
    command = ["nice", str(OLD_BIN / "cargo"), "build", "--quiet", "--locked", "--offline"]
    command += ["--release", "--jobs", JOBS]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CARGO", "RUST"))}
    env |= {"CARGO_HOME": str(there / "home"), "RUSTC": str(OLD_BIN / "rustc")}
    with locked("old-rustc"):
        if not (place / "crates").exists():
            (place / ".cargo" / "config.toml").unlink(missing_ok=True)
            run(fetch, cwd=place)
            (place / "fetching").rename(place / "crates")
        (place / ".cargo").mkdir(exist_ok=True)
        (place / ".cargo" / "config.toml").write_text(OLD_CONFIG)
        run(command, cwd=place, env=env)
    return place / "target" / "release" / binary


def run(command, **how):
    result = subprocess.run(command, capture_output=True, text=True, **how)
    if result.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{result.stderr[-4000:]}")


def stripped(whole, path):
    with locked("strip"):
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
    with locked("c"):
        part = path.with_suffix(".part")
        subprocess.run(["gcc", "-O1", "-Wall", "-o", str(part), str(source), *flags], check=True)
        part.rename(path)
    return path


def build_ahead(file):
    """Builds all of AHEAD, and notes in the file where each is, or that it can't be built: then the
    tests say why. True if all was built."""
    groups, failed = {}, []
    for root, package, profile, binary in ahead():
        if profile == "old-rustc":
            if not why_no_old_rustc():
                groups["old"] = [(root, package, profile, binary)]
            continue
        flags = flags_of(package, profile, ROOT / "tests" / root)
        group = groups.setdefault((flags, PROFILES[profile].cargo), [])
        group.append((root, package, profile, binary))

    def build_group(group):
        for root, package, profile, binary in group:
            path = None
            try:
                path = str(build_now(package, profile, binary, ROOT / "tests" / root))
            except BuildError as error:
                failed.append(error)
                print(error, file=sys.stderr)
            os.write(notes.fileno(), json.dumps([(root, package, profile, binary), path]).encode() + b"\n")

    with open(file, "a") as notes:
        fcntl.flock(notes, fcntl.LOCK_EX)
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            list(pool.map(build_group, groups.values()))
    return not failed


def main():
    if sys.argv[1:] == ["--list"]:
        print("packages:", *PACKAGES)
        print("profiles:", *PROFILES)
        return 0
    if len(sys.argv) == 3 and sys.argv[1] == "--ahead":
        return 0 if build_ahead(sys.argv[2]) else 1
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
