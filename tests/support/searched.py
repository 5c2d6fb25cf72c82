"""Texts and files searched for numbers that must not be there, in every form in which a number may be written down."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.transport.frame import Kind
from support.chance import Words
from support.received import is_on_ledger
from support.views import Recorder

LEAST = 1 << 40
"""Smaller words are not looked for: they may be there by chance, or as counts and times."""

_WHOLE = re.compile(rb"\d{12,20}")
_FLOAT = re.compile(rb"\d+\.?\d*(?:[eE][+-]?\d+)?")
_HEX = re.compile(rb"[0-9a-fA-F]{16,}")
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{11,}")


@dataclass(slots=True)
class Wanted:
    """Words of 64 bits to look for, in order."""

    words: Words
    _floats: npt.NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        """Leave out words that are small as one of the two integers that they stand for."""
        words = np.unique(self.words)
        self.words = words[(words >= LEAST) & (-words >= LEAST)]
        self._floats = np.unique(np.concatenate([self.words.astype(np.float64), np.abs(self.words.view(np.int64))]))

    def inside(self, content: bytes) -> list[int]:
        """Return the words that a content has: as bytes, in decimal, hexadecimal or base 64, or as a float."""
        found = _among(np.unique(np.concatenate([np.zeros(0, np.uint64), *_words_of(content)])), self.words)
        floats = np.array([float(token) for token in _FLOAT.findall(content) if len(token) < 400], np.float64)
        near = _among(floats[(floats >= LEAST) & np.isfinite(floats)], self._floats)
        return sorted({*found.tolist(), *map(int, near.tolist())})

    def without(self, words: Words) -> Wanted:
        """Return all but some words."""
        return Wanted(np.setdiff1d(self.words, words))


def _among(values: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the values that are wanted, which are in order: np.isin would sort them again for every content."""
    if not len(wanted):
        return values[:0]
    places = np.minimum(np.searchsorted(wanted, values), len(wanted) - 1)
    return np.asarray(values[wanted[places] == values])


def _words_of(content: bytes) -> Iterator[Words]:
    yield from _windows(content)
    whole = [int(token) for token in _WHOLE.findall(content)]
    yield np.array([sign * number % (1 << 64) for number in whole for sign in (1, -1)], np.uint64)
    for token in _HEX.findall(content):
        for start in (0, 1):
            even = token[start : len(token) - (len(token) - start) % 2]
            yield from _windows(bytes.fromhex(even.decode()))
    for token in _BASE64.findall(content):
        for start in range(4):
            part = token[start : len(token) - (len(token) - start) % 4]
            yield from _windows(base64.b64decode(part, altchars=b"-_" if set(part) & set(b"-_") else None))


def _windows(content: bytes) -> Iterator[Words]:
    """Yield the words that begin at any byte, of either order of bytes."""
    octets = np.frombuffer(content, np.uint8)
    if len(octets) >= 8:
        words = np.lib.stride_tricks.sliding_window_view(octets, 8).copy().view("<u8").ravel()
        yield words.astype(np.uint64)
        yield words.byteswap().astype(np.uint64)


def received_words(recorder: Recorder) -> Words:
    """Return all that travelled outside the ledger, as words: masked values, parts of them and corrections."""
    found = [np.zeros(0, np.uint64)]
    for frames in recorder.links.values():
        for frame in frames:
            if frame.kind is Kind.DATA and not is_on_ledger(frame, ()):
                found += [as_words(array.tobytes()) for array in frame.arrays if array.dtype in (np.uint64, np.uint8)]
    return np.concatenate(found)


def as_words(content: bytes) -> Words:
    """Return bytes as words, from the beginning; what is left at the end is left out."""
    return np.frombuffer(content[: len(content) // 8 * 8], "<u8").astype(np.uint64)
