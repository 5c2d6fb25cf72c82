"""What classifier and regressor have in common: every role runs as a thread of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from mpfedxgb.api.federated_table import FederatedTable, margins_of
from mpfedxgb.api.fitted import FittedModel, all_or_nothing
from mpfedxgb.api.row_order import RowOrder
from mpfedxgb.api.settings import (
    check_start,
    known_names,
    plain,
    read_callbacks,
    read_metrics,
    read_patience,
    reject_unknown_kwargs,
    sample_key,
    tell_other_defaults,
    train_params,
    value_of,
)
from mpfedxgb.api.tables import (
    Participants,
    Rows,
    match_tables,
    read_margins,
    read_row_weights,
    refuse_training_rows,
    warn_of_identifiers,
)
from mpfedxgb.api.training import TrainingJob, check_same_start, forecast_tables, go_on, read_start, train_here
from mpfedxgb.boosting.active import Labels
from mpfedxgb.boosting.callbacks import Callbacks
from mpfedxgb.boosting.metrics import OwnMetric
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.parts import TrainData
from mpfedxgb.config import Link, Resources
from mpfedxgb.costs.forecast import Forecast
from mpfedxgb.data.directions import Directions, directions_of_tables
from mpfedxgb.data.table import Table
from mpfedxgb.errors import DataError
from mpfedxgb.modes.facts import check_coordinator, facts_of
from mpfedxgb.report.progress import EvaluationLines, watch

Start = Sequence[PartialModel] | None
"""All participants' parts of the model that a training goes on from."""


class Evaluation(NamedTuple):
    """An evaluation set, checked: its name in `evals_result_`, and everybody's table by name.

    `beside` is what some losses take beside labels: the group of each row, or upper bounds.
    """

    name: str
    tables: dict[str, Table]
    y: Floats
    weight: Floats | None
    base_margin: Floats | None = None
    beside: npt.NDArray[Any] | None = None


class FitInput(NamedTuple):
    """What `fit` was given, checked; everybody's table by name."""

    tables: dict[str, Table]
    y: Floats
    params: TrainParams
    weight: Floats | None
    evaluation: list[Evaluation]
    base_margin: Floats | None = None
    directions: Mapping[str, Directions] = {}
    beside: npt.NDArray[Any] | None = None


class Groups(NamedTuple):
    """What a ranker was given to say which rows belong together: of training rows, and of each evaluation set."""

    qid: Any = None
    eval_qid: Any = None


_NO_GROUPS = Groups()


class FederatedModel(FittedModel):
    """What classifier and regressor have in common."""

    @reject_unknown_kwargs
    def __init__(
        self,
        *,
        # generated: signature
        participants: Participants = 2,
        coordinator: str | None = None,
        id: str | None = None,  # noqa: A002 # what the settings file of a federation calls it
        objective: str | Callable[..., Any] | None = None,
        n_estimators: int = 100,
        num_parallel_tree: int = 1,
        max_depth: int = 3,
        max_bin: int = 32,
        learning_rate: float = 0.3,
        reg_lambda: float = 1.0,
        reg_alpha: float = 0.0,
        max_delta_step: float | None = None,
        monotone_constraints: Any = None,
        gamma: float = 0.0,
        min_child_weight: float = 1.0,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        colsample_bylevel: float = 1.0,
        colsample_bynode: float = 1.0,
        booster: str = "gbtree",
        rate_drop: float = 0.0,
        skip_drop: float = 0.0,
        one_drop: bool = False,
        sample_type: str = "uniform",
        normalize_type: str = "tree",
        huber_slope: float = 1.0,
        tweedie_variance_power: float = 1.5,
        quantile_alpha: float | Sequence[float] = 0.5,
        lambdarank_pair_method: str = "topk",
        lambdarank_num_pair_per_sample: int | None = None,
        lambdarank_normalization: bool = True,
        lambdarank_score_normalization: bool = True,
        ndcg_exp_gain: bool = True,
        aft_loss_distribution: str = "normal",
        aft_loss_distribution_scale: float = 1.0,
        missing: float = np.nan,
        base_score: float | None = None,
        scale_pos_weight: float = 1.0,
        importance_type: str = "gain",
        feature_types: Sequence[str] | None = None,
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
        self.coordinator = coordinator
        self.id = id
        self.objective = objective
        self.n_estimators = n_estimators
        self.num_parallel_tree = num_parallel_tree
        self.max_depth = max_depth
        self.max_bin = max_bin
        self.learning_rate = learning_rate
        self.reg_lambda = reg_lambda
        self.reg_alpha = reg_alpha
        self.max_delta_step = max_delta_step
        self.monotone_constraints = monotone_constraints
        self.gamma = gamma
        self.min_child_weight = min_child_weight
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.colsample_bylevel = colsample_bylevel
        self.colsample_bynode = colsample_bynode
        self.booster = booster
        self.rate_drop = rate_drop
        self.skip_drop = skip_drop
        self.one_drop = one_drop
        self.sample_type = sample_type
        self.normalize_type = normalize_type
        self.huber_slope = huber_slope
        self.tweedie_variance_power = tweedie_variance_power
        self.quantile_alpha = quantile_alpha
        self.lambdarank_pair_method = lambdarank_pair_method
        self.lambdarank_num_pair_per_sample = lambdarank_num_pair_per_sample
        self.lambdarank_normalization = lambdarank_normalization
        self.lambdarank_score_normalization = lambdarank_score_normalization
        self.ndcg_exp_gain = ndcg_exp_gain
        self.aft_loss_distribution = aft_loss_distribution
        self.aft_loss_distribution_scale = aft_loss_distribution_scale
        self.missing = missing
        self.base_score = base_score
        self.scale_pos_weight = scale_pos_weight
        self.importance_type = importance_type
        self.feature_types = feature_types
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
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        return tags

    @reject_unknown_kwargs
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        sample_weight_eval_set: Any = None,
        xgb_model: Any = None,
        verbose: Any = False,
        base_margin: Any = None,
        base_margin_eval_set: Any = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : table of shape (rows, columns), or FederatedTable, list or dict of one table per participant
            Of several tables the active participant's is the first. Without `id`, row i of every table is about the
            same person; arrays have no index that could say otherwise.
        y : array of shape (rows,), or None for the label of a FederatedTable
            A classifier takes labels of any type with two or more distinct values, a regressor finite numbers. A Series
            has to have the index of X, or the ids as its index; an array or list is in the order of X.
        sample_weight : array of shape (rows,) or None
        eval_set : list of (X, y), dict of them by name, or None
            Evaluation rows that ride along; X in the same form as for training. In `evals_result_` those of a list are
            called validation_0, validation_1, ... With security="sealed" they are none of
            the training rows, since their margins are revealed after each boosting round.
        sample_weight_eval_set : list of arrays or None
        xgb_model : fitted estimator, folder that save_model wrote, list of all participants' parts, or None
            A model to go on from: its trees come first, n_estimators new rounds follow. Classes, columns and
            categories are its own.
        verbose : bool or int
            Whether to print the metrics of evaluation rows after each boosting round, or after every n-th, on standard
            output, as XGBoost does. It does so unasked; here an estimator is silent.
        base_margin : array of shape (rows,), (rows, classes) for several classes, or None
            The margin that each row starts from, in place of base_score; predictions take one too.
        base_margin_eval_set : list of arrays or None
        """
        margins = base_margin, base_margin_eval_set
        return self._train((X, y, sample_weight, eval_set, sample_weight_eval_set), xgb_model, verbose, margins)

    def _train(
        self,
        tables: tuple[Any, Any, Any, Any, Any],
        xgb_model: Any,
        verbose: Any,
        margins: tuple[Any, Any],
        groups: Groups = _NO_GROUPS,
    ) -> Self:
        with all_or_nothing(self):
            start = read_start(xgb_model)
            given = self._read(*tables, start, margins, groups)
            self._fit(given, start, EvaluationLines.read(verbose))
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
        groups: Groups = _NO_GROUPS,
    ) -> FitInput:
        """Return what `fit` takes, checked."""
        if isinstance(X, FederatedTable):
            y, sample_weight = X.label if y is None else y, X.weight if sample_weight is None else sample_weight
        tables, order = self._tables(X, reset=True)
        self._check_kinds(tables)
        rows = next(iter(tables.values())).rows
        labels, beside = self._beside(X, order.put(y, "y"), groups.qid, (order, rows), ("y", "qid"))
        weight = self._weights(sample_weight, beside, (order, rows), "sample_weight")
        known, objective, classes = self._read_labels(labels, rows, weight, start)
        columns = getattr(self, "_columns_", None)
        directions = directions_of_tables(self.monotone_constraints, tables, columns, "monotone_constraints")
        params = train_params(self, objective, classes, weight is not None, any(directions.values()))
        outputs = params.outputs
        own = read_margins(order.put(margins_of(X, margins[0]), "base_margin"), rows, outputs)
        others = {
            "sample_weight_eval_set": sample_weight_eval_set,
            "base_margin_eval_set": margins[1],
            "eval_qid": groups.eval_qid,
        }
        evaluation = self._evaluation(eval_set, others, (tables, order), outputs)
        return FitInput(tables, known, params, weight, evaluation, own, directions, beside)

    def _beside(
        self, X: Any, y: Any, qid: Any, rows: tuple[RowOrder, int], names: tuple[str, str]
    ) -> tuple[Any, npt.NDArray[Any] | None]:
        """Return the labels of some rows, and what the objective takes beside them, checked; names are for messages."""
        return y, None

    def _weights(
        self, weight: Any, beside: npt.NDArray[Any] | None, rows: tuple[RowOrder, int], name: str
    ) -> Floats | None:
        """Return the weights of some rows, checked."""
        order, count = rows
        return read_row_weights(order.put(weight, name), count, name)

    def _read_labels(self, y: Any, rows: int, weight: Floats | None, start: Start) -> tuple[Floats, str, int]:
        """Return the labels of a training as numbers, the name of its objective, and the number of classes."""
        raise NotImplementedError

    def _encode(self, y: Any, rows: int, name: str) -> Floats:
        """Return the labels of evaluation rows as numbers, those of the training."""
        raise NotImplementedError

    def forecast(self, X: Any, y: Any = None, sample_weight: Any = None, eval_set: Any = None) -> Forecast:
        """Return what `fit` on these tables would cost with full trees, without training.

        Rounds, hops, bytes and reveals are those that a run of full trees has; memory and disk are by role; seconds are
        an estimate from half a second of measuring. The estimator stays as it was; with security="none" it is told
        what "strict" costs.
        """
        given = copy(self)._read(X, y, sample_weight, eval_set, None)
        params = given.params.as_protected()
        later = sum(len(e.y) for e in given.evaluation)
        return forecast_tables(given.tables, later, params, self._roster(given.tables), self._settings(params))

    def _fit(self, given: FitInput, start: Start, lines: EvaluationLines | None = None) -> None:
        """Train on checked input, from a model if there is one, and keep everything a fitted estimator has."""
        tables, params, evaluation = given.tables, given.params, given.evaluation
        new_rounds = params.n_estimators
        callbacks = read_callbacks(self.callbacks)
        labels = Labels(
            y=given.y,
            weight=given.weight,
            eval_y=[e.y for e in evaluation],
            eval_weight=[e.weight for e in evaluation],
            eval_names=[e.name for e in evaluation],
            eval_metrics=read_metrics(self.eval_metric, params.objective),
            early_stopping_rounds=read_patience(self.early_stopping_rounds, bool(evaluation)),
            base_score=self.base_score,
            custom=self.objective if callable(self.objective) else None,
            scale_pos_weight=float(value_of(self, "scale_pos_weight")),
            base_margin=given.base_margin,
            eval_base_margin=[e.base_margin for e in evaluation],
            beside=given.beside,
            eval_beside=[e.beside for e in evaluation],
        )
        if start is not None:
            check_same_start(start[0], params, labels)
            tables, params = go_on(start, tables, params)
        key = sample_key(self.random_state)
        check_start(params, labels)
        warn_of_identifiers(tables)
        tell_other_defaults(params)
        matched = [match_tables(f"eval_set[{i}]", e.tables, tables) for i, e in enumerate(evaluation)]
        resources = Resources.read(plain(self.n_jobs), plain(self.max_memory), self.spool)
        roster, settings = self._roster(tables), self._settings(params)
        check_coordinator(params.facts, roster.coordinating_owner)
        with watch(self.verbosity or 0, new_rounds, shows_forecast=start is None) as bar:
            whom = [bar.round_done, *callbacks, *([lines] if lines else [])]
            labels = replace(labels, callbacks=Callbacks.read(whom))
            parts = [None] * len(tables) if start is None else start
            data = [
                TrainData(
                    table,
                    [known[name] for known in matched],
                    labels if i == 0 else None,
                    key,
                    parts[i],
                    given.directions[name],
                )
                for i, (name, table) in enumerate(tables.items())
            ]
            job = TrainingJob(params, roster, settings, data, resources, self.client, start is not None)
            results, self.run_ = train_here(job, bar)
        self.partial_models_ = [result.model for result in results]
        self.cut_points_ = {
            name: {c.name: r.candidates.bins.edges[j] for j, c in enumerate(table.columns) if not c.is_categorical}
            for (name, table), r in zip(tables.items(), results, strict=True)
        }
        self.monotone_constraints_ = {name: dict(own) for name, own in given.directions.items()}
        self.evals_result_ = results[0].metrics
        self._judgement = results[0].judgement
        self.best_iteration_, self.best_score_ = results[0].best_iteration, results[0].best_score

    def _evaluation(self, eval_set: Any, others: Mapping[str, Any], training: Rows, classes: int) -> list[Evaluation]:
        """Return checked evaluation sets of the participants of a training on these rows.

        `others` are lists of what else is given of each set, or None, by the names of arguments.
        """
        if eval_set is None:
            return []
        names = [str(name) for name in eval_set] if isinstance(eval_set, Mapping) else None
        eval_set = list(eval_set.values()) if isinstance(eval_set, Mapping) else eval_set
        if not isinstance(eval_set, (list, tuple)) or any(not isinstance(p, tuple) or len(p) != 2 for p in eval_set):
            raise DataError("eval_set is not a list of (X, y) pairs; wrap one pair as [(X, y)]", "type", "eval_set")
        for what, given in others.items():
            if given is not None and len(given) != len(eval_set):
                raise DataError(
                    f"{what} has {len(given)} entries for {len(eval_set)} evaluation sets", "mismatch", what, len(given)
                )
        checked, own = [], training[0]
        for i, (X, y) in enumerate(eval_set):
            tables, order = self._tables(X, reset=False, active=next(iter(own)))
            if set(tables) != set(own):
                text = f"eval_set[{i}] has tables of {', '.join(tables)}, X of {', '.join(own)}"
                raise DataError(f"{text}; give one table for each of them", "mismatch", f"eval_set[{i}]")
            if facts_of(self.security).hides_rows:
                known = match_tables(f"eval_set[{i}]", tables, own)
                refuse_training_rows(f"eval_set[{i}]", training, (known, order))
            rows, name = next(iter(tables.values())).rows, f"y of eval_set[{i}]"
            weight, margin, qid = (None if given is None else given[i] for given in others.values())
            of_weights, of_margins, of_groups = (f"{what}[{i}]" for what in others)
            labels, beside = self._beside(X, order.put(y, name), qid, (order, rows), (name, of_groups))
            weights = self._weights(weight, beside, (order, rows), of_weights)
            start = read_margins(order.put(margins_of(X, margin), of_margins), rows, classes, of_margins)
            known_as = f"validation_{i}" if names is None else names[i]
            y64 = self._encode(labels, rows, name)
            checked.append(Evaluation(known_as, tables, y64, weights, start, beside))
        return checked
