"""Searching for parameters by successive halving (Jamieson and Talwalkar 2016): each rung trains longer with fewer.

All candidates are trained for a few boosting rounds, the best by the evaluation metric for `factor` times as many, and
so on, until one is left, which is trained whole, in the session of the settings. Every training is proposed like any
other, is on every record, and counts at those who accept it.

Every training reveals what it does: so the ledgers of all are added up, and everybody is asked, before the first.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mpfedxgb.boosting.metrics import metric_of
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.costs.forecast import forecast
from mpfedxgb.data.binning import Candidates, bin_table
from mpfedxgb.errors import SettingsError
from mpfedxgb.federation.accepting import aligned_rows
from mpfedxgb.federation.alignment import rows_in_common
from mpfedxgb.federation.programs import reveals_of_session
from mpfedxgb.federation.proposals import INQUIRY, MOST_TRAININGS, Proposal
from mpfedxgb.federation.role import Trained, train
from mpfedxgb.federation.rows import Rows
from mpfedxgb.federation.session import locked_state, run_session, stopping_on_signals
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party.ledger import Ledger, Reveal
from mpfedxgb.party.observer import Observer
from mpfedxgb.schema.training import SHARED
from mpfedxgb.tree.level import TableSizes
from mpfedxgb.units import counted

_log = logging.getLogger("mpfedxgb.role")


@dataclass(frozen=True, slots=True)
class Rung:
    """How many candidates are trained for how many boosting rounds."""

    candidates: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Result:
    """One training of a search: what was chosen for it, in which session, and what it came to."""

    session: str
    chosen: Mapping[str, Any]
    rounds: int
    metric: str
    value: float
    trained: Trained = field(repr=False)


def rungs_of(candidates: int, rounds: int, factor: int) -> tuple[Rung, ...]:
    """Return the rungs: the last one trains a single candidate whole."""
    counts = [candidates]
    while counts[-1] > 1:
        counts.append(math.ceil(counts[-1] / factor))
    last = len(counts) - 1
    return tuple(Rung(count, max(1, rounds // factor ** (last - i))) for i, count in enumerate(counts))


@dataclass(frozen=True, slots=True)
class Search:
    """A search at the active participant: its settings, the values to choose from by parameter, and the factor."""

    settings: RoleSettings
    space: Mapping[str, Sequence[Any]]
    factor: int = 3

    def __post_init__(self) -> None:
        """Refuse what cannot be searched."""
        settings = self.settings
        if not settings.is_active:
            text = f"{settings.role.name} is not the active participant, which proposes; start it with --accept"
            raise SettingsError(text, "place", settings.role.name)
        if settings.data is None or settings.data.evaluate is None:
            text = "a search needs rows to evaluate on; give [data] evaluate at all participants"
            raise SettingsError(text, "missing", "data.evaluate")
        if type(self.factor) is not int or self.factor < 2:
            text = f"factor={self.factor!r} halves nothing; give an integer of 2 or more"
            raise SettingsError(text, "range", "factor", self.factor)
        for name, values in self.space.items():
            if name not in SHARED or name in ("n_estimators", "xgboost_rules", "weighted"):
                text = f"{name} is nothing to search over; it is a parameter of [training] other than n_estimators"
                raise SettingsError(text, "unknown", name)
            if not values:
                raise SettingsError(f"{name} has no values to choose from; give one or more", "few", name, 0)
        if self.trainings > MOST_TRAININGS:
            text = f"a search of {self.trainings} trainings is too large; give fewer values, {MOST_TRAININGS} at most"
            raise SettingsError(text, "range", "trainings", self.trainings)
        _ = [self.params(chosen) for chosen in self.candidates]

    @property
    def candidates(self) -> list[dict[str, Any]]:
        """Every choice of one value for each parameter."""
        return [dict(zip(self.space, values, strict=True)) for values in itertools.product(*self.space.values())]

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """Who is trained for how long."""
        count = math.prod(len(values) for values in self.space.values())
        return rungs_of(count, self.settings.training.n_estimators, self.factor)

    @property
    def trainings(self) -> int:
        """How many there are in all."""
        return sum(rung.candidates for rung in self.rungs)

    def params(self, chosen: Mapping[str, Any], rounds: int | None = None) -> TrainParams:
        """Return the parameters of a candidate; those of the settings where nothing is chosen."""
        more: dict[str, Any] = {} if rounds is None else {"n_estimators": rounds}
        return replace(self.settings.training, **chosen, **more)

    def session_of(self, rung: int, candidate: int) -> str:
        """Return the name of a training's session; the last one has that of the settings."""
        name = self.settings.session.name
        return name if rung == len(self.rungs) - 1 else f"{name}-{rung + 1}-{candidate + 1}"

    def ledger(self, rows: Rows, evaluation: Rows | None) -> tuple[Reveal, ...]:
        """Return what all trainings together will reveal at most: full trees, and of each rung the worst candidates.

        Of the others' columns it knows nothing, and assumes as many candidate columns as here.
        """
        others = {} if evaluation is None else {"evaluate": evaluation}
        common = rows_in_common(self.settings, {"train": rows, **others}) if self.settings.id_rule else None
        rows, evaluation = (rows, evaluation) if common is None else (common["train"], common.get("evaluate"))
        total, settings = Ledger(), self.settings
        for rung in self.rungs:
            most: dict[tuple[str, str], Reveal] = {}
            for chosen in self.candidates:
                params = self.params(chosen, rung.rounds)
                own = len(Candidates(bin_table(rows.table, params.max_bin, params.binning)))
                later = 0 if evaluation is None else evaluation.table.rows
                sizes = TableSizes(rows.table.rows, later, (own,) * settings.roster.size)
                found = forecast(params, sizes, settings.roster, settings.session_settings(), keeps_rounds=True)
                for one in found.ledger:
                    worst = most.get((one.name, one.receiver))
                    if worst is None or worst.count < one.count:
                        most[one.name, one.receiver] = one
            total.add(most.values(), rung.candidates)
            total.add(reveals_of_session(settings.roster), rung.candidates)
        return tuple(total)

    def ask(self, rows: Rows, observer: Observer | None = None) -> None:
        """Ask everybody whether all trainings would be accepted; raises what a role refuses, and why."""
        settings, state = self.settings, self.settings.role.state
        # What was begun before an interruption is no new training.
        names = [self.session_of(i, c) for i, rung in enumerate(self.rungs[:1]) for c in range(rung.candidates)]
        begun = sum((state / name / "checkpoints").is_dir() for name in names)
        parameters = tuple(self.params(chosen).to_dict() for chosen in self.candidates)
        left = max(1, self.trainings - begun)
        common, _ = aligned_rows(settings, rows, None)  # how many people P_1 has in all is nobody's business
        proposal = Proposal(INQUIRY, settings.session.name, parameters, len(common.ids), trainings=left)
        with locked_state(settings), stopping_on_signals():
            run_session(settings, lambda _: None, proposal, observer=observer)

    def run(
        self,
        rows: Rows,
        evaluation: Rows | None,
        observer: Observer | None = None,
        tell: Callable[[Result], None] = lambda result: None,
        client: Any = None,
    ) -> list[Result]:
        """Train all rungs, and return what came of each training, the one that is kept last; `tell` hears of each."""
        results, kept = list[Result](), [*enumerate(self.candidates)]
        for i, rung in enumerate(self.rungs):
            of_rung = list[tuple[Result, tuple[int, dict[str, Any]]]]()
            for number, chosen in kept[: rung.candidates]:
                session = self.session_of(i, number)
                mine = self.settings.for_session(session, self.params(chosen, rung.rounds))
                is_trial = i < len(self.rungs) - 1
                done = train(mine, rows, evaluation, observer=observer, client=client, is_trial=is_trial)
                result = _judged(session, chosen, rung.rounds, done)
                of_rung.append((result, (number, chosen)))
                tell(result)
            params = self.settings.training
            metric = metric_of(of_rung[0][0].metric, params.of_objectives)
            best = sorted(of_rung, key=lambda one: one[0].value, reverse=metric.grows)
            kept = [one[1] for one in best]
            results += [one[0] for one in of_rung]
            _log.info("trained for %d boosting rounds: %s", rung.rounds, counted(rung.candidates, "candidate"))
        return results


def _judged(session: str, chosen: Mapping[str, Any], rounds: int, done: Trained) -> Result:
    """Return a training's value of the metric that decides, the last one: at its best round if it may stop early."""
    (values,) = list(done.metrics.values())[-1:] or [{}]
    if not values:
        text = "a search needs a metric that somebody may know; give [label] eval_metric"
        raise SettingsError(text, "missing", "label.eval_metric")
    metric, history = list(values.items())[-1]
    best = done.model.best_iteration
    return Result(session, chosen, rounds, metric, history[-1 if best is None else best], done)
