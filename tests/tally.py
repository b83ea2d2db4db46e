#!/usr/bin/env python3
"""Adds up what the test runners counted: their JUnit files in a folder, one line at the end.

Each skipped test is named with its reason, so that no hole stays unseen. Exits 1 if a test failed
or none ran.
"""
import sys
import xml.etree.ElementTree as xml
from pathlib import Path


def tally(folder):
    """(passed, failed, [(name, reason)] of the skipped)."""
    passed = failed = 0
    skipped = []
    for path in sorted(Path(folder).glob("*.xml")):
        for case in xml.parse(path).getroot().iter("testcase"):
            name = f'{path.stem}: {case.get("name")}'
            if case.find("failure") is not None or case.find("error") is not None:
                failed += 1
            elif case.find("skipped") is not None:
                reason = case.find("skipped").get("message") or "no reason given"
                skipped.append((name, reason))
            else:
                passed += 1
    return passed, failed, skipped


def main():
    passed, failed, skipped = tally(sys.argv[1])
    for name, reason in skipped:
        print(f"skipped {name}: {reason}")
    line = f"{passed} passed, {failed} failed"
    print(line + (f", {len(skipped)} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
