"""Losses and metrics of rows in groups, against xgboost's own: gradients row by row, metrics of given scores."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import xgboost

from mpfedxgb.boosting.labels import read_groups, weights_of_groups
from mpfedxgb.boosting.metrics import DEFAULTS, check_metrics, metric_of
from mpfedxgb.boosting.objective import Floats, Objective, Origin
from mpfedxgb.boosting.objectives import OBJECTIVES, RANKINGS, objective_of
from mpfedxgb.errors import DataError, SettingsError, UserError
from support.refusals import ANY, refused

Ints = npt.NDArray[np.int64]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"lambdarank_num_pair_per_sample": 1},
    {"lambdarank_num_pair_per_sample": 3, "lambdarank_normalization": False},
    {"lambdarank_score_normalization": False},
    {"ndcg_exp_gain": False, "lambdarank_normalization": False},
]


def loss_of(name: str, **more: Any) -> Objective:
    """Return a ranking loss with these parameters."""
    return objective_of(name, 1, DEFAULTS | {"max_delta_step": 0.0} | more)


def rows(name: str, seed: int) -> tuple[Ints, Floats, Floats]:
    """Return groups, labels and scores with ties; one group has one row, and one may have one label."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(8, 60))
    groups = np.unique(np.r_[0, np.sort(rng.integers(1, rng.integers(2, 6), count - 1))], return_inverse=True)[1]
    y = rng.integers(0, 2 if name == "rank:map" else 5, count).astype(float)
    scores = np.round(rng.normal(size=count) * rng.choice([0.3, 2.0]), int(rng.choice([0, 1, 4])))
    return groups, y, scores.astype(np.float32).astype(np.float64) * (seed % 5 > 0)


def xgboost_gradients(
    name: str, groups: Ints, y: Floats, scores: Floats, weight: Floats | None, more: dict[str, Any]
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Return g and h by a tree that parts as many rows as it can, and which rows are alone in their leaf."""
    data = xgboost.DMatrix(np.arange(len(y), dtype=np.float64)[:, None], y, qid=groups, weight=weight)
    data.set_base_margin(scores)
    params = {"objective": name, "max_depth": 0, "eta": 1, "lambda": 0, "min_child_weight": 0, "nthread": 1}
    booster = xgboost.train(params | more, data, 1)
    (tree,) = json.loads(booster.save_raw("json").decode())["learner"]["gradient_booster"]["model"]["trees"]
    leaf = booster.predict(data, pred_leaf=True).astype(int).ravel()
    h = np.array(tree["sum_hessian"])[leaf]
    return -np.array(tree["base_weights"])[leaf] * h, h, np.bincount(leaf)[leaf] == 1


@pytest.mark.parametrize("more", OPTIONS, ids=lambda more: "-".join(map(str, more.values())))
@pytest.mark.parametrize("name", RANKINGS)
def test_gradients_are_xgboosts(name: str, more: dict[str, Any]) -> None:
    """The same g and h as xgboost, row by row, to float32, with weights of groups."""
    compared = 0
    for seed in range(8):
        groups, y, scores = rows(name, seed)
        rng = np.random.default_rng(seed)
        of_groups = rng.integers(1, 9, groups.max() + 1) / 4 if seed % 2 else None
        theirs = xgboost_gradients(name, groups, y, scores, of_groups, more)
        weight = None if of_groups is None else weights_of_groups(of_groups[groups], groups, Origin("weight"))
        ours = loss_of(name, **more).with_beside(groups).gradients(y, scores[None], weight)

        alone = theirs[2]
        compared += int(alone.sum())
        for mine, yours in zip(ours, theirs[:2], strict=True):
            scale = max(np.abs(mine).max(), 1e-9)
            np.testing.assert_allclose(mine[0, alone], yours[alone], rtol=1e-5, atol=3e-6 * scale)
    assert compared > 30


@pytest.mark.parametrize("name", RANKINGS)
def test_pulls_of_a_group_add_up_to_nothing(name: str) -> None:
    """In any order of the rows; so training starts from 0, or near it in xgboost."""
    groups, y, scores = rows(name, 3)
    g, h = loss_of(name).with_beside(groups).gradients(y, scores[None])
    order = np.random.default_rng(0).permutation(len(y))
    order = order[np.argsort(groups[order] * 0 + scores[order] * 0, kind="stable")]
    moved = loss_of(name).with_beside(groups[np.argsort(groups, kind="stable")]).gradients(y, scores[None])

    np.testing.assert_allclose(np.bincount(groups, g[0]), 0, atol=1e-12)
    assert (h >= 0).all()
    np.testing.assert_array_equal(moved[0], g)
    assert OBJECTIVES[name].base_margin(y, None, None, 1).tolist() == [0.0]


def test_groups_need_not_be_together() -> None:
    """Rows of groups may be mixed, as in a file that is sorted by ids: what counts is their order within a group."""
    groups, y, scores = rows("rank:ndcg", 2)
    g, h = loss_of("rank:ndcg").with_beside(groups).gradients(y, scores[None])
    rng = np.random.default_rng(1)
    places = np.empty(len(y), np.int64)
    places[np.argsort(rng.permutation(groups), kind="stable")] = np.arange(len(y))  # a riffle of the groups
    mixed = loss_of("rank:ndcg").with_beside(groups[places]).gradients(y[places], scores[places][None])
    kept = [np.flatnonzero(groups[places] == k) for k in range(groups.max() + 1)]
    for k, where in enumerate(kept):
        if (np.diff(places[where]) > 0).all():
            np.testing.assert_allclose(mixed[0][0, where], g[0, groups == k])
            np.testing.assert_allclose(mixed[1][0, where], h[0, groups == k])
    assert any((np.diff(places[where]) > 0).all() for where in kept)


def test_drawn_pairs() -> None:
    """With "mean" each row meets as many of other labels as asked for; equal words give equal gradients."""
    groups, y, scores = rows("rank:pairwise", 4)
    more = {"lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 3}
    loss = loss_of("rank:pairwise", lambdarank_score_normalization=False, **more).with_beside(groups)
    assert loss.draws == 3
    words = np.random.default_rng(5).integers(0, 1 << 64, (3, len(y)), np.uint64, endpoint=False)
    g, h = loss.with_draws(words).gradients(y, scores[None] * 0)
    again = loss.with_draws(words.copy()).gradients(y, scores[None] * 0)

    np.testing.assert_array_equal(g, again[0])
    # At one score each pair pulls by 1/2, each row draws 3, and the norm is 1/3.
    mixed = np.array([len(np.unique(y[groups == k])) > 1 for k in groups])
    np.testing.assert_allclose(h.sum(), mixed.sum() * 2 * 0.5)
    assert (h[0, mixed] >= 0.5 - 1e-12).all()
    assert not h[0, ~mixed].any()
    np.testing.assert_allclose(np.bincount(groups, g[0]), 0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "more", "label", "parameters"),
    [
        ("rank:ndcg", {}, 32.0, ("range", "y")),
        ("rank:ndcg", {}, -1.0, ("range", "y")),
        ("rank:ndcg", {}, 0.5, ("range", "y")),
        ("rank:ndcg", {"ndcg_exp_gain": False}, -0.5, ("range", "y")),
        ("rank:map", {}, 2.0, ("range", "y")),
    ],
)
def test_refused_labels(name: str, more: dict[str, Any], label: float, parameters: tuple[Any, ...]) -> None:
    """Grades that XGBoost refuses, or that mean nothing."""
    with refused(DataError, *parameters):
        loss_of(name, **more).check_labels(np.array([0.0, label]), Origin("y"), True)


def test_taken_labels() -> None:
    """What is refused of one loss is taken by another, or with other gains."""
    taken = (
        (loss_of("rank:ndcg"), [0.0, 31.0]),
        (loss_of("rank:ndcg", ndcg_exp_gain=False), [0.5, 100.0]),
        (loss_of("rank:pairwise"), [-0.5, 100.0]),
    )
    for loss, labels in taken:
        numbers = np.array(labels)
        loss.check_labels(numbers, Origin("y"), True)
        assert numbers.tolist() == labels


def xgboost_metric(name: str, groups: Ints | None, y: Floats, p: Floats, w: Floats | None, **more: Any) -> float:
    """Return xgboost's value: of a booster whose margins are the scores."""
    data = xgboost.DMatrix(np.zeros((len(y), 1)), y, qid=groups, weight=w, base_margin=p)
    objective = "binary:logitraw" if groups is None else "rank:pairwise"
    params = {"objective": objective, "eval_metric": name, "nthread": 1}
    return float(xgboost.train(params | more, data, 0).eval(data).rsplit(":", 1)[1])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("suffix", ["", "@1", "@3", "@100", "-", "@2-"])
@pytest.mark.parametrize("base", ["ndcg", "map", "pre"])
def test_metrics_are_xgboosts(base: str, suffix: str, weighted: bool) -> None:
    """With ties, groups without a relevant row, groups of one row, and weights of groups."""
    for seed in range(4):
        groups, y, p = rows("rank:ndcg" if base == "ndcg" else "rank:map", seed)
        y[groups == 1] = 0
        w = np.random.default_rng(seed).random(groups.max() + 1) + 1 if weighted else None
        ours = metric_of(base + suffix, DEFAULTS)(y, p[None], None if w is None else w[groups], groups)
        assert ours == pytest.approx(xgboost_metric(base + suffix, groups, y, p, w), rel=1e-6)


def test_metrics_without_groups_and_with_other_gains() -> None:
    """All rows are one group, as for a classifier, of which 32 count; ndcg_exp_gain changes the metric too."""
    groups, y, p = rows("rank:map", 3)
    assert len(y) > 32
    for name in ("ndcg@5", "map", "pre@4"):
        assert metric_of(name, DEFAULTS)(y, p[None]) == pytest.approx(xgboost_metric(name, None, y, p, None), rel=1e-6)
    y = y * 3
    ours = metric_of("ndcg", DEFAULTS | {"ndcg_exp_gain": False})(y, p[None], None, groups)
    assert ours == pytest.approx(xgboost_metric("ndcg", groups, y, p, None, ndcg_exp_gain=False), rel=1e-6)


@pytest.mark.parametrize("name", ["ndcg@0", "ndcg@-1", "map@2.5", "pre@", "ndcg@x", "ndcg@1@2"])
def test_refused_numbers(name: str) -> None:
    """How many of the first rows count is an integer of 1 or more."""
    with refused(SettingsError, "range", "eval_metric", name):
        check_metrics([name], "rank:ndcg")


@pytest.mark.parametrize(
    ("name", "objective"),
    [("rmse", "rank:ndcg"), ("auc", "rank:map"), ("ndcg", "multi:softprob"), ("aft-nloglik", "rank:ndcg")],
)
def test_refused_pairs(name: str, objective: str) -> None:
    """What does not go together."""
    with refused(UserError, "mismatch", "eval_metric", name):
        check_metrics([name], objective)


def test_a_minus_is_for_ranks_only() -> None:
    """No other metric has groups to count as nothing."""
    with refused(SettingsError, "choice", "eval_metric", "rmse-"):
        check_metrics(["rmse-"], "reg:squarederror")


@pytest.mark.parametrize(("name", "label"), [("map", 2.0), ("pre@3", 0.5), ("ndcg", 32.0)])
def test_metrics_say_which_labels_they_take(name: str, label: float) -> None:
    """Before the training, without quoting the label."""
    with refused(DataError, "range", ANY) as caught:
        metric_of(name, DEFAULTS).check_labels(np.array([0.0, label]))
    assert f"{label:g};" not in str(caught.value)


def test_groups_by_any_name() -> None:
    """Words or numbers, without gaps; the weights of a group's rows agree, and are 1 on average."""
    assert read_groups(np.array(["b", "a", "b"], object), Origin("qid")).tolist() == [1, 0, 1]
    with refused(DataError, "missing", "qid"):
        read_groups(np.array([1.0, np.nan]), Origin("qid"))
    with refused(DataError, "mismatch", "qid"):
        read_groups(np.array([1, "a"], object), Origin("qid"))
    groups = np.array([0, 0, 0, 1])
    assert weights_of_groups(np.array([1.0, 1, 1, 3]), groups, Origin("w")).tolist() == [0.5, 0.5, 0.5, 1.5]
    with refused(DataError, "mismatch", "w"):
        weights_of_groups(np.array([1.0, 2, 1, 3]), groups, Origin("w"))
