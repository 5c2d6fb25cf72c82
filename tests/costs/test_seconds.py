"""How long a training will take, from what a machine was measured to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import LINKS, SessionSettings
from mpfedxgb.costs.forecast import forecast
from mpfedxgb.costs.seconds import Rates, calibrate, estimate_seconds
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


def test_this_machine_can_be_measured() -> None:
    """The calibration comes back with rates above zero."""
    rates = calibrate()

    assert min(rates.products, rates.stream, rates.reading, rates.opening, rates.cores) > 0
