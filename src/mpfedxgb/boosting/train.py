"""SecureTrain: the loop over rounds (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mpfedxgb.boosting.active import Active
from mpfedxgb.boosting.continuing import state_of_model
from mpfedxgb.boosting.fit import secure_fit
from mpfedxgb.boosting.model import Feature, PartialModel
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.progress import EvaluationState, Progress, State
from mpfedxgb.boosting.setup import Setup, TrainData, set_up
from mpfedxgb.boosting.update import UPDATES
from mpfedxgb.data.candidates import Candidates
from mpfedxgb.errors import CheckpointError, RefusedError, SettingsError
from mpfedxgb.party.bounds import check_flag, check_numbers, check_told
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE, Roster
from mpfedxgb.protocols.row_blocks import RowBlocks
from mpfedxgb.ring.prg import digest
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Tree

NUMBER_OF_TREES = "number of trees"
ROUNDS_DONE = "rounds done before this attempt"


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
    params.check_protected("a protocol")
    params.check_rules()
    if continues and params.is_sealed:
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
            party.on_progress(f"round {t + 1} of {params.n_estimators}")
            grown = secure_fit(party, setup, t)  # 6
            trees += update(party, setup, grown, t)  # 7-11
            mark, done = _mark_after(party, params, mark), t + 1
            stops = _stops_early(party, setup, t, trees, mark)
            if progress is not None:
                party.on_milestone(_latest_metrics(setup))  # first: a round that is kept is on the record
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
    if setup.params.shares_weights and state.rounds:
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
    told = party.tell_everyone(ROUNDS_DONE, mine, (2,))
    check_told(party, ROUNDS_DONE, told, ("rounds that are done", 0, most), ("rounds that all had", 0, most))
    newest, common = told.T.tolist()
    rounds = min(newest)
    if rounds < max(common):
        raise RefusedError(_went_back(party.roster, newest, max(common)))
    state = State(rounds) if party.is_coordinator else progress.load(rounds)
    finished = int(party.broadcast(NUMBER_OF_TREES, [state.finished])[0])
    check_flag(party, NUMBER_OF_TREES, finished)
    if rounds:
        party.on_progress(f"going on after round {rounds}")
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
    in_step = setup.data.matrices or setup.params.shares_weights or setup.active is not None
    return max(0, done - (1 if in_step else 2))


def _mark_after(party: Party, params: TrainParams, before: str) -> str:
    """Return what tells the shares of this attempt's round, after those before it, from all others."""
    return digest(before.encode(), party.attempt.encode()).hex()[:32] if params.shares_weights else ""


def _check_mark(party: Party, mark: str) -> None:
    """Stop everyone where kept shares are of different attempts, as after a copy was put back: their sum is nothing.

    Rounds: 1. Reveals: ROUNDS_DONE to everyone.
    """
    mine = None if party.is_coordinator else [int.from_bytes(digest(mark.encode())[:8], "little", signed=True)]
    told = party.tell_everyone(ROUNDS_DONE, mine)[:, 0]
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
    told = int(party.broadcast(NUMBER_OF_TREES, [goes_on])[0])
    check_flag(party, NUMBER_OF_TREES, told)
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
    (kept,) = party.broadcast(NUMBER_OF_TREES, [rounds if best is None else best + 1])
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
