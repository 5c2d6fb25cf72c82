"""What every two auxiliaries agree on for the pads of an intersection, so that neither P_1 nor C can stand in between.

A Diffie-Hellman exchange with fresh keys for each list. In a mesh the auxiliaries send each other their public keys. In
a star, where no two of them are connected, the coordinator passes the keys on, over its own authenticated connections:
P_1, who could make use of other keys because it gets the dictionaries, never has one in its hands; the coordinator has
them, and no dictionary.
"""

from __future__ import annotations

import numpy as np

from mpfedxgb.errors import FrameError
from mpfedxgb.intersection.group import POINT_BYTES, Group
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import COORDINATOR
from mpfedxgb.ring.kernels import U8
from mpfedxgb.transport.frame import Array, Kind, check_form
from mpfedxgb.transport.topology import MESH

MOST_LISTS = 2
"""Training and evaluation rows."""

_STEP = "keys of pads"


def agree_on_pads(party: Party, group: Group, lists: int) -> list[U8 | None]:
    """Return, for each list, the points that an auxiliary agrees on with every other one; None for each at P_1.

    1. Each auxiliary sends a public key for each list to the coordinator, in a mesh to each other auxiliary.
    2. In a star the coordinator sends all of them to each (`pass_keys_on`).
    3. Each multiplies the others' keys by its own scalars.

    Rounds: 1. Sent: by each auxiliary 32 bytes per list to the coordinator, who sends 32 (M - 1) per list to each; in a
    mesh 32 bytes per list to each other auxiliary. With one auxiliary alone nothing is sent. Reveals: nothing.
    """
    party.step(_STEP)
    if len(party.others) > 1:
        party.count(rounds=1, hops=1 if party.topology == MESH else 2)
    if party.is_active:
        return [None] * lists
    scalars = [group.scalar() for _ in range(lists)]
    mine = np.concatenate([group.public(scalar) for scalar in scalars])
    others = [m for m in party.others if m != party.role]
    theirs = _exchanged(party, mine, others) if others else {}
    nobody = np.empty((0, POINT_BYTES), np.uint8)
    return [
        np.concatenate(
            [nobody, *(group.multiply(scalar, keys[i][None], party.roster.name(m)) for m, keys in theirs.items())]
        )
        for i, scalar in enumerate(scalars)
    ]


def _exchanged(party: Party, mine: U8, others: list[int]) -> dict[int, U8]:
    """Return the public keys of the other auxiliaries, a row for each list."""
    if party.topology == MESH:
        party.send_bytes(others, [mine])
        return {m: _keys(party, m, party.receive_bytes(m), mine.shape) for m in others}
    party.send_bytes([COORDINATOR], [mine], Kind.ANNOUNCE)
    shape = (len(party.others), *mine.shape)
    everyone = _keys(party, COORDINATOR, party.receive_bytes(COORDINATOR, kind=Kind.ANNOUNCE), shape)
    first = party.others[0]
    if (everyone[party.role - first] != mine).any():
        raise FrameError(f"{party.roster.coordinator} passed on another key of {party.name} than it was sent")
    return {m: everyone[m - first] for m in others}


def pass_keys_on(party: Party) -> None:
    """Pass the auxiliaries' public keys on between them, as the coordinator of a star (see `agree_on_pads`)."""
    party.step(_STEP)
    if party.topology == MESH or len(party.others) < 2:
        return
    everyone: list[U8] = []
    for m in party.others:
        arrays = party.receive_bytes(m, kind=Kind.ANNOUNCE)
        lists = len(everyone[0]) if everyone else len(arrays[0]) if arrays and arrays[0].ndim else 0
        if not 1 <= lists <= MOST_LISTS:
            raise FrameError(f"{party.roster.name(m)} sent no public keys for an alignment")
        everyone.append(_keys(party, m, arrays, (lists, POINT_BYTES)))
    party.send_bytes(party.others, [np.stack(everyone)], Kind.ANNOUNCE)


def _keys(party: Party, peer: int, arrays: tuple[Array, ...], shape: tuple[int, ...]) -> U8:
    (keys,) = check_form(party.roster.name(peer), _STEP, arrays, (np.uint8, shape))
    return np.asarray(keys, np.uint8)
