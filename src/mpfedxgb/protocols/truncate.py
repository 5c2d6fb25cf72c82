"""Division of secrets by a power of two, rounded down exactly."""

from __future__ import annotations

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.bits import open_bit
from mpfedxgb.protocols.compare import DIGIT, less_than
from mpfedxgb.protocols.opening import open_masked
from mpfedxgb.protocols.secret import Secret, Shares
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.bits import shift_right, top_bit


def truncate(party: Party, x: Secret, places: int, digit: int = DIGIT) -> Secret:
    """Return floor(x / 2^places), for |x| < 2^(k-2).

    1. y = x + 2^(k-2) is masked already: y + r = m. Compare the low bits of m and r; open the answer as a bit b.
    2. With shares of r >> places, of the wrap-around 2^(k - places) top(r), and of the mask of b:
       floor(x / 2^places) = (m >> places) - (r >> places) - b + (1 - top(m)) 2^(k - places) top(r)
                             - 2^(k - 2 - places).

    Rounds: 3. Sent: a byte per digit of the low bits, a bit and an element by each auxiliary. Reveals: nothing.
    """
    ring, k = x.ring, x.ring.bits
    if not 0 < places <= k - 2:
        raise DoesNotFitError(f"a secret of {ring} is truncated by 1 to {k - 2} places, not {places}")
    y = x + (1 << (k - 2))
    b = open_bit(party, less_than(party, y, places, digit=digit)).secret
    party.step("truncate")
    spec = (ring, x.shape)

    def masks() -> list[RingArray]:
        wrap = top_bit(y.mask).cast(ring) * (1 << (k - places))
        return [shift_right(y.mask, places), wrap, b.mask.cast(ring)]

    r, wrap, rho = party.deal([spec, spec, spec], masks)
    if party.follows_shapes:
        return open_masked(party, Shares(RingArray.hidden(*spec)))
    flipped = b.masked.cast(ring)
    part = wrap * (1 - top_bit(y.masked).cast(ring)) - r - rho * (1 - (flipped + flipped))
    if party.is_active:
        part = part + shift_right(y.masked, places) - flipped - (1 << (k - 2 - places))
    return open_masked(party, Shares(part))
