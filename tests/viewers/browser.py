# SPDX-License-Identifier: MIT OR Apache-2.0
"""A headless Chromium, driven over its debugging pipe: no port, no driver to install.

Commands go to the browser's file descriptor 3, answers and events come from its 4, each a JSON
object ended by a 0 byte (the DevTools protocol).
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ["chromium", "chromium-browser", "google-chrome"]
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--hide-scrollbars", "--force-color-profile=srgb",
]


def find():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class BrowserError(Exception):
    pass


class Page:
    """One page of one fresh browser. `console` and `errors` gather what the page says. After stand_in() it gets a page of
    the network from here."""

    def __init__(self, width=1400, height=800):
        self.dir = tempfile.mkdtemp(prefix="pollux-chromium-")
        to_read, self.to_write = os.pipe()
        self.from_read, from_write = os.pipe()

        def place_pipes():
            # Away from 3 and 4 first: one of the ends may be there already.
            a, b = os.dup2(to_read, 60), os.dup2(from_write, 61)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [find(), *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={self.dir}",
             f"--window-size={width},{height}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=place_pipes)
        os.close(to_read)
        os.close(from_write)
        self.pending = b""
        self.last_id = 0
        self.session = None
        self.console = []
        self.errors = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call("Log.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to_write)
        os.close(self.from_read)
        shutil.rmtree(self.dir, ignore_errors=True)

    def _send(self, method, **params):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_write, json.dumps(message).encode() + b"\0")
        return self.last_id

    def call(self, method, timeout=60, **params):
        number = self._send(method, **params)
        deadline = time.monotonic() + timeout
        while True:
            answer = self._next(deadline, method)
            if answer.get("id") == number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _next(self, deadline, what):
        while b"\0" not in self.pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.from_read], [], [], left)[0]:
                raise BrowserError(f"{what}: no answer in time")
            data = os.read(self.from_read, 1 << 20)
            if not data:
                raise BrowserError(f"{what}: the browser ended")
            self.pending += data
        text, self.pending = self.pending.split(b"\0", 1)
        message = json.loads(text)
        params = message.get("params", {})
        if message.get("method") == "Runtime.consoleAPICalled":
            text = " ".join(str(a.get("value", a.get("description", ""))) for a in params["args"])
            self.console.append((params["type"], text))
        elif message.get("method") == "Fetch.requestPaused":
            self._send("Fetch.fulfillRequest", requestId=params["requestId"], responseCode=200,
                       responseHeaders=[{"name": "Content-Type", "value": "text/html"}],
                       body=base64.b64encode(self.stand_ins.encode()).decode())
        elif message.get("method") == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        return message

    def stand_in(self, origin, html):
        """All that is asked of an origin is answered with this page, without the network; and it may ask this machine."""
        self.stand_ins = html
        for name in ("loopback-network", "local-network-access"):  # what a user is asked for, by the browser's version
            try:
                self.call("Browser.setPermission", permission={"name": name}, setting="granted", origin=origin)
            except BrowserError:
                pass
        self.call("Fetch.enable", patterns=[{"urlPattern": f"{origin}/*"}])

    def open(self, url):
        self.call("Page.navigate", url=url)

    def eval(self, expression, timeout=60):
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", timeout=timeout, expression=expression,
                           awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait_for(self, expression, timeout=60):
        deadline = time.monotonic() + timeout
        while not self.eval(f"Boolean({expression})", timeout):
            if time.monotonic() > deadline:
                raise BrowserError(f"never true: {expression}")
            time.sleep(0.1)

    def key(self, key, code, modifiers=0):
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code, text=text,
                      modifiers=modifiers)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def drag(self, begin, end, modifiers=0):
        """From one place to another, in steps, with the left button."""
        self.mouse("mousePressed", *begin, button="left", clickCount=1, modifiers=modifiers)
        for step in range(1, 6):
            self.mouse("mouseMoved", *(a + (b - a) * step / 5 for a, b in zip(begin, end)),
                       button="left", buttons=1, modifiers=modifiers)
        self.mouse("mouseReleased", *end, button="left", clickCount=1, modifiers=modifiers)

    def wheel(self, x, y, by, modifiers=0):
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=by, modifiers=modifiers)

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))
