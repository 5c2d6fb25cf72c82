"""The group in which ids are blinded: the points of prime order on Edwards25519, from libsodium by way of PyNaCl.

Scalars are uniform below the order and never clamped, so that every one has an inverse and blinding can be undone. A
hash becomes a point as the sum of two Elligator maps, which is as good as a random point of which nobody knows the
logarithm (Brier et al., CRYPTO 2010); one map alone reaches only half of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from mpfedxgb.errors import FrameError, SettingsError
from mpfedxgb.ring.kernels import U8
from mpfedxgb.ring.prg import os_entropy

POINT_BYTES = 32
WIDE_BYTES = 64
"""Bytes of the hash that becomes a point."""

_OF_ORDER_2 = ((1 << 255) - 20).to_bytes(32, "little")
"""The point (0, -1)."""


class Group(Protocol):
    """What the protocol asks of a group of prime order; points are rows of bytes."""

    def scalar(self) -> bytes:
        """Return a uniform scalar, not zero."""
        ...

    def inverse(self, scalar: bytes) -> bytes:
        """Return the scalar that undoes another."""
        ...

    def public(self, scalar: bytes) -> U8:
        """Return a scalar times the group's base, (1, 32)."""
        ...

    def from_hashes(self, hashes: U8) -> U8:
        """Return points, (n, 32), from hashes, (n, 64)."""
        ...

    def multiply(self, scalar: bytes, points: U8, sender: str) -> U8:
        """Return a scalar times each point; FrameError, naming the sender, if one is not of the group or is zero."""
        ...


class Edwards25519:
    """The group, with so many threads for its work: libsodium's functions run without the interpreter's lock."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self._nacl = _bindings()
        self._jobs = n_jobs or usable_cores()

    def scalar(self) -> bytes:
        """Return a uniform scalar, not zero."""
        while True:
            scalar: bytes = self._nacl.crypto_core_ed25519_scalar_reduce(os_entropy(WIDE_BYTES))
            if any(scalar):
                return scalar

    def inverse(self, scalar: bytes) -> bytes:
        """Return the scalar that undoes another."""
        inverse: bytes = self._nacl.crypto_core_ed25519_scalar_invert(scalar)
        return inverse

    def public(self, scalar: bytes) -> U8:
        """Return a scalar times the base point, (1, 32)."""
        return _points([self._nacl.crypto_scalarmult_ed25519_base_noclamp(scalar)])

    def from_hashes(self, hashes: U8) -> U8:
        """Return points from hashes: of each half one Elligator map, and their sum."""
        one, add = self._nacl.crypto_core_ed25519_from_uniform, self._nacl.crypto_core_ed25519_add
        return self._each(lambda wide: add(one(wide[:POINT_BYTES]), one(wide[POINT_BYTES:])), hashes)

    def multiply(self, scalar: bytes, points: U8, sender: str) -> U8:
        """Return a scalar times each point.

        libsodium itself refuses what is no point, is not in its one spelling, is of small order or outside the subgroup
        of prime order, and a product that is zero.
        """
        times = self._nacl.crypto_scalarmult_ed25519_noclamp
        try:
            return self._each(lambda point: times(scalar, point), points)
        except _refusals():
            raise FrameError(f"{sender} sent a point that is not one of the group") from None

    def _each(self, function: Callable[[bytes], bytes], rows: U8) -> U8:
        """Return a function's value for each row, computed by several threads."""
        length = rows.shape[1]
        octets = rows.tobytes()
        blobs = [octets[at : at + length] for at in range(0, len(octets), length)]
        if self._jobs == 1 or len(blobs) < 2 * self._jobs:
            return _points([function(blob) for blob in blobs])
        size = -(-len(blobs) // self._jobs)
        slices = [blobs[at : at + size] for at in range(0, len(blobs), size)]
        with ThreadPoolExecutor(len(slices)) as pool:
            parts = pool.map(lambda some: [function(blob) for blob in some], slices)
            return _points([point for part in parts for point in part])


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _points(blobs: list[bytes]) -> U8:
    return np.frombuffer(b"".join(blobs), np.uint8).reshape(len(blobs), POINT_BYTES)


def _bindings() -> Any:
    """Return PyNaCl's functions; it is an extra of its own, and only alignments need it."""
    try:
        from nacl import bindings
    except ImportError:
        raise SettingsError("finding rows in common needs PyNaCl; pip install 'mpfedxgb[align]'") from None
    if not (bindings.has_crypto_core_ed25519 and bindings.has_crypto_scalarmult_ed25519):
        raise SettingsError(
            "the libsodium behind PyNaCl was built without the functions of Edwards25519; install a wheel of PyNaCl "
            "from its authors"
        )
    if not (hasattr(bindings, "crypto_core_ed25519_from_uniform") and _keeps_to_the_subgroup(bindings)):
        raise SettingsError(
            "finding rows in common needs PyNaCl 1.6.2 or newer: those before take points that are not of the group; "
            "pip install 'pynacl>=1.6.2'"
        )
    return bindings


def _keeps_to_the_subgroup(bindings: Any) -> bool:
    """Return whether libsodium refuses a point that is half outside; before 2025-12-31 it did not (CVE-2025-69277)."""
    one = (1).to_bytes(32, "little")
    alien = bindings.crypto_core_ed25519_add(bindings.crypto_scalarmult_ed25519_base_noclamp(one), _OF_ORDER_2)
    try:
        bindings.crypto_scalarmult_ed25519_noclamp(one, alien)
    except _refusals():
        return True
    return False


def _refusals() -> tuple[type[BaseException], ...]:
    from nacl import exceptions

    return exceptions.RuntimeError, exceptions.TypeError, exceptions.ValueError


def check_available() -> None:
    """Raise SettingsError, with the remedy, where the group cannot be used."""
    _bindings()
