"""How long a training will take: what it has to do, by what this machine was measured to do in half a second.

The work is that of the forecast: products with masked matrices, key streams, openings, and what lies between the roles.
It is an estimate. Reading tables, binning and metrics are not in it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mpfedxgb.costs.forecast import Forecast
from mpfedxgb.party.local import run_locally
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import COORDINATOR
from mpfedxgb.protocols.opening import open_masked
from mpfedxgb.protocols.secret import Shares
from mpfedxgb.protocols.share import KEPT_BYTES
from mpfedxgb.ring import kernels
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.prg import KEY_BYTES, Stream
from mpfedxgb.ring.ring import VECTOR

_SHORT = 0.1
_ROWS, _COLUMNS = 1 << 12, 1 << 11
"""Of a tile, and of a matrix of 64 MB, which no cache holds."""

_OPENINGS = 50


@dataclass(frozen=True, slots=True)
class Rates:
    """What one core of a machine does in a second: products, bytes of key stream, bytes read; seconds of an opening."""

    products: float
    stream: float
    reading: float
    opening: float
    cores: int


def calibrate() -> Rates:
    """Measure this machine, for about half a second; what else runs on it counts."""
    kernels.warm_up()
    tile, vectors = np.ones((32, _ROWS), np.uint64), np.ones((16, _ROWS), np.uint64)
    large, pair = np.ones((_COLUMNS, _ROWS), np.uint64), vectors[:2]
    out, out_of_pair = np.zeros((16, 32), np.uint64), np.zeros((2, _COLUMNS), np.uint64)
    stream, size = Stream(bytes(KEY_BYTES)), 1 << 20
    products = _a_second(lambda: kernels.dense_add(tile, vectors, out)) * out.size * _ROWS
    reading = _a_second(lambda: kernels.dense_add(large, pair, out_of_pair)) * large.nbytes
    started = time.perf_counter()
    run_locally(_openings, 2, one_core=True)
    opening = (time.perf_counter() - started) / _OPENINGS
    return Rates(products, _a_second(lambda: stream.octets(size)) * size, reading, opening, os.cpu_count() or 1)


def _openings(party: Party) -> None:
    for _ in range(_OPENINGS):
        party.step("calibration")
        open_masked(party, Shares(RingArray.zeros(VECTOR, (8,))))


def _a_second(work: Callable[[], object]) -> float:
    """Return how often something is done in a second; the first time does not count."""
    work()
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < _SHORT:
        work()
        done += 1
    return done / (time.perf_counter() - started)


def timed(predicted: Forecast, together: bool) -> Forecast:
    """Return the forecast with `seconds` filled in from a measurement of now, for its strict twin too."""
    rates, strict = calibrate(), predicted.strict
    if strict is not None:
        strict = replace(strict, seconds=estimate_seconds(strict, rates, together))
    return replace(predicted, seconds=estimate_seconds(predicted, rates, together), strict=strict)


def estimate_seconds(predicted: Forecast, rates: Rates, together: bool) -> float:
    """Return about how long a training takes: all roles `together` on this machine, or each on one like it.

    Roles of one machine share its cores. Roles apart work side by side, and wait for the slowest; and for the link, by
    every hop and by what the busiest role sends.
    """
    roles = predicted.roster.roles
    work = [_work(predicted, role, rates) for role in roles]
    openings = predicted.rounds * rates.opening * len(roles) / 3  # measured with three roles
    if together:
        return openings + max(sum(work) / rates.cores, max(work))
    busiest = max(counts.bytes_sent for counts in predicted.roles.values())
    waiting = predicted.hops * predicted.link.latency / 1e3 + 8 * busiest / (predicted.link.bandwidth * 1e6)
    return openings + max(work) + waiting


def _work(predicted: Forecast, role: int, rates: Rates) -> float:
    """Return the seconds that a role computes, but for what every opening costs."""
    params, sizes = predicted.params, predicted.sizes
    columns, rounds = sum(sizes.columns), params.n_estimators
    vectors = rounds * params.trees_per_round << params.max_depth  # g and h of the roots and of all left children
    levels = rounds * params.max_depth
    expanded = predicted.dealer_bytes + max(
        c.payload_sent.get(predicted.roster.name(1), 0) for c in predicted.roles.values()
    )
    whole = 8 * sizes.rows * columns
    if role == COORDINATOR:
        times = 1 if whole <= KEPT_BYTES else levels
        streams = times * whole + predicted.roster.size * expanded
        return vectors * sizes.rows * columns / rates.products + streams / rates.stream
    own = sizes.columns[role - 1]
    streams, others = 8 * sizes.rows * own + expanded, sizes.rows * (columns - own)
    # E is read once a level; with few nodes its words take longer to come than to be multiplied.
    return max(vectors * others / rates.products, 8 * levels * others / rates.reading) + streams / rates.stream
