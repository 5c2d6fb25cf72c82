"""Mutants: which changes are made of a source, that each is one change, and whose tests are asked."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mutants
from mutants import ROOT, changes, files_for, source_of


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", ["a <= b"]),
        ("a + 1", ["a - 1", "a + 2"]),
        ("a and not b", ["a or not b", "a and b"]),
        ("a += -b", ["a -= -b", "a += b"]),
        ("x = True", ["x = False"]),
        ("x if a else 0.5", ["x if not a else 0.5", "x if a else 1.5"]),
        ("if a:\n    f(a)", ["if not a:\n    f(a)", "if a:\n    pass"]),
        ("def f():\n    return a", ["def f():\n    return None"]),
        ("def f():\n    return None", []),
        ("if a:\n    raise ValueError(f'{1 + 1}')", ["if not a:\n    raise ValueError(f'{1 + 1}')", "if a:\n    pass"]),
        ("assert a == 1", []),
        ("'text'", []),
        ("def f(x: int=1) -> Literal[2]:\n    pass", ["def f(x: int=2) -> Literal[2]:\n    pass"]),
        ("@dataclass(frozen=True)\nclass A:\n    x: Literal[1]", []),
        ("class A:\n\n    def __repr__(self):\n        return a + b", []),
        ("a < b < c", []),
        ("zip(a, b, strict=True)", ["pass"]),
    ],
)
def test_changes_of_a_source(source: str, expected: list[str]) -> None:
    """One at a time; texts for people, types, decorators and assertions stay."""
    found = []
    for number in range(len(list(changes(ast.parse(source))))):
        tree = ast.parse(source)
        old, new = list(changes(tree))[number]
        found.append(ast.unparse(ast.fix_missing_locations(mutants._Replace(old, new).visit(tree))))
    assert found == expected


def test_every_mutant_of_a_module_is_another_source() -> None:
    """Each of them compiles, differs from the original and from all others, and says where it is."""
    path = Path("src/mpfedxgb/tree/grow.py")
    plain = ast.unparse(ast.parse((ROOT / path).read_text()))
    made = list(mutants.mutants(path))
    sources = [source_of(mutant) for mutant in made]
    assert len(made) > 20
    assert len({plain, *sources}) == 1 + len(sources)
    for mutant, source in zip(made, sources, strict=True):
        compile(source, str(path), "exec")
        assert str(mutant).startswith(f"tree/grow.py:{mutant.line}: ")


def test_modules_have_tests() -> None:
    """Every module that has something to change; all files that are named are there."""
    modules = [path for room in mutants.ROOMS for path in sorted((ROOT / mutants.PACKAGE / room).rglob("*.py"))]
    for module in modules:
        path = module.relative_to(ROOT)
        files = files_for(path)
        assert all((ROOT / file).is_file() for file in files)
        assert files or not list(mutants.mutants(path)), path
    assert files_for(Path("src/mpfedxgb/tree/level.py")) == [
        "tests/tree/test_gain.py",
        "tests/tree/test_split.py",
        "tests/tree/test_grow.py",
    ]


def test_a_change_is_noticed_or_not(tmp_path: Path) -> None:
    """By the exit code of the tests, which run against the copy."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "copied.py").write_text("VALUE = 1\n")
    test = tmp_path / "test_copied.py"
    test.write_text("from copied import VALUE\n\n\ndef test_value():\n    assert VALUE == 1\n")
    assert mutants.run_tests(tmp_path / "src", [str(test)], 100) == "survived"
    (tmp_path / "src" / "copied.py").write_text("VALUE = 2\n")
    assert mutants.run_tests(tmp_path / "src", [str(test)], 100) == "killed"
    (tmp_path / "src" / "copied.py").write_text("while True:\n    pass\n")
    assert mutants.run_tests(tmp_path / "src", [str(test)], 1) == "timeout"
