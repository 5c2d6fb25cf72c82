"""Protocols over rows, rehearsed: without content, every role counts what the run itself costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mpfedxgb.config import TOPOLOGIES, SessionSettings, Tuning
from mpfedxgb.party import ACTIVE, Party, Roster, run_locally
from mpfedxgb.party.dry_run import DryRunParty
from mpfedxgb.party.meter import Counts
from mpfedxgb.protocols import (
    BitField,
    Borrow,
    Sign,
    bits_to_ring,
    compare_together,
    cut,
    look_up,
    mask_rows,
    open_bit,
    round_off,
    share,
)
from mpfedxgb.ring import VECTOR, RingArray
from patience import patience

TABLE = np.arange(1 << 11, dtype=np.uint64)


def program(party: Party, count: int) -> Counts:
    """Cut numbers in two, look up coefficients, and mask rows anew; return what it cost."""
    values = RingArray.encode(VECTOR, np.arange(count) - 5)
    x = share(party, ACTIVE, VECTOR, (count,), values if party.is_active else None)
    negative, borrow = compare_together(party, [Sign(x, 62), Borrow(x, 19)])
    place, rest = cut(party, x, 19, 11, open_bit(party, borrow))
    (c,) = bits_to_ring(party, look_up(party, place, TABLE, 11), [BitField(0, 11, signed=True)], VECTOR)
    secret, vectors = mask_rows(party, rest + c)
    round_off(party, secret, 10, rounds=2)
    open_bit(party, negative)
    assert len(vectors.parts) == party.roster.size
    return party.meter.total()


@pytest.mark.parametrize("count", [0, 1, 23])
@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("participants", [2, 3, 5])
def test_a_rehearsal_costs_what_the_run_costs(participants: int, topology: str, count: int) -> None:
    """Rounds, hops, comparisons and bytes of all roles, where what is dealt takes several messages, or none."""
    settings = SessionSettings(topology=topology, deadline=patience(60.0), tuning=Tuning(dealt_bytes=5 * 256))
    run = run_locally(program, participants, [(count,)] * (participants + 1), settings)
    roster = Roster.numbered(participants)

    for role, cost in enumerate(run.results):
        party = DryRunParty(roster, role, settings, {}, lambda name, shape: np.zeros(shape, np.int64))
        rehearsed = program(party, count)
        assert replace(rehearsed, seconds=0.0) == replace(cost, seconds=0.0)
