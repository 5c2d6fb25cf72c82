"""SecureAggBucket: sums of g and h over the left side of every candidate, without a round."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mpfedxgb.party import Party, run_locally
from mpfedxgb.tree.level import aggregate_buckets
from support.small_trees import Federation, gradients, opened, share_gradients

ROWS = 37


def plain_sums(federation: Federation, gh: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return what the sums should be, (nodes, 2, columns)."""
    return gh @ federation.bits.astype(np.int64).T


@pytest.mark.parametrize("jointly", [False, True])
@pytest.mark.parametrize("columns", [(3, 2), (2, 3, 1), (0, 4), (3, 0, 2), (1, 2, 1, 2)])
def test_sums_are_the_plain_sums(columns: tuple[int, ...], jointly: bool) -> None:
    """Left sums of every candidate of every owner, in order, for several nodes, whoever masked the gradients."""
    federation = Federation.random(len(columns), ROWS, columns)
    gh = gradients(3, 3, ROWS, most=1 << 50)

    def program(party: Party) -> npt.NDArray[Any] | None:
        data, vectors = federation.publish(party), share_gradients(party, gh, jointly)
        return opened(party, aggregate_buckets(party, data, vectors))

    run = run_locally(program, len(columns))

    for sums in run.results[1:]:
        assert sums is not None
        np.testing.assert_array_equal(sums, plain_sums(federation, gh), strict=True)


@pytest.mark.parametrize("jointly", [False, True])
def test_nothing_is_sent_or_revealed(jointly: bool) -> None:
    """No round, no byte among participants, an empty ledger; one correction per sum, and none where P_1 knows g and h.

    At the root the mask of g and h is the active participant's alone, and so are the sums of its own columns.
    """
    federation = Federation.random(1, ROWS, (2, 2, 2))
    gh = gradients(1, 2, ROWS)

    def program(party: Party) -> int:
        data, vectors = federation.publish(party), share_gradients(party, gh, jointly)
        aggregate_buckets(party, data, vectors)
        return len(party.ledger)

    run = run_locally(program, 3)

    assert run.results == [0] * 4
    for meter in run.meters[1:]:
        counts = meter.total("histogram")
        assert (counts.rounds, counts.hops, counts.bytes_sent) == (0, 0, 0)
    columns = sum(federation.sizes.columns[0 if jointly else 1 :])
    assert run.meters[0].total("histogram").bytes_sent == 8 * 2 * 2 * columns
    assert list(run.meters[0].total("histogram").messages.values()) == [1]
