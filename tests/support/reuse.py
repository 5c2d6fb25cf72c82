"""Masks that hide two values, looked for in all that a coalition ever received.

The coalition is everybody but one participant, and its own streams are zero: what it receives outside the ledger is
masked by that one alone. Where a mask serves twice, the masked values differ by as little as the values do. So the
arrays of all runs are compared in pairs, from their beginnings, by differences and by XOR; and so are the slices of
each array. All words are compared with one another, wherever they are, and all opened tags.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from mpfedxgb.party import ACTIVE, COORDINATOR
from mpfedxgb.party.observer import Observer
from mpfedxgb.ring import RingArray
from mpfedxgb.transport.frame import Frame, Kind
from support.chance import THRESHOLD, Words
from support.received import is_on_ledger, is_place, operation, symbols
from support.views import Recorder

WORDS, BYTES = 0, 256
"""Sizes of alphabets: 64-bit words, by convention, and bytes of packed bits. All others are those of digits."""

PREFIX = 64
"""Places of an array that are compared with another: a mask that is used again is used from its beginning."""

SLICES = 12
"""Slices of an array, along each of its axes, that are compared with one another."""

NEAR = 48
"""Values that words hide differ by fewer bits than this: gradients, sums of them, leaf weights."""

Piece = npt.NDArray[Any]


class _Tags(Observer):
    """Notes down tags of an inbox's honest owner, which is their lowest byte."""

    def __init__(self, inbox: Inbox, name: str) -> None:
        self._inbox, self._name = inbox, name

    def on_reveal(self, name: str, value: Any) -> None:
        """Note it down, if it is a tag."""
        if name == self._name and isinstance(value, RingArray):
            self._inbox.tags += [tag >> 8 for tag in value.data.ravel().tolist() if tag & 255 in self._inbox.tagged]


@dataclass(slots=True)
class Inbox:
    """What all participants but one received in several runs, outside the ledger; and that one's tags, as opened.

    A coordinator that brings columns, whose number as an owner `coordinator` is, has no stream: its masks are of all.
    `added_up`, the parts that the one sends to P_1 are replaced by what P_1 makes of them: the sums that it opens.
    """

    honest: int
    added_up: bool = False
    coordinator: int = -1
    arrays: dict[int, list[tuple[str, Piece]]] = field(default_factory=dict)
    tags: list[int] = field(default_factory=list)

    @property
    def tagged(self) -> tuple[int, int]:
        """Owners whose tags are blinded by more than the coalition knows."""
        return self.honest, self.coordinator

    def watch(self, participants: int, tags: str) -> list[Observer]:
        """Return an observer for each role; one notes down the tags that are opened to all, of the honest owner."""
        first = min({1, 2} - {self.honest})  # what is opened to all is counted once
        return [_Tags(self, tags) if role == first else Observer() for role in range(participants + 1)]

    def add(self, run: str, recorder: Recorder) -> None:
        """Add a run: each array once, however many received it."""
        others = frozenset(role for link in recorder.links for role in link) - {self.honest, COORDINATOR}
        passed_on = _passed_on(recorder, self.honest, others)
        seen: set[tuple[int, int, bytes]] = set()
        for frame in self._frames(recorder, others):
            for place, array in enumerate(frame.arrays):
                if array.tobytes() in passed_on:
                    continue
                name = f"{run}, {frame.step}:{frame.label} [{place}] from {frame.sender}"
                new = [row.tobytes() not in passed_on for row in _rows(array)]
                kept = array if all(new) else _rows(array)[new]
                key = (frame.sender, frame.step, kept.tobytes())
                if key in seen:
                    continue
                seen.add(key)
                if array.dtype == np.uint64 and not is_place(array):
                    self._keep(WORDS, name, kept)
                elif kept is not array:
                    self._keep(BYTES, name, kept)
                else:
                    self._take_symbols(name, frame, place)

    def _take_symbols(self, name: str, frame: Frame, place: int) -> None:
        array = frame.arrays[place]
        for number, (values, alphabet) in enumerate(symbols(frame, place)):
            shape = next((s for s in (array.shape, array.shape[:-1]) if prod(s) == values.size), values.shape)
            self._keep(alphabet, f"{name}, digit {number}", values.reshape(shape))

    def _keep(self, alphabet: int, name: str, array: Piece) -> None:
        if array.size:
            self.arrays.setdefault(alphabet, []).append((name, array))

    def _frames(self, recorder: Recorder, others: frozenset[int]) -> list[Frame]:
        """Return the frames to look at: outside the ledger; of a reveal, the coordinator's correction.

        Together with that, a participant's part of a reveal says what the ledger says and no more.
        """
        frames = [frame for frame in recorder.received(others, [Kind.DATA, Kind.OWN]) if not is_on_ledger(frame, ())]
        frames = [f for f in frames if f.sender == COORDINATOR or not operation(f).startswith("reveal ")]
        if self.added_up:
            parts = {f.step for f in frames if f.sender == self.honest and not operation(f).startswith("share")}
            sums = [f for f in recorder.links[ACTIVE, self.honest] if f.kind is Kind.DATA and f.step in parts]
            opened = {frame.step for frame in sums}
            frames = [f for f in frames if f.sender != self.honest or f.step not in opened] + sums
        return frames


def _rows(array: Piece) -> Piece:
    array = np.atleast_1d(array)
    return array.reshape(-1, array.shape[-1]) if array.shape[-1] * array.itemsize > 4 else array[:0]


def _passed_on(recorder: Recorder, honest: int, others: frozenset[int]) -> set[bytes]:
    """Return what the others sent by way of P_1, whole and row by row: they know it, and nothing masks it."""
    if honest != ACTIVE:
        return set()
    frames = [frame for m in others for frame in recorder.links[m, honest] if frame.kind is Kind.DATA]
    sent = [array for frame in frames for array in frame.arrays]
    return {a.tobytes() for a in sent} | {row.tobytes() for a in sent for row in _rows(a)}


def reused(inbox: Inbox) -> list[str]:
    """Return where a mask seems to hide two values, the least likely first; nothing, if all is well."""
    assert inbox.arrays, "nothing was received, so there is nothing to compare"
    words = np.concatenate([array.ravel() for _, array in inbox.arrays[WORDS]])
    anywhere = [_nearest("words anywhere", words, 64), _nearest("opened tags", np.array(inbox.tags, np.uint64), 56)]
    pairs: list[_Tests] = []
    for alphabet, arrays in inbox.arrays.items():
        pairs += _pairs_of_arrays(alphabet, arrays)
        pairs += (test for name, array in arrays for test in _slices(alphabet, name, array))
    return [f"{what}: p = {p:.1e}" for p, what in sorted(_unlikely(anywhere) + _unlikely(pairs))]


def _unlikely(tests: Sequence[_Tests]) -> list[tuple[float, str]]:
    """Return the outcomes that are not likely even among so many (Bonferroni)."""
    bound = THRESHOLD / max(1, sum(test.count for test in tests))
    return [(p, what) for test in tests for p, what in test.unlikely if p < bound]


@dataclass(frozen=True, slots=True)
class _Tests:
    """Several tests at once: how many, and the outcomes that are not likely."""

    count: int
    unlikely: list[tuple[float, str]]


def _nearest(what: str, words: Words, bits: int) -> _Tests:
    """Test whether two words are too near; in order, neighbours have the smallest difference and the smallest XOR."""
    n, words, mask = len(words), np.sort(words), np.uint64((1 << bits) - 1)
    if n < 2:
        return _Tests(0, [])
    gap = int(((np.roll(words, -1) - words) & mask).min())
    xor = int((words[1:] ^ words[:-1]).min())
    return _Tests(2, [(n * n * (min(gap, xor) + 1) / 2.0**bits, what)])


def _pairs_of_arrays(alphabet: int, arrays: Sequence[tuple[str, Piece]]) -> Iterator[_Tests]:
    """Test each array against all that follow, from their beginnings."""
    sizes = np.array([min(array.size, PREFIX) for _, array in arrays])
    table = np.zeros((len(arrays), PREFIX), arrays[0][1].dtype)
    for row, (_, array) in zip(table, arrays, strict=True):
        row[: min(array.size, PREFIX)] = array.ravel()[:PREFIX]
    for i in range(len(arrays) - 1):
        size = np.minimum(sizes[i], sizes[i + 1 :])
        p = _p_of_pairs(alphabet, table[i], table[i + 1 :], size)
        unlikely = np.flatnonzero(p < THRESHOLD).tolist()
        yield _Tests(2 * p.size, [(float(p[j]), f"{arrays[i][0]} and {arrays[i + 1 + j][0]}") for j in unlikely])


def _slices(alphabet: int, name: str, array: Piece) -> Iterator[_Tests]:
    """Test the slices of one array, along each axis, against one another."""
    for axis in range(array.ndim):
        count = min(array.shape[axis], SLICES)
        if 1 < count < array.size:
            table = np.moveaxis(array, axis, 0)[:count].reshape(count, -1)[:, :PREFIX]
            one, two = np.triu_indices(count, 1)
            p = _p_of_pairs(alphabet, table[one], table[two], np.array(table.shape[1]))
            unlikely = np.flatnonzero(p < THRESHOLD).tolist()
            places = [f"{name}, at {one[j]} and {two[j]} of axis {axis}" for j in unlikely]
            yield _Tests(2 * p.size, list(zip(p[unlikely].tolist(), places, strict=True)))


def _p_of_pairs(alphabet: int, a: Piece, b: Piece, size: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return how likely two arrays are to be so much alike in their first places, if they are independent."""
    places = np.arange(a.shape[-1]) < size[..., None]
    if alphabet == WORDS:
        near = np.uint64(1 << NEAR)
        differ = (a - b + near) < 2 * near
        xor = ((a ^ b) + near) < 2 * near
        alike = np.maximum((differ & places).sum(axis=-1), (xor & places).sum(axis=-1))
        return np.asarray(_tail(2.0 ** (NEAR - 63))[size, alike])
    if alphabet == BYTES:
        alike = np.where(places, 8 - np.bitwise_count(a ^ b).astype(np.int64), 0).sum(axis=-1)
        most = np.maximum(alike, 8 * size - alike)
        return np.asarray(2 * _tail(0.5)[8 * size, most])
    alike = ((a == b) & places).sum(axis=-1)
    return np.asarray(_tail(1 / alphabet)[size, alike])


@lru_cache(maxsize=16)
def _tail(q: float) -> npt.NDArray[np.float64]:
    """Return how likely it is that of n places, each with probability q, k or more are alike, by n and k."""
    n = np.arange(8 * PREFIX + 1 if q == 0.5 else PREFIX + 1)
    table: npt.NDArray[np.float64] = stats.binom.sf(n - 1, n[:, None], q)
    return table
