"""A role that raises, returns early or stops answering ends all others with a named error, in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mpfedxgb.config import TOPOLOGIES, SessionSettings
from mpfedxgb.errors import (
    FederationError,
    OutOfStepError,
    PeerFailedError,
    PeerFinishedError,
    PeerTimeoutError,
    SettingsError,
    UserError,
)
from mpfedxgb.party import ALL, COORDINATOR, Outcome, Party, Roster, run_locally, run_roles
from mpfedxgb.protocols import multiply, reveal, share
from mpfedxgb.ring import VECTOR, RingArray, kernels
from mpfedxgb.transport import Kind, decode
from patience import patience
from support.names import unlisted
from support.refusals import refused

PATIENT = 30.0
"""Deadline, in seconds, where nobody has to wait for it: it passes only if an error got lost."""

IMPATIENT = 8.0
"""Deadline where somebody stops answering: who waits for it has two seconds to say so before others lose patience."""

LIMIT = 60.0
"""By then everybody has ended."""

MORE = 6
"""Products after the trouble: more than participants, so that each is corrected once."""

Trouble = Callable[[Party], bool]
"""What happens to one role in the middle of the program; True makes it return early."""

CASES = [(m, role, topology) for m, topology in ((2, "star"), (4, "star"), (4, "mesh")) for role in range(m + 1)]
EVERY_ROLE = [pytest.param(m, role, topology, id=f"M{m}-role{role}-{topology}") for m, role, topology in CASES]


def program(party: Party, trouble: Trouble | None = None, size: int = 3) -> list[int] | None:
    """Share, multiply, get into trouble, multiply on, announce, reveal: everybody needs everybody to the end."""
    x = share(party, 1, VECTOR, (size,), RingArray.encode(VECTOR, [2] * size))
    y = share(party, 2, VECTOR, (size,), RingArray.encode(VECTOR, [3] * size))
    x = multiply(party, x, y)
    if trouble is not None and trouble(party):
        return None
    for _ in range(MORE):
        x = multiply(party, x, y)
    party.announce(unlisted("products"), [3])
    shown = reveal(party, x, ALL, unlisted("x"))
    return None if party.is_coordinator else shown.decode().tolist()


@pytest.fixture(autouse=True)
def released() -> Iterator[threading.Event]:
    """Give stopped roles something to wait for; release them after the test, and see that no thread stays behind."""
    before, event = set(threading.enumerate()), threading.Event()
    yield event
    event.set()
    end = time.monotonic() + patience(LIMIT)
    while (left := set(threading.enumerate()) - before) and time.monotonic() < end:
        time.sleep(0.01)
    assert not left, f"threads left behind: {left}"


def run(
    participants: int, role: int, trouble: Trouble | None, size: int = 3, tap: Any = None, **settings: Any
) -> list[Outcome[list[int] | None]]:
    """Run the program with one role in trouble; all the others have to end with a named error, in time."""
    private: list[tuple[Any, ...]] = [(trouble if r == role else None, size) for r in range(participants + 1)]
    kernels.warm_up()  # compiling is not part of the time that counts
    began, limit = time.monotonic(), patience(LIMIT)
    told = SessionSettings(**{"deadline": patience(PATIENT), **settings})
    outcomes = run_roles(program, participants, private, told, tap=tap)
    assert time.monotonic() - began < limit
    for other, outcome in enumerate(outcomes):
        if other != role:
            assert isinstance(outcome.error, FederationError), outcome
            assert type(outcome.error) is not FederationError, "an error without a name of its own"
            assert outcome.result is None
    return outcomes


def others(outcomes: list[Outcome[Any]], role: int) -> list[BaseException]:
    """Return the errors of all roles but one."""
    return [outcome.error for r, outcome in enumerate(outcomes) if r != role and outcome.error is not None]


# Raising


@pytest.mark.parametrize(("participants", "role", "topology"), EVERY_ROLE)
def test_a_foreign_error_reaches_all_without_its_text(participants: int, role: int, topology: str) -> None:
    """Everybody learns who failed, at which step and with what type of error; the text, which may hold data, stays."""
    text = "row 17 is of Ms Quillwort"  # a word that chance does not make: messages hold random hexadecimal digits
    blocks: list[bytes] = []

    def trouble(party: Party) -> bool:
        raise ValueError(text)

    tap = lambda s, r, block: blocks.append(block)  # noqa: E731 # as short as it is
    outcomes = run(participants, role, trouble, tap=tap, topology=topology)
    name = Roster.numbered(participants).name(role)
    assert isinstance(outcomes[role].error, ValueError)
    assert str(outcomes[role].error) == text
    for error in others(outcomes, role):
        assert isinstance(error, PeerFailedError)
        assert error.origin == name
        assert error.reason.startswith("ValueError at step ")
        assert "(multiply)" in error.reason
        assert "Quillwort" not in repr(error)
    aborts = [block for block in blocks if decode(block, 1 << 20).kind is Kind.ABORT]
    assert aborts
    assert not any(b"Quillwort" in block or b"row 17" in block for block in blocks)


@pytest.mark.parametrize(("participants", "role", "topology"), EVERY_ROLE)
def test_our_own_errors_reach_all_with_their_text(participants: int, role: int, topology: str) -> None:
    """Our errors are written to be read by the others."""

    def trouble(party: Party) -> bool:
        raise SettingsError("max_depth must be 1 or more, not 0")

    outcomes = run(participants, role, trouble, topology=topology)
    for error in others(outcomes, role):
        assert isinstance(error, PeerFailedError)
        assert error.origin == Roster.numbered(participants).name(role)
        assert error.reason.startswith("max_depth must be 1 or more, not 0 at step ")
        assert error.kind == "SettingsError"


@pytest.mark.parametrize("error", [KeyError("data"), SystemExit(3), RecursionError()])
def test_any_kind_of_error_is_told(error: BaseException) -> None:
    """Even what is no ordinary exception does not leave the others waiting."""

    def trouble(party: Party) -> bool:
        raise error

    outcomes = run(2, 2, trouble)
    assert outcomes[2].error is error
    for met in others(outcomes, 2):
        assert isinstance(met, PeerFailedError)
        assert met.reason.startswith(f"{type(error).__name__} at step")


def test_a_lack_of_memory_is_told_in_words() -> None:
    """So that whoever reads it at another organisation knows that it is not theirs to mend."""

    def trouble(party: Party) -> bool:
        raise MemoryError

    outcomes = run(2, 2, trouble)
    assert isinstance(outcomes[2].error, MemoryError)
    for met in others(outcomes, 2):
        assert isinstance(met, PeerFailedError)
        assert met.kind == "MemoryError"
        assert met.reason.startswith("there is not enough memory on that machine at step ")


@pytest.mark.parametrize("role", [0, 1, 2, 3])
@pytest.mark.parametrize("place", [0, 1, 2, 4])
def test_an_error_in_the_middle_of_a_protocol(role: int, place: int) -> None:
    """A role that fails while it sends, in the handshake or inside a product, ends all others too."""
    count = 0

    def tap(sender: int, receiver: int, block: bytes) -> None:
        nonlocal count
        if sender == role and decode(block, 1 << 20).kind is not Kind.ABORT:
            count += 1
            if count == place + 1:
                raise OSError("no route to 10.1.2.3")

    outcomes = run(3, role, None, tap=tap)
    assert isinstance(outcomes[role].error, OSError)
    for error in others(outcomes, role):
        assert isinstance(error, PeerFailedError)
        assert error.origin == Roster.numbered(3).name(role)
        assert error.reason.startswith("OSError at step ")
        assert "10.1.2.3" not in str(error)


def test_two_roles_fail_at_once() -> None:
    """Everybody ends with one of the two."""
    both = threading.Barrier(2)

    def trouble(party: Party) -> bool:
        both.wait(patience(LIMIT))
        raise ValueError(party.name)

    private = [(trouble if role in (2, 3) else None,) for role in range(4)]
    outcomes = run_roles(program, 3, private, SessionSettings(deadline=patience(PATIENT)))
    assert [str(outcomes[role].error) for role in (2, 3)] == ["P2", "P3"]
    for role in (0, 1):
        error = outcomes[role].error
        assert isinstance(error, PeerFailedError)
        assert error.origin in ("P2", "P3")


# Returning early


@pytest.mark.parametrize(("participants", "role", "topology"), EVERY_ROLE)
def test_a_role_that_returns_early_is_named(participants: int, role: int, topology: str) -> None:
    """Who waited for it says so, and the others hear of it; for the role itself nothing is wrong."""
    outcomes = run(participants, role, lambda party: True, topology=topology)
    name = Roster.numbered(participants).name(role)
    assert outcomes[role].error is None
    errors = others(outcomes, role)
    assert any(isinstance(error, PeerFinishedError) for error in errors)
    for error in errors:
        assert isinstance(error, (PeerFinishedError, PeerFailedError))
        assert f"{name} ended while" in str(error)


# Stopping to answer


def test_a_role_that_stops_answering_is_named(released: threading.Event) -> None:
    """Who waits for it directly runs into the deadline and names it; the others end with that, and name it too.

    All cases at the same time, since it is all waiting.
    """

    def trouble(party: Party) -> bool:
        released.wait()
        return False

    def stopped(participants: int, role: int, topology: str) -> list[Outcome[list[int] | None]]:
        return run(participants, role, trouble, deadline=IMPATIENT, topology=topology)

    with ThreadPoolExecutor(len(CASES)) as at_once:
        for case, outcomes in zip(CASES, at_once.map(stopped, *zip(*CASES, strict=True)), strict=True):
            named_by_all(*case[:2], outcomes)


def named_by_all(participants: int, role: int, outcomes: list[Outcome[list[int] | None]]) -> None:
    """Assert that all others end with the name of the role that stopped, and that it is told to have stopped."""
    name = Roster.numbered(participants).name(role)
    errors = others(outcomes, role)
    assert any(isinstance(error, PeerTimeoutError) for error in errors)
    for error in errors:
        assert isinstance(error, (PeerTimeoutError, PeerFailedError))
        assert f"{name} sent nothing for " in str(error)
        assert str(error).count(" at step ") == 1
    if role not in (COORDINATOR, 1):  # of the coordinator, whoever is corrected in this step is the first to know
        assert isinstance(outcomes[1].error, PeerTimeoutError)
        assert "(multiply)" in str(outcomes[1].error)
    assert isinstance(outcomes[role].error, FederationError)
    assert f"{name} did not stop" in str(outcomes[role].error)


def test_a_stopped_role_that_wakes_up_later_ends(released: threading.Event) -> None:
    """Its connections are closed, so the first thing it tries to send or receive ends it, with a named error."""
    woken: list[BaseException] = []
    ended = threading.Event()

    def trouble(party: Party) -> bool:
        released.wait()
        try:
            party.announce(unlisted("late"), [1])
        except FederationError as error:
            woken.append(error)
            raise
        finally:
            ended.set()
        return False

    run(2, 1, trouble, deadline=1.0)
    released.set()
    assert ended.wait(patience(LIMIT))
    assert len(woken) == 1


# Back-pressure


def crowded(trouble: Trouble, **settings: Any) -> list[Outcome[list[int] | None]]:
    """Run the program with P1 in trouble as soon as the coordinator has more to say than the queue to P1 takes."""
    blocked = threading.Event()
    dealt = 0

    def tap(sender: int, receiver: int, block: bytes) -> None:
        nonlocal dealt
        if (sender, receiver) == (0, 1) and decode(block, 1 << 20).kind is Kind.DATA:
            dealt += 1
            if dealt == 3:  # P1 took the first correction, the second fills the queue, the third has to wait
                blocked.set()

    def wait(party: Party) -> bool:
        assert blocked.wait(patience(LIMIT))
        time.sleep(0.05)
        return trouble(party)

    return run(2, 1, wait, size=1000, tap=tap, max_queued_bytes=1024, **settings)


def test_a_blocked_coordinator_learns_why_the_active_participant_failed() -> None:
    """It hears the last words, though it was sending."""

    def trouble(party: Party) -> bool:
        raise UserError("the table has no rows")

    error = crowded(trouble)[COORDINATOR].error
    assert isinstance(error, PeerFailedError)
    assert error.origin == "P1"
    assert "the table has no rows" in error.reason


def test_a_blocked_coordinator_notices_that_the_active_participant_ended() -> None:
    """A peer that takes nothing any more and said nothing is named."""
    error = crowded(lambda party: True)[COORDINATOR].error
    assert isinstance(error, PeerFinishedError)
    assert "P1 ended while coordinator had something for it" in str(error)


def test_a_blocked_coordinator_does_not_wait_for_ever(released: threading.Event) -> None:
    """A peer that takes nothing is named after the deadline."""

    def trouble(party: Party) -> bool:
        released.wait()
        return False

    error = crowded(trouble, deadline=2.0)[COORDINATOR].error
    assert isinstance(error, PeerTimeoutError)
    assert str(error).startswith("P1 took no message for 3 seconds")


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("frame", [1 << 30, 1024])
def test_back_pressure_alone_is_no_failure(topology: str, frame: int) -> None:
    """With hardly any room the program just takes turns, though messages come in parts that fill the queues."""
    settings = SessionSettings(
        max_queued_bytes=1024, max_frame_bytes=frame, deadline=patience(PATIENT), topology=topology
    )
    done = run_locally(program, 3, [(None, 3000)] * 4, settings)
    assert done.results[1:] == [[2 * 3 ** (MORE + 1)] * 3000] * 3


# Out of step


@pytest.mark.parametrize(("participants", "role", "topology"), EVERY_ROLE)
def test_out_of_step_is_told_which_steps_met(participants: int, role: int, topology: str) -> None:
    """One role has a step more than the others: whoever meets it first names both steps, and all end.

    If that one is the coordinator, its message is for who has a turn later on.
    """

    def trouble(party: Party) -> bool:
        party.step("lift")
        return False

    # The role in trouble goes on, so it too has to end with an error.
    outcomes = run(participants, role, trouble, topology=topology)
    errors = [*others(outcomes, role), outcomes[role].error]
    assert all(isinstance(error, FederationError) for error in errors)
    met = [str(error) for error in errors if isinstance(error, OutOfStepError)]
    assert met
    for text in met:
        assert "is at step " in text
        assert text.count("(multiply)") == 2
    steps = {int(word) for word in met[0].replace("(", " ").split() if word.isdigit()}
    assert len(steps) == 2
    assert max(steps) - min(steps) in (1, participants if role == COORDINATOR else 1)
    assert all("(multiply)" in str(error) for error in errors)


def test_another_operation_at_the_same_step_is_out_of_step() -> None:
    """The two operations are named."""

    def apart(party: Party) -> None:
        party.step("lift" if party.role == 2 else "truncate")
        party.send([1] if party.role == 2 else [], [])
        if party.is_active:
            party.receive(2, [])

    with refused(OutOfStepError, "mismatch", "P2", "truncate"):
        run_locally(apart, 2, settings=SessionSettings(deadline=patience(PATIENT)))


# Without trouble


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("participants", [2, 4])
def test_without_trouble_all_is_well(participants: int, topology: str) -> None:
    """The program of these tests works, and leaves no thread either."""
    done = run_locally(program, participants, settings=SessionSettings(deadline=patience(PATIENT), topology=topology))
    assert done.results[1:] == [[2 * 3 ** (MORE + 1)] * 3] * participants
    assert done.results[0] is None
