"""HTML that escapes by construction: whatever is not `Markup` is text, and text never becomes a tag.

Names of columns, categories, classes and roles are written by people, perhaps by other people than those who read the
page. So there is one way to make a tag, `element`, and everything that it is given is escaped unless it made it itself.
"""

from __future__ import annotations

from collections.abc import Iterable
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
