"""Division of secrets by a power of two: rounded down, rounded off, or cut in two, exactly.

All three need to know whether the low bits of the masked value are less than those of the mask: subtracting them
borrows 1 from the bits above. Catrina, de Hoogh, "Improved Primitives for Secure Multiparty Integer Computation"
(SCN 2010), compare a masked value and its mask alike.

From the vector ring to a wide ring, without a comparison.
"""

from __future__ import annotations

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.bits import Bit, open_bit
from mpfedxgb.protocols.compare import DIGIT, less_than
from mpfedxgb.protocols.compare_bits import Borrow, compare_together
from mpfedxgb.protocols.opening import Pending, masking, open_masked, open_pending
from mpfedxgb.protocols.secret import Secret, Shares, add_public, to_shares
from mpfedxgb.ring.array import RingArray, shift_right, top_bit
from mpfedxgb.ring.ring import Ring


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
        raise DoesNotFitError(f"{ring} is not wider than {y.ring}")
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

    Rounds: 2, and `rounds` of the comparison, fewer where so many are not needed. Sent: the digits of the low bits, a
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
        raise DoesNotFitError(f"a secret of {ring} has no {width} bits above its lowest {places} to be cut out")
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
        raise DoesNotFitError(f"a secret of {ring} is truncated by 1 to {most} places, not {places}")
