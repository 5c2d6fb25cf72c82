"""The page in a real browser: no complaint, no request, every figure drawn, at all widths and in both schemes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mpfedxgb.report.html import page_html
from support.chromium import Page, browser, find_chromium
from support.reports import HOSTILE, facts, model

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="no Chromium is installed on this machine")

DRAWN = """[...document.querySelectorAll("svg")].map(svg => {
  const fold = svg.closest("details");
  if (fold) fold.open = true;
  const seen = svg.getBoundingClientRect();
  const shapes = [...svg.querySelectorAll("rect, circle, path, line")];
  const inked = shapes.filter(s => { const c = getComputedStyle(s); return c.fill !== "none" || c.stroke !== "none"; });
  const texts = [...svg.querySelectorAll("text")].filter(t => t.getBBox().width > 0);
  return [seen.width > 5 && seen.height > 5, shapes.length > 0 && shapes.length === inked.length,
          texts.length === svg.querySelectorAll("text").length];
})"""
CONTRAST = """(() => {
  const parse = (c) => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (c) => { const [r, g, b] = parse(c).map(v => v / 255).map(v =>
    v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const against = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const words = [...document.querySelectorAll("p:not(.warning), h1, h2, th, td, dt, dd, li, a")];
  return Math.min(...words.map(w => against(light(getComputedStyle(w).color), paper)));
})()"""
FITS = """[...document.querySelectorAll(".tree g")].every(g => { const r = g.querySelector("rect");
  return !r || [...g.querySelectorAll("text")].every(t => t.getBBox().width <= r.getBBox().width); })"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Return a tab of a browser."""
    with browser(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


def written(folder: Path, html: str) -> str:
    """Return the address of a page, written to a file."""
    path = folder / "report.html"
    path.write_text(html, encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_it_is_drawn(page: Page, tmp_path: Path, width: int, scheme: str) -> None:
    """Every figure, with all its shapes and words; nothing is asked for, nothing complained of, nothing sticks out."""
    address = written(tmp_path, page_html(facts(model(6))))
    page.open(address, width, scheme=scheme)
    drawn = page.ask(DRAWN)
    assert len(drawn) > 10
    assert [one for one in drawn if one != [True, True, True]] == []
    assert page.ask("document.documentElement.scrollWidth") <= width
    assert page.ask(CONTRAST) >= 4.5
    assert page.ask(FITS)
    assert page.complaints == []
    assert page.requests == [address]


def test_the_schemes_differ(page: Page, tmp_path: Path) -> None:
    """Dark paper where somebody prefers it."""
    address = written(tmp_path, page_html(facts()))
    seen = []
    for scheme in ("light", "dark"):
        page.open(address, scheme=scheme)
        seen.append(page.ask("getComputedStyle(document.body).backgroundColor"))
    assert seen[0] != seen[1]


def test_hostile_names_run_nothing(page: Page, tmp_path: Path) -> None:
    """No dialogue, no element, no request: the names are there as text."""
    told = facts(model(feature=HOSTILE, participants=(HOSTILE, "telecom")), federation=HOSTILE)
    address = written(tmp_path, page_html(told))
    page.open(address)
    assert page.ask("document.querySelectorAll('script, img').length") == 0
    assert page.ask("document.querySelector('h1').textContent") == HOSTILE
    assert page.complaints == []
    assert page.requests == [address]


def test_the_policy_is_in_force(page: Page, tmp_path: Path) -> None:
    """Were there a defect: a script that got into the page does not run, and the browser says why."""
    html = page_html(facts()).replace("</main>", "<script>document.title = 'ran'</script></main>")
    page.open(written(tmp_path, html))
    assert page.ask("document.title") == "bank \u2013 mpfedxgb report"
    assert any("Content Security Policy" in told for told in page.complaints)


def test_it_prints(page: Page, tmp_path: Path) -> None:
    """As a document of a few pages."""
    page.open(written(tmp_path, page_html(facts())))
    page.print(tmp_path / "report.pdf")
    content = (tmp_path / "report.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    assert 1 <= content.count(b"/Type /Page\n") <= 8
