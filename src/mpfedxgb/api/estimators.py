"""Estimators for people who know scikit-learn and XGBoost."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, RegressorMixin

from mpfedxgb.api.base import FederatedModel, FitInput, Start
from mpfedxgb.api.row_order import RowOrder
from mpfedxgb.api.settings import check_parameters
from mpfedxgb.api.tables import read_classes, read_labels
from mpfedxgb.boosting.labels import check_labels_present, class_name, encode_classes, read_numbers
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.objective import Floats, Objective, Origin, Prediction
from mpfedxgb.boosting.objectives import CUSTOM, FOR_NUMBERS, OBJECTIVES, OTHER_NAMES, for_classes, objective_error
from mpfedxgb.boosting.objectives.survival import read_upper
from mpfedxgb.errors import DataError, SettingsError, UserError
from mpfedxgb.report.progress import EvaluationLines


class FedXGBClassifier(ClassifierMixin, FederatedModel):  # type: ignore[misc] # scikit-learn ships no types
    """Federated XGBoost for two or more classes.

    Parameters
    ----------
    participants : int, fractions that add up to 1, lists of columns, or a dict of such lists, default 2
        How `fit(X, y)` cuts the columns of one table. Not used if X is one table per participant.
    coordinator : str or None
        The participant that coordinates and brings columns, of three or more; not the active one. Its columns come
        last. None: a coordinator without columns.
    id : str or None
        The column, or index, that says which row is whose; it is no feature. Results come in the order of the active
        participant's table. None: rows belong together by their position, and DataFrames whose indexes differ are
        refused.
    objective : str, callable or None
        The loss, such as binary:logistic or reg:squarederror. None: "binary:logistic" or "multi:softprob" by the number
        of classes; "reg:squarederror" in a regressor. A callable (y, margin) -> (g, h) is for two classes, or numbers.
    n_estimators : int, default 100
        Boosting rounds; each grows one tree, or one for each class.
    num_parallel_tree : int, default 1
        Trees of a boosting round, for each class. Each has samples of its own, and they share the learning rate: a
        random forest in every boosting round.
    max_depth : int, default 3
        Levels of splits of a tree.
    max_bin : int, default 32
        Most bins of a column; each costs bytes and comparisons.
    learning_rate : float, default 0.3
        Shrinks every leaf weight.
    reg_lambda : float, default 1.0
        L2 penalty on leaf weights.
    reg_alpha : float, default 0.0
        L1 penalty on leaf weights.
    max_delta_step : float or None
        Most that a leaf may weigh before learning_rate; 0 for no bound. None: 0.7 with count:poisson, otherwise 0.
    monotone_constraints : tuple, list, str or dict or None
        Columns with which predictions may only rise (1), or only fall (-1). In the order of the columns, as a text such
        as '(1,-1,0)', or a dict by column; of one table per participant, a dict by column, or one of these for each.
        Only its owner knows a column's direction. Files have [data] monotone.
    gamma : float, default 0.0
        Least gain of a split, on XGBoost's scale.
    min_child_weight : float, default 1.0
        Least sum of hessians on either side of a split.
    subsample : float, default 1.0
        Share of rows in a boosting round. The active participant draws in private.
    colsample_bytree : float, default 1.0
        Share of columns in a tree. Every owner draws among its own, at least one, in private.
    colsample_bylevel : float, default 1.0
        Share of the tree's columns in each of its levels. Drawn as colsample_bytree.
    colsample_bynode : float, default 1.0
        Share of the level's columns in each of its nodes. Drawn as colsample_bytree; a message round for each level.
    booster : "gbtree" or "dart", default "gbtree"
        Which trees; both names mean the same, as in XGBoost 3.4. Trees are left out of boosting rounds with rate_drop
        or one_drop.
    rate_drop : float, default 0.0
        Chance of each earlier tree to be left out of a boosting round. Trees left out are scaled down (DART); the
        active participant alone knows which, and the scales. A model is scored with all its trees at once.
    skip_drop : float, default 0.0
        Chance of a boosting round that leaves no tree out.
    one_drop : bool, default False
        Leave out one tree at least, but in boosting rounds that skip_drop spares.
    sample_type : "uniform" or "weighted", default "uniform"
        "weighted" leaves trees out the more often the larger their scale is.
    normalize_type : "tree" or "forest", default "tree"
        New trees weigh as much as one of those left out, or as all of them together.
    huber_slope : float, default 1.0
        Where reg:pseudohubererror turns from a square to a line.
    tweedie_variance_power : float, default 1.5
        Power of the mean by which reg:tweedie's variance grows; 2 is gamma's.
    quantile_alpha : float | Sequence[float], default 0.5
        Which quantile reg:quantileerror predicts. A list of several: a tree and a column of predictions for each.
    lambdarank_pair_method : "topk" or "mean", default "topk"
        Which rows of a group are held against each other when ranking. "topk": the first by their scores, each with all
        below it; "mean": rows drawn at random for each.
    lambdarank_num_pair_per_sample : int or None
        How many of the first rows, or how many random ones for each row. None: 32, or 1.
    lambdarank_normalization : bool, default True
        Whether a group's gradients are scaled by what they add up to. By the number of pairs with "mean".
    lambdarank_score_normalization : bool, default True
        Whether a pair counts less the farther apart its scores are.
    ndcg_exp_gain : bool, default True
        Whether a grade gains 2^grade - 1 in rank:ndcg, or the grade itself.
    aft_loss_distribution : "normal", "logistic" or "extreme", default "normal"
        How logarithms of times are spread in survival:aft.
    aft_loss_distribution_scale : float, default 1.0
        How far they are spread.
    missing : float, default np.nan
        A number that stands for a missing value, beside NaN, None and pd.NA. In sparse input what is not stored is
        missing too. Files have [data] missing and --missing.
    base_score : float or None
        The prediction to start from: a probability, a mean or a margin, as the objective has it. None: derived from the
        labels, by the active participant alone.
    scale_pos_weight : float, default 1.0
        Multiplies the weights of rows of the second class, or with a label of 1. The active participant alone knows it.
    importance_type : "weight", "gain", "cover", "total_gain" or "total_cover", default "gain"
        What feature_importances_ tells of the columns of one table, as shares of 1. "weight" counts splits, "gain" and
        "cover" are means over them.
    feature_types : sequence of str or None
        A kind for each column, "c" for categories, or what else XGBoost has. The table says what its columns are, and
        these are held to it.
    eval_metric : str, callable or sequence of them or None
        Metrics of the evaluation rows; the last one decides.
    early_stopping_rounds : int or None
        Boosting rounds without progress before stopping; needs rows to watch.
    callbacks : sequence of callables or objects or None
        Whom to call at the active participant while the training runs; a true result stops it. Functions get a
        RoundReport after each boosting round; objects are in XGBoost's form.
    first_layer_mask : bool, default False
        Let only the active participant split the root. Section 5.2 of the paper.
    security : "strict", "sealed", "paper" or "none", default "strict"
        "sealed" shows nobody anything of a training row; "paper" reveals more. With "strict" the active participant
        learns which of its training rows share a leaf, with "sealed" nobody does (docs/sealed.md says what that
        refuses). "paper" runs the paper's algorithms as printed, to study them (docs/paper-vs-strict.md): for two
        classes or squared error, min_child_weight=0, reg_lambda above 0, no weights, no column samples. "none" computes
        the model of "strict" in the clear and protects nothing.
    binning : "quantile" or "paper", default "quantile"
        Equal frequency; "paper" takes the sketch of the paper's own code. The sketch is greedy, has about ten buckets
        and does not use max_bin.
    leaf_epsilon : float, default 1e-06
        With security = "paper": how close leaf weights come to the exact ones. For regression, as a share of the
        largest residual.
    random_state : int or None
        Makes row and column samples repeat; masks are random all the same.
    insecure_seed : int or None
        Makes the whole run repeat, for demonstrations; never for real data. Anyone who knows it knows every secret.
    deadline : float, default 600.0
        Seconds that a role waits for another.
    link : str, default "local"
        What to plan for: local, lan, wan, or ms/Mbit/s as in 20/100. Milliseconds one way, megabits a second. It
        changes no model.
    n_jobs : int or None
        Threads of each role for what is computed over rows; -1 for all cores. None is one. It changes no number.
    max_memory : int, str or None
        What the training may take of memory, in bytes or as "6 GB". Larger matrices go to the spool. It changes no
        model.
    spool : path or None
        A folder, on a local disk, for what does not fit into memory. It is empty again afterwards.
    topology : "star" or "mesh", default "star"
        How participants are connected: star, over the active one, or mesh, each with each. A mesh takes half the hops.
        It changes no model.
    client : distributed.Client or None
        A Dask cluster whose workers hold rows and compute over them. The model is the same.
    verbosity : int, default 0
        1 shows a progress bar on standard error.

    Attributes
    ----------
    classes_, n_features_in_, partial_models_, evals_result_, best_iteration_, best_score_, feature_importances_
    cut_points_ : dict
        Per participant, column -> sorted bin edges (x <= edge goes left); a simulation can show them, a federation not.
    run_ : RunRecord
        What the training cost and revealed.
    """

    def _fit(self, given: FitInput, start: Start, lines: EvaluationLines | None = None) -> None:
        super()._fit(given, start, lines)
        self.partial_models_[0] = replace(self.partial_models_[0], classes=self._class_names())

    def _read_labels(self, y: Any, rows: int, weight: Floats | None, start: Start) -> tuple[Floats, str, int]:
        if start is None:
            self.classes_, places = np.unique(read_classes(y, rows), return_inverse=True)
            _refuse_one_class(self.classes_, places, weight)
            codes = places.astype(np.float64)
        else:
            self._loaded(start[0])
            codes = self._encode(y, rows, "y")
        classes = len(self.classes_)
        return codes, check_parameters(self, partial(self._objective, classes)), classes

    def _objective(self, classes: int) -> str:
        fitting = for_classes(classes).name
        if self.objective is None:
            return fitting
        if callable(self.objective):
            if classes > 2:
                raise SettingsError(
                    f"a custom objective works for two classes; use {fitting} for more", "mode", "objective"
                )
            return CUSTOM.name
        if self.objective in [name for name, objective in OBJECTIVES.items() if objective.takes_classes(classes)]:
            return str(self.objective)
        remedy = f"use {fitting!r} or None" + (", or a callable" if classes == 2 else "")
        raise objective_error(self.objective, f"does not go with {classes} classes", remedy)

    def _encode(self, y: Any, rows: int, name: str) -> Floats:
        labels = read_labels(y, rows, name)
        check_labels_present(labels, Origin(name))
        return encode_classes(labels, self._class_names(), Origin(name))

    @property
    def n_classes_(self) -> int:
        """The number of classes, as XGBoost calls it; an AttributeError before `fit`, as there."""
        return len(self.classes_)

    def _class_names(self) -> tuple[str | int | float, ...]:
        return tuple(class_name(label) for label in self.classes_.tolist())

    def predict_proba(self, X: Any, iteration_range: Any = None, base_margin: Any = None) -> npt.NDArray[np.float64]:
        """Return the probability of every class, (rows, classes), by joint prediction.

        iteration_range=(begin, end) takes the rounds from begin up to, not with, end; unset, all up to the best. With
        security="sealed" it is refused, unless it means all. base_margin, as in `fit`, is where rows start.
        """
        margins = self._margins(X, iteration_range, base_margin)
        return np.ascontiguousarray(self.partial_models_[0].params.loss.probabilities(margins).T)

    def predict(
        self, X: Any, iteration_range: Any = None, *, output_margin: bool = False, base_margin: Any = None
    ) -> npt.NDArray[Any]:
        """Return the likeliest class of every row, (rows,), or with output_margin the margins of `decision_function`.

        Other arguments as in `predict_proba`.
        """
        if output_margin:
            return self.decision_function(X, iteration_range, base_margin)
        likeliest = self.predict_proba(X, iteration_range, base_margin).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is predicted; labels and weights are held to the rows as in `fit`."""
        return float(super().score(X, *self._as_predicted(X, y, sample_weight)))

    def decision_function(
        self, X: Any, iteration_range: Any = None, base_margin: Any = None
    ) -> npt.NDArray[np.float64]:
        """Return margins: (rows,) for two classes, (rows, classes) for more; other arguments as in `predict_proba`."""
        margins = self._margins(X, iteration_range, base_margin)
        return margins[0] if len(margins) == 1 else np.ascontiguousarray(margins.T)

    def _loaded(self, active: PartialModel) -> None:
        super()._loaded(active)
        if active.classes is None:
            text = f"the model has no classes ({active.params.objective}); load it into a FedXGBRegressor"
            raise UserError(text, "mismatch", "objective", active.params.objective)
        self.classes_ = np.array(active.classes)


class FedXGBRegressor(RegressorMixin, FederatedModel):  # type: ignore[misc] # scikit-learn ships no types
    """Federated XGBoost for numbers and counts.

    Parameters and attributes as in `FedXGBClassifier`; labels are finite numbers, 0 or more for counts; `objective` is
    "reg:squarederror" (default), another loss of docs/parameters.md that is not for classes, or a callable
    (y, margin) -> (g, h).
    """

    def _beside(
        self, X: Any, y: Any, qid: Any, rows: tuple[RowOrder, int], names: tuple[str, str]
    ) -> tuple[Any, npt.NDArray[Any] | None]:
        """Return lower bounds and upper bounds of times, where an objective takes both."""
        if self.objective not in OBJECTIVES or OBJECTIVES[self.objective].beside != "upper":
            return y, None
        bounds, (_, count) = np.asarray(y), rows
        if bounds.shape != (count, 2):
            text = f"{names[0]} has shape {bounds.shape}; {self.objective} takes two bounds of each row, ({count}, 2)"
            raise DataError(f"{text}: the known time twice, or inf above", "mismatch", names[0], bounds.shape)
        lower = read_numbers(bounds[:, 0], OBJECTIVES[self.objective], Origin(names[0]), starts=False)
        return lower, read_upper(bounds[:, 1], lower, Origin(f"the upper bound in {names[0]}"))

    def _read_labels(self, y: Any, rows: int, weight: Floats | None, start: Start) -> tuple[Floats, str, int]:
        loss = check_parameters(self, self._loss)
        labels = read_numbers(read_labels(y, rows), loss, Origin("y"), starts=self.base_score is None)
        return labels, loss.name, 1

    def _encode(self, y: Any, rows: int, name: str) -> Floats:
        return read_numbers(read_labels(y, rows, name), self._loss(), Origin(name), starts=False)

    def _loss(self) -> Objective:
        if callable(self.objective):
            return CUSTOM
        name = self.objective or FOR_NUMBERS[0]
        if name not in FOR_NUMBERS:
            if OTHER_NAMES.get(name) in FOR_NUMBERS:
                text = f"objective={name!r} is not known; it is called {OTHER_NAMES[name]} here"
                raise SettingsError(text, "choice", "objective", name)
            raise objective_error(name, "is not for regression", f"use {', '.join(FOR_NUMBERS)} or a callable")
        return OBJECTIVES[name]

    def predict(
        self, X: Any, iteration_range: Any = None, *, output_margin: bool = False, base_margin: Any = None
    ) -> npt.NDArray[np.float64]:
        """Return the prediction of every row, (rows,), with output_margin before the loss transforms it.

        Of several quantiles (rows, quantiles). Other arguments as of `FedXGBClassifier.predict_proba`.
        """
        margins = self._margins(X, iteration_range, base_margin)
        found = margins if output_margin else self.partial_models_[0].params.loss.transform(margins)
        return np.ascontiguousarray(found[0] if len(found) == 1 else found.T)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of the labels' variance that is predicted; labels and weights are held to the rows."""
        loss = self._loss()
        if Prediction.NUMBER not in loss.predicts or not isinstance(self.quantile_alpha, (int, float)):
            text = f"score is the share of the labels' variance, which {loss.name} does not predict so"
            raise UserError(
                f"{text}; give fit an eval_set and look at evals_result_", "mismatch", "objective", loss.name
            )
        return float(super().score(X, *self._as_predicted(X, y, sample_weight)))

    def _loaded(self, active: PartialModel) -> None:
        super()._loaded(active)
        if active.classes is not None:
            text = f"the model has classes ({active.params.objective}); load it into a FedXGBClassifier"
            raise UserError(text, "mismatch", "objective", active.params.objective)


def _refuse_one_class(classes: npt.NDArray[Any], codes: npt.NDArray[Any], weight: Floats | None) -> None:
    if len(classes) < 2:
        raise DataError(f"y has only one class, {classes[0]!r}; a classifier needs two or more classes", "few", "y", 1)
    if weight is not None and len(np.unique(codes[weight > 0])) < 2:
        raise DataError(
            "y has only one class among the rows of positive weight; a classifier needs two or more", "few", "y", 1
        )
