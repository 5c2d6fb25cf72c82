"""Figure 5 (section 7.1): runtime against rows and features of Dataset1, whose columns are repeated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from experiments.data import TrainTestSplit, dataset1, repeat_columns
from experiments.output import INK, Result, Row, plain_ticks
from experiments.setting import Setup, fastest, paper_model, peak_memory, slope, warm_up

ROWS = (5_000, 10_000, 30_000)
FEATURES = (10, 50, 100, 500, 1_000)
SECURITY = "strict"
REPEAT, PATIENCE = 3, 5.0
"""Sizes whose runs are short are timed up to three times, the long ones once."""

WIDE = 100
"""Features from which on arithmetic outweighs the rounds."""


def run(setup: Setup) -> Result:
    """Time three trees of depth three at every size."""
    rows: list[Row] = []
    for count in ROWS:
        rows += measure(dataset1(setup.data, count), FEATURES, setup)
    return result(rows)


def measure(split: TrainTestSplit, features: Sequence[int], setup: Setup) -> Iterator[Row]:
    """Yield the seconds of one training by number of features."""
    warm_up(split.X_train, split.y_train)
    for count in features:
        setup.on_progress(f"{len(split.y_train):,} rows x {count:,} features, security={SECURITY}")
        X = repeat_columns(split.X_train, count)
        model = fastest(paper_model(SECURITY), X, split.y_train, REPEAT, PATIENCE)
        yield {
            "security": SECURITY,
            "rows": len(split.y_train),
            "features": count,
            "candidates": sum(len(edges) for owner in model.cut_points_.values() for edges in owner.values()),
            "seconds": round(model.run_.seconds, 4),
            "peak_gib": round(peak_memory(), 2),
        }


def result(rows: Sequence[Row]) -> Result:
    """Return the curves with their exponents."""
    sizes, widths = sorted({row["rows"] for row in rows}), sorted({row["features"] for row in rows})
    by_features = {n: _exponent([row for row in rows if row["rows"] == n], "features") for n in sizes}
    by_rows = {j: _exponent([row for row in rows if row["features"] == j], "rows") for j in widths}
    wide = ", ".join(
        f"{_exponent([r for r in rows if r['rows'] == n and r['features'] >= WIDE], 'features'):.2f} at {n:,} rows"
        for n in sizes
    )
    return Result(
        item="fig5",
        title="Figure 5: runtime against rows and features",
        paper="Runtime is linear in the number of features and grows with the number of rows.",
        measured=f"With security={SECURITY}, exponents fitted over the whole range, time ~ features^b: "
        + ", ".join(f"{b:.2f} at {n:,} rows" for n, b in by_features.items())
        + "; time ~ rows^b: "
        + ", ".join(f"{b:.2f} at {j:,} features" for j, b in by_rows.items())
        + f". Narrow tables cost their rounds, wide ones their arithmetic: from {WIDE} features on, time ~ features^b "
        f"with {wide}. Columns are repeated as in the paper; runs of less than {PATIENCE:.0f} s are the fastest of up "
        f"to {REPEAT}, longer ones were run once. All roles together had at most "
        f"{max(row['peak_gib'] for row in rows):.1f} GiB.",
        header=("rows", "features", "candidates", "seconds", "peak GiB so far"),
        cells=[
            [
                f"{row['rows']:,}",
                f"{row['features']:,}",
                f"{row['candidates']:,}",
                f"{row['seconds']:.2f}",
                f"{row['peak_gib']:.1f}",
            ]
            for row in rows
        ],
        rows=rows,
        draw=lambda figure: _draw(figure, rows),
    )


def _exponent(rows: Sequence[Row], along: str) -> float:
    return slope([row[along] for row in rows], [row["seconds"] for row in rows])


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    ax = figure.subplots()
    for k, count in enumerate(sorted({row["rows"] for row in rows})):
        mine = [row for row in rows if row["rows"] == count]
        label = f"{count:,} rows, time ~ features^{_exponent(mine, 'features'):.2f}"
        ax.loglog([row["features"] for row in mine], [row["seconds"] for row in mine], "o-", color=INK[k], label=label)
    ax.set(xlabel="features", ylabel="seconds", title=f"Dataset1, three trees of depth 3: security={SECURITY}")
    for axis in (ax.xaxis, ax.yaxis):
        plain_ticks(axis)
    ax.legend(frameon=False)
