"""SecureTrain: the loop over rounds (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mpfedxgb.boosting.active import Active
from mpfedxgb.boosting.checkpoint import Progress, State
from mpfedxgb.boosting.continuing import state_of_model
from mpfedxgb.boosting.fit import secure_fit
from mpfedxgb.boosting.model import Feature, PartialModel
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.setup import Setup, TrainData, set_up
from mpfedxgb.boosting.update import UPDATES
from mpfedxgb.data.candidates import Candidates
from mpfedxgb.party.bounds import check_told
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import Roster
from mpfedxgb.protocols.row_blocks import RowBlocks
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
) -> TrainResult | None:
    """Train on the joined tables of all participants; every role runs this, the coordinator without data.

    With `progress`, at all roles or at none, each role keeps its state after every round, and training goes on from the
    last round that all participants have. With `continues` it goes on from the model of which `data.start` is a part.
    `held` is where this role's row blocks live, in memory if it does not say.
    """
    params.check_protected("a protocol")
    setup = set_up(party, params, data, held)  # 2, 4
    update = UPDATES[params.security]
    state = state_of_model(party, setup) if continues else _first_state(party, setup, progress)
    trees = list(state.trees)  # 3
    rounds = range(state.rounds, state.rounds if state.finished else params.n_estimators)
    if setup.active is not None and rounds:
        setup.active.labels.callbacks.begin(_part(party, setup, trees), state.rounds, setup.active.metrics)
    with party.phase("train"):
        for t in rounds:  # 5
            party.on_progress(f"round {t + 1} of {params.n_estimators}")
            grown = secure_fit(party, setup, t)  # 6
            trees += update(party, setup, grown, t)  # 7-11
            stops = _stops_early(party, setup, t, trees)
            if progress is not None:
                party.on_milestone(_latest_metrics(setup))  # first: a round that is kept is on the record
                progress.save(_state_after(setup, t, trees, stops))
            if stops:
                break
    candidates = setup.data.candidates
    if candidates is None:
        return None
    return trained(_part(party, setup, trees), candidates, setup.active)  # 13


def _first_state(party: Party, setup: Setup, progress: Progress | None) -> State:
    """Return where this role begins: before the first round, or after the last one that all participants have."""
    if progress is None:
        return State(0)
    state = _last_common_state(party, progress, setup.params.n_estimators)
    if setup.active is not None and state.evaluation is not None:
        setup.active.resume(state.evaluation)
    return state


def _last_common_state(party: Party, progress: Progress, most: int) -> State:
    """Return this role's state after the last round that all participants have.

    Rounds: 1. Reveals: ROUNDS_DONE to everyone.
    """
    told = party.tell_everyone(ROUNDS_DONE, None if party.is_coordinator else [progress.newest()])
    check_told(party, ROUNDS_DONE, told, ("rounds that are done", 0, most))
    rounds = int(told.min())
    state = State(rounds) if party.is_coordinator else progress.load(rounds)
    finished = party.broadcast(NUMBER_OF_TREES, [state.finished])[0]
    if rounds:
        party.on_progress(f"going on after round {rounds}")
    return replace(state, finished=bool(finished))


def _stops_early(party: Party, setup: Setup, t: int, trees: Sequence[Tree]) -> bool:
    """Evaluate round t at the active participant, and return to everyone whether it was the last one.

    Rounds: 1 where a training may stop early, or else 0. Reveals: NUMBER_OF_TREES to everyone.
    """
    goes_on = setup.active is None or setup.active.report(t, _part(party, setup, trees))
    return setup.params.may_stop_early and not party.broadcast(NUMBER_OF_TREES, [goes_on])[0]


def _latest_metrics(setup: Setup) -> dict[str, dict[str, dict[str, float]]]:
    if setup.active is None:
        return {}
    found = setup.active.metrics
    return {"metrics": {rows: {name: values[-1] for name, values in m.items()} for rows, m in found.items()}}


def _state_after(setup: Setup, t: int, trees: Sequence[Tree], stops: bool) -> State:
    evaluation = None if setup.active is None else setup.active.evaluation()
    return State(t + 1, stops, trees, evaluation)


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


def _part(party: Party, setup: Setup, trees: Sequence[Tree]) -> PartialModel:
    candidates, active = setup.data.candidates, setup.active
    assert candidates is not None, "the coordinator keeps no model"
    return part_so_far(
        party.training, party.roster, party.role, setup.params, candidates, trees, active, setup.weight_bits
    )
