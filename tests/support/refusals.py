"""Errors as programs read them: their kind, the word for what is wrong, what it is about, and what was found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from mpfedxgb.errors import Code, MpfedxgbError

Error = TypeVar("Error", bound=MpfedxgbError)

ANY: Any = object()
"""A parameter or value that a test does not look at."""

Expected = tuple[Code, str, object]
"""A code, a parameter and a value: what `refused` looks at, where a test has many."""


@contextmanager
def refused(
    kind: type[Error], code: Code, parameter: str = "", value: object = ANY
) -> Iterator[pytest.ExceptionInfo[Error]]:
    """Expect an error of this kind, with this code, about this parameter and, if given, with this value."""
    with pytest.raises(kind) as caught:
        yield caught
    error = caught.value
    assert error.code == code, error
    assert parameter is ANY or error.parameter == parameter, error
    assert value is ANY or error.value == value, error
