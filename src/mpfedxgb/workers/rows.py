"""Row blocks on a role's workers: `RowBlocks` whose blocks live on a Dask cluster.

The rows are cut into runs of blocks, and every run has a worker, which keeps its part of the own bins and of others' E,
and expands its part of A from the key of the step. What passes between the role and a worker for a level of trees is
vectors over the worker's rows, and a sum over them for every candidate.

What a worker held can be built again without asking anybody: the own bins from where they came, E from the copy in the
role's own storage. A run whose worker is lost goes to the one with the fewest, and what was asked of it is asked again.
All results are sums modulo 2^64 or bits of rows, so that it does not matter who has computed them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from typing import Any, Protocol, runtime_checkable

import numpy as np

from mpfedxgb.data.binning import BinRanges, Bins, Bits
from mpfedxgb.errors import WorkersError
from mpfedxgb.protocols.row_blocks import Besides, Matrix, RowLayout, Tile, combined
from mpfedxgb.protocols.storage import Storage
from mpfedxgb.ring.kernels import U64, Threads
from mpfedxgb.ring.prg import Source, Stream
from mpfedxgb.units import bytes_text
from mpfedxgb.workers import tasks
from mpfedxgb.workers.cluster import Call, Cluster, Lost

RUN_BLOCKS = 4
"""Blocks of a run at most: what is sent to a worker at once, and built again at once."""

RUNS_PER_WORKER = 2
"""Runs of a worker at least, if there are enough blocks, so that a lost worker's part is shared by several."""

_MOST_LOSSES = 20
_log = logging.getLogger("mpfedxgb.workers")


@runtime_checkable
class BinnedMatrix(Protocol):
    """What an owner brings: candidates over bins, and the bins of its rows."""

    @property
    def ranges(self) -> BinRanges:
        """Which bins go left by every candidate."""
        ...

    @property
    def bins(self) -> Bins:
        """The bins of all rows, in memory or in a file."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """A matrix on the workers: how it lies, how a run is built on its worker, and by run what is kept there."""

    layout: RowLayout
    build: Callable[[int], Any] | None = field(repr=False)
    kept: dict[int, Any] = field(default_factory=dict, repr=False)
    ranges: tuple[Any, ...] = field(default=(), repr=False)
    key: bytes = field(default=b"", repr=False)
    stored: int = 0
    """Under which key a copy of what came is in the role's storage."""


class WorkerRows:
    """`RowBlocks` of one role on its workers; a copy of E stays in the role's storage, in memory or in its spool."""

    def __init__(self, cluster: Cluster, storage: Storage | None = None) -> None:
        self._cluster = cluster
        self._storage = Storage() if storage is None else storage
        self._threads = Threads(self._storage.resources.threads)
        self._held: dict[int, _Held] = {}
        self._runs: list[tasks.Run] = []
        self._worker_of: dict[int, str] = {}

    def __repr__(self) -> str:
        return f"WorkerRows({len(self._held)} matrices, {len(self._runs)} runs)"

    @property
    def threads(self) -> Threads:
        """The threads of this role itself (see RowBlocks)."""
        return self._threads

    def expect(self, role: int, layouts: Mapping[int, RowLayout], besides: Besides) -> None:
        """Make sure that there will be room for the copy of E (see RowBlocks); workers have Dask's own limits."""
        self._storage.expect(role, layouts, besides)

    def own(self, owner: int, layout: RowLayout, matrix: Matrix, mask: Source | None) -> None:
        """Put the own bins on the workers (see RowBlocks)."""
        assert isinstance(matrix, BinnedMatrix), "workers compute with bins"
        self._cut(layout)
        ranges = tuple(getattr(matrix.ranges, f.name) for f in fields(BinRanges))

        def build(run: int) -> Any:
            rows, worker = layout.rows_of(*self._runs[run]), self._worker_of[run]
            if matrix.bins.table.file is not None:
                return self._cluster.make(
                    Call(worker, tasks.read_bins, [*_in_file(matrix.bins), rows.start, rows.stop])
                )
            return self._keep(worker, np.ascontiguousarray(matrix.bins.codes_of(rows)))

        self._held[owner] = _Held(layout, build, ranges=ranges, key=_key(mask))
        self._place(self._held[owner], range(len(self._runs)))

    def published(self, owner: int) -> Iterator[U64]:
        """Yield E of the own matrix (see RowBlocks), some runs ahead: workers compute it, one run each at a time."""
        held = self._held[owner]
        at_once = max(1, len(set(self._worker_of.values())))

        def masked(runs: Sequence[int]) -> tuple[Callable[..., Any], list[Any]]:
            return tasks.masked_bins, [
                held.ranges,
                astuple(held.layout),
                self._runs[runs[0]],
                held.key,
                held.kept[runs[0]],
            ]

        for first in range(0, len(self._runs), at_once):
            some = range(first, min(len(self._runs), first + at_once))
            done = self._done_by_runs(held, masked, some, together=False)
            for run in some:
                yield from done[run]

    def receive(self, owner: int, layout: RowLayout, key: int | None = None) -> None:
        """Make room for E (see RowBlocks)."""
        self._cut(layout)
        stored = owner if key is None else key

        def build(run: int) -> Any:
            first, count = self._runs[run]
            tiles = [v for b in range(first, first + count) for v in self._storage.store.tiles(stored, layout.tiles(b))]
            return self._keep(self._worker_of[run], tiles)

        self._held[owner] = _Held(layout, build, stored=stored)

    def put(self, owner: int, tile: Tile, values: U64) -> None:
        """Keep a tile of E, and hand it on with the last one of its run (see RowBlocks)."""
        held = self._held[owner]
        self._storage.store.put(held.stored, tile, values)
        run = tile.block // self._runs[0][1]
        last = held.layout.tiles(sum(self._runs[run]) - 1)[-1]
        if tile.start == last.start:
            self._place(held, [run])
            if run == len(self._runs) - 1:
                _log.info("%s of a masked matrix are on the workers", bytes_text(held.layout.octets))

    def expand(self, owner: int, layout: RowLayout, mask: Source, keep: bool) -> None:
        """Take in the stream of A (see RowBlocks); a worker expands its part anew for every product."""
        self._cut(layout)
        self._held[owner] = _Held(layout, None, key=_key(mask))

    def times(self, owner: int, added: Sequence[U64], taken: Sequence[U64] = ()) -> U64:
        """Return the product with a matrix (see RowBlocks): each worker adds up over its own rows."""
        held = self._held[owner]

        def product(runs: Sequence[int]) -> tuple[Callable[..., Any], list[Any]]:
            there = [self._runs[run] for run in runs]
            vectors = [combined(added, taken, held.layout.rows_of(*run)) for run in there]
            kept = [held.kept[run] for run in runs] if held.build is not None else []
            if held.ranges:
                return tasks.times_bins, [held.ranges, kept, _Sent(vectors)]
            if held.build is not None:
                return tasks.times_tiles, [astuple(held.layout), there, kept, _Sent(vectors)]
            return tasks.times_stream, [astuple(held.layout), there, held.key, _Sent(vectors)]

        out = np.zeros((len(added[0]), held.layout.columns), np.uint64)
        for part in self._done_by_runs(held, product, range(len(self._runs)), together=True).values():
            out += part
        return out

    def column(self, owner: int, index: int) -> Bits:
        """Return a column of the own matrix (see RowBlocks): each worker its rows."""
        held = self._held[owner]

        def bits(runs: Sequence[int]) -> tuple[Callable[..., Any], list[Any]]:
            return tasks.column_bits, [held.ranges, index, [held.kept[run] for run in runs]]

        done = self._done_by_runs(held, bits, range(len(self._runs)), together=False)
        return np.concatenate([part for run in sorted(done) for part in done[run]])

    def close(self) -> None:
        """Let go of everything, here and on the workers; the copy of E goes with its storage (see RowBlocks)."""
        self._held.clear()
        self._threads.close()

    def _cut(self, layout: RowLayout) -> None:
        """Cut the rows into runs and deal them to the workers, in order, once for all matrices."""
        if self._runs:
            return
        workers = self._cluster.workers(least=1)
        count = max(1, min(RUN_BLOCKS, layout.blocks // (RUNS_PER_WORKER * len(workers))))
        self._runs = [(b, min(count, layout.blocks - b)) for b in range(0, layout.blocks, count)]
        self._worker_of = {i: workers[i * len(workers) // len(self._runs)] for i in range(len(self._runs))}
        _log.info("work on %d rows is done by %d workers", layout.rows, len(set(self._worker_of.values())))

    def _place(self, held: _Held, runs: Sequence[int]) -> None:
        """Make sure that runs of a matrix are with their workers, on others if those are lost."""
        losses = 0
        while missing := [run for run in runs if held.build is not None and run not in held.kept]:
            run = missing[0]
            assert held.build is not None
            kept = held.build(run)
            if isinstance(kept, Lost):
                losses += 1
                self._move([run], losses)
            else:
                held.kept[run] = kept

    def _keep(self, worker: str, values: Any) -> Any:
        kept = self._cluster.keep(worker, [values])
        return kept if isinstance(kept, Lost) else kept[0]

    def _move(self, runs: Sequence[int], losses: int) -> None:
        """Give runs to the workers that have the fewest; what they had of any matrix has to be built again."""
        if losses > _MOST_LOSSES:
            text = (
                f"workers were lost {losses} times in one step; look at their logs (is there enough memory?), and "
                "start this role again to go on"
            )
            raise WorkersError(text, "few", "workers", losses)
        there = self._cluster.workers(least=1)
        load = Counter(dict.fromkeys(there, 0))
        load.update(worker for run, worker in self._worker_of.items() if run not in runs and worker in load)
        for lost in sorted({self._worker_of[run] for run in runs}):
            _log.warning("the worker %s is lost; its rows go to others", lost)
        for run in runs:
            worker = min(there, key=lambda one: (load[one], one))
            self._worker_of[run] = worker
            load[worker] += 1
            for held in self._held.values():
                held.kept.pop(run, None)

    def _done_by_runs(
        self,
        held: _Held,
        task: Callable[[Sequence[int]], tuple[Callable[..., Any], list[Any]]],
        runs: Sequence[int],
        together: bool,
    ) -> dict[int, Any]:
        """Return what a task gives for runs: one result for all runs of a worker, by the first of them, or one each.

        What a lost worker did not return is done again by those who have its runs now.
        """
        done: dict[int, Any] = {}
        left, losses = list(runs), 0
        while left:
            self._place(held, left)
            groups: dict[Any, list[int]] = {}
            for run in left:
                groups.setdefault(self._worker_of[run] if together else run, []).append(run)
            left = []
            for some, outcome in zip(groups.values(), self._call([*groups.values()], task), strict=True):
                if isinstance(outcome, Lost):
                    left += some
                else:
                    done[some[0]] = outcome
            if left:
                losses += 1
                self._move(left, losses)
        return done

    def _call(
        self, groups: Sequence[list[int]], task: Callable[[Sequence[int]], tuple[Callable[..., Any], list[Any]]]
    ) -> list[Any]:
        """Run a task for groups of runs, each on the worker of its group."""
        calls: list[Call | Lost] = []
        for runs in groups:
            worker = self._worker_of[runs[0]]
            function, arguments = task(runs)
            sent = [i for i, argument in enumerate(arguments) if isinstance(argument, _Sent)]
            kept = self._cluster.keep(worker, [arguments[i].arrays for i in sent]) if sent else []
            if isinstance(kept, Lost):
                calls.append(kept)
                continue
            for i, future in zip(sent, kept, strict=True):
                arguments[i] = future
            calls.append(Call(worker, function, arguments))
        results = iter(self._cluster.call([call for call in calls if isinstance(call, Call)]))
        return [next(results) if isinstance(call, Call) else call for call in calls]


@dataclass(frozen=True, slots=True, eq=False)
class _Sent:
    """Arrays that go to the worker by themselves, not with the description of the task."""

    arrays: list[U64] = field(repr=False)


def _in_file(bins: Bins) -> list[Any]:
    """Return what it takes to read bins from their file."""
    file, columns = bins.table.file, bins.table.columns
    assert file is not None
    categories = [column.categories for column in columns]
    return [str(file.path), file.footer, bins.table.names, categories, bins.edges, bins.counts]


def _key(mask: Source | None) -> bytes:
    if mask is None:
        return b""
    assert isinstance(mask, Stream), "workers expand key streams"
    return mask.key
