"""What roles make of a proposal: the coordinator, auxiliaries that serve, and auxiliaries that accept trainings.

The limits are [accept]'s. A training that was accepted is noted in its session's folder and counted, before anything
is revealed; going on with it, under the same name with the same parameters, is no new one, however often. Another one
under that name is refused: what was kept of the first would be in its way.

Until all have kept a boosting round, going on means beginning again. That tells nothing new as long as everybody's
tables, coins and samples are the same, which the training's name says (`party.training`); begun again under another, it
counts again. P_1's labels and tables, to which it has committed, may not change at all.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

from mpfedxgb.atomic import write_file
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.parts import TrainResult
from mpfedxgb.errors import CheckpointError, DataError, RefusedError, as_checkpoint_error
from mpfedxgb.federation.alignment import rows_in_common
from mpfedxgb.federation.own_training import brought
from mpfedxgb.federation.programs import (
    KINDS,
    SCORING,
    TRAINING,
    OpenCluster,
    other_data,
    run_coordinator,
    run_scoring,
    run_training,
)
from mpfedxgb.federation.proposals import INQUIRY, Prepare, Proposal, Work
from mpfedxgb.federation.quota import TrainingsPerDay
from mpfedxgb.federation.rows import Rows
from mpfedxgb.federation.scoring import Service
from mpfedxgb.federation.session import SessionFolder, own_work, state_folder
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.workers.cluster import Cluster

T = TypeVar("T")

NOTE = "agreed.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
"""Names of proposed sessions, whose folders are beside files of the state folder: those have a dot, but for one."""
_TAKEN = ("lock",)
_log = logging.getLogger("mpfedxgb.role")


def proposed(settings: RoleSettings, kind: int, rows: int = 0, is_trial: bool = False) -> Proposal | None:
    """Return what a role proposes: the active participant what its settings say, the others nothing."""
    if not settings.is_active:
        return None
    return Proposal(KINDS[kind], settings.session.name, (settings.training.to_dict(),), rows, is_trial)


def refusals(settings: RoleSettings, params: TrainParams, rows: int) -> Iterator[RefusedError]:
    """Yield why a role does not accept a training of `rows` rows, a limit each."""
    limits, who = settings.accept, settings.role.name
    if settings.has_training and params.to_json() != settings.training.to_json():
        mine, theirs = settings.training.to_dict(), params.to_dict()
        differences = ", ".join(
            f"{key} is {mine[key]!r}, proposed {theirs[key]!r}" for key in mine if mine[key] != theirs[key]
        )
        text = f"{who} accepts the training of its own [training] only: {differences}"
        yield RefusedError(text, code="mismatch", parameter="training")
    if params.security not in limits.security:
        known = ", ".join(limits.security) or "none"
        text = f"{who} does not accept security={params.security!r}; its [accept] security has {known}"
        yield RefusedError(text, code="mode", parameter="accept.security", value=params.security)
    if params.loss.is_custom:
        yield RefusedError(f"{who} accepts named objectives only", code="choice", parameter="objective")
    trees = params.n_estimators * params.trees_per_round
    most: list[tuple[str, str, int, int | None]] = [
        ("max_depth", f"max_depth={params.max_depth}", params.max_depth, limits.max_depth),
        ("max_trees", f"{trees} trees", trees, limits.max_trees),
        ("max_bin", f"max_bin={params.max_bin}", params.max_bin, limits.max_bin),
        ("max_rows", "this number of rows", rows, limits.max_rows),
    ]
    over = [(key, what, value, limit) for key, what, value, limit in most if limit is not None and value > limit]
    if rows < limits.min_rows:
        over.append(("min_rows", "this number of rows", rows, limits.min_rows))
    for key, what, value, limit in over:
        text = f"{who} does not accept {what}; its limit is [accept] {key} = {limit}"
        yield RefusedError(text, code="range", parameter=f"accept.{key}", value=value)


def check_limits(settings: RoleSettings, trainings: Sequence[TrainParams], rows: int) -> None:
    """Raise RefusedError, which names all limits in the way, unless trainings of `rows` rows are accepted.

    How many rows a participant has stays in its own log.
    """
    found = {error.public: error for params in trainings for error in refusals(settings, params, rows)}
    if found:
        first = next(iter(found.values()))
        text = "; ".join(found)
        raise RefusedError(text, f" ({rows} rows)", code=first.code, parameter=first.parameter, value=first.value)
    for params in trainings:
        params.check_rules()


def _check_inquiry(settings: RoleSettings, proposal: Proposal, rows: int) -> None:
    check_limits(settings, proposal.params(), rows)
    _quota(settings).check(settings.role.name, proposal.trainings)


def _quota(settings: RoleSettings) -> TrainingsPerDay:
    return TrainingsPerDay(state_folder(settings), settings.accept.trainings_per_day)


class Acceptance(Observer):
    """Notes and counts a training that was accepted, when all roles have agreed on it."""

    def __init__(self, settings: RoleSettings) -> None:
        self._settings, self._who = settings, settings.role.name
        self._path = settings.role.state / settings.session.name / NOTE
        self._quota = _quota(settings)
        self._party: Party | None = None
        if self.noted() is None:
            self._quota.check(self._who, 1)

    def noted(self) -> dict[str, Any] | None:
        """Return what was accepted before; raises RefusedError if that was another one, under the same name."""
        try:
            with as_checkpoint_error(f"cannot read {self._path}"):
                noted = json.loads(self._path.read_bytes()) if self._path.is_file() else None
            if noted is not None and not (isinstance(noted, dict) and "parameters" in noted):
                raise ValueError("no note of ours")
        except (ValueError, RecursionError):
            text = f"{self._path} is damaged, so that nobody knows what was accepted; propose another --session"
            raise CheckpointError(text, "damaged", self._path.name) from None
        if noted is not None and noted["parameters"] != self._settings.training.to_dict():
            text = (
                f"{self._who} has accepted another training as {self._settings.session.name}; propose "
                "this one under a name of its own, with --session"
            )
            raise RefusedError(text, code="duplicate", parameter="session", value=self._settings.session.name)
        return noted

    def on_meeting(self, party: Party) -> None:
        """Count it before anything is revealed, and note it."""
        self._party = party
        if self.noted() is None:
            self._quota.take(self._who, 1)
            self._note({})

    def on_milestone(self, more: Mapping[str, Any]) -> None:
        """Refuse what P_1 has committed to, if it is something else than before; count what begins with new choices."""
        if "labels" not in more:
            return
        assert self._party is not None, "a commitment comes after the meeting"
        before = self.noted() or {}
        now = {"labels": more["labels"], "training": self._party.training}
        if before.get("labels", now["labels"]) != now["labels"]:
            raise other_data(self._settings.roster.name(ACTIVE), self._who)
        if before.get("training", now["training"]) != now["training"]:
            self._quota.take(self._who, 1)
        self._note(now)

    def _note(self, more: Mapping[str, str]) -> None:
        content = {"parameters": self._settings.training.to_dict(), **more}
        with as_checkpoint_error(f"cannot write {self._path}"):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file(self._path, json.dumps(content) + "\n")


def _accept(settings: RoleSettings, mine: RoleSettings, rows: int) -> Acceptance:
    """Return what counts a training, `mine`, that is within the limits; raise RefusedError for another."""
    name, who = mine.session.name, mine.role.name
    if not _NAME.fullmatch(name) or name.lower() in _TAKEN:
        text = (
            f"{who} has no folder for a session {name!r}; propose a name of up to 100 letters, digits, - and _, a "
            "letter or digit first"
        )
        raise RefusedError(text, code="value", parameter="session", value=name)
    check_limits(settings, [mine.training], rows)
    return Acceptance(mine)


def _agreed(settings: RoleSettings) -> dict[str, Any]:
    """Return what the record says beside the parameters: who has proposed them, and the limits they are within."""
    return {"proposed_by": settings.roster.name(ACTIVE), "accept": asdict(settings.accept)}


def coordinators_work(settings: RoleSettings, workers: OpenCluster) -> Prepare[str]:
    """Return how the coordinator prepares for any session; for trainings within its limits, or as [training] says."""
    attempts = SessionFolder(settings)

    def prepare(proposal: Proposal) -> Work[str] | None:
        if proposal.kind == INQUIRY:
            _check_inquiry(settings, proposal, proposal.rows)
            return None
        if settings.has_training:
            mine, acceptance = settings.for_session(proposal.session), None
        else:
            mine = settings.for_session(proposal.session, proposal.params()[0])
            acceptance = _accept(settings, mine, proposal.rows) if proposal.kind == KINDS[TRAINING] else None
        private = (mine.training, mine.limits, workers, proposal.kind)
        agreed = {} if acceptance is None else _agreed(settings)
        return Work(mine, run_coordinator, private, attempts.next_attempt(), None, acceptance, agreed)

    return prepare


def servers_work(settings: RoleSettings, service: Service) -> Prepare[None]:
    """Return how an auxiliary prepares that serves; its model says what is scored, so it needs no [training]."""
    return taking_over(settings, SCORING, own_work(settings, run_scoring, (service,)))


def taking_over(settings: RoleSettings, kind: int, own: Prepare[T]) -> Prepare[T]:
    """Return how a role prepares that takes name and parameters of a session of some kind over, unless it has its own.

    For what no parameter changes: nothing is limited by them.
    """

    def prepare(proposal: Proposal) -> Work[T] | None:
        work = own(proposal)
        if work is None or settings.has_training or proposal.kind != KINDS[kind]:
            return work
        return replace(work, settings=settings.for_session(proposal.session, proposal.params()[0]))

    return prepare


Tables = Callable[[], tuple[Rows, Rows | None]]
"""Returns the rows to train and to evaluate on, newer ones if they have changed."""


def accepters_work(settings: RoleSettings, tables: Tables, cluster: Cluster | None) -> Prepare[TrainResult]:
    """Return how an auxiliary prepares that accepts trainings."""
    who = settings.role.name

    def prepare(proposal: Proposal) -> Work[TrainResult] | None:
        if proposal.kind not in (KINDS[TRAINING], INQUIRY):
            text = f"{settings.roster.name(ACTIVE)} proposes {proposal.kind}, and {who} accepts trainings"
            raise RefusedError(
                f"{text}; start it with another option than --accept", code="mismatch", parameter="session"
            )
        rows, evaluation = aligned_rows(settings, *tables())
        if proposal.kind == INQUIRY:
            _check_inquiry(settings, proposal, len(rows.ids))
            return None
        mine = settings.for_session(proposal.session, proposal.params()[0])
        acceptance = _accept(settings, mine, len(rows.ids))
        mine = mine.for_trial() if proposal.is_trial else mine
        part = brought(mine, rows, evaluation, cluster=cluster)
        folder = SessionFolder(mine, part.fingerprint)
        _log.info("%s accepts the training %s; its model goes to %s", who, proposal.session, mine.role.model)
        private = (mine.training, part.training, True)
        return Work(mine, run_training, private, folder.next_attempt(), folder.key, acceptance, _agreed(settings))

    return prepare


def aligned_rows(settings: RoleSettings, rows: Rows, evaluation: Rows | None) -> tuple[Rows, Rows | None]:
    """Return the rows that all have, where participants align them; as they were found when all agreed to that."""
    if settings.id_rule is None:
        return rows, evaluation
    common = rows_in_common(
        settings, {"train": rows} if evaluation is None else {"train": rows, "evaluate": evaluation}
    )
    if common is None:
        text = f"{settings.role.name}: the rows are not aligned yet; run mpfedxgb align at all participants first"
        raise DataError(text, "missing", "align")
    return common["train"], common.get("evaluate")
