"""The words of the field, not a dialect: some wordings that strangers had to decode do not come back."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

PHRASES = {
    "so many": "n, `count`, or the parameter's name",
    "one's own": "custom; its own",
    "in the plain": "in the clear",
    "in the open": "in the clear, or mode none",
    "whoever": "the party, the caller, anyone who",
    "foretold": "predicted",
    "join hands": "collude",
    "in another form": "malformed: got ..., expected ...",
}
"""What is not written, and what is."""

NAMES = {"told", "foretold", "_look_away", "_go_on", "_keep_nothing", "follows_shapes", "key_of_choices", "belongs_to"}
"""Names that said nothing about what they name."""

TEXTS = sorted(
    path
    for pattern in ("src/**/*.py", "src/**/*.html", "README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md")
    for path in ROOT.glob(pattern)
)


def phrases_in(text: str) -> set[str]:
    """Return the phrases of the list that a text has, also across a line break."""
    text = " ".join(text.lower().split())
    return {phrase for phrase in PHRASES if re.search(rf"\b{re.escape(phrase)}\b", text)}


def names_in(source: str) -> set[str]:
    """Return the names of the list that a program has; comments and texts are no names."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return NAMES & {token.string for token in tokens if token.type == tokenize.NAME}


def test_they_are_found() -> None:
    """The search itself finds them, in any case, and leaves parts of words alone."""
    assert phrases_in("Whoever waits so\n    many times") == {"whoever", "so many"}
    assert not phrases_in("also manyfold")
    assert names_in("told = 1  # _go_on\n'follows_shapes'\n") == {"told"}


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_words_that_search_would_find(path: Path) -> None:
    """No wording of the lists; the message says what to write."""
    text = path.read_text(encoding="utf-8")
    assert {phrase: PHRASES[phrase] for phrase in phrases_in(text)} == {}
    if path.suffix == ".py":
        assert names_in(text) == set()
