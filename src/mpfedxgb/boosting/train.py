"""SecureTrain: the loop over rounds (Algorithm 1), and what the active participant does between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.active import Active, Labels
from mpfedxgb.boosting.checkpoint import Progress, State
from mpfedxgb.boosting.model import Feature, PartialModel, keep_trees
from mpfedxgb.boosting.sampling import column_sample
from mpfedxgb.config import TrainParams
from mpfedxgb.data.binning import bin_table
from mpfedxgb.data.candidates import Candidates
from mpfedxgb.data.table import Table
from mpfedxgb.errors import UserError
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.bits import Bit, share_bit
from mpfedxgb.protocols.opening import open_masked
from mpfedxgb.protocols.private_matrix import publish_matrix
from mpfedxgb.protocols.secret import Secret, concatenate, public_secret
from mpfedxgb.protocols.share import share
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import BIT, VECTOR, Ring, wide
from mpfedxgb.tree.grow import Grown, grow
from mpfedxgb.tree.leaf import LEAF_MEMBERSHIP, WEIGHT_BITS, record_own_paths, reveal_leaves
from mpfedxgb.tree.level import Constants, Round, SplitData, TableSizes, TreeRules
from mpfedxgb.tree.nodes import Leaf, Tree
from mpfedxgb.tree.paper.leaf import SPARE_BITS, LeafRules, secure_leaf_weight
from mpfedxgb.tree.paper.split import index_features
from mpfedxgb.tree.predict import predict_rows
from mpfedxgb.tree.reachable import Scorer

TABLE_SIZES = "rows, evaluation rows and candidate columns"
NUMBER_OF_TREES = "number of trees"
ROUNDS_DONE = "rounds done before this attempt"


@dataclass(frozen=True, slots=True, eq=False)
class TrainData:
    """One participant's input: its training table, its evaluation tables, and the labels at the active one."""

    table: Table
    evaluation: Sequence[Table] = ()
    labels: Labels | None = None
    sample_key: str = field(default="", repr=False)


@dataclass(slots=True)
class TrainResult:
    """What a participant has after a training; the metrics are the active participant's."""

    model: PartialModel
    candidates: Candidates
    metrics: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    best_iteration: int | None = None


def secure_train(
    party: Party, params: TrainParams, data: TrainData | None, progress: Progress | None = None
) -> TrainResult | None:
    """Train on the joined tables of all participants; every role runs this, the coordinator without data (Alg. 1).

    With `progress`, at all roles or at none, each role keeps its state after every round, and training goes on from the
    last round that all participants have.
    """
    with party.phase("setup"):
        split_data, candidates = _set_up(party, params, data)
    plan = scales.plan(params, split_data.sizes.rows)
    rules = TreeRules(
        params.max_depth,
        wide(plan.limbs),
        params.min_child_weight > 0 or params.reg_lambda == 0,
        params.gamma <= scales.SMALLEST_GAMMA,
        params.first_layer_mask,
        params.is_paper,
    )
    all_rows = data.table.followed_by(data.evaluation) if data is not None and params.is_paper else None
    active = None
    if data is not None and data.labels is not None:
        active = Active(party, params, plan, data.labels, split_data.sizes, data.sample_key)
    begun = State(0) if progress is None else _last_common_state(party, progress)
    kept = list(begun.trees)
    if active is not None and begun.evaluation is not None:
        active.resume(begun.evaluation)
    with party.phase("train"):
        for t in range(begun.rounds, begun.rounds if begun.finished else params.n_estimators):  # 5
            party.on_progress(f"round {t + 1} of {params.n_estimators}")
            gh, constants = _share_gradients(party, params, plan, rules.ring, active, split_data.sizes, t)
            allowed = _share_sample(party, params, split_data, data, t)
            grown = grow(party, split_data, gh, Round(str(t), constants, allowed), rules)  # 6
            if params.is_paper:
                leaf_rules = scales.leaf_rules(params, plan, split_data.sizes.rows, party.roster.size)
                kept += _paper_update(party, rules, leaf_rules, grown, split_data, all_rows, active, t)  # 7-11
            else:
                members = reveal_leaves(party, grown, split_data.sizes)  # 7
                leaves = active.update(grown, members) if active is not None and members is not None else None  # 8-10
                kept += keep_trees(party.role, grown.trees, candidates, leaves)  # 11
            goes_on = active.report(t) if active is not None else True
            stops = params.may_stop_early and not party.broadcast(NUMBER_OF_TREES, [goes_on])[0]
            if progress is not None:
                evaluation = None if active is None else active.evaluation()
                progress.save(State(t + 1, stops, tuple(kept), evaluation))
            if stops:
                break
    if data is None or candidates is None:
        return None
    model = PartialModel(
        training=party.training,
        participant=party.role,
        participants=party.roster.participants,
        params=params,
        features=tuple(Feature(c.name, c.categories) for c in data.table.columns),
        trees=tuple(kept),
        base_margin=None if active is None else tuple(active.base.tolist()),
        best_iteration=None if active is None else active.best_iteration,
        weight_bits=_weight_bits(params, plan, split_data.sizes, active),
    )
    if active is None:
        return TrainResult(model, candidates)
    return TrainResult(model, candidates, active.metrics, active.best_iteration)


def _last_common_state(party: Party, progress: Progress) -> State:
    """Return this role's state after the last round that all participants have.

    Rounds: 1. Reveals: ROUNDS_DONE to everyone.
    """
    told = party.tell_everyone(ROUNDS_DONE, None if party.is_coordinator else [progress.newest()])
    rounds = int(told.min())
    state = State(rounds) if party.is_coordinator else progress.load(rounds)
    finished = party.broadcast(NUMBER_OF_TREES, [state.finished])[0]
    if rounds:
        party.on_progress(f"going on after round {rounds}")
    return replace(state, finished=bool(finished))


def _set_up(party: Party, params: TrainParams, data: TrainData | None) -> tuple[SplitData, Candidates | None]:
    """Bin the own table, tell the sizes, publish the candidate columns."""
    candidates, mine = None, None
    if data is not None:
        candidates = Candidates(bin_table(data.table, params.max_bin, params.binning))
        mine = [data.table.rows, sum(t.rows for t in data.evaluation), len(candidates)]
    told = party.tell_everyone(TABLE_SIZES, mine)
    rows, eval_rows, columns = told.T.tolist()
    for what, counts in (("training", rows), ("evaluation", eval_rows)):
        if len(set(counts)) > 1:
            listed = ", ".join(f"{n} {c}" for n, c in zip(party.roster.participants, counts, strict=True))
            raise UserError(
                f"the participants bring different numbers of {what} rows ({listed}); align the tables first"
            )
    sizes = TableSizes(rows[0], eval_rows[0], tuple(columns))
    matrices = tuple(
        publish_matrix(party, m, sizes.columns[m - 1], sizes.rows, candidates if party.role == m else None)
        for m in sizes.owners
    )
    evaluation = tuple(data.evaluation) if data is not None else ()
    features = None
    if params.is_paper:
        per_feature: list[int] = []
        if candidates is not None:
            per_feature = np.bincount(candidates.features, minlength=len(candidates.bins.counts)).tolist()
        features = index_features(party, per_feature)
    return SplitData(sizes, matrices, candidates, evaluation, features), candidates


def _paper_update(
    party: Party,
    rules: TreeRules,
    leaf_rules: LeafRules,
    grown: Grown,
    data: SplitData,
    all_rows: Table | None,
    active: Active | None,
    t: int,
) -> list[Tree]:
    """Return the kept trees of a round, with shares of their leaf weights, after P_1 has updated its margins.

    SecureLeafWeight, then SecurePredict over the training and evaluation rows, restored at P_1 (Algorithm 1, 7-9).
    """
    assert grown.totals is not None
    shares = secure_leaf_weight(party, grown.totals, rules.ring, leaf_rules, str(t))
    leaves = None
    if not party.is_coordinator:
        leaves = [Leaf(None, share=int(share)) for share in shares.part.decode()]
    kept = keep_trees(party.role, grown.trees, data.candidates, leaves)
    with party.phase("update"):
        used = [(k, tree.outline(k)) for k, tree in enumerate(grown.trees)]
        places = np.array([place for tree in grown.trees for place in tree.leaf_places()])
        party.step("kept shares")
        weights = open_masked(party, shares[places])
        scorer = None if all_rows is None else Scorer(kept, all_rows, holds_shares=True)
        sums = predict_rows(party, scorer, used, weights, len(used), data.sizes.all_rows, LEAF_MEMBERSHIP)
        for tree in grown.trees:
            record_own_paths(party, tree)
    if active is not None and sums is not None:
        active.add(sums, active.scale.f_g + SPARE_BITS - leaf_rules.shift)
    return kept


def _weight_bits(params: TrainParams, plan: scales.Plan, sizes: TableSizes, active: Active | None) -> int:
    """Return the scale of the kept leaf weights, as far as this role knows it."""
    if active is None or not params.is_paper:
        return WEIGHT_BITS
    rules = scales.leaf_rules(params, plan, sizes.rows, len(sizes.columns))
    return active.scale.f_g + SPARE_BITS - rules.shift


def _share_gradients(
    party: Party, params: TrainParams, plan: scales.Plan, ring: Ring, active: Active | None, sizes: TableSizes, t: int
) -> tuple[Secret, Constants]:
    """Share g and h of the round (Algorithm 2, lines 4-7), and the constants that depend on their scale."""
    with party.phase("gradients"):
        values = None if active is None else RingArray.encode(VECTOR, active.integers(t))
        gh = share(party, ACTIVE, VECTOR, (params.trees_per_round, 2, sizes.rows), values)
        if not plan.is_private:
            assert plan.f_g is not None
            assert plan.f_h is not None
            c = scales.scale(params, plan, sizes.rows, plan.f_g, plan.f_h)
            return gh, Constants(*(public_secret(party, r, np.array(v, object)) for r, v in _constants(ring, c)))
        if active is None:
            return gh, Constants(*(share(party, ACTIVE, r, ()) for r in (ring, ring, VECTOR)))
        return gh, Constants(
            *(
                share(party, ACTIVE, r, (), RingArray.encode(r, np.array(v, object)))
                for r, v in _constants(ring, active.scale)
            )
        )


def _constants(ring: Ring, scale: scales.Scale) -> list[tuple[Ring, int]]:
    return [(ring, scale.lam), (ring, scale.gam), (VECTOR, scale.mcw)]


def _share_sample(
    party: Party, params: TrainParams, split_data: SplitData, data: TrainData | None, t: int
) -> Bit | None:
    """Share which candidates take part in each tree of the round; every owner samples its own features, in private."""
    if params.colsample_bytree == 1:
        return None
    pieces = []
    for owner in split_data.sizes.owners:
        bits = None
        if party.role == owner and split_data.candidates is not None and data is not None:
            bits = RingArray.encode(BIT, column_sample(party, params, split_data.candidates, data.sample_key, t))
        shape = (params.trees_per_round, split_data.sizes.columns[owner - 1])
        pieces.append(share_bit(party, owner, shape, bits).secret)
    return Bit(concatenate(pieces), owned=True)
