"""Which integers a training needs: scales of g and h, the widths that hold every product, the secret constants.

After one rounding, g~ = rint(g 2^f_g) and h~ = rint(h 2^f_h), everything is exact. The wide ring is chosen from public
bounds in Python integers. Where the objective's policy has no public scale, or weights come in, the active participant
picks private powers of two, and the constants that depend on them are its secrets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

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
_LEAST_G_BITS = 24
_LEAST_STEPS = 1 << 12
_LARGEST_WEIGHT, _ROUNDED_UP = 2.0**30, 1.01
"""A larger leaf weight ends a training; and what g~ and h~, which are rounded, may make of a weight."""


@dataclass(frozen=True, slots=True)
class ScalePlan:
    """The public part: limbs of the wide ring, caps on |g~|, h~, lambda~ and gamma~, and the scales.

    A scale that is None is chosen by the active participant, in private. Bounds of weights are in units of 2^-places of
    G~ / H~. In a constrained training they are multiples of 2^coarse, and no more than `weight_cap`, which is 0
    elsewhere (`units_of_bounds`).
    """

    limbs: int
    g_cap: int
    h_cap: int
    lam_cap: int
    gam_cap: int
    f_g: int | None
    f_h: int | None
    places: int = 0
    coarse: int = 0
    weight_cap: int = 0

    def bits(self, rows: int) -> int:
        """Return the width of what comparing two candidates meets: numerators have 2^(2 places) where bounds have."""
        caps = self.g_cap, self.h_cap, self.lam_cap, self.gam_cap
        if self.weight_cap:
            return bits_of_constrained(rows, *caps, BoundUnits(self.places, self.coarse, self.weight_cap))
        return bits_needed(rows, *caps) + 2 * self.places

    def alpha_cap(self, rows: int) -> int:
        """Return an alpha~ that no sum of g~ is above."""
        return rows * self.g_cap

    def delta_cap(self, rows: int) -> int:
        """Return a delta~ that no weight is above, since a denominator is at least one."""
        return rows * self.g_cap << self.places


@dataclass(frozen=True, slots=True)
class Scale:
    """One tree's scales and constants; public, or the active participant's, as the plan says.

    alpha~ is in the units of g~, delta~ in those of bounds; 0 and None where there is no such penalty. In a constrained
    training delta~ is W, or less.
    """

    f_g: int
    f_h: int
    lam: int
    gam: int
    mcw: int
    alpha: int = 0
    delta: int | None = None

    def step(self, G: int, H: int) -> tuple[int, int]:
        """Return -T / (H + lambda), the weight of a node without bounds, as a fraction in units of G~ / H~."""
        T = max(abs(G) - self.alpha, 0)
        return (-T if G > 0 else T), H + self.lam


UNKNOWN = Scale(0, 0, 0, 0, 0)
"""What stands for a scale before the first round, and where it is somebody else's secret."""


def bits_needed(rows: int, g_cap: int, h_cap: int, lam: int, gam: int) -> int:
    """Return the width of the largest product that a comparison of two candidates can meet, sign included."""
    a = g_cap**2 * (h_cap * rows**3 // 4 + 1 + lam * rows**2)
    b = ((rows * h_cap + 2 * lam) // 2 + 1) ** 2
    a0 = rows**2 * g_cap**2 + gam * (rows * h_cap + lam)
    b0 = rows * h_cap + lam
    return 1 + max(a * b, a * b0, a0 * b).bit_length()


class BoundUnits(NamedTuple):
    """In what bounds of weights are counted: 2^-places of G~ / H~, in steps of 2^coarse; and W, the largest."""

    places: int
    coarse: int
    largest: int


def units_of_bounds(g_cap: int, h_cap: int, digits: int) -> BoundUnits:
    """Return the units of a constrained training: W is 2^(digits + 4) steps, four times g_cap / h_cap.

    In log-loss with public scales, where |g| <= 1 and h <= 1/4, that is 16 with `digits` fraction bits; in squared
    error four times the largest |g|.
    """
    places = digits + 2 - (g_cap.bit_length() - h_cap.bit_length())
    coarse = max(0, -places)
    return BoundUnits(max(0, places), coarse, 1 << (digits + 4 + coarse))


def bits_of_constrained(rows: int, g_cap: int, h_cap: int, lam: int, gam: int, units: BoundUnits) -> int:
    """Return the same as `bits_needed` where weights are held to bounds of either sign, up to W.

    With b for a bound, a side that is held has the numerator -(D b)(2 (G + alpha sgn b) + D b), of either sign. As
    |G_L| + |G_R| and alpha~ are at most G = rows g_cap, one side has no more than D W (4 G + D W), and both of a
    candidate add up to D_L D_R W (6 G + (D_L + D_R) W). A difference of such numbers may be twice as large as either.
    """
    W, unit = units.largest, 1 << (2 * units.places)
    b, b0 = ((rows * h_cap + 2 * lam) // 2 + 1) ** 2, rows * h_cap + lam
    G = rows * g_cap << units.places
    free = g_cap**2 * (h_cap * rows**3 // 4 + 1 + lam * rows**2) * unit
    a = free + b * W * (6 * G + (b0 + lam) * W)
    a0 = max(G**2, b0 * W * (4 * G + b0 * W)) + gam * b0 * unit
    return 2 + max(a * b, a * b0, a0 * b).bit_length()


def hessian_bits(public: ScalePlan, rows: int) -> int:
    """Return the width of a side's hessian less min_child_weight, which is at most one more than all of them."""
    return (rows * public.h_cap + 1).bit_length() + 1


def alpha_bits(public: ScalePlan, rows: int) -> int:
    """Return the width of a sum of g~ and alpha~, neither of which is above all |g~| together."""
    return (rows * public.g_cap + public.alpha_cap(rows)).bit_length() + 1


def tree_widths(params: TrainParams, public: ScalePlan, rows: int) -> dict[str, int]:
    """Return the widths of TreeRules, by their names there."""
    D, G = rows * public.h_cap + public.lam_cap, rows * public.g_cap
    widths = {"bits": public.bits(rows), "hessian_bits": hessian_bits(public, rows), "places": public.places}
    if params.reg_alpha:
        widths["alpha_bits"] = alpha_bits(public, rows)
    if params.largest_step or params.constrained:
        known = public_scale(params, public, rows)
        most = public.delta_cap(rows) if known is None or known.delta is None else known.delta
        most = public.weight_cap or most
        widths["clip_bits"] = (((G + public.alpha_cap(rows)) << public.places) + D * most).bit_length() + 1
    if params.constrained:  # |T_L| + |T_R| is at most G, and either denominator at most D
        widths |= {
            "coarse": public.coarse,
            "bound_bits": public.weight_cap.bit_length() + 1,
            "largest_step": public.weight_cap >> public.coarse,
            "divisor_bits": D.bit_length(),
            "order_bits": (G * D).bit_length() + 1,
        }
    return widths


Wider = Callable[[int, int, int, int], int]
"""From rows, caps on g~ and h~, and lambda~ to the bits of whatever else is computed in the wide ring."""


MOST_PLACES, LEAST_PLACES = 24, 16
"""Binary digits of bounds of weights: as many as a float32 has, if the ring has room; with fewer than 16, below five
decimal digits, trees would no longer be XGBoost's."""


def plan(params: TrainParams, rows: int, wider: Wider = lambda *_: 0) -> ScalePlan:
    """Return the public widths of a training; raises DoesNotFitError for tables that no wide ring holds."""
    if not (params.largest_step or params.constrained):
        return _plan(params, _Room(rows, wider))
    for digits in range(MOST_PLACES, LEAST_PLACES - 1, -1):
        try:
            room = _Room(rows, wider, digits, params.constrained, params.scale_policy.weight_bits)
            found = _plan(params, room)
        except DoesNotFitError:
            continue
        if not params.constrained:
            return replace(found, places=digits)
        places, coarse, largest = room.units(found.g_cap, found.h_cap)
        return replace(found, places=places, coarse=coarse, weight_cap=largest)
    name = "constrained" if params.constrained else "max_delta_step"
    value, without = (True, "no constraints") if params.constrained else (params.largest_step, "max_delta_step=0")
    text = (
        f"{name}={value} with {rows} rows and reg_lambda={params.reg_lambda:g} leaves bounds of weights fewer than "
        f"{LEAST_PLACES} digits in 256 bits; train on fewer rows, or with {without}"
    )
    raise DoesNotFitError(text, parameter=name, value=value)


@dataclass(frozen=True, slots=True)
class _Room:
    """What else than a table's rows takes room in the wide ring: other divisions, and places of bounds."""

    rows: int
    wider: Wider
    digits: int = 0
    is_constrained: bool = False
    weight_bits: int = 0

    def units(self, g_cap: int, h_cap: int) -> BoundUnits:
        """Return the units of bounds in a constrained training."""
        return units_of_bounds(g_cap, h_cap >> self.weight_bits, self.digits)

    def holds(self, g_cap: int, h_cap: int, lam: int, gam: int, limbs: int) -> bool:
        """Return whether a ring of that number of limbs holds what these caps lead to."""
        rows = self.rows
        if self.is_constrained:
            bits = bits_of_constrained(rows, g_cap, h_cap, lam, gam, self.units(g_cap, h_cap))
        else:
            bits = bits_needed(rows, g_cap, h_cap, lam, gam) + 2 * self.digits
        return max(bits, self.wider(rows, g_cap, h_cap, lam)) <= 64 * limbs and rows * g_cap < 1 << SUM_BITS


def _plan(params: TrainParams, room: _Room) -> ScalePlan:
    policy, rows = params.scale_policy, room.rows
    if policy.raised:
        return _raised_as_far_as_fits(params, room)
    h_cap = policy.h_cap
    lam = _lambda_cap(params, rows, h_cap) if policy.f_h is None else _lambda(params, policy.f_h)
    if policy.g_cap is not None:
        gam = gain_cap(rows, policy.g_cap)
        if policy.f_g is not None and policy.f_h is not None:
            gam = _gamma(params, policy.f_g, policy.f_h, gam)
        for limbs in _LIMBS:
            if room.holds(policy.g_cap, h_cap, lam, gam, limbs):
                return ScalePlan(limbs, policy.g_cap, h_cap, lam, gam, policy.f_g, policy.f_h)
        raise _too_wide(params, rows)
    for limbs, enough in ((3, policy.g_bits), (4, min(24, policy.g_bits))):
        shared = _shared_with_h(params, room) if limbs == _LIMBS[-1] else None
        if shared is not None:
            return shared
        most = range(policy.g_most, 0, -1)
        bits = next((b for b in most if room.holds(1 << b, h_cap, lam, gain_cap(rows, 1 << b), limbs)), 0)
        if bits >= enough:
            return ScalePlan(limbs, 1 << bits, h_cap, lam, gain_cap(rows, 1 << bits), None, policy.f_h)
    raise _too_wide(params, rows)


def _shared_with_h(params: TrainParams, room: _Room) -> ScalePlan | None:
    """Return widths of 256 bits that give h more bits than its cap; None if g would have too few.

    g could have up to 62 bits less those of the rows, far more than h; a bit of h takes the room of one and a half of
    g. lambda~ may be an eighth of the largest sum of h~, which takes a bit in all: it holds no h back beside which it
    is small in sum.
    """
    policy, rows = params.scale_policy, room.rows
    for h_bits in range(policy.h_most, policy.h_cap.bit_length() - 1, -1):
        h_cap = 1 << h_bits
        lam = max(_lambda_cap(params, rows, h_cap), rows * h_cap >> 3)
        for more in _G_ABOVE_H:
            g_cap = h_cap << more
            if room.holds(g_cap, h_cap, lam, gain_cap(rows, g_cap), _LIMBS[-1]):
                return ScalePlan(_LIMBS[-1], g_cap, h_cap, lam, gain_cap(rows, g_cap), None, None)
    return None


def _raised_as_far_as_fits(params: TrainParams, room: _Room) -> ScalePlan:
    """Return widths for caps that are raised alike (see ScalePolicy)."""
    policy, rows = params.scale_policy, room.rows
    assert policy.g_cap is not None
    for limbs, enough in ((3, policy.raised * 2 // 3), (4, 0)):
        for more in range(policy.raised, enough - 1, -1):
            g_cap, h_cap = policy.g_cap << more, policy.h_cap << more
            lam, gam = _lambda_cap(params, rows, h_cap), gain_cap(rows, g_cap)
            if room.holds(g_cap, h_cap, lam, gam, limbs):
                return ScalePlan(limbs, g_cap, h_cap, lam, gam, None, None)
    raise _too_wide(params, rows)


def _lambda_cap(params: TrainParams, rows: int, h_cap: int) -> int:
    """Return what lambda~ may be where the scale of h is private."""
    room = params.scale_policy.lam_room
    return max(1, math.ceil(params.reg_lambda)) * h_cap << (max(0, rows.bit_length() - 1) if room is None else room)


def _too_wide(params: TrainParams, rows: int) -> DoesNotFitError:
    text = (
        f"a table of {rows} rows with reg_lambda={params.reg_lambda:g} needs numbers wider than 256 bits; "
        "train on fewer rows, or lower reg_lambda if it is large"
    )
    return DoesNotFitError(text, parameter="rows", value=rows)


def gain_cap(rows: int, g_cap: int) -> int:
    """Return more than any gain can be: a sum of squares over a denominator of at least one."""
    return rows**2 * g_cap**2 + 1


def _unit_of_h(params: TrainParams, f_h: int) -> Fraction:
    """Return how many units of h~ are a hessian of 1."""
    return Fraction(2) ** f_h / Fraction(params.h_factor)


def _lambda(params: TrainParams, f_h: int) -> int:
    """Return lambda~, which vanishes with lambda only."""
    lam = round(Fraction(params.reg_lambda) * _unit_of_h(params, f_h))
    return max(1, lam) if params.reg_lambda > 0 else lam


def _gamma(params: TrainParams, f_g: int, f_h: int, cap: int) -> int:
    """Return gamma~, up to a cap that no gain reaches."""
    exact = Fraction(max(params.gamma, SMALLEST_GAMMA)) * Fraction(2) ** (2 * f_g) / _unit_of_h(params, f_h)
    return min(max(1, round(exact)), cap)


def scale(params: TrainParams, public: ScalePlan, rows: int, f_g: int, f_h: int) -> Scale:
    """Return the constants at given scales."""
    mcw = min(math.ceil(Fraction(params.min_child_weight) * _unit_of_h(params, f_h)), rows * public.h_cap + 1)
    mcw = least_hessian(params, mcw)
    alpha = min(round(Fraction(params.reg_alpha) * Fraction(2) ** f_g), public.alpha_cap(rows))
    delta = _delta(params, public, rows, f_g, f_h)
    return Scale(f_g, f_h, _lambda(params, f_h), _gamma(params, f_g, f_h, public.gam_cap), mcw, alpha, delta)


def _delta(params: TrainParams, public: ScalePlan, rows: int, f_g: int, f_h: int) -> int | None:
    """Return the bound on all weights, in the units of bounds."""
    if not params.largest_step:
        return public.weight_cap or None
    exact = Fraction(params.largest_step) * Fraction(2) ** (f_g + public.places) / _unit_of_h(params, f_h)
    if not public.weight_cap:
        return min(max(1, round(exact)), public.delta_cap(rows))
    steps = round(exact / (1 << public.coarse))
    if steps < _LEAST_STEPS:
        text = (
            f"max_delta_step={params.largest_step:g} is too small beside the gradients for a training with "
            "constraints; rescale the labels, or leave one of them out"
        )
        raise DoesNotFitError(text, parameter="max_delta_step", value=params.largest_step)
    return min(steps << public.coarse, public.weight_cap)


def no_split_first(params: TrainParams) -> bool:
    """Return whether a tie between a split and none leaves the node as it is, as XGBoost does without a gamma."""
    return params.gamma <= SMALLEST_GAMMA


def round_hessians(
    params: TrainParams, h: npt.NDArray[np.float64], f_h: int, h_cap: int | None = None
) -> npt.NDArray[np.int64]:
    """Return h~; where 0 has to mean a hessian of 0, a smaller h than 1/2 becomes 1."""
    rounded = encode_fixed(h, f_h, h_cap)
    return np.maximum(rounded, h > 0) if tells_zero_hessians(params) else rounded


def constants_of(params: TrainParams, ring: Ring, scale: Scale) -> dict[str, tuple[Ring, int]]:
    """Return the constants of trees, by their names in Constants, each with the ring that it is needed in."""
    constants = {"lam": (ring, scale.lam), "gam": (ring, scale.gam), "mcw": (VECTOR, scale.mcw)}
    if params.reg_alpha:
        constants["alpha"] = ring, scale.alpha
    if params.largest_step or params.constrained:
        constants["delta"] = ring, scale.delta or 0
    return constants


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
    if public.weight_cap and public.f_g is None:
        spare = max(0, public.g_cap.bit_length() - _LEAST_G_BITS)
        f_g = max(f_g - spare, min(f_g, _held_scale(params, public, g, h, f_h)))
    return scale(params, public, rows, f_g, f_h)


def _held_scale(
    params: TrainParams, public: ScalePlan, g: npt.NDArray[np.float64], h: npt.NDArray[np.float64], f_h: int
) -> int:
    """Return the finest scale of g at which no node of any tree can weigh more than W.

    W is public and its unit is not: where all g are small beside lambda, a coarser unit leaves W above every weight.
    """
    largest = min(largest_weight(g, h, params.reg_lambda), params.largest_step or math.inf, _LARGEST_WEIGHT)
    return finest(largest * _ROUNDED_UP, public.weight_cap) - public.places + f_h


def largest_weight(g: npt.NDArray[np.float64], h: npt.NDArray[np.float64], reg_lambda: float) -> float:
    """Return the most that |G| / (H + lambda) can be for any rows of a tree, from g and h of (trees, rows) or (rows,).

    A row adds to such a fraction if its |g| / h is larger: so the rows are the first ones by that, of either sign.
    """
    most = 0.0
    for of_g, of_h in zip(np.atleast_2d(g), np.atleast_2d(h), strict=True):
        for side in (of_g, -of_g):
            counts = side > 0
            above, below = side[counts], of_h[counts]
            order = np.argsort(below / above)
            with np.errstate(divide="ignore", over="ignore"):
                fractions = np.cumsum(above[order]) / (np.cumsum(below[order]) + reg_lambda)
            most = max(most, float(fractions.max(initial=0.0)))
    return most


def finest(largest: float, cap: int) -> int:
    """Return the largest f with largest * 2^f <= cap."""
    if largest == 0:
        return 0
    _, exponent = math.frexp(largest)  # 2^(exponent - 1) <= largest < 2^exponent
    f = cap.bit_length() - exponent
    return f if Fraction(largest) * Fraction(2) ** f <= cap else f - 1
