"""Before a session begins: one end for the whole wait, and few lines in the log, however many messages come."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from contracts.transport_contract import LONG, Call
from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import FrameError, PeerTimeoutError
from mpfedxgb.party import Meter, Roster
from mpfedxgb.party.communicator import Communicator, InterimFrames
from mpfedxgb.party.handshake import shake_hands
from mpfedxgb.transport import Kind, MemoryHub, Transport
from support.loopback import loopback
from support.refusals import refused

ROSTER = Roster(("bank", "telecom", "retail"))
FIRST_WAIT = 1.0
SETTINGS = SessionSettings(deadline=600.0)


def flood(end: Transport, sender: int, victims: Sequence[int], over: threading.Event) -> None:
    """Say without a pause for whom a role waits, now for one and now for two others, until it is over."""
    words = InterimFrames(ROSTER, sender, SETTINGS)
    frames = [words.waiting(["retail"]), words.waiting(["bank", "retail"])]
    while not over.is_set():
        for victim in victims:
            for frame in frames:
                with suppress(PeerTimeoutError):  # it has no room just now
                    end.send(victim, frame, 0.1)


def test_a_flood_of_wait_frames_does_not_move_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Telecom gives up, by name, while coordinator and bank still flood it; its log has a line in ten seconds."""
    caplog.set_level("INFO", "mpfedxgb.session")
    over = threading.Event()
    with loopback(tmp_path, roles=3) as federation:
        ends = federation.form([(0, 2), (1, 2)], capacity=1 << 14)
        floods = [Call(flood, ends[role], role, [2], over) for role in (0, 1)]
        began = time.monotonic()
        comm = Communicator(ends[2], ROSTER, 2, SETTINGS, Meter(), FIRST_WAIT)
        waiting = Call(shake_hands, comm)
        try:
            with refused(PeerTimeoutError, "late", "coordinator", "handshake"):
                waiting.result()
        finally:
            over.set()
            for call in floods:
                call.result()
            for end in ends.values():
                end.close()
        waited = time.monotonic() - began
    lines = [record for record in caplog.records if "waits for" in record.getMessage()]
    assert 1 <= len(lines) <= 1 + waited / 10.0


def test_a_peer_that_waits_has_a_quarter_longer_to_give_up() -> None:
    """What it says in the end is heard; the deadline of a running session has no say in that."""
    hub = MemoryHub(ROSTER.links(), 1 << 20)
    words = InterimFrames(ROSTER, 0, SETTINGS)
    hub.end(0).send(2, words.waiting(["retail"]), LONG)
    comm = Communicator(hub.end(2), ROSTER, 2, SETTINGS, Meter(), first_wait=0.4)
    with refused(PeerTimeoutError, "late", "coordinator", "start"):
        comm.receive_greeting(0)


def test_a_long_list_of_missing_roles_may_be_cut() -> None:
    """What a frame says is bounded; the last name of many is then no name."""
    many = Roster(tuple(f"p{number:02}-{'x' * 55}" for number in range(50)))
    hub = MemoryHub(many.links(), 1 << 20)
    hub.end(0).send(2, InterimFrames(many, 0, SETTINGS).waiting(many.participants), LONG)
    comm = Communicator(hub.end(2), many, 2, SETTINGS, Meter(), first_wait=0.4)
    with refused(PeerTimeoutError, "late", "coordinator", "start"):
        comm.receive_greeting(0)


@pytest.mark.parametrize("names", ["", "mallory", "retail, mallory", "retail,bank"])
def test_a_wait_for_nobody_of_the_session_is_refused(names: str) -> None:
    """A peer cannot write what it likes into another role's log."""
    hub = MemoryHub(ROSTER.links(), 1 << 20)
    sender, receiver = (Communicator(hub.end(role), ROSTER, role, SETTINGS, Meter()) for role in (0, 2))
    sender.send([2], [np.frombuffer(names.encode(), np.uint8)], Kind.WAIT)
    with refused(FrameError, "damaged", "coordinator"):
        receiver.receive_greeting(0)
