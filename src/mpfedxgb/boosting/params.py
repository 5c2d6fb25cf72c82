"""Parameters of a training, frozen and public. Unknown or impossible values are refused here, before anything runs."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from mpfedxgb.boosting.objective import Objective, ScalePolicy
from mpfedxgb.boosting.objectives import IN_PAPER_MODE, IN_SEALED_MODE, OBJECTIVES, objective_error, objective_of
from mpfedxgb.boosting.xgboost_rules import KNOWN, RULES
from mpfedxgb.errors import SettingsError, UnknownParameterError

STRICT, SEALED, PAPER = "strict", "sealed", "paper"
SECURITY = (STRICT, SEALED, PAPER)
"""What is revealed (docs/what-each-party-sees.md): rows that share a leaf, to the active participant; nothing of any
training row, to nobody; what the paper's algorithms show as printed."""

FOR_WORK = (STRICT, SEALED)
"""The modes for real tables; "paper" is there to be studied."""

UNPROTECTED = "none"
"""The model of "strict", computed in the open by one process that has all tables: for experiments, in no federation."""

BINNING = ("quantile", "paper")
"""How columns are cut: buckets of equal frequency with heavy values apart, or the greedy sketch of the paper's code."""

REFUSED = {
    "reg_alpha": "an L1 penalty needs the sign of G under secret sharing; use reg_lambda",
    "alpha": "an L1 penalty needs the sign of G under secret sharing; use reg_lambda",
    "max_delta_step": "a clipped leaf weight changes the gain, which is compared without division",
    "monotone_constraints": "they need leaf weights while the tree grows, which nobody may see",
    "interaction_constraints": "they would tie one participant's columns to another's",
    "max_leaves": "trees grow level by level (grow_policy depthwise)",
    "grow_policy": "trees grow level by level (depthwise)",
    "booster": "only gbtree; dart drops trees by weights that nobody else may see",
    "scale_pos_weight": "weigh the rows instead: sample_weight",
    "num_parallel_tree": "forests inside a round are not supported",
    "colsample_bylevel": "only colsample_bytree is supported",
    "colsample_bynode": "only colsample_bytree is supported",
    "tree_method": "there is one method, equal-frequency bins, as tree_method='hist' on the same bins",
    "sampling_method": "rows are drawn uniformly; subsample is their share",
    "feature_weights": "columns are drawn uniformly, by each owner among its own",
    "max_cat_to_onehot": "a split always sets one category against the rest",
    "max_cat_threshold": "a split always sets one category against the rest",
    "enable_categorical": "columns of text or of pandas' category type are always categories; leave it out",
    "missing": "NaN, None and pd.NA are missing, nothing else; replace other marks in the table",
    "device": "everything runs on the CPU; leave it out",
    "gpu_id": "everything runs on the CPU; leave it out",
    "multi_strategy": "several classes grow one tree each",
    "importance_type": "ask feature_importance(kind) for weight, cover or gain",
}
"""XGBoost parameters that cannot be expressed, and why."""


def check_for_work(security: str, what: str) -> None:
    """Raise SettingsError unless what the command line gives as --security is a mode for real tables."""
    if security not in FOR_WORK:
        raise SettingsError(f"--security {security} is not for {what}; it is one of {', '.join(FOR_WORK)}")


ALIASES = {
    "eta": "learning_rate",
    "lambda": "reg_lambda",
    "lambda_": "reg_lambda",
    "min_split_loss": "gamma",
    "num_boost_round": "n_estimators",
    "num_round": "n_estimators",
    "num_rounds": "n_estimators",
    "n_trees": "n_estimators",
    "seed": "random_state",
    "verbose": "verbosity",
    "verbose_eval": "verbosity",
    "silent": "verbosity",
    "eval_metrics": "eval_metric",
    "early_stopping_round": "early_stopping_rounds",
    "n_bins": "max_bin",
    "max_bins": "max_bin",
    "nthread": "n_jobs",
}
"""Other names that XGBoost and its relatives have for parameters, and ours."""


@dataclass(frozen=True, slots=True)
class TrainParams:
    """What all roles know of a training; names, meanings and defaults are XGBoost's but for docs/parameters.md."""

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
    leaf_epsilon: float = 1e-6
    xgboost_rules: str = RULES

    def __post_init__(self) -> None:
        """Refuse what cannot work, naming parameter, value and remedy."""
        if self.objective not in tuple(OBJECTIVES):  # a file may hold anything, also what has no hash
            raise objective_error(self.objective, "is not known", f"it is one of {', '.join(OBJECTIVES)}")
        for name, known in (("security", (*SECURITY, UNPROTECTED)), ("binning", BINNING), ("xgboost_rules", KNOWN)):
            if getattr(self, name) not in known:
                raise SettingsError(f"{name}={getattr(self, name)!r} is not known; it is one of {', '.join(known)}")
        for name, low, high in (
            ("num_class", 1, 10_000),
            ("n_estimators", 1, 1_000_000),
            ("max_depth", 1, 16),
            ("max_bin", 2, 65_535),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise SettingsError(f"{name}={value!r} is out of range; it is an integer from {low} to {high}")
        for name, low_, high_, includes_low in (
            ("learning_rate", 0.0, 1e6, False),
            ("reg_lambda", 0.0, 1e9, True),
            ("gamma", 0.0, 1e30, True),
            ("min_child_weight", 0.0, 1e30, True),
            ("subsample", 0.0, 1.0, False),
            ("colsample_bytree", 0.0, 1.0, False),
            ("leaf_epsilon", 1e-9, 1.0, True),
        ):
            value = getattr(self, name)
            fits = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
            if not fits or not (low_ <= value <= high_) or (value == low_ and not includes_low):
                above = "at least" if includes_low else "above"
                raise SettingsError(f"{name}={value!r} is out of range; it is {above} {low_:g} and at most {high_:g}")

        if self.is_paper:
            self._check_paper_mode()
        if self.is_sealed:
            self._check_sealed_mode()

    def _check_paper_mode(self) -> None:
        """Refuse what the paper's algorithms do not cover."""
        if self.objective not in IN_PAPER_MODE:
            raise SettingsError(
                f"{self._told_objective} is not covered by security='paper'; "
                f"use {' or '.join(IN_PAPER_MODE)}, or security='strict'"
            )
        for name, fits, remedy in (
            ("reg_lambda", self.reg_lambda > 0, "set it above 0: it hides the step size of the leaf weights"),
            ("min_child_weight", self.min_child_weight == 0, "set it to 0: the paper's comparison knows no minimum"),
            ("colsample_bytree", self.colsample_bytree == 1, "set it to 1: the paper's algorithm takes all columns"),
            ("weighted", not self.weighted, "leave sample_weight out"),
        ):
            if not fits:
                raise SettingsError(
                    f"{name}={getattr(self, name)!r} does not go with security='paper'; {remedy}, or use "
                    "security='strict'"
                )

    def _check_sealed_mode(self) -> None:
        """Refuse what nobody can compute without seeing it."""
        if self.objective not in IN_SEALED_MODE:
            raise SettingsError(
                f"{self._told_objective} is not covered by security='sealed', which computes gradients on secrets; use "
                f"{' or '.join(IN_SEALED_MODE)}, or security='strict'"
            )
        if self.reg_lambda == 0:
            raise SettingsError(
                "reg_lambda=0 does not go with security='sealed', which divides by H + lambda without seeing H; set it "
                "above 0, or use security='strict'"
            )

    @property
    def _told_objective(self) -> str:
        return "a callable objective" if self.loss.is_custom else f"objective={self.objective!r}"

    @property
    def is_paper(self) -> bool:
        """Whether the paper's algorithms run as printed."""
        return self.security == PAPER

    @property
    def is_sealed(self) -> bool:
        """Whether nobody learns anything about a training row."""
        return self.security == SEALED

    @property
    def shares_weights(self) -> bool:
        """Whether every participant keeps shares of the leaf weights, which nobody knows."""
        return self.is_paper or self.is_sealed

    @property
    def is_unprotected(self) -> bool:
        """Whether everything is computed in the open."""
        return self.security == UNPROTECTED

    def as_protected(self) -> TrainParams:
        """Return the parameters that give the same model under secret sharing."""
        return replace(self, security=STRICT) if self.is_unprotected else self

    def check_protected(self, what: str = "a federation") -> None:
        """Raise SettingsError if everything would be computed in the open, for which no federation is needed."""
        if self.is_unprotected:
            raise SettingsError(
                f"security='none' protects nothing, so it is not for {what}: one process computes in the open, from "
                "everybody's tables; use security='strict', or for experiments with tables that are in one place "
                "mpfedxgb simulate --security none"
            )

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
        return self.loss.scale_policy(self.weighted, self.security)

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
        refuse_unknown(values, [f.name for f in fields(cls)])
        return cls(**values)


def refuse_unknown(names: Iterable[str], known: Collection[str]) -> None:
    """Raise UnknownParameterError if names are not known, with the right name or the reason for each."""
    refuse_all(explain_unknown(name, known) for name in names if name not in known)


def explain_unknown(name: str, known: Collection[str]) -> str:
    """Return why there is no such parameter, or what it is called."""
    if name in REFUSED:
        return f"{name} is not supported: {REFUSED[name]}"
    if ALIASES.get(name) in known:
        return f"there is no parameter {name}; it is called {ALIASES[name]} here"
    close = difflib.get_close_matches(name.lower(), known, 1)
    hint = f"; did you mean {close[0]}?" if close else f"; the parameters are {', '.join(known)}"
    return f"there is no parameter {name}{hint}"


def refuse_all(reasons: Iterable[str]) -> None:
    """Raise one UnknownParameterError for all names that are refused, if there are any."""
    told = list(reasons)
    if told:
        numbered = "; ".join(f"({i}) {reason}" for i, reason in enumerate(told, 1))
        raise UnknownParameterError(told[0] if len(told) == 1 else numbered)
