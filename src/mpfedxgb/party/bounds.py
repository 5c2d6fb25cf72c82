"""How large the sizes may be that roles tell each other: looked at before anybody takes memory for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import DoesNotFitError, FrameError
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.transport.frame import check_form

MOST_ROWS = 1 << 26
"""Of a table, and of a batch to score."""
MOST_COLUMNS = 1 << 22
"""Candidate columns, and features, of one participant."""
MOST_TREES = 1 << 24
MOST_CLASSES = 10_000
MOST_LEAVES = 1 << 24
"""Of all trees that rows are scored with."""

Bound = tuple[str, int, int]
"""What is counted, its least and its largest number."""


def check_told(party: Party, name: str, told: npt.NDArray[np.int64], *bounds: Bound) -> None:
    """Raise FrameError unless every participant told one number for each bound, within it; it names who told what."""
    check_form(party.roster.name(ACTIVE), name, [told], (np.int64, (party.roster.size, len(bounds))))
    for m, numbers in enumerate(told.tolist(), ACTIVE):
        check_numbers(party, m, numbers, *bounds)


def check_numbers(party: Party, sender: int, numbers: Sequence[int], *bounds: Bound) -> None:
    """Raise FrameError unless a participant's numbers are within bounds; DoesNotFitError if they are one's own."""
    for number, (what, least, most) in zip(numbers, bounds, strict=True):
        if not least <= number <= most:
            text = f"{party.roster.name(sender)} told of {number} {what}; from {least} to {most} are possible"
            raise DoesNotFitError(text) if sender == party.role else FrameError(text)


def check_flag(party: Party, name: str, flag: int) -> None:
    """Raise FrameError unless what the active participant broadcast as yes or no is 1 or 0."""
    if flag not in (0, 1):
        raise FrameError(f"malformed {name} from {party.roster.name(ACTIVE)}: got {flag}, expected 0 or 1")
