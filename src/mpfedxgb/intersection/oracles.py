"""The hash functions of one intersection, each with a purpose of its own, all salted for this list of this session.

The argument for what stays hidden takes them for random functions (random oracles). The salt is fresh, so that nothing
that was computed for one intersection is of use in another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from mpfedxgb.intersection.dictionary import Shape
from mpfedxgb.intersection.group import WIDE_BYTES
from mpfedxgb.ring.kernels import U8, U64

SALT_BYTES = 32
TAG_BYTES = 16


class Oracles:
    """The functions, by what they are for; ids are texts in the spelling that all participants compare."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt

    def __repr__(self) -> str:
        return "Oracles()"

    def hashes(self, ids: Sequence[str]) -> U8:
        """Return what becomes a point for each id, (n, 64)."""
        return _rows([self._hash(b"point", one.encode(), WIDE_BYTES) for one in ids], WIDE_BYTES)

    def masks(self, ids: Sequence[str], points: U8) -> tuple[U64, U8]:
        """Return for each id under an auxiliary's key, which made the points, its mask, (n, 2), and its tag, (n, 16).

        Only who has both, or has the key, can compute them (2HashDH of Jarecki et al., ASIACRYPT 2014).
        """
        pairs, length = zip(ids, points, strict=True), 16 + TAG_BYTES
        octets = _rows([self._hash(b"mask", point.tobytes() + one.encode(), length) for one, point in pairs], length)
        return np.ascontiguousarray(octets[:, :16]).view(np.uint64), np.ascontiguousarray(octets[:, 16:])

    def pads(self, agreed: U8, ids: Sequence[str]) -> U64:
        """Return for each id what two auxiliaries both add, (n, 2), from the point that only they have agreed on."""
        key = self._hash(b"pair", agreed.tobytes(), 32)
        pad = (hashlib.blake2b(one.encode(), digest_size=16, key=key, person=b"pad").digest() for one in ids)
        return _rows(list(pad), 16).view(np.uint64)

    def places(self, ids: Sequence[str], shape: Shape) -> U8:
        """Return where in a dictionary each id is, (n, bytes): public, and the same whoever computes it."""
        start = hashlib.shake_128(b"mpfedxgb place" + self._salt)
        octets = []
        for one in ids:
            state = start.copy()
            state.update(one.encode())
            octets.append(state.digest(shape.place_bytes))
        return _rows(octets, shape.place_bytes)

    def _hash(self, purpose: bytes, content: bytes, length: int) -> bytes:
        return hashlib.blake2b(content, digest_size=length, key=self._salt, person=purpose).digest()


def _rows(blobs: list[bytes], length: int) -> U8:
    return np.frombuffer(b"".join(blobs), np.uint8).reshape(len(blobs), length)
