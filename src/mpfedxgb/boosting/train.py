"""SecureTrain: the loop over rounds (Algorithm 1).

SecureFit: the gradients of a round are shared, and its trees grow from them (Algorithm 2).

Lines 7-11 of Algorithm 1 turn grown trees into kept trees and new margins, once in the strict way, once sealed, and
once as the paper has it; `UPDATES` names them by `security`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.active import Active
from mpfedxgb.boosting.callbacks import EvaluationState, Progress, State
from mpfedxgb.boosting.model import Feature, PartialModel, keep_trees
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.sampling import column_sample
from mpfedxgb.boosting.sealed.state import add_leaves, sealed_gradients
from mpfedxgb.boosting.setup import Setup, TrainData, set_up, state_of_model
from mpfedxgb.data.binning import Candidates
from mpfedxgb.errors import CheckpointError, RefusedError, SettingsError
from mpfedxgb.modes.facts import check_runs_a_protocol
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.handshake import check_flag, check_numbers, check_told
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE, Roster
from mpfedxgb.protocols.bits import Bit, share_bit
from mpfedxgb.protocols.opening import open_masked
from mpfedxgb.protocols.row_blocks import RowBlocks
from mpfedxgb.protocols.rows import RowVectors, masked_by
from mpfedxgb.protocols.secret import Secret, Shares, concatenate, public_secret, to_shares
from mpfedxgb.protocols.share import share_together
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.prg import digest
from mpfedxgb.ring.ring import BIT, PACKED, VECTOR
from mpfedxgb.tree.grow import Grown, grow
from mpfedxgb.tree.leaf import WEIGHT_BITS, record_own_paths, reveal_leaves, secure_leaf_weights
from mpfedxgb.tree.level import Constants, Level, Round
from mpfedxgb.tree.nodes import Leaf, Scorer, Tree
from mpfedxgb.tree.paper import secure_leaf_weight
from mpfedxgb.tree.predict import predict_rows


def secure_fit(party: Party, setup: Setup, t: int) -> Grown:
    """Return this role's view of the trees of round t: one, or one per class."""
    trees = setup.params.trees_per_round
    s = public_secret(party, PACKED, np.full((trees, setup.data.sizes.packed), 255, np.uint8))  # 3
    with party.phase("gradients"):
        gh, vectors, constants = _gradients(party, setup, t)  # 4-7
    round_ = Round(str(t), constants, _share_sample(party, setup, t))
    roots = Level([(tree, 0) for tree in range(trees)], s, gh, fresh=vectors)
    return grow(party, setup.data, roots, round_, setup.rules)  # 8-9


def _gradients(party: Party, setup: Setup, t: int) -> tuple[Secret, RowVectors, Constants]:
    """Return g~ and h~ of the round, and the constants at their scales: P_1's, or computed on secrets."""
    if setup.sealed is not None:
        key = "" if setup.mine is None else setup.mine.sample_key
        gh, vectors = sealed_gradients(party, setup.sealed, setup.params.subsample, key, t)
        return gh, vectors, setup.sealed.constants
    gh, constants = _share_gradients(party, setup, t)
    return gh, masked_by(party, ACTIVE, gh), constants


def _share_gradients(party: Party, setup: Setup, t: int) -> tuple[Secret, Constants]:
    """Share g~ and h~ of the round, (trees, 2, rows), and lambda~, gamma~ and min_child_weight~ at their scales.

    All of it is the active participant's secret, in one message; the constants are public where the scales are.
    """
    ring, shape = setup.rules.ring, (setup.params.trees_per_round, 2, setup.data.sizes.rows)
    values = None
    if setup.active is not None:  # 4
        values = [RingArray.encode(VECTOR, setup.active.integers(t))]  # 5
    known = scales.public_scale(setup.params, setup.plan, setup.data.sizes.rows)
    if known is not None:
        (gh,) = share_together(party, ACTIVE, [(VECTOR, shape)], values)  # 6
        public = scales.constants_of(ring, known)
        return gh, Constants(*(public_secret(party, r, np.array(v, object)) for r, v in public))
    if values is not None and setup.active is not None:
        values += [RingArray.encode(r, np.array(v, object)) for r, v in scales.constants_of(ring, setup.active.scale)]
    specs = [(VECTOR, shape), *((r, ()) for r, _ in scales.constants_of(ring, scales.UNKNOWN))]
    gh, *constants = share_together(party, ACTIVE, specs, values)  # 6
    return gh, Constants(*constants)


def _share_sample(party: Party, setup: Setup, t: int) -> Bit | None:
    """Share which candidates take part in each tree of the round; every owner samples its own features, in private."""
    params, sizes, candidates = setup.params, setup.data.sizes, setup.data.candidates
    if params.colsample_bytree == 1 or not sizes.owners:  # nobody may have anything to split by
        return None
    pieces = []
    for owner in sizes.owners:
        bits = None
        if party.role == owner and candidates is not None and setup.mine is not None:
            bits = RingArray.encode(BIT, column_sample(party, params, candidates, setup.mine.sample_key, t))
        shape = (params.trees_per_round, sizes.columns[owner - 1])
        pieces.append(share_bit(party, owner, shape, bits).secret)
    return Bit(concatenate(pieces), owned=True)


Update = Callable[[Party, Setup, Grown, int], list[Tree]]
"""From the grown trees of round t to what is kept of them; t labels private draws, of which the strict way has none."""


def strict_update(party: Party, setup: Setup, grown: Grown, t: int) -> list[Tree]:
    """Return the kept trees of round t: P_1 learns which rows share a leaf, and computes the weights alone."""
    members = reveal_leaves(party, grown, setup.data.sizes)  # 7
    leaves, gains = None, None
    if setup.active is not None and members is not None:  # 8
        leaves, gains = setup.active.update(
            grown.trees, [np.flatnonzero(m) for m in members]
        )  # 9, after Algorithm 3, lines 5 and 43
    return keep_trees(party.role, grown.trees, setup.data.candidates, leaves, gains)  # 11


def paper_update(party: Party, setup: Setup, grown: Grown, t: int) -> list[Tree]:
    """Return the kept trees of round t, with shares of leaf weights: P_1 learns what the trees predict for each row.

    SecureLeafWeight, then SecurePredict over the training and evaluation rows, restored at P_1.
    """
    assert grown.totals is not None
    assert setup.leaf_rules is not None
    weights = secure_leaf_weight(party, grown.totals, setup.rules.ring, setup.leaf_rules, str(t))  # Algorithm 3, 5, 43
    leaves = None if party.is_symbolic else [Leaf(None, share=int(share)) for share in weights.part.decode()]
    kept = keep_trees(party.role, grown.trees, setup.data.candidates, leaves)  # 11
    with party.phase("update"):
        predictions = _predict(party, setup, grown, kept, weights)  # 7
        for tree in grown.trees:
            record_own_paths(party, tree)
    if setup.active is not None and predictions is not None:  # 8
        setup.active.add(predictions, setup.weight_bits)  # 9
    return kept


def sealed_update(party: Party, setup: Setup, grown: Grown, t: int) -> list[Tree]:
    """Return the kept trees of round t, with shares of leaf weights; nobody learns anything of a training row."""
    sealed = setup.sealed
    assert sealed is not None
    weights = secure_leaf_weights(party, grown, sealed.constants, sealed.rules.division)
    shares, leaves = to_shares(party, weights).part, None
    if not shares.is_hidden:
        leaves = [Leaf(None, share=int(share)) for share in shares.decode()]
    kept = keep_trees(party.role, grown.trees, setup.data.candidates, leaves)  # 11
    with party.phase("update"):
        evaluated = add_leaves(party, sealed, grown, weights)  # 7-9
        for tree in grown.trees:
            record_own_paths(party, tree, knows_leaves=False)
    if setup.active is not None and evaluated is not None:
        setup.active.see_evaluation(evaluated, setup.weight_bits)
    return kept


def _predict(
    party: Party, setup: Setup, grown: Grown, kept: list[Tree], shares: Shares
) -> npt.NDArray[np.int64] | None:
    """Return what each tree predicts for every row, (trees, rows), to P_1 (section 4.5)."""
    used = [(k, tree.outline(k)) for k, tree in enumerate(grown.trees)]
    places = np.array([place for tree in grown.trees for place in tree.leaf_places()])
    party.step("kept shares")
    weights = open_masked(party, shares[places])
    scorer = None if setup.all_rows is None else Scorer(kept, setup.all_rows, holds_shares=True)
    return predict_rows(party, scorer, used, weights, len(used), setup.data.sizes.all_rows, Entry.LEAF_MEMBERSHIP)


UPDATES: dict[str, Update] = {"strict": strict_update, "sealed": sealed_update, "paper": paper_update}


@dataclass(slots=True)
class TrainResult:
    """What a participant has after a training; the metrics are the active participant's."""

    model: PartialModel
    candidates: Candidates
    metrics: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    best_iteration: int | None = None
    best_score: float | None = None


def secure_train(
    party: Party,
    params: TrainParams,
    data: TrainData | None,
    progress: Progress | None = None,
    held: RowBlocks | None = None,
    continues: bool = False,
    most_rounds: int | None = None,
) -> TrainResult | None:
    """Train on the joined tables of all participants; every role runs this, the coordinator without data.

    With `progress`, at all roles or at none, each role keeps its state after every round, and training goes on from the
    last round that all participants have. With `continues` it goes on from the model of which `data.start` is a part.
    `held` is where this role's row blocks live, in memory if it does not say. With `most_rounds` it ends after so many
    rounds of a training of more.
    """
    check_runs_a_protocol(params.facts, "a protocol")
    params.check_rules()
    if continues and params.facts.hides_rows:
        raise SettingsError("security='sealed' goes on from no model: somebody would have to know its margins")
    setup = set_up(party, params, data, held)  # 2, 4
    update = UPDATES[params.security]
    state = state_of_model(party, setup) if continues else _first_state(party, setup, progress)
    trees, mark, done = list(state.trees), state.mark, state.rounds  # 3
    last = params.n_estimators if most_rounds is None else most_rounds
    rounds = range(done, done if state.finished else last)
    if setup.active is not None and rounds:
        setup.active.labels.callbacks.begin(_part(party, setup, trees, mark), done, setup.active.metrics)
    with party.phase("train"):
        for t in rounds:  # 5
            party.observer.on_progress(f"round {t + 1} of {params.n_estimators}")
            grown = secure_fit(party, setup, t)  # 6
            trees += update(party, setup, grown, t)  # 7-11
            mark, done = _mark_after(party, params, mark), t + 1
            stops = _stops_early(party, setup, t, trees, mark)
            if progress is not None:
                party.observer.on_milestone(_latest_metrics(setup))  # first: a round that is kept is on the record
                kept = State(done, stops, trees, mark=mark, common=_common_after(setup, done))
                progress.save(_state_after(party, setup, kept))
            if stops:
                break
        trees = _trees_to_score(party, setup, trees, done)
    candidates = setup.data.candidates
    if candidates is None:
        return None
    return trained(_part(party, setup, trees, mark), candidates, setup.active)  # 13


def _first_state(party: Party, setup: Setup, progress: Progress | None) -> State:
    """Return where this role begins: before the first round, or after the last one that all participants have."""
    if progress is None:
        return State(0)
    state = _last_common_state(party, progress, setup.params.n_estimators)
    if setup.params.facts.shares_leaf_weights and state.rounds:
        _check_mark(party, state.mark)
    if setup.sealed is not None and state.rounds:
        setup.sealed.take_up(party, None if state.evaluation is None else state.evaluation.margins)
    if setup.active is not None and state.evaluation is not None:
        setup.active.resume(state.evaluation)
    return state


def _last_common_state(party: Party, progress: Progress, most: int) -> State:
    """Return this role's state after the last round that all participants have.

    Each tells the newest round that it has kept and the last that it knows all had. Nobody goes back before that: all
    refuse together, before any of them cuts a round off (see `common_round`).

    Rounds: 1. Reveals: ROUNDS_DONE to everyone.
    """
    mine = None if party.is_coordinator else [progress.newest(), progress.common()]
    told = party.tell_everyone(Entry.ROUNDS_DONE, mine, (2,))
    check_told(party, Entry.ROUNDS_DONE, told, ("rounds that are done", 0, most), ("rounds that all had", 0, most))
    newest, common = told.T.tolist()
    rounds = min(newest)
    if rounds < max(common):
        raise RefusedError(_went_back(party.roster, newest, max(common)))
    state = State(rounds) if party.is_coordinator else progress.load(rounds)
    finished = int(party.broadcast(Entry.NUMBER_OF_TREES, [state.finished])[0])
    check_flag(party, Entry.NUMBER_OF_TREES, finished)
    if rounds:
        party.observer.on_progress(f"going on after round {rounds}")
    return replace(state, finished=bool(finished))


def _went_back(roster: Roster, newest: Sequence[int], common: int) -> str:
    back = [f"{name} to {rounds}" for name, rounds in zip(roster.participants, newest, strict=True) if rounds < common]
    return (
        f"all participants had kept boosting round {common}, and now some went back: {', '.join(back)}; a round that "
        "all had is not made again. Put the newest checkpoints of that participant back; or begin again, with "
        "--restart at every participant, which each organisation decides for itself"
    )


def _common_after(setup: Setup, done: int) -> int:
    """Return the last round that all participants have kept when this role has done `done` rounds.

    It is the one before: to go through a round takes openings to which all contribute, each when its round before is
    kept. Without candidates a strict tree is a leaf, and auxiliaries hear from P_1 alone what it computed a round ago.
    """
    in_step = setup.data.matrices or setup.params.facts.shares_leaf_weights or setup.active is not None
    return max(0, done - (1 if in_step else 2))


def _mark_after(party: Party, params: TrainParams, before: str) -> str:
    """Return what tells the shares of this attempt's round, after those before it, from all others."""
    return digest(before.encode(), party.attempt.encode()).hex()[:32] if params.facts.shares_leaf_weights else ""


def _check_mark(party: Party, mark: str) -> None:
    """Stop everyone where kept shares are of different attempts, as after a copy was put back: their sum is nothing.

    Rounds: 1. Reveals: ROUNDS_DONE to everyone.
    """
    mine = None if party.is_coordinator else [int.from_bytes(digest(mark.encode())[:8], "little", signed=True)]
    told = party.tell_everyone(Entry.ROUNDS_DONE, mine)[:, 0]
    others = [name for name, number in zip(party.roster.participants, told, strict=True) if number != told[0]]
    if others:
        raise CheckpointError(
            f"{', '.join(others)} and {party.roster.name(ACTIVE)} have kept rounds of different attempts, and shares "
            "of one do not fit those of another; put the newest checkpoints back, or begin again with --restart at "
            "every participant"
        )


def _stops_early(party: Party, setup: Setup, t: int, trees: Sequence[Tree], mark: str) -> bool:
    """Evaluate round t at the active participant, and return to everyone whether it was the last one.

    Rounds: 1 where a training may stop early, or else 0. Reveals: NUMBER_OF_TREES to everyone.
    """
    goes_on = setup.active is None or setup.active.report(t, _part(party, setup, trees, mark))
    if not setup.params.may_stop_early:
        return False
    told = int(party.broadcast(Entry.NUMBER_OF_TREES, [goes_on])[0])
    check_flag(party, Entry.NUMBER_OF_TREES, told)
    return not told


def _latest_metrics(setup: Setup) -> dict[str, dict[str, dict[str, float]]]:
    if setup.active is None:
        return {}
    found = setup.active.metrics
    return {"metrics": {rows: {name: values[-1] for name, values in m.items()} for rows, m in found.items()}}


def _state_after(party: Party, setup: Setup, state: State) -> State:
    """Return a state with what has to be remembered besides the trees."""
    evaluation = None if setup.active is None else setup.active.evaluation()
    shares = None if setup.sealed is None else setup.sealed.kept(party)
    if shares is not None:  # everybody's part of margins that nobody knows
        evaluation = EvaluationState(shares) if evaluation is None else replace(evaluation, margins=shares)
    return replace(state, evaluation=evaluation)


def _trees_to_score(party: Party, setup: Setup, trees: list[Tree], rounds: int) -> list[Tree]:
    """Return the trees that the model keeps: all, but sealed models keep those only with which rows are ever scored.

    Two sums over different numbers of trees would give single trees away. `rounds` are those that are done; a sealed
    one has one tree.

    Rounds: 1 where a sealed training may stop early, or else 0. Reveals: NUMBER_OF_TREES to everyone.
    """
    if setup.sealed is None or not setup.params.may_stop_early:
        return trees
    best = None if setup.active is None else setup.active.best_iteration
    (kept,) = party.broadcast(Entry.NUMBER_OF_TREES, [rounds if best is None else best + 1])
    check_numbers(party, ACTIVE, [int(kept)], ("trees to keep", 1, rounds))
    return trees[:kept]


def part_so_far(
    training: str,
    roster: Roster,
    role: int,
    params: TrainParams,
    candidates: Candidates,
    trees: Sequence[Tree],
    active: Active | None,
    weight_bits: int = WEIGHT_BITS,
) -> PartialModel:
    """Return a participant's part of the model so far; `active` is the active participant's, None at the others."""
    return PartialModel(
        training=training,
        participant=role,
        participants=roster.participants,
        params=params,
        features=tuple(Feature(c.name, c.categories) for c in candidates.bins.table.columns),
        trees=tuple(trees),
        base_margin=None if active is None else tuple(active.base.tolist()),
        best_iteration=None if active is None else active.best_iteration,
        weight_bits=weight_bits,
    )


def trained(model: PartialModel, candidates: Candidates, active: Active | None) -> TrainResult:
    """Return what a participant has after a training, and tell the callbacks that it has ended."""
    if active is None:
        return TrainResult(model, candidates)
    active.labels.callbacks.end(model)
    return TrainResult(model, candidates, active.metrics, active.best_iteration, active.best_score)


def _part(party: Party, setup: Setup, trees: Sequence[Tree], mark: str) -> PartialModel:
    candidates, active = setup.data.candidates, setup.active
    assert candidates is not None, "the coordinator keeps no model"
    training = party.training
    if mark:  # shares of another attempt must not pass for parts of this model
        training = digest(training.encode(), mark.encode()).hex()[:32]
    return part_so_far(training, party.roster, party.role, setup.params, candidates, trees, active, setup.weight_bits)
