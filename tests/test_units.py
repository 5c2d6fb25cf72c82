"""Numbers for people say what they count, in units that fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.units import bytes_text, count, counted, duration_text, short, shortened, signed


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (47_690_000, "47.69 MB"), (3.2e11, "320.00 GB")],
)
def test_bytes(count: float, text: str) -> None:
    """The largest unit of which there is one."""
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.0123, "0.012 s"), (4.888, "4.89 s"), (59.94, "59.9 s"), (61, "1 min 1 s"), (7_262, "2 h 1 min")],
)
def test_durations(value: float, written: str) -> None:
    """From a minute on in two units."""
    assert duration_text(value) == written


def test_other_numbers() -> None:
    """Thousands apart, a noun in its number, about four digits, always a sign."""
    assert (count(1668), counted(1, "tree"), counted(2, "leaf", "leaves")) == ("1,668", "1 tree", "2 leaves")
    assert (counted(0, "tree"), counted(0, "problem", none="no")) == ("0 trees", "no problems")
    assert (short(43_690.4), short(-2e9)) == ("43,690", "\u22122e+09")
    assert (short(0.123456), short(-5.0), signed(0.5), signed(-0.25)) == ("0.1235", "\u22125", "+0.5", "\u22120.25")


@given(st.floats(-1e99, 1e99))
def test_weights_have_room_and_a_sign(value: float) -> None:
    """Whatever the weight of a leaf is, its box holds it, and it is right to a digit."""
    written = signed(value)
    assert len(written) <= 7
    assert written[0] in "+\u2212"
    assert float(written.replace("\u2212", "-")) == pytest.approx(value, rel=0.5)


@given(st.text(max_size=60), st.integers(3, 30))
def test_names_have_room(name: str, most: int) -> None:
    """Never longer than they may be, and both ends stay."""
    made = shortened(name, most)
    assert len(made) <= most
    assert made == name or (name.startswith(made[0]) and name.endswith(made[-1]))
