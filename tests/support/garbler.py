"""Sessions of every kind in which one received message has other numbers, shapes or types than it was sent with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from contracts.transport_contract import Call
from mpfedxgb.boosting import Labels, TrainData
from mpfedxgb.boosting.callbacks import NothingKept
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import SessionSettings
from mpfedxgb.data import Table
from mpfedxgb.data.ids import IdRule, Ids, sort_by_id
from mpfedxgb.errors import FederationError
from mpfedxgb.federation.alignment import Terms
from mpfedxgb.federation.lookup import TableLookup
from mpfedxgb.federation.programs import Training, run_aligning, run_coordinator, run_scoring, run_training
from mpfedxgb.federation.scoring import Service
from mpfedxgb.intersection.group import Edwards25519
from mpfedxgb.party import Outcome, Party, Roster
from mpfedxgb.party.local import run_role
from mpfedxgb.ring import kernels
from mpfedxgb.transport import Frame, Kind, MemoryHub, Transport, decode, encode
from mpfedxgb.transport.transport import Block

Array = npt.NDArray[Any]
Garble = Callable[[Array], Array]

ROWS = 12
ROSTER = Roster(("bank", "telecom", "retail"))
DEADLINE = 60.0
"""Seconds of a run in which nobody waits in vain."""

IMPATIENT = 0.5
"""Seconds where roles may wait for each other in vain, each at another place of the program."""


def _extreme(array: Array) -> Array:
    return np.full(array.shape, np.iinfo(array.dtype).max, array.dtype)


def _negative(array: Array) -> Array:
    return np.full(array.shape, -1).astype(array.dtype)


def _random(array: Array) -> Array:
    octets = np.random.default_rng(array.nbytes).integers(0, 256, array.nbytes, np.uint8)
    return octets.view(array.dtype).reshape(array.shape)


GARBLES: dict[str, Garble] = {
    "an axis more": lambda a: a[None],
    "one axis": lambda a: a.reshape(-1)[: a.size - 1],
    "a row less": lambda a: a[:-1] if a.ndim and len(a) else np.zeros(1, a.dtype),
    "no rows": lambda a: a[:0] if a.ndim else np.zeros(0, a.dtype),
    "twice": lambda a: np.concatenate([a.reshape(-1), a.reshape(-1)]),
    "another type": lambda a: a.astype(np.uint8 if a.dtype != np.uint8 else np.int64),
    "the largest": _extreme,
    "minus one": _negative,
    "zeros": np.zeros_like,
    "one more": lambda a: a + a.dtype.type(1),
    "random": _random,
}
"""What is made of every array of a message."""


@dataclass(frozen=True, slots=True)
class Place:
    """A message of a session: the number of the frame at its receiver, and what it is."""

    receiver: int
    number: int
    sender: int
    what: str


class _Garbling:
    """A role's end of its connections, at which one received frame is changed; it notes all frames that come."""

    def __init__(self, inner: Transport, role: int, number: int, garble: Garble, seen: list[Place]) -> None:
        self._inner, self._role, self._number, self._garble, self._seen = inner, role, number, garble, seen
        self._received = 0
        self.send, self.close = inner.send, inner.close

    def receive(self, peer: int, timeout: float) -> Block:
        """Return the next block, or what was made of it."""
        block = self._inner.receive(peer, timeout)
        frame = decode(block, len(block))
        number, self._received = self._received, self._received + 1
        self._seen.append(Place(self._role, number, peer, f"{frame.kind.name} {frame.label}"))
        if number != self._number or frame.kind is Kind.ABORT:
            return block
        return _changed(frame, self._garble)


def _changed(frame: Frame, garble: Garble) -> bytes:
    arrays = [np.ascontiguousarray(garble(array)) for array in frame.arrays]
    return encode(frame.kind, frame.sender, frame.session, frame.step, frame.label, arrays)


class Session:
    """One kind of session, which can be run again and again."""

    def __init__(self, name: str, topology: str = "star") -> None:
        self.name, self.topology = name, topology
        self._params = _PARAMS[name.split()[0]]
        self._models = _train_models(self._params) if "scoring" in name else {}

    def run(
        self, receiver: int = -1, number: int = -1, garble: Garble = np.copy, deadline: float = DEADLINE
    ) -> tuple[list[Outcome[Any]], list[Place]]:
        """Run all roles, of which one gets another frame than was sent; return how they ended, and all frames."""
        kernels.warm_up()
        hub = MemoryHub(ROSTER.links(self.topology), 1 << 24)
        settings = SessionSettings(deadline=deadline, topology=self.topology, parameters=self._params.to_json())
        seen: list[Place] = []

        def run(role: int) -> Outcome[Any]:
            end = _Garbling(hub.end(role), role, number if role == receiver else -1, garble, seen)
            return run_role(self._program, (), end, ROSTER, role, settings)

        return [call.result() for call in [Call(run, role) for role in ROSTER.roles]], seen

    def _program(self, party: Party) -> object:
        if party.is_coordinator:
            return run_coordinator(party, self._params)
        table, ids = _tables()[party.role - 1]
        if "training" in self.name:
            return run_training(party, self._params, _brings(party.role, self._params))
        if "aligning" in self.name:
            terms = Terms(IdRule(), 2, ("train",))
            return run_aligning(party, terms, {"train": ids}, Edwards25519(1), None)
        service = Service(self._models[party.role], TableLookup(ids.keys, table))
        if not party.is_active:
            run_scoring(party, service)
            return "served"
        asking = Call(_ask, service, ids, table)
        try:
            run_scoring(party, service)
        finally:
            service.fail(FederationError("the session is over"))
        return asking.result()


def _ask(service: Service, ids: Ids, table: Table) -> object:
    with suppress(FederationError):
        service.score(ids.keys, table)
    service.end()
    return "asked"


_SMALL: dict[str, Any] = {"n_estimators": 1, "max_depth": 2, "max_bin": 3, "min_child_weight": 0.0}
_PARAMS = {security: TrainParams(security=security, **_SMALL) for security in ("strict", "sealed", "paper")}
_PARAMS |= {
    "stopping": TrainParams(security="sealed", may_stop_early=True, **_SMALL),
    "aligning": TrainParams(**_SMALL),
}


def _tables() -> list[tuple[Table, Ids]]:
    rng = np.random.default_rng(5)
    made = []
    for m in range(1, ROSTER.size + 1):
        frame = pd.DataFrame({"person": range(ROWS), f"x{m}": rng.normal(size=ROWS), f"y{m}": rng.normal(size=ROWS)})
        rest, ids = sort_by_id(frame, "person", ROSTER.name(m))
        made.append((Table.read(rest, ROSTER.name(m)), ids))
    return made


def _brings(role: int, params: TrainParams) -> Training:
    table, ids = _tables()[role - 1]
    labels = Labels((np.arange(ROWS) % 3 > 0).astype(float)) if role == 1 else None
    commitment = bytes(range(32)) if labels is not None else None
    return Training(TrainData(table, [], labels), [ids], NothingKept(), commitment=commitment)


def _train_models(params: TrainParams) -> dict[int, PartialModel]:
    outcomes, _ = Session(f"{_name(params)} training").run()
    return {role: outcome.result.model for role, outcome in enumerate(outcomes) if role and outcome.result is not None}


def _name(params: TrainParams) -> str:
    return next(name for name, one in _PARAMS.items() if one is params)


def places(seen: Sequence[Place]) -> Iterator[Place]:
    """Yield the messages of a session, of those that are alike the first."""
    known = set()
    for place in sorted(seen, key=lambda place: (place.receiver, place.number)):
        alike = place.receiver, place.sender, re.sub(r"[0-9]+", "", place.what)
        if alike not in known:
            known.add(alike)
            yield place
