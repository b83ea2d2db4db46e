"""A plugin of pytest's: what a failed test recorded is kept in pollux-failed below the folder for
temporary files, for pytest clears its own after a few runs."""
import shutil
import tempfile
from pathlib import Path

import pytest

KEPT = Path(tempfile.gettempdir()) / "pollux-failed"
MAX_BYTES = 32 << 20


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if call.when != "call" or not outcome.get_result().failed or not folder:
        return
    traces = [path for path in folder.rglob("*")
              if path.suffix in (".plx", ".data") and path.is_file()
              and path.stat().st_size <= MAX_BYTES]
    if not traces:
        return
    to = KEPT / "".join(c if c.isalnum() or c in "-_." else "_" for c in item.name)
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for path in traces:
        shutil.copy(path, to / path.name)
    outcome.get_result().sections.append(("Kept", f"what it recorded: {to}"))
