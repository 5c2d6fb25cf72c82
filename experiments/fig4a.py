"""Figure 4a (section 7.1): runtime against the number of trees, 10,000 rows of Dataset1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from experiments.data import Labels, dataset1
from experiments.output import INK, Result, Row
from experiments.setting import COMPARED, Setup, fastest, paper_model, slope, warm_up

TREES = tuple(range(1, 11))
ROWS = 10_000
REPEAT = 3

PAPER_SECONDS = 50.0
"""About, for three trees of depth three: the one value that the text gives."""


def run(setup: Setup) -> Result:
    """Time trainings of 1 to 10 trees in both security modes."""
    split = dataset1(setup.data, ROWS)
    return result(list(measure(split.X_train, split.y_train, TREES, REPEAT, setup)))


def measure(X: pd.DataFrame, y: Labels, trees: Sequence[int], repeat: int, setup: Setup) -> Iterator[Row]:
    """Yield seconds, rounds and megabytes of one training, by security mode and number of trees."""
    warm_up(X, y)
    for security in COMPARED:
        for count in trees:
            setup.on_progress(f"{count} trees, security={security}")
            model = fastest(paper_model(security, n_estimators=count), X, y, repeat)
            yield {
                "security": security,
                "trees": count,
                "seconds": round(model.run_.seconds, 4),
                "rounds": model.run_.rounds,
                "megabytes": round(sum(c.bytes_sent for c in model.run_.roles.values()) / 1e6, 2),
            }


def exponent(rows: Sequence[Row], security: str) -> float:
    """Return b of seconds ~ trees^b."""
    mine = [row for row in rows if row["security"] == security]
    return slope([row["trees"] for row in mine], [row["seconds"] for row in mine])


def result(rows: Sequence[Row]) -> Result:
    """Return the curve with its exponents."""
    modes = list(dict.fromkeys(row["security"] for row in rows))
    at_three = ", ".join(f"{row['seconds']:.2f} s with security={row['security']}" for row in rows if row["trees"] == 3)
    fitted = ", ".join(f"{exponent(rows, mode):.2f} ({mode})" for mode in modes)
    return Result(
        item="fig4a",
        title="Figure 4a: runtime against the number of trees",
        paper="Runtime is approximately linear in the number of trees; three trees of depth three on 10,000 rows of "
        f"Dataset1 take about {PAPER_SECONDS:.0f} s.",
        measured=f"Three trees take {at_three}, all four participants and the coordinator on one machine. "
        f"Fitted exponents, time ~ trees^b: {fitted}. Each point is the fastest of {REPEAT} runs; binning and set-up "
        "are included.",
        header=("security", "trees", "seconds", "rounds", "MB sent", "paper"),
        cells=[
            [
                row["security"],
                str(row["trees"]),
                f"{row['seconds']:.2f}",
                str(row["rounds"]),
                f"{row['megabytes']:.1f}",
                f"about {PAPER_SECONDS:.0f} s" if row["trees"] == 3 else "-",
            ]
            for row in rows
        ],
        rows=rows,
        draw=lambda figure: _draw(figure, rows, modes),
    )


def _draw(figure: Any, rows: Sequence[Row], modes: Sequence[str]) -> None:
    ax = figure.subplots()
    for k, mode in enumerate(modes):
        mine = [row for row in rows if row["security"] == mode]
        label = f"security={mode}, time ~ trees^{exponent(rows, mode):.2f}"
        ax.plot([row["trees"] for row in mine], [row["seconds"] for row in mine], "o-", color=INK[k], label=label)
    ax.set(xlabel="trees", ylabel="seconds", title=f"10,000 rows of Dataset1, depth 3: {' and '.join(modes)}")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False)
