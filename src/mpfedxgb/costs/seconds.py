"""How long a training will take: what it has to do, by what this machine was measured to do in half a second.

The work is that of the forecast: products with masked matrices and the key streams of their masks, message rounds,
candidates of nodes, rows that are split, and what lies between the roles. How much of what is measured each of these
takes was fitted to processor seconds of trainings (benchmarks/plan_check.py). It is an estimate. Reading tables,
binning and metrics are not in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import Link, cores
from mpfedxgb.costs.forecast import Basis, Forecast
from mpfedxgb.party.local import run_locally
from mpfedxgb.party.meter import Counts
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import COORDINATOR, Roster
from mpfedxgb.protocols.opening import open_masked
from mpfedxgb.protocols.secret import Shares
from mpfedxgb.protocols.share import KEPT_BYTES
from mpfedxgb.ring import kernels
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.prg import KEY_BYTES, Stream
from mpfedxgb.ring.ring import VECTOR
from mpfedxgb.tree.level import TableSizes

_SHORT = 0.1
_ROWS, _COLUMNS = 1 << 12, 1 << 11
"""Of a tile, and of a matrix of 64 MB, which no cache holds."""

_OPENINGS = 50

_ROUND = 2.3
"""A message round of a training, with what is dealt for it and made of it, in openings of the measurement."""

_PRODUCT = 1.95
"""Products and key streams, with the pages that they take, in those of the measurement, whose arrays are there."""

_CANDIDATE, _ROW = 15_000, 310
"""Bytes of key stream that take as long as a candidate of a node at a role; or a row of a node that is split."""

_CONSTRAINED = 36_000
"""The same of a candidate where columns have directions."""

_SEALED = 12_000
"""The same of a row whose gradient is computed on secrets."""

WORTH_MEASURING = 5.0
"""Seconds of a training from which on it is worth measuring the machine before it starts."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What one core of a machine does in a second: products, bytes of key stream, bytes read; seconds of an opening."""

    products: float
    stream: float
    reading: float
    opening: float
    cores: int


TYPICAL = Rates(products=2e10, stream=5e9, reading=1e10, opening=2e-4, cores=2)
"""Of a usual machine, for trainings that are over before another one could be measured."""


def calibrate(clock: Callable[[], float] = time.perf_counter) -> Rates:
    """Measure this machine, for about half a second; what else runs on it counts, unless the clock is the process's."""
    kernels.warm_up()
    tile, vectors = np.ones((32, _ROWS), np.uint64), np.ones((16, _ROWS), np.uint64)
    large, pair = np.ones((_COLUMNS, _ROWS), np.uint64), vectors[:2]
    out, out_of_pair = np.zeros((16, 32), np.uint64), np.zeros((2, _COLUMNS), np.uint64)
    stream, size = Stream(bytes(KEY_BYTES)), 1 << 20
    products = _a_second(lambda: kernels.dense_add(tile, vectors, out), clock) * out.size * _ROWS
    reading = _a_second(lambda: kernels.dense_add(large, pair, out_of_pair), clock) * large.nbytes
    started = clock()
    run_locally(_openings, 2)
    opening = (clock() - started) / _OPENINGS
    return Rates(products, _a_second(lambda: stream.octets(size), clock) * size, reading, opening, cores())


def _openings(party: Party) -> None:
    for _ in range(_OPENINGS):
        party.step("calibration")
        open_masked(party, Shares(RingArray.zeros(VECTOR, (8,))))


def _a_second(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return how often something is done in a second; the first time does not count."""
    work()
    started, done = clock(), 0
    while clock() - started < _SHORT:
        work()
        done += 1
    return done / (clock() - started)


def timed(predicted: Forecast, together: bool) -> Forecast:
    """Return the forecast with `seconds` filled in from a measurement of now, for its strict twin too."""
    rates, strict = calibrate(), predicted.strict
    if strict is not None:
        strict = replace(strict, seconds=estimate_seconds(strict, rates, together))
    return replace(predicted, seconds=estimate_seconds(predicted, rates, together), strict=strict)


def seconds_at_start(estimate: Callable[[Rates], float]) -> float:
    """Return an estimate for the line that a training starts with; short ones do not wait for a measurement."""
    seconds = estimate(TYPICAL)
    return seconds if seconds < WORTH_MEASURING else estimate(calibrate())


def estimate_seconds(predicted: Forecast, rates: Rates, together: bool) -> float:
    """Return about how long a training takes: all roles `together` on this machine, or each on one like it.

    Roles of one machine share its cores. Roles apart work side by side, and wait for the slowest; and for the link, by
    every hop and by what the busiest role sends.
    """
    roles = predicted.roster.roles
    work = [_work(predicted.params, predicted.sizes, role, rates) for role in roles]
    rounds = _of_rounds(predicted.rounds, predicted.roster, rates)
    if together:
        return rounds + max(sum(work) / rates.cores, max(work))
    busiest = max(counts.bytes_sent for counts in predicted.roles.values())
    return rounds + max(work) + _waiting(predicted.hops, busiest, predicted.link)


def estimate_role_seconds(basis: Basis, role: int, counts: Counts, rates: Rates) -> float:
    """Return about how long a training takes by what one participant does and waits for, on a machine like this."""
    rounds = _of_rounds(counts.rounds, basis.roster, rates)
    link = basis.settings.link
    return rounds + _work(basis.params, basis.sizes, role, rates) + _waiting(counts.hops, counts.bytes_sent, link)


def _of_rounds(rounds: int, roster: Roster, rates: Rates) -> float:
    return _ROUND * rounds * rates.opening * (roster.size + 1) / 3  # measured with three roles


def _waiting(hops: int, sent: int, link: Link) -> float:
    return hops * link.latency / 1e3 + 8 * sent / (link.bandwidth * 1e6)


def _work(params: TrainParams, sizes: TableSizes, role: int, rates: Rates) -> float:
    """Return the seconds that a role computes, but for what every message round costs."""
    columns, rounds = sum(sizes.columns), params.n_estimators
    vectors = rounds * params.trees_per_round << params.max_depth  # g and h of the roots and of all left children
    nodes = rounds * params.trees_per_round * ((1 << params.max_depth) - 1)
    levels = rounds * params.max_depth
    whole, own = 8 * sizes.rows * columns, sizes.columns_of(role)
    if role == COORDINATOR:
        products = vectors * sizes.rows * columns / rates.products
        streams = whole if whole <= KEPT_BYTES else levels * whole
    else:
        others, streams = sizes.rows * (columns - own), 8 * sizes.rows * own
        # E is read once a level; with few nodes its words take longer to come than to be multiplied.
        products = max(vectors * others / rates.products, 8 * levels * others / rates.reading)
    candidate = _CONSTRAINED if params.constrained else _CANDIDATE
    steps = nodes * (candidate * columns + _ROW * sizes.rows)
    if params.facts.hides_rows:
        steps += _SEALED * rounds * params.outputs * sizes.rows
    return _PRODUCT * (products + streams / rates.stream) + steps / rates.stream
