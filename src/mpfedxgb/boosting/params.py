"""Parameters of a training, frozen and public. Unknown or impossible values are refused here, before anything runs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from mpfedxgb.boosting.objective import Objective, ScalePolicy
from mpfedxgb.boosting.objectives import OBJECTIVES, objective_error, objective_of
from mpfedxgb.boosting.xgboost_rules import RULES
from mpfedxgb.errors import SettingsError, UnknownParameterError, raise_all
from mpfedxgb.modes.facts import FACTS, Facts
from mpfedxgb.schema.kinds import suggestion
from mpfedxgb.schema.training import ALIASES, REFUSED, SHARED, wrong_values


@dataclass(frozen=True, slots=True)
class TrainParams:
    """What all roles know of a training; names, meanings and defaults are XGBoost's but for docs/parameters.md."""

    # generated: shared
    objective: str = "binary:logistic"
    num_class: int = 1
    n_estimators: int = 100
    max_depth: int = 3
    max_bin: int = 32
    learning_rate: float = 0.3
    reg_lambda: float = 1.0
    gamma: float = 0.0
    min_child_weight: float = 1.0
    subsample: float = 1.0
    colsample_bytree: float = 1.0
    weighted: bool = False
    first_layer_mask: bool = False
    may_stop_early: bool = False
    security: str = "strict"
    binning: str = "quantile"
    leaf_epsilon: float = 1e-06
    xgboost_rules: str = "3.4"
    # end of generated

    def __post_init__(self) -> None:
        """Refuse what cannot work, all at once, naming parameters, values and remedies."""
        raise_all(self._wrong_alone())
        raise_all(self._wrong_in_mode())

    def _wrong_alone(self) -> Iterator[SettingsError]:
        """Yield what is wrong with single parameters."""
        if self.objective not in tuple(OBJECTIVES):  # a file may hold anything, also what has no hash
            yield objective_error(self.objective, "is not known", f"it is one of {', '.join(OBJECTIVES)}")
        yield from wrong_values({name: getattr(self, name) for name in SHARED if name != "objective"})

    def _wrong_in_mode(self) -> Iterator[SettingsError]:
        """Yield what the mode does not cover."""
        if self.facts.scales(self.loss, False) is None:
            covered = [name for name, loss in OBJECTIVES.items() if self.facts.scales(loss, False) is not None]
            named = "a callable objective" if self.loss.is_custom else f"objective={self.objective!r}"
            why = self.facts.covers_why
            text = f"{named} is not covered by security={self.security!r}{why}; use {' or '.join(covered)}"
            yield SettingsError(f"{text}, or security='strict'", "mode", "objective", self.objective)
        for name, parameter in SHARED.items():
            value = getattr(self, name)
            if fault := parameter.fault_in(value, self.security):
                text = f"{name}={value!r} {fault.problem}; {fault.remedy}"
                yield SettingsError(text, fault.code, name, value)

    @property
    def facts(self) -> Facts:
        """What is public about the mode."""
        return FACTS[self.security]

    def as_protected(self) -> TrainParams:
        """Return the parameters that give the same model under secret sharing."""
        return replace(self, security=self.facts.same_model_as)

    def check_rules(self) -> None:
        """Raise SettingsError unless trees are to follow the rules that trainings here follow."""
        if self.xgboost_rules != RULES:
            raise SettingsError(
                f"xgboost_rules={self.xgboost_rules!r} are the rules of older models, which are only scored; trainings "
                f"follow {RULES!r}: leave it out, or train with the version of mpfedxgb that has those"
            )

    @property
    def loss(self) -> Objective:
        """All that is known of the objective."""
        return objective_of(self.objective, self.num_class)

    @property
    def scale_policy(self) -> ScalePolicy:
        """How g and h become integers."""
        policy = self.facts.scales(self.loss, self.weighted)
        assert policy is not None, "the mode covers the objective"
        return policy

    @property
    def trees_per_round(self) -> int:
        """One tree, or one per class."""
        return self.loss.trees_per_round(self.num_class)

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as plain values."""
        return asdict(self)

    def to_json(self) -> str:
        """Return what the handshake compares: the parameters as text, always the same for the same."""
        return json.dumps(self.to_dict(), sort_keys=True)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainParams:
        """Return parameters from plain values; refuse unknown names, and XGBoost's that cannot be expressed."""
        known = [f.name for f in fields(cls)]
        raise_all(unknown_parameter(name, known) for name in values if name not in known)
        return cls(**values)


def unknown_parameter(name: str, known: Collection[str]) -> UnknownParameterError:
    """Return why there is no such parameter, or what it is called."""
    if name in REFUSED:
        return UnknownParameterError(f"{name} is not supported: {REFUSED[name].reason}", "refused", name)
    hint = f"it is called {ALIASES[name]} here" if ALIASES.get(name) in known else ""
    hint = hint or suggestion(name, known, "the parameters are")
    return UnknownParameterError(f"there is no parameter {name}; {hint}", "unknown", name)
