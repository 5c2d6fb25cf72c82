"""The transports that a settings file may name, in one table, and what each is told to connect a role.

A transport is a folder or module of this room, called as in the table, that has a function
`open_transport(settings: ConnectionSettings) -> Transport`. It is imported when it is used: each brings a library that
the others do without. The in-process one is not here: a simulation makes all ends of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Protocol

from mpfedxgb.errors import SettingsError
from mpfedxgb.transport.transport import NAME, STAR, Address, Transport


@dataclass(frozen=True, slots=True)
class TransportKind:
    """What the settings of a role have to say if it uses the transport."""

    where: str
    """Where it belongs, for people."""
    has_addresses: bool
    """Whether roles find each other by [network] listen, coordinator, active and peers."""
    has_certificates: bool
    """Whether roles know each other by [tls]."""


TRANSPORTS: dict[str, TransportKind] = {
    "tls": TransportKind("between organisations", has_addresses=True, has_certificates=True),
    "mpi": TransportKind("within one cluster", has_addresses=False, has_certificates=False),
}
"""What [network] transport may be; the first is the default."""


ASK_EVERY = 20.0
"""Seconds without traffic after which the other side of a connection is asked for a sign of life, at most."""


def ask_every(silence: float) -> float:
    """Return after how many seconds without traffic to ask, if a connection is lost after `silence` seconds."""
    return min(ASK_EVERY, silence / 3)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The files that prove who a role is."""

    ca: Path
    certificate: Path
    key: Path
    passphrase: bytes | None = field(repr=False)


class InterimMessages(Protocol):
    """Blocks for those who are connected before everybody is."""

    def waiting(self, names: Sequence[str]) -> bytes:
        """Return a block that says for whom this role still waits."""
        ...

    def giving_up(self, error: BaseException) -> bytes:
        """Return a block that says why this role does not wait any longer."""
        ...


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """What a transport has to know to connect one role with its neighbours.

    Parameters
    ----------
    role : int
        This role's number; 0 is the coordinator, 1 the active participant.
    names : tuple of str
        All roles' names, the coordinator first.
    federation : str
        Name of the federation; the same at all roles.
    listen : Address or None
        Where this role is reached, if it listens.
    addresses : mapping from role to Address
        The roles that this one dials.
    credentials : Credentials or None
        None only where the transport has no certificates.
    timeout : float
        Seconds to wait for everybody.
    capacity : int
        Bytes that may wait for a receiver.
    max_block : int
        Bytes of the largest block.
    silence : float
        Seconds without a sign of life after which a connection is lost. Whether a role that is connected takes too long
        is for the program's deadlines to say: no transport may give up a connection sooner.
    serves : bool
        Whether to wait on after the timeout as long as anybody is there.
    interim : InterimMessages or None
        Called with those who are there, meanwhile; nothing if None.
    topology : str
        How participants are connected; the same at all roles.
    again : bool
        Whether this role has been connected, or has waited, before. One that starts with a certificate that has ended,
        or that cannot be read, is refused; later the role waits until there is a new one.
    """

    role: int
    names: tuple[str, ...]
    federation: str
    listen: Address | None
    addresses: Mapping[int, Address]
    credentials: Credentials | None
    timeout: float
    capacity: int
    max_block: int
    silence: float
    serves: bool = False
    interim: InterimMessages | None = None
    topology: str = STAR
    again: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if len(self.names) < 2 or len(set(self.names)) != len(self.names):
            text = f"a federation has two or more roles of different names, not {list(self.names)}"
            raise SettingsError(text, "range", "names", self.names)
        for name in self.names:
            if not NAME.fullmatch(name):
                text = (
                    f"{name!r} cannot stand in a certificate; "
                    "a role's name has 1 to 63 of the characters a-z, 0-9 and -, and no - at its ends"
                )
                raise SettingsError(text, "value", "name", name)


def open_transport(name: str, settings: ConnectionSettings) -> Transport:
    """Return a role's end of its connections over a transport of the table."""
    assert name in TRANSPORTS
    end: Transport = import_module(f"mpfedxgb.transport.{name}").open_transport(settings)
    return end
