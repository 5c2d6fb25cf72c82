"""What a session is to be: the active participant proposes it, as soon as all are connected and before the handshake.

1. The active participant sends everybody the proposal: the kind of session, its name, the parameters.
2. A role that accepts proposals takes name and parameters over, if they are within its limits; if not, it stops all,
   with the limit. Any other role goes on with its own.
3. An inquiry ends here: everybody says yes, and the active participant tells all that everybody has.

In the handshake, which follows, all compare name and parameters as ever: a role that received something else is found.
A proposal is some 1 kB to each role, one hop, and counted nowhere; nothing in it depends on a table but its rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import HandshakeError, SettingsError
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party.handshake import MOST_ROWS, propose
from mpfedxgb.party.local import Program
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.transport.transport import Transport

SESSIONS = ("training", "scoring", "aligning")
"""What a session may be for."""
INQUIRY = "inquiry"
"""No session: the active participant asks whether trainings would be accepted."""
MOST_TRAININGS = 1000
"""Of one inquiry."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the active participant proposes.

    `parameters` are those of the session, or all that a search may train with, `trainings` times in all; `rows` are
    those of its own table. The model of a trial is kept in its session's folder, and takes no other's place.
    """

    kind: str
    session: str
    parameters: tuple[dict[str, Any], ...] = field(repr=False)
    rows: int = 0
    is_trial: bool = False
    trainings: int = 1

    def params(self) -> list[TrainParams]:
        """Return the parameters, checked; raises HandshakeError for those that this version does not have."""
        try:
            return [TrainParams.from_dict(one) for one in self.parameters]
        except SettingsError as error:
            text = f"the proposed training cannot be: {error}; give all roles the same version of mpfedxgb"
            raise HandshakeError(text, error.code or "value", error.parameter, error.value) from None


@dataclass(frozen=True, slots=True)
class Work(Generic[T]):
    """What a role does in one attempt at a session: with which settings, which program, which keys of its own."""

    settings: RoleSettings
    program: Program[T]
    private: Sequence[Any] = field(repr=False)
    attempt: int
    key: bytes | None = field(default=None, repr=False)
    observer: Observer | None = None
    agreed: dict[str, Any] = field(default_factory=dict)
    """What a role's record says of a proposal that it has accepted."""


Prepare = Callable[[Proposal], Work[T] | None]
"""Looks at a proposal and returns what to do, None for an inquiry; raises what is to stop everybody."""


def meet(
    settings: RoleSettings, transport: Transport, proposal: Proposal | None, prepare: Prepare[T]
) -> Work[T] | None:
    """Propose, or hear what is proposed, and return what follows from it; None after an inquiry that all agreed to.

    Raises what stops the roles; peers receive the reason.
    """
    session = SessionSettings(
        session=f"{settings.federation.name}: proposal",
        deadline=settings.network.deadline,
        max_frame_bytes=settings.network.max_frame_mb << 20,
        topology=settings.network.topology,
    )
    blob = None if proposal is None else np.frombuffer(json.dumps(asdict(proposal)).encode(), np.uint8)

    def decide(arrays: Sequence[npt.NDArray[Any]]) -> Work[T] | None:
        return prepare(_read(settings.roster.name(ACTIVE), arrays) if proposal is None else proposal)

    wait = settings.network.connect_timeout
    return propose(transport, settings.roster, settings.number, session, wait, blob, decide)


def _read(name: str, arrays: Sequence[npt.NDArray[Any]]) -> Proposal:
    """Return the proposal that came from the active participant, of this name."""
    try:
        (blob,) = arrays
        found = Proposal(**json.loads(blob.tobytes()))
        parameters = tuple(dict(one) for one in found.parameters)
        sound = found.kind in (*SESSIONS, INQUIRY) and type(found.is_trial) is bool
        sound = sound and isinstance(found.session, str) and len(found.session) <= 200
        sound = sound and type(found.rows) is int and 0 <= found.rows <= MOST_ROWS
        sound = sound and type(found.trainings) is int and 1 <= found.trainings <= MOST_TRAININGS
        if not sound or not 1 <= len(parameters) <= (MOST_TRAININGS if found.kind == INQUIRY else 1):
            raise ValueError
    except (ValueError, TypeError, RecursionError):
        raise HandshakeError(f"{name} sent a proposal that cannot be read", "damaged", "proposal", name) from None
    return replace(found, parameters=parameters)
