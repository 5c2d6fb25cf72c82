"""What nobody may have of a sealed training, from everybody's files together; and whether a file gives it away."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.join import Joined
from mpfedxgb.sigmoid import PLACES, sigmoid
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Leaf

Ints = npt.NDArray[np.int64]
_SMALL, _ROUND = 1 << 17, 1 << 10
"""Small numbers, such as ports, and round ones stand in files by chance."""
_DIGITS = 6
"""Fewer stand there by chance too: seconds are rounded to thousandths. A number of 24 bits has more."""
_NUMBER = re.compile(rb"-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Truths:
    """Numbers of a training in units of 2^-24, and gains of its splits."""

    integers: frozenset[int]
    gains: tuple[float, ...]

    def found_in(self, content: bytes) -> list[str]:
        """Return what a file tells: as text, or as bytes of an integer or a float in either order."""
        found = []
        numbers = [*(np.ldexp(float(n), -PLACES) for n in self.integers), *self.gains]
        for n in self.integers:
            found += [f"{n} as {form}" for form in ("<q", ">q") if struct.pack(form, n) in content]
        for x in numbers:
            found += [f"{x} as {form}" for form in ("<d", ">d") if struct.pack(form, x) in content]
        near = np.sort(np.abs(numbers))
        for token in _NUMBER.findall(content):
            if token.lstrip(b"-").isdigit():
                value = int(token)
                shifted = {value, value >> (WEIGHT_BITS - PLACES)} if abs(value) < 1 << 62 else set()
                found += [f"{n} as text" for n in shifted & self.integers]
            elif _tells(token, near):
                found.append(f"{token.decode()} as text")
        return found


def _tells(token: bytes, numbers: npt.NDArray[np.float64]) -> bool:
    """Return whether a text is one of some numbers, to as many digits as it has."""
    _, digits, exponent = Decimal(token.decode()).as_tuple()
    value = abs(float(token))
    if len(digits) < _DIGITS or not isinstance(exponent, int) or not np.isfinite(value):
        return False
    return bool((np.abs(numbers - value) <= max(0.5 * 10.0**exponent, 1e-10 * value)).any())


def truths_of(whole: Joined, y: npt.NDArray[np.float64], margins: Sequence[Ints]) -> Truths:
    """Return leaf weights, margins, gradients, sums and gains of every node, from the margins after each round.

    The first are those before the first round. Rows of one leaf have grown by one weight.
    """
    numbers: list[int] = [int(n) for m in margins for n in m]
    gains: list[float] = []
    for tree, before, after in zip(whole.trees, margins[:-1], margins[1:], strict=True):
        p = sigmoid(before)
        g, h = p - (y.astype(np.int64) << PLACES), (p * ((1 << PLACES) - p) + (1 << (PLACES - 1))) >> PLACES
        numbers += [*p.tolist(), *g.tolist(), *h.tolist()]
        sums: dict[int, tuple[int, int]] = {}
        for place in reversed(range(len(tree))):
            node = tree[place]
            if isinstance(node, Leaf):
                assert node.weight is not None
                weight = node.weight >> (WEIGHT_BITS - PLACES)
                rows = after - before == weight
                sums[place] = int(g[rows].sum()), int(h[rows].sum())
                numbers.append(weight)
            else:
                left, right = sums[node.left], sums[node.right]
                sums[place] = left[0] + right[0], left[1] + right[1]
                parts = [_part(sums[k], whole.params.reg_lambda) for k in (node.left, node.right, place)]
                gains.append(parts[0] + parts[1] - parts[2])
        numbers += [n for pair in sums.values() for n in pair]
    telling = {int(n) for n in numbers if abs(n) >= _SMALL and n % _ROUND}
    return Truths(frozenset(telling | {-n for n in telling}), tuple(gains))


def _part(sums: tuple[int, int], reg_lambda: float) -> float:
    """Return G^2 / (H + lambda)."""
    G, H = (float(np.ldexp(float(n), -PLACES)) for n in sums)
    return G * G / (H + reg_lambda)


def margins_kept(folders: Sequence[Path], rounds: int) -> Ints:
    """Return the margins after a round, from everybody's shares."""
    shares = [np.fromfile(folder / f"margins-{rounds:06}.checkpoint", "<u8") for folder in folders]
    total = shares[0].copy()
    for share in shares[1:]:
        total += share
    return total.view(np.int64)
