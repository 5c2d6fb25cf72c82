"""Where a process keeps E: decided before anything is sent, by figures, once for all roles that run in it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest

from mpfedxgb.config import Resources
from mpfedxgb.errors import DoesNotFitError, FrameError, NoRoomError, PeerFailedError
from mpfedxgb.party import Party
from mpfedxgb.party.local import run_roles
from mpfedxgb.protocols import BitMatrix, LocalRows, RowLayout, Storage, publish_matrix
from mpfedxgb.protocols.storage import MemoryTileStore, SpoolTileStore, TileStore, is_in_memory, matrix_bytes
from support.names import unlisted
from support.refusals import Expected, refused

LAYOUTS = {1: RowLayout(10, 100), 3: RowLayout(20, 100)}


def besides(here: Collection[int]) -> int:
    """Return what the roles of a process take beside matrices."""
    return 1000 * len(here)


@pytest.mark.parametrize(
    ("here", "octets"), [([0], 0), ([1], 16_000), ([2], 24_000), ([3], 8_000), ([1, 3], 24_000), (range(4), 24_000)]
)
def test_a_process_keeps_one_of_each_matrix_that_is_not_only_its_own(here: list[int], octets: int) -> None:
    """The coordinator keeps none; a participant those of the others; a simulation each of them once."""
    assert matrix_bytes(here, LAYOUTS) == octets


def decided(resources: Resources, here: range | None = None, role: int = 2) -> TileStore:
    """Return where E goes."""
    storage = Storage(resources, here)
    storage.expect(role, LAYOUTS, besides)
    return storage.store


def test_the_spool_is_for_what_does_not_fit(tmp_path: Path) -> None:
    """No limit, or one that is not met, means memory; below it the spool, and only the matrices go there."""
    assert isinstance(decided(Resources()), MemoryTileStore)
    assert isinstance(decided(Resources(spool=tmp_path)), MemoryTileStore)
    assert isinstance(decided(Resources(max_memory=25_000, spool=tmp_path)), MemoryTileStore)
    assert list(tmp_path.iterdir()) == []
    with Storage(Resources(max_memory=24_999, spool=tmp_path)) as storage:
        storage.expect(2, LAYOUTS, besides)
        assert isinstance(storage.store, SpoolTileStore)
        ((file,),) = (tuple(folder.iterdir()) for folder in tmp_path.iterdir())
        assert file.stat().st_size == 24_000
    assert list(tmp_path.iterdir()) == []


def test_the_roles_of_one_process_share_its_limit(tmp_path: Path) -> None:
    """Four roles take 4,000 bytes besides."""
    assert isinstance(decided(Resources(max_memory=28_000, spool=tmp_path), range(4)), MemoryTileStore)
    store = decided(Resources(max_memory=27_999, spool=tmp_path), range(4))
    assert isinstance(store, SpoolTileStore)
    store.close()


@pytest.mark.parametrize(
    ("resources", "matrices", "besides", "expected"),
    [
        (
            Resources(max_memory=10**9),
            3 * 10**9,
            10**8,
            ("room", "max_memory", "this training takes 3.10 GB of memory"),
        ),
        (
            Resources(max_memory=10**9, spool=Path("/")),
            3 * 10**9,
            2 * 10**9,
            ("room", "max_memory", "this training takes 5.00 GB of memory"),
        ),
        (
            Resources(max_memory=10**9),
            0,
            2 * 10**9,
            ("room", "max_memory", "this training takes 2.00 GB of memory"),
        ),
        (Resources(max_memory=1, spool=Path("/nowhere")), 5, 1, ("missing", "nowhere", None)),
        (Resources(max_memory=1, spool=Path("/")), 10**18, 1, ("room", "", 1000000000000000000)),
    ],
)
def test_what_fits_nowhere_is_refused_with_figures(
    resources: Resources, matrices: int, besides: int, expected: Expected
) -> None:
    """A forecast can ask the same question, and nothing is made."""
    with refused(NoRoomError, *expected):
        is_in_memory(resources, matrices, besides)


def test_a_role_without_room_ends_all_of_them(tmp_path: Path) -> None:
    """Everyone is told why, nobody where the folder is."""
    missing = tmp_path / "missing"

    def program(party: Party) -> None:
        held = LocalRows(Storage(Resources(max_memory=1000, spool=missing) if party.role == 2 else None))
        held.expect(party.role, LAYOUTS, besides)
        publish_matrix(party, 1, 10, 100, BitMatrix(np.ones((10, 100), np.uint8)), held=held)
        party.tell_everyone(unlisted("what follows"), None if party.is_coordinator else [1])

    outcomes = run_roles(program, 3)

    own, *others = (outcomes[2], outcomes[0], outcomes[1], outcomes[3])
    assert isinstance(own.error, NoRoomError)
    assert str(missing) in str(own.error)
    for outcome in others:
        assert isinstance(outcome.error, PeerFailedError)
        assert outcome.error.kind == "NoRoomError"
        assert outcome.error.reason.startswith("a spool cannot be made at step")
        assert str(tmp_path) not in str(outcome.error)


@pytest.mark.parametrize("limit", [None, 1])
def test_what_two_participants_are_sent_has_to_be_the_same(limit: int | None, tmp_path: Path) -> None:
    """In memory and in the spool."""
    layout = RowLayout(1, 3)
    with Storage(Resources(max_memory=limit, spool=tmp_path), range(4)) as storage:
        storage.expect(2, {1: layout}, lambda here: 0)
        (tile,) = layout.tiles(0)
        for _ in range(2):
            storage.store.put(1, tile, np.array([[1, 2, 3]], np.uint64))
        with refused(FrameError, "damaged", "matrix"):
            storage.store.put(1, tile, np.array([[1, 2, 4]], np.uint64))


def test_no_room_is_a_user_error_of_its_own() -> None:
    """It is not taken for a number that does not fit a ring."""
    assert not issubclass(NoRoomError, DoesNotFitError)
    assert issubclass(NoRoomError, ValueError)
