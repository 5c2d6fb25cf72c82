"""Time, message rounds and bytes by phase and by peer, and what was forecast beside what it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mpfedxgb.party.meter import Counts, by_name
from mpfedxgb.report.html.data import ReportData
from mpfedxgb.report.html.pictures import Bar, Bars, bars
from mpfedxgb.units import bytes_text, count, duration_text

_BETWEEN = "between phases"
_QUANTITIES: dict[str, tuple[str, Callable[[float], str]]] = {
    "rounds": ("message rounds", count),
    "hops": ("messages that somebody waits for", count),
    "messages": ("messages sent", count),
    "bytes_sent": ("bytes sent", bytes_text),
    "dealer_bytes": ("corrections dealt", bytes_text),
    "products": ("products of secrets", count),
    "comparisons": ("comparisons of secrets", count),
    "memory": ("memory", bytes_text),
    "disk": ("disk", bytes_text),
    "seconds": ("time", duration_text),
}
"""What may be forecast, in words."""


def phase_bars(phases: Mapping[str, Counts]) -> list[Bars]:
    """Return where time, message rounds and bytes went, by the first two steps of the phases' paths."""
    found = by_name(("/".join(path.split("/")[:2]) or _BETWEEN, counts) for path, counts in phases.items())
    drawn = [
        bars("Time by phase", [Bar(n, c.seconds) for n, c in found.items()], duration_text),
        bars("Rounds by phase", [Bar(n, c.rounds) for n, c in found.items() if c.rounds], count),
        bars("Bytes sent by phase", [Bar(n, c.bytes_sent) for n, c in found.items() if c.bytes_sent], bytes_text),
    ]
    return [one for one in drawn if one is not None]


def phase_rows(phases: Mapping[str, Counts]) -> list[list[str]]:
    """Return what each phase cost."""
    return [
        [
            path or _BETWEEN,
            duration_text(c.seconds),
            count(c.rounds),
            bytes_text(c.bytes_sent),
            bytes_text(c.bytes_received),
            count(c.products),
            count(c.comparisons),
        ]
        for path, c in phases.items()
    ]


def peer_rows(total: Counts) -> list[list[str]]:
    """Return what went to and came from each peer."""
    return [
        [
            peer,
            count(total.messages.get(peer, 0)),
            bytes_text(total.payload_sent.get(peer, 0)),
            bytes_text(total.payload_received.get(peer, 0)),
        ]
        for peer in dict.fromkeys([*total.payload_sent, *total.payload_received])
    ]


def forecast_rows(data: ReportData) -> list[list[str]]:
    """Return what was forecast beside what it was; nothing if there was no forecast."""
    spent, rows = data.spent, []
    known = {"seconds": spent.seconds, "rounds": spent.rounds, "bytes_sent": spent.bytes_sent}
    actual: dict[str, float] = {**_quantities(spent.total), **known}
    for key, (words, written) in _QUANTITIES.items():
        forecast = _forecast_of(data, key)
        if not forecast or (key == "dealer_bytes" and not data.is_coordinator):  # dealt to all participants together
            continue
        if not data.mode.runs_a_protocol:  # nothing was counted
            rows.append([words, written(forecast)])
            continue
        was = actual.get(key)  # what was not counted here is not shown as nothing
        rows.append([words, written(forecast), *([written(was), f"{was / forecast:.2f}"] if was else ["", ""])])
    return rows


def _quantities(counts: Counts) -> dict[str, float]:
    names = ("rounds", "hops", "bytes_sent", "dealer_bytes", "products", "comparisons")
    return {"messages": sum(counts.messages.values()), **{name: getattr(counts, name) for name in names}}


def _forecast_of(data: ReportData, key: str) -> float | None:
    """Return what was forecast for the reader: of numbers that are given for every role, its own."""
    forecast = data.forecast or {}
    value: Any = forecast.get(key)
    if isinstance(value, Mapping):
        value = value.get(data.role)
    if value is None and isinstance(forecast.get("roles"), Mapping) and data.role in forecast["roles"]:
        value = _quantities(Counts.from_dict(forecast["roles"][data.role])).get(key)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
