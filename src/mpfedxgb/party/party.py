"""One role in the run of a program that all roles run alike (section 3.1; the dealer of section 3.3's triples).

A participant works on masked values and on its own shares of the masks. The coordinator runs the same lines on whole
masks, and on hidden arrays where a participant has values. What differs between the roles is in the verbs below,
three cases side by side; protocols are written once, in terms of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from mpfedxgb.config import Link, SessionSettings
from mpfedxgb.errors import FrameError
from mpfedxgb.party.communicator import AROUND_BYTES, Array, Communicator
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.ledger import Ledger
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.roster import ACTIVE, COORDINATOR, Keyring, Roster
from mpfedxgb.ring.array import RingArray, unpack_data
from mpfedxgb.ring.prg import Source, draw
from mpfedxgb.ring.ring import BIT, Ring, Shape
from mpfedxgb.transport.frame import Form, Kind, check_form, give_up
from mpfedxgb.transport.transport import MESH

ALL = -1
"""As the receiver of a reveal: every participant."""

MOST_ANNOUNCED_BYTES = 1 << 26
"""Largest announcement that the coordinator takes in parts; how long one is depends on trees, never on rows."""

Spec = tuple[Ring, Shape]
T = TypeVar("T")


class Party:
    """What a program is given as its first argument: identity, masks, corrections, messages, meter and ledger."""

    def __init__(self, communicator: Communicator, keys: Keyring, observer: Observer | None = None) -> None:
        self._communicator = communicator
        self.keys = keys
        self.meter = communicator.meter
        self.ledger = Ledger()
        self.roster: Roster = communicator.roster
        self.role = communicator.role
        self.observer = Observer() if observer is None else observer
        self._scope: tuple[str, ...] = ()
        self._label = ""
        self._sources: dict[int, Source] = {}
        self._openings = 0
        self.corrected = ACTIVE
        """The participant whose share of what is dealt in this step the coordinator sends; they take turns."""
        self._key_step, self._key_label = self._communicator.step, self._communicator.label

    def __repr__(self) -> str:
        return f"Party({self.name}, step {self._communicator.step})"

    @property
    def name(self) -> str:
        """Name of this role."""
        return self.roster.name(self.role)

    @property
    def training(self) -> str:
        """What tells this training from every other, in all its attempts; known to all its roles."""
        return self.keys.training

    @property
    def attempt(self) -> str:
        """What tells this attempt from every other, of this training too; known to all its roles."""
        return self.keys.attempt

    @property
    def is_coordinator(self) -> bool:
        """Whether this is C, the organisation that coordinates; of what a step computes, see `is_dealer`."""
        return self.role == COORDINATOR

    @property
    def is_dealer(self) -> bool:
        """Whether this role knows all masks and deals corrections: it holds no share and takes part in no opening."""
        return self.role == COORDINATOR

    @property
    def is_symbolic(self) -> bool:
        """Whether this role has no masked values or shares here, only their shapes: the dealer; all in a dry run."""
        return self.is_dealer

    @property
    def owner(self) -> int:
        """The number of this role as an owner of columns; 0 for a coordinator that brings none."""
        return self.roster.owner_of(self.role)

    def has_values_of(self, owner: int) -> bool:
        """Whether what an owner brings into the computation is here, in the clear: at itself; nowhere in a dry run."""
        return self.owner == owner

    @property
    def is_active(self) -> bool:
        """Whether this is P_1."""
        return self.role == ACTIVE

    @property
    def settings(self) -> SessionSettings:
        """What the roles have agreed on for this session, and this role's own limits."""
        return self._communicator.settings

    @property
    def label(self) -> str:
        """Label of the step that this role is at, as frames carry it."""
        return self._communicator.label

    @property
    def bytes_per_frame(self) -> int:
        """How many bytes a message of one array may have to travel in one frame."""
        return self.settings.max_frame_bytes - AROUND_BYTES

    @property
    def public_share(self) -> int:
        """What this role's share of a public term is, times the term: 1 at P_1, 0 at all others."""
        return int(self.role == ACTIVE)

    @property
    def topology(self) -> str:
        """How the participants are connected: over the active one, or each with each."""
        return self.settings.topology

    @property
    def link(self) -> Link:
        """Latency and bandwidth between the roles, as the active participant has announced them."""
        return self.settings.link

    @property
    def others(self) -> range:
        """The auxiliary participants, as P_1 addresses them."""
        return self.roster.auxiliaries

    @property
    def peers(self) -> list[int]:
        """The participants but this one; in a mesh, a participant is connected with all of them."""
        return [m for m in self.roster.roles if m not in (COORDINATOR, self.role)]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Name what happens inside: in the meter, in the step labels, and so in the keys."""
        outer = self._scope
        self._scope = (*outer, name)
        try:
            with self.meter.phase(name):
                yield
        finally:
            self._scope = outer

    def step(self, operation: str) -> None:
        """Begin the next step of the program: new label, new keys."""
        self._label = "/".join((*self._scope, operation))
        self._communicator.advance(self._label)
        self._key_step, self._key_label = self._communicator.step, self._communicator.label
        self._sources.clear()
        self._openings = 0
        self.corrected = turn(self._communicator.step, self.roster.size)

    def one_per_cost_class(self, items: Iterable[T], size: Callable[[T], object]) -> Iterator[T]:
        """Yield all items; a dry run yields one of each `size`, since items of one size cost the same."""
        yield from items

    def number_opening(self, what: str = "") -> None:
        """Tell the openings of one step apart: from the second on, each is a step to the peers, under the same keys."""
        self._openings += 1
        if self._openings > 1:
            self._communicator.advance(f"{self._label} #{self._openings}{' ' + what if what else ''}")

    def _source(self, participant: int) -> Source:
        source = self._sources.get(participant)
        if source is None:
            source = self._sources[participant] = self.keys.source(participant, self._key_step, self._key_label)
        return source

    def fresh(self, ring: Ring, shape: Shape) -> RingArray:
        """Return a fresh mask: a participant its own random share, the coordinator the sum of all shares."""
        if not self.is_dealer:
            return self._source(self.role).elements(ring, shape)
        whole = self._source(ACTIVE).elements(ring, shape)
        for m in self.others:
            whole.add_in_place(self._source(m).elements(ring, shape))
        return whole

    def fresh_of(self, owner: int, ring: Ring, shape: Shape) -> RingArray:
        """Return a fresh mask that its owner knows: a participant's alone, everyone else's share of it is zero.

        A coordinator that brings columns knows all masks, so that the participant who made one alone would know what
        it hides: there everyone has a share of it.
        """
        if self.roster.role_of(owner) == COORDINATOR:
            return self.fresh(ring, shape)
        if self.role in (owner, COORDINATOR):
            return self._source(owner).elements(ring, shape)
        return RingArray.zeros(ring, shape)

    def source_of(self, owner: int, label: str) -> Source | None:
        """Return a stream that a participant has in common with the coordinator, for those two; None for the others."""
        if self.role in (owner, COORDINATOR):
            return self.keys.source(owner, self._key_step, f"{self._key_label}/{label}")
        return None

    def deal(self, specs: Sequence[Spec], compute: Callable[[], Sequence[RingArray]]) -> list[RingArray]:
        """Return shares of values that the coordinator computes from masks; at the coordinator, the values.

        All participants but one expand their shares; the coordinator corrects that one's in one message. It is another
        one from step to step, so that all carry alike: shares of which any M - 1 are random are as good as any others.
        """
        if self.is_dealer:
            values = list(compute())
            first, *others = self._expanding()
            corrections = []
            for (ring, shape), value in zip(specs, values, strict=True):
                assert (value.ring, value.shape) == (ring, shape), (value, ring, shape)
                expanded = self._source(first).elements(ring, shape)
                for m in others:
                    expanded.add_in_place(self._source(m).elements(ring, shape))
                corrections.append(value - expanded)
            self.send([self.corrected], corrections)
            return values
        if self.role == self.corrected:
            return self.receive(COORDINATOR, specs)
        return [self._source(self.role).elements(ring, shape) for ring, shape in specs]

    def _expanding(self) -> list[int]:
        """Return the participants who expand their shares of what is dealt in this step."""
        return [m for m in range(ACTIVE, self.roster.size + 1) if m != self.corrected]

    def prepare(
        self, fresh: Sequence[Spec], dealt: Sequence[Spec], compute: Callable[[list[RingArray]], Sequence[RingArray]]
    ) -> tuple[list[RingArray], list[RingArray]]:
        """Return fresh masks, and shares of what the coordinator computes from them: all that a step needs, at once.

        As `fresh` for each and then `deal`, with one expansion of every stream and one message.
        """
        if not self.is_dealer:
            corrected = self.role == self.corrected
            own = draw(self._source(self.role), fresh if corrected else [*fresh, *dealt])
            return own[: len(fresh)], self.receive(COORDINATOR, dealt) if corrected else own[len(fresh) :]
        first, *others = self._expanding()
        masks, whole = draw(self._source(self.corrected), fresh), draw(self._source(first), [*fresh, *dealt])
        for m in others:
            _add_up(whole, draw(self._source(m), [*fresh, *dealt]))
        expanded = whole[len(fresh) :]
        _add_up(masks, whole[: len(fresh)])
        values = list(compute(masks))
        assert [(value.ring, value.shape) for value in values] == list(dealt), (values, dealt)
        self.send([self.corrected], [value - one for value, one in zip(values, expanded, strict=True)])
        return masks, values

    def send(self, peers: Sequence[int] | range, arrays: Sequence[RingArray], kind: Kind = Kind.DATA) -> None:
        """Send ring elements to peers, in one message each."""
        self._communicator.send(peers, [_to_wire(array) for array in arrays], kind)

    def receive(self, peer: int, specs: Sequence[Spec], kind: Kind = Kind.DATA) -> list[RingArray]:
        """Return ring elements from a peer; anything but the expected rings and shapes is an error."""
        return self._elements(peer, self._communicator.receive(peer, kind, wire_bytes(specs)), specs)

    def exchange(
        self, outgoing: Sequence[tuple[Sequence[int], Sequence[RingArray]]], expected: Mapping[int, Sequence[Spec]]
    ) -> dict[int, list[RingArray]]:
        """Send peers ring elements, and return what peers have sent in the same step; see `Communicator.exchange`."""
        messages = [(peers, [_to_wire(array) for array in arrays]) for peers, arrays in outgoing]
        sizes = {peer: wire_bytes(specs) for peer, specs in expected.items()}
        received = self._communicator.exchange(messages, sizes)
        return {peer: self._elements(peer, arrays, expected[peer]) for peer, arrays in received.items()}

    def _elements(self, peer: int, arrays: Sequence[Array], specs: Sequence[Spec]) -> list[RingArray]:
        sender, name = self.roster.name(peer), self._communicator.label
        check_form(sender, name, arrays, *((ring.dtype, wire_shape(ring, shape)) for ring, shape in specs))
        for array, (ring, _) in zip(arrays, specs, strict=True):
            if ring != BIT and not ring.holds(array):
                raise FrameError(f"malformed {name} from {sender}: values outside {ring}", parameter=name, value=sender)
        return [_from_wire(array, *spec) for array, spec in zip(arrays, specs, strict=True)]

    def send_bytes(self, peers: Iterable[int], arrays: Sequence[Array], kind: Kind | None = None) -> None:
        """Send arrays that are no ring elements, such as salts, digests and points, in one message to each peer."""
        for usual, some in groupby(peers, self._kind_with):
            self._communicator.send(list(some), arrays, usual if kind is None else kind)

    def _kind_with(self, peer: int) -> Kind:
        """Return the kind of what needs no dealer: to and from a coordinator it is its own, as nothing masked is."""
        return Kind.OWN if COORDINATOR in (peer, self.role) else Kind.DATA

    def receive_bytes(
        self, peer: int, *forms: Form, name: str = "", kind: Kind | None = None, expected: int = 0
    ) -> tuple[Array, ...]:
        """Return arrays from a peer; those of other types and shapes than `forms` are an error, which has the `name`.

        Without forms the caller checks what came; it is at most one frame, or as many bytes as `expected`.
        """
        expected = expected or sum(np.dtype(dtype).itemsize * math.prod(shape) for dtype, shape in forms)
        arrays = self._communicator.receive(peer, self._kind_with(peer) if kind is None else kind, expected)
        return check_form(self.roster.name(peer), name or self.label, arrays, *forms) if forms else arrays

    def count(
        self, rounds: int = 0, hops: int = 0, products: int = 0, mul_calls: int = 0, comparisons: int = 0
    ) -> None:
        """Count what a step costs beside its messages, which count themselves (see `Counts`).

        Rounds are the participants': a coordinator has none, with columns or without.
        """
        now = self.meter.now
        if not self.is_coordinator:
            now.rounds += rounds
            now.hops += hops
        now.products += products
        now.mul_calls += mul_calls
        now.comparisons += comparisons

    def note_plan(self, tournament: str, plan: str) -> None:
        """Write down how a tournament is played."""
        self.meter.plans[tournament] = plan

    def record(self, name: Entry, receiver: int, count: int) -> None:
        """Write on the ledger that `count` values become known to a role, or to ALL participants."""
        self.ledger.record(name, "participants" if receiver == ALL else self.roster.name(receiver), count)

    def announce(
        self, name: Entry, values: npt.ArrayLike | None, shape: Shape | None = None, count: int | None = None
    ) -> npt.NDArray[np.int64]:
        """Tell the coordinator a public value that all participants know already, and return it.

        The coordinator insists on the `shape` if it knows which it has to have, as it nearly always does. `count` is
        what the ledger counts, where it is not the number of elements.
        Rounds: 0 among the participants; one hop to the coordinator. Reveals: `name` to the coordinator.
        """
        self.step(f"announce {name}")
        if self.is_coordinator:
            arrays = self._communicator.receive(ACTIVE, Kind.ANNOUNCE, MOST_ANNOUNCED_BYTES)
            wanted = shape if shape is not None or len(arrays) != 1 else arrays[0].shape
            (public,) = check_form(self.roster.name(ACTIVE), name, arrays, (np.int64, wanted or ()))
        else:
            public = np.asarray(values, np.int64)
            if self.is_active:
                self._communicator.send([COORDINATOR], [public], Kind.ANNOUNCE)
        self.keys.announce(name, np.ascontiguousarray(public).tobytes())
        self.ledger.record(name, self.roster.coordinator, public.size if count is None else count)
        self.observer.on_reveal(name, public)
        return public

    def tell(self, sender: int, receiver: int, name: Entry, values: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return numbers that one participant tells another, at the receiver; what was passed, at the other roles.

        One of the two is the active participant, or they are the coordinator and a participant. All roles pass an array
        of the right shape. Rounds: 1. Sent: the numbers by the sender. Reveals: `name` to the receiver.
        """
        self.step(f"tell {self.roster.name(receiver)} {name}")
        numbers = np.asarray(values, np.int64)
        self.ledger.record(name, self.roster.name(receiver), numbers.size)
        self.count(rounds=1, hops=1)
        if self.role == sender:
            self._communicator.send([receiver], [numbers])
        elif self.role == receiver:
            numbers = self._numbers(sender, name, numbers.shape)
            self.observer.on_reveal(name, numbers)
        return numbers

    def broadcast(self, name: Entry, values: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return a public value that only the active participant has so far (the others' is ignored).

        Rounds: 1. Sent: the value by the active participant. Reveals: `name` to everyone.
        """
        self.step(f"broadcast {name}")
        public = np.asarray(values, np.int64)
        self.count(rounds=1, hops=1)
        if self.is_active:
            self._communicator.send(self.others, [public])
        elif not self.is_coordinator:
            public = self._numbers(ACTIVE, name, public.shape)
        public = self.announce(name, None if self.is_coordinator else public, public.shape)
        self.ledger.record(name, "participants", public.size)
        return public

    def tell_everyone(self, name: Entry, mine: npt.ArrayLike | None, shape: Shape = (1,)) -> npt.NDArray[np.int64]:
        """Return the public numbers of every owner, (owners, *shape): each tells its own.

        All roles know the `shape` of what each has to tell, and take no other. In a star, an auxiliary makes sure that
        the active participant passes on what it said itself. A coordinator without columns listens; one with columns
        tells everybody itself, and makes sure of the same.
        Rounds: 1. Sent: count numbers by each auxiliary. Reveals: `name` to everyone.
        """
        self.step(f"tell {name}")
        self.count(rounds=1, hops=1 if self.topology == MESH else 2)
        rows = own = np.zeros(shape, np.int64) if mine is None else np.asarray(mine, np.int64)
        assert own.shape == shape, (name, own.shape, shape)
        if self.topology == MESH and not self.is_coordinator:
            announced = self._communicator.exchange([(self.peers, [rows])], dict.fromkeys(self.peers, rows.nbytes))
            others = {m: self._as_numbers(m, name, rows.shape, arrays) for m, arrays in announced.items()}
            rows = np.stack([others.get(m, rows) for m in range(ACTIVE, self.roster.size + 1)])
        elif self.is_active:
            rows = np.stack([rows, *(self._numbers(m, name, rows.shape) for m in self.others)])
            self._communicator.send(self.others, [rows])
        elif not self.is_coordinator:
            self._communicator.send([ACTIVE], [rows])
            rows = self._numbers(ACTIVE, name, (self.roster.size, *rows.shape))
        if self.roster.coordinator_owns:
            rows = self._with_coordinator(name, rows, shape)
        everyone = self.announce(name, None if self.is_coordinator else rows, (len(self.roster.owners), *shape))
        if self.owner and (everyone[self.owner - 1] != own).any():
            text = f"{self.roster.name(ACTIVE)} passed on {name} of {self.name} other than it was told"
            raise FrameError(text, parameter=name, value=self.roster.name(ACTIVE))
        self.ledger.record(name, "participants", everyone.size)
        return everyone

    def _with_coordinator(self, name: Entry, rows: npt.NDArray[np.int64], shape: Shape) -> npt.NDArray[np.int64]:
        """Return the participants' numbers and those of a coordinator that brings columns, which it sends to all."""
        if self.is_coordinator:
            self._communicator.send(self.roster.holders, [rows], Kind.OWN)
            return rows
        return np.concatenate([rows, self._numbers(COORDINATOR, name, shape, Kind.OWN)[None]])

    def barrier(self, what: str) -> None:
        """Wait until all roles have come this far, the coordinator too; if one cannot, everybody stops.

        Rounds: 1. Sent: an empty message by each auxiliary. Reveals: nothing.
        """
        self.step(what)
        self.count(rounds=1, hops=2)
        if not self.is_active:
            self.send([ACTIVE], [])
            check_form(self.roster.name(ACTIVE), what, self._communicator.receive(ACTIVE, Kind.ANNOUNCE))
            return
        for role in (COORDINATOR, *self.others):
            self.receive(role, [])
        self._communicator.send([COORDINATOR, *self.others], [], Kind.ANNOUNCE)

    def _numbers(self, peer: int, name: str, shape: Shape, kind: Kind = Kind.DATA) -> npt.NDArray[np.int64]:
        return self._as_numbers(peer, name, shape, self._communicator.receive(peer, kind, 8 * math.prod(shape)))

    def _as_numbers(self, peer: int, name: str, shape: Shape, arrays: Sequence[Array]) -> npt.NDArray[np.int64]:
        (numbers,) = check_form(self.roster.name(peer), name, arrays, (np.int64, shape))
        return numbers


def turn(step: int, participants: int) -> int:
    """Return the participant whose share of what is dealt in a step the coordinator sends."""
    return ACTIVE + step % participants


def _add_up(whole: Sequence[RingArray], more: Sequence[RingArray]) -> None:
    """Add arrays to others, in place."""
    for own, one in zip(whole, more, strict=True):
        own.add_in_place(one)


def _to_wire(x: RingArray) -> Array:
    """Return the array that is sent; nobody changes it any more, so that it need not be copied for a receiver here."""
    return give_up(np.packbits(x.data, bitorder="little") if x.ring == BIT else x.data)


def wire_bytes(specs: Sequence[Spec]) -> int:
    """Return how many bytes a message of such arrays has beside its header."""
    return sum(
        -(-math.prod(shape) // 8) if ring == BIT else math.prod(shape) * ring.element_bytes for ring, shape in specs
    )


def wire_shape(ring: Ring, shape: Shape) -> Shape:
    """Return the shape that an array has in a message."""
    return (-(-math.prod(shape) // 8),) if ring == BIT else shape + ring.tail


def _from_wire(array: Array, ring: Ring, shape: Shape) -> RingArray:
    if ring == BIT:
        return RingArray(BIT, unpack_data(array, math.prod(shape)).reshape(shape))
    return RingArray(ring, array)
