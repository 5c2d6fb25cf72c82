"""ROC, gains, calibration, distribution and KS of two classes, beside scikit-learn's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from mpfedxgb import FedXGBClassifier
from mpfedxgb.boosting.active import BARS, BINS, MOST_POINTS, judge
from mpfedxgb.report.html.pictures import shares


@pytest.mark.parametrize("rows", [2, 7, 40, 3000])
@pytest.mark.parametrize("digits", [1, 9])
@pytest.mark.parametrize("weighted", [False, True])
def test_beside_scikit_learn(rows: int, digits: int, weighted: bool) -> None:
    """Also where scores are equal, and where rows have weights, 0 among them."""
    draws = np.random.default_rng(rows)
    p = draws.random(rows).round(digits)
    y = (draws.random(rows) < p).astype(float)
    y[:2] = 0.0, 1.0
    weight = draws.integers(0, 4, rows).astype(float) if weighted else None
    if weight is not None:
        weight[:2] = 1.0
    found = judge(y, p, weight)
    assert found is not None
    assert found["auc"] == pytest.approx(roc_auc_score(y, p, sample_weight=weight), abs=1e-12)
    falsely, rightly, scores = roc_curve(y, p, sample_weight=weight, drop_intermediate=False)
    assert found["ks"][0] == pytest.approx(np.max(rightly - falsely), abs=1e-12)
    if found["ks"][0] > 0:
        at = np.flatnonzero(scores == found["ks"][1])
        assert (rightly - falsely)[at] == pytest.approx(np.max(rightly - falsely), abs=1e-12)
    curve = np.array(found["roc"])
    assert np.interp(curve[:, 0], falsely, rightly) == pytest.approx(
        np.interp(curve[:, 0], curve[:, 0], curve[:, 1]), abs=0.05
    )
    for points in (curve, np.array(found["gains"])):
        assert points[0].tolist() == [0.0, 0.0]
        assert points[-1] == pytest.approx([1.0, 1.0])
        assert len(points) <= MOST_POINTS
        assert (np.diff(points, axis=0) >= -1e-12).all()
    assert [sum(one) for one in found["scores"]] == pytest.approx([1.0, 1.0])
    assert [len(one) for one in found["scores"]] == [BARS, BARS]
    assert found == json.loads(json.dumps(found)), "plain numbers"


def test_calibration() -> None:
    """Scores that are probabilities lie on the diagonal; every row is in one group."""
    draws = np.random.default_rng(1)
    p = draws.random(50_000)
    found = judge((draws.random(50_000) < p).astype(float), p)
    assert found is not None
    assert sum(count for _, _, count in found["calibration"]) == found["rows"] == 50_000
    assert len(found["calibration"]) == BINS
    for mean, rate, _ in found["calibration"]:
        assert rate == pytest.approx(mean, abs=0.03)


@pytest.mark.parametrize("y", [[], [1.0, 1.0], [0.0]])
def test_one_class_is_not_judged(y: list[float]) -> None:
    """There is nothing to tell apart."""
    assert judge(np.array(y), np.full(len(y), 0.5)) is None


def test_in_reports() -> None:
    """The active participant's page has the drawings of the best round; nobody else's has, nor one of other labels."""
    draws = np.random.default_rng(4)
    X = pd.DataFrame(draws.normal(size=(300, 4)), columns=list("abcd"))
    y = pd.Series((X.sum(axis=1) + draws.normal(size=300) > 0).astype(int))
    chosen: dict[str, Any] = {"n_estimators": 12, "max_depth": 3, "security": "none", "learning_rate": 1.0}
    model = FedXGBClassifier(**chosen, early_stopping_rounds=3, eval_metric="auc", participants=2)
    model.fit(X[:200], y[:200], eval_set=[(X[200:], y[200:])])
    found = model._judgement
    assert found is not None
    assert model.best_iteration_ is not None
    assert model.best_iteration_ < len(model.evals_result_["validation_0"]["auc"]) - 1, "later rounds were worse"
    assert found["auc"] == pytest.approx(roc_auc_score(y[200:], model.predict_proba(X[200:])[:, 1]), abs=1e-12)
    drawn = shares(found)
    assert [one.title for one in drawn] == ["ROC", "Gains", "Calibration", "Scores"]
    page = model._repr_html_()
    assert page, "summaries go without"
    without = FedXGBClassifier(**chosen, participants=2).fit(X, y)
    assert without._judgement is None


def test_pages(tmp_path: Path) -> None:
    """ROC, gains, calibration, scores and KS are on the page of who holds the labels, and on no other."""
    draws = np.random.default_rng(4)
    X = pd.DataFrame(draws.normal(size=(60, 4)), columns=list("abcd"))
    y = pd.Series((X.sum(axis=1) > 0).astype(int))
    model = FedXGBClassifier(n_estimators=2, max_depth=2, security="none", participants=2)
    model.fit(X[:40], y[:40], eval_set=[(X[40:], y[40:])])
    own = model.report(tmp_path / "own.html").read_text()
    other = model.report(tmp_path / "other.html", participant="P2").read_text()
    for words in ("<b>ROC</b>", "<b>Gains</b>", "<b>Calibration</b>", "<b>Scores</b>", "KS ", "a lift of"):
        assert words in own
        assert words not in other
