"""Exhaustive views: over all randomness at once, no coalition's view depends on the others' secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from mpfedxgb.party import ALL, COORDINATOR
from mpfedxgb.transport.transport import MESH
from support import tiny_cases as tiny
from support.views import Case, Coalition, Way, coalitions, leaks

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
    "quotient of an auxiliary's": partial(tiny.quotients, owner=2),
    "quotient of the active one's": partial(tiny.quotients, owner=1),
    "quotient of an auxiliary's, in two digits": partial(tiny.quotients_of_two_digits, owner=2),
    "quotient of the active one's, in two digits": partial(tiny.quotients_of_two_digits, owner=1),
    "compare together": tiny.comparisons_together,
    "compare, and a bit": tiny.comparisons_and_bits,
    "cut an auxiliary's": partial(tiny.cuts, owner=2),
    "cut the active one's": partial(tiny.cuts, owner=1),
    "round off an auxiliary's": partial(tiny.roundings, owner=2),
    "round off the active one's": partial(tiny.roundings, owner=1),
    "look up in two entries": partial(tiny.look_ups, places=1),
    "look up in four entries": partial(tiny.look_ups, places=2),
    "an auxiliary's bits to a ring": partial(tiny.conversions, owner=2),
    "the active one's bits to a ring": partial(tiny.conversions, owner=1),
    "mask rows": tiny.masked_rows,
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
    "quotient of an auxiliary's": lambda m, coalition: m == 3 and len(coalition) == 1,
    "quotient of the active one's": lambda m, coalition: m == 3 and len(coalition) == 1,
    "quotient of an auxiliary's, in two digits": lambda m, coalition: (
        1 in coalition or (m == 3 and len(coalition) == 1)
    ),
    "quotient of the active one's, in two digits": lambda m, coalition: (
        1 in coalition or (m == 3 and len(coalition) == 1)
    ),
    "compare together": lambda m, coalition: m == 3 and len(coalition) == 1,
    "compare, and a bit": lambda m, coalition: m == 3 and len(coalition) == 1,
    "cut an auxiliary's": lambda m, coalition: m == 3 and coalition == {1},
    "round off an auxiliary's": lambda m, coalition: m == 3 and len(coalition) == 1,
    "round off the active one's": lambda m, coalition: m == 3 and len(coalition) == 1,
}
"""Where honest participants draw more than can be enumerated (with one, nearly all rows are covered), and the one case
that is meant for auxiliaries, to whom nothing is dealt."""


DEALT_SAMPLED = (
    "less than, two digits, dealt shares sampled",
    "negative by bits, in two rounds, an auxiliary's",
    "negative by bits, in two rounds, the active one's",
    "truncate the active one's",
    "quotient of an auxiliary's, in two digits",
    "quotient of the active one's, in two digits",
)
"""Where dealt shares are too many to enumerate: those who receive no correction are looked at."""

OPENED_BY_THREE = (
    "multiply",
    "multiply and reveal",
    "share each",
    "open bit and select",
    "tags",
    "reveal to the active one",
    "reveal to an auxiliary",
    "reveal to all",
)
"""Every kind of message among participants."""


def views() -> Iterator[Any]:
    """Yield every protocol with every coalition that it hides something from and that can be enumerated."""
    for name, make in CASES.items():
        for m in (2, 3):
            for coalition in coalitions(m):
                if make(m).hides(coalition) and not (name in LEFT_OUT and LEFT_OUT[name](m, coalition)):
                    who = "+".join(f"P{p}" for p in sorted(coalition))
                    yield pytest.param(make, m, coalition, id=f"{name}-{who} of {m}")


def views_of_two() -> Iterator[Any]:
    """Yield every protocol with either of two participants that it hides something from."""
    for name, make in CASES.items():
        for coalition in coalitions(2):
            if make(2).hides(coalition) and not (name in DEALT_SAMPLED and 2 in coalition):
                yield pytest.param(name, coalition, id=f"{name}-P{min(coalition)}")


def views_of_three() -> Iterator[Any]:
    """Yield every kind of message with every coalition that it hides something from."""
    for name in OPENED_BY_THREE:
        for coalition in coalitions(3):
            if CASES[name](3).hides(coalition):
                yield pytest.param(name, coalition, id=f"{name}-{'+'.join(f'P{p}' for p in sorted(coalition))}")


@pytest.mark.parametrize(("make", "participants", "coalition"), list(views()))
def test_view_of_a_coalition_is_the_same_for_all_secrets(make: Make, participants: int, coalition: Coalition) -> None:
    """What a coalition receives is distributed alike, whatever the others' secrets, given what it may know."""
    assert leaks(make(participants), participants, coalition) == []


@pytest.mark.parametrize(("name", "coalition"), list(views_of_two()))
def test_views_with_a_corrected_auxiliary(name: str, coalition: Coalition) -> None:
    """The same where the coordinator corrects P_2, whose shares then are the only ones that nobody expands.

    In a mesh of two P_2 gets P_1's parts, and with its own the sums that it would get in a star: it sees no less.
    """
    assert leaks(CASES[name](2), 2, coalition, way=Way(MESH, corrected=2)) == []


@pytest.mark.parametrize(("name", "coalition"), list(views_of_three()))
def test_views_in_a_mesh_of_three(name: str, coalition: Coalition) -> None:
    """Everybody sees everybody's part of what is opened, and P_2 has the corrections: still nobody learns anything."""
    assert leaks(CASES[name](3), 3, coalition, way=Way(MESH, corrected=2)) == []


@pytest.mark.parametrize("name", CASES)
def test_view_of_the_coordinator_is_the_same_for_all_secrets(name: str) -> None:
    """The coordinator, who knows all randomness, receives nothing that depends on a secret, except owners of tags."""
    assert leaks(CASES[name](2), 2, frozenset({COORDINATOR})) == []
