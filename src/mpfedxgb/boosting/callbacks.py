"""Who hears of a training while it runs, at the active participant: functions of a report, or XGBoost's callbacks.

XGBoost's are objects with before_training, before_iteration, after_iteration and after_training. The model that they
are given is the active participant's own part so far: in a federation nobody has more.

How far a training is: what a role remembers after a round, and what its keeper has to offer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.errors import SettingsError, UserError
from mpfedxgb.tree.nodes import Tree

Metrics = Mapping[str, Mapping[str, list[float]]]

_METHODS = ("before_training", "before_iteration", "after_iteration", "after_training")
_NOT_HERE = {
    "EarlyStopping": "early_stopping_rounds does that",
    "LearningRateScheduler": "the learning rate is a parameter that all roles agree on before the training",
    "TrainingCheckPoint": "a federation keeps checkpoints by itself, and an estimator has save_model",
}
"""XGBoost's own callbacks that change its Booster, of which there is none here, and what to do instead."""


@dataclass(frozen=True, slots=True)
class RoundReport:
    """What functions receive after each boosting round: its number, the metrics so far, rounds and bytes of this role.

    `model` is the active participant's part of the model so far.
    """

    iteration: int
    iterations: int
    metrics: dict[str, dict[str, list[float]]]
    communication_rounds: int
    bytes_sent: int
    model: PartialModel | None = field(default=None, compare=False, repr=False)


Listener = Callable[[RoundReport], Any]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Everybody who wants to hear of a training: functions of a RoundReport, and objects of XGBoost's kind."""

    functions: Sequence[Listener] = ()
    observers: Sequence[Any] = ()

    @classmethod
    def read(cls, given: Iterable[Any]) -> Callbacks:
        """Return callbacks sorted by their kind; refuses what is neither, and XGBoost's own that cannot work here."""
        functions, observers = [], []
        for one in given:
            kinds = {kind.__name__ for kind in type(one).__mro__ if kind.__module__.startswith("xgboost.")}
            for name in sorted(kinds & set(_NOT_HERE)):
                text = f"callbacks: xgboost's {name} changes a Booster; leave it out, {_NOT_HERE[name]}"
                raise SettingsError(text, "refused", "callbacks", name)
            if any(callable(getattr(one, method, None)) for method in _METHODS):
                observers.append(one)
            elif callable(one):
                functions.append(one)
            else:
                remedy = f"give functions of a RoundReport, or objects with {', '.join(_METHODS)}"
                raise SettingsError(f"callbacks: {one!r} is not understood; {remedy}", "type", "callbacks", one)
        return cls(functions, observers)

    def begin(self, model: PartialModel, t: int, metrics: Metrics) -> None:
        """Say that the training begins, and then its first round."""
        self._each("before_training", model)
        if self.before(model, t, metrics):
            text = (
                "a callback stopped the training before its first round, so there would be no model; let it return "
                "True later"
            )
            raise UserError(text, "few", "callbacks")

    def before(self, model: PartialModel | None, t: int, metrics: Metrics) -> bool:
        """Say that round t comes next, and return whether it should not."""
        return self._each("before_iteration", model, t, metrics)

    def after(self, report: RoundReport) -> bool:
        """Say that a round is done, and return whether it was the last."""
        stop = [bool(function(report)) for function in self.functions]
        return self._each("after_iteration", report.model, report.iteration, report.metrics) or any(stop)

    def end(self, model: PartialModel) -> None:
        """Say that the training has ended."""
        self._each("after_training", model)

    def _each(self, method: str, *arguments: Any) -> bool:
        """Call a method of all who have it, and return whether one of them answered with something true."""
        calls = [getattr(observer, method, None) for observer in self.observers]
        answers = [bool(call(*arguments)) for call in calls if callable(call)]
        return any(answers)


@dataclass(frozen=True, slots=True)
class EvaluationState:
    """What the active participant remembers besides the trees: margins, metrics, and the scale of the first tree.

    Of a sealed training every participant has one, with its shares of the margins; the rest is the active one's. With
    dart it has the scales of all trees, and the leaves of each in which rows are.
    """

    margins: npt.NDArray[np.int64] = field(repr=False)
    metrics: dict[str, dict[str, list[float]]] = field(default_factory=dict, repr=False)
    best_iteration: int | None = None
    best_value: float | None = None
    scale: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    tree_scales: tuple[float, ...] = field(default=(), repr=False)
    leaves: Sequence[npt.NDArray[np.uint16]] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class State:
    """Where a role is after some rounds; `finished` if the active participant has decided to stop there.

    `mark` tells of shares in which attempts they were made, the same at all roles; empty if there are none. `common`
    is the last round that all participants are known to have kept by then.
    """

    rounds: int
    finished: bool = False
    trees: Sequence[Tree] = field(default=(), repr=False)
    evaluation: EvaluationState | None = None
    mark: str = ""
    common: int = 0


class Progress(Protocol):
    """Where a training keeps its states."""

    def newest(self) -> int:
        """Return the number of rounds of the newest state that can be used; 0 if there is none."""
        ...

    def common(self) -> int:
        """Return the last round that all participants are known to have kept; nobody goes on from an earlier one."""
        ...

    def fits(self, labels: str) -> bool:
        """Return whether the kept rounds are of labels with this commitment; those kept from now on will be."""
        ...

    def load(self, rounds: int) -> State:
        """Return the state after that many rounds, which all have, and forget later ones: they will be made again."""
        ...

    def save(self, state: State) -> None:
        """Keep a state."""
        ...

    def finish(self, model: PartialModel) -> None:
        """Keep the model, once all participants have kept the last round."""
        ...


class NothingKept:
    """Progress of the coordinator, which hears from the participants where to go on, and of who keeps no rounds."""

    def newest(self) -> int:
        """Return no rounds: nobody asks the coordinator."""
        return 0

    def common(self) -> int:
        """Return no rounds."""
        return 0

    def fits(self, labels: str) -> bool:
        """Return that nothing kept is of other labels."""
        return True

    def load(self, rounds: int) -> State:
        """Return where the participants go on."""
        return State(rounds)

    def save(self, state: State) -> None:
        """Keep nothing."""

    def finish(self, model: PartialModel) -> None:
        """Keep no model."""
