"""The error tree, and what of an error others may be told."""

from __future__ import annotations

import re

import pytest

import mpfedxgb
from mpfedxgb import errors
from mpfedxgb.errors import (
    DataError,
    FrameError,
    KeyReuseError,
    MpfedxgbError,
    PeerFailedError,
    SecretError,
    SettingsError,
    UserError,
    public_reason,
)


def drawn_tree() -> dict[str, str | None]:
    """Return, from the drawing at the top of errors.py, every class with its parent."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"([│ ]*(?:[├└]── )?)([A-Z]\w+Error)\b", line)
        if found:
            depth = len(found[1]) // 4
            path = [*path[:depth], found[2]]
            parents[found[2]] = path[-2] if depth else None
    return parents


def defined_tree() -> dict[str, str | None]:
    """Return the classes of errors.py, each with its first base."""
    classes = {name: c for name, c in vars(errors).items() if isinstance(c, type) and c.__module__ == errors.__name__}
    return {name: c.__bases__[0].__name__ if c is not MpfedxgbError else None for name, c in classes.items()}


def test_the_drawing_is_the_tree() -> None:
    """The docstring shows every class, under its parent, and no other."""
    assert drawn_tree() == defined_tree()
    assert len(drawn_tree()) > 10


def test_the_drawing_names_the_second_bases() -> None:
    """What is also an error of the language says so."""
    for name in defined_tree():
        bases = [base for base in getattr(errors, name).__bases__ if not issubclass(base, MpfedxgbError)]
        (line,) = re.findall(rf"^[│├└─ ]*{name}\b(.*)", errors.__doc__ or "", re.MULTILINE)
        also = re.match(r" \(also (\w+)\)", line)
        expected = [base.__name__ for base in bases if base is not Exception]
        assert ([also[1]] if also else []) == expected


def test_every_class_says_what_it_is_for() -> None:
    """No error without a sentence."""
    for name in defined_tree():
        assert getattr(errors, name).__doc__


def test_user_mistakes_are_value_errors() -> None:
    """Callers who know only Python catch them too."""
    assert issubclass(SettingsError, ValueError)
    assert issubclass(SecretError, TypeError)
    assert mpfedxgb.MpfedxgbError is MpfedxgbError


def test_a_failed_peer_has_origin_and_reason() -> None:
    """As attributes and in the text."""
    error = PeerFailedError("P2", "UserError: no rows")
    assert (error.origin, error.reason, str(error)) == ("P2", "UserError: no rows", "P2 failed: UserError: no rows")


@pytest.mark.parametrize("kind", [ValueError, KeyError, OSError, RuntimeError, SystemExit, KeyboardInterrupt])
def test_foreign_messages_are_hidden(kind: type[BaseException]) -> None:
    """Another library's text may hold data: only the type is public."""
    reason = public_reason(kind("the row is 4711"))
    assert reason == kind.__name__


def test_data_errors_are_hidden() -> None:
    """The one error of ours whose text quotes data is treated as a stranger's."""
    assert public_reason(DataError("column age: 4711 is no number")) == "DataError"


def test_notes_and_causes_are_hidden() -> None:
    """Nothing else of an error is public either."""
    error = KeyReuseError("step 3")
    error.add_note("the row is 4711")
    error.__cause__ = ValueError("the row is 4711")
    assert public_reason(error) == "KeyReuseError: step 3"


@pytest.mark.parametrize("kind", [UserError, SettingsError, SecretError, FrameError, MpfedxgbError])
def test_our_own_messages_are_public(kind: type[MpfedxgbError]) -> None:
    """They are written for it."""
    assert public_reason(kind("use fewer bits")) == f"{kind.__name__}: use fewer bits"
