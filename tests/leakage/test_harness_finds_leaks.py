"""Negative controls: protocols with one mask forgotten, one share too wide or one key used twice are found to leak."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from mpfedxgb.party import ALL, Party
from mpfedxgb.protocols import Secret
from mpfedxgb.protocols.opening import open_shares
from mpfedxgb.protocols.share import publish
from mpfedxgb.ring import Ring, RingArray, kernels
from mpfedxgb.ring.array import low_digits
from support import tiny_cases as tiny
from support.views import Case, Coalition, Draw, Given, Inputs, Output, coalitions, draws_of, leaks

P1 = frozenset({1})


def at(step: str, index: int | None = None) -> Callable[[Draw], bool]:
    """Return a predicate for everyone's draws, or everyone's index-th draw, at the steps of one name."""
    return lambda draw: draw.label.partition(":")[2] == step and index in (None, draw.index)


@pytest.mark.parametrize("to", [1, 2, 3, ALL])
def test_reveal_without_sharing_of_zero_leaks_the_summands(to: int) -> None:
    """Bare shares of a sum tell the active participant the summands: the sharing of zero is there and is needed."""
    case = tiny.reveals(3, to, 2 if to == ALL else 1)

    assert leaks(case, 3, P1) == []
    assert leaks(case, 3, P1, frozen=at("reveal sum"))


@pytest.mark.parametrize("coalition", coalitions(2))
def test_multiply_without_fresh_mask_leaks_the_product(coalition: Coalition) -> None:
    """A product that is opened bare is a reveal without a ledger."""
    fresh = {1: 0, 2: 1}  # the auxiliary draws its part of the dealt product first

    def frozen(draw: Draw) -> bool:
        return at("multiply", fresh[draw.participant])(draw)

    assert leaks(tiny.products(2), 2, coalition, frozen=frozen)


def test_multiply_without_dealt_share_leaks_the_product_of_masks() -> None:
    """If the auxiliary did not expand a share of the dealt product, the correction would be the product itself."""
    assert leaks(tiny.products(2), 2, P1, frozen=lambda draw: draw.participant == 2 and at("multiply", 0)(draw))


@pytest.mark.parametrize("step", ["open bit", "remainder", "bits to a number"])
def test_quotient_without_a_fresh_mask_leaks_it(step: str) -> None:
    """A digit, the remainder behind it and the quotient itself are opened, each under a mask that is needed."""
    assert leaks(tiny.quotients_of_two_digits(2, owner=1), 2, frozenset({2}), frozen=at(f"quotient/{step}"))


@pytest.mark.parametrize("owner", [1, 2])
def test_tag_without_blinding_leaks_the_index(owner: int) -> None:
    """Without kappa the other participant reads the winner's index."""
    (other,) = {1, 2} - {owner}

    assert leaks(tiny.tags(2), 2, frozenset({other}), frozen=at("tags"))
    assert not leaks(tiny.tags(2), 2, frozenset({other}), frozen=lambda d: d.participant == other and at("tags")(d))


SPARSE: dict[str, Callable[[int], Case]] = {
    "multiply": tiny.products,
    "inner product": tiny.inner_products,
    "less than": tiny.comparisons,
    "less than, digit of two bits": tiny.comparisons_of_wide_digits,
    "negative": tiny.signs,
    "negative by bits": tiny.signs_by_bits,
    "compare together": tiny.comparisons_together,
    "look up in two entries": partial(tiny.look_ups, places=1),
    "look up in four entries": partial(tiny.look_ups, places=2),
    "an auxiliary's bits to a ring": partial(tiny.conversions, owner=2),
    "the active one's bits to a ring": partial(tiny.conversions, owner=1),
    "mask rows": tiny.masked_rows,
    "lift of an auxiliary's": partial(tiny.lifts_of_secrets, owner=2),
    "lift of the active one's": partial(tiny.lifts_of_secrets, owner=1),
}
"""Protocols that draw nothing they could do without, seen by all participants but one."""


@pytest.mark.parametrize("participants", [2, 3])
@pytest.mark.parametrize("name", SPARSE)
def test_every_single_mask_is_needed(name: str, participants: int) -> None:
    """Forget any one draw of the honest participant, and all the others together learn something."""
    case = SPARSE[name](participants)
    for coalition in coalitions(participants):
        if len(coalition) == participants - 1 and case.hides(coalition):
            for forgotten in draws_of(case, participants):
                if forgotten.participant not in coalition and forgotten.size:
                    assert leaks(case, participants, coalition, frozen=forgotten.__eq__), forgotten


def less_than_too_wide(party: Party, x: Secret, wide: Ring) -> RingArray:
    """Open the digit of a comparison without reducing it to the size of its table first (one digit of one bit)."""
    party.step("less than")
    rho = party.fresh(Ring(1), (*x.shape, 1)).cast(wide)
    spec = (wide, (*x.shape, 1, 2))

    def table() -> list[RingArray]:
        digits = low_digits(x.mask, 1, 1)
        return [RingArray(wide, (digits[..., None] == np.arange(2)).astype(np.uint8))]

    (one_hot,) = party.deal([spec], table)
    if party.is_coordinator:
        return RingArray.hidden(wide, rho.shape)
    t = np.empty(rho.shape, np.uint8)
    kernels.digit_terms(low_digits(x.masked, 1, 1), np.ascontiguousarray(one_hot.data), int(party.is_active), t)
    return open_shares(party, [RingArray(wide, wide.reduce(t)) + rho])[0]


@pytest.mark.parametrize("coalition", coalitions(2))
@pytest.mark.parametrize("width", [1, 2])
def test_comparison_opened_wider_than_its_mask_leaks(width: int, coalition: Coalition) -> None:
    """A digit opened modulo 4 under masks of one bit tells on the secret; opened modulo 2 it does not."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        less_than_too_wide(party, tiny.total(tiny.shared(party, inputs)), Ring(width))
        return []

    found = leaks(Case(program, tiny.of_everyone(2, tiny.Z2)), 2, coalition)

    assert bool(found) == (width == 2)


@pytest.mark.parametrize("twice", [False, True])
def test_mask_used_for_two_values_leaks_their_difference(twice: bool) -> None:
    """Two values under one mask: the harness sees the difference."""

    def program(party: Party, inputs: Inputs) -> list[Output]:
        shape = (inputs.batch,)
        for name in ("x", "y"):
            if name == "x" or not twice:
                party.step("share")
                mask = party.fresh_of(2, tiny.Z4, shape)
            masked = inputs.mine[name] + mask if party.role == 2 else RingArray.hidden(tiny.Z4, shape)
            publish(party, 2, [masked])
        return []

    case = Case(program, {"x": Given(2, tiny.Z4, range(4)), "y": Given(2, tiny.Z4, range(4))})

    assert bool(leaks(case, 2, P1)) == twice


@pytest.mark.parametrize("coalition", coalitions(3))
def test_child_update_without_fresh_mask_leaks_the_side(coalition: Coalition) -> None:
    """The left child's values, opened bare, tell which side a row goes to, or what it is worth there."""
    if not tiny.children(3).hides(coalition):
        pytest.skip("this coalition knows everything")
    bare = at("child update")
    fresh = {1: 0, 2: 1, 3: 1}  # the auxiliaries draw their part of the dealt product first

    assert leaks(tiny.children(3), 3, coalition, lambda d: bare(d) and d.index == fresh[d.participant])


def test_sharing_of_zero_hides_sums_not_values_opened_just_before() -> None:
    """A leaf's bits were opened under a fresh mask, which would do; the mask of a sum is older than the sum."""
    assert not leaks(tiny.children(3), 3, P1, frozen=at("reveal leaf membership"))
    assert leaks(tiny.reveals(3, 1, 1), 3, P1, frozen=at("reveal sum"))
