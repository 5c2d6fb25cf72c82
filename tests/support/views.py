"""What a coalition sees, with all randomness enumerated instead of drawn.

The leading axis of every array in a program is a batch of independent runs: one for every value of the secrets, a few
(or all) values of the coalition's own randomness, and *every* value of the honest participants' randomness. So one run
of the real protocol, over sources that read bits of the batch index, evaluates it for all of them at once. The view of
a coalition is what its members received; given their inputs, their randomness and what the ledger grants them, the
multiset of views must be the same for all secrets.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mpfedxgb.config import SessionSettings, Tuning
from mpfedxgb.party import ACTIVE, COORDINATOR, LocalRun, Party, run_locally
from mpfedxgb.party import party as party_module
from mpfedxgb.party.roster import MAX_PARTICIPANTS, Roster
from mpfedxgb.protocols import Bit, Secret, Shares, opening, share, share_bit
from mpfedxgb.ring import BIT, PACKED, Ring, RingArray
from mpfedxgb.ring.ring import Shape
from mpfedxgb.transport.frame import Frame, Kind, decode
from mpfedxgb.transport.transport import STAR

DEALT = COORDINATOR
"""Owner of an input that stands for a secret of an earlier protocol: the program has the coordinator deal shares."""

RUNS = 1 << 16
"""Runs in a batch, where the honest participants' randomness leaves a choice."""

MOST_RUNS = 1 << 22
"""Beyond this a case is refused: enumerate less of it."""

FEWEST_SAMPLES = 2
"""Values of the coalition's own randomness, where there is no room for all of them."""

Column = npt.NDArray[Any]
Values = Mapping[str, int]
Coalition = frozenset[int]


@dataclass(frozen=True, slots=True)
class Given:
    """An input of a program: who brings it, and every value that it may have."""

    owner: int
    ring: Ring
    values: Sequence[int]


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a role is called with: the size of the batch and, behind the batch axis, the inputs it brings."""

    batch: int
    given: Mapping[str, Given]
    mine: Mapping[str, RingArray]

    def share(self, party: Party, name: str) -> Secret:
        """Share an input."""
        given = self.given[name]
        return share(party, given.owner, given.ring, (self.batch,), self.mine.get(name))

    def share_bit(self, party: Party, name: str) -> Bit:
        """Share an input that is a bit masked by its owner."""
        return share_bit(party, self.given[name].owner, (self.batch,), self.mine.get(name))


@dataclass(frozen=True, slots=True)
class Draw:
    """One request for randomness: whose, at which step, the how-manieth there, and what for one run of the batch."""

    participant: int
    label: str
    index: int
    ring: Ring
    shape: Shape

    @property
    def size(self) -> int:
        """Number of elements for one run."""
        return math.prod(self.shape)


Output = Secret | Shares | RingArray
Rule = Callable[[Draw], tuple[int, int]]


def every_bit(draw: Draw) -> tuple[int, int]:
    """Enumerate all bits of all elements."""
    return 0, draw.ring.bits


def nothing(values: Values, coalition: Coalition) -> Hashable:
    """Grant a coalition nothing beyond its own inputs."""
    return None


@dataclass(frozen=True, slots=True)
class Case:
    """A program under test.

    `learns` is what the ledger grants a coalition; `expect`, if there, says what the outputs must be. `enumerated`
    gives, per draw, the first bit and the number of bits of each element to enumerate; the others are sampled (given
    their values, too, the view must be the same for all secrets).
    """

    program: Callable[[Party, Inputs], Sequence[Output]]
    given: Mapping[str, Given]
    expect: Callable[[Values], Sequence[int]] | None = None
    learns: Callable[[Values, Coalition], Hashable] = nothing
    enumerated: Rule = every_bit
    coordinator_owns: bool = False

    def roster(self, participants: int) -> Roster:
        """Return the roles; an owning coordinator is the owner after the last participant."""
        return _roster(participants, self.coordinator_owns)

    def is_in(self, owner: int, coalition: Coalition, participants: int) -> bool:
        """Return whether an owner is of a coalition of roles."""
        return owner != DEALT and self.roster(participants).role_of(owner) in coalition

    def assignments(self) -> list[dict[str, int]]:
        """Return all values of all inputs."""
        return [
            dict(zip(self.given, values, strict=True)) for values in product(*(g.values for g in self.given.values()))
        ]

    def known(self, values: Values, coalition: Coalition, participants: int) -> Hashable:
        """Return what a coalition may know: its own inputs, and what the ledger grants it."""
        own = tuple(values[name] for name, g in self.given.items() if self.is_in(g.owner, coalition, participants))
        return own, self.learns(values, coalition)

    def hides(self, coalition: Coalition, participants: int = MAX_PARTICIPANTS - 1) -> bool:
        """Whether there is anything that the coalition must not know."""
        assignments = self.assignments()
        return len({self.known(values, coalition, participants) for values in assignments}) < len(assignments)


@cache
def _roster(participants: int, coordinator_owns: bool) -> Roster:
    return replace(Roster.numbered(participants), coordinator_owns=coordinator_owns)


def coalitions(participants: int) -> list[Coalition]:
    """Return every coalition that leaves at least one participant out, the coordinator never among them."""
    everyone = range(ACTIVE, participants + 1)
    return [frozenset(c) for size in range(1, participants) for c in combinations(everyone, size)]


@dataclass(slots=True)
class Randomness:
    """Assigns the bits of the batch index: index = (secret, sample, honest), the last one fastest."""

    secrets: int = 1
    samples: int = 1
    honest: int = 1
    registry: dict[tuple[int, str, int], Draw] = field(default_factory=dict)
    values: dict[tuple[int, str, int], npt.NDArray[np.uint64]] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def batch(self) -> int:
        """Number of runs."""
        return self.secrets * self.samples * self.honest

    def source(self, participant: int, label: str, key: bytes) -> EnumeratedSource:
        """Return the stream of a step; what `run_locally` takes as make_source."""
        return EnumeratedSource(self, participant, label)

    def elements(self, draw: Draw) -> RingArray:
        """Return a draw for all runs, and note it down."""
        key = (draw.participant, draw.label, draw.index)
        with self.lock:
            assert self.registry.setdefault(key, draw) == draw, f"two roles expand {key} differently"
        if self.values is None:
            return written_out(RingArray.zeros(draw.ring, (self.batch, *draw.shape)))
        one = self.values[key]  # (samples, honest, size), broadcast
        whole = np.broadcast_to(one, (self.secrets, self.samples, self.honest, draw.size))
        return RingArray(draw.ring, whole.astype(draw.ring.dtype).reshape(self.batch, *draw.shape))


def written_out(array: RingArray) -> RingArray:
    """Return elements that may stand for several places in memory as an array of their own, as a `Source` has to."""
    return RingArray(array.ring, array.data.copy())


def is_planes(ring: Ring, shape: Shape, batch: int) -> bool:
    """Tell whether an array holds bit planes over the batch, (planes, ceil(batch / 8))."""
    return ring == PACKED and len(shape) == 2 and shape[0] != batch and shape[1] == -(-batch // 8)


@dataclass(slots=True)
class EnumeratedSource:
    """A `Source` whose elements are bits of the batch index."""

    randomness: Randomness
    participant: int
    label: str
    drawn: int = 0

    def elements(self, ring: Ring, shape: Shape) -> RingArray:
        """Return the next elements, for all runs of the batch; of bit planes, each has one bit of every run."""
        batch = self.randomness.batch
        if is_planes(ring, shape, batch):
            draw = Draw(self.participant, self.label, self.drawn, BIT, shape[:1])
            self.drawn += 1
            bits = self.randomness.elements(draw).data.reshape(batch, shape[0])
            return RingArray(PACKED, np.packbits(bits.T, axis=1, bitorder="little"))
        assert shape[:1] == (self.randomness.batch,), f"{self.label} draws {shape}, without the batch in front"
        draw = Draw(self.participant, self.label, self.drawn, ring, shape[1:])
        self.drawn += 1
        return self.randomness.elements(draw)

    def again(self, start: int = 0) -> EnumeratedSource:
        """Return the same stream from its beginning."""
        assert not start, "what is enumerated is drawn from its beginning"
        return EnumeratedSource(self.randomness, self.participant, self.label)


def draws_of(case: Case, participants: int, way: Way | None = None) -> list[Draw]:
    """Return everything that is drawn in a run, in a fixed order.

    The batch has a size that nothing else has, so that planes of bits are told from arrays over the batch.
    """
    randomness = Randomness(samples=61)
    _run(case, participants, randomness, case.assignments()[:1], Way() if way is None else way)
    return [randomness.registry[key] for key in sorted(randomness.registry)]


def plan(case: Case, participants: int, coalition: Coalition, frozen: Callable[[Draw], bool], way: Way) -> Randomness:
    """Lay out the batch: honest randomness enumerated, the coalition's own sampled (all of it, where there is room).

    What is `frozen` is zero in all runs: a protocol that forgot to mask.
    """
    draws = draws_of(case, participants, way)
    honest = [d for d in draws if d.participant not in coalition and COORDINATOR not in coalition and not frozen(d)]
    own = [d for d in draws if d not in honest and not frozen(d)]
    free = sum(d.size * case.enumerated(d)[1] for d in honest)
    sampled = sum(d.size * d.ring.bits for d in own)
    secrets = len(case.assignments())
    room = max(FEWEST_SAMPLES, RUNS // (secrets << free))
    samples = 1 << min(sampled, room.bit_length() - 1)
    if any(case.enumerated(d) != every_bit(d) for d in honest):
        samples = max(samples, FEWEST_SAMPLES)
    randomness = Randomness(secrets, samples, 1 << free)
    assert randomness.batch <= MOST_RUNS, f"{free} bits of honest randomness are too many to enumerate"
    randomness.values = {(d.participant, d.label, d.index): np.zeros((1, 1, d.size), np.uint64) for d in draws}
    _enumerate(randomness, case.enumerated, honest)
    _sample(randomness, own, exact=1 << sampled == samples)
    return randomness


def _enumerate(randomness: Randomness, rule: Rule, honest: Sequence[Draw]) -> None:
    """Give every element of the honest draws its own bits of the index, and sample the bits that the rule leaves."""
    assert randomness.values is not None
    index, place = np.arange(randomness.honest, dtype=np.uint64), 0
    for draw in honest:
        first, count = rule(draw)
        mask = ((1 << count) - 1) << first
        rest = _generator(draw).integers(0, 1 << draw.ring.bits, (randomness.samples, 1, draw.size), np.uint64)
        places = place + count * np.arange(draw.size, dtype=np.uint64)
        bits = ((index[:, None] >> places) & np.uint64((1 << count) - 1)) << np.uint64(first)
        key = (draw.participant, draw.label, draw.index)
        randomness.values[key] = bits[None] | (rest & np.uint64(~mask % (1 << 64))) if count < draw.ring.bits else bits
        place += count * draw.size


def _sample(randomness: Randomness, own: Sequence[Draw], exact: bool) -> None:
    """Give the coalition's own draws all their values where there are few, and some random ones otherwise."""
    assert randomness.values is not None
    index, place = np.arange(randomness.samples, dtype=np.uint64), 0
    for draw in own:
        shape = (randomness.samples, 1, draw.size)
        value = _generator(draw).integers(0, 1 << draw.ring.bits, shape, np.uint64)
        if exact:
            places = place + draw.ring.bits * np.arange(draw.size, dtype=np.uint64)
            value = ((index[:, None] >> places) & np.uint64((1 << draw.ring.bits) - 1))[:, None, :]
            place += draw.ring.bits * draw.size
        randomness.values[draw.participant, draw.label, draw.index] = value


def _generator(draw: Draw) -> np.random.Generator:
    return np.random.default_rng([draw.participant, draw.index, *draw.label.encode()])


@dataclass(slots=True)
class Recorder:
    """A tap that keeps every frame by sender and receiver, in the order of its link."""

    links: dict[tuple[int, int], list[Frame]] = field(default_factory=dict)

    def __call__(self, sender: int, receiver: int, block: bytes) -> None:
        """Take a block down."""
        self.links.setdefault((sender, receiver), []).append(decode(block, len(block)))

    def received(self, receivers: frozenset[int], kinds: Sequence[Kind] = tuple(Kind)) -> Iterator[Frame]:
        """Yield what these roles were sent by others, in a fixed order."""
        for (sender, receiver), frames in sorted(self.links.items()):
            if receiver in receivers and sender not in receivers:
                yield from (frame for frame in frames if frame.kind in kinds)


@dataclass(frozen=True, slots=True)
class Way:
    """How participants are connected, and who of them is corrected: in all steps, so that draws can be enumerated."""

    topology: str = STAR
    corrected: int = ACTIVE


def _run(
    case: Case, participants: int, randomness: Randomness, assignments: Sequence[Values], way: Way
) -> tuple[LocalRun[Any], Recorder]:
    """Run the program once for all secrets and all randomness."""
    inputs, roster = [], case.roster(participants)
    for role in roster.roles:
        mine = {
            name: RingArray.encode(g.ring, [values[name] for values in assignments])
            for name, g in case.given.items()
            if g.owner == (roster.owner_of(role) or DEALT) or (g.owner == DEALT and role == COORDINATOR)
        }
        runs = np.repeat(np.arange(len(assignments)), randomness.samples * randomness.honest)
        inputs.append([Inputs(randomness.batch, case.given, {name: x[runs] for name, x in mine.items()})])
    recorder = Recorder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "HOP_SECONDS", 1e9)  # openings are not cut
        patch.setattr(party_module, "turn", lambda step, participants: way.corrected)
        whole = Tuning(dealt_bytes=1 << 40, split_elements=1 << 40)  # the whole batch is in front of every draw
        settings = SessionSettings(topology=way.topology, tuning=whole)
        run = run_locally(case.program, roster, inputs, settings, recorder, randomness.source)
    return run, recorder


def leaks(
    case: Case,
    participants: int,
    coalition: Coalition,
    frozen: Callable[[Draw], bool] = lambda draw: False,
    way: Way | None = None,
) -> list[str]:
    """Return where a coalition's views differ for secrets that it must not tell apart; nothing, if all is well."""
    way = Way() if way is None else way
    randomness, assignments = plan(case, participants, coalition, frozen, way), case.assignments()
    run, recorder = _run(case, participants, randomness, assignments, way)
    if case.expect is not None:
        _check_outputs(run, case.expect, assignments)
    frames = recorder.received(coalition, (Kind.DATA, Kind.OWN, Kind.ANNOUNCE))
    columns = (column for frame in frames for array in frame.arrays for column in _columns(array, randomness.batch))
    view = _as_numbers(columns, randomness.batch).reshape(len(assignments), randomness.samples, randomness.honest)
    view.sort(axis=-1)
    found: list[str] = []
    first: dict[Hashable, int] = {}
    for number, values in enumerate(assignments):
        same = first.setdefault(case.known(values, coalition, participants), number)
        if not np.array_equal(view[number], view[same]):
            found.append(f"coalition {sorted(coalition)} tells {values} from {assignments[same]}")
    assert case.hides(coalition, participants), "no two secrets look alike to the coalition: this case tests nothing"
    return found


def _check_outputs(run: LocalRun[Any], expect: Callable[[Values], Sequence[int]], all_values: Sequence[Values]) -> None:
    """Hold the outputs of all runs against what they should be: the enumeration is of a protocol that works."""
    expected = [expect(values) for values in all_values]
    for place, outputs in enumerate(zip(*run.results, strict=True)):
        plain = _joined(outputs)
        wanted = np.array([e[place] % (1 << plain.ring.bits) for e in expected])
        assert (plain.data.reshape(len(all_values), -1) == wanted[:, None]).all(), f"output {place} is wrong"


def _joined(outputs: Sequence[Output]) -> RingArray:
    """Return an output's value, from what all roles hold of it."""
    dealer, active = outputs[COORDINATOR], outputs[ACTIVE]
    if isinstance(dealer, Secret) and isinstance(active, Secret):
        return active.masked - dealer.mask
    if isinstance(active, Shares):
        total = active.part
        for other in outputs[ACTIVE + 1 :]:
            assert isinstance(other, Shares)
            total = total + other.part
        return total
    known = [x for x in outputs if isinstance(x, RingArray) and not x.is_hidden]
    return known[0]


def _columns(array: npt.NDArray[Any], batch: int) -> Iterable[Column]:
    """Return what one array of a frame says, by element and run; single bits come packed over the whole batch."""
    if array.ndim == 2 and array.shape[1] == batch:  # several runs' arrays stacked in front of the batch
        array = array.T
    if array.dtype == np.uint8 and is_planes(PACKED, array.shape, batch):
        return np.unpackbits(array, axis=1, count=batch, bitorder="little")
    if array.shape[:1] == (batch,):
        return array.reshape(batch, -1).T
    inner = 8 * array.size // batch
    assert array.dtype == np.uint8, array.dtype
    assert 0 < inner < 8, "single bits take fewer than eight elements a run, to be told from bytes"
    bits = np.unpackbits(array, count=batch * inner, bitorder="little")
    return bits.reshape(batch, inner).T


def _as_numbers(columns: Iterable[Column], batch: int) -> npt.NDArray[np.uint64]:
    """Return one number per run, equal exactly where all columns are."""
    number, used = np.zeros(batch, np.uint64), 0
    for column in columns:
        width = int(column.max()).bit_length()
        if used + width > 64:
            number = np.unique(number, return_inverse=True)[1].astype(np.uint64)
            used = int(number.max()).bit_length()
        number <<= np.uint64(width)
        number |= column.astype(np.uint64)
        used += width
    return number
