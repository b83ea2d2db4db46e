// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo pollux`: pollux on what cargo builds.
//!
//! `record` and `test` are `cargo run` and `cargo test` with pollux as the runner of the programs, so that cargo
//! chooses, builds and starts them as ever. What pollux wants of a build is set for that build alone, by cargo's
//! option --config. Other verbs are pollux's own.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{exit, Command};

const USAGE: &str = "\
usage: cargo pollux record [CARGO OPTIONS] [--pollux 'OPTIONS'] [-- PROGRAM ARGUMENTS]
       cargo pollux test [CARGO OPTIONS] [--pollux 'OPTIONS'] [-- TEST ARGUMENTS]
       cargo pollux attach NAME [OPTIONS OF pollux record]
       cargo pollux VERB ...

record   builds with cargo, runs the program and records it: like cargo run
test     the same for each program of tests: like cargo test; one trace each
attach   records the running program of that name: pollux record NAME
VERB     any other verb of pollux: report, tree, why, ...

record and test build with full debug information, whatever Cargo.toml says:
without it there are no await points. Nothing is changed in Cargo.toml.
--pollux 'OPTIONS' hands options to pollux record, for example '-o x.plx --cpu'.
The program pollux is $POLLUX, or beside cargo-pollux, or in PATH.

Example:
  cargo pollux record --release --bin server -- --port 8080
  cargo pollux report
";

fn fail(sentence: &str, code: i32) -> ! {
    eprintln!("cargo pollux: {sentence}");
    exit(code)
}

/// Becomes the command; returns only if that fails.
fn become_command(mut command: Command) -> ! {
    let error = command.exec();
    let name = command.get_program().to_string_lossy().into_owned();
    fail(&format!("cannot run {name}: {error}"), 1)
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().map_or(false, |data| {
        data.is_file() && data.permissions().mode() & 0o111 != 0
    })
}

/// $POLLUX; or beside this program, as `cargo binstall` puts it; or the first in PATH.
fn find_pollux() -> PathBuf {
    if let Some(path) = env::var_os("POLLUX").filter(|path| !path.is_empty()) {
        // Cargo starts it in another folder.
        let path =
            env::current_dir().map_or_else(|_| PathBuf::from(&path), |here| here.join(&path));
        if !is_program(&path) {
            fail(&format!("POLLUX={} is no program", path.display()), 1)
        }
        return path;
    }
    let beside = env::current_exe()
        .ok()
        .and_then(|path| Some(path.parent()?.to_path_buf()));
    let folders = env::var_os("PATH").unwrap_or_default();
    beside
        .into_iter()
        .chain(env::split_paths(&folders))
        .map(|folder| folder.join("pollux"))
        .find(|path| is_program(path))
        .unwrap_or_else(|| {
            fail(
                "there is no pollux in PATH; get it by `cargo binstall cargo-pollux`, `pip install pollux-trace` or \
                 the .deb, or set POLLUX to its path",
                1,
            )
        })
}

fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The target that cargo builds for unless it is asked for another.
fn host() -> String {
    let output = Command::new(cargo()).arg("-vV").output();
    let text = match output {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => fail(
            &format!("cannot run {}: {error}", cargo().to_string_lossy()),
            1,
        ),
    };
    match text.lines().find_map(|line| line.strip_prefix("host: ")) {
        Some(host) => host.to_owned(),
        None => fail("`cargo -vV` names no host", 1),
    }
}

/// The value of an option of cargo's, as `--name VALUE` or `--name=VALUE`; the last one counts.
fn value_of(args: &[OsString], name: &str) -> Option<String> {
    let mut found = None;
    for (i, arg) in args.iter().enumerate() {
        let arg = arg.to_string_lossy();
        if arg == name {
            found = args
                .get(i + 1)
                .map(|value| value.to_string_lossy().into_owned());
        } else if let Some(value) = arg
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('='))
        {
            found = Some(value.to_owned());
        }
    }
    found
}

/// The profiles that cargo builds with.
fn profiles(verb: &str, args: &[OsString]) -> Vec<String> {
    let release = args.iter().any(|arg| arg == "--release" || arg == "-r");
    let mut names = match value_of(args, "--profile") {
        Some(name) => vec![name],
        None if release => vec!["release".to_owned()],
        None => vec!["dev".to_owned()],
    };
    if verb == "test" {
        names.push("test".to_owned());
    }
    names
}

/// A string of TOML's.
fn quoted(text: &OsStr) -> String {
    let text = match text.to_str() {
        Some(text) => text,
        None => fail("cargo takes only paths and options in UTF-8", 1),
    };
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `cargo run` or `cargo test`, with `pollux record OPTIONS --` in front of each program.
fn build_and_record(verb: &str, args: Vec<OsString>) -> ! {
    let (mut for_cargo, mut options, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        if arg == "--" {
            rest.push(arg);
            rest.extend(args.by_ref());
        } else if arg == "--pollux" {
            match args.next() {
                Some(words) => options.push(words),
                None => fail(
                    "--pollux takes the options of pollux record, in one word",
                    2,
                ),
            }
        } else if let Some(words) = arg.to_str().and_then(|arg| arg.strip_prefix("--pollux=")) {
            options.push(words.into());
        } else if arg == "--help" || arg == "-h" {
            print!("{USAGE}");
            exit(0)
        } else {
            for_cargo.push(arg);
        }
    }
    let mut runner = vec![quoted(find_pollux().as_os_str()), quoted("record".as_ref())];
    for words in &options {
        runner.extend(
            words
                .to_string_lossy()
                .split_whitespace()
                .map(|word| quoted(word.as_ref())),
        );
    }
    runner.push(quoted("--".as_ref()));
    let target = value_of(&for_cargo, "--target").unwrap_or_else(host);

    let mut command = Command::new(cargo());
    command.arg(if verb == "test" { "test" } else { "run" });
    command
        .arg("--config")
        .arg(format!("target.{target}.runner=[{}]", runner.join(",")));
    // Not by cargo's variables: it takes CARGO_PROFILE_RELEASE_DEBUG_STRIP for one of the profile release.
    for profile in profiles(verb, &for_cargo) {
        for setting in ["debug=true", "strip=\"none\""] {
            command
                .arg("--config")
                .arg(format!("profile.{profile}.{setting}"));
        }
    }
    command.args(&for_cargo).args(&rest);
    become_command(command)
}

fn main() {
    let mut args: Vec<OsString> = env::args_os().skip(1).collect();
    // Cargo starts it as `cargo-pollux pollux ...`.
    if args.first().map_or(false, |arg| arg == "pollux") {
        args.remove(0);
    }
    if args.is_empty() {
        eprint!("{USAGE}");
        exit(2)
    }
    let verb = args.remove(0);
    match verb.to_str() {
        Some("record") | Some("test") => build_and_record(&verb.to_string_lossy(), args),
        Some("attach") if args.is_empty() => fail("attach takes the name of a running program", 2),
        Some("help") | Some("--help") | Some("-h") => print!("{USAGE}"),
        Some("--version") | Some("-V") => println!("cargo-pollux {}", env!("CARGO_PKG_VERSION")),
        _ => {
            let mut command = Command::new(find_pollux());
            command
                .arg(if verb == "attach" {
                    OsStr::new("record")
                } else {
                    &verb
                })
                .args(args);
            become_command(command)
        }
    }
}
