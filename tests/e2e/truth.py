# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compares a report with what the program itself counted."""
import copy
import itertools
import re

# smol's executor spawns a task of its own that the target can't wrap; it waits for child processes for ever.
RUNTIMES_OWN = re.compile(r"^async_process::")

COUNTS = ("spawned", "polls", "completed", "cancelled", "panicked", "wakes", "self_wakes")


def _claims(name, path):
    """True if a family's name in the report is that of the truth's family `name`."""
    return re.search(rf"(^|::|\b){re.escape(name)}(\b|$)", path) is not None


def _is_of(true, family):
    """A closure on a blocking pool may bear the name of the function that put it there."""
    return _claims(true["name"], family["name"]) or (
        true["role"] == family["role"] == "blocking" and _claims(true["name"], family["full_name"])
    )


def _of_report(family):
    """The counts of a report's family under the truth's words."""
    return {
        "spawned": family["spawned"],
        "polls": family["polls"],
        "completed": family["completed"],
        "cancelled": family["cancelled"],
        "panicked": family["panicked"],
        "wakes": family["wakes"],
        # the programs count the wakes in their polls, not those of the worker after a yield
        "self_wakes": family["self_wakes"] - family["deferred_wakes"],
    }


def _is_runtimes_own(family, names):
    """By its name; without names by what it does: one task that is polled and never ends."""
    if names or RUNTIMES_OWN.match(family["name"]):
        return RUNTIMES_OWN.match(family["name"]) is not None
    ends = family["completed"] + family["cancelled"] + family["panicked"]
    return family["spawned"] <= 1 == family["tasks"] and ends == 0 and family["polls"] < 4


def _fill_in_spawns(report, found, true):
    """A spawn site that can't be patched (the jump would cross a page: the compiler's luck) is told in
    the coverage, and its tasks are seen from their first schedule on: then they stand for the spawns,
    of as many such families as are needed."""
    patched = [c for c in report["coverage"] if c["id"] == "patched_spawn_sites"]
    hidden = [f for f in found if not f["spawned"] and f["tasks"]]
    if all(c["seen"] == c["total"] for c in patched) or len(hidden) > 8:
        return
    for choice in range(1 << len(hidden)):
        filled = [f for i, f in enumerate(hidden) if choice >> i & 1]
        if report["tasks"]["spawned"] + sum(f["tasks"] for f in filled) == true:
            report["tasks"]["spawned"] = true
            for f in filled:
                f["spawned"] = f["tasks"]
            return


def _text(counts):
    return " ".join(f"{what}={counts[what]}" for what in COUNTS)


def _tuple(counts):
    return tuple(counts[what] for what in COUNTS)


ENDS = ("completed", "cancelled", "panicked")


def _with_unseen_ends(truth, report):
    """The reports that this one may stand for. While one thread registers the agent's frames, once per recording,
    async-task's polls on other threads have no end (docs/agent-safety.md): if that poll was the last one of its task,
    the report has one end less. Never more than it has polls of unknown length."""
    hidden = [(i, end) for i, f in enumerate(report["families"]) if f["role"] == "task"
              for _ in range(min(f["polls_of_unknown_length"], 4)) for end in ("", *ENDS)]
    short = [end for end in ENDS for _ in range(truth["totals"][end] - (report["tasks"][end] or 0))]
    yield report
    if not 0 < len(short) <= 4:
        return
    for chosen in set(itertools.combinations(hidden, len(short))):
        if sorted(end for _, end in chosen) != sorted(short):
            continue
        families = [i for i, _ in chosen]
        if any(families.count(i) > report["families"][i]["polls_of_unknown_length"] for i in families):
            continue
        filled = copy.deepcopy(report)
        for i, end in chosen:
            filled["families"][i][end] = (filled["families"][i][end] or 0) + 1
            filled["tasks"][end] = (filled["tasks"][end] or 0) + 1
        yield filled


def differences(truth, report, names=True):
    """What differs between the program's truth and the report, a list of sentences; empty: nothing.

    With `names` each family of the truth must be found by its name; without (stripped, or so
    optimised that functions are gone) the families must have the same counts, whatever they are called.
    """
    first = None
    for filled in _with_unseen_ends(truth, report):
        out = _differences(truth, copy.deepcopy(filled), names)
        if not out:
            return out
        first = first or out
    return first


def _differences(truth, report, names):
    out = []
    if report["lost"] != 0:
        out.append(f"lost {report['lost']} events")
    for counts in (report["tasks"], *report["families"]):
        # null where panics aren't seen: catalogue.panics_as_ends()
        counts["panicked"] = counts["panicked"] or 0
    wanted = [f for f in truth["families"] if f["role"] != "root"]
    found = [f for f in report["families"] if f["role"] in ("task", "blocking")]
    own = [f for f in found if _is_runtimes_own(f, names)]
    if own:
        found.remove(own[0])
        report["tasks"]["spawned"] -= own[0]["spawned"]
    _fill_in_spawns(report, found, truth["totals"]["spawned"])
    for what in ("spawned", "completed", "cancelled", "panicked"):
        if report["tasks"][what] != truth["totals"][what]:
            out.append(f"tasks {what}: {report['tasks'][what]}, true {truth['totals'][what]}")
    if names:
        for family in wanted:
            mine = [f for f in found if _is_of(family, f)]
            sums = {what: sum(_of_report(f)[what] for f in mine) for what in COUNTS}
            for what in COUNTS:
                if sums[what] != family[what]:
                    out.append(f"{family['name']} {what}: {sums[what]}, true {family[what]}")
            for f in mine:
                if f["role"] != family["role"]:
                    out.append(f"{family['name']} has role {f['role']}, true {family['role']}")
        for f in found:
            if not any(_is_of(family, f) for family in wanted):
                out.append(f"nobody knows {f['name']}: {_text(_of_report(f))}")
        return out
    mine = [_tuple(_of_report(f)) for f in found]
    true = [_tuple(f) for f in wanted if any(f[what] for what in COUNTS)]
    if not _partition(sorted(mine, reverse=True), sorted(true, reverse=True)):
        out += ["in the report: " + _text(dict(zip(COUNTS, counts))) for counts in sorted(mine)]
        out += ["in the truth: " + _text(dict(zip(COUNTS, counts))) for counts in sorted(true)]
    return out


def _partition(parts, sums):
    """True if the parts can be dealt out so that they add up to the sums: a family that is spawned at
    two places, or on two schedulers, is two kinds."""
    if not parts:
        return all(not any(rest) for rest in sums)
    part, others = parts[0], parts[1:]
    tried = set()
    for i, rest in enumerate(sums):
        left = tuple(have - take for have, take in zip(rest, part))
        if min(left) >= 0 and left not in tried:
            tried.add(left)
            if _partition(others, sums[:i] + [left] + sums[i + 1 :]):
                return True
    return False
