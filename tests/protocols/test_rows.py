"""Both sides of split row vectors, in one round, whoever owns the bits and however the rows are cut into blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.config import Tuning
from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party import COORDINATOR, Party
from mpfedxgb.protocols import (
    RowVectors,
    Secret,
    Sides,
    mask_rows,
    public_secret,
    share_each,
    split_rows,
    to_shares,
)
from mpfedxgb.ring import BIT, PACKED, VECTOR, Ring, wide
from mpfedxgb.ring.array import pack
from mpfedxgb.ring.kernels import Threads
from support.evaluation import (
    PARTICIPANTS,
    PROPERTY,
    SEEDS,
    Evaluation,
    Operand,
    check_masks,
    enter,
    evaluate,
    integers,
    residues,
    run_patiently,
    same,
)
from support.refusals import refused

Bits = npt.NDArray[np.uint8]


def share_bits(party: Party, owners: Sequence[int], bits: Bits) -> Secret:
    """Share each node's bits, (n, rows or more), masked by its owner."""
    packed = pack(bits)
    mine = {i: packed[i] for i, owner in enumerate(owners) if party.role == owner}
    return share_each(party, owners, PACKED, packed.shape[1:], mine)


def split(participants: int, bits: Bits, x: Operand, threads: int = 1, **settings: Any) -> Evaluation:
    """Split vectors under an owner's mask and under a joint one; the participants own the nodes' bits in turn."""
    owners = [1 + i % participants for i in range(len(bits))]

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        q = share_bits(party, owners, bits)
        masked = secrets[0], secrets[2]  # the third operand is masked by all
        return [split_rows(party, q, x, Threads(threads)).both for x in masked]

    return evaluate(participants, [x, x, x], compute, **settings)


def check(evaluation: Evaluation, bits: Bits, x: Operand) -> None:
    """Compare with integers."""
    goes = integers(bits)[:, None, : x.values.shape[2]]
    wanted = np.concatenate([x.values * goes, x.values * (1 - goes)])
    for value in evaluation.values:
        same(value, x.ring, wanted)


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(
    seed=SEEDS,
    ring=st.sampled_from([VECTOR, Ring(33), Ring(8), Ring(3), Ring(1)]),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 40)),
    more=st.integers(0, 20),
)
@PROPERTY
def test_sides_are_those_of_integers(
    participants: int, seed: int, ring: Ring, shape: tuple[int, int, int], more: int
) -> None:
    """Every node's vectors by its own bits, of any owner, where there may be bits of more rows than are split."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (shape[0], shape[2] + more)).astype(np.uint8)
    x = Operand(ring, residues(rng, ring, shape))

    check(split(participants, bits, x), bits, x)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("block", [8, 16, 24, 64, 1 << 15])
@pytest.mark.parametrize("shape", [(4, 2, 9), (3, 1, 50), (5, 2, 16), (1, 3, 17)])
def test_blocks_change_nothing(block: int, shape: tuple[int, int, int], threads: int) -> None:
    """Blocks of several nodes and of some rows of one, on any threads, give the same sides, for the same bytes."""
    rng = np.random.default_rng(block)
    bits, x = rng.integers(0, 2, (shape[0], shape[2])).astype(np.uint8), Operand(VECTOR, residues(rng, VECTOR, shape))
    evaluation = split(3, bits, x, threads, tuning=Tuning(split_elements=block))

    check(evaluation, bits, x)
    packed, opened = shape[0] * -(-shape[2] // 8), 8 * x.values.size
    assert [counts.rounds for counts in evaluation.costs] == [0, 3, 3, 3]
    assert sum(evaluation.costs[0].payload_sent.values()) == 2 * opened  # to whoever is corrected, in turns
    for m in (2, 3):
        own = sum(1 + i % 3 == m for i in range(shape[0])) * packed // shape[0]
        assert evaluation.costs[m].payload_sent == {"P1": own + 2 * opened}


@pytest.mark.parametrize("shape", [(0, 2, 5), (2, 0, 5), (2, 2, 0), (1, 1, 1)])
def test_nothing_to_split(shape: tuple[int, int, int]) -> None:
    """No nodes, no vectors or no rows: sides of the right shape."""
    bits = np.ones((shape[0], 8), np.uint8)
    x = Operand(VECTOR, integers(np.zeros(shape, int)))
    values = evaluate(
        2,
        [x],
        lambda party, xs: [
            split_rows(party, public_secret(party, PACKED, np.packbits(bits, axis=1)), xs[0]).both,
        ],
    ).values

    assert [value.shape for value in values] == [(2 * shape[0], *shape[1:])]


def test_the_coordinator_knows_the_masks_part_by_part() -> None:
    """Of the left side everybody has its own part of the mask, the coordinator all of them, and nobody more."""
    bits = np.array([[1, 0, 1], [0, 1, 1]], np.uint8)

    def program(party: Party) -> Sides:
        x = public_secret(party, VECTOR, np.arange(12).reshape(2, 2, 3))
        return split_rows(party, share_bits(party, [1, 3], bits), x)

    dealer, *participants = run_patiently(program, 3).results

    assert list(dealer.left.parts) == [1, 2, 3]
    total = np.zeros((2, 2, 3), np.uint64)
    for role, sides in enumerate(participants, 1):
        assert [m for m, part in sides.left.parts.items() if not part.is_hidden] == [role]
        np.testing.assert_array_equal(sides.left.parts[role].data, dealer.left.parts[role].data)
        np.testing.assert_array_equal(sides.left.parts[role].data, sides.both.mask.data[:2])
        np.testing.assert_array_equal(sides.left.masked.data, sides.both.masked.data[:2])
        total += sides.left.parts[role].data
    np.testing.assert_array_equal(total, dealer.both.mask.data[:2])
    assert dealer.left.masked.is_hidden
    assert dealer.both.masked.is_hidden
    assert COORDINATOR not in dealer.left.parts


@pytest.mark.parametrize(
    ("ring", "shape", "reason"),
    [
        (wide(2), (2, 1, 3), ("type", "x")),
        (PACKED, (2, 1, 3), ("type", "x")),
        (VECTOR, (2, 3), ("type", "x")),
        (VECTOR, (3, 1, 3), ("mismatch", "bits")),
        (VECTOR, (2, 1, 9), ("mismatch", "bits")),
    ],
)
def test_what_cannot_be_split_is_refused(ring: Ring, shape: tuple[int, ...], reason: tuple[Any, ...]) -> None:
    """Vectors of another ring or number of axes, and bits that are too few, are refused by name."""
    with refused(DoesNotFitError, *reason):
        run_patiently(
            lambda party: split_rows(
                party, public_secret(party, PACKED, [[1], [2]]), public_secret(party, ring, np.zeros(shape, int))
            ),
            2,
        )


def test_bits_have_to_be_packed() -> None:
    """Single bits are refused."""
    with refused(DoesNotFitError, "mismatch", "bits"):
        run_patiently(
            lambda party: split_rows(
                party, public_secret(party, BIT, [[1]]), public_secret(party, VECTOR, np.zeros((1, 1, 1), int))
            ),
            2,
        )


@pytest.mark.parametrize("participants", [2, 3, 5])
@pytest.mark.parametrize("shape", [(2, 17), (0,), (3, 0)])
def test_masked_rows_have_everyones_part_of_their_mask(participants: int, shape: tuple[int, ...]) -> None:
    """Shares become a secret; of its mask everybody has its own part, and the coordinator all of them, one by one."""
    values = residues(np.random.default_rng(9), VECTOR, shape)

    def program(party: Party) -> tuple[Secret, RowVectors]:
        return mask_rows(party, to_shares(party, enter(party, 1, Operand(VECTOR, values))))

    (whole, kept), *parts = run_patiently(program, participants).results

    check_masks([[secret] for secret, _ in ((whole, kept), *parts)])
    same(integers((parts[0][0].masked - whole.mask).decode(), shape), VECTOR, values)
    for m, (secret, vectors) in enumerate(parts, 1):
        np.testing.assert_array_equal(vectors.masked.data, secret.masked.data)
        assert [k for k, part in vectors.parts.items() if not part.is_hidden] == [m]
        np.testing.assert_array_equal(vectors.parts[m].data, secret.mask.data)
        np.testing.assert_array_equal(kept.parts[m].data, secret.mask.data)
