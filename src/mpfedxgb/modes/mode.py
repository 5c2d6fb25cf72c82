"""What a mode is: a record of facts and of the functions that the loop of Algorithm 1 calls, one in each folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.active import Active
from mpfedxgb.boosting.callbacks import EvaluationState, State
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.parts import TrainData
from mpfedxgb.modes.facts import Facts
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.rows import RowVectors
from mpfedxgb.protocols.secret import Secret, public_secret
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import Ring
from mpfedxgb.tree.grow import FindSplits, Grown, best_splits
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.level import Constants, SplitData, TableSizes, TreeRules
from mpfedxgb.tree.nodes import Tree


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """What is the same in all rounds: parameters and rules, the published candidates, and what is this role's alone.

    `mine` is a participant's input and `active` the active participant's part, None elsewhere. `state` is the mode's:
    only its own functions look into it.
    """

    mode: Mode
    params: TrainParams
    plan: scales.ScalePlan
    rules: TreeRules
    data: SplitData
    mine: TrainData | None = field(repr=False)
    active: Active | None = field(repr=False)
    state: object = field(default=None, repr=False)


RoundGradients = tuple[Secret, RowVectors, Constants]
"""g~ and h~ of a round, (trees, 2, rows), the same as vectors whose masks' makers are known, and the constants at their
scales."""


def encoded(constants: Mapping[str, tuple[Ring, int]]) -> list[RingArray]:
    """Return the constants of `scales.constants_of` as ring elements."""
    return [RingArray.encode(ring, np.array(value, object)) for ring, value in constants.values()]


def public_constants(party: Party, constants: Mapping[str, tuple[Ring, int]]) -> Constants:
    """Return constants that all roles know. Local."""
    known = {name: public_secret(party, ring, np.array(v, object)) for name, (ring, v) in constants.items()}
    return Constants(**known)


class Working(NamedTuple):
    """Bytes that a mode takes at a role beside row vectors.

    `gradients` while they are computed, `carried` from round to round, `frame` in frames of a process of its own.
    """

    gradients: int = 0
    carried: int = 0
    frame: int = 0


def _kept_by_active(party: Party, setup: Setup) -> EvaluationState | None:
    return None if setup.active is None else setup.active.evaluation()


def _resumed_by_active(party: Party, setup: Setup, state: State) -> None:
    if setup.active is not None and state.evaluation is not None:
        setup.active.resume(state.evaluation, state.trees)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Mode:
    """How a mode trains; what stands as a default here is the strict way, which needs the least.

    `plan` gives the public widths for a number of rows. `begin` returns the state, after the candidates are published.
    `gradients` gives those of a round (Algorithm 1, line 6), and `find_splits` how a level's splits are found.
    `update` turns the grown trees of round t into kept trees and new margins (lines 7-11); t labels private draws.
    `leaf_scale_bits` is the scale of kept leaf weights as far as this role knows it. `kept` is what a checkpoint keeps
    besides the trees, and `resumed` goes on from it. `trees_to_score` are those that the model keeps,
    and `working` the bytes that a role takes beside row vectors.
    """

    facts: Facts
    tosses_coins: bool = True
    plan: Callable[[TrainParams, int], scales.ScalePlan] = scales.plan
    begin: Callable[[Party, Setup], object] = lambda party, setup: None
    gradients: Callable[[Party, Setup, int], RoundGradients]
    find_splits: Callable[[Setup], FindSplits] = lambda setup: best_splits
    update: Callable[[Party, Setup, Grown, int], list[Tree]]
    leaf_scale_bits: Callable[[Setup], int] = lambda setup: WEIGHT_BITS
    kept: Callable[[Party, Setup], EvaluationState | None] = _kept_by_active
    resumed: Callable[[Party, Setup, State], None] = _resumed_by_active
    trees_to_score: Callable[[Party, Setup, list[Tree], int], list[Tree]] = lambda party, setup, trees, rounds: trees
    working: Callable[[int, TrainParams, TableSizes], Working] = lambda role, params, sizes: Working()
