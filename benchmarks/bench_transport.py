"""Round trips and throughput of the transports between two roles on this machine.

    python benchmarks/bench_transport.py [--json] [--repeat N] [--quick] [--only memory,tls,mpi]

memory runs both roles as threads of this process; tls as two processes with mutual TLS on loopback; mpi as two
processes of mpiexec. A round trip is a small block there and back. Throughput is that of large blocks in one
direction, until the last one is confirmed, beside the processor seconds that a GB takes at both ends together. Of N
repetitions the best counts, latencies by their median and 99th percentile in that repetition.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from mpfedxgb.transport import MemoryHub, Transport
from plain_table import table

NAMES = ("coordinator", "bank")
SMALL = 100
LARGE = 16 << 20
ROOM = 1 << 28
DEADLINE = 120.0
KINDS = ("memory", "tls", "mpi")


@dataclass(frozen=True)
class TransportRow:
    """What one transport did."""

    name: str
    round_trips_per_second: float
    p50_ms: float
    p99_ms: float
    small_bytes: int
    megabytes_per_second: float
    large_bytes: int
    processor_seconds_per_gb: float


@dataclass(frozen=True)
class Amount:
    """How much to measure."""

    repeat: int
    trips: int
    blocks: int


def ask(end: Transport, name: str, amount: Amount) -> TransportRow:
    """Measure from role 1, which asks."""
    small, large = os.urandom(SMALL), os.urandom(LARGE)
    trips: list[list[float]] = []
    rates: list[float] = []
    seconds: list[float] = []
    for _ in range(amount.repeat):
        for _ in range(amount.trips // 10):  # warm up
            end.send(0, small, DEADLINE)
            end.receive(0, DEADLINE)
        times = []
        for _ in range(amount.trips):
            began = time.perf_counter()
            end.send(0, small, DEADLINE)
            end.receive(0, DEADLINE)
            times.append(time.perf_counter() - began)
        trips.append(sorted(times))
        began, spent = time.perf_counter(), time.process_time()
        for _ in range(amount.blocks):
            end.send(0, large, DEADLINE)
        there = float(bytes(end.receive(0, DEADLINE)))
        seconds.append(time.process_time() - spent + there)
        rates.append(amount.blocks * LARGE / (time.perf_counter() - began))
    best = min(trips, key=sum)
    p50, p99 = (1000 * best[int(q * len(best))] for q in (0.5, 0.99))
    per_gb = 1e9 * min(seconds) / (amount.blocks * LARGE)
    return TransportRow(name, len(best) / sum(best), p50, p99, SMALL, max(rates) / 1e6, LARGE, per_gb)


def answer(end: Transport, amount: Amount, shares_process: bool) -> None:
    """Do role 0's part of `ask`."""
    for _ in range(amount.repeat):
        for _ in range(amount.trips // 10 + amount.trips):
            end.send(1, end.receive(1, DEADLINE), DEADLINE)
        spent = time.process_time()
        for _ in range(amount.blocks):
            assert len(end.receive(1, DEADLINE)) == LARGE
        end.send(1, repr(0.0 if shares_process else time.process_time() - spent).encode(), DEADLINE)


def play(end: Transport, role: int, name: str, amount: Amount) -> TransportRow | None:
    """Run one role's part and close."""
    try:
        if role == 0:
            answer(end, amount, shares_process=name == "memory")
            return None
        return ask(end, name, amount)
    finally:
        end.close()


def over_memory(amount: Amount) -> TransportRow:
    """Measure two threads."""
    hub = MemoryHub([(0, 1)], ROOM)
    answering = threading.Thread(target=play, args=(hub.end(0), 0, "memory", amount), daemon=True)
    answering.start()
    row = play(hub.end(1), 1, "memory", amount)
    answering.join()
    assert row is not None
    return row


def over_tls(amount: Amount) -> TransportRow:
    """Measure two processes."""
    from mpfedxgb.transport.certificates import Authority

    with tempfile.TemporaryDirectory() as folder, socket.socket() as held:
        authority = Authority.create(Path(folder), "benchmark")
        for name in NAMES:
            authority.issue(Path(folder) / name, name)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))  # kept for the coordinator, who listens on it
        address = f"127.0.0.1:{held.getsockname()[1]}"
        answering = subprocess.Popen(myself("tls", amount, "0", folder, address))  # noqa: S603 # this file
        try:
            return last_row(myself("tls", amount, "1", folder, address))
        finally:
            with suppress(subprocess.TimeoutExpired):
                answering.wait(10)
            answering.kill()


def over_mpi(amount: Amount) -> TransportRow:
    """Measure two processes of mpiexec."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    launcher = shutil.which("mpiexec", path=places)
    if launcher is None:
        raise FileNotFoundError("there is no mpiexec; pip install mpich, or leave mpi out: --only memory,tls")
    return last_row([launcher, "-n", "2", *myself("mpi", amount, "any", "", "")])


def myself(kind: str, amount: Amount, role: str, folder: str, address: str) -> list[str]:
    """Return the command that runs one role of a measurement."""
    numbers = [str(number) for number in (amount.repeat, amount.trips, amount.blocks)]
    return [sys.executable, __file__, "--role", kind, *numbers, role, folder, address]


def last_row(command: Sequence[str]) -> TransportRow:
    """Run a process and return the row that it prints."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 # this file
    return TransportRow(**json.loads(done.stdout))


def run_role(kind: str, repeat: str, trips: str, blocks: str, number: str, folder: str, address: str) -> None:
    """Be one of the two processes of a measurement; role 1 prints its row."""
    amount = Amount(int(repeat), int(trips), int(blocks))
    end: Transport
    if kind == "tls":
        from mpfedxgb.transport.tls import connect
        from mpfedxgb.transport.tls.identity import Identity
        from mpfedxgb.transport.transport import parse_address
        from mpfedxgb.transport.transports import ConnectionSettings

        role = int(number)
        place = Path(folder) / NAMES[role]
        files = (place / "ca.crt", place / f"{NAMES[role]}.crt", place / f"{NAMES[role]}.key")
        identity = Identity.load(NAMES[role], *files)
        there = parse_address(address)
        places = (there if role == 0 else None, {0: there})
        settings = ConnectionSettings(role, NAMES, "benchmark", *places, None, DEADLINE, ROOM, ROOM, DEADLINE)
        end = connect(settings, identity)
    else:
        from mpi4py import MPI

        from mpfedxgb.transport.mpi import MpiTransport

        role = MPI.COMM_WORLD.Get_rank()
        end = MpiTransport(MPI.COMM_WORLD, role, {1 - role: 1 - role}, ROOM)
    row = play(end, role, kind, amount)
    if row is not None:
        print(json.dumps(asdict(row)), flush=True)


def transport_table(rows: Sequence[TransportRow]) -> str:
    """Return the rows as text."""
    header = ("transport", "round trips/s", "p50 ms", "p99 ms", "MB/s", "processor s/GB")
    cells = []
    for row in rows:
        trips, rate = f"{row.round_trips_per_second:.0f}", f"{row.megabytes_per_second:.0f}"
        seconds = f"{row.processor_seconds_per_gb:.2f}"
        cells.append((row.name, trips, f"{row.p50_ms:.3f}", f"{row.p99_ms:.3f}", rate, seconds))
    return table(f"Blocks of {SMALL} bytes there and back, blocks of {LARGE >> 20} MiB one way", header, cells)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure everything and print it."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["--role"]:
        run_role(*words[1:])
        return
    parser = argparse.ArgumentParser(description="Round trips and throughput of the transports on this machine.")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="repetitions; the best counts (default 3)")
    parser.add_argument("--quick", action="store_true", help="little of everything, once: to see that it runs")
    parser.add_argument("--only", default=",".join(KINDS), metavar="KINDS", help="some of memory,tls,mpi")
    options = parser.parse_args(words)
    kinds = options.only.split(",")
    if options.repeat < 1:
        parser.error(f"--repeat must be 1 or more, not {options.repeat}")
    if not set(kinds) <= set(KINDS):
        parser.error(f"--only takes some of {','.join(KINDS)}, not {options.only}")
    amount = Amount(1, 100, 2) if options.quick else Amount(options.repeat, 3000, 32)
    load = os.getloadavg()[0]
    measure: dict[str, Callable[[Amount], TransportRow]] = {
        "memory": over_memory,
        "tls": over_tls,
        "mpi": over_mpi,
    }
    rows = [measure[kind](amount) for kind in kinds]
    if options.json:
        machine = {"cores": os.cpu_count(), "load": load}
        print(json.dumps({"transports": [asdict(row) for row in rows], "machine": machine}, indent=1))
    else:
        print(f"{os.cpu_count()} cores, load {load:.2f} before the run.", end="\n\n")
        print(transport_table(rows))


if __name__ == "__main__":
    main()
