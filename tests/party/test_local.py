"""Running roles: one over any transport, all of them as threads; what each leaves, and what the caller is told."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import (
    FederationError,
    PeerFailedError,
    PeerFinishedError,
    PeerTimeoutError,
    UserError,
)
from mpfedxgb.party import COORDINATOR, Ledger, Outcome, Party, Reveal, Roster, local, run_locally, run_roles
from mpfedxgb.party.local import run_role
from mpfedxgb.transport import Kind, MemoryHub, decode
from patience import patience
from support.names import unlisted
from support.refusals import refused

LONG = 60.0
"""Deadline, in seconds, where nobody has to wait for it."""


def patient() -> SessionSettings:
    """Return settings whose deadline only a hang reaches, by the load of this moment."""
    return SessionSettings(deadline=patience(LONG))


NAMES = Roster(("bank", "shop", "telecom"), "broker")

Trouble = Callable[[Party], None]


def program(party: Party, trouble: Trouble | None = None) -> int | None:
    """Tell everyone one's number, get into trouble, tell it again: all need all to the end."""
    sums = []
    for name in ("first", "second"):
        told = party.tell_everyone(unlisted(name), None if party.is_coordinator else [party.role])
        sums.append(int(told.sum()))
        if trouble is not None:
            trouble(party)
    return None if party.is_coordinator else sum(sums)


@pytest.fixture(autouse=True)
def released() -> Iterator[threading.Event]:
    """Give roles that hang something to wait for; release them after the test, and see that no thread stays behind."""
    before, event = set(threading.enumerate()), threading.Event()
    yield event
    event.set()
    end = time.monotonic() + patience(LONG)
    while (left := set(threading.enumerate()) - before) and time.monotonic() < end:
        time.sleep(0.01)
    assert not left, f"threads left behind: {left}"


def in_trouble(role: int, trouble: Trouble, roles: int = 4) -> list[tuple[Any, ...]]:
    """Return the arguments of all roles, one of which gets into trouble."""
    return [(trouble if r == role else None,) for r in range(roles)]


def fail(error: BaseException) -> Trouble:
    """Return trouble that is an error."""

    def trouble(party: Party) -> None:
        raise error

    return trouble


# One role


def run_beside_others(trouble: Trouble | None) -> tuple[Outcome[int | None], list[Outcome[int | None]], MemoryHub]:
    """Run P1 in this thread, which may be in trouble, and the others in threads of their own."""
    roster = Roster.numbered(2)
    hub, others = MemoryHub(roster.links(), 1 << 20), {}

    def run(role: int) -> None:
        others[role] = run_role(program, (), hub.end(role), roster, role, patient())

    threads = [threading.Thread(target=run, args=(role,)) for role in (0, 2)]
    for thread in threads:
        thread.start()
    mine = run_role(program, (trouble,), hub.end(1), roster, 1, patient())
    for thread in threads:
        thread.join(patience(LONG))
    return mine, [others[0], others[2]], hub


def test_a_role_leaves_result_meter_and_ledger() -> None:
    """And has closed its end of the transport."""
    mine, others, hub = run_beside_others(None)
    assert (mine.role, mine.result, mine.error) == ("P1", 6, None)
    assert mine.meter.total().rounds == 2
    assert Reveal("first", "participants", 2) in mine.ledger
    assert [(other.role, other.result) for other in others] == [("coordinator", None), ("P2", 6)]
    with refused(FederationError, "ended", "connections"):
        hub.end(1).receive(2, 0)


def test_a_role_that_fails_keeps_its_error_and_tells_it() -> None:
    """The error itself, when it ended, and what was revealed until then; the others get a reason, not the text."""
    before = time.monotonic()
    mine, others, hub = run_beside_others(fail(ValueError("row 17 is 4711")))
    assert isinstance(mine.error, ValueError)
    assert mine.result is None
    assert before <= mine.ended <= time.monotonic()
    assert {entry.name for entry in mine.ledger} == {"first"}
    for other in others:
        assert isinstance(other.error, PeerFailedError)
        assert (other.error.origin, other.error.kind) == ("P1", "Exception")
        assert other.error.reason.startswith("ValueError at step ")
    with refused(FederationError, "ended", "connections"):
        hub.end(1).send(2, b"", 0)


def test_a_handshake_that_fails_has_no_ledger() -> None:
    """Nobody answers: the error names who was waited for, nothing was revealed, and the end is closed."""
    roster = Roster.numbered(2)
    hub = MemoryHub(roster.links(), 1 << 20)
    outcome: Outcome[int | None] = run_role(program, (), hub.end(1), roster, 1, SessionSettings(deadline=0.1))
    assert isinstance(outcome.error, PeerTimeoutError)
    assert outcome.ledger == Ledger()
    assert outcome.result is None
    with refused(FederationError, "ended", "connections"):
        hub.end(1).receive(2, 0)


# All roles


@pytest.mark.parametrize("roster", [3, NAMES], ids=["number", "names"])
def test_all_roles_in_their_order(roster: Roster | int) -> None:
    """The coordinator first; a number makes a roster of so many; everyone has the same ledger."""
    run = run_locally(program, roster, settings=patient())
    assert run.results == [None, 12, 12, 12]
    assert run.roster == (NAMES if isinstance(roster, Roster) else Roster.numbered(3))
    assert run.ledgers == [run.ledgers[0]] * 4
    assert [meter.total().rounds for meter in run.meters] == [0, 2, 2, 2]
    assert [outcome.role for outcome in run_roles(program, roster)] == [run.roster.name(r) for r in run.roster.roles]


def test_private_arguments_are_each_roles_own() -> None:
    """One sequence per role, the coordinator's included; any other number is refused."""
    run = run_locally(lambda party, *mine: mine, 2, [(), (1,), (2, 3)])
    assert run.results == [(), (1,), (2, 3)]
    with refused(UserError, "mismatch", "private", 2):
        run_locally(program, 2, [(), ()])


def test_settings_reach_every_role() -> None:
    """The same seed gives the same draws, another one others; a tap sees what is sent."""
    blocks: list[tuple[int, int, Kind]] = []

    def draw(party: Party) -> bytes:
        return bytes(party.keys.private_stream("draw").octets(16))

    def tap(sender: int, receiver: int, block: bytes) -> None:
        blocks.append((sender, receiver, decode(block, 1 << 20).kind))

    one, again, other = (run_locally(draw, 2, None, SessionSettings(insecure_seed=s), tap).results for s in (1, 1, 2))
    assert one == again
    assert len({*one, *other}) == 6
    assert {kind for _, _, kind in blocks} >= {Kind.HELLO}
    assert {(sender, receiver) for sender, receiver, _ in blocks} >= {(1, 0), (1, 2), (2, 1)}


def test_what_a_run_holds_is_not_shown() -> None:
    """Results and errors may hold data."""
    name = "Ms Quillwort"  # no digits: a repr may hold addresses
    assert name not in repr(run_locally(lambda party: name, 2))
    assert not any(name in repr(outcome) for outcome in run_roles(program, 2, [(fail(ValueError(name)),)] * 3))


# A role that fails or hangs


@pytest.mark.parametrize("role", [0, 1, 2, 3])
def test_the_caller_gets_the_error_it_began_with(role: int) -> None:
    """The very exception, with its text, and a note that says whose program it was."""
    mine = ValueError("row 17 is 4711")
    with pytest.raises(ValueError, match="4711") as caught:
        run_locally(program, NAMES, in_trouble(role, fail(mine)), patient())
    assert caught.value is mine
    assert mine.__notes__ == [f"in the program of {NAMES.name(role)}"]


def test_of_several_errors_the_first_counts() -> None:
    """The one that ended first, though it is not the first of the roster."""

    def later(party: Party) -> None:
        end = time.monotonic() + patience(LONG)
        while any(thread.name == "P3" for thread in threading.enumerate()) and time.monotonic() < end:
            time.sleep(0.01)
        raise ValueError("second")

    with pytest.raises(ValueError, match="first") as caught:
        run_locally(program, 3, [(None,), (later,), (None,), (fail(ValueError("first")),)], patient())
    assert caught.value.__notes__ == ["in the program of P3"]


def test_who_returned_early_is_named() -> None:
    """The first to notice speaks, not one who was told."""

    def half(party: Party, stops: bool) -> None:
        party.tell_everyone(unlisted("first"), None if party.is_coordinator else [1])
        if not stops:
            party.tell_everyone(unlisted("second"), None if party.is_coordinator else [2])

    with refused(PeerFinishedError, "ended", "P2", "tell second") as caught:
        run_locally(half, 3, [(False,), (False,), (True,), (False,)], patient())
    assert caught.value.__notes__ == ["in the program of P1"]


def test_a_role_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch, released: threading.Event) -> None:
    """Whoever waited for it names it; after the longer deadline nobody waits for its thread, which is still there."""
    outcomes: list[Outcome[int | None]] = []

    def noted(*arguments: Any) -> list[Outcome[int | None]]:
        outcomes.extend(run_roles(*arguments))
        return outcomes

    def hang(party: Party) -> None:
        released.wait()

    monkeypatch.setattr(local, "run_roles", noted)
    with refused(PeerTimeoutError, "late", "P3", "tell second"):
        run_locally(program, 3, in_trouble(3, hang), SessionSettings(deadline=2.0))
    assert any(thread.name == "P3" for thread in threading.enumerate())
    assert type(outcomes[3].error) is FederationError
    assert str(outcomes[3].error) == "P3 did not stop after another role had failed; its thread is left to itself"
    assert outcomes[3].ledger == Ledger()
    assert isinstance(outcomes[1].error, PeerTimeoutError)


def test_an_interrupted_caller_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the main thread ends all roles, though each of them would wait for minutes."""
    waiting = threading.Barrier(4)

    def deadlock(party: Party) -> None:
        party.step("wait")
        waiting.wait(patience(LONG))
        party.receive(1 if party.role != 1 else 2, [])

    def interrupt(*arguments: Any) -> None:
        waiting.wait(patience(LONG))
        raise KeyboardInterrupt

    monkeypatch.setattr(local, "_wait_for_all", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_roles(deadlock, 2, settings=SessionSettings(deadline=600.0))


# One core


def affinity(party: Party) -> set[int]:
    """Return the cores that this role may run on."""
    return os.sched_getaffinity(0)


has_affinity = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no affinity")


@has_affinity
def test_one_core_keeps_all_roles_together_and_nobody_else() -> None:
    """All roles run on one and the same core, unless they are told not to; the caller stays free to run anywhere."""
    before = os.sched_getaffinity(0)
    cores = run_locally(affinity, 2).results

    assert len(cores[COORDINATOR]) == 1
    assert cores == [cores[COORDINATOR]] * 3
    assert os.sched_getaffinity(0) == before
    assert run_locally(affinity, 2, one_core=False).results == [before] * 3


@has_affinity
@pytest.mark.parametrize("library", [OSError("no library"), object(), -1], ids=["none", "without the call", "failing"])
def test_one_core_where_the_system_does_not_tell_which(monkeypatch: pytest.MonkeyPatch, library: Any) -> None:
    """Then roles run where they like."""

    class Failing:
        def sched_getcpu(self) -> int:
            return -1

    def load(name: None) -> Any:
        if isinstance(library, OSError):
            raise library
        return Failing() if library == -1 else library

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert run_locally(affinity, 2).results == [os.sched_getaffinity(0)] * 3


def test_one_core_where_there_is_no_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS: the roles run all the same."""
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    assert run_locally(program, 2).results == [None, 6, 6]
