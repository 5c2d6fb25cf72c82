"""DIV: Newton's reciprocal on fixed-point secrets (Appendix B), for comparison with the division-free way.

It approximates, from a public bound and in so many iterations, as the paper has it. The exact quotient of two integers
is `quotient`.
"""

from __future__ import annotations

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.multiply import multiply
from mpfedxgb.protocols.secret import Secret, public_secret
from mpfedxgb.protocols.truncate import truncate

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
        raise DoesNotFitError(f"{f} fraction bits and a bound of {width} bits do not fit {d.ring}")
    if min(3 * f, 3 * f - width + iterations) + 1 > d.ring.bits - 2:  # x (2 - d x) reaches 2^(3 f) / d
        raise DoesNotFitError(f"with {f} fraction bits, {iterations} iterations on d = 1 overflow {d.ring}")
    if width > 2 * f:
        raise DoesNotFitError(f"a bound of {width} bits leaves nothing of its reciprocal in {f} fraction bits")
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
