"""Parameters of a training, frozen and public. Unknown or impossible values are refused here, before anything runs.

Below them the edge rules of one XGBoost release, by name: which sides may be split apart, and which leaves weigh
nothing. The name stands in model files, in the parameters that all roles agree on and in what a checkpoint belongs to
(ADR 0026). When a release changes a rule, its name changes here, and so does what these functions answer.

Rules "3.4" (XGBoost's pull requests 12296 and 12322): a candidate is valid only if both sides have H > 0 and
H >= min_child_weight; the others are void before candidates compete. A leaf weighs -G / (H + lambda), however light it
is, and 0 only if none of its rows has a hessian. max_delta_step is 0.7 in count:poisson unless it is given.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from mpfedxgb.boosting.objective import Floats, Objective, ScalePolicy
from mpfedxgb.boosting.objectives import OBJECTIVES, default_step, objective_error, objective_of
from mpfedxgb.errors import SettingsError, UnknownParameterError, raise_all
from mpfedxgb.modes.facts import FACTS, Facts
from mpfedxgb.schema.training import (
    ALIASES,
    BY_NAME,
    OF_OBJECTIVES,
    OF_OTHERS,
    REFUSED,
    SHARED,
    changes_nothing,
    suggestion,
    wrong_values,
)

RULES, UNNAMED = BY_NAME["xgboost_rules"].kind.choices
"""The rules that trainings follow, and those of model files and checkpoints that name none: there a root lighter than
min_child_weight weighs 0, and a candidate with a side of no hessian competes by its other side and, if it is the best,
leaves its node a leaf."""


@dataclass(frozen=True, slots=True)
class TrainParams:
    """What all roles know of a training; names, meanings and defaults are XGBoost's but for docs/parameters.md."""

    # generated: shared
    objective: str = "binary:logistic"
    num_class: int = 1
    n_estimators: int = 100
    num_parallel_tree: int = 1
    max_depth: int = 3
    max_bin: int = 32
    learning_rate: float = 0.3
    reg_lambda: float = 1.0
    reg_alpha: float = 0.0
    max_delta_step: float | None = None
    constrained: bool = False
    gamma: float = 0.0
    min_child_weight: float = 1.0
    subsample: float = 1.0
    colsample_bytree: float = 1.0
    colsample_bylevel: float = 1.0
    colsample_bynode: float = 1.0
    booster: str = "gbtree"
    rate_drop: float = 0.0
    skip_drop: float = 0.0
    one_drop: bool = False
    sample_type: str = "uniform"
    normalize_type: str = "tree"
    huber_slope: float = 1.0
    tweedie_variance_power: float = 1.5
    quantile_alpha: float | Sequence[float] = 0.5
    lambdarank_pair_method: str = "topk"
    lambdarank_num_pair_per_sample: int | None = None
    lambdarank_normalization: bool = True
    lambdarank_score_normalization: bool = True
    ndcg_exp_gain: bool = True
    aft_loss_distribution: str = "normal"
    aft_loss_distribution_scale: float = 1.0
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
        alphas = self.quantile_alpha
        if isinstance(alphas, (list, tuple)):  # as a file has them; one is the same alone
            object.__setattr__(self, "quantile_alpha", alphas[0] if len(alphas) == 1 else tuple(alphas))
        raise_all(self._wrong_alone())
        raise_all(self._wrong_in_mode())

    def _wrong_alone(self) -> Iterator[SettingsError]:
        """Yield what is wrong with single parameters."""
        if self.objective not in tuple(OBJECTIVES):  # a file may hold anything, also what has no hash
            yield objective_error(self.objective, "is not known", f"it is one of {', '.join(OBJECTIVES)}")
        yield from wrong_values({name: getattr(self, name) for name in SHARED if name != "objective"})
        for name, objectives in OF_OBJECTIVES.items():
            value = getattr(self, name)
            if value != SHARED[name].default and self.objective not in objectives:
                known = ", ".join(objectives)
                text = f"{name}={value!r} does not go with objective={self.objective!r}; it is for {known}"
                yield SettingsError(f"{text}: leave it out", "choice", name, value)

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
        """Return the parameters that give the same model under secret sharing, even if that refuses some of them."""
        protected = copy(self)
        object.__setattr__(protected, "security", self.facts.same_model_as)
        return protected

    def check_rules(self) -> None:
        """Raise SettingsError unless trees are to follow the rules that trainings here follow."""
        if self.xgboost_rules != RULES:
            text = (
                f"xgboost_rules={self.xgboost_rules!r} are the rules of older models, which are only scored; trainings "
                f"follow {RULES!r}: leave it out, or train with the version of mpfedxgb that has those"
            )
            raise SettingsError(text, "version", "xgboost_rules", self.xgboost_rules)

    @property
    def drops_trees(self) -> bool:
        """Whether a boosting round may leave earlier trees out, and trees have scales, whatever booster says."""
        return self.rate_drop > 0 or self.one_drop

    def check_continued(self) -> None:
        """Raise SettingsError if no training goes on from a model."""
        if self.facts.not_continued:
            text = f"security={self.security!r} goes on from no model: {self.facts.not_continued}"
            raise SettingsError(text, "mode", "security", self.security)
        if self.drops_trees:
            text = (
                f"a training with rate_drop={self.rate_drop!r} goes on from no model: to leave its trees out takes the "
                "leaf of every row in each of them, which nobody knows any more; train all boosting rounds at once"
            )
            raise SettingsError(text, "mode", "rate_drop", self.rate_drop)

    @property
    def loss(self) -> Objective:
        """All that is known of the objective."""
        return objective_of(self.objective, self.num_class, self.of_objectives)

    @property
    def of_objectives(self) -> dict[str, Any]:
        """The parameters that change one objective, or a metric."""
        return {name: getattr(self, name) for name in OF_OBJECTIVES} | {"max_delta_step": self.largest_step}

    @property
    def scale_policy(self) -> ScalePolicy:
        """How g and h become integers."""
        policy = self.facts.scales(self.loss, self.weighted)
        assert policy is not None, "the mode covers the objective"
        return policy

    @property
    def h_factor(self) -> float:
        """What hessians are over what is computed in their place, where that is another number."""
        form = self.loss.sealed
        return form.h_factor if form is not None and self.facts.hides_rows else 1.0

    @property
    def outputs(self) -> int:
        """Margins of a row: one, or one per class."""
        return self.loss.outputs(self.num_class)

    @property
    def trees_per_round(self) -> int:
        """num_parallel_tree of every class, class by class."""
        return self.outputs * self.num_parallel_tree

    def output_of(self, tree: int) -> int:
        """Return the margin that a tree adds to, its class, from its number in the model."""
        return tree % self.trees_per_round // self.num_parallel_tree

    @property
    def samples_columns(self) -> bool:
        """Whether some columns take no part in a tree, a level or a node."""
        return min(self.colsample_bytree, self.colsample_bylevel, self.colsample_bynode) < 1

    @property
    def tree_rate(self) -> float:
        """What a leaf weight is multiplied by: the parallel trees of a round share the learning rate, as in XGBoost."""
        return self.learning_rate / self.num_parallel_tree

    @property
    def largest_step(self) -> float:
        """The bound on leaf weights before the learning rate; 0 stands for none."""
        return default_step(self.objective) if self.max_delta_step is None else self.max_delta_step

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as plain values, as JSON gives them back."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def to_json(self) -> str:
        """Return what the handshake compares: the parameters as text, always the same for the same."""
        return json.dumps(self.to_dict(), sort_keys=True)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainParams:
        """Return parameters from plain values; refuse unknown names, and XGBoost's that cannot be expressed."""
        known = [f.name for f in fields(cls)]
        unknown = [name for name, value in values.items() if name not in known and not changes_nothing(name, value)]
        raise_all(unknown_parameter(name, known) for name in unknown)
        return cls(**{name: value for name, value in values.items() if name in known})


def check_scale_pos_weight(loss: Objective, value: float) -> None:
    """Raise SettingsError if XGBoost would ignore a scale_pos_weight."""
    if value != 1 and not loss.scales_positives:
        known = ", ".join(name for name, one in OBJECTIVES.items() if one.scales_positives)
        text = f"scale_pos_weight={value!r} does not go with objective={loss.name!r}; it is for {known}: leave it out"
        raise SettingsError(f"{text}, or use row weights", "choice", "scale_pos_weight", value)


def unknown_parameter(name: str, known: Collection[str]) -> UnknownParameterError:
    """Return why there is no such parameter, or what it is called."""
    if name in REFUSED:
        return UnknownParameterError(f"{name} is not supported: {REFUSED[name].reason}", "refused", name)
    if name in OF_OTHERS:
        return UnknownParameterError(f"there is no parameter {name}: {OF_OTHERS[name]}", "unknown", name)
    hint = f"it is called {ALIASES[name]} here" if ALIASES.get(name) in known else ""
    hint = hint or suggestion(name, known, "the parameters are")
    return UnknownParameterError(f"there is no parameter {name}; {hint}", "unknown", name)


# The rules of an XGBoost release


def checks_sides(params: TrainParams) -> bool:
    """Return whether the sides of candidates have to be compared with a least hessian."""
    return params.min_child_weight > 0 or tells_zero_hessians(params)


def tells_zero_hessians(params: TrainParams) -> bool:
    """Return whether h~ = 0 has to mean a hessian of 0, so that every other h is rounded to 1 or more.

    That is so where a candidate with a side of no hessian could win, or divide by 0. Named losses have h = 0 only where
    g = 0 too (row weights of 0, rows outside the sample): such a side leaves the other with all of G and H, so it
    scores gamma~ >= 1 less than "no split" and needs no check. A custom loss may have h = 0 beside any g. With
    min_child_weight > 0 the least hessian is 1 or more anyway.
    """
    return params.reg_lambda == 0 or (params.loss.is_custom and params.min_child_weight == 0)


def least_hessian(params: TrainParams, min_child_weight: int) -> int:
    """Return what H~ of both sides is compared with, given min_child_weight in the units of h~, rounded up."""
    return max(1, min_child_weight) if tells_zero_hessians(params) else min_child_weight


def gradients_that_count(g: Floats, h: Floats) -> Floats:
    """Return g (trees, rows), 0 in trees none of whose rows has a hessian: their only leaf weighs nothing.

    Asked of h before rounding: h~ = 0 may stand for 1e-16. Leaves of a split need no such question: H > 0 on its sides.
    """
    return np.where((h > 0).any(axis=1, keepdims=True), g, 0.0)
