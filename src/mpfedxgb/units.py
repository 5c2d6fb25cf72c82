"""Numbers for people: bytes and seconds in units that fit, and counts with their nouns."""

from __future__ import annotations


def bytes_text(count: float) -> str:
    """Return a number of bytes in the largest unit of which there is one, such as "1.23 MB"."""
    for unit, power in (("GB", 9), ("MB", 6), ("kB", 3)):
        if count >= 10**power:
            return f"{count / 10**power:.2f} {unit}"
    return f"{count:.0f} B"


def duration_text(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours, such as "3 minutes"."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def counted(count: int, noun: str, none: str = "0") -> str:
    """Return a count with its noun, such as "1 warning" or "3 warnings"; `none` stands for 0."""
    return f"{count or none} {noun}{'' if count == 1 else 's'}"
