"""Put a faulty network between two connected roles, and see that nothing wrong arrives and nobody waits for ever.

    python benchmarks/faults.py [--runs N] [--seed S]

Two roles talk over mutual TLS through a relay (relay.py), blocks of all sizes there and back. The runs take turns in
seven faults: one bit is garbled, the stream is cut, a chunk is dropped, sent twice or delayed by a second, the
connection is reset, or swallows everything from then on. Each strikes once, at a random byte. Every block that arrives
must be the right one, and where not all do, both roles must end with a FederationError in time. A delay must do no
harm. Ends with 0 if all of that was so, otherwise with 1.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mpfedxgb.errors import FederationError
from mpfedxgb.transport.certificates import Authority
from mpfedxgb.transport.tls import connect
from mpfedxgb.transport.tls.identity import Identity
from mpfedxgb.transport.transport import Address
from mpfedxgb.transport.transports import ConnectionSettings
from patience import patience
from relay import FAULTS, Fault, Relay

NAMES = ("coordinator", "bank")
SIZES = (0, 1, 100, 5000, 70_000, 600_000)
BLOCKS = 30
SILENCE = 2.0
ROOM = 1 << 22


def block(role: int, number: int) -> bytes:
    """Return what a role sends as its block of some number."""
    size = SIZES[number % len(SIZES)]
    return (hashlib.sha256(f"{role} {number}".encode()).digest() * (size // 32 + 1))[:size]


def talk(role: int, identity: Identity, listen: Address | None, dialled: Address, outcome: dict[int, str]) -> None:
    """Be one role, and note how it ended."""
    try:
        limits = patience(10.0), ROOM, ROOM, patience(SILENCE)
        end = connect(ConnectionSettings(role, NAMES, "faults", listen, {0: dialled}, None, *limits), identity)
        try:
            for number in range(BLOCKS):
                end.send(1 - role, block(role, number), patience(20.0))
                if end.receive(1 - role, patience(20.0)) != block(1 - role, number):
                    outcome[role] = "a wrong block"
                    return
            outcome[role] = "all"
        finally:
            end.close()
    except FederationError as error:
        outcome[role] = f"error: {error}"
    except BaseException as error:
        outcome[role] = f"defect: {error!r}"


def run(folder: Path, fault: Fault) -> str:
    """Return what was wrong with a run, if anything."""
    outcome: dict[int, str] = {}
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        with Relay({0: port}, 0.0, fault) as relay:
            threads = []
            for role, name in enumerate(NAMES):
                files = (folder / name / "ca.crt", folder / name / f"{name}.crt", folder / name / f"{name}.key")
                places = Address("127.0.0.1", port) if role == 0 else None, Address("127.0.0.1", relay.ports[0])
                arguments = (role, Identity.load(name, *files), *places, outcome)
                threads.append(threading.Thread(target=talk, args=arguments, daemon=True))
                threads[-1].start()
            end = time.monotonic() + patience(60.0)
            for thread in threads:
                thread.join(max(0.0, end - time.monotonic()))
    if len(outcome) < len(NAMES):
        return f"somebody hangs: {outcome}"
    wrong = [text for text in outcome.values() if not text.startswith(("all", "error"))]
    if wrong or (fault.kind == "delay" and set(outcome.values()) != {"all"}):
        return str(outcome)
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None, help="repeats what is struck when")
    args = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(1 << 32) if args.seed is None else args.seed
    draws = random.Random(seed)  # noqa: S311 # which byte is struck is no secret
    good: Counter[str] = Counter()
    total = 2 * sum(len(block(0, number)) for number in range(BLOCKS))
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority.create(Path(folder), "faults")
        for name in NAMES:
            authority.issue(Path(folder) / name, name)
        for number in range(args.runs):
            fault = Fault(
                FAULTS[number % len(FAULTS)], draws.choice((draws.randrange(1, 6000), draws.randrange(total)))
            )
            what = f"{number:4}  {fault.kind:10} after {fault.after:9} bytes: "
            trouble = run(Path(folder), fault)
            good[fault.kind] += not trouble
            print(what + (trouble or "well"), flush=True)
    print(f"{sum(good.values())} of {args.runs} runs ended well (seed {seed})")
    return 0 if sum(good.values()) == args.runs else 1


if __name__ == "__main__":
    sys.exit(main())
