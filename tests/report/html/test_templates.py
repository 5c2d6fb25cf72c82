"""Whatever a text holds, it stays text; and no template leaves anything out in silence."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

import mpfedxgb.report.html
from mpfedxgb.errors import printable
from mpfedxgb.report.html.page import environment, page_html, summary_html
from support.pages import parse
from support.reports import HOSTILE, facts, model

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.just(HOSTILE)
FOLDER = Path(mpfedxgb.report.html.__file__).parent


@given(TEXTS)
def test_text_is_never_markup(text: str) -> None:
    """Inside an element and inside an attribute it is what it was, but for what cannot be printed."""
    (made,) = parse(environment().from_string('<p title="{{ x }}">{{ x }}</p>').render(x=text)).inside
    assert (made.name, made.inside, list(made.attributes)) == ("p", [], ["title"])
    assert made.text == printable(text)
    assert made.attributes["title"] == printable(text)


@pytest.mark.parametrize("name", ["{{ 7 * 7 }}", "{% include 'x' %}", "{# no #}", "a<b>&\"'", "{{ data.role }}"])
def test_names_are_no_templates(name: str) -> None:
    """Names of columns and roles that look like a template's commands are shown as they are."""
    data = facts(model(feature=name, participants=(name, "telecom")))
    page = parse(page_html(data))
    assert page.all("h1")[0].text == name
    assert f"{name} \u2264 40.5" in page.words()
    assert name in parse(summary_html(data)).words()


def test_the_direction_of_reading_stays() -> None:
    """A name cannot turn the words around it."""
    html = page_html(facts(model(participants=("bank\u202egro.elpmaxe", "telecom"))))
    assert "\u202e" not in html
    assert "bank\ufffdgro.elpmaxe" in html


def test_what_is_missing_is_an_error() -> None:
    """Printed, asked about or gone through."""
    for template in ("{{ missing }}", "{% if missing %}{% endif %}", "{% for x in missing %}{% endfor %}"):
        with pytest.raises(UndefinedError, match="'missing' is undefined"):
            environment().from_string(template).render()


def texts_of(path: Path) -> Iterator[str]:
    """Yield every text in a module's code."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_markup_is_in_templates_alone() -> None:
    """No Python of the report has a tag in a text; only our style sheets and script are put in as they are."""
    modules = sorted(FOLDER.glob("*.py"))
    assert modules
    assert [text for path in modules for text in texts_of(path) if "</" in text or "/>" in text] == []
    templates = "".join(path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("templates/*.html")))
    assert templates.count("safe") == templates.count('{{ asset("') == 4
