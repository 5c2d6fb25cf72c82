"""The integer sigmoid against the logistic function at every margin that it tells apart, all 2^29 of them.

    python benchmarks/sigmoid_error.py

Prints the largest error in units of 2^-24 and where it is, the range of p, and at how many margins p falls while the
margin rises by one unit: the quadratics of neighbouring segments need not meet. Some 15 seconds. Exit code 1 if an
error is a unit or more.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from mpfedxgb.sigmoid import LIMIT, PLACES, sigmoid

_AT_ONCE = 1 << 21


@dataclass(slots=True)
class Errors:
    """What was found so far."""

    largest: float = 0.0
    margin: int = 0
    least: int = 1 << PLACES
    most: int = 0
    falls: int = 0

    def add(self, first: int, last: int) -> None:
        """Look at the margins from one to before another, and at the step to the next."""
        F = np.arange(first, last + 1)
        p = sigmoid(F)
        self.falls += int((np.diff(p) < 0).sum())
        error = np.abs(p - np.ldexp(1 / (1 + np.exp(-np.ldexp(F.astype(np.float64), -PLACES))), PLACES))
        if error.max() > self.largest:
            self.largest, self.margin = float(error.max()), int(F[error.argmax()])
        self.least, self.most = min(self.least, int(p.min())), max(self.most, int(p.max()))


def main() -> None:
    """Look everywhere and print what was found."""
    found = Errors()
    for first in range(-LIMIT, LIMIT, _AT_ONCE):
        found.add(first, first + _AT_ONCE)
    print(f"largest error {found.largest:.4f} units of 2^-{PLACES}, at {np.ldexp(found.margin, -PLACES):.7f}")
    print(f"p from {found.least} to {found.most}; it falls at {found.falls} of {2 * LIMIT} steps")
    sys.exit(0 if found.largest < 1 else 1)


if __name__ == "__main__":
    main()
