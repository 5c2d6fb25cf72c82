"""A private 0/1 matrix times secret vectors, without a round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.config import TUNING, Tuning
from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party import Party
from mpfedxgb.protocols import (
    BitMatrix,
    LocalRows,
    PrivateMatrix,
    RowLayout,
    RowVectors,
    Secret,
    Shares,
    masked_by,
    matrices_times,
    publish_matrices,
    publish_matrix,
)
from mpfedxgb.protocols.row_blocks import Tile
from mpfedxgb.protocols.storage import Storage
from mpfedxgb.ring import VECTOR, Ring, wide
from mpfedxgb.ring.kernels import U64
from support.evaluation import (
    PARTICIPANTS,
    PROPERTY,
    SEEDS,
    Evaluation,
    Operand,
    enter,
    evaluate,
    integers,
    operand,
    residues,
    run_patiently,
    same,
)
from support.refusals import refused
from support.row_vectors import mask_in_parts

Bits = npt.NDArray[np.uint8]


def some_bits(rng: np.random.Generator, columns: int, rows: int) -> Bits:
    """Return a random 0/1 matrix."""
    return rng.integers(0, 2, (columns, rows)).astype(np.uint8)


def published(party: Party, owner: int, bits: Bits, keep: bool = False) -> PrivateMatrix:
    """Publish a matrix; only its owner uses the bits."""
    columns, rows = bits.shape
    return publish_matrix(party, owner, columns, rows, BitMatrix(bits) if party.role == owner else None, keep)


def published_together(party: Party, matrices: Sequence[tuple[int, Bits]], keep: bool) -> Sequence[PrivateMatrix]:
    """Publish matrices, a tile of each at a time where they have different owners."""
    columns = {owner: len(bits) for owner, bits in matrices}
    if len(columns) < len(matrices):
        return [published(party, owner, bits, keep) for owner, bits in matrices]
    plain = next((BitMatrix(bits) for owner, bits in matrices if owner == party.role), None)
    return publish_matrices(party, columns, matrices[0][1].shape[1], plain, keep, LocalRows())


def products(
    participants: int,
    matrices: Sequence[tuple[int, Bits]],
    vectors: Sequence[Operand],
    keep: bool = False,
    tuning: Tuning = TUNING,
) -> Evaluation:
    """Publish the matrices of (owner, bits), then multiply all of them with each block of vectors.

    Every block enters under the mask of P_1, under that of the last participant, and under one of all together.
    """

    def compute(party: Party, secrets: list[Secret]) -> list[Shares]:
        rows = [x for block in vectors for x in variously_masked(party, block)]
        with party.phase("publish"):
            ready = [published(party, owner, bits, keep) for owner, bits in matrices[2:]]
            ready = [*published_together(party, matrices[:2], keep), *ready]
        with party.phase("multiply"):
            return [matrices_times(party, ready, x) for x in rows]

    return evaluate(participants, [], compute, tuning=tuning)


def variously_masked(party: Party, x: Operand) -> list[RowVectors]:
    """Return vectors under the mask of the first participant, of the last one, and of everybody."""
    owned = [(owner, enter(party, owner, x)) for owner in (1, party.roster.size)]
    return [*(masked_by(party, owner, s) for owner, s in owned), mask_in_parts(party, owned[0][1])]


def check(evaluation: Evaluation, matrices: Sequence[tuple[int, Bits]], vectors: Sequence[Operand]) -> None:
    """Compare with integers."""
    values = iter(evaluation.values)
    for x in vectors:
        wanted = np.concatenate([x.values @ integers(bits).T for _, bits in matrices], axis=1)
        for _ in range(3):
            same(next(values), VECTOR, wanted)


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS, columns=st.integers(1, 9), rows=st.integers(1, 40))
@PROPERTY
def test_products_are_those_of_integers(participants: int, seed: int, columns: int, rows: int) -> None:
    """Everybody's matrix times one and several vectors, whoever masked them."""
    rng = np.random.default_rng(seed)
    matrices = [(owner, some_bits(rng, columns + owner, rows)) for owner in range(1, participants + 1)]
    vectors = [Operand(VECTOR, residues(rng, VECTOR, (count, rows))) for count in (1, 2, 5)]

    check(products(participants, matrices, vectors), matrices, vectors)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(("tile_bytes", "tile_rows"), [(1, 30), (8 * 30 * 5, 64), (8 * 8 * 6, 8), (1, 7), (1 << 20, 9)])
@pytest.mark.parametrize("owner", [1, 2, 3])
def test_tiles_change_nothing(owner: int, tile_bytes: int, tile_rows: int, keep: bool) -> None:
    """A matrix of many tiles, the last ones smaller, gives the same products, whether or not A is kept."""
    rng = np.random.default_rng(owner)
    matrices = [(owner, some_bits(rng, 17, 30)), (1, some_bits(rng, 1, 30))]
    vectors = [Operand(VECTOR, residues(rng, VECTOR, (count, 30))) for count in (1, 3)]

    evaluation = products(3, matrices, vectors, keep, Tuning(block_rows=tile_rows, tile_bytes=tile_bytes))

    check(evaluation, matrices, vectors)
    rows = min(30, tile_rows)
    blocks, tiles = -(-30 // rows), -(-17 // max(4, tile_bytes // (8 * rows)))
    assert blocks * tiles > 2
    masking = len(vectors) * 3  # two owners share them, and everybody masks them anew
    assert [counts.rounds for counts in evaluation.costs[1:]] == [blocks * (tiles + 1) + masking] * 3


class Turns(LocalRows):
    """Row blocks that note whose tiles are made and taken in, in order."""

    def __init__(self, turns: list[tuple[str, int]]) -> None:
        super().__init__()
        self.turns = turns

    def published(self, owner: int) -> Iterator[U64]:
        """Yield tiles, noting each."""
        for tile in super().published(owner):
            self.turns.append(("made", owner))
            yield tile

    def put(self, owner: int, tile: Tile, values: U64) -> None:
        """Keep a tile, noting it."""
        self.turns.append(("taken", owner))
        super().put(owner, tile, values)


def test_owners_publish_in_turns() -> None:
    """Tiles of all owners travel one by one, and who has sent its tile makes the next before it takes another's."""
    rng = np.random.default_rng(5)
    bits = {m: some_bits(rng, 4 * m, 16) for m in (1, 2, 3)}  # tiles of four columns
    turns: dict[int, list[tuple[str, int]]] = {m: [] for m in range(4)}

    def program(party: Party) -> None:
        plain = BitMatrix(bits[party.role]) if party.role else None
        held = Turns(turns[party.role])
        publish_matrices(party, {m: len(matrix) for m, matrix in bits.items()}, 16, plain, False, held)

    run_patiently(program, 3, tuning=Tuning(tile_bytes=1))

    assert turns == {
        0: [],
        1: [("made", 1), *(("taken", owner) for owner in (2, 3, 2, 3, 3))],
        2: [("taken", 1), ("made", 2), ("made", 2), ("taken", 3), ("taken", 3), ("taken", 3)],
        3: [("taken", 1), ("taken", 2), ("made", 3), ("made", 3), ("taken", 2), ("made", 3)],
    }


@pytest.mark.parametrize(("columns", "rows", "count"), [(0, 5, 2), (5, 0, 2), (3, 4, 0), (0, 0, 0), (1, 1, 1)])
def test_empty_matrices_and_no_vectors(columns: int, rows: int, count: int) -> None:
    """No columns, no rows or no vectors: products of the right shape."""
    rng = np.random.default_rng(1)
    matrices = [(owner, some_bits(rng, columns, rows)) for owner in (1, 2)]
    vectors = [Operand(VECTOR, residues(rng, VECTOR, (count, rows)))]

    check(products(2, matrices, vectors), matrices, vectors)


@pytest.mark.parametrize(("owner", "jointly", "dealt"), [(2, False, 1), (1, False, 0), (2, True, 1), (1, True, 1)])
def test_a_product_costs_no_round_and_sends_nothing(owner: int, jointly: bool, dealt: int) -> None:
    """After publishing, only the coordinator's corrections flow: one element per product element, to each in turn.

    Where the owner of the matrix made the mask of the vectors alone, there is nothing to correct.
    """
    bits = some_bits(np.random.default_rng(2), 6, 20)

    def program(party: Party) -> None:
        x = enter(party, 1, operand(VECTOR, np.arange(60).reshape(3, 20)))
        rows = mask_in_parts(party, x) if jointly else masked_by(party, 1, x)
        matrix = published(party, owner, bits)
        with party.phase("multiply"):
            for _ in range(6):
                matrices_times(party, [matrix], rows)

    meters = run_patiently(program, 3).meters

    coordinator, active, *auxiliaries = (meter.total("multiply") for meter in meters)
    for counts in (active, *auxiliaries):
        assert (counts.rounds, counts.hops, counts.messages) == (0, 0, {})
        assert counts.payload_received == ({"coordinator": 2 * 3 * 6 * 8} if dealt else {})
    assert coordinator.payload_sent == (dict.fromkeys(["P1", "P2", "P3"], 2 * 3 * 6 * 8) if dealt else {})


class Noting(LocalRows):
    """Row blocks of a role that tell what it was sent."""

    def __init__(self, storage: Storage, given: list[U64]) -> None:
        super().__init__(storage)
        self.given = given

    def put(self, owner: int, tile: Tile, values: U64) -> None:
        """Keep a tile, and a note of it."""
        self.given.append(values)
        super().put(owner, tile, values)


@pytest.mark.parametrize("owner", [1, 2])
def test_participants_of_one_process_hold_every_tile_once(owner: int) -> None:
    """All but the owner are sent E; in a storage that they share there is one of it, which nobody can change."""
    bits, storage = some_bits(np.random.default_rng(3), 5, 40), Storage()
    given: list[U64] = []

    def program(party: Party) -> PrivateMatrix:
        plain = BitMatrix(bits) if party.role == owner else None
        return publish_matrix(party, owner, 5, 40, plain, held=Noting(storage, given))

    run_patiently(program, 4)

    tiles = RowLayout(5, 40).tiles(0)
    (kept,) = storage.store.tiles(owner, tiles)
    assert len(given) == 3
    assert not kept.flags.writeable
    for tile in given:
        np.testing.assert_array_equal(tile, kept)


@pytest.mark.parametrize("owner", [1, 3])
def test_publishing_sends_eight_bytes_per_entry(owner: int) -> None:
    """E travels once to each receiver: from P_1 to all, or from an auxiliary by way of P_1."""
    bits = some_bits(np.random.default_rng(3), 4, 10)

    def program(party: Party) -> None:
        with party.phase("publish"):
            published(party, owner, bits)

    sent = [meter.total("publish").payload_sent for meter in run_patiently(program, 4).meters]

    if owner == 1:
        assert sent == [{}, {"P2": 320, "P3": 320, "P4": 320}, {}, {}, {}]
    else:
        assert sent == [{}, {"P2": 320, "P4": 320}, {}, {"P1": 320}, {}]


def test_products_of_one_matrix_may_repeat() -> None:
    """A is expanded again for every product, from its beginning: the second product is as right as the first."""
    rng = np.random.default_rng(4)
    bits = some_bits(rng, 5, 12)
    vectors = [Operand(VECTOR, residues(rng, VECTOR, (2, 12))) for _ in range(4)]

    check(products(3, [(2, bits)], vectors), [(2, bits)], vectors)


def test_a_product_feeds_other_protocols() -> None:
    """Left sums and right sums of a histogram add up to the node's."""
    rng = np.random.default_rng(5)
    bits, x = some_bits(rng, 7, 25), Operand(VECTOR, residues(rng, VECTOR, (2, 25)))

    def compute(party: Party, secrets: list[Secret]) -> list[Shares]:
        rows = mask_in_parts(party, secrets[0])
        left = matrices_times(party, [published(party, 2, bits)], rows)
        right = matrices_times(party, [published(party, 2, 1 - bits)], rows)
        return [left + right]

    (whole,) = evaluate(3, [x], compute).values

    same(whole, VECTOR, np.repeat(x.values.sum(-1)[:, None], 7, axis=1))


class Wrong:
    """A matrix whose tiles have another shape than announced."""

    def tile(self, columns: slice, rows: slice) -> Bits:
        """Return a row too few."""
        return np.zeros((columns.stop - columns.start, rows.stop - rows.start - 1), np.uint8)

    def times(self, vectors: U64, rows: slice) -> U64:
        """Never reached."""
        raise NotImplementedError


@pytest.mark.parametrize(
    ("plain", "reason"),
    [(None, ("mismatch", "P2")), (Wrong(), ("mismatch", "tile"))],
    ids=["none", "wrong"],
)
def test_an_owner_has_to_bring_its_matrix(plain: Wrong | None, reason: tuple[Any, ...]) -> None:
    """No matrix, or tiles of another shape, end the run with a named error."""
    with refused(DoesNotFitError, *reason):
        run_patiently(lambda party: publish_matrix(party, 2, 4, 3, plain if party.role == 2 else None), 3)


@pytest.mark.parametrize(
    ("ring", "shape"), [(wide(2), (1, 3)), (VECTOR, (3,)), (VECTOR, (1, 4)), (VECTOR, (1, 1, 3)), (Ring(8), (1, 3))]
)
def test_vectors_must_fit_the_matrix(ring: Ring, shape: tuple[int, ...]) -> None:
    """Vectors of another ring, length or number of axes are refused by name."""
    with refused(DoesNotFitError, "mismatch", "x"):
        evaluate(
            2,
            [operand(ring, np.zeros(shape, int))],
            lambda party, xs: [
                matrices_times(party, [published(party, 1, np.ones((2, 3), np.uint8))], RowVectors(xs[0].masked, {}))
            ],
        )


def test_repr_shows_no_entry() -> None:
    """A published matrix prints its owner and size, not its content."""
    run = run_patiently(lambda party: published(party, 1, np.ones((2, 3), np.uint8)), 2)

    assert {repr(matrix) for matrix in run.results} == {"PrivateMatrix(owner=1, columns=2, rows=3)"}
