"""The group in which ids are blinded: the points of prime order on Edwards25519, from libsodium by way of PyNaCl.

Scalars are uniform below the order and never clamped, so that every one has an inverse and blinding can be undone. A
hash becomes a point as the sum of two Elligator maps, which is as good as a random point of which nobody knows the
logarithm (Brier et al., CRYPTO 2010); one map alone reaches only half of them.

What every two auxiliaries agree on for the pads of an intersection, so that neither P_1 nor C can stand in between.

A Diffie-Hellman exchange with fresh keys for each list. In a mesh the auxiliaries send each other their public keys. In
a star, where no two of them are connected, the coordinator passes the keys on, over its own authenticated connections:
P_1, who could make use of other keys because it gets the dictionaries, never has one in its hands; the coordinator has
them, and no dictionary.

The hash functions of one intersection, each with a purpose of its own, all salted for this list of this session.

The argument for what stays hidden takes them for random functions (random oracles). The salt is fresh, so that nothing
that was computed for one intersection is of use in another.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from mpfedxgb.errors import FrameError, SettingsError
from mpfedxgb.intersection.dictionary import Shape
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import COORDINATOR
from mpfedxgb.ring.kernels import U8, U64
from mpfedxgb.ring.prg import os_entropy
from mpfedxgb.transport.frame import Array, Kind, check_form
from mpfedxgb.transport.transport import MESH

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
    """The group, with `threads` threads for its work: libsodium's functions run without the interpreter's lock."""

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
            raise FrameError(f"{sender} sent a point that is not one of the group", parameter=sender) from None

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
        raise SettingsError(
            "finding rows in common needs PyNaCl; pip install 'mpfedxgb[align]'", "package", "pynacl"
        ) from None
    if not (bindings.has_crypto_core_ed25519 and bindings.has_crypto_scalarmult_ed25519):
        text = (
            "the libsodium behind PyNaCl was built without the functions of Edwards25519; install a wheel of PyNaCl "
            "from its authors"
        )
        raise SettingsError(text, "package", "libsodium")
    if not (hasattr(bindings, "crypto_core_ed25519_from_uniform") and _keeps_to_the_subgroup(bindings)):
        text = (
            "finding rows in common needs PyNaCl 1.6.2 or newer: those before take points that are not of the group; "
            "pip install 'pynacl>=1.6.2'"
        )
        raise SettingsError(text, "version", "pynacl")
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


MOST_LISTS = 2
"""Training and evaluation rows."""

_STEP = "keys of pads"


def agree_on_pads(party: Party, group: Group, lists: int) -> list[U8 | None]:
    """Return, for each list, the points that an auxiliary agrees on with every other one; None for each at P_1.

    1. Each auxiliary sends a public key for each list to the coordinator, in a mesh to each other auxiliary.
    2. In a star the coordinator sends all of them to each (`pass_keys_on`); with its own, if it brings columns.
    3. Each multiplies the others' keys by its own scalars.

    Rounds: 1. Sent: by each auxiliary 32 bytes per list to the coordinator, who sends 32 per list and auxiliary to
    each; in a mesh 32 bytes per list to each other auxiliary. With one auxiliary alone nothing is sent. A coordinator
    that brings columns is an auxiliary here. Reveals: nothing.
    """
    party.step(_STEP)
    auxiliaries = party.roster.other_owners
    if len(auxiliaries) > 1:
        party.count(rounds=1, hops=1 if party.topology == MESH else 2)
    if party.is_active:
        return [None] * lists
    scalars = [group.scalar() for _ in range(lists)]
    mine = np.concatenate([group.public(scalar) for scalar in scalars])
    others = [m for m in auxiliaries if m != party.role]
    theirs = _exchanged(party, mine, others) if others else {}
    nobody = np.empty((0, POINT_BYTES), np.uint8)
    return [
        np.concatenate(
            [nobody, *(group.multiply(scalar, keys[i][None], party.roster.name(m)) for m, keys in theirs.items())]
        )
        for i, scalar in enumerate(scalars)
    ]


def _exchanged(party: Party, mine: U8, others: list[int]) -> dict[int, U8]:
    """Return the public keys of the other auxiliaries, a row for each list."""
    if party.topology == MESH:
        party.send_bytes(others, [mine])
        return {m: _keys(party, m, party.receive_bytes(m), mine.shape) for m in others}
    if party.is_coordinator:
        return _pass_on(party, mine)
    party.send_bytes([COORDINATOR], [mine], Kind.ANNOUNCE)
    shape = (len(others) + 1, *mine.shape)
    everyone = _keys(party, COORDINATOR, party.receive_bytes(COORDINATOR, kind=Kind.ANNOUNCE), shape)
    keys = dict(zip(party.roster.other_owners, everyone, strict=True))
    if (keys.pop(party.role) != mine).any():
        raise FrameError(
            f"{party.roster.coordinator} passed on another key of {party.name} than it was sent", parameter=party.name
        )
    return keys


def pass_keys_on(party: Party) -> None:
    """Pass the auxiliaries' public keys on between them, as the coordinator of a star (see `agree_on_pads`)."""
    party.step(_STEP)
    if party.topology != MESH and len(party.others) > 1:
        _pass_on(party)


def _pass_on(party: Party, own: U8 | None = None) -> dict[int, U8]:
    """Return the auxiliaries' public keys once each has all of them, and those of a coordinator that brings columns."""
    everyone: list[U8] = []
    for m in party.others:
        arrays = party.receive_bytes(m, kind=Kind.ANNOUNCE)
        first = everyone[0] if everyone else own
        lists = len(first) if first is not None else len(arrays[0]) if arrays and arrays[0].ndim else 0
        if not 1 <= lists <= MOST_LISTS:
            raise FrameError(
                f"{party.roster.name(m)} sent no public keys for an alignment", parameter=party.roster.name(m)
            )
        everyone.append(_keys(party, m, arrays, (lists, POINT_BYTES)))
    heard = dict(zip(party.others, everyone, strict=True))
    party.send_bytes(party.others, [np.stack(everyone if own is None else [*everyone, own])], Kind.ANNOUNCE)
    return heard


def _keys(party: Party, peer: int, arrays: tuple[Array, ...], shape: tuple[int, ...]) -> U8:
    (keys,) = check_form(party.roster.name(peer), _STEP, arrays, (np.uint8, shape))
    return np.asarray(keys, np.uint8)


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
        """Return where in a dictionary each id is, (n, bytes): public, and the same for everyone who computes it."""
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
