"""SecureAggBucket: sums of g and h over the left side of every candidate (Algorithm 3, lines 9-13)."""

from __future__ import annotations

from mpfedxgb.party.party import Party
from mpfedxgb.protocols.private_matrix import matrix_times
from mpfedxgb.protocols.secret import Secret, Shares, concatenate_shares
from mpfedxgb.tree.level import SplitData


def aggregate_buckets(party: Party, data: SplitData, gh: Secret) -> Shares:
    """Return shares of the left sums of all candidates: gh (n, 2, rows) to (n, 2, columns).

    Rounds: 0. Sent: nothing. Reveals: nothing.
    """
    with party.phase("histogram"):
        n, _, rows = gh.shape
        vectors = gh.reshape(2 * n, rows)
        sums = concatenate_shares([matrix_times(party, matrix, vectors) for matrix in data.matrices])
        return sums.reshape(n, 2, sums.shape[-1])
