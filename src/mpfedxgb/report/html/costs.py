"""Time, rounds and bytes by phase and by peer, and what was forecast beside what it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mpfedxgb.party.meter import Counts, by_name
from mpfedxgb.report.html.facts import Facts
from mpfedxgb.report.html.markup import Content, Markup, count, duration, element, size, table
from mpfedxgb.report.html.pictures import Bar, bars

_BETWEEN = "between phases"
_QUANTITIES: dict[str, tuple[str, Callable[[float], str]]] = {
    "rounds": ("rounds of messages", count),
    "hops": ("messages that somebody waits for", count),
    "messages": ("messages sent", count),
    "bytes_sent": ("bytes sent", size),
    "dealer_bytes": ("corrections dealt", size),
    "products": ("products of secrets", count),
    "comparisons": ("comparisons of secrets", count),
    "memory": ("memory", size),
    "disk": ("disk", size),
    "seconds": ("time", duration),
}
"""What may be forecast, in words."""


def cost_section(facts: Facts) -> list[Content]:
    """Return where time, rounds and bytes of the training went."""
    phases = facts.spent.phases
    if not phases:
        return [element("p", "What the phases of the training cost is written down when an attempt ends.")]
    parts: list[Content] = []
    if len(phases) > 1:
        groups = _groups(phases)
        parts += [
            element(
                "p",
                f"A round is one exchange that the next step waits for, however many values travel in it. All of this "
                f"is what {facts.role} itself counted.",
            ),
            element(
                "div",
                bars("Time by phase", [Bar(n, c.seconds) for n, c in groups.items()], duration),
                bars("Rounds by phase", [Bar(n, c.rounds) for n, c in groups.items() if c.rounds], count),
                bars("Bytes sent by phase", [Bar(n, c.bytes_sent) for n, c in groups.items() if c.bytes_sent], size),
                class_="cards",
            ),
            element("details", element("summary", "Every phase"), _phase_table(phases), id="every-phase"),
        ]
    peers = _peer_table(facts)
    return [*parts, element("h3", "By role"), peers] if peers else parts


def forecast_section(facts: Facts) -> list[Content]:
    """Return what was forecast beside what it was; nothing where there was no forecast."""
    rows = []
    actual = _actual(facts)
    for key, (words, written) in _QUANTITIES.items():
        told = _forecast_of(facts, key)
        if not told or (key == "dealer_bytes" and not facts.is_coordinator):  # those are for all participants together
            continue
        was = actual.get(key) or None  # what was not counted here is not told as nothing
        ratio = f"{was / told:.2f}" if was is not None and told else ""
        rows.append([words, written(told), "" if was is None else written(was), ratio])
    if not rows:
        return []
    if facts.is_unprotected:
        words = "What the same model takes with security = strict. This training sent nothing, and protected nothing."
        return [element("p", words), table(["", "forecast"], [row[:2] for row in rows])]
    return [
        element(
            "p",
            "Forecast from public sizes alone, before anything ran: for full trees, in one attempt from start to end.",
        ),
        table(["", "forecast", "actual", "actual / forecast"], rows),
    ]


def _groups(phases: Mapping[str, Counts]) -> dict[str, Counts]:
    """Return phases by the first two steps of their paths."""
    return by_name(("/".join(path.split("/")[:2]) or _BETWEEN, counts) for path, counts in phases.items())


def _phase_table(phases: Mapping[str, Counts]) -> Markup:
    head = ["phase", "time", "rounds", "sent", "received", "products", "comparisons"]
    rows = [
        [
            path or _BETWEEN,
            duration(c.seconds),
            count(c.rounds),
            size(c.bytes_sent),
            size(c.bytes_received),
            count(c.products),
            count(c.comparisons),
        ]
        for path, c in phases.items()
    ]
    return table(head, rows)


def _peer_table(facts: Facts) -> Markup | None:
    total = facts.spent.total
    peers = [*dict.fromkeys([*total.payload_sent, *total.payload_received])]
    if not peers:
        return None
    rows = [
        [
            peer,
            count(total.messages.get(peer, 0)),
            size(total.payload_sent.get(peer, 0)),
            size(total.payload_received.get(peer, 0)),
        ]
        for peer in peers
    ]
    return table(["with", "messages sent", "sent", "received"], rows)


def _actual(facts: Facts) -> dict[str, float]:
    spent = facts.spent
    known = {"seconds": spent.seconds, "rounds": spent.rounds, "bytes_sent": spent.bytes_sent}
    return {**_quantities(spent.total), **known}


def _quantities(counts: Counts) -> dict[str, float]:
    return {
        "rounds": counts.rounds,
        "hops": counts.hops,
        "messages": sum(counts.messages.values()),
        "bytes_sent": counts.bytes_sent,
        "dealer_bytes": counts.dealer_bytes,
        "products": counts.products,
        "comparisons": counts.comparisons,
    }


def _forecast_of(facts: Facts, key: str) -> float | None:
    """Return what was forecast for the reader: of numbers that are given for every role, its own."""
    told = facts.forecast or {}
    value: Any = told.get(key)
    if isinstance(value, Mapping):
        value = value.get(facts.role)
    if value is None and isinstance(told.get("roles"), Mapping) and facts.role in told["roles"]:
        value = _quantities(Counts.from_dict(told["roles"][facts.role])).get(key)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
