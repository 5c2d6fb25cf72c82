"""A real browser for tests: headless Chromium, driven over a pair of pipes in the DevTools protocol.

No driver and no package is needed. Where no Chromium is installed, `find_chromium` says so and tests skip.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from patience import patience

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)

WAIT = 120.0
"""Seconds for anything that a browser does, on a busy machine."""


def find_chromium() -> str | None:
    """Return where a Chromium is installed."""
    return next((path for path in map(shutil.which, _NAMES) if path), None)


class Page:
    """One tab: what it says, and everything that it asked the network for or complained about."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._write, self._read = to_browser, from_browser
        self._buffer, self._last, self._session = b"", 0, ""
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._loaded = 0
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self._call(f"{domain}.enable")

    def open(self, url: str, width: int = 1200, height: int = 800, scheme: str = "light", scripts: bool = True) -> None:
        """Load an address at a width, in a light or dark scheme; returns when everything is there."""
        self.requests, self.complaints = [], []
        self._call("Emulation.setScriptExecutionDisabled", value=not scripts)
        phone = width < 600
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        before = self._loaded
        self._call("Page.navigate", url=url)
        end = time.monotonic() + patience(WAIT)
        while self._loaded == before:
            self._take(end)

    def ask(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_until(self, expression: str) -> None:
        """Wait until an expression in the page is true."""
        end = time.monotonic() + patience(WAIT)
        while not self.ask(expression):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.05)

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """Write a picture of what is seen, or of the whole page."""
        told = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(told["data"]))

    def print(self, path: Path) -> None:
        """Write the page as it would be printed, on A4."""
        told = self._call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=True)
        path.write_bytes(base64.b64decode(told["data"]))

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        number = self._last
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": number, "method": method, "params": params, **session}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + patience(WAIT)
        while True:
            answer = self._take(end)
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer)
                return dict(answer["result"])

    def _take(self, end: float) -> dict[str, Any]:
        """Return the next message of the browser, after taking note of it."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            piece = os.read(self._read, 1 << 20)
            assert piece, "the browser has ended"
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, told: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif event == "Page.loadEventFired":
            self._loaded += 1
        elif event == "Log.entryAdded":
            self.complaints.append(told["entry"]["text"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled":
            self.complaints.append(str(told["args"]))


_LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
"""The protocol wants descriptors 3 and 4."""


def _high_pipe() -> tuple[int, int]:
    """Return a pipe whose descriptors are none of the first few."""
    low = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    return high[0], high[1]


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """Start a browser with a profile of its own and yield a tab; afterwards it has ended."""
    program = find_chromium()
    assert program is not None
    to_child, to_browser = _high_pipe()
    from_browser, from_child = _high_pipe()
    pipes = (to_child, from_child)
    process = subprocess.Popen(  # noqa: S603 # the browser of this machine
        [sys.executable, "-c", _LAUNCH, *map(str, pipes), program, *_FLAGS, f"--user-data-dir={folder / 'profile'}"],
        pass_fds=pipes,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    for end in pipes:
        os.close(end)
    try:
        yield Page(to_browser, from_browser)
    finally:
        os.close(to_browser)  # it ends when nobody drives it any more
        try:
            process.wait(20.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(from_browser)
