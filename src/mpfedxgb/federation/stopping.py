"""How a signal ends a role: as an error in its main thread, however that waits, so that peers are told first.

Python runs handlers in the main thread, between two of its steps. A signal that the system hands to another thread, or
that comes just before the main thread begins to wait for a lock, does not wake it: it would wait on, for hours where
the lock is another thread's word. So a thread of its own hears of every signal as it comes, and nudges the main thread
until that has run its handlers.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mpfedxgb.errors import StoppedError

_STOPS = (signal.SIGTERM, signal.SIGINT)
_NUDGE = signal.SIGURG
"""Ignored by default, and of a higher number than those that stop: handlers run in the order of their numbers."""
_EVERY = 0.05


@contextmanager
def stopping_on_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGINT inside into StoppedError, so that peers are told before this role ends."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is _stop:
        yield  # nothing to do, or done already around this
        return
    awake = threading.Event()
    handlers = dict.fromkeys(_STOPS, _stop) | {_NUDGE: lambda number, frame: awake.set()}
    with _hearing(awake):
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _stop(number: int, frame: object) -> None:
    raise StoppedError(f"stopped by {signal.Signals(number).name}")


@contextmanager
def _hearing(awake: threading.Event) -> Iterator[None]:
    """Have a thread that nudges the main one after every signal, until it is awake."""
    ear, mouth = socket.socketpair()
    mouth.setblocking(False)
    over, main = threading.Event(), threading.get_ident()

    def listen() -> None:
        while heard := ear.recv(64):
            if set(heard) & set(_STOPS):
                awake.clear()
                while not over.is_set():
                    signal.pthread_kill(main, _NUDGE)
                    if awake.wait(_EVERY):
                        break

    thread = threading.Thread(target=listen, name="signals", daemon=True)
    thread.start()
    former = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(former)
        over.set()
        mouth.close()
        thread.join()
        ear.close()
