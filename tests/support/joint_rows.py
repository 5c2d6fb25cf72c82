"""Pairs of row arrays that hang together: two runs with the same secrets and other masks, compared.

If the masks of two arrays hang together, as one mask used twice or bits that two masks share do, the difference of the
arrays, or their XOR, tells of the secrets alone, and so it is the same in both runs. Each array may be uniform for all
that. For a - b to be the same in both runs is for a's change from run to run to be b's change: so every array is turned
into its change, and all changes are compared with one another, row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mpfedxgb.party.roster import MakeSource
from mpfedxgb.ring.prg import Stream, digest
from mpfedxgb.transport.frame import Frame, Kind
from support.chance import Symbols
from support.received import is_on_ledger, operation
from support.views import Recorder

LIMIT = 9.0
"""Standard deviations: of the number of rows at which the changes of two arrays agree, beyond what chance has."""


def other_masks(run: int) -> MakeSource:
    """Return streams that differ from run to run, while seeds and so all private choices stay the same."""
    return lambda participant, label, key: Stream(digest(b"run", str(run).encode(), key))


@dataclass(slots=True)
class RowArrays:
    """Arrays over all rows that anybody received outside the ledger: of numbers the lowest byte, or single bits."""

    names: list[str] = field(default_factory=list)
    octets: list[Symbols] = field(default_factory=list)
    bit_names: list[str] = field(default_factory=list)
    bits: list[Symbols] = field(default_factory=list)


def row_arrays(recorder: Recorder, rows: int) -> RowArrays:
    """Return every array over rows in a run, in a fixed order, of all links."""
    found = RowArrays()
    for link, frames in sorted(recorder.links.items()):
        for frame in frames:
            if (
                frame.kind in (Kind.DATA, Kind.OWN)
                and not is_on_ledger(frame, ())
                and not operation(frame).startswith("tell ")
            ):
                for name, octets, is_bits in _of_frame(frame, link, rows):
                    (found.bit_names if is_bits else found.names).append(name)
                    (found.bits if is_bits else found.octets).append(octets)
    return found


def _of_frame(frame: Frame, link: tuple[int, int], rows: int) -> Iterator[tuple[str, Symbols, bool]]:
    packed = -(-rows // 8)
    for place, array in enumerate(frame.arrays):
        name = f"{frame.step}:{frame.label} [{place}] from {link[0]} to {link[1]}"
        if array.ndim and array.dtype == np.uint64 and array.shape[-1] == rows:
            for k, one in enumerate(array.reshape(-1, rows)):
                yield f"{name}, {k}", (one & np.uint64(255)).astype(np.uint8), False
        elif array.ndim and array.dtype == np.uint8 and array.shape[-1] == packed:
            for k, one in enumerate(np.unpackbits(array.reshape(-1, packed), axis=1, count=rows, bitorder="little")):
                yield f"{name}, {k}", one, True
        elif array.ndim == 2 and array.dtype == np.uint8 and array.shape[0] == rows:
            for k, one in enumerate(array.T):
                yield f"{name}, {k}", np.ascontiguousarray(one), False


def hang_together(one: RowArrays, two: RowArrays) -> list[tuple[float, str]]:
    """Return the pairs of arrays that hang together beyond the limit, in standard deviations, the worst first.

    What was passed on in its step as it came is one array.
    """
    assert (one.names, one.bit_names) == (two.names, two.bit_names), "the two runs are not alike in form"
    new = _not_passed_on(one.names, one.octets)
    names = [one.names[i] for i in new]
    a, b = (np.stack([run.octets[i] for i in new]) for run in (one, two))
    low = a & 1, b & 1
    found = [*_agreeing(a - b, names, "difference"), *_agreeing(a ^ b, names, "XOR")]
    new = _not_passed_on(one.bit_names, one.bits)
    bits = [np.stack([run.bits[i] for i in new]) for run in (one, two)]
    changes = np.concatenate([low[0] ^ low[1], bits[0] ^ bits[1]])
    found += _agreeing_bits(changes, [*names, *(one.bit_names[i] for i in new)])
    return sorted(found, reverse=True)


def _not_passed_on(names: Sequence[str], arrays: Sequence[Symbols]) -> list[int]:
    """Return the first of all equal arrays of a step. Equal ones of two steps are two: one mask hides both."""
    first: dict[tuple[str, bytes], int] = {}
    for i, (name, array) in enumerate(zip(names, arrays, strict=True)):
        first.setdefault((name.partition(" [")[0], array.tobytes()), i)
    return sorted(first.values())


def _agreeing(changes: npt.NDArray[np.uint8], names: Sequence[str], how: str) -> Iterator[tuple[float, str]]:
    """Compare bytes: each row agrees with probability 1 / 256 by chance."""
    rows = changes.shape[1]
    deviation = (rows * 255 / 256**2) ** 0.5
    for i, change in enumerate(changes[:-1]):
        sigmas = ((changes[i + 1 :] == change).sum(axis=1) - rows / 256) / deviation
        for j in np.flatnonzero(sigmas > LIMIT).tolist():
            yield float(sigmas[j]), f"{how} of {names[i]} and {names[i + 1 + j]}"


def _agreeing_bits(changes: npt.NDArray[np.uint8], names: Sequence[str]) -> Iterator[tuple[float, str]]:
    """Compare bits: each row agrees with probability 1 / 2 by chance; one array may be the other one turned over."""
    signs = 1 - 2 * changes.astype(np.float32)
    sigmas = np.abs(signs @ signs.T) / np.float32(changes.shape[1] ** 0.5)
    for i, j in np.argwhere(np.triu(sigmas, 1) > LIMIT).tolist():
        yield float(sigmas[i, j]), f"bits of {names[i]} and {names[j]}"
