"""What an operator watches of a role, as Prometheus reads it: how sessions go, what they cost, what is about to end.

Counts, seconds and names of roles and phases; never an id, a value of a table, or a secret.
"""

from __future__ import annotations

import datetime as dt
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mpfedxgb.errors import MpfedxgbError, SettingsError, kind_of, public_reason
from mpfedxgb.federation.scoring import BATCHES, NOT_ANSWERED, ROWS_ASKED
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.machine import version_of
from mpfedxgb.party.meter import Counts, by_name
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.party import Party

try:
    import prometheus_client
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.registry import Collector
except ImportError:
    raise SettingsError(
        "--http needs the package prometheus-client; pip install 'mpfedxgb[serve]'", "package", "prometheus-client"
    ) from None

_BUCKETS = (0.005, 0.01, 0.015, 0.025, 0.04, 0.08, 0.15, 0.3, 0.6, 1.2, 2.5, 5.0, 10.0, 30.0)
"""Seconds of a request over HTTP."""
_CERTIFICATE_EVERY = 60.0
"""Seconds for which a certificate is not read again."""
_SCORED = {
    BATCHES: ("batches", "Batches of rows that were scored or searched for."),
    ROWS_ASKED: ("rows_asked", "Rows that were asked for, in all batches."),
    NOT_ANSWERED: ("batches_not_found", "Batches with rows that somebody does not have."),
}


class Monitor(Observer, Collector):
    """What is known of one role's sessions since its process began; readable from any thread, while they run."""

    def __init__(self, settings: RoleSettings) -> None:
        self._settings = settings
        self.cause: str | None = "no session is open yet: not all roles are there"
        """Why this role cannot do its work just now; None while it can."""
        self._party: Party | None = None
        self._ended: Counter[str] = Counter()
        self._before: dict[str, Counts] = {}
        """What attempts that have ended have cost, by phase."""
        self._scored_before: Counter[str] = Counter()
        self._scored: Mapping[str, Any] = {}
        self._rounds = 0, 0
        self._changing = threading.Lock()
        self._certificate = _Certificate(settings)
        self._gauges: list[tuple[str, str, Callable[[], float]]] = []
        self._files = Counter({"taken up": 0, "refused": 0})
        self._registry = prometheus_client.CollectorRegistry()
        self._registry.register(self)
        prometheus_client.ProcessCollector(registry=self._registry)
        self.requests = prometheus_client.Counter(
            "mpfedxgb_requests", "Requests over HTTP that were answered.", ("route", "status"), registry=self._registry
        )
        self.seconds = prometheus_client.Histogram(
            "mpfedxgb_request_seconds", "Seconds until a request for scores was answered.",
            buckets=_BUCKETS, registry=self._registry,
        )  # fmt: skip

    def watch_gauge(self, name: str, what: str, value: Callable[[], float]) -> None:
        """Tell a number of somebody else's, too."""
        self._gauges.append((name, what, value))

    # While a session runs

    def on_meeting(self, party: Party) -> None:
        """Note that all roles are there."""
        with self._changing:
            self._party, self._scored = party, {}
            self.cause = None

    def on_round(self, done: int, of: int) -> None:
        """Note how far a training is."""
        self._rounds = done, of

    def on_milestone(self, more: Mapping[str, Any]) -> None:
        """Note what has been scored."""
        if BATCHES in more:
            self._scored = more

    def on_files(self, are_taken_up: bool) -> None:
        """Note that tables or models have changed."""
        self._files["taken up" if are_taken_up else "refused"] += 1

    def on_end(self, error: BaseException | None) -> None:
        """Add up what an attempt has cost."""
        with self._changing:
            if self._party is not None:
                self._before = self._phases()
                self._scored_before = self._scores()
            self._party, self._scored = None, {}
            self._ended["done" if error is None else kind_of(error)] += 1
            waits = "this role waits for the next session, or ends"
            why = "the last session has ended" if error is None else public_reason(error)
            self.cause = f"{why}; {waits}"

    # What is announced

    def text(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in a form that is accepted, and the name of the form."""
        encode, kind = choose_encoder(accept)
        return encode(self._registry), kind

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        settings = self._settings
        with self._changing:
            party, phases, scored, ended = self._party, self._phases(), self._scores(), dict(self._ended)
        total = Counts.sum(phases.values())
        about = {"version": version_of("mpfedxgb") or "", "role": settings.role.name}
        about |= {"federation": settings.federation.name, "session": settings.session.name}
        info = GaugeMetricFamily("mpfedxgb_info", "What this role is.", labels=tuple(about))
        info.add_metric(tuple(about.values()), 1.0)
        yield info
        yield _gauge("ready", "Whether this role can do its work: a session is open with all it needs.", self.is_ready)
        attempt = 0 if party is None else party.settings.attempt
        yield _gauge("attempt", "Number of the attempt that runs; 0 if none does.", attempt)
        peers = settings.roster.neighbours(settings.number, settings.network.topology)
        connected = {settings.roster.name(peer): float(party is not None) for peer in peers}
        yield _each(GaugeMetricFamily, "peer_connected", "Whether a session with a peer is open.", "peer", connected)
        yield _gauge("peers_connected", "Peers with whom a session is open.", sum(connected.values()))
        yield _gauge("peers", "Peers that this role is connected with in a session.", len(peers))
        yield _gauge("boosting_rounds_done", "The last boosting round that was completed and kept.", self._rounds[0])
        yield _gauge("boosting_rounds", "Boosting rounds of the training that runs, or ran last.", self._rounds[1])
        if (days := self._certificate.days_left()) is not None:
            yield _gauge("certificate_days_left", "Days until this role's certificate ends.", days)
        yield _counter("message_rounds", "Dependent exchanges among the participants.", total.rounds)
        for name, what, counts in (
            ("messages_sent", "Messages to a peer.", total.messages),
            ("bytes_sent", "Bytes of messages to a peer.", total.wire_sent),
            ("bytes_received", "Bytes of messages from a peer.", total.wire_received),
        ):
            yield _each(CounterMetricFamily, name, what, "peer", counts)
        seconds = {path or "other": counts.seconds for path, counts in phases.items()}
        what = "Seconds in a phase of the program, waits for others included."
        yield _each(CounterMetricFamily, "phase_seconds", what, "phase", seconds)
        what = "Attempts at a session that have ended: done, or the kind of the error."
        yield _each(CounterMetricFamily, "attempts_ended", what, "how", ended)
        what = "Changes of tables or models: taken up, or refused since they cannot be used."
        yield _each(CounterMetricFamily, "files_read", what, "how", dict(self._files))
        for key, (name, what) in _SCORED.items():
            yield _counter(name, what, scored[key])
        for name, what, value in self._gauges:
            yield _gauge(name, what, value())

    @property
    def is_ready(self) -> bool:
        """Whether this role can do its work."""
        return self.cause is None

    def _phases(self) -> dict[str, Counts]:
        """Return what all attempts have cost so far, by phase."""
        running = {} if self._party is None else self._party.meter.phases.copy()
        return by_name([*self._before.items(), *((path, counts.copy()) for path, counts in running.items())])

    def _scores(self) -> Counter[str]:
        return self._scored_before + Counter({key: self._scored.get(key, 0) for key in _SCORED})


class _Certificate:
    """When a role's certificate ends, read again once in a while: it may have been renewed."""

    def __init__(self, settings: RoleSettings) -> None:
        self._settings = settings
        self._next_read = -math.inf
        self._ends: dt.datetime | None = None

    def days_left(self) -> float | None:
        """Return it in days, negative if it has ended; None if there is none, or none that can be read."""
        now = time.monotonic()
        if now >= self._next_read:
            self._next_read = now + _CERTIFICATE_EVERY
            self._ends = self._read()
        return None if self._ends is None else (self._ends - dt.datetime.now(dt.UTC)).total_seconds() / 86_400

    def _read(self) -> dt.datetime | None:
        from mpfedxgb.transport.tls.identity import Identity

        tls = self._settings.tls
        try:
            name = self._settings.role.name
            return None if tls is None else Identity.of(name, tls.credentials(), may_have_ended=True).expires
        except MpfedxgbError:  # half of it is replaced, or doctor says what is wrong with it
            return None


def _gauge(name: str, what: str, value: float) -> Metric:
    return GaugeMetricFamily(f"mpfedxgb_{name}", what, value=float(value))


def _counter(name: str, what: str, value: float) -> Metric:
    return CounterMetricFamily(f"mpfedxgb_{name}", what, value=float(value))


def _each(
    family: type[GaugeMetricFamily | CounterMetricFamily],
    name: str,
    what: str,
    label: str,
    values: Mapping[str, float],
) -> Metric:
    metric = family(f"mpfedxgb_{name}", what, labels=(label,))
    for of, value in values.items():
        metric.add_metric((of,), float(value))
    return metric
