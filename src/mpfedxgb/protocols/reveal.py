"""The one door through which a value becomes known: every reveal has a name and a receiver, and is in the ledger."""

from __future__ import annotations

from math import prod

from mpfedxgb.errors import UserError
from mpfedxgb.party.party import ALL, Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.opening import open_shares
from mpfedxgb.protocols.secret import Secret, Shares, to_shares
from mpfedxgb.ring.array import RingArray
from mpfedxgb.transport.topology import MESH


def reveal(party: Party, x: Secret | Shares, to: int, name: str, count: int | None = None) -> RingArray:
    """Return a secret's value to one participant, or to ALL of them; hidden for every other role.

    1. Everyone adds its part of a fresh sharing of zero (all but one expand theirs, the coordinator corrects the last):
       bare shares of a sum would give away its summands.
    2. The parts are added up: by the receiver, who never sends its own, and in a star on their way by the active
       participant; in a mesh they go straight to the receiver.

    `count` is what the ledger counts, where it is not the number of elements. Rounds: 1. Sent: size elements by each
    auxiliary but the receiver. Reveals: `name` to the receiver.
    """
    if to != ALL and not ACTIVE <= to <= party.roster.size:
        raise UserError(f"{name} is revealed to ALL or to a participant 1..{party.roster.size}, not to role {to}")
    party.step(f"reveal {name}")
    party.record(name, to, prod(x.shape) if count is None else count)
    spec = (x.ring, x.shape)
    (zero,) = party.deal([spec], lambda: [RingArray.zeros(*spec)])
    if party.is_coordinator:
        return RingArray.hidden(*spec)
    part = (to_shares(party, x) if isinstance(x, Secret) else x).part + zero
    value = open_shares(party, [part])[0] if to == ALL else _collect(party, part, to)
    if not value.is_hidden:
        party.on_reveal(name, value)
    return value


def _collect(party: Party, part: RingArray, to: int) -> RingArray:
    spec = (part.ring, part.shape)
    straight = party.topology == MESH or to == ACTIVE
    party.count(rounds=1, hops=1 if straight else 2)
    if straight:
        if party.role != to:
            party.send([to], [part])
            return RingArray.hidden(*spec)
        for m in party.peers:
            part = part + party.receive(m, [spec])[0]
        return part
    if party.is_active:
        total = part
        for m in party.others:
            if m != to:
                (theirs,) = party.receive(m, [spec])
                total = total + theirs
        party.send([to], [total])
        return RingArray.hidden(*spec)
    if party.role == to:
        (rest,) = party.receive(ACTIVE, [spec])
        return part + rest
    party.send([ACTIVE], [part])
    return RingArray.hidden(*spec)
