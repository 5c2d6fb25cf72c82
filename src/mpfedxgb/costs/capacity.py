"""Whether a machine has room for a training whose sizes are known, and what to do if it has not.

In a session each role learns the sizes, forecasts its own costs, notes them, and refuses what it has no room for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import Resources
from mpfedxgb.costs.forecast import Basis, role_forecast
from mpfedxgb.costs.seconds import estimate_role_seconds, seconds_at_start
from mpfedxgb.errors import NoRoomError
from mpfedxgb.machine import free_disk, free_memory, used_memory
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.storage import is_in_memory, matrix_bytes
from mpfedxgb.training.memory import bytes_besides, layouts_of, margin_bytes, peak_bytes, simulation_bytes
from mpfedxgb.tree.level import TableSizes
from mpfedxgb.units import bytes_text

Need = Callable[[TableSizes], int]
"""From sizes to bytes of memory."""


def check_limits(here: Collection[int], params: TrainParams, sizes: TableSizes, limits: Resources) -> bool:
    """Return whether E of the roles of a process goes to its spool; raise NoRoomError where that is not to be had."""
    return not is_in_memory(limits, matrix_bytes(here, layouts_of(sizes)), bytes_besides(params, sizes, here))


def check_simulation(
    params: TrainParams, sizes: TableSizes, in_spool: bool = False, of_categories: Sequence[int] | None = None
) -> None:
    """Raise NoRoomError if all roles together do not fit this process.

    `of_categories` is how many of each participant's candidate columns are of categories, if that is known.
    """
    need = partial(simulation_bytes, params, in_spool=in_spool)
    _check_memory("a simulation", need, params, sizes, of_categories=of_categories)


def check_role(
    name: str,
    role: int,
    params: TrainParams,
    sizes: TableSizes,
    folder: Path,
    max_memory: int | None = None,
    in_spool: bool = False,
) -> None:
    """Raise NoRoomError where a role does not fit this process, or the margins it keeps do not fit its folder's disk.

    Trees take less, and how much depends on how they grow: a disk that is full of them is met when it is.
    """
    _check_memory(name, partial(peak_bytes, role, params, in_spool=in_spool), params, sizes, max_memory)
    needed, free = margin_bytes(role, params, sizes), free_disk(folder)
    if free is not None and needed > free:
        text = f"{name} would need {bytes_text(needed)} of disk for {_described(sizes)}"
        raise NoRoomError(
            text,
            f", and there are {bytes_text(free)} left where {folder} is; make room, or move [role] state",
            parameter=name,
            value=needed,
        )


def _check_memory(
    name: str,
    need: Need,
    params: TrainParams,
    sizes: TableSizes,
    max_memory: int | None = None,
    of_categories: Sequence[int] | None = None,
) -> None:
    most, needed = _most_memory(max_memory), need(sizes)
    if most is None or needed <= most:
        return
    limit = "max_memory allows" if most == max_memory else "this machine has for it"
    fewer = _fewer_candidates(need, params, sizes, most, of_categories)
    text = f"{name} would need {bytes_text(needed)} of memory for {_described(sizes)}"
    raise NoRoomError(
        text,
        f", and {bytes_text(most)} is what {limit}; {fewer}train on fewer rows or columns, set "
        "max_memory and a spool, or take a machine with more memory (mpfedxgb plan tells how much)",
        parameter=name,
        value=needed,
    )


def _most_memory(max_memory: int | None) -> int | None:
    """Return how much this process may take in all."""
    free, used = free_memory(), used_memory()
    known = [max_memory, None if free is None else free + used]
    return min((most for most in known if most is not None), default=None)


def _fewer_candidates(
    need: Need, params: TrainParams, sizes: TableSizes, most: int, of_categories: Sequence[int] | None
) -> str:
    """Return remedies: which max_bin would do, with which candidate columns of numbers grow, and fewer categories."""
    fixed = of_categories or (0,) * len(sizes.columns)
    which = f"({sum(fixed)} candidate columns are categories, which max_bin does not limit)"
    group = f"group rare categories {which}, " if sum(fixed) else ""
    bins = params.max_bin
    while bins > 2:
        bins = bins * 3 // 4
        columns = tuple(-(-(n - f) * bins // params.max_bin) + f for n, f in zip(sizes.columns, fixed, strict=True))
        if need(replace(sizes, columns=columns)) <= most:
            unless = " if all columns hold numbers" if of_categories is None else ""
            return f"lower max_bin, of which {max(2, bins)} would do{unless}, {group}"
    return group


def _described(sizes: TableSizes) -> str:
    return f"{sizes.all_rows} rows and {sum(sizes.columns)} candidate columns"


_log = logging.getLogger("mpfedxgb.session")


class Capacity(Observer):
    """Ends a training at all roles, before a matrix is sent, if this role's machine has no room for it.

    The forecast goes to the log, and as a milestone to the record. Kept rounds need room in the `folder`.
    """

    def __init__(self, limits: Resources, folder: Path) -> None:
        self._limits, self._folder = limits, folder

    def on_sizes(self, party: Party, params: TrainParams, sizes: TableSizes) -> None:
        """Forecast what it takes, say so, and refuse what is too much."""
        basis = Basis(params, sizes, party.roster, party.settings, keeps_rounds=True)
        own = role_forecast(basis, party.role)
        if own is not None:
            if not party.is_coordinator:  # which is idle most of the time, and knows nothing of rounds
                seconds = seconds_at_start(partial(estimate_role_seconds, basis, party.role, own.counts))
                own = replace(own, seconds=seconds)
            _log.info("%s", own.summary)
            party.observer.on_milestone({"forecast": own.to_dict()})
        spooled = check_limits([party.role], params, sizes, self._limits)
        check_role(party.name, party.role, params, sizes, self._folder, in_spool=spooled)
