"""Processes of roles that need not wait for imports: one parent has everything loaded and forks a process per command.

Each child is an ordinary process of the command line: it has memory, threads, signals and an exit code of its own, and
writes to a log of its own. Only the second or two of loading is spared, which counts where dozens are started. No child
outlives the parent, and the parent does not outlive whoever started it.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from patience import patience

COMMAND = "mpfedxgb.cli.main"
_LOOK = 0.01
_PR_SET_PDEATHSIG = 1


class Child:
    """A process of a nursery."""

    def __init__(self, number: int, pid: int, exits: dict[int, int], changed: threading.Condition) -> None:
        self.pid, self._number, self._exits, self._changed = pid, number, exits, changed

    @property
    def returncode(self) -> int | None:
        """How it ended: its exit code, minus the number of the signal that ended it, or None while it runs."""
        with self._changed:
            return self._exits.get(self._number)

    def poll(self) -> int | None:
        """Return how it ended, or None while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return how it ended, once it has."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._number in self._exits, timeout):
                raise subprocess.TimeoutExpired([str(self.pid)], timeout or 0.0)
            return self._exits[self._number]

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, and that has not come round yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The parent, seen from outside; use it in a `with` block, which ends all its children."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(  # noqa: S603 # this very file
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._exits: dict[int, int] = {}
        """By the number of the child: a system gives the process id of one that has ended to another, in time."""
        self._numbers: dict[int, int] = {}
        self._started: list[int] = []
        self._changed = threading.Condition()
        self._children: list[Child] = []
        self._ready = self._over = False
        self._listener = threading.Thread(target=self._listen, name="nursery", daemon=True)
        self._listener.start()
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._over, patience(300.0))
            if not self._ready:
                raise RuntimeError("the nursery did not begin")

    def _listen(self) -> None:
        assert self._parent.stdout is not None
        for line in self._parent.stdout:
            news = json.loads(line)
            with self._changed:
                self._ready = True
                if "started" in news:
                    self._numbers[news["started"]] = len(self._started)
                    self._started.append(news["started"])
                elif "ended" in news:
                    self._exits[self._numbers[news["ended"]]] = news["code"]
                self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def start(self, arguments: Sequence[object], log: Path, module: str = COMMAND) -> Child:
        """Start a command of mpfedxgb, or the `main` of another module; what it prints is added to the log."""
        assert self._parent.stdin is not None
        with self._changed:
            before = len(self._started)
        request = {"module": module, "arguments": [str(a) for a in arguments], "log": str(log)}
        self._parent.stdin.write(json.dumps(request) + "\n")
        self._parent.stdin.flush()
        with self._changed:
            self._changed.wait_for(lambda: len(self._started) > before or self._over, patience(60.0))
            if len(self._started) == before:
                raise RuntimeError("the nursery starts no process any more")
            child = Child(before, self._started[before], self._exits, self._changed)
        self._children.append(child)
        return child

    @property
    def pid(self) -> int:
        """The parent's; what limits it limits the children that it starts from then on."""
        return self._parent.pid

    def running(self) -> list[Child]:
        """Return the children that have not ended."""
        return [child for child in self._children if child.poll() is None]

    def close(self) -> None:
        """End everybody."""
        for child in self.running():
            child.kill()
        assert self._parent.stdin is not None
        self._parent.stdin.close()
        try:
            self._parent.wait(patience(20.0))
        except subprocess.TimeoutExpired:
            self._parent.kill()
            self._parent.wait()
        self._listener.join()
        assert self._parent.stdout is not None
        self._parent.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# The parent itself


def _serve() -> tuple[str, list[str]] | None:
    """Fork a child per request; in the child return module and arguments, in the parent None when nothing follows."""
    children: set[int] = set()
    buffer = b""
    while True:
        _report(children)
        if not select.select([0], [], [], _LOOK)[0]:
            continue
        chunk = os.read(0, 1 << 16)
        if not chunk:
            return None
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            request = json.loads(line)
            pid = os.fork()
            if not pid:
                _become_a_child(request["log"])
                return request["module"], request["arguments"]
            children.add(pid)
            _tell({"started": pid})


def _report(children: set[int]) -> None:
    for pid in list(children):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            children.discard(pid)
            _tell({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _tell(news: dict[str, Any]) -> None:
    os.write(1, json.dumps(news).encode() + b"\n")


def _become_a_child(log: str) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    nothing, file = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for here, there in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(here, there)
    os.close(nothing)
    os.close(file)


@contextmanager
def _ending_at_once() -> Iterator[None]:
    """End a child as an interpreter does, with its threads and exit handlers, but leave everything loaded.

    To take apart what was loaded would copy the parent's memory, page after page: more work than a short training.
    """
    code = 0
    try:
        yield
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        code = ended.code or 0
    threading._shutdown()  # type: ignore[attr-defined] # what an interpreter calls first
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def main() -> None:
    """Load what roles need, and be the parent; in a child, be what is asked for."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    from mpfedxgb.cli.main import make_app
    from mpfedxgb.errors import SettingsError
    from mpfedxgb.ring import kernels

    kernels.warm_up()
    for module in ("mpfedxgb.transport.tls", "pandas.io.parsers.readers"):
        import_module(module)  # only loaded: no connection begins before a child is on its own
    with suppress(SettingsError):  # what parses arguments is loaded when there are some
        make_app(["participant"])(["participant", os.devnull, "--train"], standalone_mode=False)
    deadline = time.monotonic() + 10.0
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(_LOOK)  # a child would inherit the locks of other threads, but not the threads
    gc.freeze()  # children need not go through all that was loaded, least of all as they end
    _tell({"ready": True})
    asked = _serve()
    if asked is not None:
        module, arguments = asked
        sys.argv = ["mpfedxgb", *arguments]
        with _ending_at_once():
            import_module(module).main()


if __name__ == "__main__":
    main()
