"""The documentation site: its navigation has every page, its notebooks ran, and it builds where its tools are."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from patience import patience
from support.chromium import browser, find_chromium

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NOTEBOOKS = sorted((DOCS / "tutorials").glob("*.ipynb"))
BESIDE = {"index.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "adr/README.md"}
"""Pages that the site's hook adds."""


def navigation() -> list[str]:
    """Return the pages that mkdocs.yml lists."""

    def pages(item: Any) -> list[str]:
        if isinstance(item, str):
            return [item]
        below = item if isinstance(item, list) else item.values()
        return [page for part in below for page in pages(part)]

    return pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])


def test_the_navigation_has_every_page_once() -> None:
    """Decisions and results have an index of their own; everything else is a click away."""
    listed = navigation()
    assert len(listed) == len(set(listed))
    there = {str(path.relative_to(DOCS)) for path in [*DOCS.rglob("*.md"), *NOTEBOOKS]}
    there = {page for page in there if not page.startswith(("adr/", "results/")) or page == "results/README.md"}
    assert set(listed) == there | BESIDE


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_ran_from_top_to_bottom(path: Path) -> None:
    """Every cell was run, in order and without an error, and names no machine."""
    notebook = json.loads(path.read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs
    assert [output for output in outputs if output["output_type"] == "error"] == []
    assert re.findall(r"/(?:home|root|work|Users|tmp)/", path.read_text()) == []
    for cell in cells:
        ast.parse("".join(cell["source"]))


@pytest.mark.parametrize("path", [p for p in NOTEBOOKS if p.stem != "a-million-rows"], ids=lambda path: path.stem)
def test_notebooks_run(path: Path, tmp_path: Path) -> None:
    """Their cells run as one program; the one with a million rows runs with `make notebooks`."""
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    program = tmp_path / "notebook.py"
    program.write_text("import matplotlib\n\nmatplotlib.use('agg')\n" + "\n".join("".join(c["source"]) for c in cells))
    command = [sys.executable, str(program)]
    ran = subprocess.run(command, cwd=DOCS / "tutorials", capture_output=True, text=True, timeout=patience(240))  # noqa: S603 # ours
    assert ran.returncode == 0, ran.stderr


has_tools = pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="make docs runs it, with its tools")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, built strictly: a warning is a failure."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=patience(240))  # noqa: S603 # our own command
    assert ran.returncode == 0, ran.stderr
    return folder


@has_tools
def test_it_has_every_page_and_loads_nothing_from_elsewhere(site: Path) -> None:
    """No page has a script, a style, a font or a picture of another host."""
    pages = [page.read_text() for page in site.rglob("*.html")]
    assert len(pages) >= len(navigation())
    loaded = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//|<link\b[^>]*stylesheet[^>]*//")
    assert [found for page in pages for found in loaded.findall(page)] == []


@has_tools
@pytest.mark.skipif(find_chromium() is None, reason="no Chromium is installed on this machine")
@pytest.mark.parametrize("width", [390, 1200])
def test_a_browser_is_content_with_it(site: Path, tmp_path: Path, width: int) -> None:
    """At the widths of a phone and a desk: no complaint, no request to a host, drawings drawn, nothing sticks out."""
    with browser(tmp_path) as page:
        for name in ("index", "how-it-works", "api", "faq", "tutorials/credit-scoring"):
            page.open((site / f"{name}.html").as_uri(), width)
            assert page.ask("[...document.images].every(image => image.complete && image.naturalWidth > 5)"), name
            assert page.ask("document.documentElement.scrollWidth") <= width, name
            assert page.complaints == [], name
            assert [url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))] == [], name
