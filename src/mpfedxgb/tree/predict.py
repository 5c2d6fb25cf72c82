"""SecurePredict: joint prediction over partial trees (section 4.5, Eq. 12-14).

Each owner of a split shares which leaves its own splits leave reachable. Their product over the owners is one-hot on
the true leaf; its inner product with the leaf weights is the prediction, one opened element per row, to the active
participant only. For few rows products and sums are one step, without a round between; for many the products of marks
come first, as packed bits, which takes rounds instead of bytes.

Before rows are scored everyone tells everyone its number of rows and the public outline of its trees (`agree`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import FrameError, UserError
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.handshake import MOST_LEAVES, MOST_ROWS, MOST_TREES, check_announced, check_numbers
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.bits import Bit, BitProduct, shares_of_bit_products
from mpfedxgb.protocols.opening import Product, open_masked, sums_of_products
from mpfedxgb.protocols.reveal import reveal
from mpfedxgb.protocols.secret import Secret, Shares, concatenate, concatenate_shares, public_secret, to_shares
from mpfedxgb.protocols.share import share, share_each
from mpfedxgb.ring.array import RingArray, pack, unpack
from mpfedxgb.ring.ring import PACKED, VECTOR
from mpfedxgb.tree.nodes import Outline, Scorer, Used, outline

_AT_ONCE = 16
"""Products of one step, for which two arrays each are dealt; a message has room for 64."""


Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """Shared marks of some leaves, which are counted over all trees in use: (those leaves, rows packed).

    `owned`: their mask is one participant's alone, as an owner's own marks have it.
    """

    leaves: Places
    bits: Secret
    owned: bool = True


Groups = dict[int, list[tuple[int, Places, list[tuple[int, Places]]]]]
"""By how many marks there are, what the trees alone decide: leaves of one class that the same marks mark.

The class, the leaves, and which marks, with the leaves' places among those that each marks.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What serves all rows: trees in use with their outlines, masked leaf weights; `alone`, what single leaves add.

    `alone`, (classes,), is the active participant's, and zero elsewhere. Without trees in use there are no weights.
    """

    classes: int
    used: Used
    weights: Secret | None
    alone: npt.NDArray[np.int64] = field(repr=False)
    groups: Groups = field(default_factory=dict, repr=False)


def secure_predict(
    party: Party, classes: int, scorer: Scorer | None, rounds: int | None
) -> npt.NDArray[np.int64] | None:
    """Return the sum of leaf weights per class and row, (classes, rows), to the active participant; None to the others.

    `rounds`, the active participant's, limits the trees in use. Rounds: those of `prepare` and `predict_prepared`.
    Reveals: PREDICTION to the active participant; sizes and shape of the model to everyone.
    """
    ready, rows = prepare(party, classes, scorer, rounds)
    return predict_prepared(party, ready, scorer, rows)


def prepare(party: Party, classes: int, scorer: Scorer | None, rounds: int | None) -> tuple[Prepared, int]:
    """Agree on trees and rows and share the leaf weights, once for all rows; return that, and the number of rows.

    Rounds: 2 to agree, and 1 for the weights if trees with a split are in use. Hops: 4, and 1 for the weights (2 where
    all participants hold shares of them). Reveals: sizes and shape of the model to everyone.
    """
    agreed = agree(party, classes, scorer, rounds)
    alone = np.zeros(classes, np.int64)
    if party.is_active and not agreed.shared:
        assert scorer is not None
        alone = scorer.single_leaves(agreed.outlines, classes)
    used = [(i, o) for i, o in enumerate(agreed.outlines) if o.owners or agreed.shared]
    weights = None
    if used:
        with party.phase("predict"):
            weights = (_share_kept_shares if agreed.shared else _share_known_weights)(party, scorer, used)
    return Prepared(classes, used, weights, alone), agreed.rows


def predict_prepared(party: Party, ready: Prepared, scorer: Scorer | None, rows: int) -> npt.NDArray[np.int64] | None:
    """Return the sum of leaf weights per class and row, as `secure_predict`, of rows that all have; see `predict_rows`.

    Rounds: 2 per chunk of few rows, 2 + ceil(log2 K) of many, for K owners. Hops: 3, and 2 more for every round more;
    1 less where all splits are the active participant's. Reveals: PREDICTION to the active participant.
    """
    if ready.weights is None:
        return np.repeat(ready.alone[:, None], rows, axis=1) if party.is_active else None
    with party.phase("predict"):
        sums = predict_rows(
            party, scorer, ready.used, ready.weights, ready.classes, rows, Entry.PREDICTION, ready.groups
        )
    return None if sums is None else sums + ready.alone[:, None]


def secure_leaves(
    party: Party, classes: int, scorer: Scorer | None, rounds: int | None
) -> npt.NDArray[np.int64] | None:
    """Return the number of each row's leaf in each tree in use, (trees, rows), to the active participant.

    As a sum of leaf weights: every tree is a class of its own, and the weight of a leaf is its number.
    Rounds: 2 to agree; if trees with a split are in use 1 for the numbers, and those of `predict_rows`.
    Reveals: SCORED_LEAVES to the active participant; sizes and shape of the model to everyone.
    """
    agreed = agree(party, classes, scorer, rounds)
    if agreed.shared:
        raise UserError(
            "nobody may know the leaves of rows whose leaf weights are shared; train with strict", "mode", "leaves"
        )
    used = [(i, o) for i, o in enumerate(agreed.outlines) if o.owners]
    leaves = np.zeros((len(agreed.outlines), agreed.rows), np.int64)
    if not used:
        return leaves if party.is_active else None
    numbered = [(i, replace(o, class_index=place)) for place, (i, o) in enumerate(used)]
    with party.phase("predict"):
        mine = scorer.leaf_numbers(used) if party.is_active and scorer is not None else None
        numbers = _share_of_active(party, used, mine)
        found = predict_rows(party, scorer, numbered, numbers, len(used), agreed.rows, Entry.SCORED_LEAVES)
    if found is None:
        return None
    leaves[[i for i, _ in used]] = found
    return leaves


def _share_known_weights(party: Party, scorer: Scorer | None, used: Used) -> Secret:
    """Share the weights, which the active participant has."""
    return _share_of_active(party, used, scorer.weights(used) if party.is_active and scorer is not None else None)


def _share_of_active(party: Party, used: Used, values: npt.NDArray[np.int64] | None) -> Secret:
    """Share one number of each leaf in use, which the active participant has."""
    encoded = None if values is None else RingArray.encode(VECTOR, values)
    return share(party, ACTIVE, VECTOR, (_count_leaves(used),), encoded)


def _share_kept_shares(party: Party, scorer: Scorer | None, used: Used) -> Secret:
    """Put the participants' kept shares of the weights under a fresh mask."""
    party.step("kept shares")
    part = RingArray.hidden(VECTOR, (_count_leaves(used),))
    if scorer is not None and not party.is_dealer:
        part = RingArray.encode(VECTOR, scorer.weights(used))
    return open_masked(party, Shares(part))


def predict_rows(
    party: Party,
    scorer: Scorer | None,
    used: Used,
    weights: Secret,
    classes: int,
    rows: int,
    name: Entry,
    groups: Groups | None = None,
) -> npt.NDArray[np.int64] | None:
    """Return the sums of secret leaf weights per class and row to the active participant, chunk by chunk.

    `weights` lists the leaves of the used trees in the order of their nodes; `groups` is kept for other rows of the
    same trees. Reveals: `name` to the active participant.
    """
    groups = {} if groups is None else groups
    tuning = party.settings.tuning
    step = max(8, tuning.leaf_elements // _count_leaves(used) // 8 * 8)
    sums = []
    for first in range(0, rows, step):
        chunk = slice(first, min(rows, first + step))
        marks = _share_marks(party, scorer, used, chunk)
        if len(marks) > 1 and _direct_bytes(used, chunk) > tuning.direct_bytes:
            marks = [_all_of(party, marks)]  # Eq. 13
        if len(marks) not in groups:
            groups[len(marks)] = list(_groups(used, marks))
        part = _sum_weights(party, groups[len(marks)], marks, weights, classes, chunk.stop - chunk.start)  # Eq. 13-14
        sums.append(reveal(party, part, ACTIVE, name))
    return np.concatenate([part.decode() for part in sums], axis=1) if party.is_active else None


def _direct_bytes(used: Used, chunk: slice) -> int:
    """Return what would be dealt to multiply all owners' marks and the weights at once: two words per set of owners."""
    rows: int = chunk.stop - chunk.start
    return 16 * rows * sum(o.leaves * ((1 << len(o.owners)) - 1) for _, o in used)


def _share_marks(party: Party, scorer: Scorer | None, used: Used, chunk: slice) -> list[Marks]:
    """Let every owner share its marks of the leaves of trees in which it has a split (SHR of s_m), all in one round.

    Everyone sends as many as the owner of the most; what fills the others' up is masked like the rest.
    """
    packed = -(-(chunk.stop - chunk.start) // 8)
    of = {m: _leaves_where([m in o.owners for _, o in used], used) for m in party.roster.owners}
    owners = [m for m, leaves in of.items() if len(leaves)]
    most = max((len(leaves) for leaves in of.values()), default=0)
    mine = {}
    if party.owner in owners:
        assert scorer is not None
        values = np.zeros((most, packed), np.uint8)
        own = pack(scorer.marks([i for i, o in used if party.owner in o.owners], chunk)).data
        values[: len(own)] = own
        mine[owners.index(party.owner)] = RingArray(PACKED, values)
    marks = []
    alone = _leaves_where([not o.owners for _, o in used], used)
    if len(alone):  # the only leaf of its tree: every row is in it
        marks.append(Marks(alone, public_secret(party, PACKED, np.full((len(alone), packed), 255, np.uint8))))
    if owners:
        shared = share_each(party, owners, PACKED, (most, packed), mine)
        holders = party.roster.holders
        marks += [Marks(of[m], shared[i, : len(of[m])], m in holders) for i, m in enumerate(owners)]
    return marks


def _all_of(party: Party, marks: list[Marks]) -> Marks:
    """Return the AND over the owners, leaf by leaf, in a binary tree of rounds: one-hot over the leaves of a tree."""
    while len(marks) > 1:
        pairs = [(marks[i], marks[i + 1]) for i in range(0, len(marks) - 1, 2)]
        shared = [np.intersect1d(a.leaves, b.leaves, assume_unique=True) for a, b in pairs]
        batch = [
            [Product((a.bits[_index(a, both)], b.bits[_index(b, both)]))]
            for (a, b), both in zip(pairs, shared, strict=True)
            if len(both)
        ]
        products = iter(sums_of_products(party, batch, name="and")) if batch else iter(())
        merged = []
        for (a, b), both in zip(pairs, shared, strict=True):
            only_a, only_b = np.setdiff1d(a.leaves, b.leaves), np.setdiff1d(b.leaves, a.leaves)
            pieces = [next(products)] if len(both) else []
            pieces += [a.bits[_index(a, only_a)]] if len(only_a) else []
            pieces += [b.bits[_index(b, only_b)]] if len(only_b) else []
            merged.append(Marks(np.concatenate([both, only_a, only_b]), concatenate(pieces, axis=0), owned=False))
        marks = merged + marks[2 * len(pairs) :]
    return marks[0]


def _sum_weights(
    party: Party,
    groups: Sequence[tuple[int, Places, list[tuple[int, Places]]]],
    marks: Sequence[Marks],
    weights: Secret,
    classes: int,
    rows: int,
) -> Shares:
    """Return shares of the sums of the true leaves' weights, (classes, rows); all have marked those (Eq. 14)."""
    batch, class_of = [], []
    for k, where, by in groups:
        bits = tuple(_bit(marks[i], places, rows) for i, places in by)
        batch.append(BitProduct(bits, weights[where].reshape(-1, 1), axis=0))
        class_of.append(k)
    sums = [to_shares(party, public_secret(party, VECTOR, np.zeros((1, rows), np.int64))) for _ in range(classes)]
    for first in range(0, len(batch), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        for k, part in zip(class_of[some], shares_of_bit_products(party, batch[some], "leaf sums"), strict=True):
            sums[k] = sums[k] + part.reshape(1, rows)
    return concatenate_shares(sums, axis=0)


def _groups(used: Used, marks: Sequence[Marks]) -> Iterator[tuple[int, Places, list[tuple[int, Places]]]]:
    """Yield `Groups` of some marks, by the first leaf."""
    class_of = np.repeat([o.class_index for _, o in used], [o.leaves for _, o in used])
    marked = np.zeros((len(marks), len(class_of)), bool)
    for own, some in zip(marked, marks, strict=True):
        own[some.leaves] = True
    group = class_of
    for own in marked:
        group = np.unique(2 * group + own, return_inverse=True)[1]
    firsts = np.sort(np.unique(group, return_index=True)[1])
    for first in firsts.tolist():
        where = np.flatnonzero(group == group[first])
        by = np.flatnonzero(marked[:, first]).tolist()
        yield int(class_of[first]), where, [(i, _index(marks[i], where)) for i in by]


def _bit(marks: Marks, places: Places, rows: int) -> Bit:
    """Return some of the marks as one bit per leaf and row."""
    some = marks.bits[places]
    return Bit(Secret(unpack(some.masked, rows), unpack(some.mask, rows)), marks.owned)


def _count_leaves(used: Used) -> int:
    return sum(o.leaves for _, o in used)


def _leaves_where(is_wanted: Sequence[bool], used: Used) -> Places:
    """Return the leaves of the trees that are wanted, counted over all trees in use."""
    return np.flatnonzero(np.repeat(is_wanted, [o.leaves for _, o in used]))


def _index(marks: Marks, wanted: Places) -> Places:
    """Return where some leaves are among those that are marked."""
    order = np.argsort(marks.leaves, kind="stable")
    return order[np.searchsorted(marks.leaves, wanted, sorter=order)]


_SIZES = (
    ("rows to score", 0, MOST_ROWS),
    ("trees", 1, MOST_TREES),
    ("trees of a class in use", 0, MOST_TREES),
    ("holders of shares", 0, 1),
    ("takers of all trees", 0, 1),
)
_OTHER_TREES = "the participants' models do not have the same trees; do they come from the same training?"


@dataclass(frozen=True, slots=True)
class Agreed:
    """What all roles know before rows are scored; `shared` says that all participants hold shares of the weights."""

    rows: int
    outlines: list[Outline]
    shared: bool


def agree(party: Party, classes: int, scorer: Scorer | None, rounds: int | None) -> Agreed:
    """Agree on rows, trees and who holds the weights; `rounds`, the active participant's, limits the trees in use.

    Everyone's model and table decide: it finds its own words in what it receives (`tell_everyone`), and all agree.
    Rounds: 2. Reveals: ROWS_TO_SCORE and TREE_SHAPE to everyone.
    """
    mine = None
    if scorer is not None:
        mine = [scorer.table.rows, len(scorer.trees), 0 if rounds is None else rounds * scorer.parallel]
        mine += [int(scorer.holds_shares), int(scorer.takes_all)]
    announced = party.tell_everyone(Entry.ROWS_TO_SCORE, mine, (len(_SIZES),))
    check_announced(party, Entry.ROWS_TO_SCORE, announced, *_SIZES)
    rows, trees, limits, shared, takes_all = announced.T
    if len(set(rows)) > 1:
        counts = ", ".join(f"{n} {c}" for n, c in zip(party.roster.owner_names, rows, strict=True))
        text = f"the participants bring different numbers of rows to score ({counts}); align the tables first"
        raise UserError(text, "mismatch", "rows")
    if any(len(set(column)) > 1 for column in (trees, shared, takes_all)):
        raise UserError(_OTHER_TREES, "mismatch", "training")
    limit = int(limits[0]) * classes or int(trees[0])
    if takes_all[0] and limit != trees[0]:  # everybody sees to that, since it is everybody's model
        text = (
            f"{party.roster.name(ACTIVE)} asks for the sum of {limit} of {trees[0]} trees; a model of "
            "security='sealed' tells sums over all its trees only, for the difference of two would give trees away"
        )
        raise UserError(text, "mode", "iteration_range", limit)
    check_numbers(party, ACTIVE, [limit], ("trees in use", 1, int(trees[0])))
    numbers = None
    if scorer is not None:
        outlines = [
            outline(tree, i // scorer.parallel % classes, party.owner) for i, tree in enumerate(scorer.trees[:limit])
        ]
        numbers = [_to_numbers(o, party.roster.owners) for o in outlines]
    public = party.tell_everyone(Entry.TREE_SHAPE, numbers, (limit, 2 + len(party.roster.owners)))
    if (public != public[0]).any():
        raise UserError(_OTHER_TREES, "mismatch", "training")
    _check_outlines(party, public[0], classes)
    return Agreed(int(rows[0]), [_from_numbers(row) for row in public[0]], bool(shared[0]))


def _check_outlines(party: Party, trees: npt.NDArray[np.int64], classes: int) -> None:
    """Raise FrameError unless all trees are of classes that there are, and have as many leaves as there may be."""
    kinds, leaves, owns = trees[:, 0], trees[:, 1], trees[:, 2:]
    if not ((kinds >= 0) & (kinds < classes)).all() or (leaves < 1).any() or ((owns < 0) | (owns > 1)).any():
        raise FrameError(f"{party.roster.name(ACTIVE)} announced trees that no model has", parameter="trees")
    check_numbers(party, ACTIVE, [sum(leaves.tolist())], ("leaves", 1, MOST_LEAVES))


def _to_numbers(o: Outline, owners: Sequence[int]) -> list[int]:
    return [o.class_index, o.leaves, *(int(m in o.owners) for m in owners)]


def _from_numbers(numbers: npt.NDArray[np.int64]) -> Outline:
    class_index, leaves, *owns = numbers.tolist()
    return Outline(class_index, leaves, tuple(m for m, owner in enumerate(owns, 1) if owner))
