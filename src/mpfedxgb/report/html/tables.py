"""Tables: the first column names, numbers stand under each other, and a narrow screen scrolls the table alone."""

from __future__ import annotations

from collections.abc import Sequence

from mpfedxgb.report.html.markup import Content, Markup, element


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
