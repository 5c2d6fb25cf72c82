"""The roles of a federation: coordinator C, active participant P_1, auxiliary participants P_2..P_M (section 3.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mpfedxgb.errors import SettingsError
from mpfedxgb.transport.transport import ACTIVE, COORDINATOR, STAR, neighbours

__all__ = ["ACTIVE", "COORDINATOR", "MAX_PARTICIPANTS", "Roster"]

MAX_PARTICIPANTS = 255
"""A split's owner is one byte of its tag."""


@dataclass(frozen=True, slots=True)
class Roster:
    """Names of the participants, the active one first, and of the coordinator."""

    participants: tuple[str, ...]
    coordinator: str = "coordinator"

    def __post_init__(self) -> None:
        """Refuse rosters that cannot work."""
        if not 2 <= len(self.participants) <= MAX_PARTICIPANTS:
            raise SettingsError(
                f"a federation has 2 to {MAX_PARTICIPANTS} participants, not {len(self.participants)}: "
                "with one there is nobody to keep secrets from"
            )
        names = (self.coordinator, *self.participants)
        for name in names:
            if not name or len(name) > 100 or not name.isprintable():
                raise SettingsError(f"a role's name is 1 to 100 printable characters, not {name!r}")
        if len(set(names)) != len(names):
            raise SettingsError(f"two roles have the same name in {list(names)}; give each its own")

    @classmethod
    def numbered(cls, count: int) -> Roster:
        """Return P1..PM."""
        return cls(tuple(f"P{m}" for m in range(1, count + 1)))

    @property
    def size(self) -> int:
        """The number M of participants."""
        return len(self.participants)

    @property
    def roles(self) -> range:
        """Numbers of all roles, the coordinator first."""
        return range(self.size + 1)

    @property
    def auxiliaries(self) -> range:
        """Numbers of the auxiliary participants."""
        return range(ACTIVE + 1, self.size + 1)

    def name(self, role: int) -> str:
        """Return a role's name."""
        return self.coordinator if role == COORDINATOR else self.participants[role - 1]

    def neighbours(self, role: int, topology: str = STAR) -> list[int]:
        """Return the roles this one is connected to."""
        return neighbours(topology, role, len(self.roles))

    def links(self, topology: str = STAR) -> Iterator[tuple[int, int]]:
        """Yield every connection once."""
        for role in self.roles:
            for other in self.neighbours(role, topology):
                if role < other:
                    yield role, other
