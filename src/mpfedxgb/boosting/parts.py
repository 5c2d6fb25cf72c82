"""What one participant brings to a training, and what it has after one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mpfedxgb.boosting.active import Active, Labels
from mpfedxgb.boosting.model import Feature, PartialModel
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.data.binning import Candidates
from mpfedxgb.data.directions import Directions
from mpfedxgb.data.table import Table
from mpfedxgb.party.roster import Roster
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Tree


@dataclass(frozen=True, slots=True, eq=False)
class TrainData:
    """One participant's input: its training table, its evaluation tables, and the labels at the active one.

    `start` is its part of a model that the training goes on from, `directions` those of its own columns.
    """

    table: Table
    evaluation: Sequence[Table] = ()
    labels: Labels | None = None
    sample_key: str = field(default="", repr=False)
    start: PartialModel | None = field(default=None, repr=False)
    directions: Directions = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class TrainResult:
    """What a participant has after a training; the metrics are the active participant's."""

    model: PartialModel
    candidates: Candidates
    metrics: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    best_iteration: int | None = None
    best_score: float | None = None
    judgement: dict[str, Any] | None = None
    """What the active participant sees of the last evaluation rows (see `judge`)."""


def part_so_far(
    training: str,
    roster: Roster,
    owner: int,
    params: TrainParams,
    candidates: Candidates,
    trees: Sequence[Tree],
    active: Active | None,
    leaf_scale_bits: int = WEIGHT_BITS,
) -> PartialModel:
    """Return a participant's part of the model so far; `active` is the active participant's, None at the others."""
    return PartialModel(
        training=training,
        participant=owner,
        participants=roster.owner_names,
        coordinator=roster.coordinating_owner,
        params=params,
        features=tuple(Feature(c.name, c.categories) for c in candidates.bins.table.columns),
        trees=tuple(trees),
        base_margin=None if active is None else tuple(active.base.tolist()),
        best_iteration=None if active is None else active.best_iteration,
        leaf_scale_bits=leaf_scale_bits,
        tree_scales=None if active is None or active.dropout is None else active.dropout.scales,
    )


def trained(model: PartialModel, candidates: Candidates, active: Active | None) -> TrainResult:
    """Return what a participant has after a training, and tell the callbacks that it has ended."""
    if active is None:
        return TrainResult(model, candidates)
    active.labels.callbacks.end(model)
    return TrainResult(model, candidates, active.metrics, active.best_iteration, active.best_score, active.judgement())
