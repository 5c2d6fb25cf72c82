"""Which session, attempt and request a line of the log belongs to, for logs as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_current: ContextVar[Mapping[str, str | int]] = ContextVar("log_context", default={})  # noqa: B039 # never changed


def log_context() -> Mapping[str, str | int]:
    """Return what is known of where this thread or task is."""
    return _current.get()


@contextmanager
def logging_for(**names: str | int) -> Iterator[None]:
    """Let lines of the log inside the block, of this thread or task, carry names and numbers."""
    before = _current.set({**_current.get(), **names})
    try:
        yield
    finally:
        _current.reset(before)
