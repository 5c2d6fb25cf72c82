"""What one role may know of its federation: everything that its report is made of, and nothing else.

A report shows `ReportData` and never looks elsewhere. It comes from a role's own files or, of a simulation, from what
of the record of all roles would be one role's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mpfedxgb.boosting.model import Feature, PartialModel
from mpfedxgb.modes.facts import Facts, facts_of
from mpfedxgb.party.ledger import Ledger, Reveal
from mpfedxgb.party.meter import Counts, by_name
from mpfedxgb.party.roster import ACTIVE, COORDINATOR
from mpfedxgb.report.history import Attempt, History
from mpfedxgb.tree.nodes import Tree

Metrics = Mapping[str, Mapping[str, Sequence[float]]]
"""By evaluation rows and metric, a value for each round."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What something cost a role: time, rounds, and by phase whatever was counted."""

    seconds: float = 0.0
    rounds: int = 0
    bytes_sent: int = 0
    phases: Mapping[str, Counts] = field(default_factory=dict)

    @property
    def total(self) -> Counts:
        """The sum over all phases; empty if only the totals above are known."""
        return Counts.sum(self.phases.values())


@dataclass(frozen=True, slots=True)
class ReportData:
    """What one role may know.

    `number` is its number as an owner: 0 a coordinator without columns, 1 the active one. `federation` is empty in a
    simulation. `is_whole` if the trees are those of a finished training. `spent` is about the training, `ledger` and
    `history` about everything that the role took part in. `notes` say what could not be read.
    """

    role: str
    number: int
    participants: tuple[str, ...]
    coordinator: str
    federation: str
    parameters: Mapping[str, Any]
    spent: Spent
    ledger: tuple[Reveal, ...]
    model: PartialModel | None = None
    trees: Sequence[Tree] = ()
    trees_per_round: int = 1
    features: Sequence[Feature] = ()
    is_whole: bool = True
    metrics: Metrics = field(default_factory=dict)
    best_iteration: int | None = None
    score: Mapping[str, Any] = field(default_factory=dict)
    judgement: Mapping[str, Any] | None = None
    history: History | None = None
    forecast: Mapping[str, Any] | None = None
    is_insecure: bool = False
    notes: Sequence[str] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_active(self) -> bool:
        """Whether the role holds the labels."""
        return self.number == ACTIVE

    @property
    def mode(self) -> Facts:
        """What is public about the mode; a record that names none is of no training."""
        return facts_of(self.parameters.get("security"))

    @property
    def is_coordinator(self) -> bool:
        """Whether the role deals and holds no data."""
        return self.number == COORDINATOR

    @property
    def spent_ever(self) -> Spent:
        """What everything that the role took part in has cost, scorings and failed attempts too."""
        return self.spent if self.history is None else cost_of(self.history.attempts)


def of_simulation(
    model: PartialModel,
    run: Mapping[str, Any] | None,
    metrics: Metrics | None = None,
    versions: Mapping[str, str] | None = None,
    judgement: Mapping[str, Any] | None = None,
) -> ReportData:
    """Return what one participant of a simulation may know, from its part and the record of the run, if there is one.

    The record, as `RunRecord.to_dict` has it, is about all roles. Of that a participant gets its own counts, the
    ledger, which all roles keep, and what is public; metrics and scores are the active participant's.
    """
    run = run or {}
    roles = {name: Counts.from_dict(plain) for name, plain in _mapping(run.get("roles")).items()}
    independent = next((name for name in roles if name not in model.participants), "coordinator")
    phases = {name: Counts.from_dict(plain) for name, plain in _mapping(run.get("phases")).items()}
    own = roles.get(model.name) or Counts.sum(())
    if not model.is_active:
        phases = {"": own} if roles else {}
    ledger = Ledger.read((entry["name"], entry["receiver"], entry["count"]) for entry in run.get("ledger", ()))
    return ReportData(
        role=model.name,
        number=model.participant,
        participants=model.participants,
        coordinator=model.coordinator or independent,
        federation="",
        parameters=model.params.to_dict(),
        spent=Spent(float(run.get("seconds", 0.0)), int(run.get("rounds", 0)), own.bytes_sent, phases),
        ledger=tuple(ledger),
        model=model,
        trees=model.trees,
        trees_per_round=model.params.trees_per_round,
        features=model.features,
        metrics=(metrics or _mapping(run.get("metrics"))) if model.is_active else {},
        best_iteration=model.best_iteration,
        score=_mapping(run.get("score")) if model.is_active else {},
        judgement=judgement if model.is_active else None,
        forecast=_mapping(run.get("forecast")) or None,
        is_insecure=bool(run.get("insecure_seed", False)),
        versions=versions or {},
    )


def cost_of(attempts: Sequence[Attempt]) -> Spent:
    """Return what attempts cost together; phases of those that ended, as only these could write them down."""
    written = (_mapping(attempt.content.get("phases")) for attempt in attempts)
    phases = by_name((name, Counts.from_dict(plain)) for some in written for name, plain in some.items())
    contents = [attempt.content for attempt in attempts]
    return Spent(
        sum((c.get("seconds", 0.0) for c in contents), 0.0),
        sum(c.get("rounds", 0) for c in contents),
        sum(c.get("bytes_sent", 0) for c in contents),
        phases,
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
