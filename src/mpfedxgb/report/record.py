"""The record of a run: what was asked for, what it cost, what was revealed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mpfedxgb.boosting.metrics import NO_METRIC
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.config import Link, SessionSettings
from mpfedxgb.costs.forecast import Basis, Forecast, cached_forecast
from mpfedxgb.modes.facts import facts_of
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.ledger import Reveal
from mpfedxgb.party.local import LocalRun
from mpfedxgb.party.meter import Counts
from mpfedxgb.party.roster import ACTIVE, COORDINATOR
from mpfedxgb.units import bytes_text


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One training or scoring run.

    `roles` holds each role's totals, `setup` what of them was spent once before the first tree, `phases` the active
    participant's counts by phase, `ledger` every reveal. `plans` says how tournaments, by nodes x candidates,
    were played, planned for the `link` and the `topology`. `peak_memory` is the most anonymous memory that the process
    had meanwhile, in bytes: in a simulation that of all roles, and all else the process holds. `basis` is what the
    forecast of a training is made of. A run with security="none" has spent and revealed nothing, because it protected
    nothing; its forecast is that of "strict".
    """

    kind: str
    params: dict[str, Any]
    seconds: float
    trees: int
    insecure_seed: bool
    roles: dict[str, Counts]
    setup: dict[str, Counts]
    phases: dict[str, Counts]
    ledger: tuple[Reveal, ...]
    coordinator: str
    active: str
    link: Link
    topology: str
    plans: dict[str, str]
    peak_memory: int
    basis: Basis | None = None

    @property
    def forecast(self) -> Forecast | None:
        """What this training would have cost with full trees, from its sizes alone; None if there is none."""
        return None if self.basis is None else cached_forecast(self.basis)

    @property
    def rounds(self) -> int:
        """Communication rounds among the participants."""
        return self.roles[self.active].rounds

    @property
    def dealer_bytes(self) -> int:
        """Bytes of what the coordinator dealt; the participants take turns in receiving it."""
        return self.roles[self.coordinator].dealer_bytes

    @property
    def auxiliaries(self) -> list[str]:
        """Names of the auxiliary participants."""
        return [name for name in self.roles if name not in (self.coordinator, self.active)]

    @property
    def is_protected(self) -> bool:
        """Whether a protocol ran."""
        return facts_of(self.params.get("security")).runs_a_protocol

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and dictionaries."""
        return {
            "kind": self.kind,
            "params": self.params,
            "protected": self.is_protected,
            "note": NO_METRIC if self.kind == "train" and is_unjudged(self.params, self.ledger) else "",
            "seconds": self.seconds,
            "peak_memory": self.peak_memory,
            "trees": self.trees,
            "insecure_seed": self.insecure_seed,
            "link": {"latency": self.link.latency, "bandwidth": self.link.bandwidth},
            "topology": self.topology,
            "plans": self.plans,
            "rounds": self.rounds,
            "forecast": None if self.forecast is None else self.forecast.to_dict(),
            "forecast_is_exact": self.basis is not None and self.basis.owners is not None,
            "messages": {name: sum(c.messages.values()) for name, c in self.roles.items()},
            "bytes_sent": {name: c.bytes_sent for name, c in self.roles.items()},
            "dealer_bytes": self.dealer_bytes,
            "products": self.roles[self.active].products,
            "comparisons": self.roles[self.active].comparisons,
            "setup_bytes_sent": {name: c.bytes_sent for name, c in self.setup.items()},
            "roles": {name: c.to_dict() for name, c in self.roles.items()},
            "phases": {name: c.to_dict() for name, c in self.phases.items()},
            "ledger": [asdict(r) for r in self.ledger],
        }

    def to_json(self) -> str:
        """Return the record as JSON text."""
        return json.dumps(self.to_dict(), indent=1)

    def __str__(self) -> str:
        """Return the record as a page of text."""
        if not self.is_protected:
            return "\n".join([f"{self.kind}: {self.trees} trees in {self.seconds:.3f} s", *self._unprotected()])
        lines = [
            f"{self.kind}: {self.trees} trees in {self.seconds:.2f} s, {self.rounds} message rounds, "
            f"{bytes_text(self.dealer_bytes)} from the coordinator, peak memory {bytes_text(self.peak_memory)}"
        ]
        if self.kind == "train" and is_unjudged(self.params, self.ledger):
            lines.append(NO_METRIC)
        if self.insecure_seed:
            lines.append("INSECURE: the masks come from insecure_seed, so anyone who knows it knows every secret")
        lines += ["", *_traffic(self.roles)]
        lines += ["", f"{'phase':32}{'seconds':>10}{'rounds':>8}{'products':>12}{'comparisons':>13}"]
        for path, c in self.phases.items():
            lines.append(f"{path or '(between)':32}{c.seconds:>10.3f}{c.rounds:>8}{c.products:>12}{c.comparisons:>13}")
        if self.forecast is not None:
            lines += ["", f"forecast from the sizes: {self.forecast.summary}"]
        if self.plans:
            sizes = sorted(self.plans, key=lambda size: [int(number) for number in size.split(" x ")])
            link = f"a {self.topology}, {self.link.latency:g} ms, {self.link.bandwidth:g} Mbit/s"
            which = " to ".join(dict.fromkeys([sizes[0], sizes[-1]]))
            lines += ["", f"tournaments of {which} nodes x candidates, planned for {link}: each is in plans"]
        return "\n".join([*lines, "", *reveals_table("revealed", self.ledger)])

    def _unprotected(self) -> list[str]:
        """Return that nothing was protected, and what the same training would cost and reveal if all was."""
        lines = [facts_of(self.params.get("security")).warning]
        predicted = self.forecast
        if predicted is None or self.basis is None:
            return lines
        cost = f"{predicted.rounds} message rounds and {bytes_text(predicted.dealer_bytes)} from the coordinator"
        model = 'The same model under security="strict" takes'
        if self.basis.owners is None:  # shares of roles and counts of reveals are no bounds
            return [*lines, "", f"{model} with full trees, and so at most, {cost}"]
        lines += [
            "",
            f"{model} exactly {cost}:",
            *_traffic(predicted.roles),
            "",
            *reveals_table("would be revealed", predicted.ledger),
        ]
        return lines


def is_unjudged(params: Mapping[str, Any], ledger: Iterable[Reveal]) -> bool:
    """Return whether trees grew in a sealed training of which nobody knows a metric: nothing was evaluated."""
    names = {reveal.name for reveal in ledger}
    return (
        facts_of(params.get("security")).hides_rows
        and Entry.TREE_SHAPE in names
        and Entry.EVALUATION_MARGINS not in names
    )


def _traffic(roles: Mapping[str, Counts]) -> list[str]:
    """Return a table of what each role sends and receives."""
    head = f"{'role':24}{'messages':>10}{'sent':>12}{'received':>12}"
    return [
        head,
        *(
            f"{name[:23]:24}{sum(c.messages.values()):>10}{bytes_text(c.bytes_sent):>12}{bytes_text(c.bytes_received):>12}"
            for name, c in roles.items()
        ),
    ]


def reveals_table(title: str, ledger: Iterable[Reveal]) -> list[str]:
    """Return a table of reveals."""
    rows = [f"{r.name:48}{r.receiver:16}{r.count:>10}" for r in ledger]
    return [f"{title:48}{'to':16}{'values':>10}", *rows]


def record_run(
    kind: str,
    model: PartialModel,
    run: LocalRun[Any],
    settings: SessionSettings,
    seconds: float,
    peak_memory: int,
    basis: Basis | None = None,
) -> RunRecord:
    """Return the record of a run from the active participant's model, the roles' meters and their common ledger."""
    roster, meters = run.roster, run.meters
    return RunRecord(
        kind=kind,
        params=model.params.to_dict(),
        seconds=seconds,
        trees=len(model.trees),
        insecure_seed=settings.insecure_seed is not None,
        roles={roster.name(role): meters[role].total() for role in roster.roles},
        setup={roster.name(role): meters[role].total("setup") for role in roster.roles},
        phases=dict(meters[ACTIVE].phases),
        ledger=tuple(run.ledgers[COORDINATOR]),
        coordinator=roster.name(COORDINATOR),
        active=roster.name(ACTIVE),
        link=settings.link,
        topology=settings.topology,
        plans=dict(meters[ACTIVE].plans),
        peak_memory=peak_memory,
        basis=basis,
    )
