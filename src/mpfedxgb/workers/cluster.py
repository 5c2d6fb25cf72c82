"""A role's Dask cluster: its workers, data that is kept by them, and calls on that data. The one user of `distributed`.

Dask pickles what it sends. So nothing but module-level functions of this package, arrays, numbers and keys of steps
goes through it, and it stays within one organisation: a cluster is reached over its own TLS, or is on this machine.

Every wait has an end. A lost worker is distinguished from a task that failed, so that its part can be done again
elsewhere; without its scheduler a cluster is of no use, and the run ends with a WorkersError.
"""

from __future__ import annotations

import logging
import queue
import ssl
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mpfedxgb.errors import NO_MEMORY, DataError, MpfedxgbError, SettingsError, WorkersError
from mpfedxgb.workers import tasks

_PAUSE = 0.5
"""Seconds between two looks at which workers are there, while calls run."""

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_log = logging.getLogger("mpfedxgb.workers")


@dataclass(frozen=True, slots=True)
class Lost:
    """In the place of a result: the worker that had the data is gone."""

    worker: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function of `tasks` to be run by a worker, on arguments; futures among them are data that it keeps."""

    worker: str
    function: Callable[..., Any]
    arguments: Sequence[Any] = field(repr=False)


class _NotReadyError(Exception):
    """A worker takes no data now: it has gone, or makes room first."""


class Cluster:
    """The workers of one role, over a `distributed.Client`; nothing waits longer than `deadline` seconds."""

    def __init__(self, client: Any, deadline: float, owned: bool = False) -> None:
        self._client, self._deadline, self._owned = client, deadline, owned
        scheduler = client.scheduler
        self._address: str = "its scheduler" if scheduler is None else scheduler.address
        self._checked: set[str] = set()

    def __repr__(self) -> str:
        return f"Cluster({self._address})"

    @classmethod
    def over(cls, client: Any, deadline: float) -> Cluster:
        """Return the cluster of a `distributed.Client`, which stays open; refuses one that is not encrypted."""
        distributed = _distributed()
        if not isinstance(client, distributed.Client):
            text = f"client={client!r} is no distributed.Client; give one, or None for this process"
            raise SettingsError(text, "type", "client", client)
        if client.asynchronous:
            raise SettingsError(
                "client is asynchronous; give a distributed.Client(..., asynchronous=False)", "mode", "client"
            )
        scheduler = client.scheduler
        if client.status != "running" or scheduler is None:
            text = f"client is {client.status}; give a distributed.Client that is connected"
            raise SettingsError(text, "ended", "client", client.status)
        refuse_open_traffic(scheduler.address)
        return cls(client, deadline)

    @classmethod
    def connect(cls, scheduler: str, ca: Path, certificate: Path, key: Path, deadline: float) -> Cluster:
        """Return the cluster behind a scheduler, over TLS 1.3 in both directions."""
        distributed = _distributed()
        for path in (ca, certificate, key):
            if not path.is_file():
                text = f"[workers]: there is no file {path}; give the files of the cluster's own TLS"
                raise SettingsError(text, "missing", "workers", path)
        security = distributed.Security(
            require_encryption=True,
            tls_ca_file=str(ca),
            tls_client_cert=str(certificate),
            tls_client_key=str(key),
            tls_min_version=ssl.TLSVersion.TLSv1_3,
        )
        try:
            client = distributed.Client(
                scheduler, security=security, timeout=deadline, set_as_default=False, direct_to_workers=True
            )
        except (OSError, TimeoutError, ValueError) as error:
            text = (
                f"there is no Dask scheduler at {scheduler}, or it does not take this certificate ({error}); start it, "
                "or correct [workers]"
            )
            raise WorkersError(text, "late", str(scheduler)) from None
        return cls(client, deadline, owned=True)

    def close(self) -> None:
        """Disconnect, if the connection was made here."""
        if not self._owned:
            return
        try:
            self._client.close(timeout=min(self._deadline, 10.0))
        except Exception as error:  # what led here counts, not that a connection which is lost cannot be closed
            _log.warning("the connection to the Dask cluster at %s did not close (%s)", self._address, error)

    def workers(self, least: int = 0) -> list[str]:
        """Return the addresses of all workers, in order; waits for `least` of them. New ones are looked at first."""
        end = time.monotonic() + self._deadline
        while True:
            found = self._there()
            if len(found) >= least:
                new = [worker for worker in found if worker not in self._checked]
                _refuse_open_workers(new)
                self._check_versions(new)
                return found
            if time.monotonic() > end:
                text = (
                    f"the Dask cluster at {self._address} has had {len(found)} workers for {self._deadline:g} seconds; "
                    "start some, and start this role again to go on"
                )
                raise WorkersError(text, "few", self._address, len(found))
            time.sleep(_PAUSE)

    def _check_versions(self, workers: list[str]) -> None:
        if not workers:
            return
        try:
            found = self._sync(partial(self._client.run, tasks.version, workers=workers, on_error="return"))
        except WorkersError:
            raise
        except Exception as error:
            found = dict.fromkeys(workers, error)
        for worker, answer in found.items():
            if isinstance(answer, OSError):  # it has gone meanwhile
                continue
            if answer != tasks.version():
                said = f"{type(answer).__name__}: {answer}" if isinstance(answer, BaseException) else answer
                text = (
                    f"the worker {worker} has another environment than this role ({said}, here {tasks.version()}); "
                    "install the same versions on all workers"
                )
                raise WorkersError(text, "version", worker)
            self._checked.add(worker)

    def keep(self, worker: str, values: Sequence[Any]) -> list[Any] | Lost:
        """Hand arrays, or lists of arrays, to a worker, which keeps each until its future is let go of."""
        end = time.monotonic() + self._deadline
        while True:
            try:
                futures: list[Any] = self._sync(partial(self._scatter, worker, list(values)))
            except WorkersError:
                raise
            except Exception as error:  # the worker has gone, in one of many ways; the scheduler tells
                if worker not in self.workers():
                    return Lost(worker)
                if not isinstance(error, _NotReadyError) or time.monotonic() > end:
                    text = (
                        f"the worker {worker} takes no data ({type(error).__name__}); look at its log, and start again"
                    )
                    raise WorkersError(text, "failed", worker) from None
            else:
                return futures

    async def _scatter(self, worker: str, values: list[Any]) -> list[Any]:
        try:
            futures: list[Any] = await self._client.scatter(
                values, workers=[worker], hash=False, asynchronous=True, timeout=_PAUSE
            )
        except TimeoutError:  # Dask waits so long for a worker to be there, and as long as it takes for the data to go
            raise _NotReadyError from None
        return futures

    def make(self, call: Call) -> Any:
        """Run a call whose result stays with its worker; return the future of that, or `Lost`."""
        made = self._submit(tasks.attempt, [call.function, list(call.arguments)], call.worker)
        if self._wait([call], [made]):
            return Lost(call.worker)
        (wrong,) = self.call([Call(call.worker, tasks.trouble, [made])])
        if wrong is not None and not isinstance(wrong, Lost):
            _raise(call.worker, *wrong)
        return wrong or self._submit(tasks.result, [made], call.worker)

    def call(self, calls: Sequence[Call]) -> list[Any]:
        """Run calls side by side and return their results, in order, `Lost` where the worker was lost."""
        futures = [self._submit(tasks.attempt, [c.function, list(c.arguments)], c.worker) for c in calls]
        lost = self._wait(calls, futures)
        return [Lost(call.worker) if i in lost else self._result(call, futures[i]) for i, call in enumerate(calls)]

    def _submit(self, function: Callable[..., Any], arguments: Sequence[Any], worker: str) -> Any:
        try:
            return self._client.submit(
                function,
                *arguments,
                workers=[worker],
                allow_other_workers=False,
                pure=False,
                key=f"mpfedxgb-{uuid.uuid4().hex}",
            )
        except Exception:
            if self._is_alone():
                raise self._gone() from None
            raise

    def _wait(self, calls: Sequence[Call], futures: Sequence[Any]) -> set[int]:
        """Wait until every call has ended or has lost its worker; return those that have."""
        end = time.monotonic() + self._deadline
        ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for future in futures:
            future.add_done_callback(ended.put)
        lost: set[int] = set()
        while True:
            lost |= {i for i, f in enumerate(futures) if f.status in ("cancelled", "lost")}
            if all(i in lost or f.status in ("finished", "error") for i, f in enumerate(futures)):
                return lost
            try:
                ended.get(timeout=_PAUSE)
            except queue.Empty:
                there = self._there()
                lost |= {i for i, f in enumerate(futures) if f.status != "finished" and calls[i].worker not in there}
            if time.monotonic() > end:
                slow = sorted({calls[i].worker for i, f in enumerate(futures) if f.status == "pending"})
                text = (
                    f"the workers {', '.join(slow)} have not answered for {self._deadline:g} seconds; look at their "
                    "logs, and start this role again to go on"
                )
                raise WorkersError(text, "late", slow[0])

    def _there(self) -> list[str]:
        return sorted(self._sync(self._cores))

    async def _cores(self) -> dict[str, int]:
        cores: dict[str, int] = await self._client.scheduler.ncores(workers=None)  # None once the client is closed
        return cores

    def _result(self, call: Call, future: Any) -> Any:
        try:
            if future.status == "error":  # not by the task itself, which never raises
                error = future.exception(timeout=self._deadline)
                if isinstance(error, _distributed().KilledWorker) or call.worker not in self.workers():
                    return Lost(call.worker)
                raise WorkersError(
                    f"the worker {call.worker} cannot run {call.function.__name__}: {error}", "failed", call.worker
                )
            done, result = self._sync(partial(self._client.gather, future, asynchronous=True))
        except MpfedxgbError:
            raise
        except Exception:  # it went before its result had come
            return Lost(call.worker)
        if not done:
            _raise(call.worker, *result)
        return result

    def _sync(self, function: Callable[[], Any]) -> Any:
        """Return what a coroutine of the client gives; raises WorkersError if there is no scheduler, or no answer."""
        if self._client.status != "running":
            raise self._gone()
        try:
            return self._client.sync(function, callback_timeout=self._deadline)
        except (TimeoutError, _distributed().TimeoutError):
            text = (
                f"the Dask cluster at {self._address} has not answered for {self._deadline:g} seconds; start this role "
                "again to go on"
            )
            raise WorkersError(text, "late", self._address) from None
        except Exception:  # a connection that breaks while it is made again fails in many ways; or a worker has gone
            if self._is_alone():
                raise self._gone() from None
            raise

    def _is_alone(self) -> bool:
        """Return whether the scheduler is gone: it is asked once more."""
        if self._client.status != "running":
            return True
        try:
            self._client.sync(self._cores, callback_timeout=self._deadline)
        except Exception:
            return True
        return False

    def _gone(self) -> WorkersError:
        text = (
            f"the Dask scheduler at {self._address} is gone; start the cluster again, and then all roles: training "
            "goes on after the last round that all have"
        )
        return WorkersError(text, "ended", self._address)


def refuse_open_traffic(address: str) -> None:
    """Refuse a scheduler whose traffic others could read: masks, bins and keys of steps go to its workers."""
    if not _is_closed(address):
        text = (
            f"the Dask scheduler at {address} is not encrypted; give one at tls://..., with distributed.Security(..., "
            "require_encryption=True), or one on this machine"
        )
        raise SettingsError(text, "secret", address)


def _refuse_open_workers(workers: Sequence[str]) -> None:
    """Refuse workers whose traffic others could read: a scheduler on this machine may have some on other machines."""
    for worker in workers:
        if not _is_closed(worker):
            text = (
                f"the Dask worker at {worker} is not encrypted; start it on this machine (--host 127.0.0.1), or give "
                "the whole cluster TLS, with a scheduler at tls://..."
            )
            raise WorkersError(text, "secret", worker)


def _is_closed(address: str) -> bool:
    """Return whether what goes to an address is encrypted, or stays on this machine."""
    parts = urlsplit(address)
    return parts.scheme in ("tls", "inproc") or (parts.scheme == "tcp" and parts.hostname in _LOOPBACK)


def _distributed() -> Any:
    """Return the package, imported when a role has workers."""
    try:
        import distributed  # an extra, and as much to import as all else that a role computes with
    except ImportError:
        raise SettingsError(
            "workers need the distributed package; pip install 'mpfedxgb[dask]'", "package", "distributed"
        ) from None
    return distributed


def _raise(worker: str, kind: str, text: str) -> None:
    if kind == NO_MEMORY:
        raise WorkersError(
            f"the worker {worker} has not enough memory; give it more, or start more workers", "room", worker
        )
    if kind == DataError.__name__:
        raise DataError(text, "failed", worker)
    raise WorkersError(f"the worker {worker} failed: {kind}{': ' + text if text else ''}", "failed", worker, kind)
