"""The one door through which a value becomes known: every reveal has a name and a receiver, and is in the ledger.

Blinded tags: the winner of a tournament names its owner to all, and its index to its owner alone.

A tag is v = owner + 256 (local + kappa) mod 2^64, where kappa is the owner's, fresh for every tournament. The masked
value m_v = owner + 256 local is public, the mask -256 kappa is the owner's. Opened, the low byte is the owner; the rest
is uniform to everybody who does not know kappa. Of a coordinator's candidates every participant has a part of kappa,
and P_1 announces to it what was opened of its winners: nothing is revealed to it in parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import DoesNotFitError, FrameError, UserError
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.party import ALL, Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.opening import open_shares
from mpfedxgb.protocols.secret import Secret, Shares, concatenate, to_shares
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import VECTOR, Ring, Shape
from mpfedxgb.transport.transport import MESH


def reveal(party: Party, x: Secret | Shares, to: int, name: Entry, count: int | None = None) -> RingArray:
    """Return a secret's value to one participant, or to ALL of them; hidden for every other role.

    1. Everyone adds its part of a fresh sharing of zero (all but one expand theirs, the coordinator corrects the last):
       bare shares of a sum would give away its summands.
    2. The parts are added up: by the receiver, who never sends its own, and in a star on their way by the active
       participant; in a mesh they go straight to the receiver.

    `count` is what the ledger counts, where it is not the number of elements. Rounds: 1. Sent: size elements by each
    auxiliary but the receiver. Reveals: `name` to the receiver.
    """
    if to != ALL and not ACTIVE <= to <= party.roster.size:
        raise UserError(
            f"{name} is revealed to ALL or to a participant 1..{party.roster.size}, not to role {to}", "range", "to", to
        )
    party.step(f"reveal {name}")
    party.record(name, to, prod(x.shape) if count is None else count)
    spec = (x.ring, x.shape)
    (zero,) = party.deal([spec], lambda: [RingArray.zeros(*spec)])
    if party.is_dealer:
        return RingArray.hidden(*spec)
    part = (to_shares(party, x) if isinstance(x, Secret) else x).part + zero
    value = open_shares(party, [part])[0] if to == ALL else _collect(party, part, to)
    if not value.is_hidden:
        party.observer.on_reveal(name, value)
    return value


def _collect(party: Party, part: RingArray, to: int) -> RingArray:
    spec = (part.ring, part.shape)
    straight = party.topology == MESH or to == ACTIVE
    party.count(rounds=1, hops=1 if straight else 2)
    adder = to if straight else ACTIVE
    if party.role == adder:
        for m in party.peers:
            if m != to:
                part = part + party.receive(m, [spec])[0]
        if party.role == to:
            return part
        party.send([to], [part])
    elif party.role == to:
        return part + party.receive(adder, [spec])[0]
    else:
        party.send([adder], [part])
    return RingArray.hidden(*spec)


NOBODY = 0
"""The owner of a candidate that is nobody's, such as "no split"."""

_OWNER = 256


@dataclass(frozen=True, slots=True, eq=False)
class Tags:
    """Tags (..., candidates) of a batch of tournaments, and the blinding (...) of each owner in its own run."""

    secret: Secret
    kappa: dict[int, RingArray]
    counts: dict[int, int]
    """Candidates of each owner."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What a role knows of the winners: all owners, and the local index where the winner is its own (-1 elsewhere)."""

    owner: npt.NDArray[np.int64]
    local: npt.NDArray[np.int64] = field(repr=False)


def make_tags(party: Party, batch: Shape, counts: Sequence[tuple[int, int]], ring: Ring = VECTOR) -> Tags:
    """Return tags for candidates listed as (owner, count), in this order, for each tournament of a batch.

    Local: the masked values are public, the blindings are expanded from the owners' seeds.
    """
    party.step("tags")
    if ring.bits <= 8 or any(count >> (ring.bits - 9) for _, count in counts):
        text = f"an owner and an index of up to {max(c for _, c in counts)} do not fit {ring}"
        raise DoesNotFitError(text, parameter="ring", value=str(ring))
    owners = [owner for owner, _ in counts]
    if len(set(owners)) != len(owners):
        raise DoesNotFitError("an owner's candidates are listed twice; list each owner once", "duplicate", "owner")
    kappa, pieces = {}, []
    for owner, count in counts:
        public = RingArray.encode(ring, owner + _OWNER * np.arange(count, dtype=np.int64)).broadcast_to((*batch, count))
        masked = RingArray.hidden(ring, public.shape) if party.is_dealer else public
        mask = RingArray.zeros(ring, public.shape)
        if owner != NOBODY:
            kappa[owner] = party.fresh_of(owner, ring, batch)
            mask = (kappa[owner] * -_OWNER).reshape(*batch, 1).broadcast_to(public.shape)
        pieces.append(Secret(masked, mask))
    return Tags(concatenate(pieces), kappa, dict(counts))


def open_tags(party: Party, tags: Tags, winner: Secret | Shares, name: Entry) -> Opened:
    """Reveal the winning tags (...) to all participants, and the owners to the coordinator too.

    Rounds: 1, and an announcement to the coordinator, two where winners are its own. Sent: one element per winner by
    each auxiliary. Reveals: `name`, the owners, to everyone; OWN_SPLIT, the local index, to its owner.
    """
    value = reveal(party, winner, ALL, name)
    owner = party.announce(name, None if value.is_hidden else value.decode() & (_OWNER - 1), value.shape)
    for m in party.roster.holders:
        party.record(Entry.OWN_SPLIT, m, int((owner == m).sum()))
    value = _announce_coordinators(party, value, owner)
    local = np.full(owner.shape, -1, np.int64)
    if _has_candidates(party, tags):
        index = (value - tags.kappa[party.owner] * _OWNER).decode() >> 8
        local = np.where(owner == party.owner, index, -1).astype(np.int64)
    _check_winners(party, tags, name, owner, local)
    return Opened(owner, local)


def _announce_coordinators(party: Party, value: RingArray, owner: npt.NDArray[np.int64]) -> RingArray:
    """Announce the opened tags of a coordinator's own winners; return all tags, at the coordinator its own and zeros.

    They are uniform to everybody else, who knows them already, and become part of the keys of all later steps.
    """
    own = owner == party.roster.owning_coordinator
    numbers = np.zeros(owner.shape, np.int64)
    if own.any():
        numbers = numbers if value.is_hidden else np.where(own, value.decode(), 0)
        numbers = party.announce(Entry.OWN_SPLIT, numbers, owner.shape, int(own.sum()))
    return RingArray.encode(value.ring, numbers) if party.is_dealer else value


def _has_candidates(party: Party, tags: Tags) -> bool:
    """Return whether candidates of this role take part, and it has their values."""
    return party.owner in tags.kappa and party.has_values_of(party.owner)


def _check_winners(
    party: Party, tags: Tags, name: str, owner: npt.NDArray[np.int64], local: npt.NDArray[np.int64]
) -> None:
    """Raise FrameError if a winner is none of the candidates: some role sent a wrong share, correction or owner."""
    unknown = sorted(set(owner.ravel().tolist()) - set(tags.counts))
    if unknown:
        sender = f" from {party.roster.name(ACTIVE)}" if party.is_coordinator else ""
        text = f"malformed {name}{sender}: got the owner {unknown[0]}, expected one of {sorted(tags.counts)}"
        raise FrameError(text, parameter=name, value=sender)
    own, count = local[owner == party.owner], tags.counts.get(party.owner, 0)
    if _has_candidates(party, tags) and ((own < 0) | (own >= count)).any():
        text = f"malformed {name}: got a winner of {party.name} that is none of its {count} candidates"
        raise FrameError(text, parameter=name, value=party.name)
