"""How far a training is: what a role remembers after a round, and what whoever keeps it has to offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mpfedxgb.tree.nodes import Tree


@dataclass(frozen=True, slots=True)
class EvaluationState:
    """What the active participant remembers besides the trees: margins, metrics, and the scale of the first tree.

    Of a sealed training every participant has one, with its shares of the margins; the rest is the active one's.
    """

    margins: npt.NDArray[np.int64] = field(repr=False)
    metrics: dict[str, dict[str, list[float]]] = field(default_factory=dict, repr=False)
    best_iteration: int | None = None
    best_value: float | None = None
    scale: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class State:
    """Where a role is after some rounds; `finished` if the active participant has decided to stop there.

    `mark` tells of shares in which attempts they were made, the same at all roles; empty where there are none. `common`
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
