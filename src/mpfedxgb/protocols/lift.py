"""From the vector ring to a wide ring, without a comparison."""

from __future__ import annotations

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.opening import Pending, masking, open_masked, open_pending
from mpfedxgb.protocols.secret import Secret, Shares
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.bits import top_bit
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
    y = open_masked(party, _shifted(party, z, offset))
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
    if party.follows_shapes:
        return masking(party, Shares(RingArray.hidden(*spec)))
    part = wrap * (1 - top_bit(y.masked).cast(ring)) - r
    if party.is_active:
        part = part + (y.masked.cast(ring) - offset)
    return masking(party, Shares(part))


def _shifted(party: Party, z: Shares, offset: int) -> Shares:
    return Shares(z.part + offset) if party.is_active else z
