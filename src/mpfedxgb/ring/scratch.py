"""Memory for large arrays that is used again: clearing new pages takes the system longer than filling them takes us."""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

_Memory = npt.NDArray[np.uint8]

LARGE = 1 << 20
"""Bytes of an array from which on its memory is kept; the C library keeps what is smaller."""


class Scratch:
    """Arrays whose memory a later one takes over when nobody holds them, nor a view of them, any more.

    Meant for arrays that are as large again after some steps. Levels of a tree, which hold on to the level before them,
    take turns at two of these.
    """

    def __init__(self) -> None:
        self._left: dict[int, _Memory] = {}
        self._closed = False

    def __repr__(self) -> str:
        return f"Scratch({len(self._left)} left)"

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array that nobody else holds; it contains anything."""
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        if size < LARGE:
            return np.empty(shape, kind)
        memory = self._taken(size)
        # Its base is no array, so that every view of it holds on to this very one, not to the memory alone.
        whole = np.frombuffer(memory.data, np.uint8)
        weakref.finalize(whole, self._give_back, memory).atexit = False
        return whole[:size].view(kind).reshape(shape)

    def _taken(self, size: int) -> _Memory:
        """Return what is left and just large enough; or new memory, and then all that is left is too small to keep."""
        left = sorted(self._left.values(), key=lambda memory: memory.nbytes)
        for memory in left:
            if memory.nbytes >= size and self._left.pop(id(memory), None) is not None:
                return memory
        for memory in left:
            self._left.pop(id(memory), None)
        return np.empty(1 << (size - 1).bit_length(), np.uint8)  # the system gives no pages for what is not needed

    def _give_back(self, memory: _Memory) -> None:
        if not self._closed:
            self._left[id(memory)] = memory

    def close(self) -> None:
        """Keep nothing any more."""
        self._closed = True
        self._left.clear()
