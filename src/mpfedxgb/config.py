"""Frozen settings of a session, read once. Impossible values are refused here, before anything runs."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpfedxgb.errors import SettingsError, raise_all
from mpfedxgb.schema.training import BY_NAME, integer, number, wrong_values

PROTOCOLS = (7,)
"""Versions of the program that this release can run; a new one for every change after which old and new roles could
not finish a run together."""

SMALLEST_FRAME = 1024
"""Bytes below which a frame would hardly hold its own header."""


@dataclass(frozen=True, slots=True)
class Link:
    """What lies between two roles, as all of them plan for it: milliseconds one way, and megabits a second."""

    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for name, kind, unit in (
            ("latency", number(0.0, 1e5), "milliseconds one way"),
            ("bandwidth", number(0.0, 1e9, above=True), "megabits a second"),
        ):
            if kind.fault(value := getattr(self, name)):
                text = f"{name}={value!r} of a link is out of range; it is a positive number of {unit}"
                raise SettingsError(text, "range", name, value)


LINKS = {"local": Link(0.0, 10_000.0), "lan": Link(0.3, 1_000.0), "wan": Link(20.0, 100.0)}
"""One machine, one building, and organisations apart."""


TOPOLOGIES = BY_NAME["topology"].kind.choices
"""How participants are connected: over the active one, or each with each. The coordinator is connected with all."""


def link_of(value: object) -> Link:
    """Return a link by its name, from "LATENCY/BANDWIDTH" in ms and Mbit/s, or as it is."""
    if isinstance(value, Link):
        return value
    if isinstance(value, str):
        if value in LINKS:
            return LINKS[value]
        latency, slash, bandwidth = value.partition("/")
        try:
            if slash:
                return Link(float(latency), float(bandwidth))
        except ValueError:
            pass
    names = ", ".join(LINKS)
    remedy = f"it is one of {names}, or milliseconds one way and megabits a second, as in '20/100'"
    raise SettingsError(f"link={value!r} is not known; {remedy}", "value", "link", value)


_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}


@dataclass(frozen=True, slots=True)
class Resources:
    """What a process may use for its row work. It is no other role's business, and changes no number.

    Parameters
    ----------
    n_jobs : int or None
        Threads of a role: 1 if None, all cores for -1, all but one for -2, as in scikit-learn.
    max_memory : int or None
        Bytes that a training may take in this process; what does not fit goes to the spool. None: no limit.
    spool : Path or None
        A folder for what does not fit.
    """

    n_jobs: int | None = None
    max_memory: int | None = None
    spool: Path | None = None

    @classmethod
    def read(cls, n_jobs: Any, max_memory: object, spool: object) -> Resources:
        """Return what was given, checked: an int or None, bytes or a text such as "6 GB" or None, a path or None."""
        if BY_NAME["n_jobs"].fault(n_jobs) or n_jobs == 0:
            text = f"n_jobs={n_jobs!r} is no number of threads; give 1 or more, -1 for all cores, or None for one"
            raise SettingsError(text, "range", "n_jobs", n_jobs)
        if not isinstance(spool, (str, os.PathLike, type(None))):
            raise SettingsError(f"spool={spool!r} is no folder; give its path, or None", "type", "spool", spool)
        return cls(n_jobs, bytes_of("max_memory", max_memory), None if spool is None else Path(spool).absolute())

    @property
    def threads(self) -> int:
        """Number of threads, of a role."""
        if self.n_jobs is None or self.n_jobs > 0:
            return self.n_jobs or 1
        return max(1, cores() + 1 + self.n_jobs)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def bytes_of(name: str, value: object) -> int | None:
    """Return a size in bytes from a number, from a text such as "6 GB" or "512 MiB", or None as it is."""
    if value is None:
        return None
    if isinstance(value, int) and not integer(1).fault(value):
        return value
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*", value) if isinstance(value, str) else None
    if found is None or found[2].upper() not in _UNITS or float(found[1]) == 0:
        text = f"{name}={value!r} is no size; give bytes, or a text such as '6 GB' or '512 MiB'"
        raise SettingsError(text, "value", name, value)
    return int(float(found[1]) * _UNITS[found[2].upper()])


@dataclass(frozen=True, slots=True)
class Tuning:
    """How much is worked on, dealt or sent at a time: chosen for speed, and no model depends on it.

    Messages are cut by it, so all roles of a session need the same. That is why no settings file and no parameter has
    it: a run takes what stands here, and tests bring small numbers, by which small data come in many pieces.

    Parameters
    ----------
    block_rows : int
        Rows of a block of a matrix: sixteen vectors of that length take half of a core's second-level cache.
    tile_bytes : int
        Size of the tiles in which a block is expanded, sent and kept in memory.
    split_elements : int
        Elements of row vectors that are split at a time: arrays of 256 kB each stay in a core's cache. A multiple of
        8, as rows are packed.
    dealt_bytes : int
        What is dealt at a time, in one message, where much of it is used up row by row.
    gradient_rows : int
        Rows whose gradients are computed on secrets at a time; what is dealt for them takes some 0.8 kB each.
    leaf_elements : int
        Rows times leaves of one batch, of predictions and of leaf weights: arrays of 4 MB each stay in the cache.
    direct_bytes : int
        Up to that number of dealt bytes, all owners' marks and the weights of a batch of predictions are multiplied at
        once, without a round: enough for one row through 100 trees of depth 6 of three owners, which takes 0.7 MB and
        less time than two rounds.
    aligned_ids : int
        Ids in one message of an alignment: both sides compute while the other's next ones are on their way, and none
        waits for long.
    sign_of_life : float
        Part of a deadline: how often the active participant says in an alignment that it is still there.
    """

    block_rows: int = 1 << 12
    tile_bytes: int = 1 << 22
    split_elements: int = 1 << 15
    dealt_bytes: int = 1 << 20
    gradient_rows: int = 1 << 17
    leaf_elements: int = 1 << 19
    direct_bytes: int = 1 << 20
    aligned_ids: int = 8192
    sign_of_life: float = 1 / 3


TUNING = Tuning()
"""What every run takes."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What all roles of one session have in common, and how long each of them waits.

    Parameters
    ----------
    session : str
        Name of the session; part of every key and frame.
    attempt : int
        Grows by one at every restart of the session.
    parameters : str
        The public parameters as JSON (see `TrainParams.to_json`); the handshake compares them.
    deadline : float
        Seconds that a participant waits for the coordinator, who waits for nobody while participants do. The active
        one waits a quarter longer for the others, and these half as long again: of several who wait for each other,
        the last in the row gets named.
    max_frame_bytes : int
        Largest frame; longer messages are cut. The smallest of all roles' counts.
    max_queued_bytes : int
        Back-pressure: how many bytes may wait for one receiver before the sender has to wait.
    link : Link
        Latency and bandwidth between the roles. The active participant announces its own: all roles plan for it.
    topology : str
        How participants are connected, "star" or "mesh"; the same at all roles.
    insecure_seed : int or None
        Makes a demonstration repeatable. Anyone who knows it knows every mask: never for real data.
    tuning : Tuning
        How much is worked on, dealt or sent at a time; the same at all roles.
    """

    session: str = "local"
    attempt: int = 1
    parameters: str = ""
    deadline: float = 600.0
    max_frame_bytes: int = 1 << 30
    max_queued_bytes: int = 1 << 25
    link: Link = LINKS["local"]
    topology: str = TOPOLOGIES[0]
    insecure_seed: int | None = None
    tuning: Tuning = TUNING

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if not self.session or len(self.session) > 200:
            raise SettingsError(
                f"session must be a name of 1 to 200 characters, not {self.session!r}", "range", "session", self.session
            )
        if self.attempt < 1:
            raise SettingsError(f"attempt must be 1 or more, not {self.attempt}", "range", "attempt", self.attempt)
        if self.max_frame_bytes < SMALLEST_FRAME:
            text = f"max_frame_bytes must be at least {SMALLEST_FRAME}, not {self.max_frame_bytes}"
            raise SettingsError(text, "range", "max_frame_bytes", self.max_frame_bytes)
        if self.max_queued_bytes < 1024:
            text = f"max_queued_bytes must be at least 1024, not {self.max_queued_bytes}"
            raise SettingsError(text, "range", "max_queued_bytes", self.max_queued_bytes)
        raise_all(wrong_values({name: getattr(self, name) for name in ("deadline", "topology", "insecure_seed")}))

    @property
    def active_deadline(self) -> float:
        """Seconds that the active participant waits for an auxiliary, who may wait for the coordinator."""
        return 1.25 * self.deadline

    @property
    def auxiliary_deadline(self) -> float:
        """Seconds that the others wait."""
        return 1.5 * self.deadline

    @property
    def silence(self) -> float:
        """Seconds without a sign of life after which a connection is lost: the deadlines have spoken before."""
        return 2.0 * self.deadline
