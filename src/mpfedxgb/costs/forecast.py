"""What a training will cost: the training itself, rehearsed by every role on sizes alone (`party.dry_run`).

It holds for full trees, in which every node of every level splits. Rounds do not depend on whose splits they are, nor
do all bytes together, but that those of a coordinator that brings columns cost more. Which participant sends a part of
them does, so splits are assumed to belong to the owners in proportion to their candidate columns, unless it is said
whose they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from mpfedxgb.boosting.callbacks import NothingKept
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.parts import TrainResult
from mpfedxgb.config import Link, SessionSettings
from mpfedxgb.costs.known_rounds import KnownRounds, NoMoreRoundsError, rounds_of_levels
from mpfedxgb.errors import UserError
from mpfedxgb.modes.facts import STRICT, check_coordinator
from mpfedxgb.party.dry_run import DryRunParty, Numbers
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.ledger import Reveal
from mpfedxgb.party.meter import Counts
from mpfedxgb.party.roster import ACTIVE, Roster
from mpfedxgb.protocols.reveal import NOBODY
from mpfedxgb.ring.ring import Shape
from mpfedxgb.training.memory import disk_bytes, peak_bytes, simulation_bytes
from mpfedxgb.training.train import secure_train
from mpfedxgb.tree.level import TableSizes
from mpfedxgb.tree.nodes import Dummy, Leaf, Tree
from mpfedxgb.units import bytes_text, duration_text

SETUP, TRAIN = "setup", "train"
"""Phases of a training: what comes once, and what comes with every round."""

Owners = Callable[[int], Numbers]
"""From the number of nodes of a level to the owners of their splits; a node of NOBODY does not split."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a training of full trees costs: each role's totals, what of them comes before the first tree, and reveals.

    Counts are those of the meter (`party.meter`), which a run of full trees equals. `memory` and `disk` are bytes at
    each role in a process of its own, `together` the memory of all in one; `seconds` is an estimate, if one was made
    (`costs.seconds`). `strict` is what the same training would cost with security="strict", if that was asked.
    """

    params: TrainParams
    sizes: TableSizes
    roster: Roster
    link: Link
    topology: str
    roles: dict[str, Counts] = field(repr=False)
    setup: dict[str, Counts] = field(repr=False)
    ledger: tuple[Reveal, ...] = field(repr=False)
    plans: dict[str, str] = field(repr=False)
    memory: dict[str, int] = field(repr=False)
    disk: dict[str, int] = field(repr=False)
    together: int = field(repr=False)
    seconds: float | None = None
    strict: Forecast | None = field(default=None, repr=False)

    @property
    def rounds(self) -> int:
        """Communication rounds among the participants."""
        return self.roles[self.roster.name(ACTIVE)].rounds

    @property
    def hops(self) -> int:
        """Messages, one after the other, that somebody waits for."""
        return self.roles[self.roster.name(ACTIVE)].hops

    @property
    def dealer_bytes(self) -> int:
        """Bytes from the coordinator."""
        return self.roles[self.roster.coordinator].dealer_bytes

    @property
    def summary(self) -> str:
        """The forecast as one line, for a log."""
        busiest = max(self.roster.participants, key=lambda name: self.roles[name].bytes_sent)
        return (
            f"full trees take {self.rounds} message rounds, {bytes_text(self.dealer_bytes)} from "
            f"{self.roster.coordinator}, {bytes_text(self.roles[busiest].bytes_sent)} sent by {busiest}, "
            f"up to {bytes_text(max(self.memory.values()))} of memory a role{_about(self.seconds)}"
        )

    @property
    def _cost(self) -> str:
        dealt = f"{bytes_text(self.dealer_bytes)} from {self.roster.coordinator}"
        return f"{self.rounds} message rounds, {self.hops} hops, {dealt}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and dictionaries."""
        return {
            "rows": self.sizes.rows,
            "evaluation_rows": self.sizes.eval_rows,
            "candidate_columns": dict(zip(self.roster.owner_names, self.sizes.columns, strict=True)),
            "trees": self.params.n_estimators * self.params.trees_per_round,
            "link": {"latency": self.link.latency, "bandwidth": self.link.bandwidth},
            "topology": self.topology,
            "rounds": self.rounds,
            "hops": self.hops,
            "dealer_bytes": self.dealer_bytes,
            "messages": {name: sum(c.messages.values()) for name, c in self.roles.items()},
            "bytes_sent": {name: c.bytes_sent for name, c in self.roles.items()},
            "bytes_received": {name: c.bytes_received for name, c in self.roles.items()},
            "bytes_sent_to": {name: c.payload_sent for name, c in self.roles.items()},
            "setup_bytes_sent": {name: c.bytes_sent for name, c in self.setup.items()},
            "memory": self.memory,
            "memory_together": self.together,
            "disk": self.disk,
            "seconds": self.seconds,
            "security": self.params.security,
            "strict": None if self.strict is None else self.strict.to_dict(),
            "plans": self.plans,
            "ledger": [asdict(r) for r in self.ledger],
        }

    def __str__(self) -> str:
        """Return the forecast as a page of text."""
        sizes, trees = self.sizes, self.params.n_estimators * self.params.trees_per_round
        lines = [
            f"{sizes.rows} rows, {sum(sizes.columns)} candidate columns, {trees} full trees of depth "
            f"{self.params.max_depth}: {self._cost}",
            f"planned for a {self.topology} with links of {self.link.latency:g} ms and {self.link.bandwidth:g} Mbit/s",
        ]
        if self.strict is not None:
            about = "" if self.strict.seconds is None else f", about {duration_text(self.strict.seconds)}"
            lines.append(f'with security="{self.params.security}"; "strict" takes {self.strict._cost}{about}')
        if self.seconds is not None:
            lines.append(f"about {duration_text(self.seconds)} on machines like this one, by a short measurement")
        head = ("role", "columns", "messages", "sent", "received", "of that set-up", "memory", "disk")
        lines += ["", f"{head[0]:24}" + "".join(f"{name:>{_WIDE}}" for name in head[1:])]
        for role in self.roster.roles:
            name = self.roster.name(role)
            counts, once = self.roles[name], self.setup[name]
            cells = [
                str(sizes.columns_of(role)) if self.roster.owner_of(role) else "",
                str(sum(counts.messages.values())),
                bytes_text(counts.bytes_sent),
                bytes_text(counts.bytes_received),
                bytes_text(once.bytes_sent),
                bytes_text(self.memory[name]),
                bytes_text(self.disk[name]),
            ]
            lines.append(f"{name[:23]:24}" + "".join(f"{cell:>{_WIDE}}" for cell in cells))
        lines += [f"all roles in one process: {bytes_text(self.together)} of memory"]
        lines += ["", f"{'will be revealed':48}{'to':16}{'values':>12}"]
        lines += [f"{r.name:48}{r.receiver:16}{r.count:>12}" for r in self.ledger]
        return "\n".join(lines)


_WIDE = 15


MOST_LEVELS = 1200
"""Levels of all trees up to which it is forecast whose splits cost what: some seconds of rehearsing."""


@dataclass(frozen=True, slots=True)
class _Costs:
    """What a forecast says of one role."""

    setup: Counts
    total: Counts
    ledger: tuple[Reveal, ...]
    plans: dict[str, str]


@dataclass(frozen=True, slots=True)
class Basis:
    """What the forecast of a run is made of, all of it public; `owners` are those of its splits, where it is over."""

    params: TrainParams
    sizes: TableSizes
    roster: Roster
    settings: SessionSettings
    keeps_rounds: bool = False
    owners: tuple[tuple[int, ...], ...] | None = None

    def costs(self, role: int) -> _Costs:
        """Return what a role spends.

        Participants take turns from step to step, so that rounds cost them alike only M by M: M rounds are rehearsed,
        for as many times as there are M, and then those that are left. The first round of a sealed training is not like
        the others: there M more rounds than those that are left, less these, are M of the others.
        """
        period = self.roster.size if self.owners is None else self.params.n_estimators
        if self.params.facts.first_round_differs:
            often, left = divmod(self.params.n_estimators - 1, period)
            runs = [(often, self.dry_run(role, 1 + left + period))] if often else []
            runs += [(1 - often, self.dry_run(role, 1 + left))] if often != 1 else []
        else:
            often, left = divmod(self.params.n_estimators, period)
            runs = [(often, self.dry_run(role, period))] if often else []
            runs += [(1, self.dry_run(role, left))] if left else []
        run = runs[0][1]
        total = Counts.sum(counts for path, counts in run.meter.phases.items() if path.split("/")[0] != TRAIN)
        ledger = run.before[TRAIN].copy()
        for times, part in runs:
            total.add(part.meter.total(TRAIN), times)
            ledger.add(part.ledger.since(part.before[TRAIN]), times)
        total.seconds = 0.0
        return _Costs(run.meter.total(SETUP), total, tuple(ledger), dict(run.meter.plans))

    def dry_run(self, role: int, rounds: int) -> DryRunParty:
        """Return a role after a rehearsal of some rounds."""
        announced = np.array([[self.sizes.rows, self.sizes.eval_rows, own] for own in self.sizes.columns], np.int64)
        assumed, known = assumed_owners(self.params, self.sizes), self._known_rounds(role)

        def decide(name: Entry, shape: Shape) -> Numbers:
            return assumed(*shape) if known is None else known.decide(name, shape)

        nothing_done = np.zeros((len(self.roster.owners), 2), np.int64)
        said = {Entry.TABLE_SIZES: announced, Entry.ROUNDS_DONE: nothing_done}
        party = DryRunParty(self.roster, role, self.settings, said, decide, known)
        progress = NothingKept() if self.keeps_rounds else None
        if known is not None:
            known.party = party
        with suppress(NoMoreRoundsError):
            secure_train(party, self.params, None, progress, most_rounds=rounds)
        return party

    def _known_rounds(self, role: int) -> KnownRounds | None:
        """Return the rounds whose splits are known; the ledger of a forecast is the active participant's."""
        if self.owners is None:
            return None
        rounds = rounds_of_levels(self.owners, self.params.max_depth, self.params.n_estimators)
        return KnownRounds(list(rounds), not self.params.facts.first_round_differs, tells_ledger=role == ACTIVE)


@dataclass(frozen=True, slots=True)
class OwnForecast:
    """What one role of a federation will spend with full trees: a dry run of itself alone, in a fifth of the time."""

    counts: Counts
    memory: int
    disk: int
    seconds: float | None = None

    @property
    def summary(self) -> str:
        """The forecast as one line, for the role's log."""
        counts = self.counts
        rounds = f"{counts.rounds} message rounds; " if counts.rounds else ""  # the coordinator has none of its own
        return (
            f"full trees take {rounds}this role sends {bytes_text(counts.bytes_sent)}, receives "
            f"{bytes_text(counts.bytes_received)} and takes up to {bytes_text(self.memory)} of memory"
            f"{_about(self.seconds)}"
        )

    def to_dict(self) -> dict[str, int]:
        """Return plain numbers, for the role's record."""
        counts = self.counts
        return {
            "rounds": counts.rounds,
            "hops": counts.hops,
            "bytes_sent": counts.bytes_sent,
            "dealer_bytes": counts.dealer_bytes,
            "memory": self.memory,
            "disk": self.disk,
        }


def _about(seconds: float | None) -> str:
    return "" if seconds is None else f"; about {duration_text(seconds)} on machines like this one"


def strict_basis(
    params: TrainParams, settings: SessionSettings, roster: Roster, results: Sequence[TrainResult], eval_rows: int
) -> Basis:
    """Return what the cost of the same training with security="strict" is computed of: its sizes, and whose splits.

    With them the forecast is exact. Trainings of more levels than MOST_LEVELS are content with full trees, whose
    message rounds and dealt bytes are at least theirs.
    """
    trees, per_round = results[0].model.trees, params.trees_per_round
    columns = tuple(len(r.candidates) for r in results)
    sizes = TableSizes(results[0].candidates.bins.table.rows, eval_rows, columns, roster.coordinator_owns)
    owners: list[tuple[int, ...]] = []
    if any(sizes.columns):
        for first in range(0, len(trees), per_round):
            owners += _levels(trees[first : first + per_round], params.max_depth)
    known = tuple(owners) if len(owners) <= MOST_LEVELS else None
    as_trained = replace(params.as_protected(), n_estimators=len(trees) // per_round)
    return Basis(as_trained, sizes, roster, replace(settings, parameters=params.as_protected().to_json()), owners=known)


def _levels(trees: Sequence[Tree], max_depth: int) -> Iterator[tuple[int, ...]]:
    """Yield whose the splits are among the nodes of a round's trees, level by level in the order of the batch.

    `trees` are the active participant's; all left children of a level come before the right ones.
    """
    batch = [(tree, 0) for tree in trees]
    for _ in range(max_depth):
        nodes = [(tree, tree[number]) for tree, number in batch]
        yield tuple(
            NOBODY if isinstance(node, Leaf) else node.owner if isinstance(node, Dummy) else ACTIVE for _, node in nodes
        )
        splits = [(tree, node) for tree, node in nodes if not isinstance(node, Leaf)]
        if not splits:
            return
        batch = [(tree, node.left) for tree, node in splits] + [(tree, node.right) for tree, node in splits]


def role_forecast(basis: Basis, role: int) -> OwnForecast | None:
    """Return what a run will cost one role of a federation; None where its protocol is not forecast."""
    params, sizes = basis.params, basis.sizes
    if params.facts.not_forecast:
        return None
    return OwnForecast(basis.costs(role).total, peak_bytes(role, params, sizes), disk_bytes(role, params, sizes))


@lru_cache(maxsize=8)
def cached_forecast(basis: Basis) -> Forecast | None:
    """Return the forecast of a run; None where its protocol is not forecast."""
    return None if basis.params.facts.not_forecast else _forecast(basis)


def forecast(
    params: TrainParams,
    sizes: TableSizes,
    roster: Roster,
    settings: SessionSettings | None = None,
    owners: Sequence[Numbers] | None = None,
    keeps_rounds: bool = False,
    beside_strict: bool = False,
) -> Forecast:
    """Return what a training will cost, without any data.

    Parameters
    ----------
    params : TrainParams
    sizes : TableSizes
        Rows, evaluation rows, and candidate columns of each owner; a coordinator's come last.
    roster : Roster
    settings : SessionSettings or None
        Of the session, whose link is planned for.
    owners : sequence of arrays, or None
        Whose splits they are, of every level of every round, one after the other, where that is known (NOBODY's node
        does not split); None assumes full trees.
    keeps_rounds : bool
        Whether every round is kept, as in a federation, so that roles agree where to begin.
    beside_strict : bool
        Whether to tell what security="strict" costs too, if it is another.
    """
    if params.facts.not_forecast:
        text = f"a training with security={params.security!r} is not forecast: {params.facts.not_forecast}"
        raise UserError(text, "mode", "security", params.security)
    owners_count = len(roster.owners)
    if len(sizes.columns) != owners_count:
        text = f"there are candidate columns of {len(sizes.columns)} participants in a roster of {owners_count}"
        raise UserError(text, "mismatch", "columns", len(sizes.columns))
    check_coordinator(params.facts, roster.coordinating_owner)
    sizes = replace(sizes, coordinator_owns=roster.coordinator_owns)
    settings = SessionSettings(parameters=params.to_json()) if settings is None else settings
    known = None if owners is None else tuple(tuple(np.asarray(level).tolist()) for level in owners)
    basis = Basis(params, sizes, roster, settings, keeps_rounds, known)
    strict = replace(params, security=STRICT.name)
    if not beside_strict or strict == params:
        return _forecast(basis)
    session = replace(settings, parameters=strict.to_json())
    return replace(_forecast(basis), strict=_forecast(replace(basis, params=strict, settings=session)))


def _forecast(basis: Basis) -> Forecast:
    params, sizes, roster, settings = basis.params, basis.sizes, basis.roster, basis.settings
    costs = {roster.name(role): basis.costs(role) for role in roster.roles}
    active = costs[roster.name(ACTIVE)]
    disk = {roster.name(role): disk_bytes(role, params, sizes) if basis.keeps_rounds else 0 for role in roster.roles}
    return Forecast(
        params,
        sizes,
        roster,
        settings.link,
        settings.topology,
        roles={name: cost.total for name, cost in costs.items()},
        setup={name: cost.setup for name, cost in costs.items()},
        ledger=active.ledger,
        plans=active.plans,
        memory={roster.name(role): peak_bytes(role, params, sizes) for role in roster.roles},
        disk=disk,
        together=simulation_bytes(params, sizes),
    )


def assumed_owners(params: TrainParams, sizes: TableSizes) -> Owners:
    """Return owners in proportion to candidate columns; where the first layer is masked, its splits are P_1's."""
    shares = np.cumsum(sizes.columns)

    def owners(splits: int) -> Numbers:
        if params.first_layer_mask and splits == params.trees_per_round:
            return np.full(splits, ACTIVE if sizes.columns[ACTIVE - 1] else NOBODY, np.int64)
        places = (np.arange(splits) + 0.5) / splits * shares[-1]
        return np.asarray(ACTIVE + np.searchsorted(shares, places, side="right"), np.int64)

    return owners
