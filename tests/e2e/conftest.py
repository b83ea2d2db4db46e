# SPDX-License-Identifier: MIT OR Apache-2.0
"""End-to-end tests: the real pollux on real programs (tests/targets), compared with their own truth.

    POLLUX=build/src/cli/pollux python3 -m pytest tests/e2e            a slice that CI has time for
    ... --all  (or POLLUX_ALL=1)                                       everything
"""
import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import build as builder  # noqa: E402
import catalogue  # noqa: E402
import driver  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="the whole matrix, all repetitions")


def everything(config):
    return bool(config.getoption("--all") or os.environ.get("POLLUX_ALL"))


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        cases = catalogue.cases(everything(metafunc.config))
        metafunc.parametrize("case", cases, ids=["-".join(case) for case in cases])
    if "built" in metafunc.fixturenames:
        builds = catalogue.builds(everything(metafunc.config))
        metafunc.parametrize("built", builds, ids=["-".join(one) for one in builds])


@pytest.fixture(scope="session")
def pollux():
    path = driver.pollux_path()
    if not os.access(path, os.X_OK):
        pytest.fail(f"no pollux at {path}: build it, or set POLLUX", pytrace=False)
    return path


@pytest.fixture(scope="session")
def all_of_it(request):
    """True if everything is to be tested."""
    return everything(request.config)


@pytest.fixture(scope="session")
def suite():
    """suite(package, profile): the path of its programs, built."""

    def built(package="tokio-1.38", profile="release", binary="suite"):
        return builder.build(package, profile, binary)

    return built


@pytest.fixture
def trace(tmp_path):
    return tmp_path / "trace.plx"


@pytest.fixture
def public(pollux, suite, tmp_path_factory):
    """Copies of pollux and a target that every user may run, in a folder where every user may write."""
    folder = tmp_path_factory.mktemp("public")
    for path in (folder, *folder.parents):
        if path == driver.Path("/tmp"):
            break
        path.chmod(0o777)
    shutil.copy(pollux, folder / "pollux")
    shutil.copy(suite(), folder / "suite")
    return folder
