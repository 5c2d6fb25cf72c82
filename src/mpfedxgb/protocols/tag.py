"""Blinded tags: the winner of a tournament names its owner to all, and its index to its owner alone.

A tag is v = owner + 256 (local + kappa) mod 2^64, where kappa is the owner's, fresh for every tournament. The masked
value m_v = owner + 256 local is public, the mask -256 kappa is the owner's. Opened, the low byte is the owner; the rest
is uniform to everybody who does not know kappa.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import DoesNotFitError, FrameError
from mpfedxgb.party.party import ALL, Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.reveal import reveal
from mpfedxgb.protocols.secret import Secret, Shares, concatenate
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import VECTOR, Ring, Shape

OWN_SPLIT = "own split"
"""Ledger name of the index that only a winner's owner can read off the opened tag."""

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
        raise DoesNotFitError(f"an owner and an index of up to {max(c for _, c in counts)} do not fit {ring}")
    owners = [owner for owner, _ in counts]
    if len(set(owners)) != len(owners):
        raise DoesNotFitError("an owner's candidates are listed twice; list each owner once")
    kappa, pieces = {}, []
    for owner, count in counts:
        public = RingArray.encode(ring, owner + _OWNER * np.arange(count, dtype=np.int64)).broadcast_to((*batch, count))
        masked = RingArray.hidden(ring, public.shape) if party.is_coordinator else public
        mask = RingArray.zeros(ring, public.shape)
        if owner != NOBODY:
            kappa[owner] = party.fresh_of(owner, ring, batch)
            mask = (kappa[owner] * -_OWNER).reshape(*batch, 1).broadcast_to(public.shape)
        pieces.append(Secret(masked, mask))
    return Tags(concatenate(pieces), kappa, dict(counts))


def open_tags(party: Party, tags: Tags, winner: Secret | Shares, name: str) -> Opened:
    """Reveal the winning tags (...) to all participants, and the owners to the coordinator too.

    Rounds: 1, and an announcement to the coordinator. Sent: one element per winner by each auxiliary. Reveals: `name`,
    the owners, to everyone; OWN_SPLIT, the local index, to its owner.
    """
    value = reveal(party, winner, ALL, name)
    owner = party.announce(name, None if value.is_hidden else value.decode() & (_OWNER - 1), value.shape)
    for m in range(ACTIVE, party.roster.size + 1):
        party.record(OWN_SPLIT, m, int((owner == m).sum()))
    local = np.full(owner.shape, -1, np.int64)
    if not party.follows_shapes and party.role in tags.kappa:
        index = (value - tags.kappa[party.role] * _OWNER).decode() >> 8
        local = np.where(owner == party.role, index, -1).astype(np.int64)
    _check_winners(party, tags, name, owner, local)
    return Opened(owner, local)


def _check_winners(
    party: Party, tags: Tags, name: str, owner: npt.NDArray[np.int64], local: npt.NDArray[np.int64]
) -> None:
    """Raise FrameError if a winner is none of the candidates: some role sent a wrong share, correction or owner."""
    unknown = sorted(set(owner.ravel().tolist()) - set(tags.counts))
    if unknown:
        sender = f" from {party.roster.name(ACTIVE)}" if party.is_coordinator else ""
        raise FrameError(f"malformed {name}{sender}: got the owner {unknown[0]}, expected one of {sorted(tags.counts)}")
    own, count = local[owner == party.role], tags.counts.get(party.role, 0)
    if not party.follows_shapes and ((own < 0) | (own >= count)).any():
        raise FrameError(f"malformed {name}: got a winner of {party.name} that is none of its {count} candidates")
