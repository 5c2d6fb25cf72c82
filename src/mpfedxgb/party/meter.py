"""What a run cost, by named phase: rounds, messages, bytes to and from each peer, dealer bytes, products, seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(slots=True)
class Counts:
    """One role's counters.

    A *round* is one dependent exchange among the participants, however many values are batched in it; a *hop* is one
    message that somebody waits for (an opening over the star is one round and two hops). *Payload* bytes are those of
    the arrays, *wire* bytes those of whole frames. *Dealer bytes* are the coordinator's corrections, all of them at its
    end, and at a participant's those of its turns; they are not part of a participant's own traffic. A *product* is one
    elementwise product of secrets, a *MUL call* one such product of whole arrays (the paper's unit in section 6), a
    *comparison* one hidden bit computed from a secret.
    """

    seconds: float = 0.0
    rounds: int = 0
    hops: int = 0
    products: int = 0
    mul_calls: int = 0
    comparisons: int = 0
    dealer_bytes: int = 0
    messages: dict[str, int] = field(default_factory=dict)
    payload_sent: dict[str, int] = field(default_factory=dict)
    payload_received: dict[str, int] = field(default_factory=dict)
    wire_sent: dict[str, int] = field(default_factory=dict)
    wire_received: dict[str, int] = field(default_factory=dict)

    def add(self, other: Counts, times: int = 1) -> None:
        """Add another role's or phase's counters to these, once or as often as something happened."""
        for f in fields(self):
            mine, theirs = getattr(self, f.name), getattr(other, f.name)
            if isinstance(mine, dict):
                for peer, count in theirs.items():
                    mine[peer] = mine.get(peer, 0) + times * count
            else:
                setattr(self, f.name, mine + times * theirs)

    @classmethod
    def sum(cls, parts: Iterable[Counts]) -> Counts:
        """Return counters of several roles or phases, added up."""
        whole = cls()
        for part in parts:
            whole.add(part)
        return whole

    @property
    def bytes_sent(self) -> int:
        """Payload bytes sent to all peers."""
        return sum(self.payload_sent.values())

    @property
    def bytes_received(self) -> int:
        """Payload bytes received from all peers."""
        return sum(self.payload_received.values())

    def copy(self) -> Counts:
        """Return the counters as they are now, while another thread may go on counting."""
        values = self.to_dict()
        values |= {name: value.copy() for name, value in values.items() if isinstance(value, dict)}
        return Counts(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and dictionaries."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_dict(cls, plain: Any) -> Counts:
        """Return counters from plain values, as `to_dict` writes them; what is none of them is left out."""
        counts, plain = cls(), plain if isinstance(plain, Mapping) else {}
        for f in fields(cls):
            value = plain.get(f.name)
            if isinstance(getattr(counts, f.name), dict):
                of_peers = value if isinstance(value, Mapping) else {}
                setattr(counts, f.name, {str(k): v for k, v in of_peers.items() if type(v) is int})
            elif isinstance(value, (int, float)) and not isinstance(value, bool):
                setattr(counts, f.name, value)
        return counts


class Meter:
    """Counts of one role, by phase; the phase is a path such as "tree/histogram". And how tournaments were planned."""

    def __init__(self) -> None:
        self.phases: dict[str, Counts] = {}
        self.plans: dict[str, str] = {}
        self._path: tuple[str, ...] = ()
        self._since = time.perf_counter()
        self.now = self._enter(())

    def _enter(self, path: tuple[str, ...]) -> Counts:
        self._path = path
        self._since = time.perf_counter()
        return self.phases.setdefault("/".join(path), Counts())

    def _leave(self) -> None:
        self.now.seconds += time.perf_counter() - self._since

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what happens inside under a phase of its own, below the present one."""
        outer = self._path
        self._leave()
        self.now = self._enter((*outer, name))
        try:
            yield
        finally:
            self._leave()
            self.now = self._enter(outer)

    def sent(self, peer: str, payload: int, wire: int) -> None:
        """Count one message to a peer."""
        _bump(self.now.messages, peer, 1)
        _bump(self.now.payload_sent, peer, payload)
        _bump(self.now.wire_sent, peer, wire)

    def received(self, peer: str, payload: int, wire: int) -> None:
        """Count one message from a peer."""
        _bump(self.now.payload_received, peer, payload)
        _bump(self.now.wire_received, peer, wire)

    def total(self, prefix: str = "") -> Counts:
        """Return the sum over all phases, or over those at and below one."""
        return Counts.sum(
            counts
            for path, counts in self.phases.items()
            if not prefix or path == prefix or path.startswith(prefix + "/")
        )


def by_name(counted: Iterable[tuple[str, Counts]]) -> dict[str, Counts]:
    """Return counters by name, those of one name added up."""
    found: dict[str, list[Counts]] = {}
    for name, counts in counted:
        found.setdefault(name, []).append(counts)
    return {name: Counts.sum(parts) for name, parts in found.items()}


def _bump(counter: dict[str, int], key: str, count: int) -> None:
    counter[key] = counter.get(key, 0) + count
