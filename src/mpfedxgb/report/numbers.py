"""Numbers as people read them: sizes, times, counts, thresholds; and names that fit."""

from __future__ import annotations

_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def count(value: float) -> str:
    """Return a whole number with its thousands apart."""
    return f"{round(value):,}"


def counted(value: int, one: str, many: str = "") -> str:
    """Return a number with its noun, as in 1 tree, 2 trees."""
    return f"{count(value)} {one if value == 1 else many or f'{one}s'}"


def size(value: float) -> str:
    """Return a number of bytes."""
    for unit, name in _UNITS:
        if value >= unit:
            return f"{value / unit:,.{1 if value < 100 * unit else 0}f} {name}"
    return f"{round(value)} bytes"


def duration(seconds: float) -> str:
    """Return a time; from a minute on in two units."""
    if seconds < 60:
        return f"{seconds:.{3 if seconds < 0.1 else 2 if seconds < 10 else 1}f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min"


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
