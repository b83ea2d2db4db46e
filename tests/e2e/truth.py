"""Compares a report with what the program itself counted."""
import re
from collections import Counter

COUNTS = ("spawned", "polls", "completed", "cancelled", "panicked", "wakes", "self_wakes")


def _claims(name, path):
    """True if a family's name in the report is that of the truth's family `name`."""
    return re.search(rf"(^|::|\b){re.escape(name)}(\b|$)", path) is not None


def _of_report(family):
    """The counts of a report's family under the truth's words."""
    return {
        "spawned": family["spawned"],
        "polls": family["polls"],
        "completed": family["completed"],
        "cancelled": family["cancelled"],
        "panicked": family["panicked"],
        "wakes": family["wakes"],
        "self_wakes": family["self_wakes"],
    }


def _text(counts):
    return " ".join(f"{what}={counts[what]}" for what in COUNTS)


def _tuple(counts):
    return tuple(counts[what] for what in COUNTS)


def differences(truth, report, names=True):
    """What differs between the program's truth and the report, a list of sentences; empty: nothing.

    With `names` each family of the truth must be found by its name; without (stripped, or so
    optimised that functions are gone) the families must have the same counts, whatever they are called.
    """
    out = []
    if report["lost"] != 0:
        out.append(f"lost {report['lost']} events")
    wanted = [f for f in truth["families"] if f["role"] != "root"]
    for what in ("spawned", "completed", "cancelled", "panicked"):
        if report["tasks"][what] != truth["totals"][what]:
            out.append(f"tasks {what}: {report['tasks'][what]}, true {truth['totals'][what]}")
    found = [f for f in report["families"] if f["role"] in ("task", "blocking")]
    if names:
        for family in wanted:
            mine = [f for f in found if _claims(family["name"], f["name"])]
            sums = {what: sum(_of_report(f)[what] for f in mine) for what in COUNTS}
            for what in COUNTS:
                if sums[what] != family[what]:
                    out.append(f"{family['name']} {what}: {sums[what]}, true {family[what]}")
            for f in mine:
                if f["role"] != family["role"]:
                    out.append(f"{family['name']} has role {f['role']}, true {family['role']}")
        claimed = [f["name"] for f in wanted]
        for f in found:
            if not any(_claims(name, f["name"]) for name in claimed):
                out.append(f"nobody knows {f['name']}: {_text(_of_report(f))}")
        return out
    mine = Counter(_tuple(_of_report(f)) for f in found)
    true = Counter(_tuple(f) for f in wanted if any(f[what] for what in COUNTS))
    for counts in (mine - true).elements():
        out.append("only in the report: " + _text(dict(zip(COUNTS, counts))))
    for counts in (true - mine).elements():
        out.append("only in the truth: " + _text(dict(zip(COUNTS, counts))))
    return out
