"""What is revealed is written down."""

from __future__ import annotations

import pytest

from mpfedxgb.party import ALL, Ledger, Party, Reveal, run_locally
from mpfedxgb.protocols import reveal, share
from mpfedxgb.ring import VECTOR, RingArray
from support.names import unlisted


def test_reveals_add_up_by_name_and_receiver() -> None:
    """One line per name and receiver, in the order of first appearance."""
    ledger = Ledger()
    ledger.record("leaf", "P1", 3)
    ledger.record("owner", "everyone", 1)
    ledger.record("leaf", "P2", 5)
    ledger.record("leaf", "P1", 4)
    assert list(ledger) == [Reveal("leaf", "P1", 7), Reveal("owner", "everyone", 1), Reveal("leaf", "P2", 5)]
    assert len(ledger) == 3


def test_ledgers_are_compared_by_content() -> None:
    """Equal entries make equal ledgers; one more value does not."""
    first, second = Ledger(), Ledger()
    assert first == second
    first.record("leaf", "P1", 2)
    assert first != second
    second.record("leaf", "P1", 1)
    assert first != second
    second.record("leaf", "P1", 1)
    assert first == second
    assert first != [Reveal("leaf", "P1", 2)]


def test_a_ledger_is_no_key() -> None:
    """It grows, so it cannot be hashed."""
    with pytest.raises(TypeError):
        hash(Ledger())


def test_a_ledger_shows_names_and_counts() -> None:
    """That is all there is in it."""
    ledger = Ledger()
    ledger.record("leaf", "P1", 2)
    assert repr(ledger) == "Ledger([Reveal(name='leaf', receiver='P1', count=2)])"


def revealing(party: Party) -> None:
    """Reveal to all, to each participant, and announce."""
    x = share(party, 2, VECTOR, (2, 3), RingArray.encode(VECTOR, [[1, 2, 3], [4, 5, 6]]))
    party.announce(unlisted("rows"), [2])
    reveal(party, x, ALL, unlisted("x"))
    reveal(party, x[0], 1, unlisted("row"))
    reveal(party, x[0], 2, unlisted("row"))
    reveal(party, x[1], 1, unlisted("row"))
    party.announce(unlisted("shape"), [2, 3])


@pytest.mark.parametrize("participants", [2, 3])
def test_all_roles_keep_the_same_ledger(participants: int) -> None:
    """Names, receivers and counts of a run, alike in every role; sharing is not in it."""
    ledgers = run_locally(revealing, participants).ledgers
    assert list(ledgers[0]) == [
        Reveal("rows", "coordinator", 1),
        Reveal("x", "participants", 6),
        Reveal("row", "P1", 6),
        Reveal("row", "P2", 3),
        Reveal("shape", "coordinator", 2),
    ]
    assert all(ledger == ledgers[0] for ledger in ledgers)
