# SPDX-License-Identifier: MIT OR Apache-2.0
"""A library with a runtime is unloaded, and loaded again, while it is recorded, with hooks in its tables, its code
and its boxes."""
import shutil

import build
import driver
import pytest
from test_harm import has_events

SUM = 4 * 1000


class Loader(driver.Target):
    def __init__(self):
        folder = build.TARGETS / "cdylib"
        super().__init__(build.compile_c(folder / "load_again.c", "load_again", "-ldl", "-lpthread"), wait=())
        self.n_read = 1

    def say(self, text=""):
        """Gives it a line; what it answers, the number or address."""
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()
        line = self.wait_for(lambda line: line in self.lines[self.n_read:])
        self.n_read += 1
        return line.split()[-1]

    def load(self, library):
        return self.say(library)

    def work(self):
        assert self.say("work") == str(SUM)

    def unload(self):
        assert self.say("end") == "1", "the library is still there, so nothing is tested"


def polls(pollux, trace):
    report = driver.report(pollux, trace)
    return report["polls"]


@pytest.fixture
def library(suite):
    return suite("cdylib", "release", "libtokio_inside.so")


@pytest.fixture
def loader():
    with Loader() as program:
        yield program
        assert program.end() == 0, program.errors


def stop(recorder):
    code, said = recorder.stop()
    assert code == 0, said
    return said


def test_unloaded(pollux, library, loader, trace):
    """What was hooked is gone at the detach."""
    loader.load(library)
    recorder = driver.Recorder(pollux, loader.pid, trace)
    loader.work()
    loader.unload()
    stop(recorder)
    # as many as without a stop in between: four tasks of a thousand yields
    assert driver.report(pollux, trace)["tasks"]["completed"] == 4
    assert polls(pollux, trace) >= 4 * 1001


@pytest.mark.parametrize("other", [False, True], ids=["same", "other"])
def test_loaded_again(pollux, library, loader, trace, tmp_path, other):
    """The same library, or another one, is where the hooks were: it is left as it is, by the detach too, and
    another recording sees all of it."""
    where = loader.load(library)
    recorder = driver.Recorder(pollux, loader.pid, trace)
    loader.work()
    loader.unload()
    if other:
        library = shutil.copy(library, tmp_path / "another.so")
    assert loader.load(library) == where
    loader.work()
    stop(recorder)
    loader.unload()
    loader.load(library)
    recorder = driver.Recorder(pollux, loader.pid, tmp_path / "again.plx")
    loader.work()
    # Who waits for a task may know its result before its thread has written the end; the unload waits for the threads.
    loader.unload()
    stop(recorder)
    assert driver.report(pollux, trace)["tasks"]["completed"] >= 4
    again = driver.report(pollux, tmp_path / "again.plx")
    assert again["tasks"]["spawned"] == again["tasks"]["completed"] == 4
    assert polls(pollux, tmp_path / "again.plx") >= 4 * 1001


def test_killed_and_loaded_again(pollux, library, loader, trace, tmp_path):
    """The hooks of a pollux that was killed are in a library that is gone; the next one takes over what is
    at that place by now."""
    for i in range(3):
        again = tmp_path / f"{i}.plx"
        loader.load(library)
        recorder = driver.Recorder(pollux, loader.pid, trace)
        loader.work()
        recorder.process.kill()
        recorder.process.communicate()
        loader.unload()
        loader.load(library)
        recorder = driver.Recorder(pollux, loader.pid, again)
        # the killed one has left its agent on, so that says nothing
        while not has_events(pollux, again):
            assert recorder.process.poll() is None, recorder.said()
            loader.work()
        loader.work()
        stop(recorder)
        assert driver.report(pollux, again)["tasks"]["completed"] >= 4
        loader.unload()
