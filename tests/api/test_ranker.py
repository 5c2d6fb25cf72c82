"""FedXGBRanker, tables with groups or bounds, several quantiles: what users give, and what they hear of mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.model_selection import GroupKFold

from mpfedxgb import FederatedTable, FedXGBClassifier, FedXGBRanker, FedXGBRegressor, cv, join, train
from mpfedxgb.errors import DataError, SettingsError, UserError
from support.refusals import ANY, refused

ROWS = 60
RNG = np.random.default_rng(3)
X = pd.DataFrame(RNG.normal(size=(ROWS, 4)).round(1), columns=list("abcd"))
Y = np.asarray(np.clip(np.round(X["a"] + X["c"] + 1), 0, 4))
QID = np.sort(RNG.integers(0, 8, ROWS))
GROUPS = len(np.unique(QID))
OPTIONS: dict[str, Any] = {"n_estimators": 2, "max_depth": 2, "max_bin": 8, "security": "none"}
UPPER = np.where(RNG.random(ROWS) < 0.3, np.inf, Y + 1)


def ranker(**params: Any) -> FedXGBRanker:
    """Return a small ranker."""
    return FedXGBRanker(**OPTIONS, **params)


def trees(model: Any) -> Any:
    """Return a model's trees."""
    return join(model.partial_models_).trees


def test_groups_in_all_forms_are_one_model() -> None:
    """By qid, by sizes, and of a FederatedTable, fitted or trained; weights by group or by row."""
    weight = RNG.random(GROUPS) + 0.5
    by_row = weight[np.unique(QID, return_inverse=True)[1]]
    model = ranker().fit(X, Y, qid=QID, sample_weight=weight, eval_set=[(X, Y)], eval_qid=[QID])
    sizes = np.unique(QID, return_counts=True)[1]
    other = ranker().fit(X, Y, group=sizes, sample_weight=by_row, eval_set=[(X, Y)], eval_group=[sizes])
    table = FederatedTable([X[["a", "b"]], X[["c", "d"]]], Y, by_row, qid=QID)
    third = ranker().fit(table, eval_set=[(table, Y)])
    params = {"objective": "rank:ndcg"} | {k: v for k, v in OPTIONS.items() if k != "n_estimators"}
    fourth = train(params, table, 2, evals=[(table, "rows")], verbose_eval=False)

    assert trees(model) == trees(other) == trees(third) == trees(fourth)
    assert isinstance(fourth, FedXGBRanker)
    assert model.evals_result_ == other.evals_result_ == third.evals_result_
    assert list(model.evals_result_["validation_0"]) == ["ndcg@32"]
    np.testing.assert_array_equal(model.predict(X), third.predict(table))


def test_scores_are_the_metric() -> None:
    """The last one of eval_metric, of rows in groups, weighed as groups; else the objective's own."""
    model = ranker(eval_metric=["ndcg", "ndcg@2"]).fit(X, Y, qid=QID, eval_set=[(X, Y)], eval_qid=[QID])
    assert model.score(X, Y, qid=QID) == pytest.approx(model.evals_result_["validation_0"]["ndcg@2"][-1], rel=1e-12)
    table = FederatedTable([X[["a", "b"]], X[["c", "d"]]], Y, qid=QID)
    plain = ranker().fit(X, Y, qid=QID)
    assert plain.score(table) == plain.score(X, Y, qid=QID)
    with refused(DataError, "missing", "qid"):
        plain.score(X, Y)


def test_kept_gone_on_with_and_exported(tmp_path: Path) -> None:
    """As other models are; the exported one ranks alike."""
    first, whole = ranker().fit(X, Y, qid=QID), ranker().set_params(n_estimators=4).fit(X, Y, qid=QID)
    first.save_model(tmp_path)
    loaded = ranker()
    loaded.load_model(tmp_path)
    more = ranker().fit(X, Y, qid=QID, xgb_model=loaded)
    assert trees(more) == trees(whole)
    np.testing.assert_allclose(whole.to_xgboost().predict(xgboost.DMatrix(X)), whole.predict(X), atol=1e-6)


@pytest.mark.parametrize("shuffle", [True, False])
def test_cv_keeps_groups_together(shuffle: bool) -> None:
    """The folds are XGBoost's, and so are means of training rows; scikit-learn's splitters get the groups."""
    table = FederatedTable([X[["a", "b"]], X[["c", "d"]]], Y, qid=QID)
    params = {"objective": "rank:ndcg", "max_depth": 2, "max_bin": 256, "security": "none"}
    ours = cv(params, table, 2, nfold=3, seed=5, shuffle=shuffle)
    theirs = {k: v for k, v in params.items() if k != "security"} | {"tree_method": "hist"}
    data = xgboost.DMatrix(X, Y, qid=QID)
    expected: Any = xgboost.cv(theirs, data, 2, nfold=3, seed=5, shuffle=shuffle)
    own = [name for name in expected if name.startswith("train")]  # others may fall between cuts
    pd.testing.assert_frame_equal(pd.DataFrame(ours)[own], expected[own], rtol=1e-5)
    assert len(pd.DataFrame(cv(params, table, 2, folds=GroupKFold(3)))) == 2
    with refused(SettingsError, "range", "nfold"):
        cv(params, table, 2, nfold=GROUPS + 1)


def fit(**more: Any) -> Any:
    """Fit a ranker to the rows above, with something else."""
    given: dict[str, Any] = {"y": Y, "qid": QID} | more
    return ranker(**given.pop("params", {})).fit(X, **given)


@pytest.mark.parametrize(
    ("more", "code", "parameter"),
    [
        ({"qid": QID[::-1]}, "value", "qid"),
        ({"qid": None}, "missing", "qid"),
        ({"qid": QID[:-1]}, "mismatch", "qid"),
        ({"qid": np.where(QID == 3, np.nan, QID)}, "missing", "qid"),
        ({"group": [ROWS]}, "mismatch", "group"),
        ({"qid": None, "group": [ROWS - 1]}, "mismatch", "qid"),
        ({"qid": None, "group": [0.5]}, "value", "group"),
        ({"sample_weight": np.arange(ROWS)}, "mismatch", "sample_weight"),
        ({"y": Y - 1}, "range", "y"),
        ({"y": Y + 40}, "range", "y"),
        ({"eval_set": [(X, Y)]}, "missing", "eval_qid[0]"),
        ({"eval_set": [(X, Y)], "eval_qid": [QID, QID]}, "mismatch", "eval_qid"),
        ({"eval_set": [(X, Y)], "eval_qid": [QID[::-1]]}, "value", "eval_qid[0]"),
        ({"eval_set": [(X, Y)], "eval_qid": [QID], "params": {"eval_metric": "map"}}, "range", ANY),
    ],
)
def test_what_is_wrong_with_groups(more: dict[str, Any], code: Any, parameter: Any) -> None:
    """Each by its name."""
    with refused(DataError, code, parameter):
        fit(**more)


@pytest.mark.parametrize(
    ("params", "code", "parameter"),
    [
        ({"objective": "reg:squarederror"}, "choice", "objective"),
        ({"objective": "rank:nope"}, "choice", "objective"),
        ({"lambdarank_pair_method": "all"}, "choice", "lambdarank_pair_method"),
        ({"lambdarank_num_pair_per_sample": 0}, "range", "lambdarank_num_pair_per_sample"),
        ({"aft_loss_distribution": "logistic"}, "choice", "aft_loss_distribution"),
        ({"scale_pos_weight": 2.0}, "choice", "scale_pos_weight"),
        ({"security": "sealed"}, "mode", "objective"),
        ({"security": "paper", "min_child_weight": 0}, "mode", "objective"),
        ({"eval_metric": "rmse"}, "mismatch", "eval_metric"),
    ],
    ids=str,
)
def test_what_is_wrong_with_parameters(params: dict[str, Any], code: Any, parameter: Any) -> None:
    """Each by its name; modes that compute on secrets say that they do not cover ranking."""
    with refused(UserError, code, parameter):
        FedXGBRanker(**OPTIONS | params).fit(X, Y, qid=QID)


def test_other_estimators_name_the_one_that_ranks() -> None:
    """A classifier and a regressor say which to take."""
    for kind in (FedXGBClassifier, FedXGBRegressor):
        with refused(SettingsError, "choice", "objective", "rank:ndcg"):
            kind(objective="rank:ndcg", **OPTIONS).fit(X, Y)


def test_position_bias_is_refused_and_its_absence_is_not() -> None:
    """By name, with XGBoost's defaults taken."""
    with refused(UserError, "refused", "lambdarank_unbiased"):
        FedXGBRanker(lambdarank_unbiased=True)  # type: ignore[call-arg] # what is tested
    FedXGBRanker(lambdarank_unbiased=False)  # type: ignore[call-arg] # what is tested


def test_bounds_in_all_forms_are_one_model() -> None:
    """Two columns of a label, or a table's; times come out."""
    bounds = np.stack([Y, UPPER], axis=1)
    model = FedXGBRegressor(objective="survival:aft", **OPTIONS).fit(X, bounds)
    frame = pd.DataFrame(bounds)
    table = FederatedTable([X[["a", "b"]], X[["c", "d"]]], label_lower_bound=Y, label_upper_bound=UPPER)
    assert table[:5].label.shape == (5, 2)
    for X_, y in ((X, frame), (table, None)):
        other = FedXGBRegressor(objective="survival:aft", **OPTIONS).fit(X_, y)
        assert trees(other) == trees(model)
    assert (model.predict(X) > 0).all()
    with refused(UserError, "mismatch", "objective"):
        model.score(X, bounds)


@pytest.mark.parametrize(
    ("label", "code", "parameter"),
    [
        (Y, "mismatch", "y"),
        (np.stack([Y + 2, UPPER], axis=1), "range", ANY),
        (np.stack([Y - 9, UPPER], axis=1), "range", "y"),
        (np.stack([Y, np.full(ROWS, np.nan)], axis=1), "missing", ANY),
        (np.stack([UPPER, UPPER], axis=1), "value", "y"),
    ],
    ids=["one column", "upper below lower", "below 0", "no upper", "infinite"],
)
def test_what_is_wrong_with_bounds(label: Any, code: Any, parameter: Any) -> None:
    """Each by its name."""
    with refused(DataError, code, parameter):
        FedXGBRegressor(objective="survival:aft", **OPTIONS).fit(X, label)


@pytest.mark.parametrize(
    ("more", "parameter"),
    [
        ({"label": Y, "label_lower_bound": Y, "label_upper_bound": UPPER}, "label"),
        ({"label_lower_bound": Y}, "label_upper_bound"),
        ({"label_upper_bound": Y}, "label_lower_bound"),
        ({"label_lower_bound": Y, "label_upper_bound": Y[:-1]}, "label_upper_bound"),
    ],
    ids=lambda more: "+".join(more) if isinstance(more, dict) else "",
)
def test_bounds_come_in_pairs(more: dict[str, Any], parameter: str) -> None:
    """Instead of a label."""
    with refused(DataError, "mismatch", parameter):
        FederatedTable([X[["a", "b"]], X[["c", "d"]]], **more)


def test_tables_have_sorted_groups() -> None:
    """When they are made; parts of them may be in any order."""
    with refused(DataError, "value", "qid"):
        FederatedTable([X[["a", "b"]], X[["c", "d"]]], Y, qid=QID[::-1])
    table = FederatedTable([X[["a", "b"]], X[["c", "d"]]], Y, qid=QID)
    assert table[::-1].qid.tolist() == QID[::-1].tolist()
    ranker().fit(table[::-1])


@pytest.mark.parametrize("alpha", [[], [0.5, 2.0], [0.5, "x"], "0.5"], ids=str)
def test_what_is_wrong_with_quantiles(alpha: Any) -> None:
    """Nothing, out of range, or no numbers."""
    with refused(SettingsError, "range" if alpha == [0.5, 2.0] else "type", "quantile_alpha"):
        FedXGBRegressor(objective="reg:quantileerror", quantile_alpha=alpha, **OPTIONS).fit(X, Y)


def test_several_quantiles(tmp_path: Path) -> None:
    """A column for each, also margins, after loading and when gone on; one in a list is the same alone."""
    alphas: Any = np.array([0.2, 0.8])
    model = FedXGBRegressor(objective="reg:quantileerror", quantile_alpha=alphas, **OPTIONS).fit(X, Y)
    assert model.predict(X).shape == model.predict(X, output_margin=True).shape == (ROWS, 2)
    model.save_model(tmp_path)
    loaded = FedXGBRegressor(quantile_alpha=[0.2, 0.8], objective="reg:quantileerror", **OPTIONS)
    loaded.load_model(tmp_path)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert len(trees(loaded.fit(X, Y, xgb_model=tmp_path))) == 8
    one = [FedXGBRegressor(objective="reg:quantileerror", quantile_alpha=a, **OPTIONS).fit(X, Y) for a in ([0.8], 0.8)]
    assert trees(one[0]) == trees(one[1])
    with refused(UserError, "mismatch", "objective"):
        model.score(X, Y)
