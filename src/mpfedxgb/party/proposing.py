"""Before the handshake: the active participant tells every role what it proposes, and an inquiry is agreed to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import AlienFrameError, HandshakeError, OutOfStepError
from mpfedxgb.party.communicator import Array, Communicator
from mpfedxgb.party.meter import Meter
from mpfedxgb.party.roster import ACTIVE, Roster
from mpfedxgb.transport.frame import Kind
from mpfedxgb.transport.transport import Transport

T = TypeVar("T")


def propose(
    transport: Transport,
    roster: Roster,
    role: int,
    session: SessionSettings,
    wait: float,
    mine: npt.NDArray[np.uint8] | None,
    decide: Callable[[Sequence[Array]], T | None],
) -> T | None:
    """Return what `decide` makes of the bytes that the active participant proposes, `mine` in its own run.

    If that is None, all roles agree before they end. What `decide` raises stops the roles; peers receive the reason.
    """
    comm = Communicator(transport, roster, role, session, Meter(), wait)
    comm.advance("proposal")
    try:
        if mine is not None:
            comm.send([role for role in roster.roles if role != ACTIVE], [mine], Kind.HELLO)
        decided = decide(_hear(comm) if mine is None else [mine])
        if decided is None:
            _agree(comm)
    except BaseException as error:
        comm.abort(error)
        raise
    return decided


def _hear(comm: Communicator) -> Sequence[Array]:
    try:
        arrays, alien = comm.receive_greeting(ACTIVE)
    except OutOfStepError:
        arrays, alien = (), AlienFrameError()
    if alien is not None:
        name = comm.roster.name(ACTIVE)
        text = f"{name} proposed nothing; give all roles the same federation name and the same version of mpfedxgb"
        raise HandshakeError(text, "version", "proposal", name)
    return arrays


def _agree(comm: Communicator) -> None:
    """Tell the active participant that this role agrees, and wait until all do."""
    others = [role for role in comm.roster.roles if role != ACTIVE]
    if comm.role == ACTIVE:
        for role in others:
            comm.receive(role, Kind.HELLO)
        comm.advance("agreed")
        comm.send(others, [], Kind.HELLO)
        return
    comm.send([ACTIVE], [], Kind.HELLO)
    comm.advance("agreed")
    comm.receive(ACTIVE, Kind.HELLO)
