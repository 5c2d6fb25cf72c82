"""The modes beside each other: what everybody may ask of one, from a settings file to a report.

How a mode trains is in its own folder, and `mode.py` says what each folder has. This table stands below `boosting/`,
which asks it for what is kept in models.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpfedxgb.errors import SettingsError

if TYPE_CHECKING:
    from mpfedxgb.boosting.objective import Objective, ScalePolicy


def _in_the_clear(objective: Objective, weighted: bool) -> ScalePolicy | None:
    return objective.scale_policy(weighted)


def _paper(objective: Objective, weighted: bool) -> ScalePolicy | None:
    return objective.paper_scale  # no row has a weight there


def _sealed(objective: Objective, weighted: bool) -> ScalePolicy | None:
    form = objective.sealed
    return None if form is None else form.weighted_scale if weighted else form.scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is public about a mode.

    `is_for_real_tables`: otherwise it is there to be studied. `runs_a_protocol`: otherwise one process computes in the
    clear. `shares_leaf_weights`: every participant keeps shares of them, and nobody knows them or sums of gradients;
    otherwise they are P_1's. `hides_rows`: nobody learns anything about a training row; everyone keeps shares of the
    margins, and gradients are computed on secrets. `sums_only`: models tell sums over all trees, never over some.
    `opens_comparisons`: signs of differences of gains are opened, and so are step sizes. `is_exact`: leaf weights are;
    otherwise they are near. `same_model_as` names the mode that gives the same model and takes the same coins.

    `warning` heads every page or table of a run or a model; `summary` ends a summary. `not_continued` says why no
    training goes on from a model, `not_forecast` why its cost is not forecast, and `no_owning_coordinator` why no
    coordinator brings columns. `first_round_differs`: it costs less
    than the others. `covers_why` says why objectives are not covered.
    `scales` is how an objective's g and h become integers, rows with weights or without; None for what is not covered.
    """

    name: str
    is_for_real_tables: bool = False
    runs_a_protocol: bool = True
    shares_leaf_weights: bool = False
    hides_rows: bool = False
    sums_only: bool = False
    opens_comparisons: bool = False
    is_exact: bool = True
    same_model_as: str
    warning: str = ""
    summary: str = ""
    not_continued: str = ""
    not_forecast: str = ""
    no_owning_coordinator: str = ""
    first_round_differs: bool = False
    covers_why: str = ""
    scales: Callable[[Objective, bool], ScalePolicy | None] = _in_the_clear


NONE_WARNING = (
    'NOTHING WAS PROTECTED: security="none" computes in the clear, from all participants\' tables in one process; '
    "for experiments only"
)

STRICT = Facts(name="strict", is_for_real_tables=True, same_model_as="strict")
"""P_1 learns which of its training rows share a leaf, and computes gradients and leaf weights alone."""

SEALED = Facts(
    name="sealed",
    is_for_real_tables=True,
    shares_leaf_weights=True,
    hides_rows=True,
    sums_only=True,
    same_model_as="sealed",
    summary="Sealed: nobody learned anything about a training row.",
    not_continued="somebody would have to know its margins",
    first_round_differs=True,
    covers_why=", which computes gradients on secrets",
    scales=_sealed,
)
"""Nobody learns anything about a training row."""

PAPER = Facts(
    name="paper",
    shares_leaf_weights=True,
    opens_comparisons=True,
    is_exact=False,
    same_model_as="paper",
    warning="security = paper: the paper's algorithms as printed, which reveal more than strict. For study.",
    not_forecast="how far its descent to the leaf weights goes depends on the data; use security='strict'",
    no_owning_coordinator="the coordinator permutes everybody's features and learns where the winners are",
    scales=_paper,
)
"""The paper's algorithms as printed, to be studied."""

NONE = Facts(name="none", runs_a_protocol=False, same_model_as="strict", warning=NONE_WARNING)
"""One process computes the model of strict in the clear, for experiments."""

FACTS = {facts.name: facts for facts in (STRICT, SEALED, PAPER, NONE)}


def facts_of(security: object) -> Facts:
    """Return the facts of a mode; those of strict for what names none, and is refused elsewhere or is no training."""
    return FACTS.get(str(security), STRICT)


FOR_REAL_TABLES = tuple(name for name, facts in FACTS.items() if facts.is_for_real_tables)


def check_for_real_tables(security: str, what: str) -> None:
    """Raise SettingsError unless what the command line gives as --security is a mode for real tables."""
    if security not in FOR_REAL_TABLES:
        text = f"--security {security} is not for {what}; it is one of {', '.join(FOR_REAL_TABLES)}"
        raise SettingsError(text, "mode", "security", security)


def check_coordinator(facts: Facts, owner: str | None) -> None:
    """Raise SettingsError if a coordinator, the `owner`, brings columns for which a mode has no place."""
    if owner is not None and facts.no_owning_coordinator:
        text = (
            f"coordinator={owner!r} brings columns, which does not go with security={facts.name!r}: "
            f"{facts.no_owning_coordinator}; use security='strict', or a coordinator without columns"
        )
        raise SettingsError(text, "mode", "coordinator", owner)


def check_runs_a_protocol(facts: Facts, what: str = "a federation") -> None:
    """Raise SettingsError if everything would be computed in the clear, for which no federation is needed."""
    if not facts.runs_a_protocol:
        text = (
            f"security={facts.name!r} protects nothing, so it is not for {what}: one process computes in the clear, "
            "from everybody's tables; use security='strict', or for experiments with tables that are in one place "
            f"mpfedxgb simulate --security {facts.name}"
        )
        raise SettingsError(text, "mode", "security", facts.name)
