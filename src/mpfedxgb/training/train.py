"""SecureTrain: the loop over rounds (Algorithm 1).

SecureFit: the gradients of a round are shared, and its trees grow from them (Algorithm 2).

What the modes do differently in a round is in the functions of `setup.mode` (`modes/mode.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from mpfedxgb.boosting.callbacks import Progress, State
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.parts import TrainData, TrainResult, part_so_far, trained
from mpfedxgb.boosting.sampling import Bits, coins_of, column_sample, node_sample
from mpfedxgb.data.binning import Candidates
from mpfedxgb.errors import CheckpointError, RefusedError
from mpfedxgb.modes.facts import check_coordinator, check_runs_a_protocol
from mpfedxgb.modes.mode import Setup
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.handshake import check_announced, check_flag
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE, Roster
from mpfedxgb.protocols.bits import Bit, share_bit
from mpfedxgb.protocols.row_blocks import RowBlocks
from mpfedxgb.protocols.secret import concatenate, public_secret
from mpfedxgb.protocols.share import share_each
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.prg import digest
from mpfedxgb.ring.ring import BIT, PACKED, Shape
from mpfedxgb.training.setup import set_up, state_of_model
from mpfedxgb.tree.constrained import root_bounds
from mpfedxgb.tree.grow import Grown, grow
from mpfedxgb.tree.level import Level, Nodes, Round
from mpfedxgb.tree.nodes import Tree


def secure_fit(party: Party, setup: Setup, t: int) -> Grown:
    """Return this role's view of the trees of round t: one, or one per class, or several of each."""
    trees = setup.params.trees_per_round
    s = public_secret(party, PACKED, np.full((trees, setup.data.sizes.packed), 255, np.uint8))  # 3
    with party.phase("gradients"):
        gh, vectors, constants = setup.mode.gradients(party, setup, t)  # 4-7
    round_ = with_samples(party, setup, t, Round(str(t), constants))
    bounds = root_bounds(constants, trees) if setup.rules.constrained else None
    roots = Level([(tree, 0) for tree in range(trees)], s, gh, fresh=vectors, bounds=bounds)
    coins = None if setup.mine is None else coins_of(party, setup.params, setup.mine.sample_key)
    return grow(party, setup.data, roots, round_, setup.rules, setup.mode.find_splits(setup), coins)  # 8-9


def secure_train(
    party: Party,
    params: TrainParams,
    data: TrainData | None,
    progress: Progress | None = None,
    held: RowBlocks | None = None,
    continues: bool = False,
    most_rounds: int | None = None,
) -> TrainResult | None:
    """Train on the joined tables of all owners; every role runs this, a coordinator without columns without data.

    With `progress`, at all roles or at none, each role keeps its state after every round, and training goes on from the
    last round that all participants have. With `continues` it goes on from the model of which `data.start` is a part.
    `held` is where this role's row blocks live, in memory if it does not say. With `most_rounds` it ends after
    that number of boosting rounds.
    """
    check_runs_a_protocol(params.facts, "a protocol")
    params.check_rules()
    check_coordinator(params.facts, party.roster.coordinating_owner)
    if continues:
        params.check_continued()
    setup = set_up(party, params, data, held)  # 2, 4
    state = state_of_model(party, setup) if continues else _first_state(party, setup, progress)
    trees, mark, done = list(state.trees), state.mark, state.rounds  # 3
    last = params.n_estimators if most_rounds is None else most_rounds
    rounds = range(done, done if state.finished else last)
    if setup.active is not None and rounds:
        setup.active.labels.callbacks.begin(_part(party, setup, trees, mark), done, setup.active.metrics)
    party.observer.on_round(done, last)
    with party.phase("train"):
        for t in rounds:  # 5
            party.observer.on_progress(f"boosting round {t + 1} of {params.n_estimators}")
            grown = secure_fit(party, setup, t)  # 6
            trees += setup.mode.update(party, setup, grown, t)  # 7-11
            mark, done = _mark_after(party, params, mark), t + 1
            stops = _stops_early(party, setup, t, trees, mark)
            if progress is not None:
                party.observer.on_milestone(_latest_metrics(setup))  # first: a round that is kept is on the record
                kept = State(done, stops, trees, mark=mark, common=_common_after(party, setup, done))
                progress.save(replace(kept, evaluation=setup.mode.kept(party, setup)))
                party.observer.on_round(done, last)
            if stops:
                break
        trees = setup.mode.trees_to_score(party, setup, trees, done)
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
    if state.rounds:
        setup.mode.resumed(party, setup, state)
    return state


def _last_common_state(party: Party, progress: Progress, most: int) -> State:
    """Return this role's state after the last round that all participants have.

    Each tells the newest round that it has kept and the last that it knows all had. Nobody goes back before that: all
    refuse together, before any of them cuts a round off (see `common_round`).

    Rounds: 1. Reveals: ROUNDS_DONE to everyone.
    """
    mine = [progress.newest(), progress.common()] if party.owner else None
    announced = party.tell_everyone(Entry.ROUNDS_DONE, mine, (2,))
    bounds = ("boosting rounds that are done", 0, most), ("boosting rounds that all had", 0, most)
    check_announced(party, Entry.ROUNDS_DONE, announced, *bounds)
    newest, common = announced.T.tolist()
    rounds = min(newest)
    if rounds < max(common):
        raise RefusedError(_went_back(party.roster, newest, max(common)), code="mismatch", parameter="checkpoints")
    state = progress.load(rounds) if party.owner else State(rounds)
    finished = int(party.broadcast(Entry.NUMBER_OF_TREES, [state.finished])[0])
    check_flag(party, Entry.NUMBER_OF_TREES, finished)
    if rounds:
        party.observer.on_progress(f"going on after boosting round {rounds}")
    return replace(state, finished=bool(finished))


def _went_back(roster: Roster, newest: Sequence[int], common: int) -> str:
    back = [f"{name} to {rounds}" for name, rounds in zip(roster.owner_names, newest, strict=True) if rounds < common]
    return (
        f"all participants had kept boosting round {common}, and now some went back: {', '.join(back)}; a round that "
        "all had is not made again. Put the newest checkpoints of that participant back; or begin again, with "
        "--restart at every participant, which each organisation decides for itself"
    )


def _common_after(party: Party, setup: Setup, done: int) -> int:
    """Return the last round that all participants have kept when this role has done `done` rounds.

    It is the one before: to go through a round takes openings to which all contribute, each when its round before is
    kept. Without candidates a strict tree is a leaf, and auxiliaries hear from P_1 alone what it computed a round ago;
    a coordinator that brings columns, which hears of openings by what P_1 announces, hears nothing.
    """
    if party.is_dealer and not setup.data.matrices:
        return 0
    in_step = setup.data.matrices or setup.params.facts.shares_leaf_weights or setup.active is not None
    return max(0, done - (1 if in_step else 2))


def _mark_after(party: Party, params: TrainParams, before: str) -> str:
    """Return what tells the shares of this attempt's round, after those before it, from all others."""
    return digest(before.encode(), party.attempt.encode()).hex()[:32] if params.facts.shares_leaf_weights else ""


def _check_mark(party: Party, mark: str) -> None:
    """Stop everyone if kept shares are of different attempts, as after a copy was put back: their sum is nothing.

    Rounds: 1. Reveals: ROUNDS_DONE to everyone.
    """
    mine = [int.from_bytes(digest(mark.encode())[:8], "little", signed=True)] if party.owner else None
    announced = party.tell_everyone(Entry.ROUNDS_DONE, mine)[:, 0]
    others = [name for name, number in zip(party.roster.owner_names, announced, strict=True) if number != announced[0]]
    if others:
        text = (
            f"{', '.join(others)} and {party.roster.name(ACTIVE)} have kept boosting rounds of different attempts, and "
            "shares of one do not fit those of another; put the newest checkpoints back, or begin again with "
            "--restart at every participant"
        )
        raise CheckpointError(text, "mismatch", "checkpoints", others)


def _stops_early(party: Party, setup: Setup, t: int, trees: Sequence[Tree], mark: str) -> bool:
    """Evaluate round t at the active participant, and return to everyone whether it was the last one.

    Rounds: 1 where a training may stop early, or else 0. Reveals: NUMBER_OF_TREES to everyone.
    """
    goes_on = setup.active is None or setup.active.report(t, _part(party, setup, trees, mark))
    if not setup.params.may_stop_early:
        return False
    announced = int(party.broadcast(Entry.NUMBER_OF_TREES, [goes_on])[0])
    check_flag(party, Entry.NUMBER_OF_TREES, announced)
    return not announced


def _latest_metrics(setup: Setup) -> dict[str, dict[str, dict[str, float]]]:
    if setup.active is None:
        return {}
    found = setup.active.metrics
    return {"metrics": {rows: {name: values[-1] for name, values in m.items()} for rows, m in found.items()}}


def _part(party: Party, setup: Setup, trees: Sequence[Tree], mark: str) -> PartialModel:
    candidates, active = setup.data.candidates, setup.active
    assert candidates is not None, "the coordinator keeps no model"
    training = party.training
    if mark:  # shares of another attempt must not pass for parts of this model
        training = digest(training.encode(), mark.encode()).hex()[:32]
    bits = setup.mode.leaf_scale_bits(setup)
    return part_so_far(training, party.roster, party.owner, setup.params, candidates, trees, active, bits)


# Samples of columns: every owner draws among its own, in private, and shares which of its candidates take part.


def with_samples(party: Party, setup: Setup, t: int, round_: Round) -> Round:
    """Return a round with the samples of columns; every owner samples its own features, in private.

    Those of trees and levels are shared at once, those of nodes when the level is there.
    """
    params = setup.params
    if not params.samples_columns or not setup.data.sizes.owners:  # nobody may have anything to split by
        return round_
    if params.colsample_bynode < 1:
        return replace(round_, sample=partial(_share_node_sample, party, setup, t))
    trees = params.trees_per_round
    if params.colsample_bylevel == 1:
        allowed = _share_sample(party, setup, (trees,), partial(column_sample, t=t))
        return replace(round_, allowed=allowed)
    roots = [(tree, 0) for tree in range(trees)]

    def draw(party: Party, params: TrainParams, candidates: Candidates, key: str) -> Bits:
        levels = range(params.max_depth)
        return np.stack([node_sample(party, params, candidates, key, t, depth, roots) for depth in levels])

    levels = _share_sample(party, setup, (params.max_depth, trees), draw)
    return replace(round_, sample=lambda nodes, depth: levels[depth, np.array([tree for tree, _ in nodes])])


def _share_sample(party: Party, setup: Setup, shape: Shape, draw: Callable[..., Bits]) -> Bit:
    """Share which candidates take part in trees, or in their levels: (*shape, columns), owner by owner."""
    sizes, pieces = setup.data.sizes, []
    for owner in sizes.owners:
        bits = None
        if party.owner == owner and setup.data.candidates is not None and setup.mine is not None:
            drawn = draw(party, setup.params, setup.data.candidates, setup.mine.sample_key)
            bits = RingArray.encode(BIT, drawn)
        pieces.append(share_bit(party, owner, (*shape, sizes.columns[owner - 1]), bits).secret)
    return Bit(concatenate(pieces), owned=party.roster.owning_coordinator not in sizes.owners)


def _share_node_sample(party: Party, setup: Setup, t: int, nodes: Nodes, depth: int) -> Bit:
    """Share which candidates take part in each node of a level, (nodes, columns), all owners at once."""
    sizes, candidates, own = setup.data.sizes, setup.data.candidates, {}
    width = max(sizes.columns)  # the others are padded
    if party.owner in sizes.owners and candidates is not None and setup.mine is not None:
        drawn = node_sample(party, setup.params, candidates, setup.mine.sample_key, t, depth, nodes)
        padded = np.zeros((len(nodes), width), np.uint8)
        padded[:, : len(candidates)] = drawn
        own = {sizes.owners.index(party.owner): RingArray.encode(BIT, padded)}
    shared = share_each(party, sizes.owners, BIT, (len(nodes), width), own)
    pieces = [shared[i][:, : sizes.columns[owner - 1]] for i, owner in enumerate(sizes.owners)]
    return Bit(concatenate(pieces), owned=party.roster.owning_coordinator not in sizes.owners)
