"""How a signal ends a role: as an error in its main thread, however that waits, so that peers are told first.

Python runs handlers in the main thread, between two of its steps. A signal that the system hands to another thread, or
that comes just before the main thread begins to wait for a lock, does not wake it: it would wait on, for hours where
the lock is another thread's word. So a thread of its own hears of every signal as it comes, and nudges the main thread
until that has run its handlers.

Nor does an error reach anybody that is raised while Python finalises an object: it is printed, and the program goes on.
The thread hears of that too, and nudges until the error has been raised where it counts. And where something must not
be left half done, such as writing to a connection on which peers are to be told, the error waits for a nudge.
"""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from mpfedxgb.errors import StoppedError, may_stop_in

_STOPS = (signal.SIGTERM, signal.SIGINT)
_NUDGE = signal.SIGURG
"""Ignored by default, and of a higher number than those that stop: handlers run in the order of their numbers."""
_LOST = 0
"""What the thread hears where an error reached nobody; no signal has this number."""
_EVERY = 0.05


@dataclass(slots=True)
class _Main:
    """What is known of the main thread. Plain values: a handler may interrupt itself, and would wait for its lock."""

    awake: bool = True
    lost: str = ""
    """The reason of an error that reached nobody."""
    due: str = ""
    """That reason, once the error is to be raised again."""

    def nudged(self, number: int, frame: FrameType | None) -> None:
        """Handle a nudge, or leave it to a later one."""
        if self.due and not may_stop_in(frame):
            return
        self.awake = True
        reason, self.due = self.due, ""
        if reason:
            raise StoppedError(reason)


@contextmanager
def stopping_on_signals(to_the_end: bool = False) -> Iterator[None]:
    """Turn SIGTERM and SIGINT inside into StoppedError, so that peers are told before this role ends.

    After `ignore_stops` they change nothing any more; `to_the_end` of the process, not only of the block.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is _stop:
        yield  # nothing to do, or done already around this
        return
    main = _main
    handlers = dict.fromkeys(_STOPS, _stop) | {_NUDGE: main.nudged}
    with _hearing(main):
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
            if main.due:
                raise StoppedError(main.due)
        finally:
            main.due = ""
            for number, handler in before.items():
                if not (to_the_end and signal.getsignal(number) is signal.SIG_IGN):
                    signal.signal(number, handler)


def ignore_stops() -> None:
    """Let signals that stop a role change nothing any more: everything is done, and all that is left is to end.

    Does nothing outside `stopping_on_signals`, and in other threads.
    """
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is _stop:
        for number in _STOPS:
            signal.signal(number, signal.SIG_IGN)
        _main.due = ""


_main = _Main()


def _stop(number: int, frame: FrameType | None) -> None:
    reason = f"stopped by {signal.Signals(number).name}"
    if may_stop_in(frame):
        raise StoppedError(reason)
    _main.due = reason  # until a nudge finds the main thread elsewhere


@contextmanager
def _hearing(main: _Main) -> Iterator[None]:
    """Have a thread that nudges the main one after every signal, until it is awake, and after every error it lost."""
    ear, mouth = socket.socketpair()
    mouth.setblocking(False)
    over, number = threading.Event(), threading.get_ident()

    def listen() -> None:
        while heard := ear.recv(64):
            if _LOST in heard:
                over.wait(_EVERY)  # whoever finalises has to come to an end first
                main.due = main.lost
            if set(heard) & {_LOST, *_STOPS}:
                main.awake = False
                while not main.awake and not over.is_set():
                    signal.pthread_kill(number, _NUDGE)
                    over.wait(_EVERY)

    def hear_of(lost: sys.UnraisableHookArgs) -> None:
        if isinstance(lost.exc_value, StoppedError):
            main.lost = str(lost.exc_value)
            mouth.send(bytes([_LOST]))
        else:
            former_hook(lost)

    thread = threading.Thread(target=listen, name="signals", daemon=True)
    thread.start()
    former_hook, sys.unraisablehook = sys.unraisablehook, hear_of
    former = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(former)
        sys.unraisablehook = former_hook
        over.set()
        mouth.close()
        thread.join()
        ear.close()
