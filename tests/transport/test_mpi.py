"""The MPI transport passes the contract, over real MPI: roles of this process, and processes of mpiexec."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import mpfedxgb
from contracts.communicator_contract import CommunicatorContract
from contracts.transport_contract import LONG, Call, Link, TransportContract, block, send_all
from mpfedxgb.config import TOPOLOGIES
from mpfedxgb.errors import FederationError, PeerFinishedError, UserError
from mpfedxgb.party import run_locally
from mpfedxgb.transport import Transport
from patience import patience
from support import mpi_programs
from support.loopback import PRELUDE

MPI = pytest.importorskip("mpi4py.MPI", reason="mpi4py is an extra")

import mpfedxgb.transport.mpi  # noqa: E402 # needs mpi4py
from mpfedxgb.transport.mpi import MpiTransport, world_transport  # noqa: E402


def connect(links: Sequence[Link], capacity: int) -> dict[int, Transport]:
    """Return roles of this process, on a communicator of their own."""
    comm = MPI.COMM_SELF.Dup()
    roles = {role for link in links for role in link}
    peers = {role: {a + b - role: 0 for a, b in links if role in (a, b)} for role in roles}
    return {role: MpiTransport(comm, role, peers[role], capacity) for role in roles}


class TestMpiTransport(TransportContract):
    """Bytes over MPI."""

    def make(self, links: Sequence[Link], capacity: int) -> dict[int, Transport]:
        """Connect the roles."""
        return connect(links, capacity)


class TestPostOverMpi(CommunicatorContract):
    """Frames over MPI."""

    def make(self, links: Sequence[Link], capacity: int) -> dict[int, Transport]:
        """Connect the roles."""
        return connect(links, capacity)


def test_calls_of_several_threads_do_not_disturb_each_other() -> None:
    """Closing in one thread while others receive and send, again and again, loses no memory and nobody hangs."""

    def receive_for_ever(end: Transport) -> None:
        while True:
            end.receive(0, LONG)

    def send_for_ever(end: Transport) -> None:
        for n in itertools.count():
            end.send(1, block(n, 1 << (n % 14)), LONG)

    for _ in range(30):
        ends = connect([(0, 1)], 1 << 16)
        receiver, sender = Call(receive_for_ever, ends[1]), Call(send_for_ever, ends[0])
        time.sleep(0.002)
        ends[1].close()
        with pytest.raises(FederationError):
            receiver.result()
        with pytest.raises(PeerFinishedError):
            sender.result()
        ends[0].close()


def test_closed_ends_are_forgotten() -> None:
    """What one end did not take is thrown away when it closes, so that the other's memory is free."""
    ends = connect([(0, 1)], 1 << 20)
    send_all(ends[0], 1, [block(n, 3000) for n in range(20)])
    ends[0].close()
    assert ends[0] in mpfedxgb.transport.mpi._leaving
    ends[1].close()
    mpfedxgb.transport.mpi._settle(LONG)
    assert mpfedxgb.transport.mpi._leaving == []


def test_a_world_of_two_is_too_small() -> None:
    """A process that mpiexec has not started is alone, and is told how to start."""
    with pytest.raises(UserError, match=r"mpiexec started 1 processes; .*mpiexec -n 3"):
        world_transport(1 << 20)


def test_without_mpi4py_there_is_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing the transport without the extra says how to get it."""
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.delitem(sys.modules, "mpfedxgb.transport.mpi")
    with pytest.raises(UserError, match=r"pip install 'mpfedxgb\[mpi\]'"):
        importlib.import_module("mpfedxgb.transport.mpi")


# Real processes

PROGRAMS = Path(__file__).parents[1] / "support" / "mpi_programs.py"
MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))


def run_ranks(ranks: int, name: str, topology: str = "star") -> list[dict[str, Any]]:
    """Run a program of mpi_programs.py under mpiexec and return what every rank printed, in order."""
    if MPIEXEC is None:
        pytest.skip("there is no mpiexec")
    start = PRELUDE.format(source=str(Path(mpfedxgb.__file__).parent))
    start += f"import runpy; sys.path.insert(0, {str(PROGRAMS.parents[1])!r}); sys.argv[0] = {str(PROGRAMS)!r}; "
    start += f"runpy.run_path({str(PROGRAMS)!r}, run_name='__main__')"
    command = [MPIEXEC, "-n", str(ranks), sys.executable, "-c", start, name, topology]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(120), check=False)  # noqa: S603 # ours
    assert done.returncode == 0, done.stderr
    return sorted(map(json.loads, done.stdout.splitlines()), key=lambda line: int(line["role"]))


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_processes_compute_what_threads_compute(topology: str) -> None:
    """The same program over MPI and in memory, to the last number, in either topology."""
    expected = run_locally(mpi_programs.products, 3, settings=mpi_programs.SETTINGS).results
    ranks = run_ranks(4, "products", topology)
    assert [rank["error"] for rank in ranks] == [None] * 4
    assert [rank["result"] for rank in ranks] == expected
    assert expected[1][-1] == 2 * (mpi_programs.ROWS - 1) ** 2


def test_processes_learn_why_one_of_them_failed() -> None:
    """The reason reaches whoever waits for the failed one, and mpiexec ends by itself."""
    coordinator, active, failed, other = (rank["error"] for rank in run_ranks(4, "failing"))
    reason = "P2 failed: FederationError: the cable is too short"
    assert failed == "the cable is too short"
    assert reason in active
    assert reason in other
    assert coordinator is None or reason in coordinator  # it waits for nobody, and may have ended before


def test_a_process_that_ends_early_lets_nobody_down() -> None:
    """What it sent arrives later, and who sends to it is told."""
    ranks = run_ranks(3, "early")
    assert ranks[1]["lengths"] == [3_000_000]
    assert ranks[2]["error"] == "role 0 has closed its connection"
