"""The transport inside one cluster, as in the paper: MPI, rank 0 the coordinator, rank m participant m.

Blocks travel as they are, by the buffer methods of mpi4py; nothing is pickled. Synchronous sends tell the sender when a
block was taken, which bounds what is on its way. Every wait looks again and again, first at once and then after growing
pauses, so that waiting roles leave the processor to those who compute.

MPI itself neither authenticates nor encrypts: it belongs inside one organisation's cluster. If a process dies, its
launcher (mpiexec) ends all the others; nobody gets to say why.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mpfedxgb.errors import FederationError, PeerFinishedError, PeerTimeoutError, SettingsError, UserError
from mpfedxgb.transport.transport import STAR, Block, neighbours
from mpfedxgb.transport.transports import ConnectionSettings

try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as problem:  # RuntimeError: mpi4py is there, but no MPI library
    raise UserError(
        f"MPI cannot be used ({problem}); install it with: pip install 'mpfedxgb[mpi]' mpich", "package", "mpi4py"
    ) from None

LINGER = 60.0
"""Seconds that a process that ends waits for others to take what was sent to them; they may be busy."""

_OVERHEAD = 64
"""Bytes that a block counts for beside its content, so that empty ones are bounded too."""

_LOOKS = 200
"""Looks without a pause, a fraction of a millisecond: a peer that computes little answers within it."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.00002, 0.001
_PAUSE_IN_MOTION = 0.0001
_KEPT_BYTES = 1 << 26

_yield = getattr(os, "sched_yield", lambda: time.sleep(0))  # not every system has it

_ROLES = 256
_COUNT_BYTES = 8


class _Pauses:
    """What to do between two looks: let others run, then sleep longer and longer, until the time is up."""

    def __init__(self, timeout: float) -> None:
        self._end = time.monotonic() + timeout
        self._looks, self._pause = 0, _FIRST_PAUSE

    def over(self, in_motion: bool = False) -> bool:
        """Pause, shortly where blocks are in motion; return whether there is no time left, without a pause."""
        if time.monotonic() >= self._end:
            return True
        self._looks += 1
        if self._looks <= _LOOKS:
            _yield()
        else:
            time.sleep(min(_PAUSE_IN_MOTION, self._pause) if in_motion else self._pause)
            self._pause = min(_LONGEST_PAUSE, 1.2 * self._pause)
        return False


class _Line:
    """What is on its way between this role and one peer; a reader holds the lock."""

    def __init__(self, comm: MPI.Comm, role: int, peer: int, rank: int) -> None:
        self.lock = threading.Lock()
        self._comm, self._rank = comm, rank
        self._out, self._in = (2 * (a * _ROLES + b) for a, b in ((role, peer), (peer, role)))  # and 1 more for the end
        self._sending: deque[tuple[MPI.Request, Block]] = deque()
        self._room = bytearray()  # kept, because fresh memory for every large block costs more than the block
        self._receiving: tuple[MPI.Request, memoryview] | None = None
        self._sent = self._received = 0
        self._expected: int | None = None  # blocks that the peer has sent in all; known when it has closed
        self.waiting = 0
        """Bytes that the peer has not taken yet."""

    def send(self, block: Block) -> None:
        """Begin to send a block."""
        self._sending.append((self._comm.Issend([block, MPI.BYTE], self._rank, self._out), block))
        self._sent += 1
        self.waiting += len(block) + _OVERHEAD

    def send_end(self) -> None:
        """Say how many blocks there were; messages with another tag may arrive before them."""
        count = self._sent.to_bytes(_COUNT_BYTES, "little")
        self._sending.append((self._comm.Isend([count, MPI.BYTE], self._rank, self._out + 1), count))
        self.waiting += len(count) + _OVERHEAD

    def note_taken(self) -> None:
        """Forget blocks that the peer has taken."""
        while self._sending and self._sending[0][0].Test():
            self.waiting -= len(self._sending.popleft()[1]) + _OVERHEAD

    def receive(self) -> bytes | None:
        """Return the next block if it is there."""
        if self._receiving is None:
            status = MPI.Status()
            message = self._comm.Improbe(self._rank, self._in, status)  # codespell:ignore
            if message is None:
                return None
            room = self._room_for(status.Get_count(MPI.BYTE))
            self._receiving = message.Irecv([room, MPI.BYTE]), room
        request, room = self._receiving
        if not request.Test():
            return None
        self._receiving = None
        self._received += 1
        return bytes(room)

    def _room_for(self, size: int) -> memoryview:
        if size > _KEPT_BYTES:
            return memoryview(bytearray(size))
        if size > len(self._room):
            self._room = bytearray(size)
        return memoryview(self._room)[:size]

    def moves(self) -> bool:
        """Whether a block is on its way, which may need this side to look again soon."""
        with self.lock:
            self.note_taken()
            return bool(self._sending) or self._receiving is not None

    @property
    def closed(self) -> bool:
        """Whether the peer has closed its end."""
        if self._expected is None:
            message = self._comm.Improbe(self._rank, self._in + 1)  # codespell:ignore
            if message is not None:
                count = bytearray(_COUNT_BYTES)
                message.Recv([count, MPI.BYTE])
                self._expected = int.from_bytes(count, "little")
        return self._expected is not None

    @property
    def finished(self) -> bool:
        """Whether the peer has closed its end and nothing of it is on its way any more."""
        return self.closed and self._received == self._expected

    def settled(self) -> bool:
        """Throw away what arrives; return whether nothing is on its way in either direction."""
        with self.lock:
            self.note_taken()
            while self.receive() is not None:
                pass
            return self.finished and not self._sending


class MpiTransport:
    """One role's end of its MPI connections.

    Several roles may live in one process, on MPI.COMM_SELF for example, each used by threads of its own: tags name
    sender and receiver.

    Parameters
    ----------
    comm : MPI.Comm
        Used by nobody else.
    role : int
        This role's number.
    rank_of : mapping from role to rank
        The roles that this one is connected to.
    capacity : int
        Bytes that may be on their way to one receiver, unless there is only one block.
    """

    def __init__(self, comm: MPI.Comm, role: int, rank_of: Mapping[int, int], capacity: int) -> None:
        if max(role, *rank_of) >= _ROLES or _tag_limit(comm) < 2 * _ROLES**2:
            raise UserError(f"this MPI cannot tell {_ROLES} roles apart by its tags", "range", "tags")
        self._role, self._capacity = role, capacity
        self._lines = {peer: _Line(comm, role, peer, rank) for peer, rank in rank_of.items()}
        self._closed = False
        self._closing = threading.Lock()

    def send(self, peer: int, block: Block, timeout: float) -> None:
        """Hand a block over (see Transport)."""
        line, pauses = self._line(peer), _Pauses(timeout)
        while True:
            with line.lock:
                self._refuse_if_closed()
                if line.closed:
                    raise PeerFinishedError(f"role {peer} has closed its connection", parameter=str(peer))
                line.note_taken()
                if not line.waiting or line.waiting + len(block) + _OVERHEAD <= self._capacity:
                    line.send(block)
                    return
            if pauses.over(in_motion=True):
                raise PeerTimeoutError(
                    f"role {peer} took nothing for {timeout:g} seconds", parameter=str(peer), value=timeout
                )

    def receive(self, peer: int, timeout: float) -> bytes:
        """Return the next block (see Transport)."""
        line, pauses = self._line(peer), _Pauses(timeout)
        while True:
            with line.lock:
                self._refuse_if_closed()
                if (block := line.receive()) is not None:
                    return block
                if line.finished:
                    raise PeerFinishedError(f"role {peer} has closed its connection", parameter=str(peer))
            if pauses.over(any(other.moves() for other in self._lines.values())):
                raise PeerTimeoutError(
                    f"role {peer} sent nothing for {timeout:g} seconds", parameter=str(peer), value=timeout
                )

    def close(self) -> None:
        """Tell the peers (see Transport); what they have not taken yet stays with this process until they do."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            for line in self._lines.values():
                with line.lock:
                    line.send_end()
            _leaving.append(self)
        _settle(0)

    def _settled(self) -> bool:
        return not sum(not line.settled() for line in self._lines.values())  # each has to look

    def _line(self, peer: int) -> _Line:
        try:
            return self._lines[peer]
        except KeyError:
            raise FederationError(f"roles {self._role} and {peer} are not connected", "place", str(peer)) from None

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise FederationError("this role has closed its own connections", "ended", "connections")


def open_transport(settings: ConnectionSettings) -> MpiTransport:
    """Return a role's transport among the processes of mpiexec (see transports.py); refuse if it is not its rank."""
    transport, rank, ranks = world_transport(settings.capacity, settings.topology)
    if (rank, ranks) != (settings.role, len(settings.names)):
        text = (
            f"{settings.names[settings.role]} is role {settings.role} of {len(settings.names)}, this is rank {rank} of "
            f"{ranks}; start one process per role, in the roster's order"
        )
        raise SettingsError(text, "mismatch", "rank", rank)
    return transport


def world_transport(capacity: int, topology: str = STAR) -> tuple[MpiTransport, int, int]:
    """Return this process's transport among all that mpiexec has started, its role, and how many roles there are."""
    comm = MPI.COMM_WORLD.Dup()
    role, roles = comm.Get_rank(), comm.Get_size()
    if roles < 3:
        text = (
            f"mpiexec started {roles} processes; it takes one for the coordinator and two or more for participants: "
            "mpiexec -n 3 ..."
        )
        raise UserError(text, "few", "ranks", roles)
    if topology != STAR and MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        text = (
            f"this MPI does not let two threads call it at once, which a {topology} needs for long messages; use "
            'topology = "star", or an MPI built with MPI_THREAD_MULTIPLE'
        )
        raise UserError(text, "version", "MPI", topology)
    ranks = {peer: peer for peer in neighbours(topology, role, roles)}
    return MpiTransport(comm, role, ranks, capacity), role, roles


def world_rank() -> tuple[int, int]:
    """Return which of mpiexec's processes this is, and how many there are."""
    return MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()


def _tag_limit(comm: MPI.Comm) -> int:
    limit: Any = comm.Get_attr(MPI.TAG_UB)
    return int(limit or 0)


_leaving: list[MpiTransport] = []
"""Closed ends of which something is on its way, or that others may still send to."""


def _settle(timeout: float) -> None:
    """Wait until others have taken what closed ends sent, and throw away what is sent to these."""
    pauses = _Pauses(timeout)
    while True:
        for transport in list(_leaving):
            if transport._settled():
                with suppress(ValueError):  # another thread may have noticed too
                    _leaving.remove(transport)
        if not _leaving or pauses.over():
            return


atexit.register(_settle, LINGER)  # before mpi4py ends MPI, which happens later
