"""A round of `security="paper"` around its trees: one scale for all rounds; what trees predict is restored at P_1."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.active import Active
from mpfedxgb.boosting.model import keep_trees
from mpfedxgb.boosting.objective import Gradients
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.data.binning import Candidates
from mpfedxgb.data.table import Table
from mpfedxgb.errors import DoesNotFitError, UserError
from mpfedxgb.modes.mode import RoundGradients, Setup
from mpfedxgb.modes.paper.tree import (
    SPARE_BITS,
    FeatureIndex,
    LeafRules,
    best_splits,
    index_features,
    leaf_bits,
    secure_leaf_weight,
)
from mpfedxgb.modes.strict.labels import share_gradients
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.opening import open_masked
from mpfedxgb.protocols.secret import Shares
from mpfedxgb.tree.grow import FindSplits, Grown
from mpfedxgb.tree.leaf import WEIGHT_BITS, record_own_paths
from mpfedxgb.tree.nodes import Leaf, Scorer, Tree
from mpfedxgb.tree.predict import predict_rows

_KEPT_BITS = 44
"""Bits of a kept weight, for the largest there can be in regression."""


@dataclass(frozen=True, slots=True, eq=False)
class Paper:
    """The numbers of the descent, the features by index, and this role's training and evaluation rows, to be scored."""

    leaf_rules: LeafRules
    features: FeatureIndex
    all_rows: Table | None = field(repr=False)


def _of(setup: Setup) -> Paper:
    assert isinstance(setup.state, Paper)
    return setup.state


def begin(party: Party, setup: Setup) -> Paper:
    """Index the features. Reveals: what `index_features` tells."""
    sizes, mine = setup.data.sizes, setup.mine
    with party.phase("setup"):
        features = _index_features(party, setup.data.candidates)
    rules = leaf_rules(setup.params, setup.plan, sizes.rows, party.roster.size)
    return Paper(rules, features, None if mine is None else mine.table.followed_by(mine.evaluation))


def _index_features(party: Party, candidates: Candidates | None) -> FeatureIndex:
    per_feature: list[int] = []
    if candidates is not None:
        per_feature = np.bincount(candidates.features, minlength=len(candidates.bins.counts)).tolist()
    return index_features(party, per_feature)


def plan(params: TrainParams, rows: int) -> scales.ScalePlan:
    """Return the public widths of a training: Eq. 7 and the descent to the leaf weights need more than the gains."""

    def wider(rows: int, g_cap: int, h_cap: int, lam: int) -> int:
        denominator = (rows * h_cap // 2 + lam + 1) ** 4  # H_L1 H_L2 H_R1 H_R2 of Eq. 7
        return max(denominator.bit_length() + 1, leaf_bits(_leaf_rules(params, rows, g_cap, h_cap, lam)))

    return scales.plan(params, rows, wider)


def leaf_rules(params: TrainParams, public: scales.ScalePlan, rows: int, participants: int) -> LeafRules:
    """Return the numbers of the descent to the leaf weights, in the paper's way."""
    if 2 * public.lam_cap < participants:
        text = (
            f"reg_lambda={params.reg_lambda:g} is too small to hide anything among {participants} participants in "
            "security='paper'; raise it"
        )
        raise DoesNotFitError(text, parameter="reg_lambda", value=params.reg_lambda)
    rules = _leaf_rules(params, rows, public.g_cap, public.h_cap, public.lam_cap)
    largest = min(rules.largest_weight, (rules.largest_sum << rules.f_h) // rules.lam + 1) << SPARE_BITS >> rules.shift
    if Fraction(params.learning_rate) * largest >= 1 << scales.SUM_BITS:
        text = (
            f"with {rows} rows, reg_lambda={params.reg_lambda:g} and learning_rate={params.learning_rate:g} a leaf "
            "weight may be beyond 2^30 in security='paper'; raise reg_lambda or lower the learning rate"
        )
        raise DoesNotFitError(text, parameter="reg_lambda", value=params.reg_lambda)
    return rules


def _leaf_rules(params: TrainParams, rows: int, g_cap: int, h_cap: int, lam: int) -> LeafRules:
    f_g, f_h = params.scale_policy.f_g, params.scale_policy.f_h
    assert f_h is not None, "the paper's algorithms know the scale of h"
    if f_g is not None:
        largest, epsilon, shift = rows * g_cap << f_h, params.leaf_epsilon * 2**f_g, f_g + SPARE_BITS - WEIGHT_BITS
    else:  # h = 1, so no weight is larger than the largest g; at the scale chosen that is above g_cap / 4
        largest, epsilon = g_cap, params.leaf_epsilon * g_cap / 4
        shift = max(0, g_cap.bit_length() + SPARE_BITS - _KEPT_BITS)
    return LeafRules(
        f_h=f_h,
        lam=lam,
        largest_sum=rows * g_cap,
        largest_weight=largest,
        epsilon=epsilon,
        step_bits=min(61, (rows * h_cap + 3 * lam).bit_length() + 8),
        shift=shift,
        learning_rate=params.learning_rate,
    )


def choose_scale(active: Active, t: int, inside: Gradients, every: Gradients) -> scales.Scale:
    """Return the scale of all rounds, chosen in the first; rows count too that the first sample leaves out."""
    if t == 0:
        return scales.choose_scale(active.params, active.plan, *every, active.sizes.rows, spare=1)
    if np.abs(inside[0]).max() > np.ldexp(float(active.plan.g_cap), -active.scale.f_g):
        text = (
            "a residual has more than doubled since the first boosting round, for which security='paper' has no room; "
            "lower learning_rate, or use security='strict'"
        )
        raise UserError(text, "range", "residual")
    return active.scale


def gradients(party: Party, setup: Setup, t: int) -> RoundGradients:
    """Share the gradients of the round as in the strict way, at the one scale."""
    return share_gradients(party, setup, t, choose_scale)


def find_splits(setup: Setup) -> FindSplits:
    """Return how splits are found: with the features by index."""
    return partial(best_splits, features=_of(setup).features)


def leaf_scale_bits(setup: Setup) -> int:
    """Return the scale of the kept leaf weights as far as this role knows it."""
    if setup.active is None:
        return WEIGHT_BITS
    return setup.active.scale.f_g + SPARE_BITS - _of(setup).leaf_rules.shift


def update(party: Party, setup: Setup, grown: Grown, t: int) -> list[Tree]:
    """Return the kept trees of round t, with shares of leaf weights: P_1 learns what the trees predict for each row.

    SecureLeafWeight, then SecurePredict over the training and evaluation rows, restored at P_1.
    """
    assert grown.totals is not None
    state = _of(setup)
    weights = secure_leaf_weight(party, grown.totals, setup.rules.ring, state.leaf_rules, str(t))  # Algorithm 3, 5, 43
    leaves = None if party.is_symbolic else [Leaf(None, share=int(share)) for share in weights.part.decode()]
    kept = keep_trees(party.owner, grown.trees, setup.data.candidates, leaves)  # 11
    with party.phase("update"):
        predictions = _predict(party, setup, grown, kept, weights)  # 7
        for tree in grown.trees:
            record_own_paths(party, tree)
    if setup.active is not None and predictions is not None:  # 8
        setup.active.add(predictions, leaf_scale_bits(setup))  # 9
    return kept


def _predict(
    party: Party, setup: Setup, grown: Grown, kept: list[Tree], shares: Shares
) -> npt.NDArray[np.int64] | None:
    """Return what each tree predicts for every row, (trees, rows), to P_1 (section 4.5)."""
    all_rows = _of(setup).all_rows
    used = [(k, tree.outline(k)) for k, tree in enumerate(grown.trees)]
    places = np.array([place for tree in grown.trees for place in tree.leaf_places()])
    party.step("kept shares")
    weights = open_masked(party, shares[places])
    scorer = None if all_rows is None else Scorer(kept, all_rows, holds_shares=True)
    return predict_rows(party, scorer, used, weights, len(used), setup.data.sizes.all_rows, Entry.LEAF_MEMBERSHIP)
