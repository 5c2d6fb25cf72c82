"""Which integers a training needs: scales of g and h, the widths that hold every product, the secret constants.

After one rounding, g~ = rint(g 2^f_g) and h~ = rint(h 2^f_h), everything is exact. The wide ring is chosen from public
bounds in Python integers. Where the objective's policy has no public scale, or weights come in, the active participant
picks private powers of two, and the constants that depend on them are its secrets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.params import TrainParams, least_hessian, tells_zero_hessians
from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.ring.ring import VECTOR, Ring, encode_fixed

SMALLEST_GAMMA = 1e-6
"""XGBoost splits on gains above this, whatever gamma says."""

_LIMBS = (2, 3, 4)
_G_ABOVE_H = range(10, 5, -1)
"""How many bits more than h g has in a ring of 256 bits, the best first. Of rare classes g is near the class's share p,
beside 1 for the largest, where h is near p for all rows."""
SUM_BITS = 62


@dataclass(frozen=True, slots=True)
class ScalePlan:
    """The public part: limbs of the wide ring, caps on |g~|, h~, lambda~ and gamma~, and the scales.

    A scale that is None is chosen by the active participant, in private.
    """

    limbs: int
    g_cap: int
    h_cap: int
    lam_cap: int
    gam_cap: int
    f_g: int | None
    f_h: int | None


@dataclass(frozen=True, slots=True)
class Scale:
    """One tree's scales and constants; public, or the active participant's, as the plan says."""

    f_g: int
    f_h: int
    lam: int
    gam: int
    mcw: int


UNKNOWN = Scale(0, 0, 0, 0, 0)
"""What stands for a scale before the first round, and where it is somebody else's secret."""


def bits_needed(rows: int, g_cap: int, h_cap: int, lam: int, gam: int) -> int:
    """Return the width of the largest product that a comparison of two candidates can meet, sign included."""
    a = g_cap**2 * (h_cap * rows**3 // 4 + 1 + lam * rows**2)
    b = ((rows * h_cap + 2 * lam) // 2 + 1) ** 2
    a0 = rows**2 * g_cap**2 + gam * (rows * h_cap + lam)
    b0 = rows * h_cap + lam
    return 1 + max(a * b, a * b0, a0 * b).bit_length()


def weight_bits(public: ScalePlan, rows: int) -> int:
    """Return the width of a side's hessian less min_child_weight, which is at most one more than all of them."""
    return (rows * public.h_cap + 1).bit_length() + 1


Wider = Callable[[int, int, int, int], int]
"""From rows, caps on g~ and h~, and lambda~ to the bits of whatever else is computed in the wide ring."""


def plan(params: TrainParams, rows: int, wider: Wider = lambda *_: 0) -> ScalePlan:
    """Return the public widths of a training; raises DoesNotFitError for tables that no wide ring holds."""
    policy = params.scale_policy
    if policy.raised:
        return _raised_as_far_as_fits(params, rows, wider)
    h_cap = policy.h_cap
    lam = _lambda_cap(params, rows, h_cap) if policy.f_h is None else _lambda(params, policy.f_h)
    if policy.g_cap is not None:
        gam = gain_cap(rows, policy.g_cap)
        if policy.f_g is not None and policy.f_h is not None:
            gam = _gamma(params, policy.f_g, policy.f_h, gam)
        for limbs in _LIMBS:
            if _fits(wider, rows, policy.g_cap, h_cap, lam, gam, limbs):
                return ScalePlan(limbs, policy.g_cap, h_cap, lam, gam, policy.f_g, policy.f_h)
        raise _too_wide(params, rows)
    for limbs, enough in ((3, policy.g_bits), (4, min(24, policy.g_bits))):
        shared = _shared_with_h(params, rows, wider) if limbs == _LIMBS[-1] else None
        if shared is not None:
            return shared
        bits = 0
        while bits < policy.g_most and _fits(wider, rows, 2 << bits, h_cap, lam, gain_cap(rows, 2 << bits), limbs):
            bits += 1
        if bits >= enough:
            return ScalePlan(limbs, 1 << bits, h_cap, lam, gain_cap(rows, 1 << bits), None, policy.f_h)
    raise _too_wide(params, rows)


def _shared_with_h(params: TrainParams, rows: int, wider: Wider) -> ScalePlan | None:
    """Return widths of 256 bits that give h more bits than its cap; None if g would have too few.

    g could have up to 62 bits less those of the rows, far more than h; a bit of h takes the room of one and a half of
    g. lambda~ may be an eighth of the largest sum of h~, which takes a bit in all: it holds no h back beside which it
    is small in sum.
    """
    policy = params.scale_policy
    for h_bits in range(policy.h_most, policy.h_cap.bit_length() - 1, -1):
        h_cap = 1 << h_bits
        lam = max(_lambda_cap(params, rows, h_cap), rows * h_cap >> 3)
        for more in _G_ABOVE_H:
            g_cap = h_cap << more
            if _fits(wider, rows, g_cap, h_cap, lam, gain_cap(rows, g_cap), _LIMBS[-1]):
                return ScalePlan(_LIMBS[-1], g_cap, h_cap, lam, gain_cap(rows, g_cap), None, None)
    return None


def _raised_as_far_as_fits(params: TrainParams, rows: int, wider: Wider) -> ScalePlan:
    """Return widths for caps that are raised alike (see ScalePolicy)."""
    policy = params.scale_policy
    assert policy.g_cap is not None
    for limbs, enough in ((3, policy.raised * 2 // 3), (4, 0)):
        for more in range(policy.raised, enough - 1, -1):
            g_cap, h_cap = policy.g_cap << more, policy.h_cap << more
            lam, gam = _lambda_cap(params, rows, h_cap), gain_cap(rows, g_cap)
            if _fits(wider, rows, g_cap, h_cap, lam, gam, limbs):
                return ScalePlan(limbs, g_cap, h_cap, lam, gam, None, None)
    raise _too_wide(params, rows)


def _lambda_cap(params: TrainParams, rows: int, h_cap: int) -> int:
    """Return what lambda~ may be where the scale of h is private."""
    room = params.scale_policy.lam_room
    return max(1, math.ceil(params.reg_lambda)) * h_cap << (max(0, rows.bit_length() - 1) if room is None else room)


def _too_wide(params: TrainParams, rows: int) -> DoesNotFitError:
    return DoesNotFitError(
        f"a table of {rows} rows with reg_lambda={params.reg_lambda:g} needs numbers wider than 256 bits; "
        "train on fewer rows, or lower reg_lambda if it is large"
    )


def _fits(wider: Wider, rows: int, g_cap: int, h_cap: int, lam: int, gam: int, limbs: int) -> bool:
    bits = max(bits_needed(rows, g_cap, h_cap, lam, gam), wider(rows, g_cap, h_cap, lam))
    return bits <= 64 * limbs and rows * g_cap < 1 << SUM_BITS


def gain_cap(rows: int, g_cap: int) -> int:
    """Return more than any gain can be: a sum of squares over a denominator of at least one."""
    return rows**2 * g_cap**2 + 1


def _lambda(params: TrainParams, f_h: int) -> int:
    """Return lambda~, which vanishes with lambda only."""
    lam = round(Fraction(params.reg_lambda) * Fraction(2) ** f_h)
    return max(1, lam) if params.reg_lambda > 0 else lam


def _gamma(params: TrainParams, f_g: int, f_h: int, cap: int) -> int:
    """Return gamma~, up to a cap that no gain reaches."""
    exact = Fraction(max(params.gamma, SMALLEST_GAMMA)) * Fraction(2) ** (2 * f_g - f_h)
    return min(max(1, round(exact)), cap)


def scale(params: TrainParams, public: ScalePlan, rows: int, f_g: int, f_h: int) -> Scale:
    """Return the constants at given scales."""
    mcw = min(math.ceil(Fraction(params.min_child_weight) * Fraction(2) ** f_h), rows * public.h_cap + 1)
    mcw = least_hessian(params, mcw)
    return Scale(f_g, f_h, _lambda(params, f_h), _gamma(params, f_g, f_h, public.gam_cap), mcw)


def no_split_first(params: TrainParams) -> bool:
    """Return whether a tie between a split and none leaves the node as it is, as XGBoost does without a gamma."""
    return params.gamma <= SMALLEST_GAMMA


def round_hessians(
    params: TrainParams, h: npt.NDArray[np.float64], f_h: int, h_cap: int | None = None
) -> npt.NDArray[np.int64]:
    """Return h~; where 0 has to mean a hessian of 0, a smaller h than 1/2 becomes 1."""
    rounded = encode_fixed(h, f_h, h_cap)
    return np.maximum(rounded, h > 0) if tells_zero_hessians(params) else rounded


def constants_of(ring: Ring, scale: Scale) -> list[tuple[Ring, int]]:
    """Return lambda~, gamma~ and min_child_weight~ with the rings they are needed in, in the order of Constants."""
    return [(ring, scale.lam), (ring, scale.gam), (VECTOR, scale.mcw)]


def public_scale(params: TrainParams, public: ScalePlan, rows: int) -> Scale | None:
    """Return scales and constants that everybody knows; None where the active participant chooses them."""
    if public.f_g is None or public.f_h is None:
        return None
    return scale(params, public, rows, public.f_g, public.f_h)


def choose_scale(
    params: TrainParams,
    public: ScalePlan,
    g: npt.NDArray[np.float64],
    h: npt.NDArray[np.float64],
    rows: int,
    spare: int = 0,
) -> Scale:
    """Return the finest scales under which this tree's g, `spare` bits larger, and h fit: P_1's own choice."""
    f_g = public.f_g
    if f_g is None:
        f_g = finest(float(np.abs(g).max(initial=0)), public.g_cap) - spare
    f_h = public.f_h
    if f_h is None:
        f_h = finest(float(h.max(initial=0)), public.h_cap)
        if params.reg_lambda > 0:
            f_h = min(f_h, finest(params.reg_lambda, public.lam_cap))
    return scale(params, public, rows, f_g, f_h)


def finest(largest: float, cap: int) -> int:
    """Return the largest f with largest * 2^f <= cap."""
    if largest == 0:
        return 0
    _, exponent = math.frexp(largest)  # 2^(exponent - 1) <= largest < 2^exponent
    f = cap.bit_length() - exponent
    return f if Fraction(largest) * Fraction(2) ** f <= cap else f - 1
