"""The ledger: every value that a role may learn, by name, receiver and count. What is not here stays secret."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reveal:
    """`count` values were revealed to `receiver` under one name."""

    name: str
    receiver: str
    count: int


class Ledger:
    """Reveals of one run, added up by name and receiver, in the order of their first appearance.

    All roles run the same program, so all keep the same ledger; a test compares them.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}

    def record(self, name: str, receiver: str, count: int) -> None:
        """Write down that `count` values go to a receiver."""
        if count:
            self._counts[str(name), receiver] = self._counts.get((name, receiver), 0) + count

    @classmethod
    def read(cls, entries: Iterable[tuple[str, str, int]]) -> Ledger:
        """Return a ledger from names, receivers and counts, as they were written down."""
        ledger = cls()
        for name, receiver, count in entries:
            ledger.record(name, receiver, count)
        return ledger

    def add(self, other: Iterable[Reveal], times: int = 1) -> None:
        """Add what another run revealed to this, once or as often as something happened."""
        for reveal in other:
            self.record(reveal.name, reveal.receiver, times * reveal.count)

    def since(self, before: Ledger) -> Ledger:
        """Return what was revealed after the ledger was as it was `before`."""
        return Ledger.read((r.name, r.receiver, r.count - before.count(r.name, r.receiver)) for r in self)

    def count(self, name: str, receiver: str) -> int:
        """Return how many values of a name a receiver has learnt."""
        return self._counts.get((name, receiver), 0)

    def copy(self) -> Ledger:
        """Return the ledger as it is now."""
        copy = Ledger()
        copy._counts.update(self._counts)
        return copy

    def __iter__(self) -> Iterator[Reveal]:
        for (name, receiver), count in self._counts.items():
            yield Reveal(name, receiver, count)

    def __len__(self) -> int:
        return len(self._counts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and self._counts == other._counts

    __hash__ = None  # type: ignore[assignment] # a ledger grows

    def __repr__(self) -> str:
        return f"Ledger({list(self)})"
