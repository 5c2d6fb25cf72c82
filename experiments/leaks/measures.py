"""How well each attack of attacks.py does: on a training, and by chance, without any transcript.

What a strict training does not show is replaced by the masked numbers that the same role holds at the same places.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from experiments.leaks import attacks
from experiments.leaks.transcripts import Brackets, Floats, Ints, Place, RecordedTraining, Words, brackets
from mpfedxgb.boosting.objectives import OBJECTIVES
from mpfedxgb.modes.paper.labels import leaf_rules, plan
from mpfedxgb.party import ACTIVE
from mpfedxgb.party.entries import Entry
from mpfedxgb.ring.array import unpack_data

P_2, P_3 = 2, 3
BITS = {name: o.paper_scale.f_h or 0 for name, o in OBJECTIVES.items() if o.paper_scale is not None}
"""Fractional bits of h, and for log-loss of g too."""


def sizes_of(training: RecordedTraining) -> list[int]:
    """Return the candidates of each feature, all participants' features in order (public in paper mode)."""
    return [size for mine in training.sizes for size in mine]


def laid_out(training: RecordedTraining, role: int) -> Brackets:
    """Return a role's transcript, node by node."""
    return brackets(training.transcripts[role], sizes_of(training), training.params)


def others_candidates(training: RecordedTraining, role: int) -> list[int]:
    """Return the candidates that are not one's own."""
    return np.flatnonzero(training.owners != role).tolist()


def order_of_gains(training: RecordedTraining, role: int = P_3) -> tuple[float, float]:
    """Return the share of ordered pairs of candidates that are in the true order of gains; ties do not count."""
    gains, right, wrong = training.gains(), 0, 0
    for node in laid_out(training, role).nodes:
        better, worse = gains[node.place][np.array(attacks.order_of_gains(node)).T]
        apart = np.abs(better - worse) > 1e-6 * better
        right += int((apart & (better > worse)).sum())
        wrong += int((apart & (better < worse)).sum())
    return right / (right + wrong), 0.5


def strength_of_columns(training: RecordedTraining) -> tuple[float, float]:
    """Return the rank correlation of a column's wins with its best gain, over nodes."""
    gains, sizes = training.gains(), sizes_of(training)
    ends = np.cumsum(sizes)
    correlations = []
    for node in laid_out(training, P_3).nodes:
        best = [gains[node.place][end - size : end].max() for end, size in zip(ends, sizes, strict=True)]
        wins = attacks.strength_of_features(node, sizes)
        correlations.append(np.corrcoef(pd.Series(wins).rank(), pd.Series(best).rank())[0, 1])
    return float(np.mean(correlations)), 0.0


def rows_left_of_thresholds(training: RecordedTraining) -> tuple[float, float]:
    """Return the share of others' candidates, over nodes, whose number of rows on the left P_1 knows exactly.

    Without a claim, and by chance, P_1 takes the bins to be equally full.
    """
    bits, sizes, n = training.bits, sizes_of(training), len(training.labels.y)
    one = 1 << BITS[training.params.objective]
    logistic = training.params.objective == "binary:logistic"
    nodes = [node for node in laid_out(training, ACTIVE).nodes if not logistic or node.place[0] == 0]
    found = attacks.rows_left_of_thresholds(nodes, sizes, n, one // 4 if logistic else one, one)
    share = np.concatenate([np.arange(1, size + 1) / (size + 1) for size in sizes])
    mine = others_candidates(training, ACTIVE)
    known, lucky = [], []
    for node in nodes:
        here = training.rows[node.place]
        true, equal = bits @ here, np.rint(share * here.sum())
        claims = found.get(node.place, {})
        known += [claims.get(c, equal[c]) == true[c] for c in mine]
        lucky += [equal[c] == true[c] for c in mine]
    return float(np.mean(known)), float(np.mean(lucky))


def step_bits(training: RecordedTraining) -> int:
    """Return the bits of a step size, which follow from public numbers."""
    params, rows = replace(training.params, security="paper"), len(training.labels.y)
    return leaf_rules(params, plan(params, rows), rows, len(training.tables)).step_bits


def rows_of_leaves(training: RecordedTraining) -> tuple[float, float]:
    """Return the share of leaves whose number of rows an auxiliary knows exactly; by chance, all leaves are alike."""
    seen, n, one = training.transcripts[P_3], len(training.labels.y), 1 << BITS[training.params.objective]
    bits, masked = step_bits(training), iter(seen.masked_numbers)
    steps = seen.values(Entry.STEP_SIZE) if training.params.facts.opens_comparisons else None
    known, lucky = [], []
    for t, leaves in enumerate(laid_out(training, P_3).leaves):
        true = np.array([training.rows[t, leaf].sum() for leaf in leaves])
        step = [1 + next(masked) % (1 << bits) for _ in leaves] if steps is None else steps[t].tolist()
        known += (np.rint(attacks.rows_of_leaves(step, bits, one, one)[1]) == true).tolist()
        lucky += [round(n / len(leaves)) == rows for rows in true.tolist()]
    return float(np.mean(known)), float(np.mean(lucky))


def own_features(training: RecordedTraining, role: int) -> list[list[int]]:
    """Return the candidates of each of a participant's own features."""
    first = int(np.flatnonzero(training.owners == role)[0])
    ends = np.cumsum(training.sizes[role - 1]) + first
    return [list(range(end - size, end)) for end, size in zip(ends.tolist(), training.sizes[role - 1], strict=True)]


def label_counts(training: RecordedTraining) -> tuple[int, dict[int, int]] | None:
    """Return what P_2 finds out about the labels."""
    own = np.flatnonzero(training.owners == P_2)
    left = dict(zip(own.tolist(), training.bits[own].sum(axis=1).tolist(), strict=True))
    n, mean = len(training.labels.y), training.labels.base_score is None
    return attacks.labels_left_of_thresholds(
        laid_out(training, P_2).nodes[0],
        own_features(training, P_2),
        left,
        n,
        training.params.reg_lambda,
        1 << 5 * BITS["binary:logistic"],
        (lambda positives: positives / n) if mean else (lambda positives: 0.5),
    )


def labels_left_of_thresholds(training: RecordedTraining) -> tuple[float, float]:
    """Return the share of P_2's own candidates for which it knows how many positive labels are on the left.

    By chance, even if told the share of positives, it takes that to be the same everywhere.
    """
    own, y = np.flatnonzero(training.owners == P_2), training.labels.y
    true, left = training.bits[own] @ y, training.bits[own].sum(axis=1)
    found = label_counts(training)
    claims = {} if found is None else found[1]
    known = [claims.get(c, -1) == count for c, count in zip(own.tolist(), true, strict=True)]
    return float(np.mean(known)), float(np.mean(np.rint(left * y.mean()) == true))


def bins_of_labels(training: RecordedTraining) -> tuple[Ints, list[Ints], list[Ints], int] | None:
    """Return the bins of P_2's own columns, the rows and the positive labels it finds in each, and all positives."""
    found = label_counts(training)
    if found is None:
        return None
    positives, claims = found
    left, n = training.bits.sum(axis=1), len(training.labels.y)
    features = own_features(training, P_2)
    solved = [j for j, feature in enumerate(features) if all(c in claims for c in feature)]
    rows = [np.diff([0, *left[features[j]], n]) for j in solved]
    ones = [np.diff([0, *(claims[c] for c in features[j]), positives]) for j in solved]
    return training.candidates[P_2 - 1].bins.codes[solved].astype(np.int64), rows, ones, positives


def labels_for_certain(training: RecordedTraining) -> tuple[float, float]:
    """Return the share of rows whose label P_2 knows for certain: those in a bin whose labels are all alike."""
    found, y = bins_of_labels(training), training.labels.y
    known = np.zeros(len(y), bool)
    if found is not None:
        for code, rows, ones in zip(*found[:3], strict=True):
            pure = ((ones == 0) | (ones == rows))[code]
            known |= pure & (y == (ones > 0)[code])
    return float(known.mean()), 0.0


def labels_by_guess(training: RecordedTraining) -> tuple[float, float]:
    """Return the share of rows whose label P_2 guesses right; by chance it names the larger class."""
    found, y = bins_of_labels(training), training.labels.y
    if found is None:
        return float(y.mean()), float(y.mean())
    codes, rows, ones, positives = found
    return float((attacks.guess_labels(codes, ones, rows, positives) == y).mean()), float(y.mean())


def candidates_of_splits(training: RecordedTraining, role: int) -> dict[Place, int]:
    """Return which candidate splits each node, to the eyes of one role."""
    nodes = [node for node in laid_out(training, role).nodes if node.children is not None]
    if training.params.facts.opens_comparisons:
        return {node.place: node.best for node in nodes}
    tags = training.transcripts[role].values(Entry.TREE_SHAPE)[::2]  # each followed by the owners alone
    read = attacks.candidates_from_tags(tags, [sum(mine) for mine in training.sizes])
    return dict(zip((node.place for node in nodes), read, strict=True))


def columns_of_splits(training: RecordedTraining) -> tuple[float, float]:
    """Return the share of others' splits of which P_2 knows column and bucket; by chance, one of the owner's."""
    read = candidates_of_splits(training, P_2)
    theirs = [place for place, best in training.best.items() if training.owners[best] != P_2]
    columns = np.bincount(training.owners)
    chance = [1 / columns[training.owners[training.best[place]]] for place in theirs]
    return float(np.mean([read[place] == training.best[place] for place in theirs])), float(np.mean(chance))


def leaves_of_rows(training: RecordedTraining) -> list[Ints | None]:
    """Return, tree by tree, the leaf of every row, as P_1 knows it."""
    seen, rows = training.transcripts[ACTIVE], len(training.labels.y)
    if training.params.facts.hides_rows:
        laid = laid_out(training, ACTIVE).leaves
        return [
            attacks.leaves_from_masked_margins(one, len(leaves))
            for one, leaves in zip(_masked(seen.masked_margins, "margins"), laid, strict=True)
        ]
    if not training.params.facts.opens_comparisons:
        packed = seen.as_shown(Entry.LEAF_MEMBERSHIP)
        return [np.argmax(unpack_data(leaves.data, rows), axis=0) for leaves in packed]
    h = np.full(rows, 1 << BITS["reg:squarederror"])
    restored = seen.values(Entry.STEP_SIZE)[::2]  # each followed by the step sizes, as broadcast
    return [
        attacks.leaves_from_predictions(sums[0], sizes, h)
        for sums, sizes in zip(seen.values(Entry.LEAF_MEMBERSHIP), restored, strict=True)
    ]


def _masked(found: list[Words], what: str) -> list[Words]:
    if not found:
        raise LookupError(f"the transcript has no masked {what}; look for the step that opens them")
    return found


def labels_by_gradients(training: RecordedTraining) -> tuple[float, float]:
    """Return the share of rows, over trees, whose label P_2 reads off the gradients as it holds them, masked.

    The sign of a gradient is that of its label. By chance, it names the larger class; better or worse, it turns round.
    """
    y = training.labels.y > 0
    seen = _masked(training.transcripts[P_2].masked_gradients, "gradients")
    right = float(np.mean([(attacks.labels_from_gradients(gh[0]) == y).mean() for gh in seen]))
    return max(right, 1 - right), float(max(y.mean(), 1 - y.mean()))


def order_of_rows(training: RecordedTraining) -> tuple[float, float]:
    """Return the share of pairs of rows that P_1 puts in the right order of a named column of an auxiliary."""
    sizes = sizes_of(training)
    low, high = attacks.bounds_on_buckets(
        laid_out(training, ACTIVE), leaves_of_rows(training), candidates_of_splits(training, ACTIVE), sizes
    )
    codes = np.concatenate([candidates.bins.codes for candidates in training.candidates]).astype(np.int64)
    right = wrong = 0
    for j in range(len(training.sizes[0]), len(sizes)):
        before = high[j][:, None] < low[j]
        right += int((before & (codes[j][:, None] < codes[j])).sum())
        wrong += int((before & (codes[j][:, None] > codes[j])).sum())
    return right / (right + wrong), 0.5


def sides_of_splits(training: RecordedTraining) -> tuple[float, float]:
    """Return the share of rows that P_1 puts on the right side of auxiliaries' splits, whatever it is called."""
    sides = attacks.sides_of_splits(laid_out(training, ACTIVE), leaves_of_rows(training))
    known, lucky = [], []
    for place, best in training.best.items():
        if training.owners[best] != ACTIVE:
            here = training.rows[place]
            true, mine = training.bits[best][here], sides[place][0][here]
            known.append(max((true == mine).mean(), (true != mine).mean()))
            lucky.append(max(true.mean(), 1 - true.mean()))
    return float(np.mean(known)), float(np.mean(lucky))


def chain_of_cuts(training: RecordedTraining) -> tuple[Floats, Floats]:
    """Return how P_1 ranks the rows by the longest chain of nested root splits of P_3, and the true column's bins."""
    sides = attacks.sides_of_splits(laid_out(training, ACTIVE), leaves_of_rows(training))
    roots = [p for p, best in training.best.items() if p[1] == 0 and training.owners[best] == P_3]
    chain = attacks.longest_chain([sides[place][0] for place in roots])
    cuts = {sides[place][0].tobytes(): training.best[place] for place in roots}
    cuts |= {(~sides[place][0]).tobytes(): training.best[place] for place in roots}
    features = training.candidates[P_3 - 1].features
    first = int(np.flatnonzero(training.owners == P_3)[0])
    column = int(np.bincount([features[cuts[one.tobytes()] - first] for one in chain]).argmax())
    bins = training.candidates[P_3 - 1].bins.codes[column].astype(np.float64)
    return np.sum(~np.array(chain), axis=0).astype(np.float64), bins


def order_by_nested_cuts(training: RecordedTraining) -> tuple[float, float]:
    """Return the share of the pairs of rows ordered by P_1 that follow the column's order, or else its reverse."""
    rank, bins = chain_of_cuts(training)
    before = rank[:, None] < rank
    right = int((before & (bins[:, None] < bins)).sum())
    wrong = int((before & (bins[:, None] > bins)).sum())
    return max(right, wrong) / (right + wrong), 0.5


def pairs_in_order(training: RecordedTraining) -> tuple[float, float]:
    """Return the share of all pairs of rows that this puts in the right order, less those in the wrong one."""
    rank, bins = chain_of_cuts(training)
    before, n = rank[:, None] < rank, len(rank)
    net = int((before & (bins[:, None] < bins)).sum()) - int((before & (bins[:, None] > bins)).sum())
    return abs(net) / (n * (n - 1) / 2), 0.0


def rows_of_own_leaves(training: RecordedTraining) -> tuple[float, float]:
    """Return the share of rows, over trees, of which P_3 knows who shares their leaf."""
    known = []
    for t, tree in enumerate(training.models[P_3 - 1].trees):
        leaves = attacks.rows_of_own_leaves(tree, training.tables[P_3 - 1])
        true = [rows.tobytes() for (of, _), rows in training.rows.items() if of == t]
        assert all(rows.tobytes() in true for rows in leaves)
        known.append(float(np.sum(leaves) / len(training.labels.y)) if leaves else 0.0)
    return float(np.mean(known)), 0.0
