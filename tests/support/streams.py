"""Streams for tests in place of a role's own: forgotten ones, fixed ones, and those of everybody but one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mpfedxgb.party import ACTIVE
from mpfedxgb.party.roster import MakeSource
from mpfedxgb.ring import Ring, RingArray
from mpfedxgb.ring.prg import Source, Stream, digest
from mpfedxgb.ring.ring import Shape
from support.views import Coalition, written_out


class Zeros:
    """A stream that forgot to be random."""

    def elements(self, ring: Ring, shape: Shape) -> RingArray:
        """Return zeros."""
        return written_out(RingArray.zeros(ring, shape))

    def again(self, start: int = 0) -> Zeros:
        """Return the same."""
        return self


def own_randomness_fixed(coalition: Coalition, forgotten: str = "") -> MakeSource:
    """Return streams: the same in all runs for the coalition; P_1's mask of one step may be forgotten."""

    def source(participant: int, label: str, key: bytes) -> Source:
        if forgotten and participant == ACTIVE and forgotten in label:
            return Zeros()
        fixed = digest(b"fixed", str(participant).encode(), label.encode())
        return Stream(fixed if participant in coalition else key)

    return source


@dataclass(slots=True)
class Spoilt:
    """Streams some of which are replaced by worse ones. Nothing is proved if none is, so they are counted."""

    streams: MakeSource
    replace: Callable[[int, str, Source], Source | None]
    count: int = 0

    def __call__(self, participant: int, label: str, key: bytes) -> Source:
        """Return the stream of a step."""
        sound = self.streams(participant, label, key)
        worse = self.replace(participant, label, sound)
        if worse is None:
            return sound
        self.count += 1
        return worse


def all_but(honest: int) -> MakeSource:
    """Return streams that are zero for everybody but one: what the others receive is masked by that one alone."""
    return lambda participant, label, key: Stream(key) if participant == honest else Zeros()


def sound(participant: int, label: str, key: bytes) -> Source:
    """Return the stream that a role has outside tests."""
    return Stream(key)
