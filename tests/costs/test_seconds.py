"""How long a training will take, from what a machine was measured to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import LINKS, SessionSettings
from mpfedxgb.costs import seconds
from mpfedxgb.costs.forecast import Basis, forecast, role_forecast
from mpfedxgb.costs.seconds import (
    TYPICAL,
    Rates,
    calibrate,
    estimate_role_seconds,
    estimate_seconds,
    seconds_at_start,
)
from mpfedxgb.party.roster import Roster
from mpfedxgb.tree.level import TableSizes

BASE = TrainParams(n_estimators=3, max_depth=2, max_bin=8)


def test_seconds_grow_with_the_work_and_with_the_link() -> None:
    """A slower machine or memory, more rows, a longer link take longer; roles together share cores, others wait."""
    rates, slow = Rates(1e9, 1e9, 1e9, 1e-4, 2), Rates(5e8, 5e8, 5e8, 2e-4, 2)
    sizes, roster = TableSizes(100_000, 0, (60, 60)), Roster.numbered(2)
    near, far = (forecast(BASE, sizes, roster, SessionSettings(link=LINKS[name])) for name in ("local", "wan"))
    larger = forecast(BASE, replace(sizes, rows=200_000), roster)

    assert estimate_seconds(near, slow, True) == pytest.approx(2 * estimate_seconds(near, rates, True))
    assert estimate_seconds(larger, rates, True) > 1.5 * estimate_seconds(near, rates, True)
    assert estimate_seconds(near, replace(rates, reading=1e7), True) > 2 * estimate_seconds(near, rates, True)
    assert estimate_seconds(far, rates, False) > far.hops * 0.02 + estimate_seconds(near, rates, False) / 2


def test_directions_make_candidates_cost_more() -> None:
    """Beside their message rounds: candidates, and not rows."""
    free, held = (TrainParams(n_estimators=3, max_depth=4, constrained=constrained) for constrained in (False, True))
    rates, roster = replace(TYPICAL, opening=0.0), Roster.numbered(2)

    def more(rows: int, columns: int) -> float:
        sizes = TableSizes(rows, 0, (columns, columns))
        with_them, without = (estimate_seconds(forecast(params, sizes, roster), rates, True) for params in (held, free))
        return with_them - without

    assert more(100, 600) > 0
    assert more(100, 1200) == pytest.approx(2 * more(100, 600))
    assert more(10_000, 600) == pytest.approx(more(100, 600))


def test_rows_whose_gradients_are_computed_on_secrets_cost_more() -> None:
    """For every boosting round, and whatever the columns are."""
    rates, roster = replace(TYPICAL, opening=0.0), Roster.numbered(2)

    def more(rows: int, columns: int, trees: int = 3) -> float:
        params = [TrainParams(num_class=2, n_estimators=trees, max_depth=2, security=s) for s in ("sealed", "strict")]
        sizes = TableSizes(rows, 0, (columns, columns))
        of_sealed, of_strict = (estimate_seconds(forecast(one, sizes, roster), rates, True) for one in params)
        return of_sealed - of_strict

    assert more(1000, 9) > 0
    assert more(2000, 9) == pytest.approx(2 * more(1000, 9))
    assert more(1000, 90) == pytest.approx(more(1000, 9))
    assert more(1000, 9, trees=6) == pytest.approx(2 * more(1000, 9))


def test_a_participant_estimates_for_itself() -> None:
    """By its own work, and what the link makes it wait: nearly what the whole forecast says of roles apart."""
    sizes, roster, settings = TableSizes(100_000, 0, (60, 60)), Roster.numbered(2), SessionSettings(link=LINKS["wan"])
    whole, basis = forecast(BASE, sizes, roster, settings), Basis(BASE, sizes, roster, settings)
    own = role_forecast(basis, 2)
    assert own is not None

    seconds = estimate_role_seconds(basis, 2, own.counts, TYPICAL)

    assert seconds == pytest.approx(estimate_seconds(whole, TYPICAL, False), rel=0.3)
    assert "about" not in own.summary
    assert replace(own, seconds=90.0).summary.endswith("; about 1 min 30 s on machines like this one")


def test_a_long_training_is_worth_a_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes a few seconds on a usual machine is told at once."""
    measured = replace(TYPICAL, opening=1.0)
    monkeypatch.setattr(seconds, "calibrate", lambda: measured)

    assert seconds_at_start(lambda rates: 1000 * rates.opening) == 1000 * TYPICAL.opening
    assert seconds_at_start(lambda rates: 100_000 * rates.opening) == 100_000


def test_this_machine_can_be_measured() -> None:
    """The calibration comes back with rates above zero."""
    rates = calibrate()

    assert min(rates.products, rates.stream, rates.reading, rates.opening, rates.cores) > 0
