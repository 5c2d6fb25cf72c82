"""The group: prime order, blinding that can be undone, sums of two maps, and nothing let in that is not of it."""

from __future__ import annotations

import builtins
import hashlib
from typing import Any

import numpy as np
import pytest

from mpfedxgb.errors import FrameError, SettingsError
from mpfedxgb.intersection import group as module
from mpfedxgb.intersection.group import POINT_BYTES, WIDE_BYTES, Edwards25519
from mpfedxgb.ring.kernels import U8
from support.refusals import refused

ORDER = 2**252 + 27742317777372353535851937790883648493
PRIME = 2**255 - 19
GROUP = Edwards25519(1)


def hashes(count: int) -> U8:
    """Return some hashes."""
    blobs = [hashlib.sha512(bytes([i])).digest() for i in range(count)]
    return np.frombuffer(b"".join(blobs), np.uint8).reshape(count, WIDE_BYTES)


def test_blinding_is_undone_and_commutes() -> None:
    """It is a (b P) = b (a P), and the inverse of a takes a away."""
    points = GROUP.from_hashes(hashes(5))
    a, b = GROUP.scalar(), GROUP.scalar()
    one, two = GROUP.multiply(a, points, "me"), GROUP.multiply(b, points, "me")
    assert (GROUP.multiply(b, one, "me") == GROUP.multiply(a, two, "me")).all()
    assert (GROUP.multiply(GROUP.inverse(a), one, "me") == points).all()
    assert (GROUP.multiply(a, GROUP.public(b), "me") == GROUP.multiply(b, GROUP.public(a), "me")).all()


def test_scalars_are_not_clamped() -> None:
    """They are below the order, some with bits that clamping would set or take: it has a bit 254, and none below 3."""
    drawn = [int.from_bytes(GROUP.scalar(), "little") for _ in range(60)]
    assert all(0 < scalar < ORDER for scalar in drawn)
    assert any(scalar & 7 for scalar in drawn)
    assert len(set(drawn)) == len(drawn)


def test_a_hash_is_the_sum_of_two_maps() -> None:
    """Of its two halves, in either order; each of prime order."""
    whole = hashes(3)
    swapped = np.hstack([whole[:, POINT_BYTES:], whole[:, :POINT_BYTES]])
    assert (GROUP.from_hashes(whole) == GROUP.from_hashes(swapped)).all()
    bindings = module._bindings()
    for wide, point in zip(whole, GROUP.from_hashes(whole), strict=True):
        halves = wide[:POINT_BYTES].tobytes(), wide[POINT_BYTES:].tobytes()
        one, two = (bindings.crypto_core_ed25519_from_uniform(half) for half in halves)
        assert bindings.crypto_core_ed25519_sub(point.tobytes(), one) == two
        assert bindings.crypto_core_ed25519_is_valid_point(point.tobytes())


def test_threads_change_nothing() -> None:
    """The same points in the same order, also where they are not divided evenly."""
    for count in (0, 1, 7, 50):
        points = GROUP.from_hashes(hashes(count))
        assert (Edwards25519(3).from_hashes(hashes(count)) == points).all()
        scalar = GROUP.scalar()
        assert (Edwards25519(3).multiply(scalar, points, "me") == GROUP.multiply(scalar, points, "me")).all()


def alien_points() -> dict[str, bytes]:
    """Return what is not of the group."""
    good = GROUP.from_hashes(hashes(1))[0].tobytes()
    torsion = (PRIME - 1).to_bytes(32, "little")  # (0, -1), of order 2
    return {
        "zero": (1).to_bytes(32, "little"),
        "of order 2": torsion,
        "of order 4": bytes(32),
        "outside the subgroup": module._bindings().crypto_core_ed25519_add(good, torsion),
        "another spelling of zero": (PRIME + 1).to_bytes(32, "little"),
        "not on the curve": (2).to_bytes(32, "little"),
        "noise": b"\xff" * 32,
    }


@pytest.mark.parametrize("kind", alien_points())
def test_what_is_not_of_the_group_is_refused(kind: str) -> None:
    """Wherever it stands among good points, with the name of who sent it."""
    points = GROUP.from_hashes(hashes(4)).copy()
    points[2] = np.frombuffer(alien_points()[kind], np.uint8)
    for group in (GROUP, Edwards25519(2)):
        with refused(FrameError, "damaged", "retail"):
            group.multiply(GROUP.scalar(), points, "retail")


def test_without_pynacl(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says which extra brings it."""
    genuine = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name.split(".")[0] == "nacl":
            raise ImportError(name)
        return genuine(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with refused(SettingsError, "package", "pynacl"):
        Edwards25519()


def test_a_pynacl_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 1.6 it lacks a function, and before 1.6.2 it takes alien points; the message says what to install."""
    with monkeypatch.context() as older:
        older.delattr("nacl.bindings.crypto_core_ed25519_from_uniform")
        with refused(SettingsError, "version", "pynacl"):
            Edwards25519()
    monkeypatch.setattr("nacl.bindings.crypto_scalarmult_ed25519_noclamp", lambda scalar, point: point)
    with refused(SettingsError, "version", "pynacl"):
        Edwards25519()
