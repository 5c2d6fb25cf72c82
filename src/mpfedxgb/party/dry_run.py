"""A role's run without content: the same program, every array hidden, every message counted and none sent.

What a run costs is a matter of shapes, so that it need not be described a second time to be known beforehand: the
program itself is run dry. Its meter and ledger are then those of a run in which the others say what they are said to.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mpfedxgb.config import SessionSettings
from mpfedxgb.party.communicator import Array, Communicator
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.handshake import handshake_messages
from mpfedxgb.party.ledger import Ledger
from mpfedxgb.party.meter import Counts, Meter
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.party import Party, Spec, turn, wire_bytes, wire_shape
from mpfedxgb.party.roster import Keyring, Roster
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.prg import Source
from mpfedxgb.ring.ring import Ring, Shape
from mpfedxgb.transport.frame import Kind, frame_bytes
from mpfedxgb.transport.memory import MemoryHub

T = TypeVar("T")
Numbers = npt.NDArray[np.int64]

Decide = Callable[[Entry, Shape], Numbers]
"""What the participants announce together under a name, of a given shape, such as the owners of splits."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a part of a dry run has cost, by phase, and how many steps it had."""

    phases: Mapping[str, Counts]
    steps: int


class DryRunParty(Party):
    """One role of a dry run.

    `announced` is what the participants announce to all by name, a row each, if its values matter; `decide` what they
    find out together and announce.
    """

    def __init__(
        self,
        roster: Roster,
        role: int,
        settings: SessionSettings,
        announced: Mapping[Entry, Numbers],
        decide: Decide,
        observer: Observer | None = None,
    ) -> None:
        self._counting = CountingCommunicator(roster, role, settings)
        super().__init__(self._counting, _NoKeys({}, b""), observer)
        self._announced, self._decide = announced, decide
        self._said: Numbers | None = None
        self.before: dict[str, Ledger] = {}
        """By phase, what had been revealed when it was first entered."""
        self._marked: tuple[dict[str, Counts], Ledger, int] = {}, Ledger(), 0
        self._shake_hands()

    @property
    def next_turn(self) -> int:
        """Whose turn it is in the next step to be sent its share of what is dealt."""
        return turn(self._counting.step + 1, self.roster.size)

    def mark(self) -> None:
        """Note what has been spent and revealed so far."""
        self._marked = copy.deepcopy(self.meter.phases), self.ledger.copy(), self._counting.step

    def since_mark(self) -> tuple[Spent, Ledger]:
        """Return what has been spent and revealed since the mark."""
        before, revealed, step = self._marked
        phases = copy.deepcopy(self.meter.phases)
        for path, counts in before.items():
            phases[path].add(counts, -1)
        return Spent(phases, self._counting.step - step), self.ledger.since(revealed)

    def repeat(self, spent: Spent, revealed: Ledger) -> None:
        """Count a part of the run once more without going through it."""
        for path, counts in spent.phases.items():
            self.meter.phases.setdefault(path, Counts()).add(counts)
        self.ledger.add(revealed)
        self._counting.step += spent.steps

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Name what happens inside (see Party), and note what was revealed before."""
        self.before.setdefault(name, self.ledger.copy())
        with super().phase(name):
            yield

    def _shake_hands(self) -> None:
        self._counting.advance("handshake")
        for senders, receivers, sizes in handshake_messages(self._counting):
            arrays = [((size,), size) for size in sizes]
            message = Kind.HELLO, sum(sizes), frame_bytes(self._counting.label, arrays)
            if self.role in senders:
                for peer in receivers:
                    self._counting.count_sent(peer, *message)
            elif self.role in receivers:
                for peer in senders:
                    self._counting.count_received(peer, *message)

    @property
    def is_symbolic(self) -> bool:
        """Whether this role has shapes only: all have."""
        return True

    def has_values_of(self, owner: int) -> bool:
        """Whether an owner's values are here: nobody's are."""
        return False

    def fresh_of(self, owner: int, ring: Ring, shape: Shape) -> RingArray:
        """Return a mask (see Party), hidden whose ever it is."""
        return RingArray.hidden(ring, shape)

    def source_of(self, owner: int, label: str) -> Source | None:
        """Return no stream: nothing is expanded."""
        return None

    def deal(self, specs: Sequence[Spec], compute: Callable[[], Sequence[RingArray]]) -> list[RingArray]:
        """Deal (see Party) without computing anything."""
        return super().deal(specs, lambda: _hidden(specs))

    def prepare(
        self, fresh: Sequence[Spec], dealt: Sequence[Spec], compute: Callable[[list[RingArray]], Sequence[RingArray]]
    ) -> tuple[list[RingArray], list[RingArray]]:
        """Draw and deal (see Party) without computing anything."""
        return super().prepare(fresh, dealt, lambda _: _hidden(dealt))

    def one_per_cost_class(self, items: Iterable[T], size: Callable[[T], object]) -> Iterator[T]:
        """Yield one item of each size, and count it as often as there are such."""
        found: dict[object, list[T]] = {}
        for item in items:
            found.setdefault(size(item), []).append(item)
        for same in found.values():
            outer, step = self.meter.now, self._counting.step
            self.meter.now = Counts()
            yield same[0]
            outer.add(self.meter.now, len(same))
            self.meter.now = outer
            self._counting.step = step + len(same) * (self._counting.step - step)

    def send(self, peers: Sequence[int] | range, arrays: Sequence[RingArray], kind: Kind = Kind.DATA) -> None:
        """Count what would be sent."""
        specs = [(array.ring, array.shape) for array in arrays]
        for peer in peers:
            self._counting.count_sent(peer, kind, *self._sizes(specs))

    def receive(self, peer: int, specs: Sequence[Spec], kind: Kind = Kind.DATA) -> list[RingArray]:
        """Count what would come."""
        self._counting.count_received(peer, kind, *self._sizes(specs))
        return _hidden(specs)

    def exchange(
        self, outgoing: Sequence[tuple[Sequence[int], Sequence[RingArray]]], expected: Mapping[int, Sequence[Spec]]
    ) -> dict[int, list[RingArray]]:
        """Count what would be sent and come."""
        for peers, arrays in outgoing:
            self.send(peers, arrays)
        return {peer: self.receive(peer, specs) for peer, specs in expected.items()}

    def _sizes(self, specs: Sequence[Spec]) -> tuple[int, int]:
        """Return the bytes of some arrays, and of a frame of them."""
        arrays = [(wire_shape(*spec), wire_bytes([spec])) for spec in specs]
        return sum(size for _, size in arrays), frame_bytes(self._counting.label, arrays)

    def announce(
        self, name: Entry, values: npt.ArrayLike | None, shape: Shape | None = None, count: int | None = None
    ) -> Numbers:
        """Announce (see Party) what was said before, or what is decided now."""
        if values is None:
            values = self._said if self._said is not None else self._decide(name, () if shape is None else shape)
        self._counting.coming = np.asarray(values, np.int64)
        return super().announce(name, values, shape, count)

    def broadcast(self, name: Entry, values: npt.ArrayLike) -> Numbers:
        """Broadcast (see Party) what this role passes; in a dry run all pass the same."""
        self._said = np.asarray(values, np.int64)
        public = super().broadcast(name, values)
        self._said = None
        return public

    def tell_everyone(self, name: Entry, mine: npt.ArrayLike | None, shape: Shape = (1,)) -> Numbers:
        """Tell (see Party) what the owners are said to tell; without that, all pass what this role does."""
        said = self._announced.get(name)
        if said is None:
            own = np.zeros(shape, np.int64) if mine is None else np.asarray(mine, np.int64)
            said = np.stack([own] * len(self.roster.owners))
        self._said = self._counting.rows = said
        everyone = super().tell_everyone(name, said[self.owner - 1] if self.owner else None, shape)
        self._said = None
        return everyone

    def barrier(self, what: str) -> None:
        """Wait for all roles (see Party): nothing is sent."""
        self._counting.coming = None
        super().barrier(what)

    def _numbers(self, peer: int, name: str, shape: Shape, kind: Kind = Kind.DATA) -> Numbers:
        said = np.zeros(shape, np.int64) if self._said is None else self._said
        participants = said[: self.roster.size] if said.ndim else said  # whose numbers P_1 passes on in a star
        whole = next((rows for rows in (said, participants) if rows.shape == shape), None)
        self._counting.coming = said[self.roster.owner_of(peer) - 1] if whole is None else whole
        return super()._numbers(peer, name, shape, kind)


class CountingCommunicator(Communicator):
    """Counts messages instead of sending them; what comes next was put there before."""

    def __init__(self, roster: Roster, role: int, settings: SessionSettings) -> None:
        super().__init__(MemoryHub([], 0).end(role), roster, role, settings, Meter())  # connected with nobody
        self.coming: Array | None = None
        self.rows: Array = np.zeros((0, 0), np.int64)

    def send(self, peers: Any, arrays: Sequence[Array], kind: Kind = Kind.DATA) -> None:
        """Count what would be sent."""
        for peer in peers:
            self.count_sent(peer, kind, *self._sizes(arrays))

    def exchange(
        self, outgoing: Sequence[tuple[Sequence[int], Sequence[Array]]], expected: Mapping[int, int]
    ) -> dict[int, tuple[Array, ...]]:
        """Count what would be sent, and return the rows that were put there."""
        for peers, arrays in outgoing:
            self.send(peers, arrays)
        received = {}
        for peer in expected:
            self.coming = self.rows[peer - 1]
            received[peer] = self.receive(peer)
        return received

    def receive(self, peer: int, kind: Kind = Kind.DATA, expected: int = 0) -> tuple[Array, ...]:
        """Count and return what was put there."""
        arrays = () if self.coming is None else (self.coming,)
        self.count_received(peer, kind, *self._sizes(arrays))
        return arrays

    def _sizes(self, arrays: Sequence[Array]) -> tuple[int, int]:
        return sum(a.nbytes for a in arrays), frame_bytes(self.label, [(a.shape, a.nbytes) for a in arrays])


class _NoKeys(Keyring):
    """Keys that open nothing: all streams are hidden."""

    def source(self, participant: int, step: int, label: str) -> Source:
        return _HIDDEN

    def announce(self, name: str, values: bytes) -> None:
        pass


class _HiddenSource:
    """A stream (see Source) of which nobody has anything."""

    def elements(self, ring: Ring, shape: Shape) -> RingArray:
        return RingArray.hidden(ring, shape)

    def again(self, start: int = 0) -> _HiddenSource:
        return self


_HIDDEN = _HiddenSource()


def _hidden(specs: Sequence[Spec]) -> list[RingArray]:
    return [RingArray.hidden(*spec) for spec in specs]
