"""HTML that escapes by construction: whatever is not `Markup` is text, and text never becomes a tag.

Names of columns, categories, classes and roles are written by people, perhaps by other people than those who read the
page. So there is one way to make a tag, `element`, and everything that it is given is escaped unless it made it itself.

Numbers as people read them: sizes, times, counts, thresholds.

Tables: the first column names, numbers stand under each other, and a narrow screen scrolls the table alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import TypeAlias

from mpfedxgb.errors import printable

_EMPTY = frozenset({"meta", "link", "br", "rect", "path", "circle", "line"})
"""Elements without content; those of SVG are written as such, which an HTML parser understands too."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content: TypeAlias = "str | float | Markup | Iterable[Content] | None"
"""What may stand inside an element; numbers stand as Python writes them, None and empty lists are nothing."""


def text(value: str | float) -> Markup:
    """Return plain text as HTML: nothing in it is markup, and nothing turns the direction of reading."""
    return value if isinstance(value, Markup) else Markup(escape(printable(str(value))))


def join(parts: Content, between: str = "") -> Markup:
    """Return everything in some content, one after the other."""
    return Markup(between.join(_flat(parts)))


def element(name: str, /, *children: Content, **attributes: str | float | bool | None) -> Markup:
    """Return an element.

    `class_` stands for class, and other underscores for hyphens. An attribute that is None or False is left out, one
    that is True has no value.
    """
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        written = key.rstrip("_").replace("_", "-")
        words.append(written if value is True else f'{written}="{text(value)}"')
    opened = " ".join(words)
    if name in _EMPTY:
        return Markup(f"<{opened}/>")
    return Markup(f"<{opened}>{join(children)}</{name}>")


def _flat(content: Content) -> Iterable[str]:
    if content is None:
        return
    if isinstance(content, (str, int, float)):
        yield text(content)
        return
    for part in content:
        yield from _flat(part)


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


def share(part: float, whole: float) -> str:
    """Return a part of a whole as a percentage."""
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Return round numbers between two, some `about` many: steps of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [step * k for k in range(first, math.floor(high / step + 1e-9) + 1)]


def shortened(name: str, most: int) -> str:
    """Return a name that has room: where it is too long, its middle is left out, since ends tell columns apart."""
    if len(name) <= most:
        return name
    tail = (most - 1) // 2
    return f"{name[: most - 1 - tail]}\N{HORIZONTAL ELLIPSIS}{name[len(name) - tail :]}"


def table(head: Sequence[str], rows: Sequence[Sequence[Content]], words: Sequence[int] = ()) -> Markup:
    """Return a table; all columns but the first and those listed in `words` hold numbers."""

    def kind(column: int) -> str | None:
        return None if column == 0 or column in words else "n"

    top = [element("th", name, class_=kind(i), scope="col") for i, name in enumerate(head)]
    body = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            [element("td", cell, class_=kind(i)) for i, cell in enumerate(row[1:], start=1)],
        )
        for row in rows
    ]
    inner = element("table", element("thead", element("tr", top)), element("tbody", body))
    return element("div", inner, class_="scroll", tabindex="0")


def pairs(rows: Sequence[tuple[Content, Content]]) -> Markup:
    """Return names with their values, as a list of definitions."""
    return element("dl", [element("div", element("dt", n), element("dd", v)) for n, v in rows], class_="pairs")
