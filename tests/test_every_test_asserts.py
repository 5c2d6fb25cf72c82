"""Every test can fail by what it finds, not only by an error on the way: it asserts, or calls a helper that does."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SELF_CHECKING = {"test_scikit_learns_own_checks"}
"""Tests whose argument does the asserting."""

Functions = dict[str, list[ast.FunctionDef]]


@cache
def functions(tree: ast.Module) -> Functions:
    """Return the functions and methods of a module by name, those inside others too."""
    found: Functions = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


@cache  # many tests call the same helpers
def called(function: ast.FunctionDef) -> frozenset[str] | None:
    """Return the names of what a function calls, without what stands before the last dot; None of one that asserts."""
    nodes = list(ast.walk(function))
    if any(isinstance(node, ast.Assert) for node in nodes):
        return None
    names = (node.func for node in nodes if isinstance(node, ast.Call))
    return frozenset(
        f.id if isinstance(f, ast.Name) else f.attr for f in names if isinstance(f, (ast.Name, ast.Attribute))
    )


def asserts(function: ast.FunctionDef, helpers: Functions, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a function asserts, expects an error, or calls something that does in all its forms of that name."""
    names = called(function)
    if names is None:
        return True
    for name in names - seen:
        if name in helpers:
            if all(asserts(helper, helpers, seen | {name}) for helper in helpers[name]):
                return True
        elif name in ("raises", "warns", "fail") or name.startswith("assert_"):  # of pytest and numpy.testing
            return True
    return False


def helpers_of(tree: ast.Module, modules: Mapping[str, ast.Module]) -> Functions:
    """Return what a module of tests may call: its own functions, and those of the test modules that it imports from."""
    found: Functions = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module in modules:
            found |= functions(modules[node.module])
    return found | functions(tree)


def silent_tests(tree: ast.Module, modules: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yield the names of tests that assert nothing."""
    helpers = helpers_of(tree, modules)
    for name, found in functions(tree).items():
        if name.startswith("test_") and name not in SELF_CHECKING:
            yield from (name for test in found if not asserts(test, helpers))


def test_every_test_asserts_something() -> None:
    """In all modules, contract suites included."""
    files = sorted(TESTS.rglob("*.py"))
    modules = {".".join(path.relative_to(TESTS).with_suffix("").parts): ast.parse(path.read_text()) for path in files}
    tests = [name for tree in modules.values() for name in functions(tree) if name.startswith("test_")]
    assert len(tests) > 1000
    assert [f"{module}: {name}" for module, tree in modules.items() for name in silent_tests(tree, modules)] == []


HELPER = "def check(x):\n    assert x\n\ndef look(x):\n    return x\n"


@pytest.mark.parametrize(
    ("test", "silent"),
    [
        ("def test_it():\n    look(1)", True),
        ("def test_it():\n    check(1)", False),
        ("def test_it():\n    assert 1", False),
        ("def test_it():\n    with pytest.raises(ValueError):\n        look(1)", False),
        ("def test_it():\n    np.testing.assert_array_equal(1, 1)", False),
        ("def middle():\n    check(1)\n\ndef test_it():\n    middle()", False),
        ("def check(x):\n    pass\n\ndef test_it():\n    check(1)", True),
        ("def test_it():\n    again()\n\ndef again():\n    again()", True),
    ],
)
def test_silence_is_found(test: str, silent: bool) -> None:
    """In tests, through helpers of the module and of others, and where a name of one's own hides another's."""
    tree = ast.parse(f"from support.helper import check, look\n\n{test}")
    assert list(silent_tests(tree, {"support.helper": ast.parse(HELPER)})) == ["test_it"] * silent
