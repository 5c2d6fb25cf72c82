"""What stands before the first round: sizes told, candidates published, rules fixed, and to each role its own part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.parts import TrainData
from mpfedxgb.data import Table
from mpfedxgb.errors import UserError
from mpfedxgb.modes.mode import Setup
from mpfedxgb.modes.paper.labels import Paper, choose_scale, leaf_rules, plan
from mpfedxgb.modes.paper.tree import SPARE_BITS
from mpfedxgb.party import ACTIVE, COORDINATOR, LocalRun, Party, Reveal, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.protocols import public_secret
from mpfedxgb.protocols.rows import RowVectors
from mpfedxgb.protocols.share import matrices_times
from mpfedxgb.ring import VECTOR, wide
from mpfedxgb.training.setup import set_up
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.level import TableSizes, TreeRules
from support.refusals import refused
from support.small_trainings import EVAL_ROWS, PARAMS, ROWS, Training, training_of
from support.small_trees import opened

PAPER = replace(PARAMS, security="paper", min_child_weight=0.0)


def set_up_all(training: Training) -> LocalRun[Setup]:
    """Return everybody's set-up."""
    return run_locally(set_up, training.participants, training.private)


@pytest.mark.parametrize("participants", [2, 3])
def test_everyone_knows_the_sizes_and_has_all_columns(participants: int) -> None:
    """Rows, evaluation rows and candidates of each; the published columns are the owners' own, in their order."""
    training = training_of("evaluation rows", participants)

    def program(party: Party, params: TrainParams, data: TrainData | None) -> tuple[Setup, list[Any]]:
        setup = set_up(party, params, data)
        ones = RowVectors(public_secret(party, VECTOR, np.ones((1, ROWS), np.int64)).masked, {})
        return setup, [opened(party, matrices_times(party, [matrix], ones)) for matrix in setup.data.matrices]

    run = run_locally(program, participants, training.private)
    sizes = TableSizes(ROWS, 2 * EVAL_ROWS, tuple(training.columns))
    for role, (setup, counts) in enumerate(run.results):
        assert setup.data.sizes == sizes
        assert setup.params == training.params
        if role == COORDINATOR:
            assert setup.data.candidates is None
            assert setup.data.evaluation == ()
            continue
        assert setup.data.evaluation == tuple(tables[role - 1] for tables in training.evaluation)
        for owner, count in zip(sizes.owners, counts, strict=True):
            own = run.results[owner][0].data.candidates
            assert own is not None
            np.testing.assert_array_equal(count[0], own.tile().sum(axis=1))
    told = 3 * participants
    for ledger in run.ledgers:
        assert {entry for entry in ledger if entry.name == Entry.TABLE_SIZES} == {
            Reveal(Entry.TABLE_SIZES, who, told) for who in ("coordinator", "participants")
        }


def test_each_role_has_its_own_part() -> None:
    """Labels at the active participant alone; nothing at the coordinator; no paper's rules in the strict way."""
    setups = set_up_all(training_of("binary", 3)).results
    assert [setup.active is not None for setup in setups] == [role == ACTIVE for role in range(4)]
    assert [setup.mine is not None for setup in setups] == [role != COORDINATOR for role in range(4)]
    assert {setup.plan for setup in setups} == {setups[0].plan}
    for setup in setups:
        assert setup.state is None
        assert setup.mode.leaf_scale_bits(setup) == WEIGHT_BITS


def test_participants_without_candidates_publish_nothing() -> None:
    """Their columns are constant; the others' are there."""
    training = training_of("binary", 3)
    flat = Table.read(np.ones((ROWS, 2)), "P2")
    training = replace(training, tables=[training.tables[0], flat, training.tables[2]])
    for setup in set_up_all(training).results:
        assert setup.data.sizes.columns == (training.columns[0], 0, training.columns[2])
        assert setup.data.sizes.owners == [1, 3]
        assert len(setup.data.matrices) == 2


RULES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "depth": ({"max_depth": 5}, {"max_depth": 5}),
    "no weight asked of children": ({"min_child_weight": 0.0}, {"checks_children": False}),
    "no lambda": ({"min_child_weight": 0.0, "reg_lambda": 0.0}, {"checks_children": True}),
    "smallest gamma": ({"gamma": 1e-6}, {}),
    "gamma": ({"gamma": 2e-6}, {"no_split_first": False}),
    "first layer masked": ({"first_layer_mask": True}, {"first_layer_mask": True}),
}


@pytest.mark.parametrize("name", RULES)
def test_rules_follow_from_the_parameters(name: str) -> None:
    """What every tree of the training has in common, the same at all roles."""
    changes, expected = RULES[name]
    training = training_of("binary", 2)
    training = replace(training, params=replace(training.params, **changes))
    public = scales.plan(training.params, ROWS)
    plain = TreeRules(
        max_depth=2,
        ring=wide(public.limbs),
        checks_children=True,
        no_split_first=True,
        first_layer_mask=False,
        bits=scales.bits_needed(ROWS, public.g_cap, public.h_cap, public.lam_cap, public.gam_cap),
        hessian_bits=(ROWS * public.h_cap + 1).bit_length() + 1,
    )
    assert plain.bits <= plain.ring.bits
    for setup in set_up_all(training).results:
        assert setup.plan == public
        assert setup.rules == replace(plain, **expected)


@pytest.mark.parametrize("what", ["training", "evaluation"])
def test_different_numbers_of_rows_are_refused(what: str) -> None:
    """By name, with everybody's number and the remedy, before anything is published."""
    training = training_of("evaluation rows", 3)
    other = Table.read(np.arange(10.0).reshape(5, 2), "P2")
    if what == "training":
        tables, counts = [training.tables[0], other, training.tables[2]], f"P1 {ROWS}, P2 5, P3 {ROWS}"
        training = replace(training, tables=tables)
    else:
        first, second = training.evaluation
        counts = f"P1 {2 * EVAL_ROWS}, P2 {EVAL_ROWS + 5}, P3 {2 * EVAL_ROWS}"
        training = replace(training, evaluation=[first, [second[0], other, second[2]]])
    with refused(UserError, "mismatch", f"{what} rows") as caught:
        set_up_all(training)
    assert counts in str(caught.value)


@pytest.mark.parametrize("objective", ["binary:logistic", "reg:squarederror"])
def test_the_papers_way_needs_more(objective: str) -> None:
    """Rules of the descent, features by number, and all rows in one table to be scored; weights at their own scale."""
    training = training_of("evaluation rows", 2)
    params = replace(PAPER, objective=objective)
    run = set_up_all(replace(training, params=params))
    rules = leaf_rules(params, plan(params, ROWS), ROWS, 2)
    for role, setup in enumerate(run.results):
        assert not setup.rules.tosses_coins
        assert isinstance(setup.state, Paper)
        assert setup.state.leaf_rules == rules
        assert [sum(sizes) for sizes in setup.state.features.sizes] == training.columns
        if role == COORDINATOR:
            assert setup.state.all_rows is None
        else:
            assert setup.state.all_rows is not None
            assert setup.state.all_rows.rows == ROWS + 2 * EVAL_ROWS
            np.testing.assert_array_equal(
                setup.state.all_rows.columns[0].values[ROWS : ROWS + EVAL_ROWS],
                training.evaluation[0][role - 1].columns[0].values,
            )
        if role != ACTIVE:
            assert setup.mode.leaf_scale_bits(setup) == WEIGHT_BITS
    active = run.results[ACTIVE]
    assert active.active is not None
    active.active.integers(0, choose_scale)
    assert active.mode.leaf_scale_bits(active) == active.active.scale.f_g + SPARE_BITS - rules.shift
    if objective == "binary:logistic":
        assert active.mode.leaf_scale_bits(active) == WEIGHT_BITS
