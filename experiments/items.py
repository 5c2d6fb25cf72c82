"""The list of items, in the order of the paper, and how they are run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from experiments import complexity, fig4a, fig4b, fig5, iterations, precision, table2, table3
from experiments.output import Result, write, write_index
from experiments.setting import OnProgress, Setup

ITEMS: dict[str, Callable[[Setup], Result]] = {
    "table2": table2.run,
    "complexity": complexity.run,
    "fig4a": fig4a.run,
    "fig4b": fig4b.run,
    "fig5": fig5.run,
    "table3": table3.run,
    "iterations": iterations.run,
    "precision": precision.run,
}
ALL = "all"


def reproduce(item: str, data: Path | None, out: Path, on_progress: OnProgress) -> list[Result]:
    """Run one item, or all of them, and write what comes out into a folder; `all` writes the index too."""
    started = time.perf_counter()
    results = []
    for name in ITEMS if item == ALL else [item]:
        began = time.perf_counter()
        results.append(ITEMS[name](Setup(data, _about(name, on_progress))))
        write(results[-1], out, time.perf_counter() - began)
    if item == ALL:
        write_index(results, out, time.perf_counter() - started)
    return results


def _about(name: str, on_progress: OnProgress) -> OnProgress:
    """Return a progress line that names the item."""
    return lambda text: on_progress(f"{name}: {text}")
