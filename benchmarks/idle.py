"""Leave connected roles alone behind a middlebox that forgets idle connections, and see that they still talk.

    python benchmarks/idle.py [--minutes 60] [--forgets 30] [--silence 60]

Two roles are connected over mutual TLS through a relay (relay.py), which forgets a connection on which no byte passes
for some seconds, without a word. They exchange a block, say nothing for the whole time, and exchange another one. What
keeps the connection known are the transport's own signs of life. Ends with 0 if the second block arrived on the same
connection, otherwise with 1.
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from mpfedxgb.transport.certificates import Authority
from mpfedxgb.transport.tls import connect
from mpfedxgb.transport.tls.identity import Identity
from mpfedxgb.transport.transport import Address
from mpfedxgb.transport.transports import ConnectionSettings, ask_every
from relay import Relay

NAMES = ("coordinator", "bank")
LONG = 60.0
ROOM = 1 << 20


def talk(role: int, settings: ConnectionSettings, identity: Identity, idle: float, outcome: dict[int, str]) -> None:
    """Be one role: a block, silence, a block; note how it ended."""
    try:
        end = connect(settings, identity)
        try:
            for number in range(2):
                time.sleep(idle * number)
                end.send(1 - role, bytes([role, number]), LONG)
                if end.receive(1 - role, LONG) != bytes([1 - role, number]):
                    outcome[role] = "a wrong block"
                    return
            outcome[role] = "well"
        finally:
            end.close()
    except Exception as error:
        outcome[role] = repr(error)


def run(folder: Path, idle: float, forgets: float, silence: float) -> dict[int, str]:
    """Return how both roles ended, by number."""
    outcome: dict[int, str] = {}
    authority = Authority.create(folder, "idle")
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        with Relay({0: port}, 0.0, forgets=forgets) as relay:
            threads = []
            for role, name in enumerate(NAMES):
                authority.issue(folder / name, name)
                files = (folder / name / "ca.crt", folder / name / f"{name}.crt", folder / name / f"{name}.key")
                listen = Address("127.0.0.1", port) if role == 0 else None
                dialled = {0: Address("127.0.0.1", relay.ports[0])}
                settings = ConnectionSettings(role, NAMES, "idle", listen, dialled, None, LONG, ROOM, ROOM, silence)
                arguments = (role, settings, Identity.load(name, *files), idle, outcome)
                threads.append(threading.Thread(target=talk, args=arguments, daemon=True))
                threads[-1].start()
            for thread in threads:
                thread.join(idle + 3 * LONG)
    return outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long nobody says anything (default 60)")
    parser.add_argument(
        "--forgets", type=float, default=30.0, help="seconds after which the relay forgets (default 30)"
    )
    parser.add_argument("--silence", type=float, default=60.0, help="seconds after which a peer is lost (default 60)")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(Path(folder), 60 * args.minutes, args.forgets, args.silence)
    went_well = [outcome.get(role) for role in range(len(NAMES))] == ["well"] * len(NAMES)
    every = ask_every(args.silence)
    print(
        f"{args.minutes:g} idle minutes, forgotten after {args.forgets:g} s, a sign of life every {every:g} s: ", end=""
    )
    print("the same connection carried the next block" if went_well else outcome)
    return int(not went_well)


if __name__ == "__main__":
    sys.exit(main())
