"""Frames in and out of one role, checked against session, sender and step, counted, with deadlines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from mpfedxgb.transport.frame import SESSION_BYTES, Frame, Kind, decode, encode, short_label
from mpfedxgb.transport.transport import Transport

Array = npt.NDArray[Any]
_MAX_TEXT = 2000


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
        self.transport, self.roster, self.role, self.settings, self.meter = (
            transport,
            roster,
            role,
            settings,
            meter,
        )
        self.step = 0
        self.label = "start"
        self._hello = self._session = digest(settings.session.encode())[:SESSION_BYTES]
        self._usual_wait = settings.deadline if role == ACTIVE else settings.longer_deadline
        self._wait = max(self._usual_wait, first_wait)  # some role may still be on its way

    def begin(self, context: bytes) -> None:
        """Take frames of this attempt only from now on; `context` ties its keys to everyone's nonces."""
        self._session = digest(b"attempt", context)[:SESSION_BYTES]
        self._wait = self._usual_wait

    def advance(self, label: str) -> None:
        """Enter the next step of the program."""
        self.step += 1
        self.label = short_label(label)

    def send(self, peers: Iterable[int], arrays: Sequence[Array], kind: Kind = Kind.DATA) -> None:
        """Send the same arrays to each peer."""
        block = encode(kind, self.role, self._session, self.step, self.label, arrays)
        payload = sum(array.nbytes for array in arrays)
        for peer in peers:
            self._deliver(peer, block)
            self.meter.sent(self.roster.name(peer), payload, len(block))
            if self.role == COORDINATOR and kind is Kind.DATA:
                self.meter.now.dealer_bytes += payload

    def _deliver(self, peer: int, block: bytes) -> None:
        try:
            self.transport.send(peer, block, self._wait)
        except PeerTimeoutError:
            raise PeerTimeoutError(self._silence(peer, "took no message")) from None
        except PeerFinishedError:
            raise self._last_words(peer) from None

    def receive(self, peer: int, kind: Kind = Kind.DATA) -> tuple[Array, ...]:
        """Return the arrays of the next frame from a peer, which must belong to this very step."""
        frame = self._next(peer)
        if frame.kind is not kind or frame.step != self.step or frame.label != self.label:
            theirs = f"{frame.kind.name.lower()} frame of step {frame.step} ({printable(frame.label)})"
            raise OutOfStepError(
                f"{self.roster.name(self.role)} is at step {self.step} ({self.label}) and got a {theirs} from "
                f"{self.roster.name(peer)}; do all roles run the same program with the same parameters?"
            )
        if peer == COORDINATOR and kind is Kind.DATA:
            self.meter.now.dealer_bytes += frame.payload_bytes
        return frame.arrays

    def _next(self, peer: int) -> Frame:
        try:
            block = self.transport.receive(peer, self._wait)
        except PeerTimeoutError:
            raise PeerTimeoutError(self._silence(peer, "sent nothing")) from None
        except PeerFinishedError:
            raise PeerFinishedError(
                f"{self.roster.name(peer)} ended while {self.roster.name(self.role)} waited for it at step {self.step} "
                f"({self.label})"
            ) from None
        frame = decode(block, self.settings.max_frame_bytes)
        if not self._is_ours(frame):
            raise self._alien(peer)
        if frame.sender != peer:
            raise AlienFrameError(f"a frame from {self.roster.name(peer)} claims to be sent by role {frame.sender}")
        self.meter.received(self.roster.name(peer), frame.payload_bytes, len(block))
        if frame.kind is Kind.ABORT:
            raise self._failure(frame)
        return frame

    def abort(self, error: BaseException) -> None:
        """Tell every peer that this role stops, and why; peers that cannot be reached learn it from silence."""
        origin, kind = self.roster.name(self.role), kind_of(error)
        reason = f"{public_reason(error)} at step {self.step} ({self.label})"
        if isinstance(error, PeerFailedError):
            origin, reason, kind = error.origin, error.reason, error.kind
        texts = [np.frombuffer(printable(text).encode()[:_MAX_TEXT], np.uint8) for text in (origin, reason, kind)]
        block = encode(Kind.ABORT, self.role, self._session, self.step, self.label, texts)
        for peer in self.roster.neighbours(self.role):
            try:
                self.transport.send(peer, block, min(1.0, self.settings.deadline / 4))
            except FederationError:  # a slow peer, one that has ended, or this role's own closed connections
                continue

    def _last_words(self, peer: int) -> Exception:
        """Return why a peer that takes nothing any more has stopped: its abort, if it sent one."""
        try:
            while True:
                frame = decode(self.transport.receive(peer, 0), self.settings.max_frame_bytes)
                if frame.kind is Kind.ABORT and frame.sender == peer:
                    return self._failure(frame) if self._is_ours(frame) else self._alien(peer)
        except (PeerTimeoutError, PeerFinishedError, FrameError):
            return PeerFinishedError(
                f"{self.roster.name(peer)} ended while {self.roster.name(self.role)} had something for it at step "
                f"{self.step} ({self.label})"
            )

    def _is_ours(self, frame: Frame) -> bool:
        """Whether a frame is of this attempt; a peer may also have stopped before the attempt began."""
        return frame.session == self._session or (frame.kind is Kind.ABORT and frame.session == self._hello)

    def _alien(self, peer: int) -> AlienFrameError:
        return AlienFrameError(f"{self.roster.name(peer)} sent a frame of another session or attempt")

    def _silence(self, peer: int, what: str) -> str:
        return f"{self.roster.name(peer)} {what} for {self._wait:g} seconds at step {self.step} ({self.label})"

    def _failure(self, frame: Frame) -> PeerFailedError:
        """Return what an abort says; of an origin that is no role, the sender takes the place."""
        if len(frame.arrays) != 3 or any(array.dtype != np.uint8 for array in frame.arrays):
            raise FrameError("an abort carries three texts: its origin, its reason and its kind")
        blobs = (array.tobytes()[:_MAX_TEXT] for array in frame.arrays)
        origin, reason, kind = (printable(blob.decode(errors="replace")) for blob in blobs)
        is_role = any(origin == self.roster.name(role) for role in self.roster.roles)
        return PeerFailedError(origin if is_role else self.roster.name(frame.sender), reason, kind)
