"""The compiled loops of trees that grow in the clear: sums and scores of all candidates, and rows by their side.

The sums are exact integers. The scores are doubles, within a few units in the last place of what the integers say;
`modes/none/tree.py` looks again, exactly, where two of them are too near to tell.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from mpfedxgb.ring.kernels import I64, U8, compiled, reads, writes

F64 = npt.NDArray[np.float64]
Codes = npt.NDArray[np.unsignedinteger[Any]]

FEATURE, LOW, HIGH, MISSING_LEFT, CATEGORY = range(5)
"""What a row of `items` says of a candidate, as `data.binning.Candidate` does."""

LANES = 4
"""Histograms that rows take turns in: with few bins, one addition would wait for the last one to the same bin."""

_LANES = np.uint64(LANES)  # an index that cannot be negative is not looked at

NOT_ALLOWED = -1.0
"""The score of a candidate that does not take part."""

NEARLY = 2.0**-50
"""Two products of two numbers each that are nearer than this, as a share of both, may be the other way round."""

_i64, _f64, _u8 = numba.int64, numba.float64, numba.uint8
_KINDS = (numba.uint8, numba.uint16, numba.uint32)
_R1, _R2, _W1, _W2, _W3 = reads(_i64, 1), reads(_i64, 2), writes(_i64, 1), writes(_i64, 2), writes(_i64, 3)
_NUMBERS = (reads(_u8, 1), _f64, _i64, _i64, _f64)
_OUT = (_W3, writes(_f64, 2))


@compiled(*((reads(kind, 1), _R1, _R2, _i64, _i64, _i64, _W3, _W2) for kind in _KINDS))
def _add_up(codes: Codes, order: I64, gh: I64, start: int, stop: int, count: int, lanes: I64, bins: I64) -> None:
    """Write the sums of gh over the rows of each bin, of which there are count + 1; lanes (LANES, K, 2) are for use."""
    used = LANES if stop - start > LANES * count else 1
    lanes[:used, : count + 1] = 0
    if used == 1:
        for i in range(start, stop):
            k = codes[np.uint64(order[i])]
            lanes[0, k, 0] += gh[i, 0]
            lanes[0, k, 1] += gh[i, 1]
    else:
        for i in range(start, stop):
            k, turn = codes[np.uint64(order[i])], np.uint64(i) % _LANES
            lanes[turn, k, 0] += gh[i, 0]
            lanes[turn, k, 1] += gh[i, 1]
    for k in range(count + 1):
        bins[k, 0], bins[k, 1] = lanes[0, k, 0], lanes[0, k, 1]
        for lane in range(1, used):
            bins[k, 0] += lanes[lane, k, 0]
            bins[k, 1] += lanes[lane, k, 1]


@compiled(*((reads(kind, 2), _R1, _R2, _R2, _R1, reads(_u8, 1), _W3) for kind in _KINDS))
def sum_bins(codes: Codes, order: I64, gh: I64, nodes: I64, counts: I64, wanted: U8, sums: I64) -> None:
    """Write G and H of all rows of every node, and then of each bin of every feature that is wanted.

    codes (F, N) are bins, where counts (F) stands for missing; order and gh (N), (N, 2) list the rows node by node, and
    nodes (n, 3) say where each begins and ends, and its place in sums (any, 1 + all bins and missing ones, 2).
    """
    most = counts.max() + 1 if len(counts) else 1
    lanes = np.empty((LANES, most, 2), np.int64)
    for n in range(nodes.shape[0]):
        start, stop, own = nodes[n, 0], nodes[n, 1], sums[nodes[n, 2]]
        G, H = 0, 0
        for i in range(start, stop):
            G += gh[i, 0]
            H += gh[i, 1]
        own[0, 0], own[0, 1] = G, H
        first = 1
        for feature in range(len(counts)):
            last = first + counts[feature] + 1
            if wanted[feature]:
                _add_up(codes[feature], order, gh, start, stop, counts[feature], lanes, own[first:last])
            first = last


@compiled((_i64, _f64, _i64, _f64))
def score_side(G: int, D: float, alpha: int, delta: float) -> float:
    """Return the score of a side, D = H + lambda: T^2 / D for T = |G| - alpha, or what a weight clipped at delta gives.

    Without cancellation: clipped means T > delta D, and 2 T - delta D is not less than T then.
    """
    T = float(max(abs(G) - alpha, 0))
    step = delta * D
    return delta * (2.0 * T - step) if step < T else T * T / D


@compiled((reads(_i64, 3), _R2, _R1, *_NUMBERS, *_OUT))
def score_candidates(
    sums: I64,
    items: I64,
    counts: I64,
    allowed: U8,
    lam: float,
    mcw: int,
    alpha: int,
    delta: float,
    left: I64,
    scores: F64,
) -> None:
    """Write G and H of the left side of every candidate in every node, and its score, the sum of both sides'.

    sums (n, ..., 2) as `sum_bins` writes them; items (C, 5), by feature ascending. A side lighter than mcw has no
    score. delta is infinite for weights without a bound. left (n, C, 2), scores (n, C).
    """
    most = counts.max() + 1 if len(counts) else 1
    prefix = np.zeros((most + 1, 2), np.int64)
    for n in range(sums.shape[0]):
        G, H = sums[n, 0, 0], sums[n, 0, 1]
        feature, first, count = -1, 1, -1
        for c in range(items.shape[0]):
            while feature < items[c, FEATURE]:
                first += count + 1
                feature += 1
                count = counts[feature]
                fresh = True
            if not allowed[c]:
                scores[n, c] = NOT_ALLOWED
                continue
            if fresh:
                fresh = False
                for k in range(count):
                    prefix[k + 1, 0] = prefix[k, 0] + sums[n, first + k, 0]
                    prefix[k + 1, 1] = prefix[k, 1] + sums[n, first + k, 1]
            low, high = items[c, LOW], items[c, HIGH]
            GL, HL = prefix[high, 0] - prefix[low, 0], prefix[high, 1] - prefix[low, 1]
            if items[c, CATEGORY]:
                GL, HL = prefix[count, 0] - GL, prefix[count, 1] - HL
            if items[c, MISSING_LEFT]:
                GL, HL = GL + sums[n, first + count, 0], HL + sums[n, first + count, 1]
            left[n, c, 0], left[n, c, 1] = GL, HL
            HR = H - HL
            if min(HL, HR) >= mcw:
                a = score_side(GL, float(HL) + lam, alpha, delta)
                scores[n, c] = a + score_side(G - GL, float(HR) + lam, alpha, delta)
            else:
                scores[n, c] = NOT_ALLOWED


@compiled((_i64, _i64))
def threshold(G: int, alpha: int) -> int:
    """Return G, alpha nearer to 0, or 0."""
    T = max(abs(G) - alpha, 0)
    return T if G > 0 else -T


@compiled((_i64, _f64, _i64, _f64, _f64))
def score_held(G: int, D: float, alpha: int, lo: float, hi: float) -> tuple[float, float]:
    """Return the score of a side whose weight is held to [lo, hi], and the sum of its terms' sizes, D = H + lambda."""
    T = float(threshold(G, alpha))
    w = -T / D
    if lo <= w <= hi:
        return T * T / D, T * T / D
    b = lo if w < lo else hi
    linear, square, penalty = 2.0 * G * b, D * b * b, 2.0 * alpha * abs(b)
    return -(linear + square + penalty), abs(linear) + square + penalty


@compiled(
    (reads(_i64, 3), reads(_i64, 2), reads(_i64, 1), _f64, _i64, reads(_f64, 2), writes(_f64, 2), writes(_f64, 2))
)
def hold_candidates(
    left: I64, totals: I64, directions: I64, lam: float, alpha: int, bounds: F64, scores: F64, sizes: F64
) -> None:
    """Write the scores of candidates whose weights are held to their nodes' bounds (n, 2), and their terms' sizes.

    left (n, C, 2) and scores (n, C) as `score_candidates` writes them, totals (n, 2). A candidate that does not take
    part, or has its weights the wrong way round, scores minus infinity. Where doubles do not tell which way round they
    are, its size is negative.
    """
    for n in range(left.shape[0]):
        G, H, lo, hi = totals[n, 0], totals[n, 1], bounds[n, 0], bounds[n, 1]
        for c in range(left.shape[1]):
            sizes[n, c] = 0.0
            if scores[n, c] == NOT_ALLOWED:
                scores[n, c] = -np.inf
                continue
            GL, HL = left[n, c, 0], left[n, c, 1]
            GR, DL, DR = G - GL, float(HL) + lam, float(H - HL) + lam
            sign = 1.0
            if directions[c]:
                a, b = float(threshold(GL, alpha)) * DR, float(threshold(GR, alpha)) * DL
                if abs(a) + abs(b) > 0.0 and abs(a - b) <= (abs(a) + abs(b)) * NEARLY:
                    sign = -1.0
                elif directions[c] * (a - b) < 0.0:
                    scores[n, c] = -np.inf
                    continue
            of_left, size_left = score_held(GL, DL, alpha, lo, hi)
            of_right, size_right = score_held(GR, DR, alpha, lo, hi)
            scores[n, c], sizes[n, c] = of_left + of_right, sign * (size_left + size_right)


@compiled(*((reads(kind, 2), _R2, _R1, _R2, _W1, _W2, _W1) for kind in _KINDS))
def part_rows(codes: Codes, items: I64, counts: I64, splits: I64, order: I64, gh: I64, middles: I64) -> None:
    """Put the rows of nodes in place: those that go left first, otherwise as they were; write where the others begin.

    splits (n, 3): where a node begins and ends in order (N) and gh (N, 2), and its candidate. middles (n).
    """
    most = 0
    for n in range(splits.shape[0]):
        most = max(most, splits[n, 1] - splits[n, 0])
    rows, sums = np.empty(most, np.int64), np.empty((most, 2), np.int64)
    for n in range(splits.shape[0]):
        start, stop, c = splits[n, 0], splits[n, 1], splits[n, 2]
        feature, low, high = items[c, FEATURE], items[c, LOW], items[c, HIGH]
        missing_left, category, count = items[c, MISSING_LEFT] != 0, items[c, CATEGORY] != 0, counts[feature]
        here, aside = start, 0
        for i in range(start, stop):
            k = np.int64(codes[feature, order[i]])
            present = k < count
            goes_left = (present & ((low <= k) & (k < high) ^ category)) | (~present & missing_left)
            row, g, h = order[i], gh[i, 0], gh[i, 1]
            # Written to both sides, and counted on one: a branch would be guessed wrongly half the time.
            order[here], gh[here, 0], gh[here, 1] = row, g, h
            rows[aside], sums[aside, 0], sums[aside, 1] = row, g, h
            here += goes_left
            aside += 1 - goes_left
        middles[n] = here
        order[here:stop] = rows[:aside]
        gh[here:stop] = sums[:aside]
