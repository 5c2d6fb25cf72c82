"""Waiting for threads, those too that are about to begin."""

from __future__ import annotations

import threading
import time

import pytest

from mpfedxgb.transport.grpc.stream import Threads, join


def test_a_thread_that_is_about_to_begin() -> None:
    """It is waited for like any other, as it may be where a signal interrupts whoever starts it."""
    done = threading.Event()

    def work() -> None:
        time.sleep(0.1)
        done.set()

    thread = threading.Thread(target=work)
    with pytest.raises(RuntimeError, match="before it is started"):
        thread.join()
    threading.Timer(0.1, thread.start).start()
    join(thread)
    assert done.is_set()


def test_a_thread_that_never_begins_or_never_ends() -> None:
    """Neither is waited for longer than asked."""
    join(threading.Thread(target=lambda: None), 0.05)
    over = threading.Event()
    thread = threading.Thread(target=over.wait, daemon=True)
    thread.start()
    join(thread, 0.05)
    assert thread.is_alive()
    over.set()
    join(thread)
    assert not thread.is_alive()


def test_a_thread_for_each_call() -> None:
    """Calls do not wait for each other, and tell what they return or raise."""
    threads, met = Threads("calls"), threading.Barrier(3)
    two = [threads.submit(lambda number: met.wait(30.0) * 0 + number, number) for number in range(2)]
    failed = threads.submit(lambda: 1 // 0)
    met.wait(30.0)
    assert [future.result(30.0) for future in two] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        failed.result(30.0)
    threads.shutdown()
    assert not [thread for thread in threading.enumerate() if thread.name == "calls"]
