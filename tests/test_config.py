"""Settings are frozen, and refused before anything runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from mpfedxgb.config import LINKS, Link, Resources, SessionSettings, bytes_of, cores, link_of
from mpfedxgb.errors import SettingsError
from support.refusals import refused


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session", ""),
        ("session", "x" * 201),
        ("attempt", 0),
        ("attempt", -1),
        ("deadline", 0),
        ("deadline", -1.0),
        ("deadline", float("nan")),
        ("deadline", float("inf")),
        ("max_frame_bytes", 1023),
        ("max_queued_bytes", 1023),
        ("insecure_seed", -1),
    ],
)
def test_impossible_values_are_refused_by_name(name: str, value: Any) -> None:
    """The message names the setting and the value, as an error that is also a ValueError."""
    with refused(SettingsError, "range", name) as caught:
        SessionSettings(**{name: value})
    assert isinstance(caught.value, ValueError)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session", "x"),
        ("session", "é" * 200),
        ("attempt", 1),
        ("deadline", 0.001),
        ("max_frame_bytes", 1024),
        ("max_queued_bytes", 1024),
        ("insecure_seed", 0),
        ("insecure_seed", None),
    ],
)
def test_the_edges_are_taken(name: str, value: Any) -> None:
    """The last value that works is not refused."""
    assert getattr(SessionSettings(**{name: value}), name) == value


def test_unknown_settings_are_refused() -> None:
    """A misspelt setting is an error, not a default."""
    with pytest.raises(TypeError, match="dead_line"):
        SessionSettings(dead_line=3.0)  # type: ignore[call-arg]


def test_settings_are_frozen() -> None:
    """They are read once; nobody changes them on the way."""
    settings = SessionSettings()
    for field in dataclasses.fields(settings):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(settings, field.name, getattr(settings, field.name))


def test_a_change_is_checked_again() -> None:
    """A copy with another value passes the same door."""
    assert dataclasses.replace(SessionSettings(), attempt=2).attempt == 2
    with pytest.raises(SettingsError):
        dataclasses.replace(SessionSettings(), attempt=0)


def test_randomness_is_secure_by_default() -> None:
    """Nobody gets a repeatable run without asking for it by its full name."""
    assert SessionSettings().insecure_seed is None


def test_everyone_is_more_patient_than_the_active_participant() -> None:
    """So that the one who is waited for directly is the one who gets named."""
    for deadline in (0.1, 600.0):
        settings = SessionSettings(deadline=deadline)
        assert settings.auxiliary_deadline == pytest.approx(1.5 * deadline)
        assert settings.auxiliary_deadline > settings.deadline
        assert settings.silence > settings.auxiliary_deadline


@pytest.mark.parametrize(
    ("latency", "bandwidth", "name"),
    [(-1, 10, "latency"), (float("nan"), 10, "latency"), (1, 0, "bandwidth"), (1, float("inf"), "bandwidth")],
)
def test_impossible_links_are_refused_by_name(latency: float, bandwidth: float, name: str) -> None:
    """A link takes no time less than none, and carries something."""
    with refused(SettingsError, "range", name):
        Link(latency, bandwidth)


def test_links_have_names_and_numbers() -> None:
    """One machine, a building, organisations apart; or milliseconds one way and megabits a second."""
    assert [link_of(name) for name in ("local", "lan", "wan")] == list(LINKS.values())
    assert link_of("20/100") == LINKS["wan"] == link_of(LINKS["wan"])
    assert LINKS["local"].latency < LINKS["lan"].latency < LINKS["wan"].latency


@pytest.mark.parametrize("value", ["moon", "20", "20/", "a/b", 20, None, "-1/5"])
def test_unknown_links_are_refused(value: Any) -> None:
    """The message says what a link may be, or what is wrong with its numbers."""
    with refused(SettingsError, "value", "link"):
        link_of(value)


@pytest.mark.parametrize(
    ("given", "octets"),
    [
        (None, None),
        (1, 1),
        (6_000_000_000, 6_000_000_000),
        ("6 GB", 6_000_000_000),
        ("1.5gb", 1_500_000_000),
        (" 512 MiB ", 512 << 20),
        ("100 B", 100),
        ("2 TB", 2 * 10**12),
    ],
)
def test_sizes(given: object, octets: int | None) -> None:
    """Bytes, or a text with a unit; powers of ten, and with an i powers of two."""
    assert bytes_of("max_memory", given) == octets


@pytest.mark.parametrize("given", [0, -1, True, 1.5, "", "6", "GB", "0 GB", "-1 GB", "6 GB RAM", "6 XB", "1e3 MB", [6]])
def test_what_is_no_size_is_refused(given: object) -> None:
    """By name and value, with examples."""
    with refused(SettingsError, "value", "max_memory"):
        Resources.read(None, given, None)


@pytest.mark.parametrize(
    ("n_jobs", "threads"), [(None, 1), (1, 1), (3, 3), (-1, cores()), (-cores(), 1), (-cores() - 7, 1)]
)
def test_threads_are_counted_as_in_scikit_learn(n_jobs: int | None, threads: int) -> None:
    """None is one, -1 all cores, -2 all but one, and never less than one."""
    assert Resources.read(n_jobs, None, None).threads == threads
    assert cores() >= 1


@pytest.mark.parametrize("n_jobs", [0, True, 1.5, "2"])
def test_what_is_no_number_of_threads_is_refused(n_jobs: object) -> None:
    """By name and value."""
    with refused(SettingsError, "range", "n_jobs"):
        Resources.read(n_jobs, None, None)


def test_a_spool_is_a_folder_wherever_the_process_goes() -> None:
    """A relative path begins where it was given."""
    assert Resources.read(None, None, "here").spool == Path("here").absolute()
    assert Resources.read(None, None, None).spool is None
    with refused(SettingsError, "type", "spool", 3):
        Resources.read(None, None, 3)
