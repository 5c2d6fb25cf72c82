"""The error tree, and what of an error others may be told."""

from __future__ import annotations

import ast
import builtins
import re
from pathlib import Path
from typing import get_args

import pytest

import mpfedxgb
from mpfedxgb import errors
from mpfedxgb.errors import (
    KINDS,
    UNKNOWN,
    DataError,
    FrameError,
    KeyReuseError,
    MpfedxgbError,
    PeerFailedError,
    SecretError,
    SettingsError,
    UserError,
    kind_of,
    printable,
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
    """Return the classes of errors.py, each with its first base, if that is ours."""
    classes = {name: c for name, c in vars(errors).items() if isinstance(c, type) and c.__module__ == errors.__name__}
    return {
        name: c.__bases__[0].__name__ if c.__bases__[0] in classes.values() else None for name, c in classes.items()
    }


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
        expected = [base.__name__ for base in bases if base not in (Exception, BaseException)]
        assert ([also[1]] if also else []) == expected


def test_every_class_says_what_it_is_for() -> None:
    """No error without a sentence."""
    for name in defined_tree():
        assert getattr(errors, name).__doc__


def calls_of_errors() -> list[tuple[str, str, bool]]:
    """Return every call of a class of this tree in the package: where, which, and whether it gives a code."""
    found = []
    for path in sorted(Path(mpfedxgb.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            kind = getattr(errors, name, None)
            if isinstance(node, ast.Call) and isinstance(kind, type) and issubclass(kind, MpfedxgbError):
                texts = 2 if name in ("NoRoomError", "RefusedError") else 1
                gives = len(node.args) > texts or any(word.arg == "code" for word in node.keywords)
                found.append((f"{path.name}:{node.lineno}", name, gives or bool(kind.code)))
    return found


def test_every_error_says_in_a_word_what_is_wrong() -> None:
    """By its class, or where it is raised; programs and tests need not read the text."""
    found = calls_of_errors()
    assert len(found) > 400
    assert [place for place, _, says in found if not says] == []
    assert {getattr(errors, name).code for _, name, _ in found} <= set(get_args(errors.Code))


def test_user_mistakes_are_value_errors() -> None:
    """Callers who know only Python catch them too."""
    assert issubclass(SettingsError, ValueError)
    assert issubclass(SecretError, TypeError)
    assert mpfedxgb.MpfedxgbError is MpfedxgbError


def test_a_failed_peer_has_origin_reason_and_kind() -> None:
    """As attributes and in the text."""
    error = PeerFailedError("P2", "no rows", "UserError")
    assert (error.origin, error.reason, error.kind) == ("P2", "no rows", "UserError")
    assert str(error) == "P2 failed: UserError: no rows"


@pytest.mark.parametrize("kind", ["", "ValueError", "usererror", "UserError: no rows", "KINDS", "Exception"])
def test_a_kind_that_is_none(kind: str) -> None:
    """Whatever is not in the tree is unknown, and is not shown."""
    error = PeerFailedError("P2", "ValueError at step 3 (lift)", kind)
    assert error.kind == UNKNOWN
    assert str(error) == "P2 failed: ValueError at step 3 (lift)"


def test_kinds_are_the_tree() -> None:
    """Every class has its name as kind, and there are no others but a lack of memory, which is no class of ours."""
    assert set(defined_tree()) | {"MemoryError"} == KINDS
    assert UNKNOWN not in KINDS
    for name in KINDS - {"PeerFailedError"}:
        assert kind_of({**vars(builtins), **vars(errors)}[name]("x")) == name
    assert kind_of(PeerFailedError("P2", "no rows", "UserError")) == "PeerFailedError"


def test_the_kind_of_errors_that_are_not_in_the_tree() -> None:
    """A private class counts as the one it is derived from; another library's has none, whatever its name."""

    class _TornError(errors.CheckpointError):
        pass

    class FrameError(Exception):
        pass

    assert kind_of(_TornError("x")) == "CheckpointError"
    for error in (FrameError("x"), ValueError("x"), KeyboardInterrupt()):
        assert kind_of(error) == UNKNOWN


@pytest.mark.parametrize("kind", [ValueError, KeyError, OSError, RuntimeError, SystemExit, KeyboardInterrupt])
def test_foreign_messages_are_hidden(kind: type[BaseException]) -> None:
    """Another library's text may hold data: only the type is public."""
    reason = public_reason(kind("the row is 4711"))
    assert reason == kind.__name__


def test_data_errors_are_hidden() -> None:
    """The one error of ours whose text quotes data is treated as a stranger's."""
    told = public_reason(DataError("column age: 4711 is no number"))
    assert told == "a table, label or weight cannot be used; the log there says which"


def test_notes_and_causes_are_hidden() -> None:
    """Nothing else of an error is public either."""
    error = KeyReuseError("step 3")
    error.add_note("the row is 4711")
    error.__cause__ = ValueError("the row is 4711")
    assert public_reason(error) == "step 3"


@pytest.mark.parametrize("kind", [UserError, SettingsError, SecretError, FrameError, MpfedxgbError])
def test_our_own_messages_are_public(kind: type[MpfedxgbError]) -> None:
    """They are written for it."""
    assert public_reason(kind("use fewer bits")) == "use fewer bits"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("column 'Größe' = 3 µm, ok", "column 'Größe' = 3 µm, ok"),
        ("\x1b[2Jgone\x07", "�[2Jgone�"),
        ("one\r\ntwo\tthree\u2028four", "one  two three four"),
        ("\u202egnp.exe\u200b\x9b31m\x7f", "�gnp.exe��31m�"),
        ("\ud800\ue000", "��"),
        ("", ""),
    ],
)
def test_only_what_is_printable_is_shown(text: str, shown: str) -> None:
    """Controls, escapes, changes of direction and line breaks do not reach a terminal or a log."""
    assert printable(text) == shown
    assert printable(shown) == shown
    assert shown.isprintable()
