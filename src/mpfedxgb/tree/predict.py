"""SecurePredict: joint prediction over partial trees (section 4.5, Eq. 12-14).

Each owner of a split marks the leaves that its own splits leave reachable. Their product over the owners is one-hot on
the true leaf; its inner product with the leaf weights is the prediction, one opened element per row, to the active
participant only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mpfedxgb.data.table import Table
from mpfedxgb.errors import UserError
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.bits import Bit, BitProduct, shares_of_bit_products
from mpfedxgb.protocols.multiply import Product, sums_of_products
from mpfedxgb.protocols.opening import open_masked
from mpfedxgb.protocols.reveal import reveal
from mpfedxgb.protocols.secret import Secret, Shares, concatenate, concatenate_shares, public_secret
from mpfedxgb.protocols.share import share
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.bits import pack, unpack
from mpfedxgb.ring.ring import PACKED, VECTOR
from mpfedxgb.tree.nodes import Dummy, Leaf, Split, Tree
from mpfedxgb.tree.split import TREE_SHAPE

PREDICTION = "final prediction of a scored row"
ROWS_TO_SCORE = "rows to score and trees in use"
CHUNK_ELEMENTS = 1 << 19
"""Rows times leaves of one batch: its arrays of 4 MB each stay in the cache."""

Bits = npt.NDArray[np.uint8]

_OTHER_TREES = "the participants' models do not have the same trees; do they come from the same training?"


@dataclass(frozen=True, slots=True)
class Outline:
    """The public shape of one tree: its class, number of leaves, and the owners of its splits."""

    class_index: int
    leaves: int
    owners: tuple[int, ...]


Used = Sequence[tuple[int, Outline]]
"""The trees to score, each with its number in the model."""


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """A participant's own part of a model, for scoring: its trees and its columns, with the table to score.

    `holds_shares` says that leaf weights are shared among all participants, as the paper keeps them; otherwise they are
    the active participant's.
    """

    trees: Sequence[Tree]
    table: Table
    holds_shares: bool = False


def secure_predict(
    party: Party, classes: int, scorer: Scorer | None, rounds: int | None
) -> npt.NDArray[np.int64] | None:
    """Return the sum of leaf weights per class and row, (classes, rows), to the active participant; None to the others.

    `rounds`, the active participant's, limits the trees in use. Rounds: K + ceil(log2 K) + 1 per chunk, for K owners.
    Reveals: PREDICTION to the active participant; sizes and shape of the model to everyone.
    """
    outlines, rows, shared = _agree(party, classes, scorer, rounds)
    alone = np.zeros(classes, np.int64)
    if party.is_active and not shared:
        alone = _single_leaves(scorer, outlines, classes)
    used = [(i, o) for i, o in enumerate(outlines) if o.owners or shared]
    if not used:
        return np.repeat(alone[:, None], rows, axis=1) if party.is_active else None
    with party.phase("predict"):
        weights = _kept_shares(party, scorer, used) if shared else _share_weights(party, scorer, used)
        sums = predict_rows(party, scorer, used, weights, classes, rows, PREDICTION)
    return None if sums is None else sums + alone[:, None]


def predict_rows(
    party: Party, scorer: Scorer | None, used: Used, weights: Secret, classes: int, rows: int, name: str
) -> npt.NDArray[np.int64] | None:
    """Return the sums of secret leaf weights per class and row to the active participant, chunk by chunk (Eq. 13-14).

    `weights` lists the leaves of the used trees in the order of their nodes. Reveals: `name` to the active participant.
    """
    step = max(8, CHUNK_ELEMENTS // sum(o.leaves for _, o in used) // 8 * 8)
    out = [
        _chunk(party, scorer, used, weights, classes, slice(first, min(rows, first + step)), name)
        for first in range(0, rows, step)
    ]
    return np.concatenate([part.decode() for part in out], axis=1) if party.is_active else None


def _agree(party: Party, classes: int, scorer: Scorer | None, rounds: int | None) -> tuple[list[Outline], int, bool]:
    """Agree on rows, trees and who holds the weights, and let the coordinator know the shape of the model."""
    mine = None
    if scorer is not None:
        mine = [scorer.table.rows, len(scorer.trees), 0 if rounds is None else rounds, int(scorer.holds_shares)]
    told = party.tell_everyone(ROWS_TO_SCORE, mine)
    if len(set(told[:, 0])) > 1:
        counts = ", ".join(f"{n} {c}" for n, c in zip(party.roster.participants, told[:, 0], strict=True))
        raise UserError(f"the participants bring different numbers of rows to score ({counts}); align the tables first")
    if len(set(told[:, 1])) > 1 or len(set(told[:, 3])) > 1:
        raise UserError(_OTHER_TREES)
    limit = int(told[0, 2]) * classes or int(told[0, 1])
    flat = None
    if scorer is not None:
        outlines = [outline(tree, i % classes, party.role) for i, tree in enumerate(scorer.trees[:limit])]
        flat = [
            [o.class_index, o.leaves, *(int(m in o.owners) for m in range(1, party.roster.size + 1))] for o in outlines
        ]
    public = party.tell_everyone(TREE_SHAPE, flat)
    if (public != public[0]).any():
        raise UserError(_OTHER_TREES)
    agreed = [Outline(int(k), int(n), tuple(int(m) for m in np.flatnonzero(o) + 1)) for k, n, *o in public[0]]
    return agreed, int(told[0, 0]), bool(told[0, 3])


def outline(tree: Tree, class_index: int, role: int) -> Outline:
    """Return the public shape of a participant's view of a tree."""
    owners = {node.owner if isinstance(node, Dummy) else role for node in tree if not isinstance(node, Leaf)}
    return Outline(class_index, sum(isinstance(node, Leaf) for node in tree), tuple(sorted(owners)))


def _single_leaves(scorer: Scorer | None, outlines: list[Outline], classes: int) -> npt.NDArray[np.int64]:
    """Return what trees without a split add to every row of their class."""
    assert scorer is not None
    total = np.zeros(classes, np.int64)
    for tree, o in zip(scorer.trees, outlines, strict=False):
        if not o.owners:
            total[o.class_index] += _weight(tree[0])
    return total


def _share_weights(party: Party, scorer: Scorer | None, used: Used) -> Secret:
    """Share the weights, which the active participant has."""
    values = _own_weights(scorer, used) if party.is_active else None
    return share(party, ACTIVE, VECTOR, (sum(o.leaves for _, o in used),), values)


def _kept_shares(party: Party, scorer: Scorer | None, used: Used) -> Secret:
    """Put the participants' kept shares of the weights under a fresh mask."""
    party.step("kept shares")
    if party.is_coordinator:
        return open_masked(party, Shares(RingArray.hidden(VECTOR, (sum(o.leaves for _, o in used),))))
    return open_masked(party, Shares(_own_weights(scorer, used)))


def _own_weights(scorer: Scorer | None, used: Used) -> RingArray:
    assert scorer is not None
    leaves = [n for i, _ in used for n in scorer.trees[i] if isinstance(n, Leaf)]
    numbers = [n.share if scorer.holds_shares else _weight(n) for n in leaves]
    return RingArray.encode(VECTOR, np.array(numbers, np.int64))


def _weight(node: object) -> int:
    assert isinstance(node, Leaf)
    assert node.weight is not None
    return node.weight


def _chunk(
    party: Party, scorer: Scorer | None, used: Used, weights: Secret, classes: int, chunk: slice, name: str
) -> RingArray:
    """Score some rows: all trees in one batch."""
    rows = chunk.stop - chunk.start
    marks = []
    alone = [place for place, o in enumerate(o for _, o in used for _ in range(o.leaves)) if not o.owners]
    if alone:  # the only leaf of its tree
        ones = np.full((len(alone), -(-rows // 8)), 255, np.uint8)
        marks.append((alone, public_secret(party, PACKED, ones)))
    for m in range(1, party.roster.size + 1):
        mine = [i for i, o in used if m in o.owners]
        if not mine:
            continue
        leaves = _places(used, m)
        values = None
        if party.role == m:
            assert scorer is not None
            bits = [reachable(scorer.trees[i], scorer.table, chunk) for i in mine]
            values = pack(np.concatenate(bits))
        marks.append((leaves, share(party, m, PACKED, (len(leaves), -(-rows // 8)), values)))
    inside = _all_of(party, marks)
    bit = Bit(Secret(unpack(inside.masked, rows), unpack(inside.mask, rows)))
    sums = []
    owners = np.repeat([o.class_index for _, o in used], [o.leaves for _, o in used])
    for k in range(classes):
        where = np.flatnonzero(owners == k)
        if len(where):
            (part,) = shares_of_bit_products(
                party, [BitProduct((bit[where],), weights[where].reshape(-1, 1), axis=0)], "leaf sums"
            )
        else:
            part = Shares(
                RingArray.hidden(VECTOR, (rows,)) if party.is_coordinator else RingArray.zeros(VECTOR, (rows,))
            )
        sums.append(part.reshape(1, rows))
    return reveal(party, concatenate_shares(sums, axis=0), ACTIVE, name)


def _places(used: Used, owner: int) -> list[int]:
    """Return the leaves, counted over all trees, of the trees in which a participant has a split."""
    places: list[int] = []
    first = 0
    for _, o in used:
        if owner in o.owners:
            places += range(first, first + o.leaves)
        first += o.leaves
    return places


def _all_of(party: Party, marks: list[tuple[list[int], Secret]]) -> Secret:
    """Return the AND over the owners, leaf by leaf, in a binary tree of rounds (Eq. 13)."""
    while len(marks) > 1:
        pairs = [(marks[i], marks[i + 1]) for i in range(0, len(marks) - 1, 2)]
        shared = [sorted(set(a) & set(b)) for (a, _), (b, _) in pairs]
        batch = [
            [Product((x[_index(a, both)], y[_index(b, both)]))]
            for ((a, x), (b, y)), both in zip(pairs, shared, strict=True)
            if both
        ]
        products = iter(sums_of_products(party, batch, name="and")) if batch else iter(())
        merged = []
        for ((a, x), (b, y)), both in zip(pairs, shared, strict=True):
            only_a, only_b = sorted(set(a) - set(b)), sorted(set(b) - set(a))
            pieces = [next(products)] if both else []
            pieces += [x[_index(a, only_a)]] if only_a else []
            pieces += [y[_index(b, only_b)]] if only_b else []
            merged.append((both + only_a + only_b, concatenate(pieces, axis=0)))
        marks = merged + marks[2 * len(pairs) :]
    leaves, inside = marks[0]
    return inside[np.argsort(leaves)]


def _index(places: list[int], wanted: list[int]) -> npt.NDArray[np.int64]:
    where = {place: i for i, place in enumerate(places)}
    return np.array([where[place] for place in wanted], np.int64)


def reachable(tree: Tree, table: Table, rows: slice) -> Bits:
    """Return which leaves one's own splits leave open, (leaves, rows): at a Dummy, both sides are."""
    columns = {column.name: column.values[rows] for column in table.columns}
    count = len(range(*rows.indices(table.rows)))
    open_ = {0: np.ones(count, bool)}
    leaves = []
    for number, node in enumerate(tree):
        here = open_.pop(number)
        if isinstance(node, Leaf):
            leaves.append(here)
        elif isinstance(node, Dummy):
            open_[node.left] = open_[node.right] = here
        else:
            first = goes_first(node, columns[node.feature])
            left, right = (node.right, node.left) if node.flipped else (node.left, node.right)
            open_[left], open_[right] = here & first, here & ~first
    return np.array(leaves, np.uint8)


def goes_first(split: Split, values: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Return which values go to a split's first child."""
    if split.category is not None:
        present = values != split.category
    else:
        assert split.threshold is not None
        present = values <= np.float32(split.threshold)
    return np.where(np.isnan(values), split.missing_left, present)
