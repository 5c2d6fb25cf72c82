"""The record of one role over all its attempts, read again: what was revealed to whom, per attempt and in total.

It is a chain of lines (`chain`) of JSON, in files that follow each other. A scoring session that runs, or was killed,
has the sum of its batches since its last line in a file beside them. What was written before there was a chain is in
`record.jsonl`; it is read, and said to be unchained.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mpfedxgb.atomic import MOST_BYTES, ChainedFiles, Found, chained, read_alone
from mpfedxgb.boosting.metrics import NO_METRIC
from mpfedxgb.errors import UserError
from mpfedxgb.party.ledger import Ledger
from mpfedxgb.report.record import is_unjudged, reveals_table
from mpfedxgb.units import bytes_text, counted

UNCHAINED = "record.jsonl"
"""What an earlier version has written, if anything."""
_MOST_TOLD = 5
_STEM, _SUM = "record", ".sum"
_LOST = "not ended: killed, or it runs"
# fmt: off
_ABOUT: dict[str, type | tuple[type, ...]] = {
    "time": str, "begun": str, "version": str, "federation": str, "session": str, "role": str, "attempt": int,
    "kind": str, "proposal": dict, "parameters": dict, "agreed": dict, "labels": str, "metrics": dict, "forecast": dict,
    "seconds": (int, float), "rounds": int, "bytes_sent": int, "batches": int, "rows_asked": int,
    "batches_not_found": int, "summed": bool, "peak_memory": int, "phases": dict, "how": str, "why": str,
    "ledger": list,
}
"""What a line may say of its attempt; a later line of the same attempt replaces what an earlier one said."""
# fmt: on


@dataclass(slots=True)
class Attempt:
    """What the record says of one attempt; `content` is empty if nothing was written before it was killed.

    Of a proposal that led to none it says what was proposed.
    """

    entry: str
    content: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def ledger(self) -> Ledger:
        """What was revealed, as far as it was written down."""
        return Ledger.read(self.content.get("ledger", ()))

    @property
    def has_ended(self) -> bool:
        """Whether the attempt ended in a way that could be written down."""
        return "how" in self.content

    @property
    def _is_unjudged(self) -> bool:
        content = self.content
        return content.get("kind") == "training" and is_unjudged(content.get("parameters", {}), self.ledger)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, the ledger as in every other report."""
        return {
            "entry": self.entry,
            **self.content,
            "ended": self.has_ended,
            "ledger": [asdict(r) for r in self.ledger],
        }

    def head(self) -> str:
        """Return one line about the attempt."""
        content = self.content
        how = content.get("how", _LOST) + (f" ({content['why']})" if content.get("why") else "")
        if "proposal" in content:
            asked = ", ".join(f"{key} {value}" for key, value in content["proposal"].items())
            return f"{content.get('begun', '?')}  {content.get('session', '?')}, proposed ({asked}): {how}"
        metrics = [f"{name} {v:.5f}" for rows in content.get("metrics", {}).values() for name, v in rows.items()]
        return ", ".join(
            [
                f"{content.get('begun', '?')}  {content.get('session', '?')}, attempt {content.get('attempt', '?')}",
                f"{content.get('kind', 'nothing begun')}: {how}",
                f"{content.get('seconds', 0.0):.1f} s",
                f"{content.get('rounds', 0)} message rounds",
                f"{bytes_text(content.get('bytes_sent', 0))} sent",
                *([_batches(content)] if "batches" in content else []),
                f"peak memory {bytes_text(content.get('peak_memory', 0))}",
                *metrics,
                *([NO_METRIC] if self._is_unjudged else []),
            ]
        )


def record_chain(folder: Path, most_bytes: int = MOST_BYTES) -> ChainedFiles:
    """Return the chain that is the record in a role's state folder."""
    return ChainedFiles(folder, _STEM, folder / UNCHAINED, most_bytes)


def sum_path(folder: Path, entry: str) -> Path:
    """Return where an attempt's sum since its last line is."""
    return folder / f"{_STEM}-{entry}{_SUM}"


def sum_line(chain: ChainedFiles, content: str) -> bytes:
    """Return a sum as it is kept: one line, with its digest."""
    return chained(chain.start, content.encode())


@dataclass(frozen=True, slots=True)
class History:
    """Everything that a role has done: its attempts in the order in which they began; and proposals that led to none.

    `damaged` are the places of lines that are left out, `problems` what is wrong with the chain, those included, and
    `unchained` the lines from before there was one.
    """

    attempts: tuple[Attempt, ...]
    damaged: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    unchained: int = 0
    chained: int = 0
    digest: str = ""
    """Of the last line."""
    proposals: tuple[Attempt, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> History:
        """Return what the record in a state folder says; one that is missing is empty, a bad line is left out.

        A role may be writing meanwhile, so what looks wrong is looked at twice.
        """
        found = cls._read(folder)
        return cls._read(folder) if found.problems else found

    @classmethod
    def _read(cls, folder: Path) -> History:
        try:
            path = folder / UNCHAINED
            old = path.read_bytes().split(b"\n") if path.exists() else []
            chain = record_chain(folder)
            found = chain.read()
            sums = {path.name: path.read_bytes() for path in sorted(folder.glob(f"{_STEM}-*{_SUM}"))}
        except OSError as error:
            raise UserError(f"cannot read the record in {folder}: {error.strerror}", "file", folder.name) from None
        unchained = [(f"{UNCHAINED}:{number}", line) for number, line in enumerate(old, start=1) if line]
        reading = _Attempts(found)
        for place, line in (*unchained, *found.lines):
            reading.take(place, line)
        reading.take_sums(chain, sums)
        entries = reading.attempts.values()
        return cls(
            tuple(entry for entry in entries if "proposal" not in entry.content),
            tuple(reading.damaged),
            tuple(reading.problems),
            len(unchained),
            len(found.lines),
            found.digest if found.files else "",
            tuple(entry for entry in entries if "proposal" in entry.content),
        )

    def of_session(self, session: str | None) -> History:
        """Return the attempts and proposals of one session only."""
        if session is None:
            return self
        attempts, proposals = (
            tuple(one for one in entries if one.content.get("session") == session)
            for entries in (self.attempts, self.proposals)
        )
        return replace(self, attempts=attempts, proposals=proposals)

    @property
    def total(self) -> Ledger:
        """What was revealed in all attempts together."""
        whole = Ledger()
        for attempt in self.attempts:
            whole.add(attempt.ledger)
        return whole

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "attempts": [attempt.to_dict() for attempt in self.attempts],
            "proposals": [{"entry": proposal.entry, **proposal.content} for proposal in self.proposals],
            "total": {
                "attempts": len(self.attempts),
                "seconds": self._sum("seconds"),
                "rounds": self._sum("rounds"),
                "bytes_sent": self._sum("bytes_sent"),
                "ledger": [asdict(r) for r in self.total],
            },
            "damaged_lines": list(self.damaged),
            "problems": list(self.problems),
            "chained_lines": self.chained,
            "unchained_lines": self.unchained,
            "last_digest": self.digest,
        }

    def __str__(self) -> str:
        """Return a page: a head and a ledger for each attempt, then the total."""
        lines: list[str] = []
        for attempt in self.attempts:
            lines += [attempt.head(), *_table(attempt.ledger), ""]
        if self.proposals:
            lines += ["proposals that led to no attempt:", *(f"  {one.head()}" for one in self.proposals), ""]
        count = counted(len(self.attempts), "attempt")
        lines.append(f"in total: {count}, {self._sum('seconds'):.1f} s, {bytes_text(self._sum('bytes_sent'))} sent")
        lines += _table(self.total)
        open_ = sum(not attempt.has_ended for attempt in self.attempts)
        if open_:
            lines.append(f"{open_} did not end: each may have revealed what one more boosting round or batch reveals")
        return "\n".join([*lines, *(f"WARNING: {warning}" for warning in self.warnings())])

    def warnings(self) -> list[str]:
        """Return what a reader has to know before believing the record."""
        found = [f"the chain of the record is broken: {problem}" for problem in self.problems[:_MOST_TOLD]]
        if len(self.problems) > _MOST_TOLD:
            found.append(f"the chain of the record is broken in {len(self.problems) - _MOST_TOLD} more places")
        if self.damaged:
            found.append(f"lines of the record that are left out because they are damaged: {len(self.damaged)}")
        if self.unchained:
            found.append(
                f"{self.unchained} lines of the record are of an earlier version and not chained: whether {UNCHAINED} "
                f"is as it was written then cannot be seen"
            )
        return found

    def _sum(self, key: str) -> float:
        return sum((attempt.content.get(key, 0) for attempt in self.attempts), 0.0)


class _Attempts:
    """Gathers attempts from lines, and what is wrong with those."""

    def __init__(self, found: Found) -> None:
        self.attempts: dict[str, Attempt] = {}
        self.damaged, self.problems = list(found.damaged), list(found.problems)

    def take(self, place: str, line: bytes) -> None:
        """Take a line in; a later one of the same attempt replaces what an earlier one said."""
        try:
            content = _parse(line)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self.damaged.append(place)
            self.problems.append(f"{place} is no line of a record")
            return
        entry = content.pop("entry")
        self.attempts.setdefault(entry, Attempt(entry)).content.update(content)

    def take_sums(self, chain: ChainedFiles, sums: Mapping[str, bytes]) -> None:
        """Take in the sums of attempts that have not ended; each that has begun one has to have it."""
        for attempt in self.attempts.values():
            if not attempt.content.get("summed") or attempt.has_ended:
                continue
            name = sum_path(Path(), attempt.entry).name
            try:
                body = read_alone(sums[name], chain.start)
                if json.loads(body)["entry"] != attempt.entry:
                    raise ValueError("of another attempt")
            except (KeyError, ValueError):
                self.problems.append(
                    f"{name} is missing or damaged: batches after the attempt's last line are not here"
                )
            else:
                self.take(name, body)


def _parse(line: bytes) -> dict[str, Any]:
    """Return what a line says; raises ValueError, TypeError or KeyError if it is none of this record."""
    content = json.loads(line)
    if not isinstance(content, dict):
        raise TypeError("not an object")
    for key, kinds in _ABOUT.items():
        if key in content and (
            not isinstance(content[key], kinds) or (isinstance(content[key], bool) != (kinds is bool))
        ):
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


def _batches(content: Mapping[str, Any]) -> str:
    lacking = content.get("batches_not_found", 0)
    without = f" ({lacking} not answered: rows were not found)" if lacking else ""
    return f"{content['batches']} batches of {content.get('rows_asked', 0)} rows in all{without}"


def _table(ledger: Ledger) -> Sequence[str]:
    if not len(ledger):
        return ["  nothing was revealed"]
    return [f"  {line}" for line in reveals_table("revealed", ledger)]
