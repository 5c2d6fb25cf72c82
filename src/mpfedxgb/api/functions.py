"""XGBoost's functions: `train` and `cv` of a FederatedTable, with XGBoost's parameters, by XGBoost's names.

`train` is an estimator's `fit` in other words, and returns the estimator. `cv` trains one on every fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.model_selection import StratifiedKFold

from mpfedxgb.api.estimators import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.api.federated_table import FederatedTable
from mpfedxgb.api.ranker import FedXGBRanker
from mpfedxgb.boosting.metrics import DEFAULTS, metric_of
from mpfedxgb.boosting.objective import Floats, Gradients
from mpfedxgb.boosting.objectives import FOR_NUMBERS, RANKINGS
from mpfedxgb.errors import DataError, SettingsError
from mpfedxgb.modes.facts import facts_of
from mpfedxgb.report.progress import EvaluationLines
from mpfedxgb.schema.training import ALIASES

Params = Mapping[str, Any] | Sequence[tuple[str, Any]]
Model = FedXGBClassifier | FedXGBRegressor
Fold = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Places of the rows to train on, and of those to judge by."""

_OWN_NAMES = ("eta", "lambda", "alpha", "min_split_loss", "seed", "nthread")
"""Other names that XGBoost's functions know."""


def train(
    params: Params,
    table: FederatedTable,
    num_boost_round: int = 10,
    *,
    evals: Sequence[tuple[FederatedTable, str]] | None = None,
    obj: Callable[..., Any] | None = None,
    maximize: bool | None = None,
    early_stopping_rounds: int | None = None,
    evals_result: dict[str, Any] | None = None,
    verbose_eval: bool | int | None = True,
    xgb_model: Any = None,
    callbacks: Sequence[Any] | None = None,
    custom_metric: Callable[..., Any] | None = None,
) -> Model:
    """Train on all participants' tables, as xgboost.train does on a DMatrix, and return the fitted estimator.

    Parameters
    ----------
    params : dict or list of pairs
        Parameters of the estimators, by their names or XGBoost's (eta, lambda, seed, ...). The objective is
        "reg:squarederror" unless it is given; "binary:logistic" and others for classes make a FedXGBClassifier,
        "rank:ndcg" and its like a FedXGBRanker.
    table : FederatedTable
        With a label.
    num_boost_round : int
    evals : list of (FederatedTable, name) or None
    obj : callable (preds, table) -> (g, h) or None
        What it is given as `table` answers `get_label` and `get_weight`: 1 each, since weights are multiplied in later.
    maximize : None
        Metrics say themselves whether more is better, of a custom one less is; otherwise it is refused.
    early_stopping_rounds : int or None
        Rounds without progress of the last metric on the last of `evals`.
    evals_result : dict or None
        Filled with evaluation set -> metric -> one value per boosting round.
    verbose_eval : bool or int
        Whether to print the metrics of each round, or of every n-th.
    xgb_model : fitted estimator, folder, or parts of a model, or None
        A model to go on from.
    callbacks : list or None
    custom_metric : callable (predictions, table) -> (name, value) or None
        Comes after those of eval_metric; predictions are transformed unless `obj` is given.
    """
    named = [name for _, name in evals or ()]
    if len(set(named)) < len(named):
        raise SettingsError(
            f"evals has two tables of one name in {named}; give each its own", "duplicate", "evals", named
        )
    own = None if custom_metric is None else _Metric(custom_metric)
    model = _estimator(params, num_boost_round, obj, own, maximize, early_stopping_rounds, callbacks)
    watched = {name: _filled(some, f"evals: {name}") for some, name in evals or ()}
    _check_classes(_filled(table, "table"), model, params)
    weights = [some.weight for some in watched.values()]
    model.fit(
        table,
        eval_set={name: (some, some.label) for name, some in watched.items()} or None,
        sample_weight_eval_set=weights if any(weight is not None for weight in weights) else None,
        xgb_model=xgb_model,
        verbose=verbose_eval,
    )
    if own is not None:
        for metrics in model.evals_result_.values():
            metrics[own.said] = metrics.pop(own.__name__)
    if evals_result is not None:
        evals_result.clear()
        evals_result.update(model.evals_result_)
    return model


def cv(
    params: Params,
    table: FederatedTable,
    num_boost_round: int = 10,
    *,
    nfold: int = 3,
    stratified: bool = False,
    folds: Any = None,
    metrics: str | Sequence[str] = (),
    obj: Callable[..., Any] | None = None,
    maximize: bool | None = None,
    early_stopping_rounds: int | None = None,
    as_pandas: bool = True,
    verbose_eval: bool | int | None = None,
    show_stdv: bool = True,
    seed: int = 0,
    callbacks: Sequence[Any] | None = None,
    shuffle: bool = True,
    custom_metric: Callable[..., Any] | None = None,
) -> pd.DataFrame | dict[str, list[float]]:
    """Cross-validate, as xgboost.cv does, and return mean and standard deviation of metrics for each boosting round.

    Each fold is a training of its own, with a ledger of its own, and what they reveal adds up. All folds train
    all rounds; early stopping leaves the rounds after the best one out of the result. With security="sealed", which
    tells no margin of a training row, there are columns of test rows only.

    Parameters
    ----------
    params, table, num_boost_round, obj, maximize, callbacks, custom_metric
        As in `train`.
    nfold : int
    stratified : bool
        Whether every fold has its share of each class.
    folds : list of (training places, test places), splitter of scikit-learn, or None
    metrics : str or list of str
        Instead of eval_metric in `params`.
    early_stopping_rounds : int or None
        Rounds without progress of the mean of the last metric on test rows.
    as_pandas : bool
        False: a dictionary of lists.
    verbose_eval : bool, int or None
        Whether to print means, and with show_stdv standard deviations, once all folds are trained.
    seed : int
        Draws the folds, the same as XGBoost's.
    shuffle : bool
        False: folds are of rows that follow each other.
    """
    params = _as_dict(params)
    if metrics:
        params["eval_metric"] = [metrics] if isinstance(metrics, str) else list(metrics)
    chosen = read_folds(table, nfold, stratified, folds, seed, shuffle)
    more = {"obj": obj, "maximize": maximize, "callbacks": callbacks, "custom_metric": custom_metric}
    results = metrics_of_folds(params, table, num_boost_round, chosen, **more)
    summary = _summary(results)
    if early_stopping_rounds is not None:
        last = list(results[0]["test"])[-1]
        rounds = _rounds_kept(summary[f"test-{last}-mean"], last, early_stopping_rounds)
        summary = {name: values[:rounds] for name, values in summary.items()}
    if lines := EvaluationLines.read(verbose_eval):
        lines.print_summary(summary, show_stdv)
    return pd.DataFrame(summary) if as_pandas else summary


Metrics = dict[str, dict[str, list[float]]]
"""Evaluation rows -> metric -> one value for each boosting round."""


def metrics_of_folds(
    params: Params, table: FederatedTable, num_boost_round: int, folds: Iterable[Fold], **more: Any
) -> list[Metrics]:
    """Return the metrics of a training on each fold, of its "test" rows and, where nothing hides them, of "train".

    Further arguments are those of `train`.
    """
    hides_rows = facts_of(_as_dict(params).get("security")).hides_rows
    results: list[Metrics] = []
    for inside, outside in folds:
        parts = {"train": table[inside], "test": table[outside]}
        watched = [(part, name) for name, part in parts.items() if name == "test" or not hides_rows]
        seen: Metrics = {}
        train(params, parts["train"], num_boost_round, evals=watched, evals_result=seen, verbose_eval=False, **more)
        results.append(seen)
    return results


class _Labelled:
    """What functions of (preds, dtrain) are given for a DMatrix."""

    def __init__(self, y: Floats, weight: Floats | None = None) -> None:
        self._y, self._weight = y, np.ones(len(y)) if weight is None else weight

    def get_label(self) -> Floats:
        """Return the labels, classes as 0, 1, ..."""
        return self._y

    def get_weight(self) -> Floats:
        """Return row weights; 1 for each row if there are none, or if they are multiplied in afterwards."""
        return self._weight

    def num_row(self) -> int:
        """Return the number of rows."""
        return len(self._y)


def _gradients(obj: Callable[..., Any], y: Floats, margin: Floats) -> Gradients:
    g, h = obj(margin, _Labelled(y))
    return g, h


class _Metric:
    """A custom metric of XGBoost's form as one of ours; `said` is the name that it returns."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.said = self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, y: Floats, predictions: Floats, sample_weight: Floats | None = None) -> float:
        """Return the value."""
        self.said, value = self._function(predictions, _Labelled(y, sample_weight))
        return float(value)


def _as_dict(params: Params) -> dict[str, Any]:
    """Return parameters by name; of a list, all metrics."""
    if isinstance(params, Mapping):
        return dict(params)
    metrics = [value for name, value in params if name == "eval_metric"]
    return dict(params) | ({"eval_metric": metrics} if metrics else {})


def _estimator(
    params: Params,
    num_boost_round: int,
    obj: Callable[..., Any] | None,
    metric: _Metric | None,
    maximize: bool | None,
    early_stopping_rounds: int | None,
    callbacks: Sequence[Any] | None,
) -> Model:
    """Return the estimator that XGBoost's parameters mean, not fitted."""
    named = {
        ALIASES[name] if name in _OWN_NAMES and name in ALIASES else name: v for name, v in _as_dict(params).items()
    }
    places = {"n_estimators": "num_boost_round", "early_stopping_rounds": "", "callbacks": ""}
    for name in (name for name in places if name in named):
        text = f"params has {name}={named[name]!r}; it is the argument {places[name] or name}"
        raise SettingsError(text, "place", name, named[name])
    if maximize is not None:
        text = (
            f"maximize={maximize!r} is not supported: metrics say themselves whether more is better, and of a custom "
            "one less is; leave it out, and return the negative value of what should grow"
        )
        raise SettingsError(text, "refused", "maximize", maximize)
    named.pop("num_class", None)
    objective = named.pop("objective", None) or FOR_NUMBERS[0]
    kind = FedXGBRegressor if objective in FOR_NUMBERS or callable(objective) else FedXGBClassifier
    kind = FedXGBRanker if objective in RANKINGS else kind
    given = named.pop("eval_metric", None)
    metrics = [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
    return kind(
        objective=objective if obj is None else partial(_gradients, obj),
        n_estimators=num_boost_round,
        eval_metric=[*metrics, *([metric] if metric else [])] or None,
        early_stopping_rounds=early_stopping_rounds,
        callbacks=callbacks,
        **named,
    )


def _filled(table: Any, name: str) -> FederatedTable:
    if not isinstance(table, FederatedTable):
        text = f"{name} is a {type(table).__name__}; give mpfedxgb.FederatedTable({{owner: its table, ...}}, label=...)"
        raise DataError(text, "type", name, type(table).__name__)
    if table.label is None:
        raise DataError(f"{name} has no label; give FederatedTable(..., label=...)", "missing", name)
    return table


def _check_classes(table: FederatedTable, model: Model, params: Params) -> None:
    """Raise SettingsError if num_class is not the number of classes that the labels have."""
    asked = _as_dict(params).get("num_class")
    found = len(np.unique(table.label)) if isinstance(model, FedXGBClassifier) else asked
    if asked is not None and asked != found:
        raise SettingsError(
            f"num_class={asked!r}, but the labels have {found} classes; leave it out", "mismatch", "num_class", asked
        )


def read_folds(
    table: FederatedTable, nfold: int, stratified: bool = False, folds: Any = None, seed: int = 0, shuffle: bool = True
) -> Iterator[Fold]:
    """Yield the folds, the same as XGBoost's: places in the order in which it has them."""
    _filled(table, "table")
    if folds is not None and not hasattr(folds, "split"):
        yield from ((np.asarray(inside), np.asarray(outside)) for inside, outside in folds)
        return
    labels = np.asarray(table.label)
    # XGBoost's folds are of rows, or of whole groups.
    groups = np.arange(len(table)) if table.qid is None else np.unique(table.qid, return_inverse=True)[1]
    places = np.arange(groups.max() + 1)
    if folds is None and not 2 <= nfold <= len(places):
        counted = f"{len(places)} {'rows' if table.qid is None else 'groups'}"
        text = f"nfold={nfold!r} does not go with {counted}; it is from 2 to that many"
        raise SettingsError(text, "range", "nfold", nfold)
    if folds is not None or stratified:
        splitter = folds or StratifiedKFold(n_splits=nfold, shuffle=True, random_state=seed)
        yield from splitter.split(X=labels, y=labels, groups=table.qid)
        return
    if shuffle:
        places = np.random.RandomState(seed).permutation(len(places))  # no secret
    parts = np.array_split(places, nfold)
    if table.qid is not None:
        parts = [np.flatnonzero(np.isin(groups, part)) for part in parts]
    for k, outside in enumerate(parts):
        yield np.concatenate([part for i, part in enumerate(parts) if i != k]), outside


def _summary(results: Sequence[Metrics]) -> dict[str, list[float]]:
    """Return mean and standard deviation over the folds, per evaluation set and metric, one per boosting round."""
    summary: dict[str, list[float]] = {}
    for name, metrics in results[0].items():
        for metric in metrics:
            rounds = min(len(fold[name][metric]) for fold in results)  # callbacks may have stopped one
            values = np.array([fold[name][metric][:rounds] for fold in results])
            summary[f"{name}-{metric}-mean"] = values.mean(axis=0).tolist()
            summary[f"{name}-{metric}-std"] = values.std(axis=0).tolist()
    return summary


def more_is_better(metric: str) -> bool:
    """Return whether a metric of this name is to grow; custom ones are not."""
    try:
        return metric_of(metric, DEFAULTS).grows
    except SettingsError:
        return False


def _rounds_kept(means: Sequence[float], metric: str, patience: int) -> int:
    """Return how many rounds early stopping keeps, those up to the best; all of them if it never comes to stop."""
    grows, best = more_is_better(metric), 0
    for t, value in enumerate(means):
        if value > means[best] if grows else value < means[best]:
            best = t
        elif t - best >= patience:
            return best + 1
    return len(means)
