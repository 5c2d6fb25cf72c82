"""A private 0/1 matrix times secret vectors, without a round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party import Party
from mpfedxgb.protocols import BitMatrix, PrivateMatrix, Secret, Shares, matrix_times, private_matrix, publish_matrix
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

Bits = npt.NDArray[np.uint8]


def some_bits(rng: np.random.Generator, columns: int, rows: int) -> Bits:
    """Return a random 0/1 matrix."""
    return rng.integers(0, 2, (columns, rows)).astype(np.uint8)


def published(party: Party, owner: int, bits: Bits) -> PrivateMatrix:
    """Publish a matrix; only its owner uses the bits."""
    columns, rows = bits.shape
    return publish_matrix(party, owner, columns, rows, BitMatrix(bits) if party.role == owner else None)


def products(participants: int, matrices: Sequence[tuple[int, Bits]], vectors: Sequence[Operand]) -> Evaluation:
    """Publish the matrices of (owner, bits), then multiply each of them with each block of vectors."""

    def compute(party: Party, secrets: list[Secret]) -> list[Shares]:
        with party.phase("publish"):
            ready = [published(party, owner, bits) for owner, bits in matrices]
        with party.phase("multiply"):
            return [matrix_times(party, matrix, x) for matrix in ready for x in secrets]

    return evaluate(participants, vectors, compute)


def check(evaluation: Evaluation, matrices: Sequence[tuple[int, Bits]], vectors: Sequence[Operand]) -> None:
    """Compare with integers."""
    values = iter(evaluation.values)
    for _, bits in matrices:
        for x in vectors:
            same(next(values), VECTOR, x.values @ integers(bits).T)


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS, columns=st.integers(1, 9), rows=st.integers(1, 40))
@PROPERTY
def test_products_are_those_of_integers(participants: int, seed: int, columns: int, rows: int) -> None:
    """Everybody's matrix times one and several vectors, under an owner's mask and under a joint one."""
    rng = np.random.default_rng(seed)
    matrices = [(owner, some_bits(rng, columns + owner, rows)) for owner in range(1, participants + 1)]
    vectors = [Operand(VECTOR, residues(rng, VECTOR, (count, rows))) for count in (1, 2, 5)]

    check(products(participants, matrices, vectors), matrices, vectors)


@pytest.mark.parametrize("tile_bytes", [1, 8 * 30 * 3, 8 * 30 * 7])
@pytest.mark.parametrize("owner", [1, 2, 3])
def test_tiles_change_nothing(owner: int, tile_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix of many tiles, the last one smaller, gives the same products; one round per tile."""
    monkeypatch.setattr(private_matrix, "TILE_BYTES", tile_bytes)
    rng = np.random.default_rng(owner)
    matrices = [(owner, some_bits(rng, 17, 30)), (1, some_bits(rng, 1, 30))]
    vectors = [Operand(VECTOR, residues(rng, VECTOR, (count, 30))) for count in (1, 3)]

    evaluation = products(3, matrices, vectors)

    check(evaluation, matrices, vectors)
    tiles = -(-17 // max(2, tile_bytes // 240))
    assert tiles > 2
    assert [counts.rounds for counts in evaluation.costs[1:]] == [tiles + 1] * 3


@pytest.mark.parametrize(("columns", "rows", "count"), [(0, 5, 2), (5, 0, 2), (3, 4, 0), (0, 0, 0), (1, 1, 1)])
def test_empty_matrices_and_no_vectors(columns: int, rows: int, count: int) -> None:
    """No columns, no rows or no vectors: products of the right shape."""
    rng = np.random.default_rng(1)
    matrices = [(owner, some_bits(rng, columns, rows)) for owner in (1, 2)]
    vectors = [Operand(VECTOR, residues(rng, VECTOR, (count, rows)))]

    check(products(2, matrices, vectors), matrices, vectors)


def test_a_product_costs_no_round_and_sends_nothing() -> None:
    """After publishing, only the coordinator's corrections flow: one element per product element, to P_1."""
    bits = some_bits(np.random.default_rng(2), 6, 20)

    def program(party: Party) -> None:
        x = enter(party, 1, operand(VECTOR, np.arange(60).reshape(3, 20)))
        matrix = published(party, 2, bits)
        with party.phase("multiply"):
            for _ in range(4):
                matrix_times(party, matrix, x)

    meters = run_patiently(program, 3).meters

    coordinator, active, *auxiliaries = (meter.total("multiply") for meter in meters)
    for counts in (active, *auxiliaries):
        assert (counts.rounds, counts.hops, counts.messages) == (0, 0, {})
    for counts in auxiliaries:
        assert counts.wire_received == {}
    assert coordinator.payload_sent == {"P1": 4 * 3 * 6 * 8}
    assert active.payload_received == {"coordinator": 4 * 3 * 6 * 8}


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
        left = matrix_times(party, published(party, 2, bits), secrets[0])
        right = matrix_times(party, published(party, 2, 1 - bits), secrets[0])
        return [left + right]

    (whole,) = evaluate(3, [x], compute).values

    same(whole, VECTOR, np.repeat(x.values.sum(-1)[:, None], 7, axis=1))


class Wrong:
    """A matrix whose tiles have another shape than announced."""

    def tile(self, first: int, last: int) -> Bits:
        """Return a row too few."""
        return np.zeros((last - first, 2), np.uint8)

    def times(self, vectors: U64) -> U64:
        """Never reached."""
        raise NotImplementedError


@pytest.mark.parametrize(
    ("plain", "reason"), [(None, "has to bring a matrix"), (Wrong(), "brought a tile")], ids=["none", "wrong"]
)
def test_an_owner_has_to_bring_its_matrix(plain: Wrong | None, reason: str) -> None:
    """No matrix, or tiles of another shape, end the run with a named error."""
    with pytest.raises(DoesNotFitError, match=f"P2 {reason}"):
        run_patiently(lambda party: publish_matrix(party, 2, 4, 3, plain if party.role == 2 else None), 3)


@pytest.mark.parametrize(
    ("ring", "shape"), [(wide(2), (1, 3)), (VECTOR, (3,)), (VECTOR, (1, 4)), (VECTOR, (1, 1, 3)), (Ring(8), (1, 3))]
)
def test_vectors_must_fit_the_matrix(ring: Ring, shape: tuple[int, ...]) -> None:
    """Vectors of another ring, length or number of axes are refused by name."""
    with pytest.raises(DoesNotFitError, match="takes vectors"):
        evaluate(
            2,
            [operand(ring, np.zeros(shape, int))],
            lambda party, xs: [matrix_times(party, published(party, 1, np.ones((2, 3), np.uint8)), xs[0])],
        )


def test_repr_shows_no_entry() -> None:
    """A published matrix prints its owner and size, not its content."""
    run = run_patiently(lambda party: published(party, 1, np.ones((2, 3), np.uint8)), 2)

    assert {repr(matrix) for matrix in run.results} == {"PrivateMatrix(owner=1, columns=2, rows=3)"}
