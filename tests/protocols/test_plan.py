"""Plans of tournaments: their formulas against the meter, their choices against all others."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from mpfedxgb.config import LINKS, Link
from mpfedxgb.errors import UserError
from mpfedxgb.party import Party
from mpfedxgb.protocols import Fractions, Secret, Shares, Stage, plan, public_secret, stack, to_shares, winning_tags
from mpfedxgb.protocols.opening import HOP_SECONDS, in_pieces
from mpfedxgb.protocols.plan import BYTE_SECONDS, ROUND_SECONDS, STEP_SECONDS, Layout, winner_bits, winner_products
from mpfedxgb.ring import BIT, VECTOR, wide
from support.evaluation import Operand, evaluate, integers
from support.refusals import refused

BITS = 155
WIDTHS = [40, 63, 64, 65, 129, 155, 192, 256]


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


def straightforward(
    nodes: int, candidates: int, participants: int, topology: str, link: Link, valid: bool, bits: int
) -> tuple[float, tuple[Stage, ...]]:
    """Return seconds and stages of the cheapest plan, every stage laid out and its openings routed one by one."""
    ring, best = next(wide(limbs) for limbs in (2, 3, 4) if bits <= 64 * limbs), {1: (0.0, tuple[Stage, ...]())}

    def seconds(layout: Layout) -> float:
        hops = cuts = 0
        waited = 0.0
        for opened in layout.opened_bytes():
            others, is_cut = participants - 1, in_pieces(opened, participants, topology, link)
            hops += 2 if topology == "star" or is_cut else 1
            cuts += is_cut
            waited += 2 * others * opened / (participants if is_cut else 1) / (1 if topology == "star" or is_cut else 2)
        dealt = layout.dealt_bytes
        carried = max(dealt, dealt / participants + waited)
        own = ROUND_SECONDS * layout.openings + HOP_SECONDS * cuts + STEP_SECONDS + BYTE_SECONDS * dealt
        return own + hops * link.latency / 1e3 + 8 * carried / (link.bandwidth * 1e6)

    def cheapest(field: int, valid: bool) -> tuple[float, tuple[Stage, ...]]:
        found = []
        for size in range(2, min(field, 10) + 1):
            left = -(-field // size)
            if left not in best:
                best[left] = cheapest(left, valid=False)
            for rounds in (2, 3) if valid else (1, 2, 3):
                layout = Layout(nodes * left, size, rounds, ring, VECTOR, bits, valid, left > 1)
                if layout.signs.rounds == rounds:
                    rest, stages = best[left]
                    found.append((seconds(layout) + rest, (Stage(size, rounds), *stages)))
        return min(found, key=lambda way: way[0])

    return cheapest(candidates, valid)


@pytest.mark.parametrize("seed", range(40))
def test_a_plan_is_the_one_found_straightforwardly(seed: int) -> None:
    """The same stages for the same seconds as if every stage were laid out, for any sizes, links and topologies."""
    rng = np.random.default_rng(seed)
    nodes, candidates, bits = (
        int(rng.integers(1, 20)),
        int(rng.integers(2, 4 ** rng.integers(1, 6))),
        int(rng.choice(WIDTHS)),
    )
    participants, topology = int(rng.integers(2, 7)), str(rng.choice(["star", "mesh"]))
    link = Link(float(rng.choice([0, 0.3, 20.0])), float(rng.choice([50, 1000, 40000])))
    valid = bool(rng.integers(2))

    planned = plan(nodes, candidates, bits, participants, topology, link, valid)

    seconds, stages = straightforward(nodes, candidates, participants, topology, link, valid, bits)
    assert planned.seconds == pytest.approx(seconds, rel=1e-12)
    assert planned.stages == stages


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
    with refused(UserError, "choice", "topology", "ring"):
        plan(1, 91, BITS, 2, "ring")
