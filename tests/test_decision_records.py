"""Decision records have one format, so that a reader finds the decision where it was the last time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

RECORDS = sorted((Path(__file__).parents[1] / "docs" / "adr").glob("*.md"))


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_one_format(record: Path) -> None:
    """The number of the file and a title, the status, then context, decision and consequences, nothing else."""
    text = record.read_text(encoding="utf-8")

    assert re.match(rf"# {record.name[:4]}: \S.*\n\nStatus: (accepted|replaced by \d{{4}})\n\n", text)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]


def test_numbers_without_gaps() -> None:
    """Records are numbered from 0001 on."""
    assert [path.name[:4] for path in RECORDS] == [f"{i:04}" for i in range(1, len(RECORDS) + 1)]
