"""Row work on threads: the same numbers for any count, in order where that is promised, and no error gets lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from mpfedxgb.ring.kernels import U64, Threads

COUNTS = (1, 2, 3, 8)


def words(piece: int) -> U64:
    """Return some large words, other ones for each piece."""
    return np.random.default_rng(piece).integers(0, 1 << 64, (2, 3), np.uint64)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("pieces", [0, 1, 2, 50])
def test_totals_are_the_same_for_any_count(count: int, pieces: int) -> None:
    """Sums modulo 2^64 do not depend on who adds up what; every piece counts once."""
    threads = Threads(count)
    try:
        total = threads.total(words, range(pieces), (2, 3))
    finally:
        threads.close()
    np.testing.assert_array_equal(total, sum((words(i) for i in range(pieces)), np.zeros((2, 3), np.uint64)))


@pytest.mark.parametrize("count", COUNTS)
def test_results_come_in_order_and_not_too_far_ahead(count: int) -> None:
    """Pieces are taken by the caller's own thread, one at a time, and no more than there are threads before they go."""
    taken: list[str] = []
    given = 0

    def pieces() -> Iterator[int]:
        for i in range(40):
            taken.append(threading.current_thread().name)
            assert len(taken) <= given + count + 1
            yield i

    threads = Threads(count)
    for i, square in enumerate(threads.ahead(lambda i: i * i, pieces())):
        assert square == i * i
        given += 1
    threads.close()
    assert given == 40
    assert set(taken) == {threading.current_thread().name}


@pytest.mark.parametrize("count", COUNTS)
def test_an_error_reaches_the_caller(count: int) -> None:
    """Whichever thread meets it."""

    def work(piece: int) -> U64:
        if piece == 7:
            raise OverflowError("seven")
        return words(piece)

    threads = Threads(count)
    with pytest.raises(OverflowError, match="seven"):
        threads.total(work, range(20), (2, 3))
    with pytest.raises(OverflowError, match="seven"):
        list(threads.ahead(work, range(20)))
    threads.close()
    threads.close()
    assert repr(threads) == f"Threads({count})"
