"""SecureLeafWeight as the paper prints it (section 4.4, Eq. 8-11; Appendix A): `security="paper"`.

w = -b / a minimises a w^2 / 2 + b w, for a = H + lambda and b = G. Gradient descent finds it on shares with a public
step size eta' = 1 / (a + sum of sigma_m), where every participant adds a positive sigma_m of its own so that a itself
stays hidden within mu lambda. The strict way is in leaf.py.

Numbers are integers: a at scale 2^f_h, b at 2^f_g, w at 2^(f_g + SPARE_BITS). A step is floor(e (a w + b)) with
e = floor(2^s / (a + sigma)), so that a fixed point is within r < 4 units of the last place of -b / a.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import FrameError
from mpfedxgb.party.bounds import check_numbers
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.lift import lift_secret
from mpfedxgb.protocols.multiply import multiply
from mpfedxgb.protocols.reveal import reveal
from mpfedxgb.protocols.secret import Secret, Shares, public_secret, to_shares
from mpfedxgb.protocols.truncate import truncate
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import VECTOR, Ring

STEP_SIZE = "step size of a leaf: H within mu lambda"
MU = 2
"""mu of Appendix A: the perturbations add up to at most mu lambda."""

SPARE_BITS = 16
"""Bits of a weight below those of g while it converges."""

_RATE_BITS = 56
"""Bits of the learning rate after the point, so that its rounding is below any epsilon also for weights of 10^6."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafRules:
    """The public numbers of the descent.

    `lam` is lambda~ and `f_h` its scale. `largest_sum` bounds |G~| and `largest_weight` the weight, in units of g~, as
    `epsilon` is, what is asked for. Step sizes have `step_bits`; `shift` is how many of a weight's low bits are dropped
    when it is kept.
    """

    f_h: int
    lam: int
    largest_sum: int
    largest_weight: int
    epsilon: float
    step_bits: int
    shift: int
    learning_rate: float


def steps_needed(v: float, ratio: float, mu: float = MU) -> int:
    """Return t_min of Appendix A: after so many steps w is within epsilon, for ratio = a epsilon / |b|.

    v = (a + sigma) / (mu lambda). The first term takes r = v mu; the second, r = v / (v - 1), holds for v > 1 only.
    """
    if ratio >= 1:
        return 1
    r = v * mu
    steps = math.ceil(math.log(ratio) / math.log1p(-1 / r)) if r > 1 else 1
    if v > 1:
        steps = min(steps, math.ceil(math.log(ratio) / math.log(1 / v)))
    return max(1, steps)


def leaf_bits(rules: LeafRules) -> int:
    """Return the width that the descent needs, for any leaf."""
    weight = (rules.largest_sum << (rules.f_h + SPARE_BITS)) // rules.lam + 1
    return max(2 * weight << rules.step_bits, 2 * weight * _rate(rules)).bit_length() + 3


def secure_leaf_weight(party: Party, totals: Secret, ring: Ring, rules: LeafRules, label: str) -> Shares:
    """Return shares of the leaf weights, (leaves,), from G and H of the leaves, (leaves, 2) (Algorithm 3, lines 5, 43).

    1. Every participant adds its sigma_m to its share of a; P_1 restores the sum and broadcasts eta'.
    2. t_min steps of Eq. 11: one MUL and one truncation each. All leaves take as many as the slowest needs.
    3. Drop the spare bits, in the learning rate on the way; the shares stay where they are.

    Rounds: 1 + 2 + 4 t + 3. Reveals: STEP_SIZE to everyone.
    """
    with party.phase("leaf weights"):
        sums = lift_secret(party, totals, ring)
        b, a = sums[:, 0], sums[:, 1] + rules.lam
        step = _step_size(party, a, rules, label)
        factors = RingArray.encode(ring, step)
        b = b * (1 << (rules.f_h + SPARE_BITS))
        w = public_secret(party, ring, np.zeros(b.shape, np.int64))
        for _ in range(max(steps_of(rules, int(e)) for e in step)):
            gradient = multiply(party, a, w) + b
            w = w - truncate(party, gradient.scaled(factors), rules.step_bits)  # Eq. 11
        places = _RATE_BITS + rules.shift
        kept = truncate(party, w * _rate(rules) + (1 << (places - 1)), places)
        return Shares(to_shares(party, kept).part.cast(VECTOR))


def steps_of(rules: LeafRules, step: int) -> int:
    """Return t_min of a leaf from its public step size e = 2^s / (a + sigma), rounded down.

    Rounding e down acts like more perturbation: with p = 2^s / e, a is above p - mu' lambda for the mu' below.
    """
    perturbed = Fraction(1 << rules.step_bits, step)
    rounding = perturbed - Fraction(1 << rules.step_bits, step + 1)
    mu = MU + rounding / rules.lam
    v = perturbed / (mu * rules.lam)
    least = max(Fraction(rules.lam), (v - 1) * mu * rules.lam)  # a is no less than this
    bound = min(Fraction(rules.largest_weight), Fraction(rules.largest_sum << rules.f_h) / least)
    return steps_needed(float(max(v, 1 / mu)), rules.epsilon / float(bound), float(mu))


def _rate(rules: LeafRules) -> int:
    """Return the learning rate as an integer."""
    return round(Fraction(rules.learning_rate) * (1 << _RATE_BITS))


def _step_size(party: Party, a: Secret, rules: LeafRules, label: str) -> npt.NDArray[np.int64]:
    """Return e = floor(2^s / (a + sum of sigma_m)) to everyone; sigma_m > 0, their sum at most mu lambda."""
    shares = to_shares(party, a)
    if not party.is_coordinator:
        words = party.keys.private_stream(f"{label}/sigma").octets(16 * a.shape[0])
        most = MU * rules.lam // party.roster.size
        sigma = [1 + int.from_bytes(words[16 * i : 16 * i + 16].tobytes(), "little") % most for i in range(a.shape[0])]
        shares = Shares(shares.part + RingArray.encode(a.ring, np.array(sigma, object)))
    restored = reveal(party, shares, ACTIVE, STEP_SIZE)
    step = np.zeros(a.shape, np.int64)
    if party.is_active:
        whole = [int(v) for v in restored.decode()]
        if min(whole, default=1) < 1:
            raise FrameError(f"malformed {STEP_SIZE}: got a sum below 1; some role sent a wrong share or correction")
        step = np.array([(1 << rules.step_bits) // v for v in whole], np.int64)
    steps = party.broadcast(STEP_SIZE, step)
    check_numbers(party, ACTIVE, steps.tolist(), *[("as step size", 1, 1 << rules.step_bits)] * len(steps))
    return steps
