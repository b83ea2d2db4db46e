#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds what is passed on, into dist/: ./dev dist.

    pollux_VERSION-1_amd64.deb                                Debian 11 and newer, Ubuntu 20.04 and newer
    pollux                                                    the executable
    cargo-pollux-TARGET-vVERSION.tgz                          it, cargo-pollux, licences, documents
    pollux_trace-VERSION-py3-none-manylinux_...whl            for pip
    SHA256SUMS

pollux is built once: by debhelper, from a copy of the tree, by debian/rules with the profile pkg.pollux.static. Its
executable is linked statically and is the same file in all of them. The bytes depend on the tree, the version
of the compiler and of the libraries, and SOURCE_DATE_EPOCH (the commit's time unless it is set), and neither
on the folder nor on the clock: tests/dist checks that.
"""
import argparse
import base64
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The name that cargo-binstall looks for on systems of any libc. The executable is linked with glibc, which
# README.md in the archive says: a static program needs no libc of the system.
TARGET = "x86_64-unknown-linux-musl"
# What cargo-pollux is built for, with glibc linked statically.
RUST_TARGET = "x86_64-unknown-linux-gnu"
# Both are true of a program that needs no library: tests/dist reads its ELF file.
TAGS = "py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64"


class Failure(Exception):
    """A sentence for the one who called ./dev dist."""


def run(*command, log=None, **options):
    """A command to its end, its output in a file. Fails with the last line of it."""
    out = open(log, "ab") if log else subprocess.DEVNULL
    done = subprocess.run([str(part) for part in command], stdout=out, stderr=subprocess.STDOUT,
                          check=False, **options)
    if done.returncode:
        last = Path(log).read_text(errors="replace").strip().splitlines()[-1:] if log else []
        raise Failure(f"{command[0]} failed" + (f" ({log}): {' '.join(last)}" if log else ""))


def said(*command):
    """What a command prints; None if it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


# --- what is built ------------------------------------------------------------------------------


def version():
    """The project's, from meson.build, where it is written."""
    found = re.search(r"^\s*version: '([^']+)'", (ROOT / "meson.build").read_text(), re.M)
    for path, pattern in (("debian/changelog", r"\Apollux \(([^)]+)-1\)"),
                          ("crates/cargo-pollux/Cargo.toml", r'(?m)^version = "([^"]+)"')):
        other = re.search(pattern, (ROOT / path).read_text())[1]
        if other != found[1]:
            raise Failure(f"{path} has version {other}, meson.build {found[1]}")
    return found[1]


def git(*command):
    return said("git", "-C", ROOT, f"--git-dir={ROOT / '.git'}", f"--work-tree={ROOT}", *command)


def epoch():
    """Seconds since 1970 that all files are from."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct")
               or said("dpkg-parsechangelog", "-l", ROOT / "debian/changelog", "-S", "Timestamp"))


def commit():
    """What --version says of the source's commit; "" if that is not known."""
    return os.environ.get("POLLUX_COMMIT") or git("describe", "--always", "--dirty", "--abbrev=10", "--exclude=*") or ""


def is_built(folder, names):
    """Those of the names in a folder that .gitignore has, where there is no git to ask."""
    anywhere = {"target", "__pycache__", ".pytest_cache", "node_modules"} & {*names}
    if Path(folder) != ROOT:
        return anywhere
    return anywhere | {name for name in names if name in (".git", "dist") or name.startswith("build")}


def copy_tree(to):
    """The tree without what is built in it."""
    names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if names is None:
        shutil.copytree(ROOT, to, symlinks=True, ignore=is_built)
        return
    for name in names.split("\0"):
        source = ROOT / name
        if name and source.is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, to / name, follow_symlinks=False)


def build_zydis(work, log):
    """A folder with include/ and lib/libZydis.a."""
    at = work / "zydis"
    if (at / "lib/libZydis.a").exists():
        return at
    manifest = ROOT / "packaging/zydis/Cargo.toml"
    run("cargo", "vendor", "--locked", "--manifest-path", manifest, work / "vendor", log=log, cwd=work)
    source = work / "vendor/zydis/zydis-c"
    (at / "objects").mkdir(parents=True, exist_ok=True)
    (at / "lib").mkdir(exist_ok=True)
    for include in (source / "include", source / "dependencies/zycore/include"):
        shutil.copytree(include, at / "include", dirs_exist_ok=True)
    files = sorted((source / "src").glob("*.c"))
    run(os.environ.get("CC", "cc"), "-O2", "-fPIE", "-ffunction-sections", "-fdata-sections", "-DNDEBUG",
        "-DZYDIS_STATIC_BUILD", "-DZYCORE_STATIC_BUILD", f"-I{at / 'include'}", f"-I{source / 'src'}",
        f"-ffile-prefix-map={source}=zydis", "-c", *files, cwd=at / "objects", log=log)
    run("ar", "rcsD", at / "lib/libZydis.a", *(f"{file.stem}.o" for file in files), cwd=at / "objects", log=log)
    shutil.copy(source / "LICENSE", at / "LICENSE")
    return at


def build(work, jobs):
    """The folder that debhelper installed everything in, and the .deb."""
    log = work / "build.log"
    shutil.rmtree(work / "source", ignore_errors=True)
    for old in work.glob("pollux*"):
        old.unlink()
    log.unlink(missing_ok=True)
    copy_tree(work / "source")
    zydis = build_zydis(work, log)
    # ccache changes paths that are in what the kernel says of BPF programs.
    env = {**os.environ, "CCACHE_DISABLE": "1", "SOURCE_DATE_EPOCH": str(epoch()), "POLLUX_ZYDIS": str(zydis), "POLLUX_COMMIT": commit(),
           "DEB_BUILD_PROFILES": "pkg.pollux.static nocheck",
           "DEB_BUILD_OPTIONS": f"nocheck noautodbgsym parallel={jobs}"}
    run("dpkg-buildpackage", "--build=binary", "--unsigned-changes", "--no-pre-clean", log=log,
        cwd=work / "source", env=env)
    return work / "source/debian/pollux", work / f"pollux_{version()}-1_amd64.deb"


def build_cargo_pollux(work):
    """The program of crates/cargo-pollux, static too."""
    source = work / "source/crates/cargo-pollux"
    # With --target the flags are not those of anything that runs here.
    run("cargo", "build", "--release", "--locked", "--offline", "--target", RUST_TARGET, "--target-dir", work / "cargo",
        cwd=source, log=work / "build.log",
        env={**os.environ, "RUSTFLAGS": f"-C target-feature=+crt-static --remap-path-prefix={source}=cargo-pollux"})
    return work / "cargo" / RUST_TARGET / "release/cargo-pollux"


# --- what is passed on --------------------------------------------------------------------------


def linked(work):
    """The static libraries of the system that are in the executable, as it was linked, and libc."""
    build_folder = next((work / "source").glob("obj-*"))
    command = said("ninja", "-C", build_folder, "-t", "commands", "src/cli/pollux")
    libraries = {Path(word) for word in command.splitlines()[-1].split() if re.fullmatch(r"/usr/.*/lib\w+\.a", word)}
    return sorted(libraries | {Path(said(os.environ.get("CC", "cc"), "-print-file-name=libc.a"))})


def licences(work):
    """name in the archive: text, of all that is in the executable."""
    texts = {"LICENSES/Zydis": (work / "zydis/LICENSE").read_bytes()}
    for library in linked(work):
        owner = next((found for one in (library, library.resolve()) if (found := said("dpkg", "-S", one))), None)
        if not owner:
            raise Failure(f"no package has {library}: its licence is not known")
        texts[f"LICENSES/{library.stem}"] = Path(f"/usr/share/doc/{owner.split(':')[0]}/copyright").read_bytes()
    return texts


def archive(to, files, seconds):
    """A .tgz of name: (bytes, mode), all in one folder named like the file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, (data, mode) in sorted(files.items()):
            member = tarfile.TarInfo(f"{to.stem}/{name}")
            member.size, member.mode, member.mtime = len(data), mode, seconds
            tar.addfile(member, io.BytesIO(data))
    with open(to, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as zipped:
        zipped.write(out.getvalue())


def wheel(to, files, name, number, summary, description):
    """A wheel of name: (bytes, mode), whose scripts are programs (PEP 427)."""
    info = f"{name}-{number}.dist-info"
    metadata = (f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {number}\nSummary: {summary}\n"
                "License: MIT OR Apache-2.0\nClassifier: Operating System :: POSIX :: Linux\n"
                "Classifier: Programming Language :: Rust\nClassifier: Topic :: Software Development :: Debuggers\n"
                f"Description-Content-Type: text/markdown\n\n{description}")
    tags = "".join(f"Tag: py3-none-{tag}\n" for tag in TAGS.split("-")[2].split("."))
    files = {**files,
             f"{info}/METADATA": (metadata.encode(), 0o644),
             f"{info}/WHEEL": (f"Wheel-Version: 1.0\nGenerator: pollux\nRoot-Is-Purelib: false\n{tags}".encode(), 0o644)}
    record = ""
    for path, (data, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as zipped:
        for path, (data, mode) in sorted(files.items(), key=lambda item: (".dist-info/" in item[0], item[0])):
            member = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            member.compress_type, member.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
            zipped.writestr(member, data)


def documents():
    """name: (bytes, mode) of what an archive has beside the executable."""
    names = ["README.md", "CHANGELOG.md", "SECURITY.md", "NOTICE", "LICENSE-MIT", "LICENSE-APACHE"]
    names += [str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").glob("*.md"))]
    return {name: ((ROOT / name).read_bytes(), 0o644) for name in names}


def main():
    parser = argparse.ArgumentParser(description="Builds what is passed on (./dev dist).")
    parser.add_argument("--work", type=Path, default=ROOT / "build-dist", help="folder to build in")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the results")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    work, out = args.work.resolve(), args.out.resolve()
    work.mkdir(parents=True, exist_ok=True)
    number = version()
    installed, deb = build(work, args.jobs)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    shutil.copy(deb, out)
    programs = {path.name: (path.read_bytes(), 0o755)
                for path in (installed / "usr/bin/pollux", build_cargo_pollux(work))}
    texts = {name: (data, 0o644) for name, data in licences(work).items()}
    archive(out / f"cargo-pollux-{TARGET}-v{number}.tgz", {**programs, **documents(), **texts}, epoch())
    name = "pollux_trace"
    info = f"{name}-{number}.dist-info"
    wheel(out / f"{name}-{number}-{TAGS}.whl",
          {**{f"{name}-{number}.data/scripts/{path}": data for path, data in programs.items()},
           **{f"{info}/licenses/{path}": data for path, data in texts.items()},
           **{f"{info}/licenses/{path}": documents()[path] for path in ("NOTICE", "LICENSE-MIT", "LICENSE-APACHE")}},
          name, number, "Tracer and profiler for async Rust programs", (ROOT / "README.md").read_text())
    (out / "pollux").write_bytes(programs["pollux"][0])
    (out / "pollux").chmod(0o755)
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(out.iterdir())]
    (out / "SHA256SUMS").write_text("".join(sums))
    for path in sorted(out.iterdir()):
        print(f"{path.stat().st_size:>10}  {path.name}")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"./dev dist: {failure}")
