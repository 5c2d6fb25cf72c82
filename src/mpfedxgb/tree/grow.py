"""SecureBuild: the trees of one round, level by level, all nodes of a level in one batch (Algorithm 3).

Each level chooses the best split of every node (`best_splits`, lines 3 and 19-20), and makes its children (21-36).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from mpfedxgb.party.entries import Entry
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.argmax import Fractions, winning_tags
from mpfedxgb.protocols.bits import Bit
from mpfedxgb.protocols.opening import Product, multiplying, open_groups, open_pending
from mpfedxgb.protocols.plan import Plan, plan
from mpfedxgb.protocols.reveal import NOBODY, Opened, make_tags, open_tags
from mpfedxgb.protocols.rows import splitting_rows
from mpfedxgb.protocols.secret import Secret, Shares, concatenate, concatenate_shares
from mpfedxgb.protocols.share import share_each
from mpfedxgb.ring.array import pack, unpack
from mpfedxgb.ring.prg import Stream
from mpfedxgb.ring.ring import PACKED
from mpfedxgb.tree.bounded import bounded_gains
from mpfedxgb.tree.constrained import bounds_of_children, constrained_gains
from mpfedxgb.tree.level import Constants, Level, Round, SplitData, TreeRules, aggregate_buckets, gains, select_nodes
from mpfedxgb.tree.nodes import GrownSplit, GrownTree


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """The trees of one round as this role saw them, and the rows inside each leaf, still secret: (leaves, packed).

    Where nobody may see the weights, or columns have directions, also G and H of each leaf, as secret: (leaves, 2);
    and in the latter case the bounds of its weight, (leaves, 2). `constants` are those of the boosting round.
    """

    trees: list[GrownTree]
    members: Secret
    totals: Secret | None = None
    bounds: Secret | None = None
    constants: Constants | None = None


def grow(
    party: Party,
    data: SplitData,
    roots: Level,
    round_: Round,
    rules: TreeRules,
    find: FindSplits | None = None,
    choices: Choices | None = None,
) -> Grown:
    """Return this role's view of the trees of one round, grown from their roots; without `find`, by `best_splits`.

    Coins come from `choices`, the role's own keys if there are none. The weights of all leaves (lines 5 and 43) follow
    together, when the round is updated.
    """
    trees = [GrownTree() for _ in roots.nodes]
    leaves, level = _Leaves(trees, with_totals=rules.sums_in_leaves), roots
    find = best_splits if find is None else find
    for depth in range(rules.max_depth if data.matrices else 0):
        party.observer.on_progress(f"level {depth + 1} of {rules.max_depth}")
        level = _with_sums(party, data, level)  # 9-13
        best = find(party, data, level, round_, rules, depth)  # 3, 8, 14-20
        closing = np.flatnonzero(best.owner == NOBODY).tolist()
        leaves.close(select_nodes(level, closing, rules.sums_in_leaves))  # 42, 44
        splitting = np.flatnonzero(best.owner != NOBODY).tolist()
        level = select_nodes(level, splitting, rules.sums_in_leaves or depth < rules.max_depth - 1)
        if not level.nodes:
            break
        splits = [(int(best.owner[i]), int(best.local[i])) for i in splitting]
        parent = level
        level = children(party, data, parent, splits, trees, round_.label, rules, depth, choices)  # 21-36
        if rules.constrained:
            level = replace(level, bounds=part_bounds(party, data, parent, splits, trees, level, round_, rules))
    leaves.close(level)  # 4, 6
    return replace(leaves.grown(), constants=round_.constants)


def _with_sums(party: Party, data: SplitData, level: Level) -> Level:
    """Return the level with the bucket sums of its nodes: computed for left children, parent - left for right ones."""
    assert level.fresh is not None
    sums: Shares = aggregate_buckets(party, data, level.fresh)
    if level.sums is not None:
        sums = concatenate_shares([sums, level.sums - sums], axis=0)
    return Level(level.nodes, level.members, level.gh, sums, bounds=level.bounds)


class _Leaves:
    """Leaves in the order in which they close."""

    def __init__(self, trees: list[GrownTree], with_totals: bool) -> None:
        self.trees, self.with_totals = trees, with_totals
        self.members: list[Secret] = []
        self.totals: list[Secret] = []
        self.bounds: list[Secret] = []
        self.count = 0

    def close(self, level: Level) -> None:
        """Turn all nodes of a level, or of a part of one, into leaves."""
        if not level.nodes:
            return
        for tree, node in level.nodes:
            self.trees[tree].close(node, self.count)
            self.count += 1
        self.members.append(level.members)
        if self.with_totals:
            assert level.gh is not None
            self.totals.append(level.gh.sum())
        if level.bounds is not None:
            self.bounds.append(level.bounds)

    def grown(self) -> Grown:
        """Return the finished trees."""
        totals = concatenate(self.totals, axis=0) if self.with_totals else None
        bounds = concatenate(self.bounds, axis=0) if self.bounds else None
        return Grown(self.trees, concatenate(self.members, axis=0), totals, bounds)


FindSplits = Callable[[Party, SplitData, Level, Round, TreeRules, int], Opened]
"""How the best splits of a level at some depth are found."""

Chosen = tuple[int, int]
"""Owner of a split and, at the owner, its candidate."""


def best_splits(party: Party, data: SplitData, level: Level, round_: Round, rules: TreeRules, depth: int) -> Opened:
    """Return the owner of every node's best split (NOBODY where none is worth it), and to the owner which one it is.

    With First-Layer-Mask only the active participant's columns take part in the first layer (section 5.2).
    """
    assert level.gh is not None
    assert level.sums is not None
    sizes, n = data.sizes, len(level.nodes)
    sums, owners, allowed = level.sums, sizes.owners, round_.allowed_in(level.nodes, depth)
    if rules.masks_layer(depth):
        width = sizes.columns[ACTIVE - 1]
        sums, owners = sums[..., :width], [ACTIVE] if width else []
        allowed = None if allowed is None else allowed[..., :width]
    counts = [(m, sizes.columns[m - 1]) for m in owners]
    nobody = [(NOBODY, 1)]
    tags = make_tags(party, (n,), nobody + counts if rules.no_split_first else counts + nobody)
    totals = level.gh.sum()  # 3
    numbers = round_.constants, rules, allowed, tags.secret
    if level.bounds is not None and data.sigma is not None:
        sigma = data.sigma[: sums.shape[-1]]
        candidates = constrained_gains(party, sums, totals, level.bounds, sigma, *numbers)  # 8, 14-16
    else:
        of_level = bounded_gains if rules.alpha_bits or rules.clip_bits else gains
        candidates = of_level(party, sums, totals, *numbers)  # 8, 14-16
    winner = winning_tags(party, candidates, _planned(party, candidates, n).stages)
    with party.phase("open split"):
        return open_tags(party, tags, winner, Entry.TREE_SHAPE)  # 19-20


def _planned(party: Party, candidates: Fractions, nodes: int) -> Plan:
    """Return how the tournaments of a level are played, which all roles plan alike; the record of a run tells."""
    field = candidates.tag.shape[-1]
    bits = candidates.bits or candidates.value.ring.bits
    planned = plan(
        nodes, field, bits, party.roster.size, party.topology, party.link, valid=candidates.valid is not None
    )
    party.note_plan(f"{nodes} x {field}", str(planned))
    return planned


def children(
    party: Party,
    data: SplitData,
    parent: Level,
    splits: list[Chosen],
    trees: list[GrownTree],
    label: str,
    rules: TreeRules,
    depth: int,
    choices: Choices | None = None,
) -> Level:
    """Return the next level: both children of every node, all left ones first; `sums` are still the parents'.

    1. Each owner tosses a private coin whether its left is called left, and publishes its rows' sides, masked. (The
       paper tosses none.)
    2. Rows inside and, unless this was the last layer and leaves need none, g and h of the left child are products;
       right = parent - left.

    Rounds: 2. Sent: a bit per row and split by its owner; a bit and 16 bytes per row and
    split by each auxiliary. Reveals: nothing.
    """
    with party.phase("children"):
        n, sides = len(parent.nodes), {}
        nodes = [(0, 0)] * (2 * n)
        for i in sorted(range(n), key=lambda i: parent.nodes[i]):  # children are numbered as XGBoost does
            (tree, node), (owner, candidate) = parent.nodes[i], splits[i]
            flipped = False
            if party.has_values_of(owner):  # 21
                flipped = rules.tosses_coins and toss(party.keys if choices is None else choices, label, tree, node)
                sides[i] = pack(data.goes_left(owner, candidate) ^ np.uint8(flipped))  # 22-29
            left, right = trees[tree].split(node, owner, candidate, flipped)  # 35-36
            nodes[i], nodes[n + i] = (tree, left), (tree, right)
        q = share_each(party, [owner for owner, _ in splits], PACKED, (data.sizes.packed,), sides)  # 30
        staying = multiplying(party, [[Product((parent.members, q))]], name="rows inside")  # 32
        if depth == rules.max_depth - 1 and not rules.sums_in_leaves:
            (inside,) = open_pending(party, staying)
            return Level(nodes, _both_sides(parent.members, inside))
        assert parent.gh is not None
        shared = {i for i, (owner, _) in enumerate(splits) if owner == party.roster.owning_coordinator}
        going = splitting_rows(party, q, parent.gh, data.threads, shared, depth % 2)  # 33-34
        (inside,), (gh,) = open_groups(party, staying, [going])
        return Level(nodes, _both_sides(parent.members, inside), gh.both, parent.sums, gh.left)


def part_bounds(
    party: Party,
    data: SplitData,
    parent: Level,
    splits: list[Chosen],
    trees: list[GrownTree],
    level: Level,
    round_: Round,
    rules: TreeRules,
) -> Secret:
    """Return the bounds of the children of a level's splits, (2 n, 2), from those of their parents.

    All owners share two bits of each of their splits: whether the middle is the upper bound of the left child, and so
    the lower one of the right; and the other way round. Both are 0 if the column has no direction. The left child is
    the one that is called left.

    Rounds: 1 and those of `bounds_of_children`. Sent: a byte per split by its owner. Reveals: nothing.
    """
    with party.phase("children"):
        bits = {}
        for i, ((tree, node), (owner, candidate)) in enumerate(zip(parent.nodes, splits, strict=True)):
            if party.has_values_of(owner):
                assert data.directions is not None
                split = trees[tree].nodes[node]
                assert isinstance(split, GrownSplit)
                sign = int(data.directions[candidate]) * (-1 if split.flipped else 1)
                bits[i] = pack(np.array([sign > 0, sign < 0], np.uint8))
        shared = share_each(party, [owner for owner, _ in splits], PACKED, (1,), bits)
        sides = Bit(Secret(unpack(shared.masked, 2), unpack(shared.mask, 2)))
        assert level.gh is not None
        assert parent.bounds is not None
        return bounds_of_children(party, level.gh.sum(), parent.bounds, sides, round_.constants, rules)


class Choices(Protocol):
    """Where a participant's own choices come from, by label."""

    def private_stream(self, label: str) -> Stream:
        """Return those of a label, the same every time."""
        ...


def toss(keys: Choices, label: str, tree: int, node: int) -> bool:
    """Toss a participant's own coin for a split of its own; the same place gives the same side again."""
    return bool(keys.private_stream(f"{label}/coin/{tree}/{node}").octets(1)[0] & 1)


def _both_sides(parent: Secret, left: Secret) -> Secret:
    """Return left children and then right ones, right = parent - left. Local."""
    return concatenate([left, parent - left], axis=0)
