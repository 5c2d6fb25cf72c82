"""Memory that is used again is nobody else's."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.ring.scratch import LARGE, Scratch

SIZE = LARGE // 8


def address(array: npt.NDArray[Any]) -> int:
    """Return where an array lies."""
    return int(array.__array_interface__["data"][0])


def test_memory_is_taken_over_when_no_view_is_left() -> None:
    """As long as anybody holds an array, or a view of a view of it, the next one lies elsewhere."""
    scratch = Scratch()
    first = scratch.empty((4, SIZE), np.uint64)
    where, view = address(first), first[1:][::2]
    first[:] = 7
    del first
    gc.collect()

    second = scratch.empty((4, SIZE), np.uint64)
    second[:] = 8
    assert address(second) != where
    assert (view == 7).all()

    del view
    assert address(scratch.empty((2, SIZE), np.uint32)) == where


def test_what_is_too_small_is_not_kept() -> None:
    """A larger array takes the place of those that are left; a smaller one fits into what is left of a larger."""
    scratch = Scratch()
    scratch.empty((2, SIZE), np.uint64)
    assert repr(scratch) == "Scratch(1 left)"
    large = scratch.empty((3, SIZE), np.uint64)
    assert repr(scratch) == "Scratch(0 left)"
    where = address(large)
    del large
    assert address(scratch.empty((SIZE,), np.uint64)) == where


def test_what_is_given_back_after_the_end_is_not_kept() -> None:
    """Arrays outlive the training that made them; their memory does not."""
    scratch = Scratch()
    array = scratch.empty((SIZE,), np.uint64)
    scratch.close()
    array[:] = 1
    del array
    assert repr(scratch) == "Scratch(0 left)"


def test_small_arrays_are_ordinary_ones() -> None:
    """What the C library keeps by itself is left to it, of any shape."""
    scratch = Scratch()
    assert scratch.empty((0, 5), np.uint8).shape == (0, 5)
    assert scratch.empty((), np.uint64).shape == ()
    assert repr(scratch) == "Scratch(0 left)"
