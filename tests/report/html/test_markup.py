"""Whatever a text holds, it stays text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.errors import printable
from mpfedxgb.report.html.markup import Markup, element, join
from support.pages import parse
from support.reports import HOSTILE

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.just(HOSTILE)


@given(TEXTS)
def test_text_is_never_markup(text: str) -> None:
    """Inside an element and inside an attribute it is what it was, but for what cannot be printed."""
    (made,) = parse(element("p", text, title=text)).inside
    assert (made.name, made.inside, list(made.attributes)) == ("p", [], ["title"])
    assert made.text == printable(text)
    assert made.attributes["title"] == printable(text)


def test_elements_are_taken_as_they_are() -> None:
    """Numbers, lists and elements stand side by side; None and empty lists are nothing."""
    made = element("p", "a<b ", [1, [2.5, None], ()], element("b", "c"))
    assert made == "<p>a&lt;b 12.5<b>c</b></p>"


def test_attributes() -> None:
    """Underscores become hyphens, None and False are left out, True has no value, empty elements close themselves."""
    assert element("line", class_="a b", aria_hidden="true", x1=0, y1=None, z=False, w=True) == (
        '<line class="a b" aria-hidden="true" x1="0" w/>'
    )


def test_the_direction_of_reading_stays() -> None:
    """A name cannot turn the words around it."""
    assert "\u202e" not in element("p", "bank\u202egro.elpmaxe")


def test_join_escapes_too() -> None:
    """Lines of a log are text."""
    assert join(["<b>", Markup("<i>"), "&"], "\n") == "&lt;b&gt;\n<i>\n&amp;"
