"""Sums of products of masked bits, on planes: one round for polynomials of any degree.

A masked bit is b = m ^ rho. Of a product of bits, expanded over subsets of masks, the public bits are known and the
products of masks are dealt, so a polynomial of opened bits is a local combination of dealt bits (ABY2.0's products of
many factors, over bits: Patra, Schneider, Suresh, Yalame, USENIX Security 2021).

With rows c_S, at first the shares of the product of masks over S, the step c_S ^= m_v & c_{S - v}, taken for one
variable after the other, leaves the shares of the product of bits over S.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpfedxgb.ring.kernels import I64, U8
from mpfedxgb.ring.planes import as_octets, as_words, evaluate_planes, multiply_planes, words_of

Terms = Sequence[int]
"""A sum of products: each is the set of its variables, as a number with their bits set (0 is the constant 1)."""


@dataclass(frozen=True, slots=True, eq=False)
class Polynomials:
    """Several sums of products over the same masked bits: how many, what is dealt for them, and how they are had."""

    variables: int
    outputs: int
    recipe: I64
    program: I64
    sums: I64

    @property
    def dealt(self) -> int:
        """Number of products of masks, in planes."""
        return len(self.recipe)

    def products(self, masks: U8) -> U8:
        """Return what the coordinator deals, from the masks (variables, B) to (dealt, B)."""
        out = np.empty((self.dealt, words_of(masks.shape[1])), np.uint64)
        multiply_planes(as_words(masks), self.recipe, out)
        return as_octets(out, masks.shape[1])

    def evaluate(self, constant: int, masks: U8, dealt: U8, opened: U8) -> U8:
        """Return one role's shares of the sums (outputs, B); constant 1 for the role that adds public terms.

        masks (variables, B), dealt (dealt, B) and opened (variables, B) as they come from streams and frames.
        """
        first = np.full((1, masks.shape[1]), 255 * constant, np.uint8)
        rows = as_words(first, masks, dealt)
        out = np.zeros((self.outputs, rows.shape[1]), np.uint64)
        evaluate_planes(rows, as_words(opened), self.program, self.sums, out)
        return as_octets(out, masks.shape[1])


def polynomials(variables: int, outputs: Sequence[Terms]) -> Polynomials:
    """Lay out the sums of products of some masked bits.

    Rows are the constant, the variables, and the products of two or more masks that the program needs.
    """
    needed = {term for terms in outputs for term in terms}
    lines = []
    for v in reversed(range(variables)):  # from the last line back: what a row needs, has to be there
        with_v = sorted(s for s in needed if s >> v & 1)
        lines.append([(s, s ^ (1 << v), v) for s in with_v])
        needed.update(s ^ (1 << v) for s in with_v)
    products = sorted((s for s in needed if s.bit_count() > 1), key=lambda s: (s.bit_count(), s))
    rows = {0: 0} | {1 << v: 1 + v for v in range(variables)}
    rows |= {s: 1 + variables + k for k, s in enumerate(products)}
    highest = [s.bit_length() - 1 for s in products]
    return Polynomials(
        variables,
        len(outputs),
        _table([(rows[s ^ (1 << v)], v) for s, v in zip(products, highest, strict=True)], 2),
        _table([(rows[s], rows[t], v) for of_one in reversed(lines) for s, t, v in of_one], 3),
        _table([(o, rows[term]) for o, terms in enumerate(outputs) for term in terms], 2),
    )


def _table(lines: Sequence[tuple[int, ...]], width: int) -> I64:
    return np.array(lines, np.int64).reshape(-1, width)
