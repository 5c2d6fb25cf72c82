"""Who looks on while a role runs: its record, a progress bar, a live page, what watches over its machine, a study.

One observer is handed over with the program (`run_role`, `run_locally`) and stays to the end; `Observers` are several.
What users pass as `callbacks` is something else: XGBoost's, for P_1's metrics and models (`boosting/callbacks.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpfedxgb.party.party import Party

Stop = Callable[[BaseException], None]
"""Ends a role's run from another thread: the peers receive the reason, and it waits for them no more."""


class Observer:
    """Hears of one role's run. Every method does nothing; override what is needed.

    What a method raises ends the run at all roles, as any error of the program does: so a role stops the others whose
    record cannot be written, or which has no room.
    """

    def on_start(self, stop: Stop) -> None:
        """Hear that the role begins, before it has greeted anybody, and how another thread can end it."""

    def on_meeting(self, party: Party) -> None:
        """Hear that all roles are there and have agreed on the session; the program begins after it."""

    def on_sizes(self, party: Party, params: Any, sizes: Any) -> None:
        """Hear how large a training will be (TrainParams, TableSizes), before anything of that size is made."""

    def on_progress(self, what: str) -> None:
        """Hear which round or level of a training begins."""

    def on_steps(self, what: str, done: int, of: int) -> None:
        """Hear how many steps of a comparison of ids are done; `what` is compared, for messages."""

    def on_reveal(self, name: str, value: Any) -> None:
        """Hear what this role is shown under a name of its ledger: numbers, or ring elements."""

    def on_milestone(self, more: Mapping[str, Any]) -> None:
        """Hear that something is settled: the kind of a session, a round before it is kept, a batch that was scored.

        `more` is what only the program knows of it; what was revealed so far is on the ledger.
        """

    def on_round(self, done: int, of: int) -> None:
        """Hear how many boosting rounds are done and kept."""

    def on_files(self, are_taken_up: bool) -> None:
        """Hear that tables or models have changed while this role serves, and whether they can be used."""

    def on_end(self, error: BaseException | None) -> None:
        """Hear how the run has ended, when this role's connections are closed."""


def _tell_each(name: str) -> Any:
    """Return a method of `Observers` that calls the one of this name of each of them."""

    def tell(self: Observers, *what: Any) -> None:
        for one in self.each:
            getattr(one, name)(*what)

    return tell


class Observers(Observer):
    """Several observers, called in turn; if one raises, those after it are not called."""

    def __init__(self, *observers: Observer | None) -> None:
        self.each = [one for one in observers if one is not None]

    on_start = _tell_each("on_start")
    on_meeting = _tell_each("on_meeting")
    on_sizes = _tell_each("on_sizes")
    on_progress = _tell_each("on_progress")
    on_steps = _tell_each("on_steps")
    on_reveal = _tell_each("on_reveal")
    on_milestone = _tell_each("on_milestone")
    on_round = _tell_each("on_round")
    on_files = _tell_each("on_files")

    def on_end(self, error: BaseException | None) -> None:
        """Call all of them, even if one raises."""
        with ExitStack() as stack:
            for one in reversed(self.each):
                stack.callback(one.on_end, error)
