"""What `make generate` writes is what stands in the files, and each part has one place."""

from __future__ import annotations

import pytest

from mpfedxgb.schema.settings import TABLES
from mpfedxgb.schema.training import ALIASES, BY_NAME, MODES, PARAMETERS, REFUSED
from tools.generate import GENERATED, ROOT, generated


def test_files_are_as_generated() -> None:
    """If not: make generate."""
    stale = [str(path.relative_to(ROOT)) for path, text in generated().items() if path.read_text() != text]
    assert not stale, f"run make generate: {stale}"


def test_a_part_without_a_place_is_refused() -> None:
    """A mark that somebody took away is named, rather than nothing written."""
    with pytest.raises(ValueError, match=f"{GENERATED[0].path} has no place for '{GENERATED[0].name}'"):
        GENERATED[0].put_into("no marks\n")


def test_names_are_declared_once() -> None:
    """No parameter twice, none both taken and refused, and another name means one parameter only."""
    names = [*(p.name for p in PARAMETERS), *(alias for p in PARAMETERS for alias in p.aliases), *REFUSED]
    assert len(set(names)) == len(names)
    assert set(ALIASES.values()) <= set(BY_NAME)
    assert all(rule.mode in MODES for p in PARAMETERS for rule in p.modes)
    for table in TABLES.values():
        keys = [key.name for key in table.keys]
        assert len(set(keys)) == len(keys)
        assert not set(keys) & set(table.refused)


def test_defaults_are_within_bounds() -> None:
    """A default is of its kind; it may also go without saying."""
    assert not [p.name for p in PARAMETERS if p.fault(p.default)]
