"""How many rows a day an auxiliary participant answers for: over restarts, days and clocks, and what doctor says."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpfedxgb.errors import CheckpointError, RefusedError, public_reason
from mpfedxgb.federation.quota import RowsPerDay
from support.refusals import refused

FILE = "rows-asked.json"


class Calendar:
    """A day that can be changed."""

    def __init__(self, day: str = "2026-11-16") -> None:
        self.day = day

    def __call__(self) -> str:
        """Return today."""
        return self.day


def test_rows_add_up_over_restarts(tmp_path: Path) -> None:
    """What was asked for counts, whoever asked; what is refused does not, and less may still be asked for."""
    today = Calendar()
    RowsPerDay(tmp_path, 10, today).take("telecom", 7)
    quota = RowsPerDay(tmp_path, 10, today)
    assert quota.asked() == 7
    with refused(RefusedError, "range", "max_rows_per_day", 4) as e:
        quota.take("telecom", 4)
    assert public_reason(e.value) == str(e.value)
    quota.take("telecom", 3)
    with refused(RefusedError, "range", "max_rows_per_day", 1):
        RowsPerDay(tmp_path, 10, today).take("telecom", 1)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_days(tmp_path: Path) -> None:
    """A new day begins at nothing; a clock that is set back begins none."""
    today = Calendar("2026-12-31")
    quota = RowsPerDay(tmp_path, 10, today)
    quota.take("telecom", 10)
    today.day = "2027-01-01"
    assert quota.asked() == 0
    quota.take("telecom", 9)
    today.day = "2026-12-31"
    assert quota.asked() == 9
    with pytest.raises(RefusedError):
        quota.take("telecom", 2)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b'{"day": "2026-11-16", "rows": -5}', b'{"day": "today", "rows": 1}', b'{"day": 3, "rows": 1}'],
)
def test_a_damaged_count(tmp_path: Path, content: bytes) -> None:
    """Is no new day."""
    (tmp_path / FILE).write_bytes(content)
    with refused(CheckpointError, "damaged", "rows-asked.json"):
        RowsPerDay(tmp_path, 10).take("telecom", 1)


def test_a_count_that_cannot_be_kept(tmp_path: Path) -> None:
    """Nothing is answered without it."""
    with refused(CheckpointError, "file", "rows-asked.json"):
        RowsPerDay(tmp_path / "nowhere", 10).take("telecom", 1)
