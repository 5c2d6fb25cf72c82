"""The record of one role over all its attempts, read again: what was revealed to whom, per attempt and in total."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mpfedxgb.boosting.metrics import NO_METRIC
from mpfedxgb.errors import UserError
from mpfedxgb.party.ledger import Ledger, Reveal
from mpfedxgb.report.record import is_unjudged

_LOST = "not ended: killed, or it runs"
_ABOUT: dict[str, type | tuple[type, ...]] = {
    "time": str,
    "begun": str,
    "version": str,
    "federation": str,
    "session": str,
    "role": str,
    "attempt": int,
    "kind": str,
    "parameters": dict,
    "labels": str,
    "metrics": dict,
    "forecast": dict,
    "seconds": (int, float),
    "rounds": int,
    "bytes_sent": int,
    "peak_memory": int,
    "phases": dict,
    "how": str,
    "why": str,
    "ledger": list,
}
"""What a line may say of its attempt; a later line of the same attempt replaces what an earlier one said."""


@dataclass(slots=True)
class Attempt:
    """What the record says of one attempt; `content` is empty where nothing was written before it was killed."""

    entry: str
    content: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def ledger(self) -> Ledger:
        """What was revealed, as far as it was written down."""
        found = Ledger()
        for name, receiver, count in self.content.get("ledger", ()):
            found.record(name, receiver, count)
        return found

    @property
    def has_ended(self) -> bool:
        """Whether the attempt ended in a way that could be written down."""
        return "how" in self.content

    @property
    def _is_unjudged(self) -> bool:
        told = self.content
        return told.get("kind") == "training" and is_unjudged(told.get("parameters", {}), self.ledger)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, the ledger as in every other report."""
        return {"entry": self.entry, **self.content, "ended": self.has_ended, "ledger": _entries(self.ledger)}

    def head(self) -> str:
        """Return one line about the attempt."""
        told = self.content
        how = told.get("how", _LOST) + (f" ({told['why']})" if told.get("why") else "")
        metrics = [f"{name} {v:.5f}" for rows in told.get("metrics", {}).values() for name, v in rows.items()]
        return ", ".join(
            [
                f"{told.get('begun', '?')}  {told.get('session', '?')}, attempt {told.get('attempt', '?')}",
                f"{told.get('kind', 'nothing begun')}: {how}",
                f"{told.get('seconds', 0.0):.1f} s",
                f"{told.get('rounds', 0)} rounds",
                f"{told.get('bytes_sent', 0) / 1e6:.2f} MB sent",
                f"peak memory {told.get('peak_memory', 0) / 1e6:.0f} MB",
                *metrics,
                *([NO_METRIC] if self._is_unjudged else []),
            ]
        )


@dataclass(frozen=True, slots=True)
class History:
    """Everything that a role has done: its attempts in the order in which they began, and lines that cannot be read."""

    attempts: tuple[Attempt, ...]
    damaged: tuple[int, ...] = ()

    @classmethod
    def read(cls, path: Path) -> History:
        """Return what a record says; a missing file is an empty one, a torn line is left out and counted."""
        try:
            lines = path.read_bytes().split(b"\n") if path.exists() else []
        except OSError as error:
            raise UserError(f"cannot read the record {path}: {error.strerror}") from None
        attempts: dict[str, Attempt] = {}
        damaged = []
        for number, line in enumerate(lines, start=1):
            if not line:
                continue
            try:
                content = _parse(line)
            except (ValueError, TypeError, KeyError, RecursionError):
                damaged.append(number)
                continue
            entry = content.pop("entry")
            attempts.setdefault(entry, Attempt(entry)).content.update(content)
        return cls(tuple(attempts.values()), tuple(damaged))

    def of_session(self, session: str | None) -> History:
        """Return the attempts of one session only."""
        chosen = [a for a in self.attempts if session is None or a.content.get("session") == session]
        return History(tuple(chosen), self.damaged)

    @property
    def total(self) -> Ledger:
        """What was revealed in all attempts together."""
        whole = Ledger()
        for attempt in self.attempts:
            for reveal in attempt.ledger:
                whole.record(reveal.name, reveal.receiver, reveal.count)
        return whole

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "attempts": [attempt.to_dict() for attempt in self.attempts],
            "total": {
                "attempts": len(self.attempts),
                "seconds": self._sum("seconds"),
                "rounds": self._sum("rounds"),
                "bytes_sent": self._sum("bytes_sent"),
                "ledger": _entries(self.total),
            },
            "damaged_lines": list(self.damaged),
        }

    def __str__(self) -> str:
        """Return a page: a head and a ledger for each attempt, then the total."""
        lines: list[str] = []
        for attempt in self.attempts:
            lines += [attempt.head(), *_table(attempt.ledger), ""]
        count = f"{len(self.attempts)} attempt{'' if len(self.attempts) == 1 else 's'}"
        lines.append(f"in total: {count}, {self._sum('seconds'):.1f} s, {self._sum('bytes_sent') / 1e6:.2f} MB sent")
        lines += _table(self.total)
        open_ = sum(not attempt.has_ended for attempt in self.attempts)
        if open_:
            lines.append(f"{open_} did not end: each may have revealed what one more round or batch reveals")
        if self.damaged:
            numbers = ", ".join(map(str, self.damaged))
            lines.append(f"damaged and left out: line {numbers} (torn where a disk was full or a process was killed)")
        return "\n".join(lines)

    def _sum(self, key: str) -> float:
        return sum((attempt.content.get(key, 0) for attempt in self.attempts), 0.0)


def _parse(line: bytes) -> dict[str, Any]:
    """Return what a line says; raises ValueError, TypeError or KeyError if it is none of this record."""
    content = json.loads(line)
    if not isinstance(content, dict):
        raise TypeError("not an object")
    for key, kinds in _ABOUT.items():
        if key in content and (not isinstance(content[key], kinds) or isinstance(content[key], bool)):
            raise TypeError(f"{key} is {type(content[key]).__name__}")
    for name, receiver, count in content.get("ledger", ()):
        if not (isinstance(name, str) and isinstance(receiver, str) and type(count) is int and count >= 0):
            raise TypeError("not a reveal")
    for values in content.get("metrics", {}).values():
        if not all(isinstance(value, float) for value in values.values()):
            raise TypeError("not a metric")
    if not isinstance(content["entry"], str):
        raise TypeError("not the name of an entry")
    return {key: content[key] for key in ("entry", *_ABOUT) if key in content}


def _entries(ledger: Iterable[Reveal]) -> list[dict[str, Any]]:
    return [{"name": r.name, "receiver": r.receiver, "count": r.count} for r in ledger]


def _table(ledger: Ledger) -> Sequence[str]:
    if not len(ledger):
        return ["  nothing was revealed"]
    return [
        f"  {'revealed':48}{'to':16}{'values':>10}",
        *(f"  {r.name:48}{r.receiver:16}{r.count:>10}" for r in ledger),
    ]
