"""Federations over TLS on this machine, for tests."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mpfedxgb
from contracts.transport_contract import LONG, ROOM, Call, Link
from mpfedxgb.testing.trial import hold_ports
from mpfedxgb.transport import Transport
from mpfedxgb.transport.tls import TlsTransport, connect
from mpfedxgb.transport.tls.identity import Identity
from mpfedxgb.transport.transport import Address
from mpfedxgb.transport.transports import ConnectionSettings
from patience import patience
from support.pki import Authority

PRELUDE = """
import sys, types
from pathlib import Path
package = types.ModuleType("mpfedxgb")
package.__path__ = [{source!r}]
sys.modules["mpfedxgb"] = package
"""
"""Begins programs of other processes: without the package's front, which imports scikit-learn, they start quickly."""

NAMES = ("coordinator", "bank", "telecom", "retail")


def run_program(code: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start a Python program that may import modules of mpfedxgb, but not the package as such."""
    source = str(Path(mpfedxgb.__file__).parent)
    command = [sys.executable, "-c", PRELUDE.format(source=source) + code, *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **{**pipes, **options})  # noqa: S603 # ours


@contextmanager
def reserved_ports(count: int) -> Iterator[list[int]]:
    """Hold free ports: bound, so that nobody else is given them, but not listening, so that a role can."""
    held = hold_ports(count)
    try:
        yield [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


@dataclass
class Loopback:
    """A federation's authority and a port for each role; `call` connects one role as others would."""

    authority: Authority
    ports: Sequence[int]
    names: tuple[str, ...] = NAMES
    identities: dict[str, Identity] = field(default_factory=dict)

    def identity(self, name: str) -> Identity:
        """Return a role's identity; making keys takes time, so each is made once."""
        if name not in self.identities:
            self.identities[name] = self.authority.identity(name)
        return self.identities[name]

    def connect(
        self,
        role: int,
        identity: Identity | None = None,
        peers: Sequence[int] | None = None,
        stays: Callable[[], bool] | None = None,
        **changes: Any,
    ) -> TlsTransport:
        """Connect a role."""
        addresses = {place: Address("127.0.0.1", port) for place, port in enumerate(self.ports)}
        settings: dict[str, Any] = {
            "names": self.names,
            "federation": "test",
            "listen": addresses.get(role),
            "addresses": addresses,
            "timeout": patience(LONG),
            "capacity": ROOM,
            "max_block": ROOM,
            "silence": LONG,
            **changes,
        }
        identity = identity or self.identity(self.names[role])
        return connect(ConnectionSettings(role, credentials=None, **settings), identity, peers, stays)

    def wait_for_port(self, role: int = 0) -> None:
        """Wait until the coordinator, or another role, listens."""
        until = time.monotonic() + patience(LONG)
        while time.monotonic() < until:
            with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", self.ports[role])):
                return
            time.sleep(0.01)
        raise AssertionError("nobody listens")

    def call(self, role: int, **changes: Any) -> Call:
        """Connect a role in a thread of its own."""
        return Call(lambda: self.connect(role, **changes))

    def form(self, links: Sequence[Link], **changes: Any) -> dict[int, Transport]:
        """Connect several roles with each other."""
        roles = sorted({role for link in links for role in link})
        peers = {role: [a + b - role for a, b in links if role in (a, b)] for role in roles}
        calls = {role: self.call(role, peers=peers[role], **changes) for role in roles}
        return {role: call.result() for role, call in calls.items()}


@contextmanager
def loopback(folder: Path, roles: int = 4) -> Iterator[Loopback]:
    """Prepare a federation."""
    with reserved_ports(roles) as ports:
        yield Loopback(Authority(folder), ports, NAMES[:roles])


def with_names(federation: Loopback, names: tuple[str, ...]) -> Loopback:
    """Return the same federation as somebody with another roster has it."""
    return replace(federation, names=names)
