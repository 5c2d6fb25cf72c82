"""Division of secrets: exact, by Newton's method, and by a power of two; and from a ring to a wider one (`lift`).

Long division (`quotient`) compares all multiples of the denominator at once, and finds floor(n / d) digit by digit from
the top, in 4 rounds a digit. For a digit of w bits at place p, the remainder R is compared with k 2^p d for all
k = 1 .. 2^w - 1; what is compared is a linear combination of masked secrets, so it is there without a message. Who fits
is a thermometer code, b_1 >= b_2 >= ..., of the digit q. Its i-th bit is the parity of floor(q / 2^i), the number of
multiples of 2^i among the k that fit: the bits of the digit are sums of shared bits, and only they are opened and
multiplied with d.

Newton's reciprocal (`divide`, the paper's DIV of Appendix B) approximates in fixed point, from a public bound and in
some iterations, for comparison with the division-free way.

By a power of two, secrets are rounded down, rounded off, or cut in two, exactly. All three need to know whether the low
bits of the masked value are less than those of the mask: subtracting them borrows 1 from the bits above. Catrina, de
Hoogh, "Improved Primitives for Secure Multiparty Integer Computation" (SCN 2010), compare both alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import prod

import numpy as np

from mpfedxgb.config import LINKS, Link
from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party.party import Party, Spec, wire_bytes
from mpfedxgb.protocols.bits import Bit, BitProduct, open_bit, sums_of_bit_products
from mpfedxgb.protocols.compare import DIGIT, less_than
from mpfedxgb.protocols.compare_bits import BitSigns, Borrow, bit_signs, compare_together, negative_by_bits
from mpfedxgb.protocols.opening import Pending, masking, multiply, open_masked, open_pending
from mpfedxgb.protocols.plan import cost
from mpfedxgb.protocols.secret import (
    Secret,
    Shares,
    add_public,
    concatenate,
    concatenate_shares,
    public_secret,
    public_shares,
    to_shares,
)
from mpfedxgb.ring.array import RingArray, shift_right, top_bit
from mpfedxgb.ring.ring import BIT, Ring

ITERATIONS = 20
"""What the paper found enough (section 6.1)."""


def reciprocal(party: Party, d: Secret, bound: int, fraction_bits: int, iterations: int = ITERATIONS) -> Secret:
    """Return about 2^(2 f) / d for integers 0 < d <= bound in fixed point with f = fraction_bits (Eq. 20).

    Ring shares have no magnitude, so x starts from the public bound: x_0 = 2^-b, for a bound of b bits, makes
    0 < d x_0 < 1. The error 1 - d x squares with every iteration x <- x (2 - d x): log2(bound / d) iterations bring it
    below one half, and five more to about 2^-23.

    Rounds: 8 per iteration (two MULs, two truncations). Reveals: nothing.
    """
    f, width = fraction_bits, bound.bit_length()
    if 2 * f + 2 > d.ring.bits - 2 or width + f + 2 > d.ring.bits - 2:
        raise DoesNotFitError(
            f"{f} fraction bits and a bound of {width} bits do not fit {d.ring}", parameter="fraction_bits", value=f
        )
    if min(3 * f, 3 * f - width + iterations) + 1 > d.ring.bits - 2:  # x (2 - d x) reaches 2^(3 f) / d
        text = f"with {f} fraction bits, {iterations} iterations on d = 1 overflow {d.ring}"
        raise DoesNotFitError(text, parameter="iterations", value=iterations)
    if width > 2 * f:
        text = f"a bound of {width} bits leaves nothing of its reciprocal in {f} fraction bits"
        raise DoesNotFitError(text, parameter="bound", value=width)
    with party.phase("reciprocal"):
        x = public_secret(party, d.ring, 1 << (2 * f - width)).broadcast_to(d.shape)
        for _ in range(iterations):
            dx = truncate(party, multiply(party, d, x), f)
            x = truncate(party, multiply(party, x, 2 * (1 << f) - dx), f)
    return x


def divide(party: Party, c: Secret, d: Secret, bound: int, fraction_bits: int, iterations: int = ITERATIONS) -> Secret:
    """Return about c / d in fixed point: one reciprocal and one MUL, 2 n + 1 MULs for n iterations (DIV).

    Rounds: 8 n + 4. Reveals: nothing.
    """
    x = reciprocal(party, d, bound, fraction_bits, iterations)
    return truncate(party, multiply(party, c, x), fraction_bits)


WIDEST = 10
"""Bits of a digit: with every bit more, twice as much is compared, in fewer digits."""

COMPARED_IN = 2
"""Rounds of the comparisons."""

LEAST_LATENCY = LINKS["lan"].latency
"""Milliseconds that are planned for at least: where roles share a machine, to save rounds costs next to nothing."""


@dataclass(frozen=True, slots=True)
class Digit:
    """One digit of a quotient: `width` bits, the lowest at `place`; `bits` bound the numbers whose signs are taken."""

    place: int
    width: int
    bits: int

    @property
    def multiples(self) -> int:
        """Multiples of the denominator that the remainder is compared with."""
        return (1 << self.width) - 1

    @property
    def signs(self) -> BitSigns:
        """How they are compared."""
        return bit_signs(self.bits, COMPARED_IN)


@dataclass(frozen=True, slots=True)
class LongDivision:
    """The sizes of `count` divisions at once, digit by digit from the top (see `quotient`)."""

    count: int
    ring: Ring
    digits: tuple[Digit, ...]

    @property
    def steps(self) -> int:
        """Steps of the program: per digit, its comparisons, its bits, and the remainder or the result."""
        return 3 * len(self.digits)

    @property
    def dealt_bytes(self) -> int:
        """Bytes from the coordinator: for the comparisons, for the remainders, and for the result."""
        specs: list[Spec] = []
        for each in self.digits:
            specs += each.signs.dealt(self.count * each.multiples)
            specs += [(self.ring, (self.count, each.width))] * (3 if each.place else 1)
        return wire_bytes(specs)

    def opened_bytes(self) -> list[int]:
        """Return the bytes of each opening, in order."""
        sizes = []
        for each in self.digits:
            sizes += [wire_bytes(specs) for specs in each.signs.opened(self.count * each.multiples)]
            sizes += [wire_bytes([(BIT, (self.count, each.width))]), wire_bytes([(self.ring, (self.count,))])]
        return sizes


def quotient(
    party: Party, n: Secret, d: Secret, quotient_bits: int, denominator_bits: int, digit: int | None = None
) -> Secret:
    """Return floor(n / d), for 0 <= n < 2^quotient_bits d and 0 < d < 2^denominator_bits; shapes broadcast.

    Per digit, from the top:

    1. Take the signs of R - k 2^p d for all k, in as many bits as bound them; R = n at first.
    2. Add up the answers to the bits of the digit, and open these under masks.
    3. Unless it was the last digit, subtract the digit times 2^p d from R, as a sum of gated secrets.

    At the end, the coordinator deals the masks of all bits in the ring of n; their sum is opened under a fresh mask.
    Digits have `digit` bits or fewer; without it, as many as are cheapest for the number of values (`long_division`).

    Rounds: 4 a digit, and fewer where the numbers are short. Sent: what `negative_by_bits` takes for each multiple, and
    per value the bits of the quotient and an element a digit, by each auxiliary. Reveals: nothing.
    """
    _check(n, d, quotient_bits, denominator_bits)
    ring, shape = n.ring, np.broadcast_shapes(n.shape, d.shape)
    if digit is None:
        sizes = prod(shape), ring, quotient_bits, denominator_bits
        digits = long_division(*sizes, party.roster.size, party.topology, party.link).digits
    else:
        digits = digits_of(quotient_bits, denominator_bits, digit)
    remainder, d = n.broadcast_to(shape), d.broadcast_to(shape)[..., None]
    found, weights = [], []
    with party.phase("quotient"):
        for each in digits:
            bits = _digit(party, remainder, d, each)
            powers = [1 << (each.place + i) for i in range(each.width)]
            if each.place:
                gated = BitProduct((bits,), -d.scaled(RingArray.encode(ring, powers)), remainder, axis=-1)
                (remainder,) = sums_of_bit_products(party, [gated], name="remainder")
            found.append(bits.secret)
            weights += powers
        return _number(party, concatenate(found), RingArray.encode(ring, weights))


def rounded_quotient(
    party: Party, n: Secret, d: Secret, largest: int, denominator_bits: int, digit: int | None = None
) -> Secret:
    """Return n / d rounded to the nearest integer, floor((2 n + d) / (2 d)): halves go up, for either sign of n.

    For 0 < d < 2^denominator_bits, and a result of at most `largest` in absolute value: this is added to the quotient
    on the way, so that it is not negative.

    Rounds: as `quotient`. Sent: as `quotient`. Reveals: nothing.
    """
    if largest < 0:
        text = f"largest={largest} bounds a quotient in absolute value; it is 0 or more"
        raise DoesNotFitError(text, parameter="largest", value=largest)
    bits = largest.bit_length() + 1
    _check(n, d, bits, denominator_bits + 1)
    shifted = 2 * n + d * (2 * largest + 1)
    return quotient(party, shifted, 2 * d, bits, denominator_bits + 1, digit) - largest


@lru_cache(maxsize=256)
def long_division(
    count: int,
    ring: Ring,
    quotient_bits: int,
    denominator_bits: int,
    participants: int,
    topology: str = "star",
    link: Link = LINKS["local"],
) -> LongDivision:
    """Return the cheapest digits for `count` quotients at once, over a link.

    For few quotients rounds decide, so there are few digits, and wide ones; for many, bytes do. All roles plan from the
    same numbers, and so alike.
    """
    link = Link(max(link.latency, LEAST_LATENCY), link.bandwidth)
    widths = range(1, min(WIDEST, quotient_bits) + 1)
    ways = [LongDivision(count, ring, digits_of(quotient_bits, denominator_bits, width)) for width in widths]
    return min(ways, key=lambda way: cost(way, participants, topology, link).seconds)


def digits_of(quotient_bits: int, denominator_bits: int, digit: int) -> tuple[Digit, ...]:
    """Return the fewest digits of at most `digit` bits, from the top.

    All are about equally wide, the upper ones less: longer numbers are compared there.
    """
    if not 1 <= digit <= WIDEST:
        raise DoesNotFitError(
            f"a digit of a quotient has 1 to {WIDEST} bits, not {digit}", parameter="digit", value=digit
        )
    number = -(-quotient_bits // digit)
    size, wider = divmod(quotient_bits, number)
    widths = [size] * (number - wider) + [size + 1] * wider
    places = [quotient_bits - below for below in accumulate(widths)]
    # R < 2^(p + w) d, so R and all multiples lie below 2^(p + w + denominator_bits); one bit more is the sign.
    return tuple(Digit(p, w, p + w + denominator_bits + 1) for p, w in zip(places, widths, strict=True))


def _check(n: Secret, d: Secret, quotient_bits: int, denominator_bits: int) -> None:
    if n.ring != d.ring or n.ring.bitwise:
        raise DoesNotFitError(
            f"{n} is not divided by {d}: both have to be numbers of the same ring", "mismatch", "ring"
        )
    if quotient_bits < 1 or denominator_bits < 1:
        text = f"quotient and denominator have 1 bit or more, not {quotient_bits} and {denominator_bits}"
        raise DoesNotFitError(text, parameter="quotient_bits", value=quotient_bits)
    needed = quotient_bits + denominator_bits + 1
    if needed > n.ring.bits:
        text = (
            f"a quotient of {quotient_bits} bits by a denominator of {denominator_bits} takes {needed} bits, more than "
            f"{n.ring} has; lift to a wider ring, or bound them more closely"
        )
        raise DoesNotFitError(text, parameter="quotient_bits", value=quotient_bits)


def _digit(party: Party, remainder: Secret, d: Secret, each: Digit) -> Bit:
    """Return the bits of one digit, (..., width), the lowest first. Rounds: 1, and those of the comparison."""
    factors = [k << each.place for k in range(1, each.multiples + 1)]
    left = remainder[..., None] - d.scaled(RingArray.encode(d.ring, factors))
    exceeds = negative_by_bits(party, left, each.bits, COMPARED_IN)
    sums = [exceeds[..., (1 << i) - 1 :: 1 << i].sum()[..., None] for i in range(each.width)]
    # Of an odd number of multiples, those that fit and those that exceed have different parities.
    ones = RingArray(BIT, np.ones((*remainder.shape, each.width), np.uint8))
    return open_bit(party, concatenate_shares(sums) + public_shares(party, ones))


def _number(party: Party, bits: Secret, weights: RingArray) -> Secret:
    """Return the sum of opened bits (..., n) times numbers that all know, in the ring of these. Rounds: 1."""
    party.step("bits to a number")
    ring = weights.ring
    (rho,) = party.deal([(ring, bits.shape)], lambda: [bits.mask.cast(ring)])
    if party.is_symbolic:
        return open_masked(party, Shares(RingArray.hidden(ring, bits.shape[:-1])))
    opened = bits.masked.cast(ring)
    part = rho * (1 - (opened + opened))
    return open_masked(party, Shares((add_public(party, part, lambda: opened) * weights).sum()))


def lift(party: Party, z: Shares, ring: Ring) -> Secret:
    """Return z in a wider ring, for |z| < 2^(k-2) in its own ring of k bits.

    1. Open y = z + 2^(k-2) + r. Since z + 2^(k-2) lies below 2^(k-1), the sum wrapped around exactly where r has its
       top bit set and y has not.
    2. The coordinator deals r and 2^k top(r) in the wide ring; z = y - 2^(k-2) - r + (1 - top(y)) 2^k top(r) is opened
       under a fresh mask.

    Rounds: 2. Sent: size elements of either ring by each auxiliary. Reveals: nothing.
    """
    party.step("lift: open")
    offset = 1 << (z.ring.bits - 2)
    y = open_masked(party, Shares(add_public(party, z.part, lambda: RingArray.encode(z.ring, offset))))
    return lift_opened(party, y, offset, ring)


def lift_secret(party: Party, z: Secret, ring: Ring) -> Secret:
    """Return a masked secret, |z| < 2^(k-2), in a wider ring: as `lift`, without its first opening.

    Rounds: 1. Sent: size wide elements by each auxiliary. Reveals: nothing.
    """
    offset = 1 << (z.ring.bits - 2)
    return lift_opened(party, z + offset, offset, ring)


def lift_opened(party: Party, y: Secret, offset: int, ring: Ring) -> Secret:
    """Return y - offset in a wider ring, for a masked y in [0, 2^(k-1)): the second half of `lift`.

    Rounds: 1. Sent: size wide elements by each auxiliary. Reveals: nothing.
    """
    return open_pending(party, [lifting(party, y, offset, ring)])[0]


def lifting(party: Party, y: Secret, offset: int, ring: Ring) -> Pending[Secret]:
    """Prepare `lift_opened` up to its opening. Rounds: 0."""
    if ring.bits <= y.ring.bits:
        raise DoesNotFitError(f"{ring} is not wider than {y.ring}", parameter="ring", value=str(ring))
    party.step("lift")
    spec = (ring, y.shape)

    def masks() -> list[RingArray]:
        return [y.mask.cast(ring), top_bit(y.mask).cast(ring) * (1 << y.ring.bits)]

    r, wrap = party.deal([spec, spec], masks)
    if party.is_symbolic:
        return masking(party, Shares(RingArray.hidden(*spec)))
    part = wrap * (1 - top_bit(y.masked).cast(ring)) - r
    return masking(party, Shares(add_public(party, part, lambda: y.masked.cast(ring) - offset)))


def truncate(party: Party, x: Secret, places: int, digit: int = DIGIT, rounds: int = 1) -> Secret:
    """Return floor(x / 2^places), for |x| < 2^(k-2).

    1. Compare the low bits of the masked value and of the mask: in one round on bytes, in more on bits, for which a
       fraction is dealt. Open the answer as a bit.
    2. Shift (see `shift`), and open the quotient under a fresh mask.

    Rounds: 2, and at most `rounds` of the comparison. Sent: the digits of the low bits, a
    byte each or two bits and more, a bit and an element by each auxiliary. Reveals: nothing.
    """
    _check_places(x.ring, places)
    if rounds == 1:
        less = less_than(party, x, places, digit=digit)
    else:
        (less,) = compare_together(party, [Borrow(x, places)], rounds, digit)
    return open_masked(party, shift(party, x, places, open_bit(party, less)))


def round_off(party: Party, x: Secret, places: int, rounds: int = 1) -> Secret:
    """Return x / 2^places rounded to the nearest integer, a half up: `truncate` of x + 2^(places - 1) < 2^(k-2).

    Rounds: as `truncate`. Sent: as `truncate`. Reveals: nothing.
    """
    _check_places(x.ring, places)
    return truncate(party, x + (1 << (places - 1)), places, rounds=rounds)


def shift(party: Party, x: Secret, places: int, borrow: Bit) -> Shares:
    """Return floor(x / 2^places) as additive shares, for |x| < 2^(k-2), from the opened `Borrow` of its low bits.

    y = x + 2^(k-2) is masked already, y + r = m, and has the low bits of x. The coordinator deals r >> places, the
    wrap-around 2^(k - places) top(r), and the mask of the borrow b:

        floor(x / 2^places) = (m >> places) - (r >> places) - b + (1 - top(m)) 2^(k - places) top(r)
                              - 2^(k - 2 - places).

    Rounds: 0. Sent: nothing. Reveals: nothing.
    """
    ring, k = x.ring, x.ring.bits
    _check_places(ring, places)
    party.step("truncate")
    y, b, spec = x + (1 << (k - 2)), borrow.secret, (ring, x.shape)

    def masks() -> list[RingArray]:
        wrap = top_bit(y.mask).cast(ring) * (1 << (k - places))
        return [shift_right(y.mask, places), wrap, b.mask.cast(ring)]

    r, wrap, rho = party.deal([spec, spec, spec], masks)
    if party.is_symbolic:
        return Shares(RingArray.hidden(*spec))
    flipped = b.masked.cast(ring)
    part = wrap * (1 - top_bit(y.masked).cast(ring)) - r - rho * (1 - (flipped + flipped))
    return Shares(add_public(party, part, lambda: shift_right(y.masked, places) - flipped - (1 << (k - 2 - places))))


def cut(party: Party, x: Secret, places: int, width: int, borrow: Bit) -> tuple[Shares, Shares]:
    """Return (x >> places) modulo 2^width, in a ring of that width, and x modulo 2^places, from an opened `Borrow`.

    1. The coordinator deals r >> places and the mask of the borrow b. Modulo 2^(k - places),
       x >> places = (m >> places) - (r >> places) - b.
    2. What is left of x are its low bits: x - 2^places (x >> places).

    Rounds: 0. Sent: nothing. Reveals: nothing.
    """
    ring, k = x.ring, x.ring.bits
    if not (0 < places < k and 0 < width <= min(64, k - places)):
        text = f"a secret of {ring} has no {width} bits above its lowest {places} to be cut out"
        raise DoesNotFitError(text, parameter="width", value=width)
    party.step("cut")
    b, spec, upper = borrow.secret, (ring, x.shape), Ring(width)
    r, rho = party.deal([spec, spec], lambda: [shift_right(x.mask, places), b.mask.cast(ring)])
    if party.is_symbolic:
        return Shares(RingArray.hidden(upper, x.shape)), Shares(RingArray.hidden(*spec))
    flipped = b.masked.cast(ring)
    high = add_public(party, -r - rho * (1 - (flipped + flipped)), lambda: shift_right(x.masked, places) - flipped)
    return Shares(high.cast(upper)), to_shares(party, x) - Shares(high * (1 << places))


def _check_places(ring: Ring, places: int) -> None:
    most = ring.bits - 2
    if not 0 < places <= most:
        raise DoesNotFitError(
            f"a secret of {ring} is truncated by 1 to {most} places, not {places}", parameter="places", value=places
        )
