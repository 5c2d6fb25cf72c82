"""What several tests of roles as processes begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nursery import Nursery
from support.role_processes import make_nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Return something that starts processes quickly, once for all modules: it loads the whole package."""
    with make_nursery() as made:
        yield made
