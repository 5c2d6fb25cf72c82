"""The softmax on secrets: probabilities of several classes from margins that nobody sees (`mpfedxgb.softmax`)."""

from __future__ import annotations

from dataclasses import replace

from mpfedxgb.exponential import ENTRY_BITS
from mpfedxgb.modes.sealed.look_ups import COMPARED_IN, Argument, entries_of, open_answers, powers_of, round_each
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.bits import Bit, BitField, BitProduct, bits_to_ring, select, sums_of_bit_products
from mpfedxgb.protocols.compare_bits import Borrow, Sign
from mpfedxgb.protocols.opening import Product, masking, multiplying, open_pending, sums_of_products
from mpfedxgb.protocols.quotient import round_off
from mpfedxgb.protocols.secret import Secret, concatenate
from mpfedxgb.ring.ring import VECTOR
from mpfedxgb.softmax import (
    C0_SHIFT,
    C1_SHIFT,
    DROPPED_BITS,
    FIELDS,
    PRODUCT_PLACES,
    REMAINDER_BITS,
    SUM_BITS,
    WORD_BITS,
    power_places,
    powers,
    segment_bits,
    sum_places,
    top,
    words,
)


def softmax_of(party: Party, margins: Secret, bits: int) -> tuple[Secret, Bit]:
    """Return P (classes, rows) of margins, whose differences have `bits` bits, and where it counts: it is 0 elsewhere.

    1. Find the largest margin of each row (`largest`).
    2. Look up exp(F_k - M) for every class k, which is 0 below the range of the table, and add them up for each row.
    3. Round all of them off, each exponential for e and the sum for S.
    4. Look up the segment of S, and compute R = 1 / S.
    5. Multiply e and R, and round off.

    Rounds: 4 for every doubling of the classes, and 31. Reveals: nothing.
    """
    classes, f = margins.shape[0], powers()
    x = margins - largest(party, margins, bits) + (top(classes) - f.low)
    below, borrow = open_answers(party, [Sign(x, bits), Borrow(x, f.remainder_bits)])
    found = entries_of(party, [Argument(x, f.words, ENTRY_BITS, f.remainder_bits, bits)], [borrow])
    (v,) = powers_of(party, found, [f])
    within = ~below
    (total,) = sums_of_bit_products(party, [BitProduct((within,), v, axis=0)], name="sum of classes")
    e, S = round_each(party, [(v, power_places(classes)), (total, sum_places(classes))])
    R = _reciprocal(party, S, classes)
    (product,) = sums_of_products(party, [[Product((e, R))]], name="probability")
    return round_off(party, product, PRODUCT_PLACES, COMPARED_IN), within


def largest(party: Party, margins: Secret, bits: int) -> Secret:
    """Return the largest of each column of (classes, rows), (1, rows): the winner of a tournament.

    Rounds: 4 for every doubling of the classes. Reveals: nothing.
    """
    while margins.shape[0] > 1:
        half = margins.shape[0] // 2
        x, y, rest = margins[:half], margins[half : 2 * half], margins[2 * half :]
        (less,) = open_answers(party, [Sign(x - y, bits)])
        margins = concatenate([*select(party, less, [(x, y)]), rest], axis=0)
    return margins


def _reciprocal(party: Party, S: Secret, classes: int) -> Secret:
    """Return R = 2^56 / S. Rounds: 11. Reveals: nothing."""
    x, segments = S - (1 << SUM_BITS), segment_bits(classes)
    (borrow,) = open_answers(party, [Borrow(x, REMAINDER_BITS)])
    argument = Argument(x, words(segments), WORD_BITS, REMAINDER_BITS, SUM_BITS + segments, segments)
    ((entry, t),) = entries_of(party, [argument], [borrow])
    fields = [BitField(f.first, f.width, f.is_signed) for f in FIELDS]
    c0, *factors = bits_to_ring(party, entry, fields, VECTOR)
    c1, c2 = open_pending(party, [masking(party, c) for c in factors])
    (curve,) = multiplying(party, [[Product((c1, t), 1 << C1_SHIFT), Product((c2, t, t))]], name="quadratic")
    (value,) = open_pending(party, [replace(curve, part=curve.part + c0.part * (1 << C0_SHIFT))])
    return round_off(party, value, DROPPED_BITS, COMPARED_IN)
