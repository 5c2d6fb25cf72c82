"""The one door for randomness: OS entropy for seeds, AES-CTR key streams for everything that is expanded."""

from __future__ import annotations

import hashlib
import hmac
import math
import os
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from mpfedxgb.ring.array import RingArray, unpack_data
from mpfedxgb.ring.kernels import U8
from mpfedxgb.ring.ring import BIT, Ring, Shape

SEED_BYTES = 32
KEY_BYTES = 32
_BLOCK_BYTES = 64
_CIPHER_BYTES = 16
_CHUNK = 1 << 16
_ZEROS = memoryview(bytes(_CHUNK))


class Source(Protocol):
    """Something that gives uniformly random ring elements, in order."""

    def elements(self, ring: Ring, shape: Shape) -> RingArray:
        """Return the next elements, in an array of their own, which the caller may overwrite."""
        ...

    def again(self, start: int = 0) -> Source:
        """Return the same stream from its beginning, or starting `start` bytes in."""
        ...


class Stream:
    """The key stream of one step: AES-128 in counter mode under a key that serves no other purpose."""

    __slots__ = ("_encryptor", "_key")

    def __init__(self, key: bytes, start: int = 0) -> None:
        self._key = key
        blocks, rest = divmod(start, _CIPHER_BYTES)  # SP 800-38A, section 6.5: block i is the cipher of counter + i
        counter = (int.from_bytes(key[16:]) + blocks) % (1 << 8 * _CIPHER_BYTES)
        self._encryptor = Cipher(algorithms.AES(key[:16]), modes.CTR(counter.to_bytes(_CIPHER_BYTES))).encryptor()
        if rest:
            self.octets(rest)

    def __repr__(self) -> str:
        return "Stream()"

    @property
    def key(self) -> bytes:
        """The key of this step alone: with it and a start, a worker of the role expands a piece by itself."""
        return self._key

    def again(self, start: int = 0) -> Stream:
        """Return the same stream, starting `start` bytes in: masks of matrices are expanded in blocks."""
        return Stream(self._key, start)

    def octets(self, count: int) -> U8:
        """Return the next `count` bytes."""
        out = np.empty(count, np.uint8)
        view, update = out.data, self._encryptor.update_into
        for start in range(0, count, _CHUNK):
            stop = min(count, start + _CHUNK)
            update(_ZEROS[: stop - start], view[start:stop])
        return out

    def elements(self, ring: Ring, shape: Shape) -> RingArray:
        """Return the next elements of a ring, uniform and independent."""
        size = math.prod(shape)
        if ring.bits == 1 and ring.bitwise:
            return RingArray(BIT, unpack_data(self.octets(-(-size // 8)), size).reshape(shape))
        raw = self.octets(size * ring.element_bytes)
        return RingArray(ring, ring.reduce_in_place(raw.view(ring.dtype).reshape(shape + ring.tail)))


def draw(source: Source, specs: Sequence[tuple[Ring, Shape]]) -> list[RingArray]:
    """Return the next elements of several rings and shapes; of a key stream, in one expansion."""
    if not isinstance(source, Stream) or any(ring == BIT for ring, _ in specs):
        return [source.elements(ring, shape) for ring, shape in specs]
    sizes = [math.prod(shape) * ring.element_bytes for ring, shape in specs]
    ends = list(accumulate((size + -size % 8 for size in sizes), initial=0))  # words begin at multiples of their size
    raw = source.octets(ends[-1])
    return [
        RingArray(ring, ring.reduce_in_place(raw[at : at + size].view(ring.dtype).reshape(shape + ring.tail)))
        for (ring, shape), at, size in zip(specs, ends, sizes, strict=False)
    ]


def os_entropy(count: int) -> bytes:
    """Return fresh bytes from the operating system."""
    return os.urandom(count)


def shuffled(count: int) -> npt.NDArray[np.intp]:
    """Return the numbers below a count in a random order, that of fresh words of 64 bits."""
    return np.argsort(Stream(os_entropy(KEY_BYTES)).octets(8 * count).view(np.uint64), kind="stable")


def extract(salt: bytes, secret: bytes) -> bytes:
    """HKDF-Extract with SHA-256 (RFC 5869)."""
    return hmac.digest(salt, secret, "sha256")


def expand(pseudorandom_key: bytes, info: bytes) -> bytes:
    """HKDF-Expand with SHA-256 to its first 32 bytes (RFC 5869)."""
    return Expander(pseudorandom_key)(info)


class Expander:
    """HKDF-Expand under one key, many times: the two hash states that hold the padded key are kept."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, pseudorandom_key: bytes) -> None:
        key = pseudorandom_key.ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(bytes(b ^ 0x36 for b in key))
        self._outer = hashlib.sha256(bytes(b ^ 0x5C for b in key))

    def __call__(self, info: bytes) -> bytes:
        """Return the first 32 bytes for an info: HMAC(key, info || 1)."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(info + b"\x01")
        outer.update(inner.digest())
        return outer.digest()


def digest(*parts: bytes) -> bytes:
    """Return SHA-256 over parts, each with its length, so that no two lists of parts collide."""
    state = hashlib.sha256()
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()
