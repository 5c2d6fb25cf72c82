"""Scoring on demand: one session, many batches. The active participant names the rows; the others look them up.

The auxiliaries hold a table with the people they can be asked about. Between batches the active participant says every
now and then that it is still there, so that nobody waits longer than a deadline.
"""

from __future__ import annotations

import json
import math
import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import numpy as np

from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.data.table import Table
from mpfedxgb.errors import DataError, FederationError, FrameError, HandshakeError, RefusedError
from mpfedxgb.federation.lookup import Lookup
from mpfedxgb.federation.quota import RowsPerDay
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.handshake import MOST_CLASSES, MOST_ROWS, check_numbers
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.ring.prg import digest
from mpfedxgb.ring.ring import decode_fixed
from mpfedxgb.tree.nodes import Scorer
from mpfedxgb.tree.predict import Prepared, predict_prepared, prepare

STILL_THERE, END = 0, -1

BATCHES, ROWS_ASKED, NOT_ANSWERED = "batches", "rows_asked", "batches_not_found"
"""What a milestone says of a session so far: batches, their rows, and batches in which rows were not found."""


class RowsNotFoundError(DataError):
    """Some participants do not have some rows of a batch: how many, by their names."""

    def __init__(self, message: str, counts: dict[str, int]) -> None:
        self.counts = counts
        super().__init__(message, "missing", "rows", sum(counts.values()))


@dataclass(slots=True, eq=False)
class _Request:
    """A batch on its way, at the active participant."""

    keys: tuple[str, ...] = field(repr=False)
    table: Table
    start: Floats | None = field(default=None, repr=False)
    done: threading.Event = field(default_factory=threading.Event)
    margins: Floats | None = field(default=None, repr=False)
    error: BaseException | None = None

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Let the caller go on after the block, with margins or the error; the session survives a DataError only."""
        try:
            yield
        except DataError as error:
            self.error = error
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.done.set()


class Service:
    """What a participant brings to a scoring session: its model and, at an auxiliary, everyone it may be asked about.

    An auxiliary answers for at most `quota` rows a day. At the active participant, `score` may be called from any
    thread while the session runs, and the others hear at least every `pause` seconds that it is still there.
    """

    def __init__(
        self,
        model: PartialModel,
        lookup: Lookup | None = None,
        quota: RowsPerDay | None = None,
        pause: float = math.inf,
    ) -> None:
        self.model, self._quota, self.pause = model, quota, pause
        self._lookup = lookup
        self._newest = model, lookup
        self._changing = threading.Lock()
        self.begun = threading.Event()
        """Set when the session runs: everybody is there."""
        self.ready = threading.Event()
        """Set while batches can be answered: all models are compared and prepared."""
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._over: BaseException | None = None
        self.reported: BaseException | None = None
        """The last error that ended a session and that `score` or `wait_until_ready` has raised."""

    def __repr__(self) -> str:
        return f"Service({self.model.name})"

    def score(
        self, keys: tuple[str, ...], table: Table, timeout: float | None = None, start: Floats | None = None
    ) -> Floats:
        """Return the margins of rows, (classes, rows), once the session has got to them.

        They begin at `start`, or where the model does. Without a timeout it waits as long as the session itself waits
        for its peers.
        """
        if not keys:
            raise DataError("there are no rows to score; give one or more", "few", "rows", 0)
        request = _Request(keys, table, start)
        self._requests.put(request)
        self._raise_if_over()  # asked after the request is in the queue: either `fail` found it there or this does
        if not request.done.wait(timeout):
            raise FederationError(f"a batch was not scored within {timeout:g} seconds", "late", "batch", timeout)
        if request.error is not None:
            self.reported = self.reported if isinstance(request.error, DataError) else request.error
            raise request.error
        assert request.margins is not None
        return request.margins

    def wait_until_ready(self, timeout: float) -> bool:
        """Return whether batches can be answered, at most `timeout` seconds from now; raises what ended the session."""
        is_ready = self.ready.wait(timeout)
        self._raise_if_over()
        return is_ready

    def _raise_if_over(self) -> None:
        if self._over is not None:
            self.reported = self._over
            raise self._over

    def take_up(self, model: PartialModel, lookup: Lookup) -> bool:
        """Answer with newer rows from the next batch on; return whether that is so.

        With another model, and with rows whose columns are another model's, only from the next session on.
        """
        with self._changing:
            self._newest = model, lookup
            if model.features != self.model.features:
                return False
            self._lookup = lookup
            return model.training == self.model.training

    def begin(self) -> None:
        """Begin a session, with the newest model and rows."""
        with self._changing:
            self.model, self._lookup = self._newest

    def end(self) -> None:
        """Let the session end after the batches that wait."""
        self._requests.put(None)

    def fail(self, error: BaseException) -> None:
        """Tell everyone who waits that the session is over."""
        self._over = error
        while True:
            try:
                request = self._requests.get_nowait()
            except queue.Empty:
                return
            if request is not None:
                request.error = error
                request.done.set()

    def next_request(self, timeout: float) -> tuple[int, _Request | None]:
        """Return size and content of the next batch; or END, or STILL_THERE after `timeout` seconds without one."""
        try:
            request = self._requests.get(timeout=timeout)
        except queue.Empty:
            return STILL_THERE, None
        return (END, None) if request is None else (len(request.keys), request)

    def rows_of(self, keys: Sequence[str]) -> tuple[Table | None, int]:
        """Return this participant's rows in the order of their ids, and how many are not there; None if any is not.

        Raises RefusedError where a row is asked for twice, or where these are too many for a day. Whether a row is
        there at all is an answer too, so all that are asked for count.
        """
        repeated = len(keys) - len(set(keys))
        if repeated:
            text = (
                f"{repeated} of {len(keys)} rows to score repeat an id; {self.model.name} answers for each once a batch"
            )
            raise RefusedError(text, code="duplicate", parameter="rows", value=repeated)
        if self._quota is not None:
            self._quota.take(self.model.name, len(keys))
        assert self._lookup is not None
        return self._lookup.find(keys)


def score_batches(party: Party, service: Service | None) -> None:
    """Score one batch after the other until the active participant ends the session; every role runs this.

    Once: whose model it is, its outline, and the leaf weights, masked. Per batch: its size to everyone, the ids to the
    auxiliaries, how many of them each does not find, and the joint prediction.

    Hops per batch of few rows: 6; 1 with size and ids, 2 for what is not found, 2 for the marks, 1 with the prediction.
    Reveals: once what `prepare` tells; BATCH and NOT_FOUND to everyone, BATCH_IDS to the auxiliaries, the prediction to
    the active participant.
    """
    if service is not None:
        service.begin()
        service.begun.set()
    _check_models(party, service)
    scorer = None if service is None else service.model.scorer(Table(service.model.name, (), 0))
    prepared = _prepare(party, service, scorer, _agree_on_classes(party, service))
    if service is None:
        return _answer(party, None, None, prepared)
    service.ready.set()
    try:
        return _answer(party, service, scorer, prepared)
    finally:
        service.ready.clear()


def _answer(party: Party, service: Service | None, scorer: Scorer | None, prepared: Prepared) -> None:
    """Score batches until the active participant ends the session."""
    pause = party.settings.deadline / 3 if service is None else min(party.settings.deadline / 3, service.pause)
    so_far = {BATCHES: 0, ROWS_ASKED: 0, NOT_ANSWERED: 0}
    while True:
        size, request = STILL_THERE, None
        if party.is_active and service is not None:
            size, request = service.next_request(pause)
        with nullcontext() if request is None else request.answering():  # also where its size reaches nobody any more
            size = int(party.broadcast(Entry.BATCH, [size])[0])
            check_numbers(party, ACTIVE, [size], ("rows of a batch", END, MOST_ROWS))
            margins = _score(party, service, scorer, request, size, prepared, so_far) if size > STILL_THERE else None
            if request is not None:
                request.margins = margins
        if size > STILL_THERE:
            party.observer.on_milestone(so_far)
        if size == END:
            return


def _check_models(party: Party, service: Service | None) -> None:
    """Stop everyone where the participants hold parts of different trainings, whose trees may look alike.

    Rounds: 1. Reveals: MODEL to everyone.
    """
    mine = None
    if service is not None:
        mine = [int.from_bytes(digest(service.model.training.encode())[:8], "little", signed=True)]
    announced = party.tell_everyone(Entry.MODEL, mine)[:, 0]
    others = [party.roster.owner_names[m] for m in np.flatnonzero(announced != announced[0])]
    if others:
        text = (
            f"{', '.join(others)} and {party.roster.name(ACTIVE)} hold parts of different trainings; give all "
            "participants the models of one training"
        )
        raise HandshakeError(text, "mismatch", "training", others)


def _agree_on_classes(party: Party, service: Service | None) -> int:
    """Return how many sums each row has; nobody takes another number than its own model's for it.

    With a class for each tree, the active participant would be told the leaf of every tree.
    Rounds: 1. Reveals: CLASSES to everyone.
    """
    own = 1 if service is None else service.model.params.outputs
    classes = int(party.broadcast(Entry.CLASSES, [own])[0])
    check_numbers(party, ACTIVE, [classes], ("margins per row", 1, MOST_CLASSES))
    if service is not None and classes != own:
        text = (
            f"the model of {party.roster.name(ACTIVE)} has {classes} margins per row, that of {party.name} {own}; give "
            "all participants the models of one training"
        )
        raise HandshakeError(text, "mismatch", "classes", classes)
    return classes


def _prepare(party: Party, service: Service | None, scorer: Scorer | None, classes: int) -> Prepared:
    """Agree on the trees, and share the leaf weights, before there are any rows (see `prepare`)."""
    if service is None:
        return prepare(party, classes, None, None)[0]
    best = service.model.best_iteration
    return prepare(party, classes, scorer, None if best is None else best + 1)[0]


def _score(
    party: Party,
    service: Service | None,
    scorer: Scorer | None,
    request: _Request | None,
    size: int,
    ready: Prepared,
    so_far: dict[str, int],
) -> Floats | None:
    so_far[BATCHES] += 1
    so_far[ROWS_ASKED] += size
    keys = _share_ids(party, request, size)
    table, missing = None if request is None else request.table, 0
    if service is not None and not party.is_active:
        table, missing = service.rows_of(keys)
    lacking = party.tell_everyone(Entry.NOT_FOUND, [missing] if party.owner else None)[:, 0]
    if lacking.any():
        so_far[NOT_ANSWERED] += 1
        if not party.is_active:
            return None
        text = ", ".join(
            f"{name} {count}" for name, count in zip(party.roster.owner_names, lacking, strict=True) if count
        )
        raise RowsNotFoundError(
            f"of {size} rows to score, some are not found: {text}; leave them out, or let those add them",
            {name: int(count) for name, count in zip(party.roster.owner_names, lacking, strict=True) if count},
        )
    if scorer is not None:
        assert table is not None
        scorer = scorer.of(table)
    sums = predict_prepared(party, ready, scorer, size)
    if sums is None or service is None or service.model.base_margin is None:
        return None
    base: Floats = np.array(service.model.base_margin)[:, None]
    if request is not None and request.start is not None:
        base = request.start
    return decode_fixed(sums, service.model.leaf_scale_bits) + base


def _share_ids(party: Party, request: _Request | None, size: int) -> list[str]:
    """Tell the others which rows are meant; a coordinator without columns never learns it."""
    party.step("ids")
    others = party.roster.other_owners
    for m in others:
        party.record(Entry.BATCH_IDS, m, size)
    if not party.owner:
        return []
    party.count(rounds=1)  # and no hop: they come right behind the size, on the same way
    if request is not None:
        for text in _lists(request.keys, party.bytes_per_frame):
            party.send_bytes(others, [np.frombuffer(text, np.uint8)])
        return list(request.keys)
    keys: list[str] = []
    while len(keys) < size:
        arrays = party.receive_bytes(ACTIVE)
        try:
            some = json.loads(arrays[0].tobytes())
        except (ValueError, IndexError, RecursionError):
            some = None
        if len(arrays) != 1 or not isinstance(some, list) or not some or not all(isinstance(k, str) for k in some):
            raise FrameError(f"{party.roster.name(ACTIVE)} sent another list of rows than it said", parameter="rows")
        keys += some
    if len(keys) != size:
        raise FrameError(f"{party.roster.name(ACTIVE)} sent another list of rows than it said", parameter="rows")
    return keys


def _lists(keys: Sequence[str], room: int) -> Iterator[bytes]:
    """Yield lists of ids that together are all of them, each as long as a frame has room for."""
    begun, length = 0, 2
    for i, key in enumerate(keys):
        longest = 12 * len(key) + 4  # every character escaped as two of UTF-16, quotes, comma and space
        if length + longest > room and i > begun:
            yield json.dumps(keys[begun:i]).encode()
            begun, length = i, 2
        length += longest
    yield json.dumps(keys[begun:]).encode()
