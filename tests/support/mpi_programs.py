"""What every rank of a test under mpiexec runs: `mpiexec -n 4 python tests/mpi_programs.py NAME star`; prints JSON."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace

import numpy as np

from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import FederationError, PeerFinishedError
from mpfedxgb.party.local import run_role
from mpfedxgb.party.party import ALL, Party
from mpfedxgb.party.roster import Roster
from mpfedxgb.protocols.opening import multiply
from mpfedxgb.protocols.reveal import reveal
from mpfedxgb.protocols.share import share
from mpfedxgb.ring import VECTOR, RingArray
from support.names import unlisted

ROWS = 3000
LONG = 60.0
SETTINGS = SessionSettings(deadline=LONG, insecure_seed=5)


def products(party: Party) -> list[int]:
    """Multiply two participants' numbers under secret sharing, large and small ones."""
    results = []
    for rows in (1, ROWS):
        mine = RingArray.encode(VECTOR, np.arange(rows, dtype=np.int64) * (party.role or 1))
        x, y = (share(party, owner, VECTOR, (rows,), mine if party.role == owner else None) for owner in (1, 2))
        revealed = reveal(party, multiply(party, x, y), ALL, unlisted("products"))
        results += [] if party.is_coordinator else [int(number) for number in revealed.decode()[-3:]]
    return results


def failing(party: Party) -> list[int]:
    """Fail in one role: the others are told."""
    if party.role == 2:
        raise FederationError("the cable is too short")
    return products(party)


def run(name: str, topology: str) -> object:
    """Run one of the programs as one of the ranks."""
    from mpfedxgb.transport.mpi import world_transport  # an extra

    transport, role, size = world_transport(1 << 16, topology)
    if name == "early":
        return early(transport, role)
    program = {"products": products, "failing": failing}[name]
    outcome = run_role(program, (), transport, Roster.numbered(size - 1), role, replace(SETTINGS, topology=topology))
    return {"role": role, "result": outcome.result, "error": outcome.error and str(outcome.error)}


def early(transport: object, role: int) -> object:
    """Rank 0 sends more than is taken, and ends; rank 1 takes its time; rank 2 sends to somebody who has ended."""
    from mpfedxgb.transport.mpi import MpiTransport  # an extra

    assert isinstance(transport, MpiTransport)
    if role == 0:
        transport.send(1, bytes(3_000_000), LONG)  # alone, above the capacity
        transport.close()
        return {"role": role}
    if role == 1:
        time.sleep(1.0)
        lengths = [len(transport.receive(0, LONG))]
        transport.close()
        return {"role": role, "lengths": lengths}
    sent = 0
    try:
        while True:
            transport.send(0, bytes(1000), LONG)
            sent += 1
    except PeerFinishedError as error:
        transport.close()
        return {"role": role, "error": str(error)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(*sys.argv[1:])) + "\n")
