"""Trainings recorded for study: what every role was shown, and beside it the truth that it should not know.

A transcript holds what a role was shown by name, from `Observer.on_reveal`, and the masked numbers that participants
hold at the same places of a strict or a sealed training, from the frames. `brackets` lays a transcript out node by
node, as SecureArgmax went through the candidates.

Values and frames are found by their names. An attack that finds nothing under a name raises LookupError: it would be
at chance because it looks at nothing, and not because there is nothing to see.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting import Labels, PartialModel, TrainData
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import SessionSettings
from mpfedxgb.data import Candidates, Table
from mpfedxgb.modes.paper.tree import P_2
from mpfedxgb.party import ACTIVE, COORDINATOR, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.roster import Roster
from mpfedxgb.ring import RingArray, wide
from mpfedxgb.training import secure_train
from mpfedxgb.transport.frame import Frame, decode
from mpfedxgb.tree import Dummy, Leaf, Split
from mpfedxgb.tree.nodes import goes_first

T = TypeVar("T")

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
Place = tuple[int, int]
"""A tree and a node of it."""

_DIFFERENCES, _ANSWERS = "argmax/stage", "answers"
"""How the labels of a strict tournament end where masked numbers are opened, and then masked bits."""

_GRADIENTS, _MARGINS = ("gradients/share of P1", "gradients/mask rows"), ("update/margins",)
"""How the labels end where gradients are opened under masks, P_1's or of secrets, and margins of sealed trainings."""


@dataclass(frozen=True, slots=True, eq=False)
class Transcript:
    """What one role saw: values shown to it, by name, in order; and the masked differences and answers of tournaments.

    These are of a strict training or a sealed one. Beside them are the masked gradients of every tree, (2, rows), and
    the masked margins after it, which only a sealed training has. The coordinator has none: it receives nothing that is
    masked.
    """

    role: int
    shown: list[tuple[str, Any]]
    masked_numbers: list[int] = field(default_factory=list)
    masked_bits: list[int] = field(default_factory=list)
    masked_gradients: list[Words] = field(default_factory=list)
    masked_margins: list[Words] = field(default_factory=list)

    def as_shown(self, name: str) -> list[Any]:
        """Return what was shown under a name."""
        found = [value for what, value in self.shown if what == name]
        if not found:
            names = ", ".join(dict.fromkeys(repr(what) for what, _ in self.shown)) or "nothing"
            raise LookupError(f"role {self.role} was shown nothing called {name!r}, only {names}; follow the new name")
        return found

    def values(self, name: str) -> list[npt.NDArray[Any]]:
        """Return what was shown under a name, as numbers."""
        return [value.decode() if isinstance(value, RingArray) else value for value in self.as_shown(name)]


@dataclass(frozen=True, slots=True, eq=False)
class RecordedTraining:
    """A finished training: everybody's input, models and transcripts, the coordinator's transcript first; the truth.

    The truth, which no role has: the rows in each node, the candidate that splits it, and its gradients.
    """

    params: TrainParams
    tables: Sequence[Table]
    labels: Labels
    candidates: list[Candidates]
    models: list[PartialModel]
    transcripts: list[Transcript]
    rows: dict[Place, Rows] = field(default_factory=dict)
    best: dict[Place, int] = field(default_factory=dict)

    @property
    def sizes(self) -> list[list[int]]:
        """Candidates of each feature, participant by participant."""
        return [np.bincount(c.features, minlength=len(c.bins.counts)).tolist() for c in self.candidates]

    @property
    def owners(self) -> Ints:
        """Whose each candidate is, all participants' candidates in order."""
        return np.repeat(np.arange(1, len(self.candidates) + 1), [len(c) for c in self.candidates])

    @property
    def bits(self) -> Ints:
        """Which rows go left by each candidate, (candidates, rows)."""
        return np.concatenate([c.tile() for c in self.candidates]).astype(np.int64)

    def gains(self) -> dict[Place, Floats]:
        """Return the gain of every candidate, less what all have in common, at every node that was split."""
        y, lam, bits, loss = self.labels.y, self.params.reg_lambda, self.bits, self.params.loss
        margin = loss.base_margin(y, None, self.labels.base_score, 1)[0] + np.zeros(len(y))
        gains = {}
        for t, tree in enumerate(self.models[0].trees):
            (g,), (h,) = loss.gradients(y, margin[None])
            for number, node in enumerate(tree):
                here = self.rows[t, number]
                G, H = g[here].sum(), h[here].sum()
                if isinstance(node, Leaf):
                    margin = margin - np.where(here, self.params.learning_rate * G / (H + lam), 0)
                else:
                    GL, HL = bits @ np.where(here, g, 0), bits @ np.where(here, h, 0)
                    gains[t, number] = GL**2 / (HL + lam) + (G - GL) ** 2 / (H - HL + lam)
        return gains


class Shown(Observer):
    """Keeps what a role is shown by name."""

    def __init__(self) -> None:
        self.log: list[tuple[str, Any]] = []

    def on_reveal(self, name: str, value: Any) -> None:
        """Keep it."""
        self.log.append((name, value))


def record(
    params: TrainParams, tables: Sequence[Table], labels: Labels, seed: int, three: bool = False
) -> RecordedTraining:
    """Train with all roles in this process, and keep what each of them saw.

    With `three` the last participant is the coordinator too. Its transcript is then the first, as a coordinator's is;
    in its place among the participants is that of P_2, since it has nothing that is masked to look at.
    """
    roster = Roster.numbered(len(tables))
    roster = Roster.coordinated_by(roster.participants, roster.participants[-1]) if three else roster
    looking = [Shown() for _ in roster.roles]
    opened: list[Frame] = []

    def tap(sender: int, receiver: int, block: bytes) -> None:
        if (sender, receiver) == (ACTIVE, P_2):  # what P_1 opens it sends to all, so this is what all participants hold
            opened.append(decode(block, len(block)))

    data = [TrainData(table, labels=labels if m == 0 else None) for m, table in enumerate(tables)]
    private = [(params, one) for one in roster.by_role(data, None)]
    settings = SessionSettings(insecure_seed=seed, parameters=params.to_json())
    run = run_locally(secure_train, roster, private, settings, tap, observers=looking)
    results = [result for result in roster.by_owner(run.results) if result is not None]
    numbers, bits = ([], []) if params.facts.opens_comparisons else _masked(opened)
    gradients, margins = _rows_of(opened, _GRADIENTS), _rows_of(opened, _MARGINS) if params.facts.hides_rows else []
    transcripts = [
        Transcript(m, log) if m == COORDINATOR else Transcript(m, log, numbers, bits, gradients, margins)
        for m, log in enumerate(one.log for one in looking)
    ]
    transcripts += [transcripts[P_2]] * three
    training = RecordedTraining(
        params, tables, labels, [r.candidates for r in results], [r.model for r in results], transcripts
    )
    write_truth(training)
    return training


def _masked(opened: Sequence[Frame]) -> tuple[list[int], list[int]]:
    """Return the masked differences A_1 B_2 - A_2 B_1 of strict tournaments, and the masked answers."""
    numbers: list[int] = []
    bits: list[int] = []
    compared = 0
    for frame in opened:
        if frame.label.endswith(_DIFFERENCES):
            words = frame.arrays[0]
            numbers += RingArray(wide(words.shape[-1]), words).decode().ravel().tolist()
            compared = len(words)
        elif f"{_DIFFERENCES} #" in frame.label and frame.label.endswith(_ANSWERS):
            planes = frame.arrays[0][-1:] if len(frame.arrays[0]) <= 2 else frame.arrays[0]  # of pairs, the second's
            answers = np.unpackbits(planes, axis=1, count=compared // len(planes), bitorder="little")
            bits += answers.T.ravel().tolist()  # a plane has one pair of every group
    for step, found in ((_DIFFERENCES, numbers), (_ANSWERS, bits)):
        if not found:
            raise _missed(step, opened)
    assert len(numbers) == len(bits), "every masked number has its masked answer"
    return numbers, bits


def _rows_of(opened: Sequence[Frame], steps: tuple[str, ...]) -> list[Words]:
    """Return what was opened at some steps, one number per row and more, in order."""
    found = [np.asarray(frame.arrays[0], np.uint64) for frame in opened if frame.label.endswith(steps)]
    if not found:
        raise _missed(steps[0], opened)
    return [array.reshape(-1, array.shape[-1]) for array in found]


def _missed(step: str, opened: Sequence[Frame]) -> LookupError:
    steps = ", ".join(sorted({frame.label for frame in opened})) or "none"
    return LookupError(f"no frame of a step {step!r} among those recorded ({steps}); follow the new name")


def write_truth(training: RecordedTraining) -> None:
    """Write down the rows of each node and the candidate that splits it, from everybody's models together."""
    first = np.cumsum([0, *(len(c) for c in training.candidates)])
    for t, tree in enumerate(training.models[0].trees):
        training.rows[t, 0] = np.ones(len(training.labels.y), bool)
        for number, node in enumerate(tree):
            if isinstance(node, Leaf):
                continue
            owner = (node.owner if isinstance(node, Dummy) else ACTIVE) - 1
            split = training.models[owner].trees[t][number]
            assert isinstance(split, Split)
            table, candidates = training.tables[owner], training.candidates[owner]
            feature = table.names.index(split.feature)
            goes, here = goes_first(split, table.columns[feature].values), training.rows[t, number]
            left, right = (split.right, split.left) if split.flipped else (split.left, split.right)
            training.rows[t, left], training.rows[t, right] = here & goes, here & ~goes
            place = [(c.feature, candidates.threshold(i)) for i, c in enumerate(candidates.items)]
            training.best[t, number] = int(first[owner]) + place.index((feature, split.threshold or 0.0))


@dataclass(frozen=True, slots=True)
class Match:
    """Two candidates that were compared: whether the second is better, and the number that the role was shown."""

    first: int
    second: int
    second_won: bool
    number: int | None


@dataclass(slots=True)
class Bracket:
    """How the candidates of one node fared, to the eyes of one role; `children` are those that the split made."""

    place: Place
    matches: list[Match]
    best: int = 0
    children: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Brackets:
    """All nodes that were judged, in order; and the leaves of each tree, in the order in which they closed."""

    nodes: list[Bracket]
    leaves: list[list[int]]


def brackets(seen: Transcript, sizes: Sequence[int], params: TrainParams) -> Brackets:
    """Lay out a transcript node by node: halving inside each feature, then across, as all roles know it was done.

    Of a strict transcript, which has no outcome, the masked answers and numbers stand in for what is missing.
    """
    signs, numbers = _outcomes(seen, params.facts.opens_comparisons), _numbers(seen, params.facts.opens_comparisons)
    shape = iter([] if params.facts.opens_comparisons else seen.values(Entry.TREE_SHAPE))
    out = Brackets([], [])
    for t in range(params.n_estimators):
        count, level, closed = 1, [0], []
        for _ in range(params.max_depth):
            if not level:
                break
            batch = [Bracket((t, node), []) for node in level]
            _play(batch, sizes, signs, numbers)
            out.nodes.extend(batch)
            if params.facts.opens_comparisons:
                pays = [_next(signs) > 0 for _ in batch]
                for _ in batch:
                    _next(numbers)
            else:
                pays = (_next(shape) & 255 != 0).tolist()
                if seen.role != COORDINATOR:
                    _next(shape)  # the owners alone, as they are announced to the coordinator
            closed += [bracket.place[1] for bracket, pay in zip(batch, pays, strict=True) if not pay]
            split = [bracket for bracket, pay in zip(batch, pays, strict=True) if pay]
            for bracket in sorted(split, key=lambda bracket: bracket.place):
                bracket.children = (count, count + 1)
                count += 2
            level = [b.children[side] for side in (0, 1) for b in split if b.children is not None]
        out.leaves.append(closed + level)
    return out


def _outcomes(seen: Transcript, opens_comparisons: bool) -> Iterator[int]:
    """Yield the signs of all fractions in order; of a strict transcript, masked bits as if they were signs."""
    if not opens_comparisons:
        return iter([1 - 2 * bit for bit in seen.masked_bits])
    told = seen.values(Entry.COMPARISON)
    if seen.role == ACTIVE:
        told = told[1::2]  # after P_2's word, what P_1 tells everyone
    return chain.from_iterable(array.ravel().tolist() for array in told)


def _numbers(seen: Transcript, opens_comparisons: bool) -> Iterator[int | None]:
    """Yield what was restored at this role of all fractions in order; of a strict transcript, masked numbers."""
    if not opens_comparisons:
        return iter(seen.masked_numbers)
    if seen.role not in (ACTIVE, P_2):  # nothing is restored at the others
        return repeat(None)
    values = seen.values(Entry.DENOMINATOR if seen.role == ACTIVE else Entry.NUMERATOR)
    return iter([int(value) for array in values for value in array.ravel()])


def _play(batch: list[Bracket], sizes: Sequence[int], signs: Iterator[int], numbers: Iterator[int | None]) -> None:
    """Fill in the matches of a level's nodes, stage by stage: a stage has all nodes, a node all features."""
    ends = np.cumsum(sizes).tolist()
    groups = [[list(range(end - size, end)) for end, size in zip(ends, sizes, strict=True) if size] for _ in batch]
    while True:
        while any(len(group) > 1 for group in groups[0]):
            for bracket, mine in zip(batch, groups, strict=True):
                mine[:] = [_halve(group, bracket, signs, numbers) for group in mine]
        if len(groups[0]) == 1:
            break
        groups = [[[winner for (winner,) in mine]] for mine in groups]
    for bracket, mine in zip(batch, groups, strict=True):
        bracket.best = mine[0][0]


def _halve(group: list[int], bracket: Bracket, signs: Iterator[int], numbers: Iterator[int | None]) -> list[int]:
    winners = []
    for first, second in zip(group[0:-1:2], group[1::2], strict=True):
        match = Match(first, second, _next(signs) < 0, _next(numbers))
        bracket.matches.append(match)
        winners.append(second if match.second_won else first)
    return winners + group[2 * len(winners) :]


def _next(seen: Iterator[T]) -> T:
    for value in seen:
        return value
    raise LookupError("the transcript ends before the tournament does; lay it out as tournaments are run now")
