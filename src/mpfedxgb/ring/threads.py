"""Threads for the compiled loops: pieces of row work, done by so many threads at once.

Kernels release the interpreter's lock, so that threads of one process use several cores. Whoever adds up does so modulo
2^k, where the order makes no difference: any number of threads gives the same numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from mpfedxgb.ring.kernels import U64

T = TypeVar("T")
R = TypeVar("R")


class Threads:
    """So many threads; with one, the caller does everything itself. Threads start with the first work for them."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None

    def __repr__(self) -> str:
        return f"Threads({self.count})"

    def total(self, work: Callable[[T], U64], pieces: Sequence[T], shape: tuple[int, int]) -> U64:
        """Return the sum of work(piece) over all pieces, modulo 2^64; pieces are begun in order."""
        rest = iter(pieces)  # its next() is one step under the interpreter's lock, so that no piece is taken twice

        def add_up() -> U64:
            out = np.zeros(shape, np.uint64)
            for piece in rest:
                out += work(piece)
            return out

        threads = min(self.count, len(pieces))
        if threads <= 1:
            return add_up()
        running = [self._started().submit(add_up) for _ in range(threads)]
        out = running[0].result()
        for one in running[1:]:
            out += one.result()
        return out

    def ahead(self, work: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
        """Yield work(piece) for all pieces, in order, with as many begun ahead as there are threads."""
        if self.count == 1:
            yield from map(work, pieces)
            return
        begun: deque[Future[R]] = deque()
        for piece in pieces:
            begun.append(self._started().submit(work, piece))
            if len(begun) > self.count:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()

    def close(self) -> None:
        """Let the threads end."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _started(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="rows")
        return self._pool
