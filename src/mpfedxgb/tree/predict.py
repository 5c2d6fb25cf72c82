"""SecurePredict: joint prediction over partial trees (section 4.5, Eq. 12-14).

Each owner of a split shares which leaves its own splits leave reachable. Their product over the owners is one-hot on
the true leaf; its inner product with the leaf weights is the prediction, one opened element per row, to the active
participant only.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.bits import Bit, BitProduct, shares_of_bit_products
from mpfedxgb.protocols.multiply import Product, sums_of_products
from mpfedxgb.protocols.opening import open_masked
from mpfedxgb.protocols.reveal import reveal
from mpfedxgb.protocols.secret import Secret, Shares, concatenate, concatenate_shares, public_secret, to_shares
from mpfedxgb.protocols.share import share
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.bits import pack, unpack
from mpfedxgb.ring.ring import PACKED, VECTOR
from mpfedxgb.tree.agreement import agree
from mpfedxgb.tree.nodes import Outline, Used
from mpfedxgb.tree.reachable import Scorer

PREDICTION = "prediction of a row, at most all its leaves"
"""One 64-bit number per row and class. Whatever the active participant brings as leaf weights is summed: with weights
that it chose for that, the number says which leaf of every tree the row is in."""

CHUNK_ELEMENTS = 1 << 19
"""Rows times leaves of one batch: its arrays of 4 MB each stay in the cache."""

Marks = tuple[list[int], Secret]
"""Shared marks of some leaves, which are counted over all trees in use: (those leaves, rows packed)."""


def secure_predict(
    party: Party, classes: int, scorer: Scorer | None, rounds: int | None
) -> npt.NDArray[np.int64] | None:
    """Return the sum of leaf weights per class and row, (classes, rows), to the active participant; None to the others.

    `rounds`, the active participant's, limits the trees in use. Rounds: K + ceil(log2 K) + 1 per chunk, for K owners.
    Reveals: PREDICTION to the active participant; sizes and shape of the model to everyone.
    """
    agreed = agree(party, classes, scorer, rounds)
    alone = np.zeros(classes, np.int64)
    if party.is_active and not agreed.shared:
        assert scorer is not None
        alone = scorer.single_leaves(agreed.outlines, classes)
    used = [(i, o) for i, o in enumerate(agreed.outlines) if o.owners or agreed.shared]
    if not used:
        return np.repeat(alone[:, None], agreed.rows, axis=1) if party.is_active else None
    with party.phase("predict"):
        share_weights = _share_kept_shares if agreed.shared else _share_known_weights
        weights = share_weights(party, scorer, used)
        sums = predict_rows(party, scorer, used, weights, classes, agreed.rows, PREDICTION)
    return None if sums is None else sums + alone[:, None]


def _share_known_weights(party: Party, scorer: Scorer | None, used: Used) -> Secret:
    """Share the weights, which the active participant has."""
    values = RingArray.encode(VECTOR, scorer.weights(used)) if party.is_active and scorer is not None else None
    return share(party, ACTIVE, VECTOR, (_count_leaves(used),), values)


def _share_kept_shares(party: Party, scorer: Scorer | None, used: Used) -> Secret:
    """Put the participants' kept shares of the weights under a fresh mask."""
    party.step("kept shares")
    part = RingArray.hidden(VECTOR, (_count_leaves(used),))
    if scorer is not None:
        part = RingArray.encode(VECTOR, scorer.weights(used))
    return open_masked(party, Shares(part))


def predict_rows(
    party: Party, scorer: Scorer | None, used: Used, weights: Secret, classes: int, rows: int, name: str
) -> npt.NDArray[np.int64] | None:
    """Return the sums of secret leaf weights per class and row to the active participant, chunk by chunk.

    `weights` lists the leaves of the used trees in the order of their nodes. Reveals: `name` to the active participant.
    """
    step = max(8, CHUNK_ELEMENTS // _count_leaves(used) // 8 * 8)
    sums = []
    for first in range(0, rows, step):
        chunk = slice(first, min(rows, first + step))
        inside = _true_leaves(party, scorer, used, chunk)  # Eq. 13
        sums.append(reveal(party, _sum_weights(party, used, inside, weights, classes), ACTIVE, name))  # Eq. 14
    return np.concatenate([part.decode() for part in sums], axis=1) if party.is_active else None


def _true_leaves(party: Party, scorer: Scorer | None, used: Used, chunk: slice) -> Bit:
    """Return the product of all owners' marks, one-hot over the leaves of each tree: (leaves, rows) (Eq. 13)."""
    rows = chunk.stop - chunk.start
    inside = _all_of(party, _share_marks(party, scorer, used, chunk))
    return Bit(Secret(unpack(inside.masked, rows), unpack(inside.mask, rows)))


def _share_marks(party: Party, scorer: Scorer | None, used: Used, chunk: slice) -> list[Marks]:
    """Let every owner share its marks of the leaves of trees in which it has a split (SHR of s_m); one round each."""
    packed = -(-(chunk.stop - chunk.start) // 8)
    marks: list[Marks] = []
    every_leaf = _every_leaf(used)
    alone = [place for place, o in every_leaf if not o.owners]
    if alone:  # the only leaf of its tree: every row is in it
        marks.append((alone, public_secret(party, PACKED, np.full((len(alone), packed), 255, np.uint8))))
    for m in range(1, party.roster.size + 1):
        leaves = [place for place, o in every_leaf if m in o.owners]
        if not leaves:
            continue
        values = None
        if party.role == m:
            assert scorer is not None
            values = pack(scorer.marks([i for i, o in used if m in o.owners], chunk))
        marks.append((leaves, share(party, m, PACKED, (len(leaves), packed), values)))
    return marks


def _all_of(party: Party, marks: list[Marks]) -> Secret:
    """Return the AND over the owners, leaf by leaf, in a binary tree of rounds."""
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


def _sum_weights(party: Party, used: Used, inside: Bit, weights: Secret, classes: int) -> Shares:
    """Return shares of the sums of the true leaves' weights, (classes, rows), from inside (leaves, rows) (Eq. 14)."""
    rows = inside.shape[-1]
    sums = []
    for k in range(classes):
        where = np.array([place for place, o in _every_leaf(used) if o.class_index == k], np.int64)
        if len(where):
            chosen = BitProduct((inside[where],), weights[where].reshape(-1, 1), axis=0)
            (part,) = shares_of_bit_products(party, [chosen], "leaf sums")
        else:
            part = to_shares(party, public_secret(party, VECTOR, np.zeros(rows, np.int64)))
        sums.append(part.reshape(1, rows))
    return concatenate_shares(sums, axis=0)


def _count_leaves(used: Used) -> int:
    return sum(o.leaves for _, o in used)


def _every_leaf(used: Used) -> list[tuple[int, Outline]]:
    """Return the leaves, counted over all trees in use, each with the outline of its tree."""
    return list(enumerate(o for _, o in used for _ in range(o.leaves)))


def _index(places: list[int], wanted: list[int]) -> npt.NDArray[np.int64]:
    where = {place: i for i, place in enumerate(places)}
    return np.array([where[place] for place in wanted], np.int64)
