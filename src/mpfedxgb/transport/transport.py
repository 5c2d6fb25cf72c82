"""What a transport must offer: ordered, bounded, interruptible delivery of byte blocks between named roles.

Every implementation passes the same suite, tests/contracts/transport_contract.py.

Who talks to whom: everybody to the coordinator and to the active participant; in a mesh, everybody to everybody.

Names and addresses of roles, as settings files and certificates write them.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Protocol

from mpfedxgb.config import TOPOLOGIES

COORDINATOR, ACTIVE = 0, 1
"""Numbers of the two roles that every other one knows; the auxiliary participants follow."""

STAR, MESH = TOPOLOGIES


def neighbours(topology: str, role: int, roles: int) -> list[int]:
    """Return the roles that `role` is connected to; of two connected ones, that with the higher number dials.

    A star is around the active participant, with the coordinator beside it, who is connected with everybody.
    """
    everybody = range(roles)
    ends = everybody if topology == MESH or role in (COORDINATOR, ACTIVE) else (COORDINATOR, ACTIVE)
    return [peer for peer in ends if peer != role and peer in everybody]


NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""What a role or a federation may be called: a label of a DNS name, since certificates carry it."""
_HOST_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 # recognised here, not bound


@dataclass(frozen=True, slots=True)
class Address:
    """Where a role listens, or where others find it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_anywhere(self) -> bool:
        """Whether this means all interfaces of a machine, which can be listened on and not dialled."""
        return self.host in _ANYWHERE


def parse_address(text: str) -> Address:
    """Return an address from host:port or [IPv6]:port; raise ValueError with problem and remedy."""
    if "://" in text:
        raise ValueError("leave the scheme out and write host:port")
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        raise ValueError("write host:port, such as 127.0.0.1:7701, or 0.0.0.0:7701 to listen on all interfaces")
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
        raise ValueError("the port after the last colon is a number from 1 to 65535")
    if host.startswith("[") and host.endswith("]"):
        try:
            return Address(str(ipaddress.IPv6Address(host[1:-1])), int(port))
        except ValueError:
            raise ValueError("between the brackets there has to be an IPv6 address") from None
    if ":" in host:
        raise ValueError("put an IPv6 address into brackets, such as [::1]:7701")
    if re.fullmatch(r"[0-9.]+", host):
        try:
            return Address(str(ipaddress.IPv4Address(host)), int(port))
        except ValueError:
            raise ValueError("an IPv4 address has four numbers up to 255") from None
    if len(host) > 253 or not all(_HOST_LABEL.fullmatch(label) for label in host.split(".")):
        raise ValueError("a host name consists of letters, digits, dots and hyphens")
    return Address(host, int(port))


Block = bytes | memoryview
"""Bytes that nobody changes any more; a large one that came over a network is a view of the memory it was read into."""


class Transport(Protocol):
    """One role's end of the connections to its peers; roles are numbered, 0 is the coordinator.

    Blocks from one sender arrive whole and in order. Nothing is dropped or repeated. No call waits longer than it is
    told to.
    """

    def send(self, peer: int, block: Block, timeout: float) -> None:
        """Hand a block over for delivery.

        Raises PeerTimeoutError if the peer takes none within `timeout` seconds (back-pressure), PeerFinishedError if
        it has closed its end, FederationError if there is no such peer.
        """
        ...

    def receive(self, peer: int, timeout: float) -> Block:
        """Return the next block from a peer.

        What a peer sent before it closed its end still arrives. Raises PeerFinishedError after that, PeerTimeoutError
        if nothing arrives within `timeout` seconds.
        """
        ...

    def close(self) -> None:
        """Release everything; waiting calls of this end return with an error."""
        ...
