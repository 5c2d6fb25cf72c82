"""Threads beside gRPC's own, and how to wait for any of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

_BEGINS = 5.0
"""Seconds in which a thread that was started begins; or it never will."""

_LOOK = 0.001


class Threads(Executor):
    """A thread for each call, one that does not keep a process alive that forgets to close its transport."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._threads: list[threading.Thread] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function in a thread of its own."""
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        thread = threading.Thread(target=run, name=self._name, daemon=True)
        self._threads = [*(other for other in self._threads if other.is_alive()), thread]
        thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for all threads."""
        for thread in self._threads:
            join(thread)


def join(thread: threading.Thread, seconds: float | None = None) -> None:
    """Wait until a thread has ended, for so long at most.

    One that another thread is just starting, or whose start a signal has interrupted, Python refuses to wait for: it is
    waited for until it has begun.
    """
    end = time.monotonic() + (_BEGINS if seconds is None else min(_BEGINS, seconds))
    while True:
        try:
            thread.join(seconds)
        except RuntimeError:
            if time.monotonic() >= end:
                return
            time.sleep(_LOOK)
        else:
            return
