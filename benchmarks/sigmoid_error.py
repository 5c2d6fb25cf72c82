"""The integer sigmoid and exponential against the true ones at every margin that they tell apart, all 2^29 of them.

    python benchmarks/sigmoid_error.py [--rate RATE | --classes K]

Prints the sigmoid's largest error in units of 2^-24 and where it is, the range of p, and at how many margins p falls
while the margin rises by one unit: the quadratics of neighbouring segments need not meet. With --rate it looks at
exp(rate x) instead: the largest error beyond a unit, relative to exp. Some 15 seconds, more for smaller rates, whose
ranges have more numbers. With --classes it draws margins of K classes, near each other and far apart, as no machine can
look at all of them. Exit code 1 if an error is larger than the module says.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np

from mpfedxgb.exponential import exponential
from mpfedxgb.sigmoid import LIMIT, PLACES, sigmoid
from mpfedxgb.softmax import hessian, softmax

_AT_ONCE = 1 << 21
_TIMES = 16
"""How often margins of classes are drawn."""


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


def of_exponential(rate: float) -> tuple[float, float]:
    """Return the largest error for exp < 1 in units of 2^-24, and of all beyond a unit, relative to exp."""
    f, small, beyond = exponential(rate), 0.0, 0.0
    for first in range(f.low, f.low + f.width, _AT_ONCE):
        x = np.arange(first, min(first + _AT_ONCE, f.low + f.width))
        true = np.exp(rate * np.ldexp(x.astype(np.float64), -PLACES))
        off = np.abs(np.ldexp(f.at(x).astype(np.float64), -PLACES) - true)
        small = max(small, float(off[true < 1].max(initial=0.0)) * (1 << PLACES))
        beyond = max(beyond, float(((off - 2.0**-PLACES) / true).max()))
    return small, beyond


def error_of_softmax(classes: int, rows: int, seed: int = 0) -> tuple[float, float]:
    """Return the largest errors of P and of h at random margins, in units of 2^-24.

    Some margins of a row are drawn at the centre or the ends of segments of the exponential, where it errs most.
    """
    rng, of_p, of_h = np.random.default_rng(seed), 0.0, 0.0
    for spread in (0.0, 0.3, 1.0, 3.0, 10.0, 40.0):
        F = np.rint(np.ldexp(spread * rng.normal(size=(classes, rows)), PLACES)).astype(np.int64)
        near = rng.integers(-(1 << 4), 1 << 4, F.shape) << 18
        F = np.where(rng.random(F.shape) < 0.3, F[:1] + near + rng.integers(-1, 2, F.shape), F)
        P = softmax(F)
        true = np.exp(np.ldexp((F - F.max(axis=0)).astype(np.float64), -PLACES))
        true /= true.sum(axis=0)
        of_p = max(of_p, float(np.abs(P - np.ldexp(true, PLACES)).max()))
        of_h = max(of_h, float(np.abs(hessian(P) - np.ldexp(2 * true * (1 - true), PLACES)).max()))
    return of_p, of_h


def main() -> None:
    """Look everywhere and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, help="of the exponential, from 1/32 to 1")
    parser.add_argument("--classes", type=int, help="of the softmax, from 1 to 256")
    args = parser.parse_args()
    rate, classes = args.rate, args.classes
    if classes is not None:
        of_p, of_h = np.max([error_of_softmax(classes, 1 << 16, k) for k in range(_TIMES)], axis=0)
        print(f"softmax of {classes}: largest error of P {of_p:.4f} and of h {of_h:.4f} units of 2^-{PLACES}")
        sys.exit(0 if max(of_p - 2.3, of_h - 3.2) < 0 else 1)
    if rate is not None:
        small, beyond = of_exponential(rate)
        print(f"exp({rate:g} x): error {small:.4f} units of 2^-{PLACES} below 1; beyond a unit 2^{np.log2(beyond):.2f}")
        sys.exit(0 if beyond < 2.0 ** (-22.4 if rate == 1 else -20.6) else 1)
    found = Errors()
    for first in range(-LIMIT, LIMIT, _AT_ONCE):
        found.add(first, first + _AT_ONCE)
    print(f"largest error {found.largest:.4f} units of 2^-{PLACES}, at {np.ldexp(found.margin, -PLACES):.7f}")
    print(f"p from {found.least} to {found.most}; it falls at {found.falls} of {2 * LIMIT} steps")
    sys.exit(0 if found.largest < 1 else 1)


if __name__ == "__main__":
    main()
