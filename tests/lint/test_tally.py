# SPDX-License-Identifier: MIT OR Apache-2.0
"""The sums of a test run: what counts as passed, failed, unstable."""
import tally

PYTEST = '<testsuites><testsuite name="pytest">{}</testsuite></testsuites>'
CASE = '<testcase classname="{}" name="{}">{}</testcase>'
INSIDE = {"passed": "", "failed": "<failure/>", "error": "<error/>", "skipped": '<skipped message="no x"/>'}


def write(path, classname="tests.e2e.test_x", **outcomes):
    path.parent.mkdir(exist_ok=True)
    path.write_text(PYTEST.format("".join(
        CASE.format(classname, name, INSIDE[outcome]) for name, outcome in outcomes.items())))


def run(folder, capsys):
    """(exit status, lines) of the tally."""
    code = tally.main([str(folder)])
    return code, capsys.readouterr().out.splitlines()


def test_sums(tmp_path, capsys):
    write(tmp_path / "e2e.xml", a="passed", b="skipped")
    write(tmp_path / "unit-build.xml", a="passed")
    assert run(tmp_path, capsys) == (0, ["skipped e2e: b: no x", "2 passed, 0 failed, 1 skipped"])


def test_failed_twice(tmp_path, capsys):
    write(tmp_path / "e2e-alone.xml", a="error", b="passed")
    write(tmp_path / "again" / "e2e-alone.xml", a="failed")
    assert run(tmp_path, capsys) == (1, ["failed e2e: a", "1 passed, 1 failed"])


def test_unstable(tmp_path, capsys):
    write(tmp_path / "e2e.xml", a="failed", b="passed")
    write(tmp_path / "again" / "e2e.xml", a="passed")
    assert run(tmp_path, capsys) == (0, ["unstable e2e: a", "2 passed, 0 failed"])
    assert (tmp_path / "unstable").read_text() == "e2e: a\n"


def test_another_files_second_run_does_not_count(tmp_path, capsys):
    write(tmp_path / "unit-build.xml", a="failed", b="passed")
    write(tmp_path / "again" / "unit-build-asan.xml", a="passed")
    assert run(tmp_path, capsys)[1][-1] == "1 passed, 1 failed"


def test_too_many_unstable(tmp_path, capsys):
    names = [f"t{i}" for i in range(tally.MAX_UNSTABLE + 1)]
    write(tmp_path / "e2e.xml", **dict.fromkeys(names, "failed"), good="passed")
    write(tmp_path / "again" / "e2e.xml", **dict.fromkeys(names, "passed"))
    code, lines = run(tmp_path, capsys)
    assert code == 1 and lines[-1] == f"1 passed, {len(names)} failed"
    assert [line for line in lines if line.startswith("unstable ")] == [f"unstable e2e: {n}" for n in names]


def test_nothing_ran(tmp_path, capsys):
    assert run(tmp_path, capsys) == (1, ["0 passed, 0 failed"])


def test_what_is_run_again(tmp_path, capsys):
    write(tmp_path / "e2e.xml", **{"a": "failed", "b": "passed", "c@group": "error"})
    tally.main(["--failed", str(tmp_path / "e2e.xml")])
    assert capsys.readouterr().out == "tests/e2e/test_x.py::a\ntests/e2e/test_x.py::c\n"
    write(tmp_path / "e2e.xml", "", **{"tests.e2e.test_x": "error"})
    tally.main(["--failed", str(tmp_path / "e2e.xml")])
    assert capsys.readouterr().out == ""
    (tmp_path / "unit-build.xml").write_text(PYTEST.format(
        CASE.format("pollux", "pollux:unit / clock", INSIDE["failed"])))
    tally.main(["--failed", str(tmp_path / "unit-build.xml")])
    assert capsys.readouterr().out == "clock\n"


def test_meson_forgets_what_took_too_long(tmp_path, capsys):
    names = {"pollux:unit / a": "OK", "pollux:unit / b": "TIMEOUT", "pollux:unit / c": "SKIP"}
    file, log = tmp_path / "unit-build.xml", tmp_path / "testlog.json"
    write(file, "pollux", **dict.fromkeys(names, "passed"))
    log.write_text("".join(tally.json.dumps({"name": n, "result": r}) + "\n" for n, r in names.items()))
    tally.main(["--complete", str(file), str(log)])
    tally.main(["--failed", str(file)])
    assert capsys.readouterr().out == "b\n"
