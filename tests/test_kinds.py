"""Every test has one kind, by the table or by a mark of its own, and unit tests are held to theirs."""

from __future__ import annotations

import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support import kinds

FILES = sorted(path.relative_to(kinds.TESTS) for path in kinds.TESTS.rglob("test_*.py"))


def test_every_file_has_a_kind() -> None:
    """By itself or by its folder; and every entry of the table is there and says something."""
    assert [str(path) for path in FILES if kinds.kind_of(path) is None] == []
    assert [entry for entry in kinds.KIND_OF if not (kinds.TESTS / entry).exists()] == []
    assert {kinds.kind_of(path) for path in FILES} == {*kinds.KINDS}
    without = {entry: kinds.kind_of(Path(entry).parent) for entry in kinds.KIND_OF}
    assert [entry for entry, kind in kinds.KIND_OF.items() if without[entry] == kind] == []


def test_the_longest_entry_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file before its folder, a folder before the one that it is in; what nothing names has no kind."""
    monkeypatch.setattr(kinds, "KIND_OF", {"a": "unit", "a/b": "process", "a/b/test_c.py": "browser"})
    paths = ("a/test_x.py", "a/b/test_x.py", "a/b/test_c.py", "test_x.py", "ab/test_x.py")
    assert [kinds.kind_of(Path(path)) for path in paths] == ["unit", "process", "browser", None, None]


def test_marks_are_those_that_pytest_knows() -> None:
    """pyproject.toml explains each, and pytest refuses others."""
    options = tomllib.loads((kinds.TESTS.parent / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert [line.partition(":")[0] for line in options["markers"]] == [*kinds.KINDS]
    assert "--strict-markers" in options["addopts"]


def test_this_test_is_marked(request: pytest.FixtureRequest) -> None:
    """Once, as the table has it."""
    assert [mark.name for mark in request.node.iter_markers() if mark.name in kinds.KINDS] == [kinds.UNIT]


def test_a_unit_test_starts_no_process_and_opens_no_socket() -> None:
    """Whatever way it takes."""
    with pytest.raises(kinds.UnitTestError, match=r"subprocess.Popen in .*test_kinds.py::test_a_unit_test"):
        subprocess.run([sys.executable, "-c", "pass"], check=True)  # refused
    with socket.socket() as opened, pytest.raises(kinds.UnitTestError, match=r"socket\.bind"):
        opened.bind(("127.0.0.1", 0))


@pytest.mark.process
def test_others_may() -> None:
    """A mark of a test's own decides over the table."""
    done = subprocess.run([sys.executable, "-c", "pass"], check=False)  # does nothing
    assert done.returncode == 0


@pytest.mark.parametrize(("own", "said"), [((), "no kind"), (("unit", "process"), "unit and process")])
def test_none_and_two_are_refused(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, own: tuple[str, ...], said: str
) -> None:
    """The run ends before it begins, and names the test."""
    monkeypatch.setattr(kinds, "KIND_OF", {})
    item = request.node
    monkeypatch.setattr(item, "own_markers", [pytest.Mark(name, (), {}, _ispytest=True) for name in own])
    monkeypatch.setattr(item, "get_closest_marker", lambda name: name if name in own else None)
    with pytest.raises(pytest.UsageError, match=rf"test_kinds.py::.* has {said}; see kinds.py"):
        kinds.mark([item])
