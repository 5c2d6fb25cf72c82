"""Exhaustive views: over all randomness at once, no coalition's view depends on the others' secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from mpfedxgb.party import ALL, COORDINATOR
from support import tiny_cases as tiny
from support.views import Case, Coalition, coalitions, leaks

Make = Callable[[int], Case]

CASES: dict[str, Make] = {
    "multiply": tiny.products,
    "multiply and reveal": tiny.revealed_products,
    "inner product": tiny.inner_products,
    "three factors": tiny.threefold,
    "less than": tiny.comparisons,
    "less than, padded": tiny.comparisons_with_padding,
    "less than, digit of two bits": tiny.comparisons_of_wide_digits,
    "less than, two digits of an auxiliary's": partial(tiny.comparisons_of_two_digits, owner=2),
    "less than, two digits of the active one's": partial(tiny.comparisons_of_two_digits, owner=1),
    "less than, two digits, dealt shares sampled": tiny.comparisons_seen_by_auxiliaries,
    "negative": tiny.signs,
    "negative by bits": tiny.signs_by_bits,
    "negative by bits, in two rounds, an auxiliary's": partial(tiny.signs_in_two_rounds, owner=2),
    "negative by bits, in two rounds, the active one's": partial(tiny.signs_in_two_rounds, owner=1),
    "negative by bits, of valid ones": tiny.signs_of_valid_ones,
    "tournament of an auxiliary's": partial(tiny.tournaments, owner=2),
    "tournament of the active one's": partial(tiny.tournaments, owner=1),
    "negative and reveal": tiny.revealed_signs,
    "open bit and select": tiny.selections,
    "two gates": tiny.double_gates,
    "two gates of owned bits": tiny.owned_gates,
    "child update and leaf": tiny.children,
    "sums over leaves": tiny.leaf_sums,
    "sums over leaves, marks multiplied at once": tiny.leaf_sums_at_once,
    "share each": tiny.shares_of_each,
    "tags": tiny.tags,
    "reveal to the active one": partial(tiny.reveals, to=1, factor=1),
    "reveal to an auxiliary": partial(tiny.reveals, to=2, factor=1),
    "reveal to all": partial(tiny.reveals, to=ALL, factor=1),
    "reveal twice the sum to all": partial(tiny.reveals, to=ALL, factor=2),
    "lift of an auxiliary's": partial(tiny.lifts, owner=2),
    "lift of the active one's": partial(tiny.lifts, owner=1),
    "lift of an auxiliary's secret": partial(tiny.lifts_of_secrets, owner=2),
    "lift of the active one's secret": partial(tiny.lifts_of_secrets, owner=1),
    "truncate an auxiliary's": partial(tiny.truncations, owner=2),
    "truncate the active one's": partial(tiny.truncations, owner=1),
}

LEFT_OUT: dict[str, Callable[[int, Coalition], bool]] = {
    "less than, padded": lambda m, coalition: m == 3 and len(coalition) == 1,
    "less than, two digits of an auxiliary's": lambda m, coalition: m == 3 and len(coalition) == 1,
    "less than, two digits of the active one's": lambda m, coalition: m == 3 and len(coalition) == 1,
    "less than, two digits, dealt shares sampled": lambda m, coalition: 1 in coalition,
    "negative by bits": lambda m, coalition: m == 3 and len(coalition) == 1,
    "negative by bits, in two rounds, an auxiliary's": lambda m, coalition: 1 in coalition or len(coalition) == 1,
    "negative by bits, in two rounds, the active one's": lambda m, coalition: m == 3 and len(coalition) == 1,
    "negative by bits, of valid ones": lambda m, coalition: m == 3 and len(coalition) == 1,
    "tournament of an auxiliary's": lambda m, coalition: m == 3 and len(coalition) == 1,
    "two gates": lambda m, coalition: m == 3 and coalition == {1},
    "lift of an auxiliary's": lambda m, coalition: m == 3 and coalition == {1},
    "truncate an auxiliary's": lambda m, coalition: m == 3 and len(coalition) == 1,
    "truncate the active one's": lambda m, coalition: m == 3 and len(coalition) == 1,
}
"""Where honest participants draw more than can be enumerated (with one, nearly all rows are covered), and the one case
that is meant for auxiliaries, to whom nothing is dealt."""


def views() -> Iterator[Any]:
    """Yield every protocol with every coalition that it hides something from and that can be enumerated."""
    for name, make in CASES.items():
        for m in (2, 3):
            for coalition in coalitions(m):
                if make(m).hides(coalition) and not (name in LEFT_OUT and LEFT_OUT[name](m, coalition)):
                    who = "+".join(f"P{p}" for p in sorted(coalition))
                    yield pytest.param(make, m, coalition, id=f"{name}-{who} of {m}")


@pytest.mark.parametrize(("make", "participants", "coalition"), list(views()))
def test_view_of_a_coalition_is_the_same_for_all_secrets(make: Make, participants: int, coalition: Coalition) -> None:
    """What a coalition receives is distributed alike, whatever the others' secrets, given what it may know."""
    assert leaks(make(participants), participants, coalition) == []


@pytest.mark.parametrize("name", CASES)
def test_view_of_the_coordinator_is_the_same_for_all_secrets(name: str) -> None:
    """The coordinator, who knows all randomness, receives nothing that depends on a secret, except owners of tags."""
    assert leaks(CASES[name](2), 2, frozenset({COORDINATOR})) == []
