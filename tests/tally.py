#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Adds up what the test runners counted: their JUnit files in a folder, one line at the end.

    tally.py FOLDER              the sums; exits 1 if a test failed or none ran
    tally.py --failed FILE       the tests that failed in a runner's file, each as its runner selects it
    tally.py --complete FILE LOG puts failures into meson's file that it tells of in testlog.json only

A file of the same name in FOLDER/again has what was run once more. A test that passed there is unstable:
named at the end and in FOLDER/unstable, and no failure unless there are more than MAX_UNSTABLE. Each
skipped test is named with its reason, so that no hole stays unseen.
"""
import json
import re
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

MAX_UNSTABLE = 3


def parse(path):
    """A JUnit file. What a test printed is in it as it was, also what XML can't hold."""
    text = path.read_text(errors="replace")
    return xml.ElementTree(xml.fromstring(re.sub("[\0-\x08\x0b\x0c\x0e-\x1f]", "?", text)))


def cases(path):
    """{(class, name): (outcome, reason)} of a JUnit file."""
    found = {}
    for case in parse(path).getroot().iter("testcase") if path.exists() else ():
        # xdist puts the group after the name
        key = case.get("classname"), re.sub(r"@\w+$", "", case.get("name"))
        if case.find("failure") is not None or case.find("error") is not None:
            found[key] = "failed", None
        elif found.get(key, ("", None))[0] == "failed":
            pass  # what came after it, as its fixtures' end
        elif case.find("skipped") is not None:
            found[key] = "skipped", case.find("skipped").get("message") or "no reason given"
        else:
            found[key] = "passed", None
    return found


def complete(path, log):
    """A test that took too long is none that failed, in meson's own file."""
    tree = parse(path)
    results = {told["name"]: told["result"] for told in map(json.loads, log.read_text().splitlines())}
    for case in tree.getroot().iter("testcase"):
        result = results.get(case.get("name"), "not in the log")
        told = case.find("failure") is not None or case.find("error") is not None
        if result not in ("OK", "SKIP", "EXPECTEDFAIL") and not told:
            xml.SubElement(case, "failure", message=result)
    tree.write(path, encoding="utf-8", xml_declaration=True)


def selector(classname, name):
    """What its runner calls this test: meson's name of it, or pytest's path::name."""
    if classname.startswith("tests."):
        return f"{classname.replace('.', '/')}.py::{name}"
    return name.rsplit(" / ", 1)[-1]


def tally(folder):
    """(number of passed, [failed], [unstable], [(skipped, reason)]); tests by name."""
    passed, failed, unstable, skipped = 0, [], [], []
    for path in sorted(folder.glob("*.xml")):
        again = cases(folder / "again" / path.name)
        for key, (outcome, reason) in cases(path).items():
            name = f"{path.stem.removesuffix('-alone')}: {key[1]}"
            if outcome == "skipped":
                skipped.append((name, reason))
            elif outcome == "passed":
                passed += 1
            elif again.get(key, ("", None))[0] == "passed":
                unstable.append(name)
            else:
                failed.append(name)
    return passed, failed, unstable, skipped


def main(words):
    if words[0] == "--failed":
        for (classname, name), (outcome, _) in cases(Path(words[1])).items():
            if outcome == "failed" and classname:  # without: a file that pytest cannot read
                print(selector(classname, name))
        return 0
    if words[0] == "--complete":
        complete(Path(words[1]), Path(words[2]))
        return 0
    folder = Path(words[0])
    passed, failed, unstable, skipped = tally(folder)
    for name, reason in skipped:
        print(f"skipped {name}: {reason}")
    for name in failed:
        print(f"failed {name}")
    if unstable:
        (folder / "unstable").write_text("".join(f"{name}\n" for name in unstable))
    if len(unstable) > MAX_UNSTABLE:
        print(f"{len(unstable)} tests are unstable; more than {MAX_UNSTABLE} count as failed:")
    for name in unstable:
        print(f"unstable {name}")
    if len(unstable) > MAX_UNSTABLE:
        failed += unstable
    else:
        passed += len(unstable)
    line = f"{passed} passed, {len(failed)} failed"
    print(line + (f", {len(skipped)} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
