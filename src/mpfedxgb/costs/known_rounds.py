"""Boosting rounds whose splits are known: of those that cost the same one is rehearsed, and counted again for others.

What a role sends in a round depends on how many nodes of each level belong to whom, and on whose turn it is in the
first step to receive what the coordinator deals. What is revealed depends on the trees alone. Rounds of a sealed
training depend on those before them, so each of them is rehearsed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mpfedxgb.party.dry_run import DryRunParty, Numbers, Spent
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.ledger import Ledger
from mpfedxgb.party.observer import Observer
from mpfedxgb.protocols.reveal import NOBODY
from mpfedxgb.ring.ring import Shape

Owners = tuple[int, ...]
"""Whose the splits of a level are; a node of NOBODY does not split."""

ROUND = "boosting round "
"""How a training announces the next round to who looks on."""


class NoMoreRoundsError(Exception):
    """Ends a rehearsal: all rounds that are left are like others."""


def rounds_of_levels(owners: Sequence[Owners], max_depth: int, rounds: int) -> Iterator[tuple[Owners, ...]]:
    """Yield the levels of each round; a round ends after `max_depth` of them, or where no node splits."""
    levels = iter(owners)
    for _ in range(rounds):
        own: list[Owners] = []
        while owners and len(own) < max_depth and not (own and set(own[-1]) == {NOBODY}):
            own.append(next(levels))
        yield tuple(own)


class KnownRounds(Observer):
    """Tells a dry run whose splits there are, and skips rounds like those that it has been through.

    With `tells_ledger` the ledger is kept as well; otherwise rounds count as alike whatever they reveal. Unless they
    `repeat`, all are gone through.
    """

    def __init__(self, rounds: Sequence[tuple[Owners, ...]], repeat: bool, tells_ledger: bool) -> None:
        self._rounds, self._repeat, self._tells_ledger = rounds, repeat, tells_ledger
        self._next = 0
        self._levels: Iterator[Owners] = iter(())
        self._spent: dict[object, Spent] = {}
        self._revealed: dict[object, Ledger] = {}
        self._keys: tuple[object, object] | None = None
        self.party: DryRunParty | None = None

    def decide(self, name: Entry, shape: Shape) -> Numbers:
        """Return the owners of the next level."""
        return np.array(next(self._levels), np.int64)

    def on_progress(self, what: str) -> None:
        """Keep what the last round has cost, count the rounds like known ones, and begin the first that is not."""
        if not what.startswith(ROUND) or self.party is None:
            return
        if self._keys is not None:
            spent, revealed = self.party.since_mark()
            self._spent[self._keys[0]], self._revealed[self._keys[1]] = spent, revealed
        while self._next < len(self._rounds):
            levels = self._rounds[self._next]
            self._next += 1
            self._keys = self._keys_of(levels)
            if self._repeat and self._keys[0] in self._spent and self._keys[1] in self._revealed:
                self.party.repeat(self._spent[self._keys[0]], self._revealed[self._keys[1]])
                continue
            self._levels = iter(levels)
            self.party.mark()
            return
        raise NoMoreRoundsError

    def _keys_of(self, levels: tuple[Owners, ...]) -> tuple[object, object]:
        assert self.party is not None
        return (
            (self.party.next_turn, tuple(tuple(sorted(level)) for level in levels)),
            levels if self._tells_ledger else None,
        )
