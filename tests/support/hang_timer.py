"""The timer of pytest-timeout, with a limit that grows with the load of the machine, also while a test runs."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import pytest_timeout

from patience import patience


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    """End the process with the stacks of all threads, as the method `thread` does, once nobody need wait longer.

    The limit is looked at again when it is reached: a machine that has become busy since a test began makes it longer.
    """
    began, is_done = time.monotonic(), threading.Event()

    def watch() -> None:
        while (left := patience(settings.timeout) - (time.monotonic() - began)) > 0:
            if is_done.wait(left):
                return
        pytest_timeout.timeout_timer(item, settings)

    thread = threading.Thread(target=watch, name=f"limit of {item.nodeid}", daemon=True)

    def cancel() -> None:
        is_done.set()
        thread.join()

    item.cancel_timeout = cancel  # type: ignore[attr-defined] # where pytest-timeout looks for it
    thread.start()
    return True
