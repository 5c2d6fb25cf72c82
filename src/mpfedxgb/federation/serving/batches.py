"""Requests that wait, the batches they are scored in, and the one thread that has a scoring session for them.

A session that breaks is built again, with longer and longer pauses; requests wait meanwhile, each until its time is
over, and are then told the cause.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.errors import FederationError, FrameError, MpfedxgbError, StoppedError, own_reason
from mpfedxgb.federation.monitor import Monitor
from mpfedxgb.federation.role import ScoringSession, scoring
from mpfedxgb.federation.rows import Rows
from mpfedxgb.federation.scoring import RowsNotFoundError
from mpfedxgb.federation.session import is_lost_peer
from mpfedxgb.federation.settings import RoleSettings

_POLL = 0.2
_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_SIGN_OF_LIFE = 2.5
"""Seconds after which a lost peer is noticed though nobody asks for scores."""
_TRIES = 2
_log = logging.getLogger("mpfedxgb.serving")


@dataclass(frozen=True, slots=True)
class Scores:
    """Margins of a request's rows, (classes, rows), in the order of their ids; and who lacks which of them.

    The margins of a row that somebody lacks are 0 and mean nothing.
    """

    margins: Floats = field(repr=False)
    lacking: dict[int, tuple[str, ...]] = field(repr=False)


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request that waits until `until`, by the monotonic clock."""

    rows: Rows
    until: float
    scores: Future[Scores] = field(default_factory=Future)
    tries: int = 0

    def fail(self, error: BaseException) -> None:
        """Answer with an error, if there is no answer yet."""
        with suppress(InvalidStateError):  # the caller has gone
            self.scores.set_exception(error)


class Batches:
    """Takes requests from any thread, and scores them from one of its own (`run`)."""

    def __init__(self, settings: RoleSettings, model: PartialModel, monitor: Monitor) -> None:
        self._settings, self._serve, self._model, self._monitor = settings, settings.serve, model, monitor
        self._waiting: deque[_Waiting] = deque()
        self._answered = 0  # requests of the last batch
        self._changed = threading.Condition()
        self._is_stopped = threading.Event()
        self.cause: str | None = "the scoring session is not open yet: not all participants are there"
        """Why nothing can be scored just now; None if it can."""
        self.error: BaseException | None = None
        """What has ended `run`, if it was not `stop`."""
        monitor.watch_gauge("requests_waiting", "Requests that wait to be scored.", lambda: len(self._waiting))
        monitor.watch_gauge("rows_waiting", "Rows that wait to be scored.", self._rows_waiting)

    def ask(self, rows: Rows) -> Future[Scores]:
        """Let rows wait for their scores; raises FederationError if too many wait, or if this is over."""
        waiting = _Waiting(rows, time.monotonic() + self._serve.timeout)
        with self._changed:
            if self._is_stopped.is_set():
                raise FederationError(
                    "this role is being stopped; ask again when it has been started again", "ended", "session"
                )
            before = self._rows_waiting()
            if before and before + len(rows.ids) > self._serve.max_waiting:
                text = (
                    f"{before} rows wait to be scored, and [serve] max_waiting is {self._serve.max_waiting}; ask again "
                    "later"
                )
                raise FederationError(text, "room", "serve.max_waiting", before)
            self._waiting.append(waiting)
            self._changed.notify()
        return waiting.scores

    def _rows_waiting(self) -> int:
        return sum(len(waiting.rows.ids) for waiting in self._waiting.copy())

    def stop(self) -> None:
        """Take no more requests, and let `run` end after those that wait."""
        with self._changed:
            self._is_stopped.set()
            self.cause = self.cause or "this role is being stopped"
            self._changed.notify()

    def run(self) -> None:
        """Open a session and score in it; again, after each that breaks, until stopped or until nothing can help."""
        pause = _PAUSE
        try:
            while not self._is_stopped.is_set():
                was_ready = False
                try:
                    with scoring(self._settings, self._model, _SIGN_OF_LIFE, self._monitor) as session:
                        was_ready = self._score_in(session)
                except FederationError as error:
                    self.cause = str(error)
                    pause = _PAUSE if was_ready else pause
                    _log.warning("no scores for now: %s; trying again in %g seconds", error, pause)
                    self._drop_expired()
                    self._is_stopped.wait(pause)
                    pause = min(_LONGEST_PAUSE, 2 * pause)
        except StoppedError:
            pass
        except BaseException as error:  # a file, the disk, memory, a defect: another session would not mend it
            self.error = error
            self.cause = own_reason(error) if isinstance(error, MpfedxgbError) else type(error).__name__
        self.stop()
        with self._changed:
            left, self._waiting = list(self._waiting), deque()
        for waiting in left:
            waiting.fail(FederationError(self.cause or "this role is being stopped", "ended", "session"))

    def _score_in(self, session: ScoringSession) -> bool:
        """Score in a session until this is stopped; raises what ends the session."""
        while True:
            if not session.wait_until_ready(_POLL):
                if self._is_stopped.is_set():
                    raise StoppedError("stopped while no scores could be answered")
                self.cause = self.cause or "a participant was lost, and the session waits for it"
                self._drop_expired()
                continue
            if self.cause is not None and not self._is_stopped.is_set():
                self.cause = None
                _log.info("%s answers requests for scores", self._settings.role.name)
            batch = self._next_batch()
            if batch:
                self._answer(session, batch)
            elif self._is_stopped.is_set():
                return True

    def _next_batch(self) -> list[_Waiting]:
        """Return requests to score together, at most max_batch rows, in which no id is twice; none after a while.

        Clients that were answered last ask again, as a rule: they and those who wait already are waited for.
        """
        with self._changed:
            expected = self._answered + len(self._waiting)
            if not self._waiting and not self._is_stopped.is_set():
                self._changed.wait(_POLL)
            end = time.monotonic() + self._serve.max_wait_ms / 1000
            while 0 < len(self._waiting) < expected and not self._is_stopped.is_set():
                left = end - time.monotonic()
                if left <= 0 or self._rows_waiting() >= self._serve.max_batch:
                    break
                self._changed.wait(left)
            batch = self._take()
            self._answered = len(batch)
            return batch

    def _take(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        left: deque[_Waiting] = deque()
        keys: set[str] = set()
        is_full = False
        for waiting in self._waiting:
            own = set(waiting.rows.ids.keys)
            is_full = is_full or (bool(batch) and len(keys) + len(own) > self._serve.max_batch)
            if is_full or not keys.isdisjoint(own):
                left.append(waiting)
            elif waiting.until <= time.monotonic():
                waiting.fail(_too_late(self._serve.timeout))
            elif waiting.tries or waiting.scores.set_running_or_notify_cancel():
                waiting.tries += 1
                keys |= own
                batch.append(waiting)
        self._waiting = left
        return batch

    def _drop_expired(self) -> None:
        with self._changed:
            now = time.monotonic()
            late = [waiting for waiting in self._waiting if waiting.until <= now]
            self._waiting = deque(waiting for waiting in self._waiting if waiting.until > now)
        for waiting in late:
            waiting.fail(FederationError(self.cause or "the scoring session is being opened", "ended", "session"))

    def _answer(self, session: ScoringSession, batch: list[_Waiting]) -> None:
        """Score a batch, and answer each of its requests."""
        keys = tuple(key for waiting in batch for key in waiting.rows.ids.keys)
        table = batch[0].rows.table.followed_by([waiting.rows.table for waiting in batch[1:]])
        starts = [waiting.rows.base_margin for waiting in batch if waiting.rows.base_margin is not None]
        start = np.concatenate(starts, axis=1) if starts else None  # all have one, as the settings say, or none has
        until = max(waiting.until for waiting in batch)

        def ask(places: npt.NDArray[np.int64]) -> Floats:
            left = until - time.monotonic()
            if left <= 0:
                raise _too_late(self._serve.timeout)
            own = None if start is None else start[:, places]
            return session.score(tuple(keys[i] for i in places), table.take(places), left, own)

        try:
            found = score_those_found(ask, len(keys))
        except MpfedxgbError as error:
            again = [w for w in batch if is_lost_peer(error) and w.tries < _TRIES and w.until > time.monotonic()]
            for waiting in batch:
                if waiting not in again:
                    waiting.fail(error)
            with self._changed:
                self._waiting.extendleft(reversed(again))
            session.wait_until_ready(0.0)  # raises what ended the session, if that is what it was
            return
        begin = 0
        for waiting in batch:
            end = begin + len(waiting.rows.ids)
            lacking = {i - begin: names for i, names in found.lacking.items() if begin <= i < end}
            waiting.scores.set_result(Scores(found.margins[:, begin:end], lacking))
            begin = end


def _too_late(timeout: float) -> FederationError:
    text = f"not scored within [serve] timeout = {timeout:g} seconds; ask for fewer rows, or later"
    return FederationError(text, "late", "serve.timeout", timeout)


def score_those_found(ask: Callable[[npt.NDArray[np.int64]], Floats], size: int) -> Scores:
    """Return the margins of those of `size` rows that everybody has, asking for parts of them until all are found.

    Participants only tell how many rows they lack, so a batch with such rows is halved until it is known which they
    are. What is asked for counts at participants that limit rows a day: some log2(size) parts for each such row.
    """
    parts: list[tuple[npt.NDArray[np.int64], Floats]] = []
    lacking: dict[int, tuple[str, ...]] = {}

    def search(places: npt.NDArray[np.int64], counts: dict[str, int]) -> dict[str, int]:
        """Score rows of which participants lack as many as is known, nothing if empty; return how many they lack."""
        if not counts:
            try:
                parts.append((places, ask(places)))
                return {}
            except RowsNotFoundError as error:
                counts = error.counts
        for name, count in counts.items():
            if not 0 < count <= len(places):  # else the search would never end
                text = (
                    f"{name} says that it lacks {count} of {len(places)} rows, which does not fit what it said of "
                    "others of the batch; ask again, for its table may have changed meanwhile"
                )
                raise FrameError(text, parameter=name, value=count)
        nobody_has = tuple(name for name, count in counts.items() if count == len(places))
        if nobody_has:
            lacking.update(dict.fromkeys(places.tolist(), nobody_has))
            return counts
        half = len(places) // 2
        first = search(places[:half], {})
        rest = {name: count - first.get(name, 0) for name, count in counts.items()}
        search(places[half:], {name: count for name, count in rest.items() if count})
        return counts

    search(np.arange(size), {})
    return Scores(_together(parts, size), lacking)


def _together(parts: Sequence[tuple[npt.NDArray[np.int64], Floats]], size: int) -> Floats:
    margins = np.zeros((parts[0][1].shape[0] if parts else 1, size))
    for places, values in parts:
        margins[:, places] = values
    return margins
