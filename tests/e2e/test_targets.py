# SPDX-License-Identifier: MIT OR Apache-2.0
"""The programs' own counts, without pollux: a truth that contradicts itself proves nothing."""
import catalogue
import driver


def test_counts_agree_with_themselves(built):
    package, profile = built
    unwinds = catalogue.PROFILES[profile].unwind
    for program, needs in catalogue.programs(package):
        if program in catalogue.APART or (needs == "unwind" and not unwinds):
            continue
        output, code, truth = catalogue.alone(package, profile, program, everything=False)
        assert code == 0, program
        assert output, program
        assert truth["families"], program
        for family in truth["families"]:
            what = f"{program}: {family}"
            ended = family["completed"] + family["cancelled"] + family["panicked"]
            assert family["alive_before"] + family["spawned"] == ended, what
            assert family["alive"] == 0, what
            assert family["self_wakes"] <= family["wakes"], what
            if family["role"] == "task":
                # each poll but the first follows a wake, or (alive before) each
                assert family["polls"] <= family["spawned"] + family["wakes"], what
                assert family["polls"] >= family["completed"] + family["panicked"], what
            if family["role"] == "blocking":
                assert family["polls"] == family["completed"] + family["panicked"], what
                assert family["wakes"] == 0, what


def test_known_counts(suite):
    """A few counts that follow from the source alone."""
    result = driver.run(suite("tokio-1.38", "debug"), "self_wakes")
    _, truth = driver.split_output(result.stdout)
    families = {family["name"]: family for family in truth["families"]}
    # on two runtimes each: a thousand pending polls that woke, then a ready one
    assert families["by_ref"]["polls"] == families["by_value"]["polls"] == 2002
    assert families["twice"]["wakes"] == families["twice"]["self_wakes"] == 4000
    assert truth["totals"]["spawned"] == truth["totals"]["completed"] == 6


def test_every_package_has_the_same_lock_source():
    """The locked crates come from crates.io itself."""
    for package in catalogue.PACKAGES:
        lock = (catalogue.TARGETS / package / "Cargo.lock").read_text()
        sources = {line for line in lock.splitlines() if line.startswith("source = ")}
        assert sources == {'source = "registry+https://github.com/rust-lang/crates.io-index"'}, package
