"""What a fitted estimator answers: predictions, importance, exports, reports, files; and how it reads tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted, validate_data

from mpfedxgb.api.federated_table import FederatedTable, margins_of
from mpfedxgb.api.models import (
    load_models,
    predict_leaves,
    predict_margins,
    roster_of,
    save_models,
    summary,
    to_booster,
    write_report,
)
from mpfedxgb.api.row_order import RowOrder
from mpfedxgb.api.settings import plain, read_missing, value_of
from mpfedxgb.api.tables import (
    Participants,
    cut,
    cut_as_trained,
    is_federated,
    read_frame,
    read_margins,
    read_tables,
    row_order,
)
from mpfedxgb.boosting.join import column_importance, feature_importance, join
from mpfedxgb.boosting.metrics import limited_to, read_range
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import Link, SessionSettings, link_of
from mpfedxgb.data.table import Table, is_arrow
from mpfedxgb.errors import DataError, SettingsError
from mpfedxgb.modes.facts import facts_of
from mpfedxgb.party.roster import Roster
from mpfedxgb.report.record import RunRecord


class FittedModel(BaseEstimator):  # type: ignore[misc] # scikit-learn ships no types
    """What an estimator does once it is fitted, or loaded."""

    participants: Participants
    coordinator: str | None
    id: str | None
    deadline: float
    insecure_seed: int | None
    link: str | Link
    topology: str
    missing: float
    security: str
    importance_type: str
    feature_types: Sequence[str] | None
    partial_models_: list[PartialModel]
    evals_result_: dict[str, dict[str, list[float]]]
    best_iteration_: int | None
    best_score_: float | None

    def _tables(self, X: Any, reset: bool, active: str | None = None) -> tuple[dict[str, Table], RowOrder]:
        """Return the participants' tables from X, in any of the forms it is taken in, and the order of their rows."""
        least = 2 if reset and facts_of(self.security).runs_a_protocol else 1
        if is_federated(X):
            tables, order = read_tables(X, self.id, active, read_missing(self.missing), least)
            if reset:
                for of_one_table in ("feature_names_in_", "_columns_"):  # of an earlier fit
                    self.__dict__.pop(of_one_table, None)
                self.n_features_in_ = sum(len(t.columns) for t in tables.values())
            return self._coordinator_last(tables), order
        frame, order = self._frame(X, reset)
        return self._coordinator_last(cut(frame, self.participants, read_missing(self.missing), least)), order

    def _check_kinds(self, tables: Mapping[str, Table]) -> None:
        """Raise DataError if feature_types says of a column what the table does not."""
        if self.feature_types is None:
            return
        found = {column.name: column.is_categorical for table in tables.values() for column in table.columns}
        names = getattr(self, "_columns_", list(found))
        if isinstance(self.feature_types, str) or len(self.feature_types) != len(names):
            text = (
                f"feature_types is not a kind for each of {len(names)} columns; leave it out: tables say it themselves"
            )
            raise DataError(text, "mismatch", "feature_types")
        for name, kind in zip(names, self.feature_types, strict=True):
            if (kind == "c") != found[name]:
                text = (
                    f"feature_types has {kind!r} for column {name!r}, which is {'not ' * (not found[name])}categories"
                )
                raise DataError(f"{text}; change the column's type, or leave feature_types out", "mismatch", name, kind)

    def _coordinator_last(self, tables: dict[str, Table]) -> dict[str, Table]:
        """Return tables in the order of a model, in which a coordinator's columns come last."""
        return {name: tables[name] for name in self._roster(tables).owner_names}

    def _roster(self, tables: Mapping[str, Table]) -> Roster:
        return roster_of(tables, plain(self.coordinator))

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

    def _as_predicted(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
        """Return labels and weights of rows in the order in which their predictions come."""
        check_is_fitted(self, "partial_models_")
        if isinstance(X, FederatedTable):
            y, sample_weight = X.label if y is None else y, X.weight if sample_weight is None else sample_weight
        order = row_order(X, self.id, self.partial_models_[0].name)
        return order.put(y, "y"), order.put(sample_weight, "sample_weight")

    def prediction_run(self, X: Any) -> RunRecord:
        """Score rows jointly and return the record of that run: what it cost and what it revealed."""
        return self._predicted(X)[1]

    def _margins(self, X: Any, iteration_range: Any = None, base_margin: Any = None) -> Floats:
        """Return the margins of rows, (classes, rows), by secure joint prediction."""
        return self._predicted(X, iteration_range, base_margin)[0]

    def _predicted(self, X: Any, iteration_range: Any = None, base_margin: Any = None) -> tuple[Floats, RunRecord]:
        check_is_fitted(self, "partial_models_")
        models = self.partial_models_
        if iteration_range is not None:
            chosen = read_range(iteration_range, models[0])
            models = [limited_to(model, chosen) for model in models]
        tables, order = self._tables_to_score(X)
        rows, trees = next(iter(tables.values())).rows, models[0].params.outputs
        start = read_margins(order.put(margins_of(X, base_margin), "base_margin"), rows, trees)
        return predict_margins(models, tables, self._settings(), start)

    def apply(self, X: Any, iteration_range: Any = None) -> npt.NDArray[np.int64]:
        """Return the leaf of every row in every tree in use, (rows, trees), by joint prediction.

        Leaves are numbered as in the exported Booster. Which rows share a leaf is more than a prediction tells, so the
        ledger has a line of its own for it; with security="sealed" and "paper" nobody may know it, and a federation
        has no such request. iteration_range as in `predict`.
        """
        check_is_fitted(self, "partial_models_")
        chosen = read_range(iteration_range, self.partial_models_[0])
        return predict_leaves(self.partial_models_, self._tables_to_score(X)[0], chosen, self._settings())[0]

    def _tables_to_score(self, X: Any) -> tuple[dict[str, Table], RowOrder]:
        """Return everybody's rows to score, with the columns that each one's model knows, and their order."""
        models = self.partial_models_
        columns = {model.name: [f.name for f in model.features] for model in models}
        names = [name for own in columns.values() for name in own]
        # Where two participants use one name, only `participants` says whose column is meant.
        if is_federated(X) or len(set(names)) < len(names):
            tables, order = self._tables(X, reset=False, active=models[0].name)
        else:
            frame, order = self._frame(X, reset=False)
            tables = cut_as_trained(frame, columns, missing=read_missing(self.missing))
        if set(tables) != set(columns):
            text = (
                f"X has tables of {', '.join(tables)}, the model was trained by {', '.join(columns)}; "
                "give one table for each of them"
            )
            raise DataError(text, "mismatch", "X")
        return tables, order

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

        After a fit to one table, an array over its columns as XGBoost's, by importance_type. After a
        fit to one table per participant, a dictionary of what each may know: how often its own features split. With
        security="sealed" or "paper" nobody knows gains, and it is the number of splits in both.
        """
        counts = self.feature_importance("weight")
        columns = getattr(self, "_columns_", None)
        if columns is not None:
            return column_importance(self.partial_models_, columns, value_of(self, "importance_type"))
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

    def get_booster(self) -> Any:
        """Return the model as `to_xgboost` does, its columns named and ordered as in the table that `fit` was given.

        After a fit to an array they have no names, so that the Booster takes a DMatrix of an array, as XGBoost's. After
        one to a table per participant they are in the participants' order. Changing this Booster changes no estimator.
        """
        check_is_fitted(self, "partial_models_")
        joined, columns = join(self.partial_models_), getattr(self, "_columns_", None)
        if columns is not None and sorted(columns) == sorted(feature.name for _, feature in joined.features):
            place = {name: i for i, name in enumerate(columns)}
            joined = replace(joined, features=tuple(sorted(joined.features, key=lambda own: place[own[1].name])))
        booster = to_booster(joined)
        if columns is not None and not hasattr(self, "feature_names_in_"):
            booster.feature_names = None
        return booster

    @property
    def intercept_(self) -> npt.NDArray[np.float32]:
        """The prediction that training started from, XGBoost's base_score: one number, or one for each class."""
        if not hasattr(self, "partial_models_"):
            raise AttributeError("intercept_ is there after fit only")
        active = self.partial_models_[0]
        return active.params.loss.link.to_score(np.array(active.base_margin)).astype(np.float32)

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

    def _told(self) -> tuple[RunRecord | None, dict[str, dict[str, list[float]]], dict[str, Any] | None]:
        """Return the record of the training, its metrics and its judgement, which a loaded model does not have."""
        return getattr(self, "run_", None), getattr(self, "evals_result_", {}), getattr(self, "_judgement", None)

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
            raise SettingsError(
                f"parts holds {kinds}; give the PartialModel of each participant", "type", "parts", kinds
            )
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
            self.partial_models_, self.coordinator = models, models[0].coordinator
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
