"""SecureAggBucket: sums of g and h over the left side of every candidate (Algorithm 3, lines 9-13)."""

from __future__ import annotations

from mpfedxgb.party.party import Party
from mpfedxgb.protocols.private_matrix import matrices_times
from mpfedxgb.protocols.rows import RowVectors
from mpfedxgb.protocols.secret import Shares
from mpfedxgb.tree.level import SplitData


def aggregate_buckets(party: Party, data: SplitData, gh: RowVectors) -> Shares:
    """Return shares of the left sums of all candidates: gh (n, 2, rows) to (n, 2, columns).

    Rounds: 0. Sent: nothing. Reveals: nothing.
    """
    with party.phase("histogram"):
        n, _, rows = gh.masked.shape
        sums = matrices_times(party, data.matrices, gh.reshape(2 * n, rows))
        return sums.reshape(n, 2, sums.shape[-1])
