"""Roles, names and connections."""

from __future__ import annotations

import pytest

from mpfedxgb.errors import SettingsError
from mpfedxgb.party import ACTIVE, COORDINATOR, Roster
from support.refusals import refused


def test_numbered() -> None:
    """P1..PM, the active one first, the coordinator apart."""
    roster = Roster.numbered(3)
    assert roster.size == 3
    assert [roster.name(role) for role in roster.roles] == ["coordinator", "P1", "P2", "P3"]
    assert (COORDINATOR, ACTIVE, list(roster.auxiliaries)) == (0, 1, [2, 3])
    assert roster == Roster(("P1", "P2", "P3"))


def test_own_names() -> None:
    """Names are the organisations' own, in any script."""
    roster = Roster(("Bank", "Versicherung Nürnberg", "通信"), coordinator="Notar")
    assert [roster.name(role) for role in roster.roles] == ["Notar", "Bank", "Versicherung Nürnberg", "通信"]


@pytest.mark.parametrize("count", [0, 1, 256])
def test_a_federation_has_2_to_255_participants(count: int) -> None:
    """With one there is nobody to keep secrets from; an owner is one byte of a tag."""
    with refused(SettingsError, "range", "participants", count):
        Roster.numbered(count)


@pytest.mark.parametrize("count", [2, 255])
def test_the_smallest_and_the_largest_federation(count: int) -> None:
    """Both ends of the range are in it."""
    assert Roster.numbered(count).size == count


@pytest.mark.parametrize("name", ["", "x" * 101, "two\nlines", "nul\0", "\ud800"])
def test_names_that_cannot_be_shown_are_refused(name: str) -> None:
    """A name appears in errors and reports; participants' and coordinator's alike."""
    with refused(SettingsError, "value", "name"):
        Roster(("P1", name))
    with refused(SettingsError, "value", "name"):
        Roster(("P1", "P2"), coordinator=name)


@pytest.mark.parametrize("names", [("A", "B", "A"), ("A", "coordinator")])
def test_two_roles_with_one_name_are_refused(names: tuple[str, ...]) -> None:
    """Errors name roles, so names are unique, the coordinator's included."""
    with refused(SettingsError, "duplicate", "name"):
        Roster(names)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_the_star(count: int) -> None:
    """Everybody is connected to the coordinator and to the active participant, auxiliaries not to each other."""
    roster = Roster.numbered(count)
    links = list(roster.links())
    assert len(links) == len(set(links)) == 1 + 2 * (count - 1)
    assert all(a < b for a, b in links)
    for role in roster.roles:
        assert sorted(roster.neighbours(role)) == sorted({a + b - role for a, b in links if role in (a, b)})
    for m in roster.auxiliaries:
        assert sorted(roster.neighbours(m)) == [COORDINATOR, ACTIVE]


def test_a_roster_is_frozen() -> None:
    """Nobody joins later."""
    with pytest.raises(AttributeError):
        Roster.numbered(2).coordinator = "other"  # type: ignore[misc]
