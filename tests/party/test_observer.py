"""Who looks on while a role runs: what it is told and when, several at a time, and what it may end."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from mpfedxgb.errors import DataError, FederationError, PeerFailedError
from mpfedxgb.party import ACTIVE, Party, run_roles
from mpfedxgb.party.observer import Observer, Observers
from support.names import unlisted

METHODS = [name for name in vars(Observer) if name.startswith("on_")]
ARGUMENTS = {
    name: [object() for _ in list(inspect.signature(getattr(Observer, name)).parameters)[1:]] for name in METHODS
}


def told(one: Observer, name: str) -> Any:
    """Tell an observer something of a kind."""
    return getattr(one, name)(*ARGUMENTS[name])


def noting(log: list[Any], who: str) -> Observer:
    """Return an observer that notes all that it hears."""

    def note(name: str) -> Any:
        return lambda self, *arguments: log.append((who, name, *arguments))

    kind: type[Observer] = type("Noting", (Observer,), {name: note(name) for name in METHODS})
    return kind()


@pytest.mark.parametrize("name", METHODS)
def test_several_hear_the_same_in_turn(name: str) -> None:
    """Of every kind; one that is None is nobody, and one that overrides nothing does nothing."""
    log: list[Any] = []
    told(Observers(noting(log, "first"), None, Observer(), noting(log, "second")), name)
    assert log == [("first", name, *ARGUMENTS[name]), ("second", name, *ARGUMENTS[name])]


@pytest.mark.parametrize("name", [name for name in METHODS if name != "on_end"])
def test_after_one_that_raises_nobody_hears(name: str) -> None:
    """As where the record cannot be written: then nothing is shown either."""

    def fail(self: Observer, *arguments: object) -> None:
        raise DataError("no")

    log: list[Any] = []
    failing = type("Failing", (Observer,), {name: fail})()
    with pytest.raises(DataError):
        told(Observers(noting(log, "first"), failing, noting(log, "second")), name)
    assert [who for who, *_ in log] == ["first"]


def test_of_the_end_all_hear() -> None:
    """Also after one that raises, which is what comes of it."""

    class Failing(Observer):
        def on_end(self, error: BaseException | None) -> None:
            raise DataError("no")

    log: list[Any] = []
    with pytest.raises(DataError):
        Observers(noting(log, "first"), Failing(), noting(log, "second")).on_end(None)
    assert [who for who, *_ in log] == ["first", "second"]


def test_the_order_of_a_run() -> None:
    """The start, before anybody is greeted; the meeting, before the program; what the program says; the end."""
    log: list[Any] = []

    def program(party: Party) -> None:
        party.observer.on_progress("program")
        party.announce(unlisted("rows"), [4])

    run_roles(program, 2, observers=[Observer(), noting(log, "P1"), Observer()])
    assert [name for _, name, *_ in log] == ["on_start", "on_meeting", "on_progress", "on_reveal", "on_end"]
    assert isinstance(log[1][2], Party)
    assert [value.tolist() for _, name, *rest in log if name == "on_reveal" for value in rest[1:]] == [[4]]


@pytest.mark.parametrize("name", ["on_start", "on_meeting", "on_milestone"])
def test_what_an_observer_raises_ends_the_run_everywhere(name: str) -> None:
    """With its reason; the others do not wait in vain."""

    def fail(self: Observer, *arguments: object) -> None:
        raise FederationError("there is no room here")

    def program(party: Party) -> None:
        party.observer.on_milestone({})
        party.barrier("after it")

    failing = type("Failing", (Observer,), {name: fail})()
    outcomes = run_roles(program, 3, observers=[Observer(), Observer(), failing, Observer()])
    assert str(outcomes[2].error) == "there is no room here"
    for role in (0, ACTIVE, 3):
        assert isinstance(outcomes[role].error, PeerFailedError)
        assert "P2 failed: FederationError" in str(outcomes[role].error)
