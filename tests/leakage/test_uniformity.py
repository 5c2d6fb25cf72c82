"""Everything that is received and is not on the ledger is uniformly random, however extreme the secrets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest

from mpfedxgb.config import Link, SessionSettings
from mpfedxgb.party import ACTIVE, COORDINATOR, run_locally
from mpfedxgb.transport.frame import Frame, Kind
from support.chance import THRESHOLD, Words, joint, p_bytes_uniform, p_uniform
from support.every_protocol import LARGEST, SMALLEST, TOURNAMENTS, ZEROS, Private, every_protocol
from support.received import STAR_SUMS, is_on_ledger, is_place, operation, symbols
from support.views import Recorder

RUNS = 640
SECRETS = {"zeros": ZEROS, "largest": LARGEST, "smallest": SMALLEST}
OPENED_TO_ALL = ("sum to all", "sign to all", "owner")


WAYS = {
    "star": (SessionSettings(insecure_seed=5), STAR_SUMS),
    "mesh": (SessionSettings(insecure_seed=5, topology="mesh"), frozenset[int]()),
    "pieces": (SessionSettings(insecure_seed=5, topology="mesh", link=Link(0.0, 1e-3)), frozenset({1, 2, 3})),
}
"""How openings go, the last over a link for which all are cut; and who returns sums to all."""


def record(participants: int, secrets: Private, way: str = "star") -> Recorder:
    """Run every protocol on the same extreme secrets of all participants, and return all frames."""
    recorder = Recorder()
    private = [(RUNS,)] + [(RUNS, secrets)] * participants
    run_locally(every_protocol, participants, private, WAYS[way][0], tap=recorder)
    return recorder


def secret_arrays(recorder: Recorder, receiver: int, way: str = "star") -> Iterator[tuple[Frame, int]]:
    """Yield each array outside the ledger that a role received, as frame and place."""
    for frame in recorder.received(frozenset({receiver}), [Kind.DATA]):
        if not is_on_ledger(frame, OPENED_TO_ALL, WAYS[way][1]):
            yield from ((frame, place) for place in range(len(frame.arrays)))


@pytest.mark.parametrize(
    ("participants", "secrets", "way"),
    [
        *((m, name, "star") for m in (2, 3) for name in SECRETS),
        (2, "largest", "mesh"),
        (3, "zeros", "mesh"),
        (3, "smallest", "pieces"),
    ],
)
def test_everything_outside_the_ledger_is_uniform(participants: int, secrets: str, way: str) -> None:
    """Each array each role receives passes a chi-square test: bytes, bits, and each digit on its own table."""
    recorder = record(participants, SECRETS[secrets], way)
    p_values, alphabets = [], set()
    for receiver in range(participants + 1):
        for frame, place in secret_arrays(recorder, receiver, way):
            assert receiver != COORDINATOR
            for values, alphabet in symbols(frame, place):
                what = f"{frame.label} [{place}] from {frame.sender} to {receiver}, of {alphabet}"
                p_values.append((p_uniform(values, alphabet), what))
                alphabets.add((receiver, alphabet))

    assert joint([p for p, _ in p_values]) > THRESHOLD, min(p_values)
    assert alphabets >= {(m, size) for m in range(1, participants + 1) for size in (2, 4, 8, 16, 32, 64, 128, 256)}


@pytest.mark.parametrize("secrets", SECRETS)
@pytest.mark.parametrize("participants", [2, 3])
def test_differences_of_received_arrays_are_uniform(participants: int, secrets: str) -> None:
    """No two arrays a role receives in different steps hang together, as they would under a mask used twice."""
    recorder = record(participants, SECRETS[secrets])
    for receiver in range(1, participants + 1):
        alike: dict[tuple[int, ...], list[tuple[str, Words]]] = {}
        for frame, place in secret_arrays(recorder, receiver):
            array = frame.arrays[place]
            if array.dtype == np.uint64 and not operation(frame).startswith("reveal") and not is_place(array):
                alike.setdefault(array.shape, []).append((f"{frame.step}:{frame.label}", array))
        pairs = [pair for group in alike.values() for pair in combinations(group, 2)]
        p_values = p_bytes_uniform(a - b for (_, a), (_, b) in pairs)

        assert len(pairs) > 100
        assert joint(p_values) > THRESHOLD, [name for name, _ in pairs[int(np.argmin(p_values))]]


@pytest.mark.parametrize("participants", [2, 3])
def test_opened_tags_are_uniform_above_the_owner(participants: int) -> None:
    """All winners being the same candidate, their opened tags have the owner's byte and seven random ones."""
    recorder = record(participants, LARGEST)
    opened = [
        frame.arrays[0]
        for frame in recorder.received(frozenset({2}), [Kind.DATA])
        if operation(frame).startswith("reveal owner") and frame.sender == ACTIVE
    ]
    assert len(opened) == 1 + len(TOURNAMENTS)
    for tags in opened:
        octets = tags.astype("<u8").view(np.uint8).reshape(RUNS, 8)
        assert (octets[:, 0] == ACTIVE).all()
        assert p_uniform(octets[:, 1:].ravel(), 256) > THRESHOLD


def test_uniformity_test_has_teeth() -> None:
    """Constants, a narrow ring read as bytes, a sum of two digits that nobody reduced: all are refused."""
    generator = np.random.default_rng(7)
    narrow, other = generator.integers(0, 128, (2, 8 * RUNS), np.uint8)

    assert p_uniform(narrow, 128) > THRESHOLD
    assert p_uniform(np.zeros(RUNS, np.uint8), 128) < THRESHOLD
    assert p_uniform(narrow, 64) < THRESHOLD
    assert p_uniform(narrow, 256) < THRESHOLD
    assert p_uniform(narrow + other, 256) < THRESHOLD
