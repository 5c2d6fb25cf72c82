"""Numbers for people: bytes and seconds in units that fit, counts with their nouns, thresholds; and names that fit."""

from __future__ import annotations


def bytes_text(count: float) -> str:
    """Return a number of bytes in the largest unit of which there is one, such as "1.23 MB"."""
    for unit, power in (("GB", 9), ("MB", 6), ("kB", 3)):
        if count >= 10**power:
            return f"{count / 10**power:.2f} {unit}"
    return f"{count:.0f} B"


def duration_text(seconds: float) -> str:
    """Return a duration, such as "4.89 s"; from a minute on in two units, such as "1 min 1 s"."""
    if seconds < 60:
        return f"{seconds:.{3 if seconds < 0.1 else 2 if seconds < 10 else 1}f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min"


def count(value: float) -> str:
    """Return a whole number with its thousands apart."""
    return f"{round(value):,}"


def counted(value: int, one: str, many: str = "", none: str = "0") -> str:
    """Return a number with its noun, such as "1 tree" or "2 trees"; `none` stands for 0."""
    return f"{count(value) if value else none} {one if value == 1 else many or f'{one}s'}"


def short(value: float) -> str:
    """Return a number in about four digits, as in a drawing; a minus is as wide as a plus."""
    written = f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
    return written.replace("-", "\N{MINUS SIGN}")


def signed(value: float) -> str:
    """Return a number with its sign in at most seven characters, three digits where they have room."""
    amount = abs(value)
    form = "+.0e" if amount >= 1e5 else "+.0f" if amount >= 1e3 else "+.3g" if amount >= 0.1 else "+.2g"
    written = f"{value:{'+.0e' if 0 < amount < 1e-3 else form}}"
    return written.replace("-", "\N{MINUS SIGN}")


def shortened(name: str, most: int) -> str:
    """Return a name that has room: where it is too long, its middle is left out, since ends tell columns apart."""
    if len(name) <= most:
        return name
    tail = (most - 1) // 2
    return f"{name[: most - 1 - tail]}\N{HORIZONTAL ELLIPSIS}{name[len(name) - tail :]}"
