"""docs/parameters.md names every objective, metric and refused parameter that there is, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from mpfedxgb.boosting.metrics import METRICS
from mpfedxgb.boosting.objectives import NAMED, OBJECTIVES
from mpfedxgb.schema.training import REFUSED

PAGE = (Path(__file__).parents[1] / "docs" / "parameters.md").read_text()


def section(title: str) -> str:
    """Return a section of the page."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """Return the cells of the lines of a table, without its head."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return cells[2:]


def names(text: str) -> list[str]:
    """Return what stands in back-quotes."""
    return re.findall(r"`([^`]+)`", text)


def test_objectives() -> None:
    """Each has a row with its default metric; the callable comes last."""
    *named, custom = rows(section("Objectives and metrics"))
    told = [(*names(row[0]), *names(row[-1])) for row in named]
    assert sorted(told) == sorted((name, OBJECTIVES[name].default_metric) for name in NAMED)
    assert custom[0] == "a callable"


def test_numbers() -> None:
    """Every objective's scales are told."""
    told = [name for row in rows(section("Numbers")) for name in names(row[0])]
    assert sorted(told) == sorted(NAMED)


def test_metrics() -> None:
    """The sentence on metrics lists them all."""
    listed = section("Objectives and metrics").split("\nMetrics: ")[1].split("\n\n")[0]
    assert sorted(names(listed)) == sorted(METRICS)


def test_refused_parameters() -> None:
    """All of them, each once."""
    told = [name for row in rows(section("What is refused, and why")) for name in names(row[0])]
    assert sorted(told) == sorted(REFUSED)
