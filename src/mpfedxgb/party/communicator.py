"""Frames in and out of one role, checked against session, sender and step, counted, with deadlines."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import (
    AlienFrameError,
    FederationError,
    FrameError,
    OutOfStepError,
    PeerFailedError,
    PeerFinishedError,
    PeerTimeoutError,
    kind_of,
    printable,
    public_reason,
)
from mpfedxgb.party.meter import Meter
from mpfedxgb.party.roster import ACTIVE, COORDINATOR, Roster
from mpfedxgb.ring.prg import digest
from mpfedxgb.transport.frame import (
    MAX_HEADER_BYTES,
    SESSION_BYTES,
    Frame,
    Kind,
    check_length,
    copied,
    decode,
    encode,
    frame_bytes,
    short_label,
)
from mpfedxgb.transport.memory import MemoryTransport
from mpfedxgb.transport.transport import Transport

Array = npt.NDArray[Any]
SAY_EVERY = 10.0
"""Seconds between two lines of a role that waits for others before a session begins."""

_MAX_TEXT = 2000
AROUND_BYTES = 512
"""More than a frame of one or two arrays has beside their bytes: header, label and shapes."""

_PART = [np.dtype(np.int64), np.dtype(np.uint8)]
_START = "start"
_LAST_WORDS = 1.0
_log = logging.getLogger("mpfedxgb.session")


class InterimFrames:
    """What a role says to those who are connected before everybody is: for whom it waits, and why it gives up."""

    def __init__(self, roster: Roster, role: int, settings: SessionSettings) -> None:
        self._roster, self._role, self._session = roster, role, _hello(settings)

    def waiting(self, names: Sequence[str]) -> bytes:
        """Return a message that names those who are not there."""
        return encode(Kind.WAIT, self._role, self._session, 0, _START, [_octets(", ".join(names))])

    def giving_up(self, error: BaseException) -> bytes:
        """Return a message that says why this role does not wait any longer."""
        texts = self._roster.name(self._role), public_reason(error), kind_of(error)
        return encode(Kind.ABORT, self._role, self._session, 0, _START, [_octets(text) for text in texts])


class Communicator:
    """Sends and receives arrays for one role, in step with its peers."""

    def __init__(
        self,
        transport: Transport,
        roster: Roster,
        role: int,
        settings: SessionSettings,
        meter: Meter,
        first_wait: float = 0.0,
    ) -> None:
        self.transport, self.roster, self.role, self.settings, self.meter = (transport, roster, role, settings, meter)
        # In one process frames are handed over as they are, but where somebody watches their bytes.
        self._memory = transport if isinstance(transport, MemoryTransport) and transport.takes_frames else None
        self.step = 0
        self.label = _START
        self._session = _hello(settings)
        self._begun = False
        self._awaited: dict[int, str] = {}  # by peer, for whom it says that it waits in its turn
        self._usual_wait = settings.active_deadline if role == ACTIVE else settings.auxiliary_deadline
        self._wait = max(self._usual_wait, first_wait)  # some role may still be on its way
        self._wait_for_dealer = self._wait
        self._first_wait, self._began = first_wait, time.monotonic()
        self._next_line = self._began  # no line about waiting is logged before that

    def begin(self, context: bytes) -> None:
        """Take frames of this attempt only from now on; `context` ties its keys to everyone's nonces."""
        self._session = digest(b"attempt", context)[:SESSION_BYTES]
        self._begun = True
        self._wait, self._wait_for_dealer = self._usual_wait, self.settings.deadline

    def advance(self, label: str) -> None:
        """Enter the next step of the program."""
        self.step += 1
        self.label = short_label(label)

    def send(self, peers: Iterable[int], arrays: Sequence[Array], kind: Kind = Kind.DATA) -> None:
        """Send the same arrays to each peer."""
        length = frame_bytes(self.label, [(array.shape, array.nbytes) for array in arrays])
        make = copied if self._memory is not None and length <= self.settings.max_frame_bytes else encode
        message = make(kind, self.role, self._session, self.step, self.label, arrays)
        payload = sum(array.nbytes for array in arrays)
        for peer in peers:
            for block in [message] if isinstance(message, Frame) else self._cut(message):
                self._deliver(peer, block)
            self.count_sent(peer, kind, payload, length)

    def count_sent(self, peer: int, kind: Kind, payload: int, wire: int) -> None:
        """Count a message to a peer."""
        self.meter.sent(self.roster.name(peer), payload, wire)
        if self.role == COORDINATOR and kind is Kind.DATA:
            self.meter.now.dealer_bytes += payload

    def count_received(self, peer: int, kind: Kind, payload: int, wire: int) -> None:
        """Count a message from a peer."""
        self.meter.received(self.roster.name(peer), payload, wire)
        if peer == COORDINATOR and kind is Kind.DATA:
            self.meter.now.dealer_bytes += payload

    def exchange(
        self, outgoing: Sequence[tuple[Sequence[int], Sequence[Array]]], expected: Mapping[int, int]
    ) -> dict[int, tuple[Array, ...]]:
        """Send peers what is theirs, and return what each has sent in the same step; `expected` has the bytes of each.

        A message of one frame finds room: its receiver takes what is before it without waiting for this role. One
        in parts need not, while two send to each other and both wait for room: it goes from a thread of its own.
        """
        longest = max((sum(array.nbytes for array in arrays) for _, arrays in outgoing), default=0)
        if longest + MAX_HEADER_BYTES <= self.settings.max_frame_bytes:
            for peers, arrays in outgoing:
                self.send(peers, arrays)
            return {peer: self.receive(peer, expected=count) for peer, count in expected.items()}
        failed: list[BaseException] = []

        def send_all() -> None:
            try:
                for peers, arrays in outgoing:
                    self.send(peers, arrays)
            except BaseException as error:  # such as a lack of memory: it is this role's failure, not its thread's
                failed.append(error)

        sender = threading.Thread(target=send_all, name=f"{self.roster.name(self.role)} sends", daemon=True)
        sender.start()
        try:
            received = {peer: self.receive(peer, expected=count) for peer, count in expected.items()}
        except (PeerFinishedError, PeerTimeoutError):
            sender.join(_LAST_WORDS)  # it may have read why that peer has ended, or have failed itself
            if failed:
                raise failed[0] from None
            raise
        sender.join()
        if failed:
            raise failed[0]
        return received

    def _cut(self, block: bytes) -> Iterator[bytes]:
        """Yield a message as it is, or if it is longer than a frame may be, in parts."""
        longest = self.settings.max_frame_bytes
        if len(block) <= longest:
            yield block
            return
        whole, room = np.array([len(block)], np.int64), longest - AROUND_BYTES
        for place in range(0, len(block), room):
            part = np.frombuffer(block, np.uint8, min(room, len(block) - place), place)
            yield encode(Kind.PART, self.role, self._session, self.step, self.label, [whole, part])

    def _deliver(self, peer: int, block: bytes | Frame) -> None:
        try:
            if isinstance(block, Frame):
                assert self._memory is not None
                self._memory.send(peer, block, self._wait_for(peer))
            else:
                self.transport.send(peer, block, self._wait_for(peer))
        except PeerTimeoutError:
            raise PeerTimeoutError(
                self._silence(peer, "took no message"), parameter=self.roster.name(peer), value=self.label
            ) from None
        except PeerFinishedError:
            raise self._last_words(peer) from None

    def receive(self, peer: int, kind: Kind = Kind.DATA, expected: int = 0) -> tuple[Array, ...]:
        """Return the arrays of the next message from a peer, which must belong to this very step.

        A message that is longer than a frame may be comes in parts, if that many bytes of arrays are `expected`.
        """
        frame = self._next(peer, expected)
        self._check_ours(peer, frame)
        return self._in_step(peer, frame, kind)

    def receive_greeting(self, peer: int) -> tuple[tuple[Array, ...], FederationError | None]:
        """Return a peer's greeting, and what is wrong with the frame around it: the greeting itself may tell why."""
        frame = self._next(peer)
        arrays = self._in_step(peer, frame, Kind.HELLO)
        try:
            self._check_ours(peer, frame)
        except AlienFrameError as error:
            return arrays, error
        return arrays, None

    def _in_step(self, peer: int, frame: Frame, kind: Kind) -> tuple[Array, ...]:
        if frame.kind is not kind or frame.step != self.step or frame.label != self.label:
            theirs = f"{frame.kind.name.lower()} frame of step {frame.step} ({printable(frame.label)})"
            text = (
                f"{self.roster.name(self.role)} is at step {self.step} ({self.label}) and got a {theirs} from "
                f"{self.roster.name(peer)}; do all roles run the same program with the same parameters?"
            )
            raise OutOfStepError(text, parameter=self.roster.name(peer), value=self.label)
        return frame.arrays

    def _next(self, peer: int, expected: int = 0) -> Frame:
        """Return the next message of a peer that is no abort; before a session begins, it may be of another one."""
        while True:
            frame = self._checked(peer, self._arrival(peer))
            if frame.kind is Kind.PART:
                block = self._whole(peer, frame, expected)
                frame = decode(block, len(block))
            self.count_received(peer, frame.kind, frame.payload_bytes, frame.wire_bytes)
            if frame.kind is not Kind.WAIT or self._begun:
                return frame
            self._note_wait(peer, frame)
            self._say_for_whom(peer)

    def _note_wait(self, peer: int, frame: Frame) -> None:
        """Remember for whom a peer says that it waits; it may name roles of this session only."""
        said = b"".join(array.tobytes() for array in frame.arrays)
        names = said[:_MAX_TEXT].decode(errors="replace").split(", ")
        if len(said) >= _MAX_TEXT and len(names) > 1:
            names.pop()  # it may be cut
        if not {self.roster.name(role) for role in self.roster.roles}.issuperset(names):
            text = f"{self.roster.name(peer)} says that it waits for somebody who is no role of this session"
            raise FrameError(text, parameter=self.roster.name(peer))
        self._awaited[peer] = ", ".join(names)

    def _whole(self, peer: int, frame: Frame, expected: int) -> bytes:
        """Return a message whose first part has come, when the others have too; memory is taken as they come."""
        allowed = max(self.settings.max_frame_bytes, expected + MAX_HEADER_BYTES if expected else 0)
        parts, length, whole = list[bytes](), 0, -1
        while True:
            self._check_ours(peer, frame)
            if frame.kind is not Kind.PART or [a.dtype for a in frame.arrays] != _PART or frame.arrays[0].shape != (1,):
                text = f"{self.roster.name(peer)} sent something else than the next part of a message"
                raise FrameError(text, parameter=self.roster.name(peer))
            whole = int(frame.arrays[0][0]) if not parts else whole
            parts.append(frame.arrays[1].tobytes())
            length += len(parts[-1])
            if whole > allowed:
                raise FrameError(
                    f"a message of {whole} bytes is larger than the {allowed} allowed", "range", "message", whole
                )
            if not parts[-1] or length > whole:
                text = f"{self.roster.name(peer)} sent parts that do not make up a message"
                raise FrameError(text, parameter=self.roster.name(peer))
            if length == whole:
                return b"".join(parts)
            frame = self._checked(peer, self._arrival(peer))

    def _arrival(self, peer: int) -> Frame:
        """Return the next frame of a peer; until the session begins, say now and then for whom this role waits.

        Until then there is one end for all that this role waits for: no message moves it.
        """
        end = (time.monotonic() if self._begun else self._began) + self._wait_for(peer)
        try:
            while not self._begun and end - time.monotonic() > SAY_EVERY:
                try:
                    return self._received(peer, SAY_EVERY)
                except PeerTimeoutError:
                    self._say_for_whom(peer)
            if not self._begun and time.monotonic() >= end:  # what a peer sends without a pause is not read for ever
                raise PeerTimeoutError
            return self._received(peer, max(0.0, end - time.monotonic()))
        except PeerTimeoutError:
            raise PeerTimeoutError(
                self._silence(peer, "sent nothing"), parameter=self.roster.name(peer), value=self.label
            ) from None
        except PeerFinishedError:
            text = (
                f"{self.roster.name(peer)} ended while {self.roster.name(self.role)} waited for it at step {self.step} "
                f"({self.label})"
            )
            raise PeerFinishedError(text, parameter=self.roster.name(peer), value=self.label) from None

    def _received(self, peer: int, timeout: float) -> Frame:
        """Return the next frame of a peer, decoded if it came as bytes."""
        most = self.settings.max_frame_bytes
        if self._memory is None:
            return decode(self.transport.receive(peer, timeout), most)
        block = self._memory.take(peer, timeout)
        if not isinstance(block, Frame):
            return decode(block, most)
        check_length(block.wire_bytes, most)
        return block

    def _checked(self, peer: int, frame: Frame) -> Frame:
        """Return a frame; raise what an abort says."""
        if frame.kind is Kind.ABORT:
            self._check_ours(peer, frame)
            raise self._failure(peer, frame)
        return frame

    def abort(self, error: BaseException) -> None:
        """Tell every peer that this role stops, and why; peers that cannot be reached learn it from silence."""
        origin, kind = self.roster.name(self.role), kind_of(error)
        where = f" at step {self.step} ({self.label})"
        reason = public_reason(error).removesuffix(where) + where  # an error of this class says it by itself
        if isinstance(error, PeerFailedError):
            origin, reason, kind = error.origin, error.reason, error.kind
        texts = [_octets(text) for text in (origin, reason, kind)]
        block = encode(Kind.ABORT, self.role, self._session, self.step, self.label, texts)
        for peer in self.roster.neighbours(self.role, self.settings.topology):
            try:
                self.transport.send(peer, block, min(1.0, self.settings.deadline / 4))
            except FederationError:  # a slow peer, one that has ended, or this role's own closed connections
                continue

    def _last_words(self, peer: int) -> Exception:
        """Return why a peer that takes nothing any more has stopped: its abort, if it sent one."""
        try:
            while True:
                frame = self._received(peer, 0)
                if frame.kind is Kind.ABORT:
                    self._check_ours(peer, frame)
                    return self._failure(peer, frame)
        except AlienFrameError as error:
            return error
        except (PeerTimeoutError, PeerFinishedError, FrameError):
            text = (
                f"{self.roster.name(peer)} ended while {self.roster.name(self.role)} had something for it at step "
                f"{self.step} ({self.label})"
            )
            return PeerFinishedError(text, parameter=self.roster.name(peer), value=self.label)

    def _check_ours(self, peer: int, frame: Frame) -> None:
        """Refuse a frame of another session, attempt or sender.

        An abort may be of a peer that stopped before the attempt began; and until then, of one whose settings differ.
        """
        stops = frame.kind is Kind.ABORT
        if stops and not self._begun:
            return
        if frame.session != self._session and not (stops and frame.session == _hello(self.settings)):
            raise AlienFrameError(
                f"{self.roster.name(peer)} sent a frame of another session or attempt", parameter=self.roster.name(peer)
            )
        if frame.sender != peer:
            text = f"a frame from {self.roster.name(peer)} claims to be sent by role {frame.sender}"
            raise AlienFrameError(text, parameter=self.roster.name(peer), value=frame.sender)

    def _say_for_whom(self, peer: int) -> None:
        """Log for whom this role waits, one line in SAY_EVERY seconds at most: peers decide how often they write."""
        now = time.monotonic()
        if now < self._next_line:
            return
        self._next_line = now + SAY_EVERY
        me, name, others = self.roster.name(self.role), self.roster.name(peer), self._awaited.get(peer)
        _log.info("%s waits for %s", me, f"{others}, as {name} does" if others else name)

    def _silence(self, peer: int, what: str) -> str:
        name, others = self.roster.name(peer), self._awaited.get(peer)
        if others and not self._begun:
            me, waited = self.roster.name(self.role), self._wait_for(peer)
            return f"{me} has waited {waited:g} seconds for {name}, which says that it waits for {others}"
        return f"{name} {what} for {self._wait_for(peer):g} seconds at step {self.step} ({self.label})"

    def _wait_for(self, peer: int) -> float:
        """Return the seconds that this role waits for a peer; before a session begins, in all.

        A peer that waits in its turn gives up after its own `first_wait` and says who was missing: a quarter of it is
        for that message.
        """
        if not self._begun and self._first_wait and peer in self._awaited:
            return 1.25 * self._first_wait
        return self._wait_for_dealer if peer == COORDINATOR else self._wait

    def _failure(self, peer: int, frame: Frame) -> PeerFailedError:
        """Return what an abort says; of an origin that is no role, the sender takes the place.

        A sender may name any role. One that is connected with this role is asked itself: what it said counts.
        """
        origin, reason, kind = self._texts(frame)
        sender = self.roster.name(peer)
        failed = next((role for role in self.roster.roles if self.roster.name(role) == origin), peer)
        if failed == peer:
            return PeerFailedError(sender, reason, kind, sender)
        return self._own_words(failed) or PeerFailedError(origin, reason, kind, sender)

    def _texts(self, frame: Frame) -> tuple[str, str, str]:
        """Return origin, reason and kind of an abort."""
        if len(frame.arrays) != 3 or any(array.dtype != np.uint8 for array in frame.arrays):
            raise FrameError("an abort carries three texts: its origin, its reason and its kind", parameter="abort")
        blobs = (array.tobytes()[:_MAX_TEXT] for array in frame.arrays)
        origin, reason, kind = (printable(blob.decode(errors="replace")) for blob in blobs)
        return origin, reason, kind

    def _own_words(self, role: int) -> PeerFailedError | None:
        """Return what a role that is said to have failed says of itself; None if it says nothing, or is no neighbour.

        An honest one has told all its neighbours, so that its words are on their way.
        """
        if role not in self.roster.neighbours(self.role, self.settings.topology):
            return None
        end = time.monotonic() + min(_LAST_WORDS, self.settings.deadline / 4)
        try:
            while True:
                left = max(0.0, end - time.monotonic())
                frame = self._received(role, left)
                if frame.kind is Kind.ABORT:
                    self._check_ours(role, frame)
                    origin, reason, kind = self._texts(frame)
                    return PeerFailedError(origin, reason, kind, origin) if origin == self.roster.name(role) else None
                if not left:
                    return None
        except FederationError:
            return None


def _hello(settings: SessionSettings) -> bytes:
    """Return what frames carry until there is an attempt."""
    return digest(settings.session.encode())[:SESSION_BYTES]


def _octets(text: str) -> Array:
    return np.frombuffer(printable(text).encode()[:_MAX_TEXT], np.uint8)
