"""Estimators for people who know scikit-learn and XGBoost: every role runs as a thread of this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from mpfedxgb.api.models import free_name, load_models, predict_margins, save_models, to_booster
from mpfedxgb.api.tables import Participants, cut, is_federated, read_labels, read_tables, read_weights
from mpfedxgb.boosting.active import Labels, RoundReport
from mpfedxgb.boosting.metrics import check_metrics
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.objectives import Floats, transform
from mpfedxgb.boosting.train import TrainData, TrainResult, secure_train
from mpfedxgb.config import SessionSettings, TrainParams
from mpfedxgb.data.table import Table
from mpfedxgb.errors import DataError, SettingsError
from mpfedxgb.party.local import run_locally
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import Roster
from mpfedxgb.report.progress import watch
from mpfedxgb.report.record import RunRecord, record_run
from mpfedxgb.tree.nodes import Split


class _FedXGB(BaseEstimator):  # type: ignore[misc] # scikit-learn ships no types
    """What classifier and regressor have in common."""

    def __init__(
        self,
        *,
        participants: Participants = 2,
        n_estimators: int = 100,
        max_depth: int = 3,
        max_bin: int = 32,
        learning_rate: float = 0.3,
        reg_lambda: float = 1.0,
        gamma: float = 0.0,
        min_child_weight: float = 1.0,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        base_score: float | None = None,
        objective: str | Callable[..., Any] | None = None,
        eval_metric: str | Sequence[str] | None = None,
        early_stopping_rounds: int | None = None,
        callbacks: Sequence[Callable[[RoundReport], Any]] | None = None,
        first_layer_mask: bool = False,
        security: str = "strict",
        random_state: int | None = None,
        insecure_seed: int | None = None,
        deadline: float = 600.0,
        verbosity: int = 0,
    ) -> None:
        self.participants = participants
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.max_bin = max_bin
        self.learning_rate = learning_rate
        self.reg_lambda = reg_lambda
        self.gamma = gamma
        self.min_child_weight = min_child_weight
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.base_score = base_score
        self.objective = objective
        self.eval_metric = eval_metric
        self.early_stopping_rounds = early_stopping_rounds
        self.callbacks = callbacks
        self.first_layer_mask = first_layer_mask
        self.security = security
        self.random_state = random_state
        self.insecure_seed = insecure_seed
        self.deadline = deadline
        self.verbosity = verbosity

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _tables(self, X: Any, reset: bool) -> dict[str, Table]:
        """Return the participants' tables from X, in any of the forms it is taken in."""
        if is_federated(X):
            tables = read_tables(X)
            if reset:
                self.n_features_in_ = sum(len(t.columns) for t in tables.values())
            return tables
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if not len(X.columns):
                raise DataError(f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
        else:
            X = validate_data(self, X, reset=reset, dtype="numeric", ensure_all_finite="allow-nan")
        return cut(X, self.participants)

    def _settings(self, params: TrainParams | None = None) -> SessionSettings:
        return SessionSettings(
            parameters_digest="" if params is None else params.digest(),
            deadline=self.deadline,
            insecure_seed=self.insecure_seed,
        )

    def _params(self, objective: str, num_class: int, weighted: bool) -> TrainParams:
        return TrainParams(
            objective=objective,
            num_class=num_class,
            n_estimators=_integer(self.n_estimators),
            max_depth=_integer(self.max_depth),
            max_bin=_integer(self.max_bin),
            learning_rate=self.learning_rate,
            reg_lambda=self.reg_lambda,
            gamma=self.gamma,
            min_child_weight=self.min_child_weight,
            subsample=self.subsample,
            colsample_bytree=self.colsample_bytree,
            weighted=weighted,
            first_layer_mask=bool(self.first_layer_mask),
            may_stop_early=self.early_stopping_rounds is not None or bool(self.callbacks),
            security=self.security,
        )

    def _fit(
        self,
        tables: dict[str, Table],
        y: Floats,
        params: TrainParams,
        weight: Floats | None,
        evaluation: list[tuple[dict[str, Table], Floats, Floats | None]],
    ) -> None:
        """Train on checked input and keep everything a fitted estimator has."""
        metrics = [self.eval_metric] if isinstance(self.eval_metric, str) else list(self.eval_metric or [])
        check_metrics(metrics, params.objective)
        if self.early_stopping_rounds is not None:
            if not evaluation:
                raise SettingsError("early_stopping_rounds needs an eval_set to watch")
            if _integer(self.early_stopping_rounds) < 1:
                raise SettingsError(f"early_stopping_rounds={self.early_stopping_rounds!r} must be 1 or more")
        roster = Roster(tuple(tables), coordinator=free_name(tables))
        settings = self._settings(params)
        with watch(self.verbosity, params.n_estimators) as watcher:
            labels = Labels(
                y=y,
                weight=weight,
                eval_y=[e[1] for e in evaluation],
                eval_weight=[e[2] for e in evaluation],
                eval_metrics=metrics,
                early_stopping_rounds=self.early_stopping_rounds,
                base_score=self.base_score,
                custom=self.objective if callable(self.objective) else None,
                callbacks=[watcher.round_done, *(self.callbacks or [])],
            )
            key = "" if self.random_state is None else f"random_state {self.random_state}"
            private: list[tuple[Any, ...]] = [(None,)]
            for i, (name, table) in enumerate(tables.items()):
                matched = [e[0][name].match(table.names, _categories(table)) for e in evaluation]
                private.append((TrainData(table, matched, labels if i == 0 else None, key),))

            def program(party: Party, data: TrainData | None) -> TrainResult | None:
                if party.is_active:
                    party.notice = watcher.notice
                return secure_train(party, params, data)

            started = time.perf_counter()
            run = run_locally(program, roster, private, settings)
            seconds = time.perf_counter() - started
        results = [result for result in run.results[1:] if result is not None]
        self.partial_models_ = [result.model for result in results]
        self.cut_points_ = {
            name: {c.name: r.candidates.bins.edges[j] for j, c in enumerate(table.columns) if not c.is_categorical}
            for (name, table), r in zip(tables.items(), results, strict=True)
        }
        self.evals_result_ = results[0].metrics
        self.best_iteration_ = results[0].best_iteration
        self.run_: RunRecord = record_run(
            "train",
            params.to_dict(),
            seconds,
            len(results[0].model.trees),
            settings,
            roster,
            run.meters,
            run.ledgers[0],
        )

    def _evaluation(self, eval_set: Any, weights: Any, encode: Callable[[Any, int], Floats]) -> list[Any]:
        """Return checked evaluation sets."""
        if eval_set is None:
            return []
        if not isinstance(eval_set, (list, tuple)) or any(not isinstance(p, tuple) or len(p) != 2 for p in eval_set):
            raise DataError("eval_set is a list of (X, y) pairs")
        checked = []
        for i, (X, y) in enumerate(eval_set):
            tables = self._tables(X, reset=False)
            rows = next(iter(tables.values())).rows
            weight = None if weights is None else read_weights(weights[i], rows, f"sample_weight_eval_set[{i}]")
            checked.append((tables, encode(y, rows), weight))
        return checked

    def _margins(self, X: Any) -> Floats:
        """Return the margins of rows, (trees per round, rows), by secure joint prediction."""
        check_is_fitted(self, "partial_models_")
        tables = self._tables(X, reset=False)
        models = self.partial_models_
        if set(tables) != set(models[0].participants):
            raise DataError(
                f"X has tables of {', '.join(tables)}, the model was trained by {', '.join(models[0].participants)}"
            )
        return predict_margins(models, tables, self._settings())[0]

    def _sample_weight(self, sample_weight: Any, tables: dict[str, Table]) -> Floats | None:
        return read_weights(sample_weight, next(iter(tables.values())).rows)

    @property
    def feature_importances_(self) -> dict[str, pd.Series[float]]:
        """How often each participant's features split, as shares of that participant's splits; per participant.

        Gain is secret: nobody learns it, so there is no importance by gain.
        """
        check_is_fitted(self, "partial_models_")
        return {model.name: _weights(model) for model in self.partial_models_}

    def to_xgboost(self) -> Any:
        """Return the joined model as an `xgboost.Booster` (this puts everybody's splits together)."""
        check_is_fitted(self, "partial_models_")
        return to_booster(self.partial_models_)

    def save_model(self, folder: str | Path) -> list[Path]:
        """Write one file per participant into a folder and return their paths."""
        check_is_fitted(self, "partial_models_")
        return save_models(self.partial_models_, Path(folder))

    def load_model(self, folder: str | Path) -> Self:
        """Read all participants' files from a folder; the estimator can predict afterwards."""
        self.partial_models_ = load_models(Path(folder))
        self.n_features_in_ = sum(len(m.features) for m in self.partial_models_)
        self._loaded(self.partial_models_[0])
        return self

    def _loaded(self, active: PartialModel) -> None:
        """Take over what a loaded model says of the labels."""
        self.best_iteration_ = active.best_iteration


class FedXGBClassifier(ClassifierMixin, _FedXGB):  # type: ignore[misc] # scikit-learn ships no types
    """Federated XGBoost for two or more classes.

    Parameters
    ----------
    participants : int, list of fractions, list of column lists, or dict of column lists, default 2
        How `fit(X, y)` cuts one table vertically; not used when X is one table per participant already.
    n_estimators, max_depth, max_bin, learning_rate, reg_lambda, gamma, min_child_weight, subsample, colsample_bytree, \
base_score, eval_metric, early_stopping_rounds
        As in XGBoost; see docs/parameters.md for the few differences (max_depth 3 and max_bin 32 by default).
    objective : str, callable or None
        "binary:logistic" or "multi:softprob", chosen by the number of classes if None; or a callable
        (y, margin) -> (g, h) for two classes.
    callbacks : sequence of callables or None
        Called with a RoundReport after each round; a true value stops the training.
    first_layer_mask : bool
        Only the active participant splits the root (section 5.2 of the paper).
    security : "strict"
    random_state : int or None
        Makes row and column samples repeat; masks are random all the same.
    insecure_seed : int or None
        Makes whole runs repeat for demonstrations. Never for real data.
    deadline : float
        Seconds a role waits for another.
    verbosity : int
        1 shows a progress bar.

    Attributes
    ----------
    classes_, n_features_in_, partial_models_, evals_result_, best_iteration_, feature_importances_
    cut_points_ : dict
        Per participant, column -> sorted bin edges (x <= edge goes left); a simulation can show them, a federation not.
    run_ : RunRecord
        What the training cost and revealed.
    """

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None, sample_weight_eval_set: Any = None
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : table of shape (rows, columns), or list or dict of one table per participant, the active one first
        y : array of shape (rows,)
            Labels of any type with two or more distinct values.
        sample_weight : array of shape (rows,) or None
        eval_set : list of (X, y) or None
            Evaluation rows that ride along; X in the same form as for training.
        sample_weight_eval_set : list of arrays or None
        """
        tables = self._tables(X, reset=True)
        labels = read_labels(y, next(iter(tables.values())).rows)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(f"y has only one class, {self.classes_[0]!r}; a classifier needs two or more classes")
        if len(self.classes_) >= len(labels) and len(labels) > 2:
            raise DataError(f"y has {len(self.classes_)} classes in {len(labels)} rows; is this a regression target?")
        weight = self._sample_weight(sample_weight, tables)
        if weight is not None and len(np.unique(codes[weight > 0])) < 2:
            raise DataError("y has only one class among the rows of positive weight; a classifier needs two or more")
        objective = self._objective(len(self.classes_))
        params = self._params(objective, len(self.classes_), weight is not None)
        evaluation = self._evaluation(eval_set, sample_weight_eval_set, self._encode)
        self._fit(tables, codes.astype(np.float64), params, weight, evaluation)
        return self

    def _objective(self, classes: int) -> str:
        fitting = "binary:logistic" if classes == 2 else "multi:softprob"
        if self.objective is None or self.objective == fitting:
            return fitting
        if callable(self.objective):
            if classes > 2:
                raise SettingsError("a custom objective works for two classes; use multi:softprob for more")
            return "custom"
        raise SettingsError(f"objective={self.objective!r} does not go with {classes} classes; use {fitting!r} or None")

    def _encode(self, y: Any, rows: int) -> Floats:
        labels = read_labels(y, rows, "y of eval_set")
        unknown = sorted({str(label) for label in labels} - {str(label) for label in self.classes_})
        if unknown:
            raise DataError(f"y of eval_set holds classes that are not in y: {', '.join(unknown[:5])}")
        place = {str(label): i for i, label in enumerate(self.classes_)}
        return np.array([place[str(label)] for label in labels], np.float64)

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the probability of every class, (rows, classes), by joint prediction."""
        margins = self._margins(X)
        objective = self.partial_models_[0].params.objective
        p = transform("binary:logistic" if objective == "custom" else objective, margins)
        return np.ascontiguousarray((np.concatenate([1 - p, p]) if len(p) == 1 else p).T)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the likeliest class of every row, (rows,)."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """Return margins: (rows,) for two classes, (rows, classes) for more."""
        margins = self._margins(X)
        return margins[0] if len(margins) == 1 else np.ascontiguousarray(margins.T)

    def _loaded(self, active: PartialModel) -> None:
        super()._loaded(active)
        classes = active.params.num_class
        if not hasattr(self, "classes_") or len(self.classes_) != classes:
            self.classes_ = np.arange(classes)


class FedXGBRegressor(RegressorMixin, _FedXGB):  # type: ignore[misc] # scikit-learn ships no types
    """Federated XGBoost for numbers and counts.

    Parameters and attributes as in `FedXGBClassifier`; `objective` is "reg:squarederror" (default), "count:poisson"
    with max_delta_step 0, or a callable (y, margin) -> (g, h).
    """

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None, sample_weight_eval_set: Any = None
    ) -> Self:
        """Train; see `FedXGBClassifier.fit`. Labels are finite numbers, 0 or more for counts."""
        tables = self._tables(X, reset=True)
        labels = self._encode(y, next(iter(tables.values())).rows)
        weight = self._sample_weight(sample_weight, tables)
        objective = "custom" if callable(self.objective) else self.objective or "reg:squarederror"
        if objective not in ("reg:squarederror", "count:poisson", "custom"):
            raise SettingsError(
                f"objective={objective!r} is not for regression; use reg:squarederror, count:poisson or a callable"
            )
        if objective == "count:poisson" and (labels < 0).any():
            raise DataError(f"y holds {labels.min():g}; count:poisson takes labels of 0 or more")
        if objective == "count:poisson" and not labels.any() and self.base_score is None:
            raise DataError("y is zero everywhere; count:poisson needs a positive mean, or set base_score")
        params = self._params(objective, 1, weight is not None)
        evaluation = self._evaluation(eval_set, sample_weight_eval_set, self._encode)
        self._fit(tables, labels, params, weight, evaluation)
        return self

    def _encode(self, y: Any, rows: int) -> Floats:
        labels = read_labels(y, rows)
        try:
            numbers = labels.astype(np.float64)
        except (TypeError, ValueError):
            raise DataError("y holds something that is not a number; a regressor needs numbers") from None
        if not np.isfinite(numbers).all():
            raise DataError("y holds a number that is not finite; drop those rows")
        if np.abs(numbers).max(initial=0) >= 2.0**29:
            raise DataError(f"y holds {numbers[np.abs(numbers).argmax()]:g}; rescale labels to below 2^29 (5e8)")
        return numbers

    def predict(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the prediction of every row, (rows,)."""
        margins = self._margins(X)
        return np.asarray(transform(self.partial_models_[0].params.objective, margins)[0])


def _integer(value: Any) -> Any:
    return int(value) if isinstance(value, np.integer) else value


def _categories(table: Table) -> dict[str, tuple[str, ...]]:
    return {c.name: c.categories for c in table.columns if c.categories is not None}


def _weights(model: PartialModel) -> pd.Series[float]:
    counts = pd.Series(0.0, index=[f.name for f in model.features])
    for tree in model.trees:
        for node in tree:
            if isinstance(node, Split):
                counts[node.feature] += 1
    total = counts.sum()
    shares: pd.Series[float] = counts / total if total else counts
    return shares
