"""Table 2 (section 6.1): MULs of one SecureArgmax, with and without division, counted while the protocols run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from experiments.output import INK, Result, Row
from experiments.setting import Setup
from mpfedxgb.modes.paper.tree import Ints, argmax_by_division, secure_argmax
from mpfedxgb.party.local import run_locally
from mpfedxgb.party.meter import Counts
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.quotient import ITERATIONS
from mpfedxgb.protocols.secret import Secret
from mpfedxgb.protocols.share import share
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import wide

Find = Callable[[Party, Secret], Ints]

PAPER = {(16, 8): (468, 10_496), (16, 16): (612, 20_992), (32, 16): (1_197, 41_984)}
"""MULs by (J, K): without DIV, with DIV."""

PARTICIPANTS = 4
RING = wide(3)
BOUND = 1 << 16
"""H is below this here, so 20 iterations are enough for the reciprocals."""

FRACTION_BITS = 36


def run(setup: Setup) -> Result:
    """Run both ways of finding the best split on random buckets of the paper's sizes."""
    rows = []
    for J, K in PAPER:
        setup.on_progress(f"J = {J}, K = {K}, without division")
        row = {"J": J, "K": K} | without_division(J, K)
        setup.on_progress(f"J = {J}, K = {K}, with division")
        rows.append(row | with_division(J, K))
    return result(rows)


def without_division(J: int, K: int) -> Row:
    """Return what the meter counts for J features of K candidates: one feature after the other, and all in a batch."""
    one_by_one = _count(J, K, lambda party, x: secure_argmax(party, x, [K] * J, one_by_one=True), "argmax")
    batched = _count(J, K, lambda party, x: secure_argmax(party, x, [K] * J), "argmax")
    return {
        "muls": one_by_one.mul_calls,
        "paper_muls": PAPER[J, K][0],
        "products": batched.products,
        "muls_batched": batched.mul_calls,
        "rounds_batched": batched.rounds,
    }


def with_division(J: int, K: int) -> Row:
    """Return what the meter counts when every gain is computed by two DIVs."""
    divided = _count(J, K, lambda party, x: argmax_by_division(party, x, BOUND, FRACTION_BITS), "gains by division")
    return {
        "muls_div": divided.products,
        "paper_muls_div": PAPER[J, K][1],
        "muls_div_batched": divided.mul_calls,
        "rounds_div_batched": divided.rounds,
    }


def buckets(J: int, K: int) -> tuple[Ints, int]:
    """Return squared sums of g and sums of h on both sides of J K candidates, (4, 1, J K), and the best one's index."""
    rng = np.random.default_rng(J * K)
    h_left = rng.integers(1_000, 30_000, J * K)
    g_left, g_right = rng.integers(-5_000, 5_000, (2, J * K))
    sides = np.stack([g_left**2, g_right**2, h_left, 31_000 - h_left])[:, None]
    return sides, int(np.argmax(sides[0] / sides[2] + sides[1] / sides[3]))


def _count(J: int, K: int, find: Find, phase: str) -> Counts:
    """Return what P_1's meter counted in a phase, after making sure that the best candidate was found."""
    sides, best = buckets(J, K)

    def program(party: Party) -> int:
        values = RingArray.encode(RING, sides) if party.is_active else None
        return int(find(party, share(party, ACTIVE, RING, sides.shape, values))[0])

    run = run_locally(program, PARTICIPANTS)
    assert run.results[ACTIVE] == best, "the best candidate was found"
    return run.meters[ACTIVE].total(phase)


def result(rows: Sequence[Row]) -> Result:
    """Return the counts beside the paper's."""
    exact = all(row["muls"] == row["paper_muls"] for row in rows)
    factor = sum(row["muls_div"] for row in rows) / sum(row["products"] for row in rows)
    as_printed = sum(row["muls_div"] for row in rows) / sum(row["muls"] for row in rows)
    off = max(abs(row["muls_div"] - row["paper_muls_div"]) for row in rows)
    return Result(
        item="table2",
        title="Table 2: MULs of one SecureArgmax, with and without division",
        paper="Comparing candidates without division takes 9 J ceil(log2 K) + 9 ceil(log2 J) MULs, computing every "
        "gain by Newton's division 82 J K. The two columns are in different units: without DIV a MUL is one "
        "elementwise call on the array of one feature in one stage, with DIV it is one product of two numbers.",
        measured=f"Counted by P_1's meter while {PARTICIPANTS} participants and a coordinator run the protocols. "
        f"Without DIV: {'equal in all rows' if exact else 'NOT EQUAL'}, features one after the other as the paper "
        f"counts. With DIV, {ITERATIONS} iterations for each of two fractions: "
        f"{'equal in all rows' if not off else f'off by at most {off:,}'}. In one unit for both, products of two "
        f"numbers, the way without DIV is {factor:.0f} times cheaper, not {as_printed:.0f} times. "
        "Counted as elementwise calls with all features in one batch, as training does it, both take about as many, "
        "but those of a DIV follow one another: see the rounds.",
        header=(
            "J, K",
            "no DIV",
            "paper",
            "with DIV",
            "paper",
            "no DIV, products",
            "no DIV, calls (rounds)",
            "with DIV, calls (rounds)",
        ),
        cells=[
            [
                f"{row['J']}, {row['K']}",
                f"{row['muls']:,}",
                f"{row['paper_muls']:,}",
                f"{row['muls_div']:,}",
                f"{row['paper_muls_div']:,}",
                f"{row['products']:,}",
                f"{row['muls_batched']} ({row['rounds_batched']})",
                f"{row['muls_div_batched']} ({row['rounds_div_batched']})",
            ]
            for row in rows
        ],
        rows=rows,
        draw=lambda figure: _draw(figure, rows),
        size=(9.0, 4.2),
    )


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    ax = figure.subplots()
    bars = {
        "muls": "no DIV, as the paper counts",
        "muls_div": "with DIV, as the paper counts (products)",
        "products": "no DIV, products",
        "muls_batched": "no DIV, batched calls",
        "muls_div_batched": "with DIV, batched calls",
    }
    for k, (field, name) in enumerate(bars.items()):
        at = [i + 0.17 * (k - 2) for i in range(len(rows))]
        drawn = ax.bar(at, [row[field] for row in rows], 0.16, color=INK[k], label=name)
        ax.bar_label(drawn, [f"{row[field]:,}" for row in rows], fontsize=7)
    ax.set_xticks(range(len(rows)), [f"J = {row['J']}, K = {row['K']}" for row in rows])
    ax.set_yscale("log")
    ax.set_ylim(top=30 * max(row["muls_div"] for row in rows))
    ax.set(ylabel="MULs", title="MULs of one SecureArgmax, security=paper")
    ax.legend(frameon=False, ncols=2, fontsize=8)
