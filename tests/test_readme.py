"""What the documents promise can be done: their examples run, their targets and links exist."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
_EXAMPLE = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\s*^```text\n(?P<output>.*?)^```$)?", re.DOTALL | re.MULTILINE
)
_CONSOLE = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)


def named(path: Path) -> str:
    """Return a document's path as a test's name."""
    return str(path.relative_to(ROOT))


def with_examples() -> list[Path]:
    """Return the documents that have Python examples."""
    return [path for path in DOCUMENTS if _EXAMPLE.search(path.read_text())]


def make_targets() -> set[str]:
    """Return the targets of the Makefile."""
    return set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_readme_has_an_example() -> None:
    """A README whose example has gone would pass every other test here."""
    assert ROOT / "README.md" in with_examples()


@pytest.mark.parametrize("document", with_examples(), ids=named)
def test_examples_run_and_print_what_is_shown(document: Path) -> None:
    """Every Python block runs; where a text block follows, it is exactly what the example prints."""
    for example in _EXAMPLE.finditer(document.read_text()):
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(example["code"], str(document), "exec"), {"__name__": "example"})  # noqa: S102 # our own words
        if example["output"] is not None:
            assert out.getvalue() == example["output"]


def test_make_targets_that_documents_name_exist() -> None:
    """`make x` in a document is something that make can do."""
    for document in DOCUMENTS:
        text = document.read_text()
        commands = "".join(_CONSOLE.findall(text))
        targets = re.findall(r"^make ([\w-]+)", commands, re.MULTILINE) + re.findall(r"`make ([\w-]+)", text)
        assert set(targets) <= make_targets(), named(document)


def test_the_readme_names_the_two_commands() -> None:
    """A newcomer finds `make test` and `make check`."""
    text = (ROOT / "README.md").read_text()
    assert "make test" in text
    assert "make check" in text


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_lead_somewhere(document: Path) -> None:
    """Every link to a file of this repository has a file behind it."""
    prose = _BLOCK.sub("", document.read_text())
    for target in _LINK.findall(prose):
        if not target.startswith(("http://", "https://", "#")):
            assert (document.parent / target.split("#")[0]).exists(), target


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    headings = _HEADING.findall(_BLOCK.sub("", path.read_text()))
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_into_a_page_name_a_heading_of_it(document: Path) -> None:
    """A heading that was renamed leaves no link behind."""
    for target in _LINK.findall(_BLOCK.sub("", document.read_text())):
        file, _, anchor = target.partition("#")
        if anchor and "://" not in target:
            assert anchor in anchors(document.parent / file if file else document), target


def test_the_first_screen_says_who_must_be_trusted() -> None:
    """Before the first command: semi-honest roles, an independent coordinator, leaf membership, no audit."""
    first = (ROOT / "README.md").read_text().partition("```console")[0]
    for word in ("semi-honest", "collude", "share a", "Not audited", "drawings/roles.svg"):
        assert word in first, word
