"""Figure 4b (section 7.1): runtime against the depth of the trees, 10,000 rows of Dataset1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.data import Labels, dataset1
from experiments.output import INK, Result, Row, plain_ticks
from experiments.setting import COMPARED, Setup, fastest, paper_model, slope, splits, warm_up

DEPTHS = (2, 3, 4, 5, 6)
ROWS = 10_000
REPEAT = 3


def run(setup: Setup) -> Result:
    """Time three trees of depth 2 to 6 in both security modes."""
    split = dataset1(setup.data, ROWS)
    return result(list(measure(split.X_train, split.y_train, DEPTHS, REPEAT, setup)))


def measure(X: pd.DataFrame, y: Labels, depths: Sequence[int], repeat: int, setup: Setup) -> Iterator[Row]:
    """Yield seconds, rounds and the number of nodes that were split, by security mode and depth."""
    warm_up(X, y)
    for security in COMPARED:
        for depth in depths:
            setup.on_progress(f"depth {depth}, security={security}")
            model = fastest(paper_model(security, max_depth=depth), X, y, repeat)
            inner = sum(node is not None for tree in splits(model) for node in tree)
            yield {
                "security": security,
                "depth": depth,
                "seconds": round(model.run_.seconds, 4),
                "rounds": model.run_.rounds,
                "split_nodes": inner,
                "most_nodes": model.n_estimators * (2**depth - 1),
            }


def growth(rows: Sequence[Row], security: str) -> tuple[float, float]:
    """Return by what factor a level multiplies the time, and b of seconds ~ nodes^b."""
    mine = [row for row in rows if row["security"] == security]
    seconds = [row["seconds"] for row in mine]
    per_level = float(np.exp(np.polyfit([row["depth"] for row in mine], np.log(seconds), 1)[0]))
    return per_level, slope([row["split_nodes"] for row in mine], seconds)


def result(rows: Sequence[Row]) -> Result:
    """Return time against depth and against the number of nodes."""
    modes = list(dict.fromkeys(row["security"] for row in rows))
    fits = {mode: growth(rows, mode) for mode in modes}
    fitted = "; ".join(
        f"security={mode}: a level multiplies time by {per_level:.2f}, time ~ nodes^{power:.2f}"
        for mode, (per_level, power) in fits.items()
    )
    return Result(
        item="fig4b",
        title="Figure 4b: runtime against the depth of the trees",
        paper="Runtime grows exponentially with the depth, as the number of nodes does.",
        measured=f"{fitted}. All nodes of a level are handled in one batch, so a level adds a fixed number of rounds, "
        "and time grows with the nodes only where arithmetic outweighs the rounds. Each point is the fastest of "
        f"{REPEAT} runs of three trees.",
        header=("security", "depth", "seconds", "rounds", "nodes split", "at most"),
        cells=[
            [
                row["security"],
                str(row["depth"]),
                f"{row['seconds']:.2f}",
                str(row["rounds"]),
                str(row["split_nodes"]),
                str(row["most_nodes"]),
            ]
            for row in rows
        ],
        rows=rows,
        draw=lambda figure: _draw(figure, rows, modes),
        size=(9.0, 4.2),
    )


def _draw(figure: Any, rows: Sequence[Row], modes: Sequence[str]) -> None:
    left, right = figure.subplots(1, 2)
    for k, mode in enumerate(modes):
        mine = [row for row in rows if row["security"] == mode]
        seconds = [row["seconds"] for row in mine]
        per_level, power = growth(rows, mode)
        left.plot([r["depth"] for r in mine], seconds, "o-", color=INK[k], label=f"{mode}: x {per_level:.2f} per level")
        right.loglog(
            [r["split_nodes"] for r in mine], seconds, "o-", color=INK[k], label=f"{mode}: time ~ nodes^{power:.2f}"
        )
    left.set(xlabel="depth", ylabel="seconds", xticks=sorted({row["depth"] for row in rows}))
    left.set_ylim(bottom=0)
    right.set(xlabel="nodes split in three trees", ylabel="seconds")
    for axis in (right.xaxis, right.yaxis):
        plain_ticks(axis)
    for ax in (left, right):
        ax.legend(frameon=False)
    figure.suptitle(f"10,000 rows of Dataset1, three trees: security={' and '.join(modes)}")
