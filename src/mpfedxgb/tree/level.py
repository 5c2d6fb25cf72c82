"""What travels from level to level of the trees of one round: all their nodes of one depth, as one batch.

SecureAggBucket: sums of g and h over the left side of every candidate (Algorithm 3, lines 9-13).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mpfedxgb.data.candidates import Candidates
from mpfedxgb.data.table import Table
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.bits import Bit
from mpfedxgb.protocols.private_matrix import PrivateMatrix, matrices_times
from mpfedxgb.protocols.rows import RowVectors
from mpfedxgb.protocols.secret import Secret, Shares
from mpfedxgb.ring.kernels import Threads
from mpfedxgb.ring.ring import Ring


def aggregate_buckets(party: Party, data: SplitData, gh: RowVectors) -> Shares:
    """Return shares of the left sums of all candidates: gh (n, 2, rows) to (n, 2, columns).

    Rounds: 0. Sent: nothing. Reveals: nothing.
    """
    with party.phase("histogram"):
        n, _, rows = gh.masked.shape
        sums = matrices_times(party, data.matrices, gh.reshape(2 * n, rows))
        return sums.reshape(n, 2, sums.shape[-1])


@dataclass(frozen=True, slots=True)
class TableSizes:
    """The public sizes: training rows, evaluation rows, candidate columns per participant."""

    rows: int
    eval_rows: int
    columns: tuple[int, ...]

    @property
    def all_rows(self) -> int:
        """Training and evaluation rows together."""
        return self.rows + self.eval_rows

    @property
    def packed(self) -> int:
        """Bytes that hold one bit per row."""
        return -(-self.all_rows // 8)

    @property
    def owners(self) -> list[int]:
        """Participants that bring candidates, in order."""
        return [m for m, count in enumerate(self.columns, 1) if count]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRules:
    """How trees grow, the same for every tree of a training.

    `checks_children`: sides are compared with the least hessian. `sums_in_leaves`: g and h go down to the leaves, for
    weights that nobody sees. `bits` bounds what comparing two candidates meets, and `weight_bits` a side's hessian,
    signs included; 0 stands for the ring's.
    """

    max_depth: int
    ring: Ring
    checks_children: bool
    no_split_first: bool
    first_layer_mask: bool
    is_paper: bool = False
    sums_in_leaves: bool = False
    bits: int = 0
    weight_bits: int = 0

    def masks_layer(self, depth: int) -> bool:
        """Whether only the active participant's columns take part in a layer (First-Layer-Mask, section 5.2)."""
        return self.first_layer_mask and depth == 0


@dataclass(frozen=True, slots=True, eq=False)
class Constants:
    """lambda~ and gamma~ in the wide ring, min_child_weight~ in the vector ring; one set per tree."""

    lam: Secret
    gam: Secret
    mcw: Secret


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """What belongs to the trees of one round: a label, the constants, and the columns left out of the sample, hidden.

    `allowed` has one bit per tree and candidate, (trees, columns), or is None where all columns take part.
    """

    label: str
    constants: Constants
    allowed: Bit | None = None


@dataclass(frozen=True, slots=True)
class FeatureIndex:
    """Of the paper's way: per participant the candidates of each feature, and the permuted indices of one's own."""

    sizes: tuple[tuple[int, ...], ...]
    mine: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SplitData:
    """The published matrices of all owners and, in a participant's own run, its candidates and evaluation tables.

    `threads` are this role's own, for what is computed over rows beside the matrices.
    """

    sizes: TableSizes
    matrices: tuple[PrivateMatrix, ...]
    candidates: Candidates | None
    evaluation: tuple[Table, ...] = ()
    features: FeatureIndex | None = None
    threads: Threads = field(default_factory=Threads)

    def goes_left(self, owner: int, candidate: int) -> npt.NDArray[np.uint8]:
        """Return which rows, training and evaluation, go left by a candidate of its owner, who is this participant."""
        assert self.candidates is not None
        (own,) = (matrix for matrix in self.matrices if matrix.owner == owner)
        parts = [own.held.column(owner, candidate)]
        parts += [self.candidates.rows_left(candidate, table) for table in self.evaluation]
        return np.concatenate(parts)


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """The open nodes of one depth: per node its tree and number, g and h masked row by row, rows inside, bucket sums.

    gh (n, 2, rows) in the vector ring; members (n, packed); sums (n, 2, columns) as shares. On the last level, whose
    nodes can only become leaves, there are neither gh nor sums. Until the sums of this depth are there, `fresh` are the
    vectors that they are computed of: those of the roots or of the left children, and `sums` the parents'.
    """

    nodes: Sequence[tuple[int, int]]
    members: Secret
    gh: Secret | None = None
    sums: Shares | None = None
    fresh: RowVectors | None = None


def select_nodes(level: Level, keep: Sequence[int]) -> Level:
    """Return part of a level: the nodes that stay in the batch. Local."""
    if len(keep) == len(level.nodes):
        return level
    where = np.array(keep, np.int64)
    return Level(
        [level.nodes[i] for i in keep],
        level.members[where],
        None if level.gh is None else level.gh[where],
        None if level.sums is None else level.sums[where],
    )
