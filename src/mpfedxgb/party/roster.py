"""Roles: coordinator C, active participant P_1, auxiliary participants P_2..P_M (section 3.1); and their keys.

The coordinator may be an organisation that brings columns too. The participants P_1..P_M are those who hold shares; the
owners of columns are they and, under the number M + 1, such a coordinator.

The key schedule: one stream key per step and participant, never the same twice.

A step's key is HKDF(seed; session, attempt, roster, a fresh nonce of every participant | step label, announcements so
far), with the HKDF of RFC 5869. The coordinator has every participant's seed and so derives every stream; a participant
derives its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import KeyReuseError, SettingsError
from mpfedxgb.ring.prg import KEY_BYTES, SEED_BYTES, Expander, Source, Stream, digest, expand, extract, os_entropy
from mpfedxgb.transport.transport import ACTIVE, COORDINATOR, STAR, neighbours

__all__ = ["ACTIVE", "COORDINATOR", "MAX_PARTICIPANTS", "Roster"]

T = TypeVar("T")

MAX_PARTICIPANTS = 255
"""A split's owner is one byte of its tag."""


@dataclass(frozen=True, slots=True)
class Roster:
    """Names of the participants, the active one first, and of the coordinator; `coordinator_owns` columns, or none.

    The active participant `is_alone` only where no protocol runs.
    """

    participants: tuple[str, ...]
    coordinator: str = "coordinator"
    coordinator_owns: bool = False
    is_alone: bool = False

    def __post_init__(self) -> None:
        """Refuse rosters that cannot work."""
        if not (1 if self.is_alone else 2) <= len(self.participants) <= MAX_PARTICIPANTS:
            text = (
                f"a federation has 2 to {MAX_PARTICIPANTS} participants, not {len(self.participants)}: "
                "with one there is nobody to keep secrets from"
            )
            raise SettingsError(text, "range", "participants", len(self.participants))
        if len(self.owner_names) > MAX_PARTICIPANTS:
            text = f"with a coordinator that brings columns there are at most {MAX_PARTICIPANTS - 1} other participants"
            raise SettingsError(text, "range", "participants", len(self.participants))
        names = (self.coordinator, *self.participants)
        for name in names:
            if not name or len(name) > 100 or not name.isprintable():
                raise SettingsError(
                    f"a role's name is 1 to 100 printable characters, not {name!r}", "value", "name", name
                )
        if len(set(names)) != len(names):
            raise SettingsError(
                f"two roles have the same name in {list(names)}; give each its own", "duplicate", "name", list(names)
            )

    @classmethod
    def numbered(cls, count: int) -> Roster:
        """Return P1..PM."""
        return cls(tuple(f"P{m}" for m in range(1, count + 1)))

    @classmethod
    def coordinated_by(cls, names: Sequence[str], owner: str) -> Roster:
        """Return the roster of organisations, the active one first, of which the `owner` is the coordinator too.

        Raises SettingsError unless it is one of three or more, and not the active one.
        """
        text, what = f"coordinator={owner!r}", ("coordinator", owner)
        independent = "or leave it out for a coordinator without columns"
        if owner not in names:
            listed = ", ".join(names)
            raise SettingsError(
                f"{text} is none of the participants, {listed}; name one, {independent}", "unknown", *what
            )
        if len(names) < 3:
            text += (
                f" takes three participants or more, not {len(names)}: it knows all masks, so that one other alone "
                f"would have nobody to hide its columns with; bring in a third, {independent}"
            )
            raise SettingsError(text, "few", *what)
        if names[0] == owner:
            text += (
                " is the active participant, to which values are revealed, and to a coordinator none may be: it knows "
                f"what masks them; name an auxiliary participant, {independent}"
            )
            raise SettingsError(text, "place", *what)
        return cls(tuple(name for name in names if name != owner), owner, coordinator_owns=True)

    @property
    def size(self) -> int:
        """The number M of participants."""
        return len(self.participants)

    @property
    def holders(self) -> range:
        """Numbers of the participants, who hold shares."""
        return range(ACTIVE, self.size + 1)

    @property
    def owners(self) -> range:
        """Numbers of those who may own columns: the participants, and a coordinator that brings some."""
        return range(ACTIVE, self.size + 1 + self.coordinator_owns)

    @property
    def owner_names(self) -> tuple[str, ...]:
        """Names of the owners, in order."""
        return (*self.participants, self.coordinator) if self.coordinator_owns else self.participants

    @property
    def other_owners(self) -> list[int]:
        """Roles of the owners of columns but the active participant: the auxiliaries, and a coordinator with some."""
        return [*self.auxiliaries, *([COORDINATOR] if self.coordinator_owns else [])]

    @property
    def coordinating_owner(self) -> str | None:
        """The coordinator's name if it brings columns; None otherwise."""
        return self.coordinator if self.coordinator_owns else None

    @property
    def owning_coordinator(self) -> int:
        """The coordinator's number as an owner; -1, which nothing has, if it brings no columns: 0 is nobody's."""
        return self.size + 1 if self.coordinator_owns else -1

    def owner_of(self, role: int) -> int:
        """Return a role's number as an owner of columns; 0 for a coordinator that brings none."""
        return max(0, self.owning_coordinator) if role == COORDINATOR else role

    def role_of(self, owner: int) -> int:
        """Return the role that has a number as an owner."""
        return COORDINATOR if owner == self.size + 1 else owner

    def by_owner(self, of_roles: Sequence[T]) -> list[T]:
        """Return what all roles have, the coordinator first, in the order of the owners."""
        return [of_roles[self.role_of(owner)] for owner in self.owners]

    def by_role(self, of_owners: Sequence[T], otherwise: T) -> list[T]:
        """Return what all owners have in the order of the roles; `otherwise` for a coordinator without columns."""
        owners = list(of_owners)
        return [owners.pop() if self.coordinator_owns else otherwise, *owners]

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


NONCE_BYTES = 16

MakeSource = Callable[[int, str, bytes], Source]
"""Turns (participant, label, key) into a stream; tests put enumerated randomness here."""


def context_digest(settings: SessionSettings, roster: Roster, nonces: Sequence[bytes]) -> bytes:
    """Return the digest that ties all keys of an attempt to its session, roster and everyone's nonces."""
    return digest(
        b"mpfedxgb key context 1",
        settings.session.encode(),
        str(settings.attempt).encode(),
        roster.coordinator.encode(),
        *(name.encode() for name in roster.owner_names),
        *nonces,
    )


def commitment(private: bytes) -> bytes:
    """Return what tells one training from another without telling the key of a role's choices."""
    return digest(b"commitment to private choices", private)


def training_name(settings: SessionSettings, commitments: Sequence[bytes]) -> str:
    """Return what tells a training from every other, from its parameters and all owners' commitments."""
    return digest(b"training", settings.session.encode(), settings.parameters.encode(), *commitments).hex()[:32]


def entropy_of(role: str, settings: SessionSettings) -> Callable[[int], bytes]:
    """Return where a role takes its seeds and nonces from: the operating system, or `insecure_seed` if one is set."""
    if settings.insecure_seed is None:
        return os_entropy
    state = digest(b"insecure", str(settings.insecure_seed).encode(), str(settings.attempt).encode(), role.encode())
    drawn = 0

    def repeatable(count: int) -> bytes:
        nonlocal drawn
        drawn += 1
        return expand(state, str(drawn).encode())[:count]

    return repeatable


class Keyring:
    """The streams a role may derive: `seeds` holds its own seed, or at the coordinator everyone's, by participant."""

    def __init__(
        self,
        seeds: dict[int, bytes],
        context: bytes,
        make_source: MakeSource | None = None,
        private: bytes = b"",
        training: str = "",
    ) -> None:
        self._private = Expander(private or os_entropy(KEY_BYTES))
        # HKDF-Extract (RFC 5869, section 2.2): the seed is the keying material, the context its salt.
        self._keys = {participant: Expander(extract(context, seed)) for participant, seed in seeds.items()}
        self._make_source = make_source
        self.training = training
        self.attempt = digest(b"attempt", context).hex()[:32]
        self._step = 0
        self._used: set[tuple[int, str]] = set()  # of that step
        self._announced = digest(b"mpfedxgb announcements 1")

    def __repr__(self) -> str:
        return f"Keyring(participants={sorted(self._keys)})"

    def commit(self, commitment: bytes) -> None:
        """Make the training's name, and with it all private choices, depend on a public commitment too."""
        self.training = digest(b"training", self.training.encode(), commitment).hex()[:32]

    def announce(self, name: str, values: bytes) -> None:
        """Make all later keys depend on a public announcement."""
        self._announced = digest(self._announced, name.encode(), values)

    def private_stream(self, label: str) -> Stream:
        """Return random choices that are this role's alone, unknown to the coordinator; the same for the same label.

        For choices, such as coins and samples, that a resumed run has to repeat; never for masks. They depend on the
        training too: the coins of two trainings, side by side, would tell which sides are alike.
        """
        return Stream(self._private(digest(b"private choice", self.training.encode(), label.encode())))

    def source(self, participant: int, step: int, label: str) -> Source:
        """Return the stream of a step; a label serves once per step and participant, or it is a KeyReuseError.

        What is remembered is the highest step that was asked for and the labels used in it, however long a session
        lasts. That suffices. Keys of two steps have different infos, since an info begins with its step's number and a
        colon. A step below the highest is refused, used or not. Labels of the highest are compared one by one. And a
        step above it cannot have been used: all requests before this one were for steps up to the highest.
        """
        name = f"{step}:{label}"
        if step < self._step or (step == self._step and (participant, label) in self._used):
            raise KeyReuseError(
                f"the key of step {name!r} has been used; a mask never hides two values", parameter=name
            )
        if step > self._step:
            self._step = step
            self._used.clear()
        self._used.add((participant, label))
        # The suffix has a fixed length, so no two pairs of name and announcements share an info.
        info = name.encode() + self._announced
        key = self._keys[participant](info)  # HKDF-Expand (RFC 5869, section 2.3)
        return Stream(key) if self._make_source is None else self._make_source(participant, name, key)


def keys_of_choices(roster: Roster, settings: SessionSettings) -> list[Keyring]:
    """Return every owner's keys for choices of its own, coins and samples, for a run in one place without masks.

    They are those that a handshake with the same settings and `insecure_seed` would give.
    """
    private = [entropy_of(name, settings)(SEED_BYTES) for name in roster.owner_names]
    training = training_name(settings, [commitment(key) for key in private])
    return [Keyring({}, b"", private=key, training=training) for key in private]
