"""What a role receives in a run: which frames are on the ledger, and what should be uniform in the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mpfedxgb.party import ACTIVE, COORDINATOR
from mpfedxgb.party.observer import Observer
from mpfedxgb.ring import RingArray
from mpfedxgb.transport.frame import Frame, Kind
from support.chance import Symbols, p_uniform
from support.views import Recorder

PUBLIC = ("announce ", "broadcast ", "tell ", "ids")
"""Steps in which numbers on the ledger are told, and the ids of rows to score."""

STAR_SUMS = frozenset({ACTIVE})
"""Who returns sums to all in a star."""


PLACE_BITS = 10
"""Bits of a place in a table: of the rings that are used, the one that does not fill its words."""


def operation(frame: Frame) -> str:
    """Return the last part of a step's label."""
    return frame.label.rpartition("/")[2]


def is_on_ledger(frame: Frame, opened_to_all: tuple[str, ...], summed_by: frozenset[int] = STAR_SUMS) -> bool:
    """Tell whether a frame is itself what the ledger reveals: the sum that P_1 returns to all, or a public number.

    The shares on their way to P_1, the correction of the sharing of zero, and what P_1 passes on to a single receiver
    are uniform each for itself. In a mesh nobody returns sums, unless openings are cut into pieces: then all do.
    """
    name = operation(frame)
    returned = frame.sender in summed_by and name.startswith(tuple(f"reveal {what}" for what in opened_to_all))
    return name.startswith(PUBLIC) or returned


def is_place(array: Any) -> bool:
    """Tell whether an array holds opened places of a table of 2^10 entries: words of which 10 bits are used.

    Less than a byte is no such place: single bits that somebody forgot to mask are not taken for one.
    """
    return array.dtype == np.uint64 and array.size > 0 and 8 < int(array.max()).bit_length() <= PLACE_BITS


def symbols(frame: Frame, place: int) -> Iterator[tuple[Symbols, int]]:
    """Yield what should be uniform in an array: symbols, and the size of their alphabet."""
    array = frame.arrays[place]
    comparing = operation(frame) == "less than" and array.dtype == np.uint8
    staged = "argmax/stage" in frame.label and array.dtype == np.uint8
    tau = operation(frame).endswith(" digits") if staged else comparing and frame.sender != COORDINATOR
    if tau:  # one table size per digit; a lift may share its round
        for digit in range(array.shape[-1]):
            yield array[..., digit].ravel(), 1 << (2 * digit + 1).bit_length()
    elif (comparing and place == 0) or (staged and array.ndim == 3):  # one-hot digits, modulo the largest table
        yield array.ravel(), 1 << (2 * array.shape[-2] - 1).bit_length()
    elif array.dtype == np.uint8 and array.ndim == 1:  # single bits come packed; the last byte may be filled up
        yield array[:-1], 256
    elif is_place(array):
        lower = 1 << (int(array.max()).bit_length() - 8)
        yield (array // np.uint64(lower)).astype(np.uint8).ravel(), 256
        yield (array % np.uint64(lower)).astype(np.uint8).ravel(), lower
    else:
        yield np.ascontiguousarray(array).view(np.uint8).ravel(), 256


def secret_symbols(
    recorder: Recorder, receiver: int, opened_to_all: tuple[str, ...] = ()
) -> dict[tuple[str, int], list[Symbols]]:
    """Return what a role received outside the ledger, arrays of one kind together, by name and size of alphabet."""
    found: dict[tuple[str, int], list[Symbols]] = {}
    for frame in recorder.received(frozenset({receiver}), [Kind.DATA, Kind.OWN]):
        if not is_on_ledger(frame, opened_to_all):
            for place, array in enumerate(frame.arrays):
                what = f"{frame.label} [{place}] of {array.ndim} axes from {frame.sender} to {receiver}"
                for number, (values, alphabet) in enumerate(symbols(frame, place)):
                    found.setdefault((f"{what}, digit {number}", alphabet), []).append(values)
    return found


def p_outside_ledger(
    recorder: Recorder, participants: int, opened_to_all: tuple[str, ...] = ()
) -> list[tuple[float, str]]:
    """Return, for all that each participant received outside the ledger, how likely it is if it is uniform."""
    found = [secret_symbols(recorder, m, opened_to_all) for m in range(1, participants + 1)]
    return [
        (p_uniform(values, alphabet), what)
        for of_one in found
        for (what, alphabet), pieces in of_one.items()
        if (values := np.concatenate(pieces)).size
    ]


class Witness(Observer):
    """Keeps what one role is told or shown, in order: names and integers."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    def on_reveal(self, name: str, value: Any) -> None:
        """Keep it."""
        self.seen.append((name, (value.decode() if isinstance(value, RingArray) else value).tolist()))


def witnesses(participants: int) -> list[Witness]:
    """Return a witness for each role, the coordinator first."""
    return [Witness() for _ in range(participants + 1)]


class Steps(Observer):
    """Keeps what one role says of how far it is."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_progress(self, what: str) -> None:
        """Keep it."""
        self.heard.append(what)
