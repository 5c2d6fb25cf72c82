"""Plans of tournaments: their formulas against the meter, their choices against all others."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from mpfedxgb.config import LINKS
from mpfedxgb.errors import UserError
from mpfedxgb.party import Party
from mpfedxgb.protocols import Fractions, Secret, Shares, Stage, plan, public_secret, stack, to_shares, winning_tags
from mpfedxgb.protocols.plan import Layout, cost, winner_bits, winner_products
from mpfedxgb.ring import BIT, VECTOR, wide
from support.evaluation import Operand, evaluate, integers

BITS = 155


def played(
    participants: int, nodes: int, candidates: int, stages: tuple[Stage, ...], valid: bool, **settings: Any
) -> tuple[list[int], list[int]]:
    """Play a tournament of random fractions; return rounds, hops and bytes dealt, and the bytes that each one sends."""
    rng = np.random.default_rng(candidates)
    A, B = (integers(rng.integers(1, 9, (nodes, candidates)), (nodes, candidates)) for _ in range(2))

    def compute(party: Party, secrets: list[Secret]) -> list[Shares]:
        tag = public_secret(party, VECTOR, np.zeros((nodes, candidates), np.int64))
        bits = to_shares(party, public_secret(party, BIT, np.ones((nodes, candidates), np.int64)))
        field = Fractions(stack(secrets), tag, BITS, bits if valid else None)
        return [winning_tags(party, field, stages)]

    costs = evaluate(participants, [Operand(wide(3), A), Operand(wide(3), B)], compute, **settings).costs
    assert len({(c.rounds, c.hops) for c in costs[1:]}) == 1
    return [costs[1].rounds, costs[1].hops, costs[0].dealer_bytes], [c.bytes_sent for c in costs[1:]]


@pytest.mark.parametrize("valid", [False, True])
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(("nodes", "candidates"), [(1, 2), (1, 10), (4, 91), (3, 300)])
def test_a_plan_costs_what_it_says(nodes: int, candidates: int, link: str, valid: bool) -> None:
    """Rounds and bytes of the formulas are those of the meter, for any number of participants."""
    planned = plan(nodes, candidates, BITS, 3, "star", LINKS[link], valid)

    costs, sent = played(3, nodes, candidates, planned.stages, valid)

    assert costs == [planned.rounds, planned.hops, planned.dealt_bytes]
    assert sent[1:] == [planned.sent_bytes] * 2
    assert planned.hops == 2 * planned.rounds


@pytest.mark.parametrize(
    ("nodes", "candidates", "link"),
    [(1, 10, "wan"), (4, 91, "wan"), (4, 91, "lan"), (16, 300, "local"), (8, 931, "lan")],
)
def test_a_plan_for_a_mesh_costs_what_it_says(nodes: int, candidates: int, link: str) -> None:
    """Rounds, hops and bytes are those of the meter; large openings, cut into pieces, take one hop more."""
    planned = plan(nodes, candidates, BITS, 4, "mesh", LINKS[link], True)

    costs, sent = played(4, nodes, candidates, planned.stages, True, topology="mesh", link=LINKS[link])

    assert costs == [planned.rounds, planned.hops, planned.dealt_bytes]
    assert abs(sum(sent) - 4 * planned.sent_bytes) <= 4
    assert planned.hops < 2 * planned.rounds
    assert (planned.hops > planned.rounds) == (candidates > 100)


@pytest.mark.parametrize("valid", [False, True])
@pytest.mark.parametrize("stage", [Stage(2, 1), Stage(2, 2), Stage(3, 3), Stage(4, 1), Stage(7, 2)], ids=str)
def test_a_layout_costs_what_it_says(stage: Stage, valid: bool) -> None:
    """The same for single stages, those among them that no plan would choose here."""
    if valid and stage.rounds == 1:
        stage = Stage(stage.size, 2)
    layout = Layout(5, stage.size, stage.rounds, wide(3), VECTOR, BITS, valid, keeps_value=False)

    costs, sent = played(2, 5, stage.size, (stage,), valid)

    assert costs == [layout.openings, 2 * layout.openings, layout.dealt_bytes]
    assert sent[1] == sum(layout.opened_bytes())
    assert len(layout.opened_bytes()) == layout.openings


@pytest.mark.parametrize(("size", "valid"), list(product(range(3, 8), (False, True))))
def test_products_for_winners_are_counted(size: int, valid: bool) -> None:
    """The formula counts what the polynomials deal."""
    assert winner_bits(size, valid).dealt == winner_products(size, valid)


def test_a_plan_is_the_cheapest_of_all() -> None:
    """No other stages are cheaper: all of them, tried one by one, for few candidates."""

    def seconds(stages: tuple[Stage, ...]) -> float:
        total, left = 0.0, 12
        for stage in stages:
            groups, size = -(-left // stage.size), stage.size
            layout = Layout(2 * groups, size, stage.rounds, wide(3), VECTOR, BITS, False, groups > 1)
            total += cost(layout, 3, "star", LINKS["lan"]).seconds
            left = groups
        return total

    def ways(left: int) -> list[tuple[Stage, ...]]:
        if left == 1:
            return [()]
        stages = [Stage(size, rounds) for size in range(2, min(left, 10) + 1) for rounds in (1, 2, 3)]
        return [(stage, *rest) for stage in stages for rest in ways(-(-left // stage.size))]

    planned = plan(2, 12, BITS, 3, "star", LINKS["lan"])

    assert min(seconds(way) for way in ways(12)) == pytest.approx(planned.seconds)
    assert seconds(planned.stages) == pytest.approx(planned.seconds)


def test_rounds_are_saved_where_they_are_dear_and_bytes_elsewhere() -> None:
    """The longer the way, the fewer hops and the more bytes; no plan is dearer by its own measure than another's."""
    plans = {name: plan(4, 931, BITS, 4, "star", link) for name, link in LINKS.items()}

    assert plans["wan"].hops < plans["lan"].hops <= plans["local"].hops
    assert plans["wan"].dealt_bytes > plans["lan"].dealt_bytes >= plans["local"].dealt_bytes


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_a_level_of_91_candidates_over_a_wide_area(nodes: int) -> None:
    """Ten features of nine thresholds: in the star at most 22 hops up to the shares of the tags, in the mesh 12."""
    assert plan(nodes, 91, 170, 4, "star", LINKS["wan"], valid=True).hops <= 22
    assert plan(nodes, 91, 170, 4, "mesh", LINKS["wan"], valid=True).hops <= 12


def test_a_thousand_candidates_on_one_machine_take_few_bytes() -> None:
    """About 300 bytes for each candidate and node, where 3,100 were dealt before."""
    assert plan(4, 931, BITS, 4, valid=True).dealt_bytes <= 320 * 4 * 931


@pytest.mark.parametrize("candidates", [*range(1, 30), 91, 1000, 30_000])
@pytest.mark.parametrize("link", LINKS)
def test_every_plan_leaves_one(candidates: int, link: str) -> None:
    """The stages are as many as are needed, and the last leaves one candidate; alone it plays nothing."""
    left = candidates
    for stage in plan(2, candidates, BITS, 2, "star", LINKS[link]).stages:
        assert left > 1
        left = -(-left // stage.size)
    assert left == 1


def test_plans_say_what_they_are() -> None:
    """A plan is a line in the record of a run."""
    assert str(plan(1, 1, BITS, 2)) == "nothing to play: 0 rounds, 0 hops, 0 bytes dealt"
    assert "rounds, " in str(plan(1, 91, BITS, 2))


def test_unknown_topologies_are_refused() -> None:
    """There is a star and a mesh."""
    with pytest.raises(UserError, match="topology='ring' is not known; it is one of star, mesh"):
        plan(1, 91, BITS, 2, "ring")
