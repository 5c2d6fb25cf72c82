"""`security="sealed"` in the estimators: what is refused and why, who may be evaluated, what can be told afterwards."""

from __future__ import annotations

import json
import logging
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost

from mpfedxgb import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.api.plotting import plot_metrics, plot_tree
from mpfedxgb.boosting.metrics import NO_METRIC
from mpfedxgb.errors import DataError, SettingsError
from mpfedxgb.party.entries import Entry
from mpfedxgb.testing.parity import compare_with_xgboost
from support.pages import parse
from support.refusals import refused
from support.toy_tables import QUICK, halves, labels, numbers, people
from support.xgboost_versions import IS_3_4

SEALED: dict[str, Any] = {**QUICK, "security": "sealed"}
ROWS = 60
X, LATER = people(80)[:ROWS], people(80)[ROWS:]
Y, Y_LATER = labels(people(80), "binary")[:ROWS], labels(people(80), "binary")[ROWS:]


@pytest.fixture(scope="module")
def model() -> FedXGBClassifier:
    """Return a sealed model, trained without evaluation rows."""
    return FedXGBClassifier(**SEALED).fit(halves(X), Y)


class TestRefused:
    """What nobody could compute without seeing it, each with a remedy."""

    @pytest.mark.parametrize(
        ("kind", "parameters", "told"),
        [
            ("regression", {"objective": "reg:pseudohubererror"}, ("mode", "objective", "reg:pseudohubererror")),
            (
                "counts",
                {"objective": "reg:tweedie", "tweedie_variance_power": 1.01},
                ("mode", "tweedie_variance_power", 1.01),
            ),
            ("regression", {"objective": lambda y, m: (m - y, 1 + 0 * m)}, ("mode", "objective", "custom")),
            ("regression", {"reg_lambda": 0.0}, ("mode", "reg_lambda", 0.0)),
            (
                "regression",
                {"num_parallel_tree": 2},
                ("mode", "num_parallel_tree", 2),
            ),
            ("regression", {"early_stopping_rounds": 2}, ("missing", "early_stopping_rounds", 2)),
        ],
    )
    def test_of_regressors(self, kind: str, parameters: dict[str, Any], told: tuple[Any, ...]) -> None:
        """Other objectives, callables, no penalty, and stopping without anything to watch."""
        with refused(SettingsError, *told):
            FedXGBRegressor(**SEALED | parameters).fit(halves(X), labels(X, kind))

    def test_of_classifiers(self) -> None:
        """Hinges, for which there is no function of integers."""
        with refused(SettingsError, "mode", "objective", "binary:hinge"):
            FedXGBClassifier(**SEALED, objective="binary:hinge").fit(halves(X), Y)

    def test_going_on(self, model: FedXGBClassifier) -> None:
        """From a sealed model, or sealed from another: margins would have to be told."""
        for security in ("sealed", "strict"):
            with refused(SettingsError, "mode", "xgb_model", "sealed"):
                FedXGBClassifier(**QUICK, security=security).fit(halves(X), Y, xgb_model=model)

    @pytest.mark.parametrize("kind", ["gain", "cover"])
    def test_importance(self, model: FedXGBClassifier, kind: str) -> None:
        """The number of splits is there, in all forms; gains and covers are nobody's."""
        with refused(SettingsError, "mode", "kind", kind):
            model.feature_importance(kind)
        counts = model.feature_importance()
        assert sum(own.sum() for own in counts.values()) > 0
        for owner, shares in model.feature_importances_.items():
            pd.testing.assert_series_equal(shares, counts[owner] / counts[owner].sum())

    @pytest.mark.parametrize("rounds", [(0, 1), (1, 3), (2, 2)])
    def test_some_of_the_rounds(self, model: FedXGBClassifier, rounds: tuple[int, int]) -> None:
        """The difference of two sums is a tree; all rounds are as good as no range."""
        with refused(SettingsError, "mode", "iteration_range"):
            model.predict_proba(halves(X), iteration_range=rounds)
        np.testing.assert_array_equal(
            model.predict_proba(halves(X), iteration_range=(0, 3)), model.predict_proba(halves(X))
        )


class TestEvaluationRows:
    """None of them is trained on, as far as tables can tell."""

    @pytest.mark.parametrize(
        ("rows", "common"),
        [
            (X, 60),
            (X.copy()[:20], 20),
            (X.sample(frac=0.5, random_state=1).reset_index(drop=True), 30),
            (pd.concat([LATER, X[:30]], ignore_index=True), 30),
        ],
    )
    def test_of_tables_that_count_rows(self, rows: pd.DataFrame, common: int) -> None:
        """The training table again, its first rows, a sample of it, or a table that has more of it than others."""
        with refused(DataError, "duplicate", "eval_set[0]", common):
            FedXGBClassifier(**SEALED).fit(halves(X), Y, eval_set=[(halves(rows), labels(rows, "binary"))])

    def test_of_tables_that_name_rows(self) -> None:
        """The same label with the same values is the same row, and one is too many; the label alone is not."""
        names = [f"row {i}" for i in range(ROWS)]
        known, fit = X.set_axis(names), FedXGBClassifier(**SEALED).fit
        mixed = pd.concat([known[7:8], LATER.set_axis([f"later {i}" for i in range(20)])])
        with refused(DataError, "duplicate", "eval_set[0]", 1):
            fit(halves(known), Y, eval_set=[(halves(mixed), labels(mixed, "binary"))])
        fitted = fit(halves(known), Y, eval_set=[(halves(LATER.set_axis(names[:20])), Y_LATER)])
        assert len(fitted.evals_result_["validation_0"]["logloss"]) == 3

    @pytest.mark.parametrize(
        ("own", "rows", "common"),
        [
            (X[:40], X[35:], 5),
            (X[20:], X[:25], 5),
            (X[20:50], X[45:], 5),
            (X[:40], X[40:], 0),
            (X[20:], X[:20], 0),
        ],
    )
    def test_of_slices(self, own: pd.DataFrame, rows: pd.DataFrame, common: int) -> None:
        """The usual way to keep rows back: it does not matter which slice begins with row 0."""
        fit = partial(
            FedXGBClassifier(**SEALED).fit,
            halves(own),
            labels(own, "binary"),
            eval_set=[(halves(rows), labels(rows, "binary"))],
        )
        if not common:
            assert fit().evals_result_
            return
        with refused(DataError, "duplicate", "eval_set[0]", 5):
            fit()

    def test_of_other_labels(self) -> None:
        """Labels that differ do not make a training row another one where most of the table are such rows."""
        rows = X.sample(frac=0.5, random_state=1).set_axis(range(5000, 5000 + ROWS // 2))
        with refused(DataError, "duplicate", "eval_set[0]", 30):
            FedXGBClassifier(**SEALED).fit(
                halves(X.set_axis(range(100, 100 + ROWS))), Y, eval_set=[(halves(rows), labels(rows, "binary"))]
            )

    def test_of_tables_with_ids(self) -> None:
        """Ids decide, whatever the values are."""
        ids, fit = [f"c-{i}" for i in range(80)], FedXGBClassifier(**SEALED, id="person").fit
        own = X.assign(person=ids[:ROWS])
        for first, common in ((ROWS - 3, 3), (ROWS, 0)):
            later = LATER.assign(person=ids[first : first + 20])
            given = [(_with_id(later), Y_LATER)]
            if common:
                with refused(DataError, "duplicate", "eval_set[0]", 3) as caught:
                    fit(_with_id(own), Y, eval_set=given)
                assert not any(f"'{name}'" in str(caught.value) for name in ids)
            else:
                assert fit(_with_id(own), Y, eval_set=given).evals_result_

    def test_of_arrays(self) -> None:
        """Evaluating on X itself is refused; rows that were kept back are not, nor tables of few values."""
        Z, z = numbers(), numbers(seed=3)[:, 0] > 0
        with refused(DataError, "duplicate", "eval_set[0]", 60):
            FedXGBClassifier(**SEALED).fit(Z, z, eval_set=[(Z, z)])
        coarse = (Z > 0).astype(float)
        FedXGBClassifier(**SEALED).fit(coarse[:40], z[:40], eval_set=[(coarse[40:], z[40:])])
        with refused(DataError, "duplicate", "eval_set[0]", 60):
            FedXGBClassifier(**SEALED).fit(coarse, z, eval_set=[(coarse.copy(), z)])

    def test_other_modes_do_not_mind(self) -> None:
        """There the active participant knows the margins of training rows anyway."""
        assert FedXGBClassifier(**QUICK).fit(halves(X), Y, eval_set=[(halves(X), Y)]).evals_result_


def _with_id(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {owner: table.assign(person=frame["person"]) for owner, table in halves(frame).items()}


class TestAfterwards:
    """What a fitted estimator tells."""

    def test_no_metric_without_evaluation_rows(self, caplog: pytest.LogCaptureFixture) -> None:
        """Log and record say so in one line; with evaluation rows there is one, and an entry on the ledger."""
        caplog.set_level(logging.INFO, "mpfedxgb")
        alone = FedXGBClassifier(**SEALED).fit(halves(X), Y)
        assert caplog.messages.count(NO_METRIC) == 1
        assert str(alone.run_).count(NO_METRIC) == 1
        assert json.loads(alone.run_.to_json())["note"] == NO_METRIC
        caplog.clear()
        judged = FedXGBClassifier(**SEALED).fit(halves(X), Y, eval_set=[(halves(LATER), Y_LATER)])
        assert NO_METRIC not in "".join([*caplog.messages, str(judged.run_), str(alone.prediction_run(halves(X)))])
        assert {Entry.EVALUATION_MARGINS: 3 * len(LATER)} == {
            r.name: r.count for r in judged.run_.ledger if r.name in (Entry.EVALUATION_MARGINS, Entry.LEAF_MEMBERSHIP)
        }

    @pytest.mark.parametrize("kind", ["binary", "regression"])
    def test_the_joined_model(self, kind: str, tmp_path: Path) -> None:
        """With everybody's consent shares add up: xgboost's trees and margins, SHAP values once covers are counted."""
        y = labels(X, kind)
        make: Any = FedXGBClassifier if kind == "binary" else FedXGBRegressor
        sealed, strict = make(**SEALED).fit(halves(X), y), make(**QUICK).fit(halves(X), y)
        parity = compare_with_xgboost(sealed, X, y)
        assert parity.same_trees
        assert not parity.ties
        margins = sealed._margins(halves(X))
        np.testing.assert_allclose(margins, strict._margins(halves(X)), rtol=0, atol=1e-6 * np.abs(margins).max())

        booster = sealed.to_xgboost()
        codes = np.searchsorted(sealed.classes_, y) if kind == "binary" else y
        rows = xgboost.DMatrix(X[booster.feature_names], label=codes, enable_categorical=True)
        np.testing.assert_allclose(booster.predict(rows, output_margin=True), margins[0], rtol=1e-5, atol=1e-5)
        assert booster.get_score(importance_type="weight") == strict.to_xgboost().get_score(importance_type="weight")
        if not IS_3_4:  # which gives numbers all the same
            assert np.isnan(booster.predict(rows, pred_contribs=True)).any(), "nobody knows covers"
        counts = {"process_type": "update", "updater": "refresh", "refresh_leaf": False, "verbosity": 0}
        counts["objective"] = sealed.partial_models_[0].params.objective
        booster = xgboost.train(
            counts, rows, len(strict.partial_models_[0].trees), xgb_model=sealed.to_xgboost(codes=True)
        )
        ours, theirs = (b.predict(rows, pred_contribs=True) for b in (booster, strict.to_xgboost()))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(margins).max())

        sealed.save_model(tmp_path)
        again = make().load_model(tmp_path)
        np.testing.assert_array_equal(again._margins(halves(X)), margins)

    @pytest.mark.parametrize(
        ("objective", "kind", "options"),
        [
            ("binary:logitraw", "binary", {}),
            ("reg:logistic", "shares", {}),
            ("count:poisson", "counts", {"max_delta_step": 0.0}),
            ("count:poisson", "counts", {"max_delta_step": 0.7}),
            ("reg:gamma", "positive", {}),
            ("reg:tweedie", "counts", {"tweedie_variance_power": 1.3}),
        ],
    )
    def test_other_objectives_predict_as_strict_and_xgboost_do(
        self, objective: str, kind: str, options: dict[str, Any]
    ) -> None:
        """The same splits as xgboost, and each loss turns margins into its predictions; the exported model too."""
        margin = people(80)["age"].fillna(40).to_numpy() / 40 - 1 + 0.3 * np.sin(np.arange(80))
        numbers = {
            "binary": Y,
            "shares": 1 / (1 + np.exp(-margin[:ROWS])),
            "counts": np.floor(np.exp(1 + margin[:ROWS])),
            "positive": np.exp(margin[:ROWS]),
        }
        make: Any = FedXGBClassifier if kind == "binary" else FedXGBRegressor
        known = {"objective": objective, **options}
        sealed = make(**SEALED, **known).fit(halves(X), numbers[kind])
        strict = make(**QUICK, **known).fit(halves(X), numbers[kind])
        if kind == "binary":
            np.testing.assert_array_equal(sealed.predict(halves(LATER)), strict.predict(halves(LATER)))
            ours, theirs = (m.predict_proba(halves(LATER))[:, 1] for m in (sealed, strict))
        else:
            ours, theirs = (m.predict(halves(LATER)) for m in (sealed, strict))
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
        assert compare_with_xgboost(sealed, X, numbers[kind]).same_trees
        booster = sealed.to_xgboost()
        exported = booster.predict(xgboost.DMatrix(LATER[booster.feature_names], enable_categorical=True))
        if objective == "binary:logitraw":  # it predicts margins there
            exported = 1 / (1 + np.exp(-exported))
        np.testing.assert_allclose(exported, ours, rtol=1e-5)

    @pytest.mark.parametrize("objective", ["multi:softprob", "multi:softmax"])
    def test_classes(self, objective: str, tmp_path: Path) -> None:
        """The splits of xgboost, probabilities and metrics of strict; joined, exported, saved and stopped early."""
        y = labels(people(80), "classes")
        known: dict[str, Any] = {"objective": objective, "eval_metric": ["merror", "auc", "mlogloss"]}
        both = [
            FedXGBClassifier(**own, **known).fit(halves(X), y[:ROWS], eval_set=[(halves(LATER), y[ROWS:])])
            for own in (SEALED, QUICK)
        ]
        sealed, strict = both
        parity = compare_with_xgboost(sealed, X, y[:ROWS])
        assert parity.same_trees
        assert parity.compared_trees == 9
        ours, theirs = (model.predict_proba(halves(LATER)) for model in both)
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
        np.testing.assert_array_equal(sealed.predict(halves(LATER)), strict.predict(halves(LATER)))
        for name, values in strict.evals_result_["validation_0"].items():
            np.testing.assert_allclose(sealed.evals_result_["validation_0"][name], values, atol=1e-6)
        told = {r.name: r.count for r in sealed.run_.ledger}
        assert told[Entry.EVALUATION_MARGINS] == 3 * 3 * len(LATER)
        assert Entry.LEAF_MEMBERSHIP not in told
        booster = sealed.to_xgboost()
        exported = booster.predict(xgboost.DMatrix(LATER[booster.feature_names], enable_categorical=True))
        if objective == "multi:softprob":
            np.testing.assert_allclose(exported, ours, atol=1e-6)
        else:
            np.testing.assert_array_equal(sealed.classes_[exported.astype(int)], sealed.predict(halves(LATER)))
        sealed.save_model(tmp_path)
        np.testing.assert_array_equal(FedXGBClassifier().load_model(tmp_path).predict_proba(halves(LATER)), ours)

    def test_classes_that_stop_early_and_start_elsewhere(self) -> None:
        """All participants keep the best rounds and no others, of every class; base margins are one of each class."""
        y = labels(people(80), "classes")
        start = np.linspace(-1, 1, 3 * 80).reshape(80, 3)
        fits = [
            FedXGBClassifier(**own | {"n_estimators": 12, "learning_rate": 1.0}, early_stopping_rounds=1).fit(
                halves(X),
                y[:ROWS],
                base_margin=start[:ROWS],
                eval_set=[(halves(LATER), y[ROWS:])],
                base_margin_eval_set=[start[ROWS:]],
            )
            for own in (SEALED, QUICK)
        ]
        sealed, strict = fits
        assert sealed.best_iteration == strict.best_iteration
        for part in sealed.partial_models_:
            assert len(part.trees) == 3 * (sealed.best_iteration + 1) < len(strict.partial_models_[0].trees)
        ours, theirs = (model.predict_proba(halves(LATER), base_margin=start[ROWS:]) for model in fits)
        np.testing.assert_allclose(ours, theirs, atol=1e-6)

    def test_positives_that_weigh_more_and_rows_that_start_elsewhere(self) -> None:
        """scale_pos_weight is P_1's, as row weights are; base margins are where its rows start. As xgboost has them."""
        known: dict[str, Any] = {"scale_pos_weight": 3.0}
        sealed, strict = (FedXGBClassifier(**own, **known).fit(halves(X), Y) for own in (SEALED, QUICK))
        assert compare_with_xgboost(sealed, X, Y).same_trees
        np.testing.assert_allclose(sealed._margins(halves(LATER)), strict._margins(halves(LATER)), rtol=1e-5)
        assert sealed.partial_models_[0].params.weighted
        without = FedXGBClassifier(**SEALED).fit(halves(X), Y)
        assert np.abs(sealed._margins(halves(LATER)) - without._margins(halves(LATER))).max() > 0.1

        start, counts = np.linspace(-1, 2, ROWS), np.arange(ROWS) % 5
        fits = [
            FedXGBRegressor(**own, objective="count:poisson", max_delta_step=0.0).fit(
                halves(X), counts, base_margin=start
            )
            for own in (SEALED, QUICK)
        ]
        assert compare_with_xgboost(fits[0], X, counts, base_margin=start).same_trees
        ours, theirs = (fitted.predict(halves(X), base_margin=start) for fitted in fits)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)

    def test_pages_and_pictures(self, model: FedXGBClassifier, tmp_path: Path) -> None:
        """Nobody's page shows a weight; the active participant's says that no metric is known."""
        for owner in ("bank", "telecom"):
            page = parse(model.report(tmp_path / "page.html", owner).read_text())
            assert "Leaves are dots: their weights are shared among all" in page.words()
            assert "learned anything about any training row" in page.words()
            assert page.words().count("a leaf; its weight is shared among all") == sum(
                node.__class__.__name__ == "Leaf" for tree in model.partial_models_[0].trees for node in tree
            )
            assert (NO_METRIC[1:] in page.words()) == (owner == "bank")
        assert "Sealed: nobody learned anything about a training row." in model._repr_html_()
        texts = [text.get_text() for text in plot_tree(model).texts]
        assert "leaf,\nshared" in texts

    def test_curves_begin_with_the_first_round(self) -> None:
        """Though the model keeps the rounds up to the best only."""
        wrong = np.where(Y_LATER == "yes", "no", "yes")
        stopped = FedXGBClassifier(**SEALED | {"n_estimators": 8}, early_stopping_rounds=1)
        stopped.fit(halves(X), Y, eval_set=[(halves(LATER), wrong)])
        judged = stopped.evals_result_["validation_0"]["logloss"]
        assert len(stopped.partial_models_[0].trees) == stopped.best_iteration + 1 < len(judged)
        line = plot_metrics(stopped).lines[0]
        assert list(line.get_xdata()) == list(range(len(judged)))

    def test_forecast_beside_strict(self) -> None:
        """What the same training takes with strict, in the page and in plain values; strict has nothing beside it."""
        told = FedXGBClassifier(**SEALED).forecast(halves(X), Y, eval_set=[(halves(LATER), Y_LATER)])
        strict = FedXGBClassifier(**QUICK).forecast(halves(X), Y, eval_set=[(halves(LATER), Y_LATER)])
        assert told.strict is not None
        assert strict.strict is None
        assert (told.strict.rounds, told.strict.dealer_bytes) == (strict.rounds, strict.dealer_bytes)
        assert told.rounds > strict.rounds
        assert f'with security="sealed"; "strict" takes {strict.rounds} message rounds' in str(told)
        assert told.to_dict()["strict"]["rounds"] == strict.rounds
        assert told.strict.seconds is not None
        assert Entry.EVALUATION_MARGINS in {reveal.name for reveal in told.ledger}
