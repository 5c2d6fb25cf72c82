"""What travels from level to level of the trees of one round: all their nodes of one depth, as one batch.

SecureAggBucket: sums of g and h over the left side of every candidate (Algorithm 3, lines 9-13).

Loss reductions as fractions A / B, without division (Eq. 3 and 6; Algorithm 3, lines 8 and 14-16).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mpfedxgb.data.binning import Candidates
from mpfedxgb.data.table import Table
from mpfedxgb.party.party import Party, Spec
from mpfedxgb.party.roster import COORDINATOR
from mpfedxgb.protocols.argmax import Fractions
from mpfedxgb.protocols.bits import Bit
from mpfedxgb.protocols.compare_bits import BitSigns, Ending, bit_planes, bit_signs
from mpfedxgb.protocols.opening import Opening, SideBySide, Steps, finish, follow_openings, open_shares
from mpfedxgb.protocols.rows import RowVectors
from mpfedxgb.protocols.secret import (
    Secret,
    Shares,
    add_public,
    concatenate,
    concatenate_shares,
    public_shares,
    stack,
    to_shares,
)
from mpfedxgb.protocols.share import PrivateMatrix, matrices_times
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.kernels import I64, U8, U64, Threads
from mpfedxgb.ring.planes import fraction_masks, fraction_parts, lift_words, plane_bits
from mpfedxgb.ring.ring import BIT, VECTOR, Ring


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
    """The public sizes: training rows, evaluation rows, candidate columns per owner.

    With `coordinator_owns` the last of these are the coordinator's.
    """

    rows: int
    eval_rows: int
    columns: tuple[int, ...]
    coordinator_owns: bool = False

    @property
    def all_rows(self) -> int:
        """Training and evaluation rows together."""
        return self.rows + self.eval_rows

    @property
    def packed(self) -> int:
        """Bytes that hold one bit per row."""
        return -(-self.all_rows // 8)

    @property
    def participants(self) -> int:
        """The number M of participants, who hold shares."""
        return len(self.columns) - self.coordinator_owns

    def columns_of(self, role: int) -> int:
        """Return how many candidates a role brings."""
        if role == COORDINATOR:
            return self.columns[-1] if self.coordinator_owns else 0
        return self.columns[role - 1]

    @property
    def owners(self) -> list[int]:
        """Owners that bring candidates, in order."""
        return [m for m, count in enumerate(self.columns, 1) if count]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRules:
    """How trees grow, the same for every tree of a training.

    `checks_children`: sides are compared with the least hessian. `tosses_coins`: owners decide in private which side is
    called left. `sums_in_leaves`: g and h go down to the leaves, for weights that nobody sees. `bits` bounds what
    comparing two candidates meets, and `hessian_bits` a side's hessian, signs included; 0 stands for the ring's.
    `alpha_bits` bound a sum of g and alpha, and `clip_bits` what tells whether a weight is clipped at a bound, of
    which there are `places` after the point; without an L1 penalty, or bounds, they are 0.

    Where columns have directions (`constrained`), bounds have `bound_bits` and are multiples of 2^`coarse`, up to
    `largest_step` of them; `divisor_bits` bound a denominator, and `order_bits` what tells the sides of a split apart.
    """

    max_depth: int
    ring: Ring
    checks_children: bool
    no_split_first: bool
    first_layer_mask: bool
    tosses_coins: bool = True
    sums_in_leaves: bool = False
    bits: int = 0
    hessian_bits: int = 0
    alpha_bits: int = 0
    clip_bits: int = 0
    places: int = 0
    constrained: bool = False
    coarse: int = 0
    bound_bits: int = 0
    largest_step: int = 0
    divisor_bits: int = 0
    order_bits: int = 0

    def masks_layer(self, depth: int) -> bool:
        """Whether only the active participant's columns take part in a layer (First-Layer-Mask, section 5.2)."""
        return self.first_layer_mask and depth == 0


@dataclass(frozen=True, slots=True, eq=False)
class Constants:
    """lambda~ and gamma~ in the wide ring, min_child_weight~ in the vector ring; one set per tree.

    alpha~ and delta~, in the wide ring, where there are an L1 penalty and bounds of weights.
    """

    lam: Secret
    gam: Secret
    mcw: Secret
    alpha: Secret | None = None
    delta: Secret | None = None


Nodes = Sequence[tuple[int, int]]
"""Trees of a round and, in each, a node: by number."""


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """What belongs to the trees of one round: a label, the constants, and the columns left out of the sample, hidden.

    `allowed` has one bit per tree and candidate, (trees, columns), or is None if all columns take part. Where levels
    or nodes have samples of their own, `sample` has one bit per node and candidate, by nodes and their depth.
    """

    label: str
    constants: Constants
    allowed: Bit | None = None
    sample: Callable[[Nodes, int], Bit] | None = None

    def allowed_in(self, nodes: Nodes, depth: int) -> Bit | None:
        """Return which candidates take part in each node of a level, (nodes, columns), or None for all."""
        if self.sample is not None:
            return self.sample(nodes, depth)
        return None if self.allowed is None else self.allowed[np.array([tree for tree, _ in nodes])]


@dataclass(frozen=True, slots=True, eq=False)
class SplitData:
    """The published matrices of all owners and, in a participant's own run, its candidates and evaluation tables.

    `threads` are this role's own, for what is computed over rows beside the matrices. Where columns have directions,
    `directions` (own candidates,) are a participant's own, and `sigma` (all candidates,) everybody's, as secrets.
    """

    sizes: TableSizes
    matrices: tuple[PrivateMatrix, ...]
    candidates: Candidates | None
    evaluation: tuple[Table, ...] = ()
    threads: Threads = field(default_factory=Threads)
    directions: I64 | None = field(default=None, repr=False)
    sigma: Secret | None = None

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
    vectors that they are computed of: those of the roots or of the left children, and `sums` the parents'. `bounds`
    (n, 2) are those of the nodes' weights, where columns have directions.
    """

    nodes: Nodes
    members: Secret
    gh: Secret | None = None
    sums: Shares | None = None
    fresh: RowVectors | None = None
    bounds: Secret | None = None


def select_nodes(level: Level, keep: Sequence[int], with_gh: bool) -> Level:
    """Return part of a level: the nodes that stay in the batch, `with_gh` if what follows needs g and h. Local."""
    if len(keep) == len(level.nodes):
        return level
    where = np.array(keep, np.int64)
    return Level(
        [level.nodes[i] for i in keep],
        level.members[where],
        level.gh[where] if with_gh and level.gh is not None else None,
        None if level.sums is None else level.sums[where],
        bounds=None if level.bounds is None else level.bounds[where],
    )


OFFSET = 1 << 62
"""What makes bucket sums, |x| < 2^62, positive before they are lifted."""

WEIGHT_ROUNDS = 2
"""Rounds in which the sides are compared with the least weight: those of the lift and of the products."""


def gains(
    party: Party,
    sums: Shares,
    totals: Secret,
    constants: Constants,
    rules: TreeRules,
    allowed: Bit | None,
    tags: Secret,
) -> Fractions:
    """Return the candidates of every node, "no split" among them, as fractions ready for the tournament.

    The coordinator deals all that is needed at once.

    1. Open the left sums under a mask.
    2. Lift them and the node's totals to the wide ring; right = total - left.
    3. A = G_L^2 (H_R + lambda) + G_R^2 (H_L + lambda), B = (H_L + lambda)(H_R + lambda); "no split" is
       A = G^2 + gamma (H + lambda), B = H + lambda.

    Where a side may be too light or a column is left out, a shared bit tells which candidates are valid. The sides are
    compared with the least weight, both of a candidate in one answer, in the rounds of the lift and of the products.

    sums (n, 2, columns), totals (n, 2), tags (n, columns + 1) to n tournaments. Rounds: 3. Reveals: nothing.
    """
    with party.phase("gain"):
        work = _Gains(party, sums, totals, constants, rules, allowed)
        return work.fractions(tags)


class _Gains:
    """The gains of a level in the making: what was drawn and dealt for them, and their three rounds."""

    def __init__(
        self,
        party: Party,
        sums: Shares,
        totals: Secret,
        constants: Constants,
        rules: TreeRules,
        allowed: Bit | None,
    ) -> None:
        self.party, self.sums, self.totals, self.constants, self.rules = party, sums, totals, constants, rules
        self.allowed, self.ring = allowed, rules.ring
        self.nodes, _, self.columns = sums.shape
        self.signs: BitSigns | None = None
        if rules.checks_children:
            ending = Ending.NEITHER if allowed is None else Ending.NEITHER_AND
            self.signs = bit_signs(rules.hessian_bits or VECTOR.bits, WEIGHT_ROUNDS, ending=ending)
        party.step("gains")
        masks, dealt = party.prepare(self._fresh(), self._dealt(), self._deal)
        self.y_mask, self.value_mask, self.fraction_mask, self.whole_mask, *self.sign_masks = masks
        self.r, self.wrap, self.pairs, self.lacking, self.lacking_whole, *self.sign_shares = dealt
        party.count(products=5 * self.nodes * self.columns + 2 * self.nodes, mul_calls=7)
        if self.signs is not None:
            party.count(comparisons=2 * self.nodes * self.columns)

    def _fresh(self) -> list[Spec]:
        n, columns = self.nodes, self.columns
        signs = [] if self.signs is None else self.signs.fresh(n * columns)
        return [
            (VECTOR, (n, 2, columns)),
            (self.ring, (n, 2, columns + 1)),
            (self.ring, (2, n, columns)),
            (self.ring, (n,)),
            *signs,
        ]

    def _opened(self) -> list[Opening]:
        """Return the three openings; those of a comparison travel with the last two."""
        sums, values, fractions, whole, *_ = self._fresh()
        signs = [] if self.signs is None else self.signs.opened(self.nodes * self.columns)
        first, second = [*signs, [], []][:WEIGHT_ROUNDS]
        rounds = (("", [sums]), ("lift", [values, *first]), ("fractions", [fractions, whole, *second]))
        return [(what, specs, None) for what, specs in rounds]

    def _dealt(self) -> list[Spec]:
        n, columns, ring = self.nodes, self.columns, self.ring
        signs = [] if self.signs is None else self.signs.dealt(n * columns)
        lifted, fractions = (ring, (n, 2, columns + 1)), (ring, (2, n, columns))
        return [lifted, lifted, (ring, (4, n, columns)), fractions, (ring, (n,)), *signs]

    def _deal(self, masks: list[RingArray]) -> list[RingArray]:
        """Return what the coordinator deals, from the masks of the sums and of all that is opened."""
        y_mask, value_mask, _, _, *sign_masks = masks
        n, columns, words = self.nodes, self.columns, self.ring.words
        narrow = self._with_totals(y_mask, self.totals.mask)
        r, wrap = np.zeros((2, *narrow.shape, words), np.uint64)
        r[..., 0], wrap[..., 1] = narrow, narrow >> np.uint64(63)
        pairs, lacking = np.empty((4, n, columns, words), np.uint64), np.empty((2, n, columns, words), np.uint64)
        whole = np.empty((n, words), np.uint64)
        lam, gam = (x.mask.words().reshape(1, words) for x in (self.constants.lam, self.constants.gam))
        fraction_masks(_cells(value_mask), lam, gam, pairs, lacking, whole)
        dealt = [RingArray(self.ring, array) for array in (r, wrap, pairs, lacking, whole)]
        if self.signs is not None:
            hidden = Secret(RingArray.hidden(VECTOR, y_mask.shape), y_mask)
            gates = None if self.allowed is None else bit_planes([self.allowed.secret.mask])
            dealt += self.signs.deal(self._above_minimum(hidden).mask, sign_masks, gates)
        return dealt

    def fractions(self, tags: Secret) -> Fractions:
        """Play the three rounds."""
        party, first = self.party, self.rules.no_split_first
        if party.is_symbolic:
            follow_openings(party, self._opened())
            values, fractions, whole = (
                Secret(RingArray.hidden(self.ring, mask.shape), mask)
                for mask in (self.value_mask, self.fraction_mask, self.whole_mask)
            )
            heavy = None if self.signs is None else RingArray.hidden(BIT, (self.nodes, self.columns))
        else:
            values, fractions, whole, heavy = self._rounds()
        A, B = fractions[0], fractions[1]
        A0, B0 = whole.reshape(self.nodes, 1), values[:, 1, -1:] + self.constants.lam
        columns = ([A0, A], [B0, B]) if first else ([A, A0], [B, B0])
        valid = no_split_beside(party, heavy, self.allowed, (self.nodes, self.columns), self.rules)
        return Fractions(stack([concatenate(column) for column in columns]), tags, self.rules.bits or None, valid)

    def _rounds(self) -> tuple[Secret, Secret, Secret, RingArray | None]:
        """Return a participant's lifted sums, fractions and "no split", and its shares of "both sides are heavy"."""
        party, public_share, n = self.party, self.party.public_share, self.nodes
        (total,) = open_shares(party, [shifted(party, self.sums).part + self.y_mask])
        y = Secret(total, self.y_mask)
        signs = SideBySide([] if self.signs is None else [self._compare(public_share, y)])
        lifted = np.array(self.value_mask.words())
        narrow = self._with_totals(y.masked, (self.totals + OFFSET).masked)
        lift_words(narrow.reshape(-1), self.r.words(), self.wrap.words(), public_share, OFFSET, lifted)
        lifted = lifted.reshape(*self.value_mask.shape, self.ring.words)
        pending = signs.pending()
        values, *more = open_shares(party, [RingArray(self.ring, lifted), *(p.part for p in pending)], what="lift")
        finish(pending, more)
        out, whole = (self.fraction_mask + self.lacking).data, (self.whole_mask + self.lacking_whole).data
        lam, gam = (
            np.stack([x.masked.words().reshape(1, -1), x.mask.words().reshape(1, -1)])
            for x in (self.constants.lam, self.constants.gam)
        )
        fraction_parts(_cells(values), _cells(self.value_mask), lam, gam, _cells(self.pairs), public_share, out, whole)
        pending = signs.pending()
        parts = [RingArray(self.ring, out), RingArray(self.ring, whole), *(p.part for p in pending)]
        fractions, none, *more = open_shares(party, parts, what="fractions")
        finish(pending, more)
        heavy = plane_bits(signs.results[0][0], n * self.columns).reshape(n, -1) if signs.results else None
        return (
            Secret(values, self.value_mask),
            Secret(fractions, self.fraction_mask),
            Secret(none, self.whole_mask),
            None if heavy is None else RingArray(BIT, heavy),
        )

    def _with_totals(self, y: RingArray, totals: RingArray) -> U64:
        """Return sums (n, 2, columns) with the node's totals behind them."""
        return np.concatenate([y.data, np.broadcast_to(totals.data, (self.nodes, 2))[..., None]], axis=-1)

    def _compare(self, public_share: int, y: Secret) -> Steps:
        assert self.signs is not None
        gates = None
        if self.allowed is not None:
            allowed = self.allowed.secret

            def gates() -> tuple[U8, U8]:
                return bit_planes([allowed.mask]), bit_planes([allowed.masked])

        numbers = self._above_minimum(y).masked
        return self.signs.steps(public_share, numbers, self.sign_masks, self.sign_shares, gates)

    def _above_minimum(self, y: Secret) -> Secret:
        """Return H_L and H_R, without lambda, less min_child_weight, from y = sums + OFFSET: (2, n columns)."""
        left, total, mcw = y[:, 1] - OFFSET, self.totals[:, 1:], self.constants.mcw
        return stack([left - mcw, total - left - mcw]).reshape(2, self.nodes * self.columns)


def no_split_beside(
    party: Party, heavy: RingArray | None, allowed: Bit | None, shape: tuple[int, int], rules: TreeRules
) -> Shares | None:
    """Return which candidates (n, columns) take part, shared, and "no split", which always does; None if all do.

    `heavy` says which ones have sides that are heavy enough, and are `allowed`, where sides are compared. Local.
    """
    if heavy is not None:
        valid = Shares(heavy)
    elif allowed is not None:
        valid = to_shares(party, allowed.secret)
    else:
        return None
    one = RingArray(BIT, np.ones((shape[0], 1), np.uint8))
    always = public_shares(party, RingArray.hidden(BIT, one.shape) if party.is_symbolic else one)
    return concatenate_shares([always, valid] if rules.no_split_first else [valid, always])


def _cells(x: RingArray) -> U64:
    """Return wide elements as words, contiguous, in their shape."""
    return x.words().reshape(*x.shape, x.ring.words)


def shifted(party: Party, sums: Shares) -> Shares:
    """Return bucket sums plus OFFSET. Local."""
    return Shares(add_public(party, sums.part, lambda: RingArray.encode(VECTOR, OFFSET)))
