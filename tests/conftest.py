"""How all tests run: marked by kind, kernels compiled, limits that grow with load, a fresh logger."""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import settings

from mpfedxgb.costs import seconds
from support import compiling, kinds
from support.hang_timer import pytest_timeout_set_timer  # noqa: F401 (a hook)

# For xgboost, here and in processes that tests start: its threads wait for each other without sleeping, and tests that
# run side by side would share the cores with that.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Machines are busy at times; a failure prints how to repeat it.
settings.register_profile("mpfedxgb", deadline=None, print_blob=True)
settings.load_profile("mpfedxgb")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Have all kernels compiled by a process of its own, while those that run tests collect them."""
    gc.disable()  # until all tests are collected
    if session.config.getoption("numprocesses", None) and not hasattr(session.config, "workerinput"):
        session.config.stash[_COMPILING] = subprocess.Popen([sys.executable, compiling.__file__])  # noqa: S603 # our own


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Wait until kernels are compiled: each process would compile them, on the time of its first test."""
    if _COMPILING not in session.config.stash:
        compiling.compile_once()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave no process behind."""
    if _COMPILING in session.config.stash:
        session.config.stash[_COMPILING].wait()


_COMPILING = pytest.StashKey["subprocess.Popen[bytes]"]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test by its kind before any are chosen by marks; mix modules where several processes run them.

    By folders, most that wait would come at the same time, when nothing is left to compute beside them.
    """
    kinds.mark(items)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: hashlib.sha256(item.nodeid.partition("::")[0].encode()).digest())


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave what was collected to no garbage collector: it stays to the end, and takes long to look through."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Hold every test to its kind."""
    kinds.watch(item)
    try:
        return (yield)
    finally:
        kinds.watch(None)


@pytest.fixture(autouse=True, scope="session")
def _one_measurement_of_the_machine() -> Iterator[None]:
    """Measure how fast this machine is once, not at every forecast: that takes half a second."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(seconds, "calibrate", cache(seconds.calibrate))
        yield


@pytest.fixture(autouse=True)
def _logger_as_it_was() -> Iterator[None]:
    """Undo what a command inside the test did to the log: the stream that it writes to is closed after the test."""
    package = logging.getLogger("mpfedxgb")
    handlers, level, propagate = package.handlers[:], package.level, package.propagate
    yield
    for handler in package.handlers:
        if handler not in handlers:
            handler.close()
    package.handlers[:] = handlers
    package.setLevel(level)
    package.propagate = propagate
