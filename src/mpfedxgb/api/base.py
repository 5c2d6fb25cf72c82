"""What classifier and regressor have in common: every role runs as a thread of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted, validate_data

from mpfedxgb.api.models import load_models, predict_margins, roster_of, save_models, summary, to_booster, write_report
from mpfedxgb.api.settings import (
    check_start,
    explaining_names,
    known_names,
    plain,
    read_callbacks,
    read_metrics,
    read_patience,
    sample_key,
    train_params,
)
from mpfedxgb.api.tables import (
    Participants,
    RowOrder,
    Rows,
    cut,
    cut_as_trained,
    is_federated,
    match_tables,
    read_frame,
    read_margins,
    read_row_weights,
    read_tables,
    refuse_training_rows,
    row_order,
    warn_of_identifiers,
)
from mpfedxgb.api.training import TrainingJob, check_same_start, forecast_tables, go_on, read_start, train_here
from mpfedxgb.boosting.active import Labels
from mpfedxgb.boosting.callbacks import Callbacks
from mpfedxgb.boosting.join import column_importance, feature_importance, join
from mpfedxgb.boosting.metrics import OwnMetric, limited_to, read_range
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.parts import TrainData
from mpfedxgb.config import Link, Resources, SessionSettings, link_of
from mpfedxgb.costs.forecast import Forecast
from mpfedxgb.data.table import Table, is_arrow
from mpfedxgb.errors import DataError, SettingsError
from mpfedxgb.modes.facts import facts_of
from mpfedxgb.report.progress import watch
from mpfedxgb.report.record import RunRecord

Start = Sequence[PartialModel] | None
"""All participants' parts of the model that a training goes on from."""


class Evaluation(NamedTuple):
    """An evaluation set, checked; everybody's table by name."""

    tables: dict[str, Table]
    y: Floats
    weight: Floats | None
    base_margin: Floats | None = None


class FitInput(NamedTuple):
    """What `fit` was given, checked; everybody's table by name."""

    tables: dict[str, Table]
    y: Floats
    params: TrainParams
    weight: Floats | None
    evaluation: list[Evaluation]
    base_margin: Floats | None = None


class FederatedModel(BaseEstimator):  # type: ignore[misc] # scikit-learn ships no types
    """What classifier and regressor have in common."""

    @explaining_names
    def __init__(
        self,
        *,
        # generated: signature
        participants: Participants = 2,
        id: str | None = None,  # noqa: A002 # what the settings file of a federation calls it
        objective: str | Callable[..., Any] | None = None,
        n_estimators: int = 100,
        max_depth: int = 3,
        max_bin: int = 32,
        learning_rate: float = 0.3,
        reg_lambda: float = 1.0,
        reg_alpha: float = 0.0,
        max_delta_step: float | None = None,
        gamma: float = 0.0,
        min_child_weight: float = 1.0,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        huber_slope: float = 1.0,
        tweedie_variance_power: float = 1.5,
        quantile_alpha: float = 0.5,
        base_score: float | None = None,
        scale_pos_weight: float = 1.0,
        eval_metric: str | OwnMetric | Sequence[str | OwnMetric] | None = None,
        early_stopping_rounds: int | None = None,
        callbacks: Sequence[Any] | None = None,
        first_layer_mask: bool = False,
        security: str = "strict",
        binning: str = "quantile",
        leaf_epsilon: float = 1e-06,
        random_state: int | None = None,
        insecure_seed: int | None = None,
        deadline: float = 600.0,
        link: str | Link = "local",
        n_jobs: int | None = None,
        max_memory: int | str | None = None,
        spool: str | Path | None = None,
        topology: str = "star",
        client: Any = None,
        verbosity: int | None = 0,
        # end of generated
    ) -> None:
        # generated: attributes
        self.participants = participants
        self.id = id
        self.objective = objective
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.max_bin = max_bin
        self.learning_rate = learning_rate
        self.reg_lambda = reg_lambda
        self.reg_alpha = reg_alpha
        self.max_delta_step = max_delta_step
        self.gamma = gamma
        self.min_child_weight = min_child_weight
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.huber_slope = huber_slope
        self.tweedie_variance_power = tweedie_variance_power
        self.quantile_alpha = quantile_alpha
        self.base_score = base_score
        self.scale_pos_weight = scale_pos_weight
        self.eval_metric = eval_metric
        self.early_stopping_rounds = early_stopping_rounds
        self.callbacks = callbacks
        self.first_layer_mask = first_layer_mask
        self.security = security
        self.binning = binning
        self.leaf_epsilon = leaf_epsilon
        self.random_state = random_state
        self.insecure_seed = insecure_seed
        self.deadline = deadline
        self.link = link
        self.n_jobs = n_jobs
        self.max_memory = max_memory
        self.spool = spool
        self.topology = topology
        self.client = client
        self.verbosity = verbosity

    # end of generated

    def set_params(self, **params: Any) -> Self:
        """Set parameters; an unknown name is taken or refused as in the constructor."""
        super().set_params(**known_names(self, params, list(self.get_params())))
        return self

    def __sklearn_clone__(self) -> Self:
        """Return an estimator with the same parameters that is not fitted; a `client` is the same one, not a copy."""
        bare = copy(self)
        bare.client = None
        made: Self = BaseEstimator.__sklearn_clone__(bare)
        made.client = self.client
        return made

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _tables(self, X: Any, reset: bool, active: str | None = None) -> tuple[dict[str, Table], RowOrder]:
        """Return the participants' tables from X, in any of the forms it is taken in, and the order of their rows."""
        if is_federated(X):
            tables, order = read_tables(X, self.id, active)
            if reset:
                for of_one_table in ("feature_names_in_", "_columns_"):  # of an earlier fit
                    self.__dict__.pop(of_one_table, None)
                self.n_features_in_ = sum(len(t.columns) for t in tables.values())
            return tables, order
        frame, order = self._frame(X, reset)
        return cut(frame, self.participants), order

    def _frame(self, X: Any, reset: bool) -> tuple[pd.DataFrame, RowOrder]:
        """Return one table of all columns; scikit-learn keeps its names and their number, or compares them."""
        frame, order = read_frame(X, self.id)
        if is_arrow(X):
            X = frame
        if reset or hasattr(self, "feature_names_in_") or not isinstance(X, pd.DataFrame):
            validate_data(self, X if self.id is None else frame, reset=reset, skip_check_array=True)
        if reset:
            self._columns_ = [str(name) for name in frame.columns]
        return frame, order

    def _settings(self, params: TrainParams | None = None) -> SessionSettings:
        return SessionSettings(
            parameters="" if params is None else params.to_json(),
            deadline=plain(self.deadline),
            insecure_seed=plain(self.insecure_seed),
            link=link_of(self.link),
            topology=self.topology,
        )

    @explaining_names
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        eval_set: Any = None,
        sample_weight_eval_set: Any = None,
        xgb_model: Any = None,
        base_margin: Any = None,
        base_margin_eval_set: Any = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : table of shape (rows, columns), or list or dict of one table per participant, the active one first
            Without `id`, row i of every table is about the same person; arrays have no index that could say otherwise.
        y : array of shape (rows,)
            A classifier takes labels of any type with two or more distinct values, a regressor finite numbers. A Series
            has to have the index of X, or the ids as its index; an array or list is in the order of X.
        sample_weight : array of shape (rows,) or None
        eval_set : list of (X, y) or None
            Evaluation rows that ride along; X in the same form as for training. With security="sealed" they are none of
            the training rows, for their margins are told round by round.
        sample_weight_eval_set : list of arrays or None
        xgb_model : fitted estimator, folder that save_model wrote, list of all participants' parts, or None
            A model to go on from: its trees come first, n_estimators new rounds follow. Classes, columns and
            categories are its own.
        base_margin : array of shape (rows,), (rows, classes) for several classes, or None
            The margin that each row starts from, in place of base_score; predictions take one too.
        base_margin_eval_set : list of arrays or None
        """
        with all_or_nothing(self):
            start = read_start(xgb_model)
            margins = base_margin, base_margin_eval_set
            self._fit(self._read(X, y, sample_weight, eval_set, sample_weight_eval_set, start, margins), start)
            return self

    def _read(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        eval_set: Any,
        sample_weight_eval_set: Any,
        start: Start = None,
        margins: tuple[Any, Any] = (None, None),
    ) -> FitInput:
        """Return what `fit` takes, checked."""
        tables, order = self._tables(X, reset=True)
        rows, labels = next(iter(tables.values())).rows, order.put(y, "y")
        weight = read_row_weights(order.put(sample_weight, "sample_weight"), rows)
        known, objective, classes = self._read_labels(labels, rows, weight, start)
        params = train_params(self, objective, classes, weight is not None)
        own = read_margins(order.put(margins[0], "base_margin"), rows, params.trees_per_round)
        evaluation = self._evaluation(
            eval_set, sample_weight_eval_set, margins[1], (tables, order), params.trees_per_round
        )
        return FitInput(tables, known, params, weight, evaluation, own)

    def _read_labels(self, y: Any, rows: int, weight: Floats | None, start: Start) -> tuple[Floats, str, int]:
        """Return the labels of a training as numbers, the name of its objective, and the number of classes."""
        raise NotImplementedError

    def _encode(self, y: Any, rows: int, name: str) -> Floats:
        """Return the labels of evaluation rows as numbers, those of the training."""
        raise NotImplementedError

    def forecast(self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None) -> Forecast:
        """Return what `fit` on these tables would cost with full trees, without training.

        Rounds, hops, bytes and reveals are those that a run of full trees has; memory and disk are by role; seconds are
        an estimate from half a second of measuring. The estimator stays as it was; with security="none" it is told
        what "strict" costs.
        """
        given = copy(self)._read(X, y, sample_weight, eval_set, None)
        params = given.params.as_protected()
        later = sum(len(e.y) for e in given.evaluation)
        return forecast_tables(given.tables, later, params, roster_of(given.tables), self._settings(params))

    def _fit(self, given: FitInput, start: Start) -> None:
        """Train on checked input, from a model if there is one, and keep everything a fitted estimator has."""
        tables, params, evaluation = given.tables, given.params, given.evaluation
        new_rounds = params.n_estimators
        callbacks = read_callbacks(self.callbacks)
        labels = Labels(
            y=given.y,
            weight=given.weight,
            eval_y=[e.y for e in evaluation],
            eval_weight=[e.weight for e in evaluation],
            eval_metrics=read_metrics(self.eval_metric, params.objective),
            early_stopping_rounds=read_patience(self.early_stopping_rounds, bool(evaluation)),
            base_score=self.base_score,
            custom=self.objective if callable(self.objective) else None,
            scale_pos_weight=float(self.scale_pos_weight),
            base_margin=given.base_margin,
            eval_base_margin=[e.base_margin for e in evaluation],
        )
        if start is not None:
            check_same_start(start[0], params, labels)
            tables, params = go_on(start, tables, params)
        key = sample_key(self.random_state)
        check_start(params, labels)
        warn_of_identifiers(tables)
        matched = [match_tables(f"eval_set[{i}]", e.tables, tables) for i, e in enumerate(evaluation)]
        resources = Resources.read(plain(self.n_jobs), plain(self.max_memory), self.spool)
        roster, settings = roster_of(tables), self._settings(params)
        with watch(self.verbosity or 0, new_rounds, shows_forecast=start is None) as bar:
            labels = replace(labels, callbacks=Callbacks.read([bar.round_done, *callbacks]))
            parts = [None] * len(tables) if start is None else start
            data = [
                TrainData(table, [known[name] for known in matched], labels if i == 0 else None, key, parts[i])
                for i, (name, table) in enumerate(tables.items())
            ]
            job = TrainingJob(params, roster, settings, data, resources, self.client, start is not None)
            results, self.run_ = train_here(job, bar)
        self.partial_models_ = [result.model for result in results]
        self.cut_points_ = {
            name: {c.name: r.candidates.bins.edges[j] for j, c in enumerate(table.columns) if not c.is_categorical}
            for (name, table), r in zip(tables.items(), results, strict=True)
        }
        self.evals_result_ = results[0].metrics
        self.best_iteration_, self.best_score_ = results[0].best_iteration, results[0].best_score

    def _evaluation(
        self, eval_set: Any, weights: Any, margins: Any, training: Rows, trees_per_round: int
    ) -> list[Evaluation]:
        """Return checked evaluation sets of the participants of a training on these rows."""
        if eval_set is None:
            return []
        if not isinstance(eval_set, (list, tuple)) or any(not isinstance(p, tuple) or len(p) != 2 for p in eval_set):
            raise DataError("eval_set is not a list of (X, y) pairs; wrap one pair as [(X, y)]")
        for what, given in (("sample_weight_eval_set", weights), ("base_margin_eval_set", margins)):
            if given is not None and len(given) != len(eval_set):
                raise DataError(f"{what} has {len(given)} entries for {len(eval_set)} evaluation sets")
        checked, names = [], training[0]
        for i, (X, y) in enumerate(eval_set):
            tables, order = self._tables(X, reset=False, active=next(iter(names)))
            if set(tables) != set(names):
                told = f"eval_set[{i}] has tables of {', '.join(tables)}, X of {', '.join(names)}"
                raise DataError(f"{told}; give one table for each of them")
            if facts_of(self.security).hides_rows:
                known = match_tables(f"eval_set[{i}]", tables, names)
                refuse_training_rows(f"eval_set[{i}]", training, (known, order))
            rows = next(iter(tables.values())).rows
            of_weights = f"sample_weight_eval_set[{i}]"
            given = None if weights is None else order.put(weights[i], of_weights)
            weight = read_row_weights(given, rows, of_weights)
            of_margins = f"base_margin_eval_set[{i}]"
            own = None if margins is None else order.put(margins[i], of_margins)
            start = read_margins(own, rows, trees_per_round, of_margins)
            name = f"y of eval_set[{i}]"
            checked.append(Evaluation(tables, self._encode(order.put(y, name), rows, name), weight, start))
        return checked

    def _as_predicted(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
        """Return labels and weights of rows in the order in which their predictions come."""
        check_is_fitted(self, "partial_models_")
        order = row_order(X, self.id, self.partial_models_[0].name)
        return order.put(y, "y"), order.put(sample_weight, "sample_weight")

    def prediction_run(self, X: Any) -> RunRecord:
        """Score rows jointly and return the record of that run: what it cost and what it revealed."""
        return self._predicted(X)[1]

    def _margins(self, X: Any, iteration_range: Any = None, base_margin: Any = None) -> Floats:
        """Return the margins of rows, (trees per round, rows), by secure joint prediction."""
        return self._predicted(X, iteration_range, base_margin)[0]

    def _predicted(self, X: Any, iteration_range: Any = None, base_margin: Any = None) -> tuple[Floats, RunRecord]:
        check_is_fitted(self, "partial_models_")
        models = self.partial_models_
        if iteration_range is not None:
            chosen = read_range(iteration_range, models[0])
            models = [limited_to(model, chosen) for model in models]
        columns = {model.name: [f.name for f in model.features] for model in models}
        names = [name for own in columns.values() for name in own]
        # Where two participants use one name, only `participants` says whose column is meant.
        if is_federated(X) or len(set(names)) < len(names):
            tables, order = self._tables(X, reset=False, active=models[0].name)
        else:
            frame, order = self._frame(X, reset=False)
            tables = cut_as_trained(frame, columns)
        if set(tables) != set(columns):
            raise DataError(
                f"X has tables of {', '.join(tables)}, the model was trained by {', '.join(columns)}; "
                "give one table for each of them"
            )
        rows, trees = next(iter(tables.values())).rows, models[0].params.trees_per_round
        start = read_margins(order.put(base_margin, "base_margin"), rows, trees)
        return predict_margins(models, tables, self._settings(), start)

    @property
    def best_iteration(self) -> int:
        """XGBoost's name of `best_iteration_`; an AttributeError without early stopping, as there."""
        return int(self._after_early_stopping("best_iteration"))

    @property
    def best_score(self) -> float:
        """XGBoost's name of `best_score_`; an AttributeError without early stopping, as there."""
        return float(self._after_early_stopping("best_score"))

    def _after_early_stopping(self, name: str) -> Any:
        value = getattr(self, f"{name}_", None)
        if value is None:
            raise AttributeError(f"{name} is there after a fit with early_stopping_rounds only")
        return value

    def evals_result(self) -> dict[str, dict[str, list[float]]]:
        """XGBoost's name of `evals_result_`: evaluation set -> metric -> one value per round."""
        check_is_fitted(self, "evals_result_")
        return self.evals_result_

    @property
    def feature_importances_(self) -> Any:
        """How much columns matter, as shares of 1.

        After a fit to one table, an array over its columns as XGBoost's: the mean gain of the splits on each. After a
        fit to one table per participant, a dictionary of what each may know: how often its own features split. With
        security="sealed" or "paper" nobody knows gains, and it is the number of splits in both.
        """
        counts = self.feature_importance("weight")
        columns = getattr(self, "_columns_", None)
        if columns is not None:
            return column_importance(self.partial_models_, columns)
        return {name: own / (own.sum() or 1.0) for name, own in counts.items()}

    def feature_importance(self, kind: str = "weight") -> dict[str, pd.Series[float]]:
        """Return what each participant may know of the importance of its own features.

        Parameters
        ----------
        kind : "weight", "cover" or "gain"
            The number of splits, which every owner knows; or the mean sum of hessians in the nodes that the feature
            splits, or the mean gain of its splits: the active participant alone knows them, of every split, and so can
            tell them of its own features. With security="sealed" or "paper" nobody does, and they are refused.

        Returns
        -------
        dict of Series
            Per participant, feature -> importance.
        """
        check_is_fitted(self, "partial_models_")
        knowing = self.partial_models_ if kind == "weight" else self.partial_models_[:1]
        return {model.name: feature_importance(model, kind) for model in knowing}

    def to_xgboost(self, codes: bool = False) -> Any:
        """Return the joined model as an `xgboost.Booster` (this puts everybody's splits together).

        It has the trees that predict, so after early stopping those up to the best round; and covers and gains, hence
        XGBoost's importances, unless security="sealed" or "paper", where nobody knows them.

        Parameters
        ----------
        codes : bool
            False: xgboost matches the categories of a table by what is written. True: it takes codes for what they are,
            those of the attribute "categories" (JSON); for tools that know codes alone, and to train on with xgboost.
        """
        check_is_fitted(self, "partial_models_")
        return to_booster(join(self.partial_models_), codes)

    def report(self, path: str | Path, participant: str | None = None) -> Path:
        """Write what one participant may know of the training as a page to look at, and return its path.

        Parameters
        ----------
        path : path
            HTML file that needs nothing else: metric curves, trees as drawings, costs, and what was revealed to whom.
        participant : str or None
            Whose page; the active participant's if None.
        """
        check_is_fitted(self, "partial_models_")
        return write_report(self.partial_models_, *self._told(), Path(path), participant)

    def _told(self) -> tuple[RunRecord | None, dict[str, dict[str, list[float]]]]:
        """Return the record of the training and its metrics, which a loaded model does not have."""
        return getattr(self, "run_", None), getattr(self, "evals_result_", {})

    def _repr_html_(self) -> str:
        """Return what a notebook shows: scikit-learn's diagram before `fit`, a summary with drawings after it."""
        if not hasattr(self, "partial_models_"):
            return str(estimator_html_repr(self))
        return summary(self.partial_models_, *self._told())

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def save_model(self, folder: str | Path) -> list[Path]:
        """Write one file per participant into a folder and return their paths."""
        check_is_fitted(self, "partial_models_")
        return save_models(self.partial_models_, Path(folder))

    def load_model(self, folder: str | Path) -> Self:
        """Read all participants' files from a folder; the estimator can predict afterwards."""
        self._take(load_models(Path(folder)))
        return self

    @classmethod
    def from_parts(
        cls, parts: Sequence[PartialModel], cut_points: Mapping[str, Mapping[str, Any]] | None = None, **params: Any
    ) -> Self:
        """Return a fitted estimator of all participants' parts of a model, for example of a federation's models.

        Further arguments are the estimator's parameters, as in the constructor.

        Parameters
        ----------
        parts : sequence of PartialModel
            In any order; those that are not of one model are refused.
        cut_points : dict or None
            The attribute `cut_points_`: per participant, column -> sorted bin edges, if they are known.
        """
        estimator, models = cls(**params), list(parts)
        if not all(isinstance(model, PartialModel) for model in models):
            kinds = ", ".join(sorted({type(model).__name__ for model in models}))
            raise SettingsError(f"parts holds {kinds}; give the PartialModel of each participant")
        join(models)  # refuses parts that are not of one model, and too few or too many
        estimator._take(sorted(models, key=lambda model: model.participant))
        if cut_points is not None:
            estimator.cut_points_ = {name: dict(of_columns) for name, of_columns in cut_points.items()}
        return estimator

    def _take(self, models: list[PartialModel]) -> None:
        """Become an estimator that was fitted to these parts of one model."""
        with all_or_nothing(self):
            for name in [name for name in vars(self) if name.endswith("_")]:  # nothing of an earlier fit remains
                delattr(self, name)
            self.partial_models_ = models
            self.n_features_in_ = sum(len(model.features) for model in models)
            self._loaded(models[0])

    def _loaded(self, active: PartialModel) -> None:
        """Take over what a loaded model says of the labels."""
        self.best_iteration_, self.best_score_ = active.best_iteration, None  # the score is in no file


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Leave an estimator as it was if what happens inside fails."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise
