"""How all tests run: property tests without a deadline, and each with the package's logger as it was at first."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Machines are busy at times; a failure prints how to repeat it.
settings.register_profile("mpfedxgb", deadline=None, print_blob=True)
settings.load_profile("mpfedxgb")


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
