"""The one door: who gets a value, who does not, and what the ledger says."""

from __future__ import annotations

import pytest
from hypothesis import given

from mpfedxgb.errors import UserError
from mpfedxgb.party import ACTIVE, ALL, COORDINATOR, Party, Reveal
from mpfedxgb.protocols import multiply, open_masked, reveal, to_shares
from mpfedxgb.ring import BIT, PACKED, VECTOR
from support.evaluation import (
    PARTICIPANTS,
    PROPERTY,
    RINGS,
    SEEDS,
    TINY,
    Integers,
    cases,
    enter,
    integers,
    operand,
    run_patiently,
    same,
)
from support.names import unlisted
from support.refusals import refused


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_the_receiver_alone_gets_the_value(participants: int, seed: int) -> None:
    """To ALL, to the active participant and to every auxiliary: right there, hidden everywhere else."""
    operands = [x for (x,) in cases(seed, (*RINGS, *TINY, BIT, PACKED), shapes=((), (0,), (2, 3)))]
    receivers: list[int] = [ALL, *range(1, participants + 1)]

    def receiver(i: int) -> int:
        return receivers[i % len(receivers)]

    def program(party: Party) -> list[Integers | None]:
        views = []
        for i, x in enumerate(operands):
            secret = enter(party, 1 + i % participants, x)
            whole = to_shares(party, secret) if i % 3 else secret
            value = reveal(party, whole, receiver(i), unlisted("value"))
            views.append(None if value.is_hidden else integers(value.decode()))
        return views

    views = run_patiently(program, participants).results

    assert views[COORDINATOR] == [None] * len(operands)
    for role in range(1, participants + 1):
        for i, (x, view) in enumerate(zip(operands, views[role], strict=True)):
            if receiver(i) in (ALL, role):
                assert view is not None
                same(view, x.ring, x.values)
            else:
                assert view is None


@pytest.mark.parametrize("participants", PARTICIPANTS)
def test_all_roles_keep_the_same_ledger(participants: int) -> None:
    """Name, receiver and count of every reveal of something, added up, in all roles, the coordinator too."""

    def program(party: Party) -> None:
        x = enter(party, 2, operand(VECTOR, [[1, 2, 3], [4, 5, 6]]))
        reveal(party, x, ALL, unlisted("everything"))
        reveal(party, x[0], ACTIVE, unlisted("a row"))
        reveal(party, x[1], ACTIVE, unlisted("a row"))
        reveal(party, x[0, 0], 2, unlisted("a row"))
        reveal(party, x[:, :0], participants, unlisted("nothing"))

    ledgers = run_patiently(program, participants).ledgers

    expected = [
        Reveal("everything", "participants", 6),
        Reveal("a row", "P1", 6),
        Reveal("a row", "P2", 1),
    ]
    assert [list(ledger) for ledger in ledgers] == [expected] * (participants + 1)


def test_a_secret_may_be_revealed_twice() -> None:
    """Every reveal has a zero-sharing of its own, so a second one, or one of a part, is right too."""

    def program(party: Party) -> list[list[int]]:
        x = enter(party, 1, operand(VECTOR, [3, -4]))
        party.step("open")
        y = open_masked(party, to_shares(party, multiply(party, x, x)))
        values = [
            reveal(party, y, ALL, unlisted("y")),
            reveal(party, y, ALL, unlisted("y")),
            reveal(party, y[1:], 2, unlisted("part of y")),
        ]
        return [[] if value.is_hidden else value.decode().tolist() for value in values]

    results = run_patiently(program, 3).results

    assert results == [[[]] * 3, [[9, 16], [9, 16], []], [[9, 16], [9, 16], [16]], [[9, 16], [9, 16], []]]


@pytest.mark.parametrize("to", [COORDINATOR, 4, -2])
def test_nobody_else_receives(to: int) -> None:
    """The coordinator, and roles that do not exist, are refused before anything is sent."""
    with refused(UserError, "range", "to", to):
        run_patiently(lambda party: reveal(party, enter(party, 1, operand(VECTOR, [1])), to, unlisted("value")), 3)
