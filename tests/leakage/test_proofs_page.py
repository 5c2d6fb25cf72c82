"""The page of arguments names tests, files, modules and enumerated cases that there are."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path

import pytest

from mpfedxgb import protocols

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)))
ROWS = re.findall(r"^\| [^|`]*\(`(\w+)`\) \|[^|]*\|[^|]*\| ([^|]*) \|$", PAGE, re.M)


def enumerated() -> set[str]:
    """Return the names of the cases whose views are enumerated."""
    tree = ast.parse((ROOT / "tests" / "leakage" / "test_exhaustive_views.py").read_text(encoding="utf-8"))
    (cases,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "CASES"
    )
    assert isinstance(cases, ast.Dict)
    return {key.value for key in cases.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}


@lru_cache(maxsize=64)
def functions(path: Path) -> set[str]:
    """Return the names of a file's functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_what_the_page_names_is_there(file: str, test: str) -> None:
    """Every file exists, and has the test that the page takes from it."""
    assert (ROOT / file).is_file()
    assert not test or test in functions(ROOT / file)


def test_the_page_names_many_tests() -> None:
    """The pattern above finds them."""
    assert len(NAMED) > 40


def test_rows_name_protocols_and_cases_that_there_are() -> None:
    """Every row of the table is of a protocol, and its cases are enumerated; or it says why not."""
    folder = Path(protocols.__path__[0])
    found = [case for _, cases in ROWS for case in re.findall(r'"([^"]+)"', cases)]

    assert len(ROWS) > 12
    homes = {*(path.stem for path in folder.glob("*.py")), *protocols.__all__}
    assert {name for name, _ in ROWS if name not in homes} == {"predict"}
    assert all(re.search(r'"|none', cases) for _, cases in ROWS)
    assert set(found) <= enumerated()
    assert len(found) == len(set(found)) > 25
