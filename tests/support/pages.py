"""HTML read again by Python's own parser: the elements of a page, its text, and whether it is well formed."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

EMPTY = {"meta", "link", "br", "rect", "path", "circle", "line"}


@dataclass
class Element:
    """One element, with the text right inside it."""

    name: str
    attributes: dict[str, str | None]
    text: str = ""
    inside: list[Element] = field(default_factory=list)

    @property
    def classes(self) -> set[str]:
        """Its classes."""
        return set((self.attributes.get("class") or "").split())

    def all(self, name: str) -> list[Element]:
        """Return the elements of a name inside this one, in their order."""
        found = []
        for one in self.inside:
            found += [one] if one.name == name else []
            found += one.all(name)
        return found

    def every(self) -> list[Element]:
        """Return all elements inside this one."""
        return [one for child in self.inside for one in (child, *child.every())]

    def words(self) -> str:
        """Return all text inside, titles of drawings too, with its white space as a browser shows it."""
        return " ".join(" ".join([self.text, *(one.words() for one in self.inside)]).split())


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"an attribute of {tag} comes twice"
        made = Element(tag, dict(attrs))
        self.open[-1].inside.append(made)
        if tag not in EMPTY:
            self.open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].inside.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().name == tag, f"</{tag}> ends another element"

    def handle_data(self, data: str) -> None:
        self.open[-1].text += data


def parse(html: str) -> Element:
    """Return a page; fails where an element is not closed, or closed twice."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    (whole,) = reader.open
    return whole
