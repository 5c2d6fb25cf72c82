"""SecureTrain: the loop over rounds (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mpfedxgb.boosting.checkpoint import Progress, State
from mpfedxgb.boosting.fit import secure_fit
from mpfedxgb.boosting.model import Feature, PartialModel
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.setup import Setup, TrainData, set_up
from mpfedxgb.boosting.update import UPDATES
from mpfedxgb.data.candidates import Candidates
from mpfedxgb.party.bounds import check_told
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.row_blocks import RowBlocks
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


def secure_train(
    party: Party,
    params: TrainParams,
    data: TrainData | None,
    progress: Progress | None = None,
    held: RowBlocks | None = None,
) -> TrainResult | None:
    """Train on the joined tables of all participants; every role runs this, the coordinator without data.

    With `progress`, at all roles or at none, each role keeps its state after every round, and training goes on from the
    last round that all participants have. `held` is where this role's row blocks live, in memory if it does not say.
    """
    setup = set_up(party, params, data, held)  # 2, 4
    update = UPDATES[params.security]
    state = _first_state(party, setup, progress)
    trees = list(state.trees)  # 3
    with party.phase("train"):
        for t in range(state.rounds, state.rounds if state.finished else params.n_estimators):  # 5
            party.on_progress(f"round {t + 1} of {params.n_estimators}")
            grown = secure_fit(party, setup, t)  # 6
            trees += update(party, setup, grown, t)  # 7-11
            stops = _stops_early(party, setup, t)
            if progress is not None:
                party.on_milestone(_latest_metrics(setup))  # first: a round that is kept is on the record
                progress.save(_state_after(setup, t, trees, stops))
            if stops:
                break
    return _result(party, setup, trees)  # 13


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


def _stops_early(party: Party, setup: Setup, t: int) -> bool:
    """Evaluate round t at the active participant, and return to everyone whether it was the last one.

    Rounds: 1 where a training may stop early, or else 0. Reveals: NUMBER_OF_TREES to everyone.
    """
    goes_on = setup.active is None or setup.active.report(t)
    return setup.params.may_stop_early and not party.broadcast(NUMBER_OF_TREES, [goes_on])[0]


def _latest_metrics(setup: Setup) -> dict[str, dict[str, dict[str, float]]]:
    if setup.active is None:
        return {}
    found = setup.active.metrics
    return {"metrics": {rows: {name: values[-1] for name, values in m.items()} for rows, m in found.items()}}


def _state_after(setup: Setup, t: int, trees: Sequence[Tree], stops: bool) -> State:
    evaluation = None if setup.active is None else setup.active.evaluation()
    return State(t + 1, stops, trees, evaluation)


def _result(party: Party, setup: Setup, trees: Sequence[Tree]) -> TrainResult | None:
    """Return this participant's part of the model; nothing at the coordinator."""
    mine, candidates, active = setup.mine, setup.data.candidates, setup.active
    if mine is None or candidates is None:
        return None
    model = PartialModel(
        training=party.training,
        participant=party.role,
        participants=party.roster.participants,
        params=setup.params,
        features=tuple(Feature(c.name, c.categories) for c in mine.table.columns),
        trees=tuple(trees),
        base_margin=None if active is None else tuple(active.base.tolist()),
        best_iteration=None if active is None else active.best_iteration,
        weight_bits=setup.weight_bits,
    )
    if active is None:
        return TrainResult(model, candidates)
    return TrainResult(model, candidates, active.metrics, active.best_iteration)
