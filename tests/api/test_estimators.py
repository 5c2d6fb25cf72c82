"""The estimators as a data scientist uses them: forms of X, predictions, evaluation, samples, models, records."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import xgboost
from sklearn import metrics as sk

from mpfedxgb import FedXGBClassifier, FedXGBRegressor, join
from mpfedxgb.boosting.callbacks import RoundReport
from mpfedxgb.boosting.join import Joined, JoinedSplit
from mpfedxgb.config import TOPOLOGIES
from mpfedxgb.errors import SettingsError, UnknownParameterError, UserError
from mpfedxgb.party.local import LocalRun, run_locally
from mpfedxgb.tree.nodes import Leaf, Split
from support.refusals import ANY, refused
from support.toy_tables import BANK, QUICK, TELECOM, halves, labels, margins_by_hand, numbers, people

Model = FedXGBClassifier | FedXGBRegressor
KINDS = ("binary", "classes", "regression", "counts")


def estimator(kind: str, **params: Any) -> Model:
    """Return the estimator that goes with a kind of label."""
    params = QUICK | params
    if kind in ("binary", "classes"):
        return FedXGBClassifier(**params)
    return FedXGBRegressor(objective="count:poisson" if kind == "counts" else None, **params)


def matrix(model: Model, X: pd.DataFrame) -> Any:
    """Return a table as the exported model takes it."""
    return xgboost.DMatrix(X[model.to_xgboost().feature_names], enable_categorical=True)


def same_splits(a: Joined, b: Joined) -> bool:
    """Return whether two joined models have the same trees but for the names of participants."""
    return (a.trees, a.features, a.base_margin) == (b.trees, b.features, b.base_margin)


@pytest.fixture(scope="module")
def fitted() -> dict[str, Model]:
    """Train one model per kind of label."""
    X = people()
    return {kind: estimator(kind).fit(halves(X), labels(X, kind)) for kind in KINDS}


@pytest.fixture(scope="module")
def stopped() -> FedXGBClassifier:
    """Train with labels of evaluation rows that soon stop to agree."""
    X = people()
    y = labels(X, "binary")
    wrong = y.copy()
    wrong[::3] = np.where(wrong[::3] == "yes", "no", "yes")
    model = FedXGBClassifier(**QUICK | {"n_estimators": 30, "learning_rate": 1.0}, early_stopping_rounds=2)
    return model.fit(halves(X), y, eval_set=[(halves(X), y), (halves(X), wrong)])


class TestFormsOfX:
    """One model, however the columns are handed over."""

    @pytest.mark.parametrize(
        "participants",
        [2, [0.5, 0.5], (0.5, 0.5), [BANK, TELECOM], [[0, 1, 2], [3, 4, 5]], {"bank": BANK, "telecom": TELECOM}],
        ids=["number", "fractions", "tuple", "names", "places", "mapping"],
    )
    def test_one_table_is_cut(self, fitted: dict[str, Model], participants: Any) -> None:
        """Every way to cut one table gives the model of the tables as the participants hold them."""
        X = people()
        model = estimator("binary", participants=participants).fit(X, labels(X, "binary"))
        assert same_splits(join(model.partial_models_), join(fitted["binary"].partial_models_))
        np.testing.assert_array_equal(model.predict_proba(X), fitted["binary"].predict_proba(halves(X)))

    def test_a_list_is_numbered(self, fitted: dict[str, Model]) -> None:
        """A list names the participants P1, P2, ...; the first is the active one."""
        X = people()
        tables = list(halves(X).values())
        model = estimator("binary").fit(tables, labels(X, "binary"))
        assert [m.name for m in model.partial_models_] == ["P1", "P2"]
        assert same_splits(join(model.partial_models_), join(fitted["binary"].partial_models_))
        np.testing.assert_array_equal(model.predict(tables), fitted["binary"].predict(halves(X)))

    def test_the_first_of_a_dictionary_is_active(self, fitted: dict[str, Model]) -> None:
        """Only its part has leaf weights, the starting margin and the names of the classes."""
        active, other = fitted["binary"].partial_models_
        assert (active.name, other.name) == ("bank", "telecom")
        assert active.is_active
        assert active.base_margin is not None
        assert active.classes == ("no", "yes")
        assert (other.base_margin, other.classes) == (None, None)
        leaves = [node for tree in other.trees for node in tree if isinstance(node, Leaf)]
        assert leaves
        assert all(leaf == Leaf(None) for leaf in leaves)

    def test_arrays_and_frames_are_the_same_table(self) -> None:
        """An array's columns are called f0, f1, ...; nothing else differs. A list of rows is an array too."""
        X = numbers()
        y = X[:, 0] + X[:, 3] > 0
        model = FedXGBClassifier(**QUICK).fit(X, y)
        framed = FedXGBClassifier(**QUICK).fit(pd.DataFrame(X, columns=["f0", "f1", "f2", "f3"]), y)
        assert same_splits(join(model.partial_models_), join(framed.partial_models_))
        np.testing.assert_array_equal(model.predict(X), model.predict(X.tolist()))

    @pytest.mark.parametrize(("participants", "sizes"), [(4, [2, 1, 1, 2]), ([0.1, 0.2, 0.3, 0.4], [1, 1, 2, 2])])
    def test_columns_are_dealt_in_order(self, participants: Any, sizes: list[int]) -> None:
        """Every column goes to one participant, in the order of the table."""
        X = people()
        model = estimator("binary", participants=participants, n_estimators=1).fit(X, labels(X, "binary"))
        dealt = [[f.name for f in m.features] for m in model.partial_models_]
        assert [len(names) for names in dealt] == sizes
        assert [name for names in dealt for name in names] == list(X.columns)

    def test_order_of_participants_does_not_matter_to_predict(self, fitted: dict[str, Model]) -> None:
        """At predict time the names say whose table it is, and the columns' names which column."""
        X = people()
        tables = {"telecom": X[["visits", "idle", "calls"]], "bank": X[["city", "age", "income"]]}
        np.testing.assert_array_equal(fitted["binary"].predict(tables), fitted["binary"].predict(halves(X)))

    def test_a_joined_table_will_do_to_predict(self, fitted: dict[str, Model]) -> None:
        """A model of two tables scores one table that has all their columns, in any order."""
        X = people()
        whole = X[X.columns[::-1]]
        np.testing.assert_array_equal(fitted["binary"].predict(whole), fitted["binary"].predict(halves(X)))

    def test_reordered_columns_of_one_table_are_refused(self) -> None:
        """As everywhere in scikit-learn, a model of one table wants its columns in the same order."""
        X = people()
        model = estimator("binary", n_estimators=1).fit(X, labels(X, "binary"))
        with pytest.raises(ValueError, match="same order"):
            model.predict(X[X.columns[::-1]])

    def test_overlapping_names(self) -> None:
        """Two participants may use the same name for columns of their own; the export tells them apart."""
        X = numbers()
        y = X[:, 0] + X[:, 1] > 0
        tables = {"bank": pd.DataFrame({"x": X[:, 0]}), "shop": pd.DataFrame({"x": X[:, 1], "z": X[:, 2]})}
        model = FedXGBClassifier(**QUICK).fit(tables, y)
        booster = model.to_xgboost()
        assert booster.feature_names == ["bank.x", "shop.x", "z"]
        joined = pd.DataFrame({"bank.x": X[:, 0], "shop.x": X[:, 1], "z": X[:, 2]})
        np.testing.assert_allclose(
            booster.predict(xgboost.DMatrix(joined)), model.predict_proba(tables)[:, 1], atol=1e-6
        )

    @pytest.mark.parametrize("dtype", ["object", "string"])
    def test_text_is_categories(self, fitted: dict[str, Model], dtype: Any) -> None:
        """A column of text gives the model of the same column as categories, and is scored row by row alike."""
        X = people()
        text = X.assign(city=X["city"].astype(dtype))
        model = estimator("binary").fit(halves(text), labels(X, "binary"))
        assert same_splits(join(model.partial_models_), join(fitted["binary"].partial_models_))
        for rows in (X["city"] == "Quito", X["city"].isna(), slice(None)):  # however few of the words are there
            np.testing.assert_array_equal(model.predict(halves(text[rows])), fitted["binary"].predict(halves(X[rows])))

    def test_overlapping_columns_of_one_table(self) -> None:
        """A column of one table may go to several participants."""
        X, y = people()[["age", "calls", "income"]], labels(people(), "binary")
        participants = [["age", "calls"], ["calls", "income"]]
        model = estimator("binary", participants=participants).fit(X, y)
        tables = [X[own] for own in participants]
        again = estimator("binary").fit(tables, y)
        assert same_splits(join(model.partial_models_), join(again.partial_models_))
        np.testing.assert_array_equal(model.predict(X), again.predict(tables))

    def test_numbers_as_names_come_before_places(self) -> None:
        """Where columns are called 0, 1, ..., in another order, `participants` means their names."""
        X = pd.DataFrame(numbers()[:, :3], columns=[2, 0, 1])
        model = FedXGBClassifier(**QUICK, participants=[[0], [1, 2]]).fit(X, X[0] > 0)
        assert [[f.name for f in m.features] for m in model.partial_models_] == [["0"], ["1", "2"]]

    def test_participants_without_columns(self) -> None:
        """Who has no columns still takes part, even the one with the labels."""
        X = numbers()
        y = X[:, 0] > 0
        tables = {"label only": pd.DataFrame(index=range(len(X))), "all": pd.DataFrame(X)}
        model = FedXGBClassifier(**QUICK).fit(tables, y)
        assert model.score(tables, y) > 0.9
        more = FedXGBClassifier(**QUICK, participants=6).fit(X, y)
        assert sorted(len(m.features) for m in more.partial_models_) == [0, 0, 1, 1, 1, 1]
        np.testing.assert_array_equal(more.predict(X), model.predict(tables))

    def test_names_of_roles_do_not_clash(self) -> None:
        """A participant may be called coordinator."""
        X = numbers()
        model = FedXGBClassifier(**QUICK).fit({"coordinator": X, "the coordinator": X}, X[:, 0] > 0)
        assert set(model.run_.roles) == {"the the coordinator", "coordinator", "the coordinator"}


class TestPredictions:
    """What the fitted models say, by every method that says it."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_some_rounds_only(self, fitted: dict[str, Model], kind: str) -> None:
        """iteration_range takes the rounds that xgboost would; the base score counts in all of them."""
        X, model = people(), fitted[kind]
        booster = model.to_xgboost()
        for chosen in ((0, 1), (1, 3), (2, 3), (0, 0)):
            theirs = booster.predict(matrix(model, X), output_margin=True, iteration_range=chosen, strict_shape=True)
            ours = model._margins(halves(X), chosen).T
            np.testing.assert_allclose(ours, theirs, atol=1e-5)
        if isinstance(model, FedXGBClassifier):
            first = model.predict_proba(halves(X), iteration_range=(0, 1))
            assert (model.predict(halves(X), iteration_range=(0, 1)) == model.classes_[first.argmax(axis=1)]).all()
            assert model.decision_function(halves(X), iteration_range=(0, 1)).shape[0] == len(X)

    def test_some_rounds_of_the_papers_way(self) -> None:
        """Everyone leaves its shares of the others out."""
        X = numbers()
        model = FedXGBRegressor(**QUICK, security="paper", min_child_weight=0.0).fit(X, X[:, 0])
        whole, start = model.predict(X), model.partial_models_[0].base_margin
        assert start is not None
        parts = [model.predict(X, iteration_range=(t, t + 1)) - start[0] for t in range(3)]
        np.testing.assert_allclose(np.sum(parts, axis=0) + start[0], whole, atol=1e-7)

    @pytest.mark.parametrize("kind", KINDS)
    def test_margins_are_those_of_the_joined_trees(self, fitted: dict[str, Model], kind: str) -> None:
        """Joint prediction ends where a walk down the joined trees ends, for training rows and for new ones."""
        model = fitted[kind]
        for X in (people(), people(rows=9, seed=5)):
            expected = margins_by_hand(join(model.partial_models_), halves(X))
            if kind == "binary":
                np.testing.assert_allclose(model.decision_function(halves(X)), expected[0], atol=1e-9)
            elif kind == "classes":
                np.testing.assert_allclose(model.decision_function(halves(X)), expected.T, atol=1e-9)
            else:
                theirs = np.exp(expected[0]) if kind == "counts" else expected[0]
                np.testing.assert_allclose(model.predict(halves(X)), theirs, atol=1e-9)

    @pytest.mark.parametrize("kind", KINDS)
    def test_export_predicts_the_same(self, fitted: dict[str, Model], kind: str) -> None:
        """`to_xgboost()` gives a booster with the same predictions, up to its float32."""
        model = fitted[kind]
        for X in (people(), people(rows=40, seed=6)):
            theirs = model.to_xgboost().predict(matrix(model, X))
            ours = model.predict_proba(halves(X)) if kind in ("binary", "classes") else model.predict(halves(X))
            np.testing.assert_allclose(theirs, ours[:, 1] if kind == "binary" else ours, rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize("kind", ["binary", "classes"])
    def test_probabilities_decide(self, fitted: dict[str, Model], kind: str) -> None:
        """Classes are those of y, sorted; the likeliest is predicted; probabilities add up to 1."""
        X = people()
        y, model = labels(X, kind), fitted[kind]
        assert model.classes_.tolist() == sorted(set(y.tolist()))
        p = model.predict_proba(halves(X))
        assert p.shape == (len(X), len(model.classes_))
        np.testing.assert_allclose(p.sum(axis=1), 1)
        predicted = model.predict(halves(X))
        np.testing.assert_array_equal(predicted, model.classes_[p.argmax(axis=1)])
        assert model.score(halves(X), y) == sk.accuracy_score(y, predicted) > 0.7

    @pytest.mark.parametrize("kind", ["regression", "counts"])
    def test_a_regressor_scores_by_r2(self, fitted: dict[str, Model], kind: str) -> None:
        """`score` is scikit-learn's."""
        X = people()
        y, model = labels(X, kind), fitted[kind]
        assert model.score(halves(X), y) == sk.r2_score(y, model.predict(halves(X))) > 0.2

    @pytest.mark.parametrize(
        "classes", [[0, 1], [False, True], [-3, 7], ["bad", "good"], [0.0, 1.0], ["a", "b", "c"], [5, 1, 3]]
    )
    def test_labels_of_any_kind(self, classes: list[Any]) -> None:
        """Labels come back as they were given."""
        X = numbers()
        codes = np.digitize(X[:, 0] + X[:, 2], [0.0, 1.0][: len(classes) - 1])
        y = np.array(classes)[codes]
        model = FedXGBClassifier(**QUICK).fit(X, y)
        assert model.classes_.tolist() == sorted(classes)
        assert model.predict(X).dtype == y.dtype
        assert model.score(X, y) > 0.8

    @pytest.mark.parametrize("dtype", ["category", "string", "object"])
    def test_labels_from_pandas(self, dtype: Any) -> None:
        """A column of a DataFrame is an array of labels, whatever its type."""
        X = numbers()
        y = pd.Series(np.where(X[:, 0] > 0, "up", "down")).astype(dtype)
        assert set(FedXGBClassifier(**QUICK).fit(X, y).predict(X)) == {"up", "down"}

    def test_one_row_at_a_time(self, fitted: dict[str, Model]) -> None:
        """A single row is scored as it is among others."""
        X = people()
        whole = fitted["regression"].predict(halves(X))
        single = [fitted["regression"].predict(halves(X.iloc[i : i + 1]))[0] for i in range(5)]
        np.testing.assert_array_equal(single, whole[:5])

    def test_tiny_tables(self) -> None:
        """Two rows make two leaves; one row makes a regressor that repeats it."""
        X = np.array([[0.0, 1.0], [1.0, 1.0]])
        model = FedXGBClassifier(**QUICK, min_child_weight=0).fit(X, ["a", "b"])
        assert model.predict(X).tolist() == ["a", "b"]
        assert FedXGBRegressor(**QUICK).fit(X[:1], [7.5]).predict(X).tolist() == [7.5, 7.5]

    def test_nothing_to_split(self) -> None:
        """Constant columns make trees of one leaf, and predictions of the mean."""
        X, y = np.ones((30, 4)), np.arange(30) % 3 == 0
        model = FedXGBClassifier(**QUICK).fit(X, y)
        assert all(len(tree) == 1 for m in model.partial_models_ for tree in m.trees)
        np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / 3, atol=1e-6)
        assert all((edges := model.cut_points_[p][c]).size == 0 for p, own in model.cut_points_.items() for c in own)
        assert edges.dtype == np.float32

    def test_categories_are_matched_by_name(self, fitted: dict[str, Model]) -> None:
        """At predict time other codes for the same categories, or a table with few of them, change nothing."""
        X = people()
        expected = fitted["binary"].predict_proba(halves(X))
        recoded = X.assign(city=X["city"].cat.reorder_categories(["Quito", "Basel", "Lagos"]))
        np.testing.assert_array_equal(fitted["binary"].predict_proba(halves(recoded)), expected)
        few = X[X["city"] == "Quito"]
        few = few.assign(city=few["city"].cat.remove_unused_categories())
        np.testing.assert_array_equal(fitted["binary"].predict_proba(halves(few)), expected[X["city"] == "Quito"])

    def test_integer_categories_survive_a_missing_value(self) -> None:
        """Trained on 1, 2, 3 and scored as 1.0, NaN, 3.0, which pandas makes of them, rows go where they went."""
        rng = np.random.default_rng(3)
        X = pd.DataFrame({"x": rng.normal(size=90), "shop": rng.integers(1, 4, 90)})
        y = X["shop"] == 2
        model = FedXGBClassifier(participants=[["x"], ["shop"]], **QUICK).fit(X.astype({"shop": "category"}), y)
        later = X.assign(shop=X["shop"].where(X.index > 0).astype("category"))
        assert later["shop"].cat.categories.dtype.kind == "f"
        np.testing.assert_array_equal(model.predict(later)[1:], y[1:])

    def test_an_unseen_category_is_none_of_the_known(self, fitted: dict[str, Model]) -> None:
        """A new category goes with the rest; a column without any value is missing, whatever pandas calls it."""
        X = people()
        new = X.assign(city=pd.Categorical(["Oslo"] * len(X)))
        trees = join(fitted["binary"].partial_models_)
        rest = X.assign(city=pd.Categorical(["Oslo"] * len(X), categories=["Basel", "Lagos", "Quito", "Oslo"]))
        np.testing.assert_allclose(
            fitted["binary"].decision_function(halves(new)), margins_by_hand(trees, halves(rest))[0], atol=1e-9
        )
        empty = X.assign(city=np.nan)
        missing = X.assign(city=pd.Categorical([np.nan] * len(X), categories=["Basel", "Lagos", "Quito"]))
        np.testing.assert_array_equal(
            fitted["binary"].decision_function(halves(empty)), fitted["binary"].decision_function(halves(missing))
        )


class TestEvaluation:
    """Evaluation rows ride along; the active participant judges progress."""

    @pytest.mark.parametrize(
        ("kind", "names"),
        [
            ("binary", ["logloss", "error", "auc", "rmse", "mae"]),
            ("classes", ["mlogloss", "merror"]),
            ("regression", ["rmse", "mae"]),
            ("counts", ["poisson-nloglik", "rmse"]),
        ],
    )
    def test_metrics_are_xgboosts(self, kind: str, names: list[str]) -> None:
        """After the last round every metric is what xgboost says of the exported model, weights included."""
        X, other = people(), people(rows=30, seed=8)
        y, y_other = labels(X, kind), labels(other, kind)
        weight = np.random.default_rng(4).random(30)
        model = estimator(kind, eval_metric=names)
        model.fit(
            halves(X),
            y,
            eval_set=[(halves(X), y), (halves(other), y_other)],
            sample_weight_eval_set=[None, weight],
        )
        booster = model.to_xgboost()
        for i, (table, target, w) in enumerate(((X, y, None), (other, y_other, weight))):
            data = matrix(model, table)
            data.set_label(np.searchsorted(model.classes_, target) if isinstance(model, FedXGBClassifier) else target)
            if w is not None:
                data.set_weight(w)
            told = model.evals_result_[f"validation_{i}"]
            assert list(told) == names
            for name in names:
                assert len(told[name]) == QUICK["n_estimators"]
                booster.set_param({"eval_metric": name})
                values = dict(word.split(":") for word in booster.eval_set([(data, "it")]).split()[1:])
                assert told[name][-1] == pytest.approx(float(values[f"it-{name}"]), rel=2e-6, abs=2e-6), name

    def test_metrics_of_every_round(self) -> None:
        """Round by round, metrics are scikit-learn's of the trees so far."""
        X, other = people(), people(rows=30, seed=8)
        target = labels(other, "binary") == "yes"
        model = estimator("binary", eval_metric=["logloss", "error", "auc"])
        model.fit(halves(X), labels(X, "binary"), eval_set=[(halves(other), labels(other, "binary"))])
        told = model.evals_result_["validation_0"]
        for t in range(QUICK["n_estimators"]):
            p = 1 / (1 + np.exp(-margins_by_hand(join(model.partial_models_), halves(other), t + 1)[0]))
            assert told["logloss"][t] == pytest.approx(sk.log_loss(target, p))
            assert told["error"][t] == pytest.approx(1 - sk.accuracy_score(target, p > 0.5))
            assert told["auc"][t] == pytest.approx(sk.roc_auc_score(target, p))

    def test_watching_alone_changes_nothing(self, fitted: dict[str, Model]) -> None:
        """Without early stopping there is no best iteration, and all trees are used."""
        X = people()
        model = estimator("binary").fit(
            halves(X), labels(X, "binary"), eval_set=[(halves(X), labels(X, "binary")[::-1])]
        )
        assert list(model.evals_result_["validation_0"]) == ["logloss"]
        assert model.best_iteration_ is None
        np.testing.assert_array_equal(model.predict_proba(X), fitted["binary"].predict_proba(X))

    def test_early_stopping(self, stopped: FedXGBClassifier) -> None:
        """Training ends when the last set's metric has not improved for so many rounds."""
        history = stopped.evals_result_["validation_1"]["logloss"]
        assert stopped.best_iteration_ == int(np.argmin(history))
        assert len(history) == int(np.argmin(history)) + 3 < 30
        assert len(stopped.partial_models_[0].trees) == len(history)
        assert stopped.run_.trees == len(history)
        assert "number of trees" in {entry.name for entry in stopped.run_.ledger}

    def test_prediction_uses_trees_up_to_the_best(self, stopped: FedXGBClassifier, tmp_path: Path) -> None:
        """Also after saving and loading; the exported model has no others, so that every tool predicts the same."""
        assert stopped.best_iteration_ is not None
        X, used = people(), stopped.best_iteration_ + 1
        margins = stopped.decision_function(halves(X))
        by_hand = margins_by_hand(join(stopped.partial_models_), halves(X), used)[0]
        np.testing.assert_allclose(margins, by_hand, atol=1e-9)
        booster = stopped.to_xgboost()
        assert booster.best_iteration == stopped.best_iteration_
        assert booster.num_boosted_rounds() == used < len(stopped.partial_models_[0].trees)
        for rounds in ((0, 0), (0, used)):
            theirs = booster.predict(matrix(stopped, X), output_margin=True, iteration_range=rounds)
            np.testing.assert_allclose(margins, theirs, atol=1e-6)
        raw = tmp_path / "booster.json"
        booster.save_model(raw)
        wrapped = xgboost.XGBClassifier()
        wrapped.load_model(raw)
        wrapped_margins = wrapped.predict(X[booster.feature_names], output_margin=True)
        np.testing.assert_allclose(margins, wrapped_margins, atol=1e-6)
        stopped.save_model(tmp_path)
        loaded = FedXGBClassifier().load_model(tmp_path)
        assert loaded.best_iteration_ == stopped.best_iteration_
        np.testing.assert_array_equal(loaded.decision_function(halves(X)), margins)

    def test_auc_grows(self) -> None:
        """Early stopping knows that a larger area under the curve is a better one."""
        X, other = people(), people(rows=30, seed=8)
        model = estimator("binary", eval_metric="auc", early_stopping_rounds=2, n_estimators=8)
        model.fit(halves(X), labels(X, "binary"), eval_set=[(halves(other), labels(other, "binary"))])
        history = model.evals_result_["validation_0"]["auc"]
        assert model.best_iteration_ == int(np.argmax(history))

    def test_evaluation_labels_may_be_of_another_type(self) -> None:
        """1.0 is the class 1, and some classes may be absent."""
        X = numbers()
        y = (X[:, 0] > 0).astype(int)
        model = FedXGBClassifier(**QUICK).fit(X, y, eval_set=[(X, y.astype(float)), (X[y == 1], y[y == 1])])
        assert model.evals_result_["validation_1"]["logloss"][-1] < 0.5


class TestCallbacks:
    """Functions that are told how it goes, and may end it."""

    def test_reports_of_every_round(self) -> None:
        """A callback sees iteration, metrics so far, rounds and bytes; what it returns does not matter unless true."""
        seen: list[RoundReport] = []
        X = numbers()
        model = FedXGBRegressor(**QUICK, callbacks=[seen.append])
        model.fit(X, X[:, 0], eval_set=[(X, X[:, 0])])
        assert [report.iteration for report in seen] == [0, 1, 2]
        assert {report.iterations for report in seen} == {3}
        assert seen[-1].metrics == model.evals_result_
        spent = [(report.communication_rounds, report.bytes_sent) for report in seen]
        assert spent == sorted(set(spent))
        assert spent[-1][0] <= model.run_.rounds

    def test_true_stops(self) -> None:
        """After the round in which a callback returns something true there is no other, at any participant."""
        X = numbers()
        model = FedXGBRegressor(**QUICK | {"n_estimators": 50}, callbacks=[lambda report: report.iteration == 1])
        model.fit(X, X[:, 0])
        assert [len(m.trees) for m in model.partial_models_] == [2, 2]
        assert model.best_iteration_ is None
        whole = FedXGBRegressor(**QUICK | {"n_estimators": 2}).fit(X, X[:, 0])
        np.testing.assert_array_equal(model.predict(X), whole.predict(X))

    def test_objects_in_the_form_of_xgboosts(self) -> None:
        """They see the active participant's part of the model grow, stop the training before or after a round."""

        class Watcher:
            def __init__(self, stop: int | None = None) -> None:
                self.stop, self.sizes, self.scores = stop, list[int](), list[list[float]]()

            def before_training(self, model: Any) -> Any:
                self.sizes.append(len(model.trees))
                return model

            def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                return epoch == self.stop

            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                assert model.is_active
                self.sizes.append(len(model.trees))
                self.scores.append(list(evals_log["validation_0"]["rmse"]))
                return False

            def after_training(self, model: Any) -> Any:
                self.sizes.append(len(model.trees))
                return model

        X = numbers()
        for watcher, sizes, how in (
            (Watcher(), [0, 1, 2, 3, 3], "strict"),
            (Watcher(2), [0, 1, 2, 2], "strict"),
            (Watcher(2), [0, 1, 2, 2], "none"),
        ):
            model = FedXGBRegressor(**QUICK, callbacks=[watcher], security=how).fit(X, X[:, 0], eval_set=[(X, X[:, 0])])
            assert watcher.sizes == sizes
            assert watcher.scores[-1] == model.evals_result_["validation_0"]["rmse"]
            assert {len(part.trees) for part in model.partial_models_} == {sizes[-1]}

    def test_an_error_in_a_callback_ends_everything(self) -> None:
        """The caller gets its own error back, and an estimator that is not fitted."""

        def fail(report: RoundReport) -> None:
            raise LookupError("out of coffee")

        X = numbers()
        model = FedXGBRegressor(**QUICK, callbacks=[fail])
        with pytest.raises(LookupError, match="coffee"):
            model.fit(X, X[:, 0])
        assert not hasattr(model, "partial_models_")


class TestObjectives:
    """Weights, starting points and losses of one's own."""

    def test_equal_weights_are_no_weights(self) -> None:
        """Weights of one leave no trace."""
        X = numbers()
        y = X[:, 0] > 0
        plain, weighted = (FedXGBClassifier(**QUICK).fit(X, y, sample_weight=w) for w in (None, np.ones(len(X))))
        assert join(plain.partial_models_) == join(weighted.partial_models_)

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_weight_of_two_is_a_row_twice(self, kind: str) -> None:
        """And a weight of zero is no row, as long as no bins change; up to the rounding of the integers."""
        X = people().round({"calls": 0, "income": 0}).assign(age=lambda frame: frame["age"] // 15)
        y, weight = labels(people(), kind), np.random.default_rng(0).choice([0, 1, 2], len(X))
        many = {"n_estimators": 2, "max_depth": 2, "max_bin": 40}
        weighted = estimator(kind, **many).fit(halves(X), y, sample_weight=weight)
        repeated = np.repeat(np.arange(len(X)), weight)
        plain = estimator(kind, **many).fit(halves(X.iloc[repeated]), y[repeated])
        ours, theirs = (
            m.predict_proba(halves(X)) if kind in ("binary", "classes") else m.predict(halves(X))
            for m in (weighted, plain)
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)

    def test_one_weight_for_all(self) -> None:
        """A number is the weight of every row."""
        X = numbers()
        a, b = (FedXGBRegressor(**QUICK).fit(X, X[:, 0], sample_weight=w) for w in (3.0, np.full(len(X), 3.0)))
        np.testing.assert_array_equal(a.predict(X), b.predict(X))

    @pytest.mark.parametrize(("kind", "score", "margin"), [("binary", 0.2, np.log(0.25)), ("regression", -3.5, -3.5)])
    def test_base_score(self, kind: str, score: float, margin: float) -> None:
        """Boosting starts from base_score, in the terms of the prediction."""
        X = people()
        model = estimator(kind, base_score=score, n_estimators=1).fit(X, labels(X, kind))
        assert model.partial_models_[0].base_margin == pytest.approx((margin,))

    def test_base_score_unset_is_the_mean(self, fitted: dict[str, Model]) -> None:
        """As in XGBoost; for several classes, the logarithms of their shares."""
        X = people()
        assert fitted["regression"].partial_models_[0].base_margin == pytest.approx(
            (labels(X, "regression").mean(),), rel=1e-6
        )
        assert fitted["counts"].partial_models_[0].base_margin == pytest.approx(
            (np.log(labels(X, "counts").mean()),), rel=1e-6
        )
        shares = np.unique(labels(X, "classes"), return_counts=True)[1] / len(X)
        expected = np.log(shares) - np.log(shares).mean()
        assert fitted["classes"].partial_models_[0].base_margin == pytest.approx(tuple(expected), rel=1e-5)

    def test_a_custom_loss_can_be_the_built_in_one(self) -> None:
        """(y, margin) -> (g, h): with the gradients of log-loss it is log-loss, with those of squared error that."""

        def logistic(y: Any, margin: Any) -> tuple[Any, Any]:
            p = 1 / (1 + np.exp(-margin))
            return p - y, p * (1 - p)

        def squared(y: Any, margin: Any) -> tuple[Any, Any]:
            return margin - y, np.ones(len(y))

        X = people()
        y = labels(X, "binary")
        names = ["logloss", "error", "auc"]
        watched: dict[str, Any] = {"eval_set": [(halves(X), y)]}
        custom = FedXGBClassifier(**QUICK, objective=logistic, eval_metric=names).fit(halves(X), y, **watched)
        built_in = FedXGBClassifier(**QUICK, base_score=0.5, eval_metric=names).fit(halves(X), y, **watched)
        np.testing.assert_allclose(custom.predict_proba(X), built_in.predict_proba(X), atol=1e-6)
        for name in names:
            ours, theirs = (model.evals_result_["validation_0"][name] for model in (custom, built_in))
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
        y = labels(X, "regression")
        custom = FedXGBRegressor(**QUICK, objective=squared, base_score=2.0).fit(halves(X), y)
        built_in = FedXGBRegressor(**QUICK, base_score=2.0).fit(halves(X), y)
        np.testing.assert_allclose(custom.predict(X), built_in.predict(X), rtol=1e-6)
        np.testing.assert_allclose(custom.to_xgboost().predict(matrix(custom, X)), custom.predict(X), rtol=1e-6)

    def test_the_objective_may_be_named(self, fitted: dict[str, Model]) -> None:
        """Naming what would be chosen anyway changes nothing."""
        X = people()
        for kind, name in (("binary", "binary:logistic"), ("classes", "multi:softprob")):
            model = FedXGBClassifier(**QUICK, objective=name).fit(halves(X), labels(X, kind))
            assert same_splits(join(model.partial_models_), join(fitted[kind].partial_models_))

    def test_numpy_numbers_are_numbers(self) -> None:
        """Parameters from a grid of NumPy's are as good as Python's."""
        X = numbers()
        grid: dict[str, Any] = {"max_depth": np.int32(2), "learning_rate": np.float32(0.5), "n_estimators": np.int64(2)}
        grid |= {"random_state": np.int64(3), "subsample": np.float64(0.9)}
        model = FedXGBRegressor(**grid, max_bin=6).fit(X, X[:, 0])
        assert model.partial_models_[0].params.learning_rate == 0.5
        json.dumps(model.run_.to_dict())


class TestChance:
    """What repeats and what does not."""

    @pytest.mark.parametrize("share", [{"subsample": 0.5}, {"colsample_bytree": 0.5}])
    def test_random_state_repeats_samples(self, share: dict[str, Any]) -> None:
        """The same random_state gives the same trees, another one others; masks stay random."""
        X = numbers(rows=60, columns=8)
        y = X.sum(axis=1) > 0

        first, again, other = (FedXGBClassifier(**QUICK, random_state=s, **share).fit(X, y) for s in (0, 0, 1))
        assert join(first.partial_models_).trees == join(again.partial_models_).trees
        assert first.partial_models_[0].training != again.partial_models_[0].training
        assert join(first.partial_models_).trees != join(other.partial_models_).trees

    def test_samples_do_not_repeat_by_themselves(self) -> None:
        """Without a random_state nobody can tell which rows a tree saw."""
        X = numbers()
        one, two = (FedXGBRegressor(**QUICK, subsample=0.5).fit(X, X[:, 0]) for _ in range(2))
        assert join(one.partial_models_).trees != join(two.partial_models_).trees

    def test_column_samples_leave_each_owner_a_feature(self) -> None:
        """Every participant draws from its own columns, at least one of them."""
        X = numbers(columns=6)
        model = FedXGBClassifier(**QUICK | {"n_estimators": 6}, colsample_bytree=0.01, random_state=0)
        model.fit(X, X.sum(axis=1) > 0)
        for part in model.partial_models_:
            for tree in part.trees:
                assert len({node.feature for node in tree if isinstance(node, Split)}) <= 1

    def test_insecure_seed_repeats_everything(self) -> None:
        """Whole runs repeat, private coins included, and the record says so in plain words."""
        X = numbers()
        runs = [FedXGBClassifier(**QUICK, insecure_seed=s).fit(X, X[:, 0] > 0) for s in (7, 7, 8, None)]
        assert runs[0].partial_models_ == runs[1].partial_models_
        assert runs[0].partial_models_ != runs[2].partial_models_
        assert all(join(run.partial_models_).trees == join(runs[0].partial_models_).trees for run in runs)
        assert [run.run_.insecure_seed for run in runs] == [True, True, True, False]
        assert [run.run_.to_dict()["insecure_seed"] for run in runs] == [True, True, True, False]
        assert ["INSECURE" in str(run.run_) for run in runs] == [True, True, True, False]

    def test_first_layer_mask(self) -> None:
        """The root is the active participant's, even where another's column would be far better."""
        X = numbers()
        y = X[:, 3] > 0
        free, masked = (FedXGBClassifier(**QUICK, first_layer_mask=mask).fit(X, y) for mask in (False, True))
        roots = [tree[0] for tree in join(free.partial_models_).trees]
        assert [root.owner for root in roots if isinstance(root, JoinedSplit)] == [2, 2, 2]
        roots = [tree[0] for tree in join(masked.partial_models_).trees]
        assert [root.owner for root in roots if isinstance(root, JoinedSplit)] == [1, 1, 1]
        owned = {e.name for e in free.run_.ledger} - {e.name for e in masked.run_.ledger}
        assert owned == {"rows of a leaf whose whole path is its own"}

    def test_first_layer_mask_needs_columns_to_help(self) -> None:
        """An active participant without columns can split nothing under the mask, and nobody else may."""
        X = numbers()
        model = FedXGBClassifier(**QUICK, first_layer_mask=True)
        model.fit([pd.DataFrame(index=range(len(X))), pd.DataFrame(X)], X[:, 0] > 0)
        assert all(len(tree) == 1 for tree in model.partial_models_[0].trees)


class TestAttributes:
    """What a fitted estimator tells: importances, cut points, the record of the run."""

    def test_importance_by_weight(self, fitted: dict[str, Model]) -> None:
        """Every owner counts its own splits; xgboost counts the same in the joined model."""
        model = fitted["classes"]
        counts = model.feature_importance("weight")
        theirs = model.to_xgboost().get_score(importance_type="weight")
        assert list(counts) == ["bank", "telecom"]
        assert {name: n for own in counts.values() for name, n in own.items() if n} == theirs
        assert [list(own.index) for own in counts.values()] == [BANK, TELECOM]
        for name, shares in model.feature_importances_.items():
            np.testing.assert_allclose(shares, counts[name] / counts[name].sum())

    @pytest.mark.parametrize("kind", KINDS)
    def test_importance_by_cover(self, fitted: dict[str, Model], kind: str) -> None:
        """The active participant alone knows the cover of its own splits; xgboost agrees with it."""
        model = fitted[kind]
        cover = model.feature_importance("cover")
        assert list(cover) == ["bank"]
        theirs = model.to_xgboost().get_score(importance_type="cover")
        assert {name: c for name, c in cover["bank"].items() if c} == pytest.approx(
            {name: c for name, c in theirs.items() if name in BANK}, rel=1e-5
        )

    @pytest.mark.parametrize("kind", KINDS)
    def test_importance_by_gain(self, fitted: dict[str, Model], kind: str) -> None:
        """The active participant knows the gain of its own splits; xgboost agrees with it."""
        model = fitted[kind]
        gain = model.feature_importance("gain")
        assert list(gain) == ["bank"]
        theirs = model.to_xgboost().get_score(importance_type="gain")
        assert {name: c for name, c in gain["bank"].items() if c} == pytest.approx(
            {name: c for name, c in theirs.items() if name in BANK}, rel=1e-5
        )

    def test_other_importances(self, fitted: dict[str, Model]) -> None:
        """Who asks for another kind is told which there are."""
        with refused(SettingsError, "choice", "kind", "shap"):
            fitted["binary"].feature_importance("shap")

    def test_category_codes_travel_with_the_export(self, fitted: dict[str, Model]) -> None:
        """An attribute of the Booster says what codes stand for, also after xgboost has saved it."""
        booster = fitted["binary"].to_xgboost()
        again = xgboost.Booster(model_file=booster.save_raw("ubj"))
        assert json.loads(again.attr("categories") or "") == {"city": ["Basel", "Lagos", "Quito"]}

    def test_no_splits_no_importance(self) -> None:
        """Shares of nothing are zero, not NaN."""
        model = FedXGBClassifier(**QUICK).fit([np.ones((20, 1))] * 2, np.arange(20) % 2)
        assert [own.tolist() for own in model.feature_importances_.values()] == [[0.0], [0.0]]
        model.fit(np.ones((20, 2)), np.arange(20) % 2)
        assert model.feature_importances_.tolist() == [0.0, 0.0]

    @pytest.mark.parametrize("kind", KINDS)
    def test_importance_of_one_tables_columns(self, kind: str, tmp_path: Path) -> None:
        """An array in the order of the columns, equal to xgboost's of the joined model; loaded, a dictionary."""
        X = people()[["visits", "city", "idle", "calls", "age"]]
        model = estimator(kind, participants=[["calls", "visits"], ["idle", "age", "city"]]).fit(
            X, labels(people(), kind)
        )
        theirs = model.to_xgboost().get_score(importance_type="gain")
        expected = np.array([theirs.get(name, 0.0) for name in X.columns])
        np.testing.assert_allclose(model.feature_importances_, expected / expected.sum(), rtol=1e-5)
        model.save_model(tmp_path)
        assert set(estimator(kind).load_model(tmp_path).feature_importances_) == {"P1", "P2"}

    def test_importance_of_one_table_in_the_papers_way(self) -> None:
        """Without gains splits are counted; a column of two participants is one column."""
        X = numbers()
        model = FedXGBRegressor(**QUICK, security="paper", min_child_weight=0.0, participants=[[0, 1], [1, 2, 3]])
        model.fit(X, X[:, 1] + X[:, 0])
        counts = pd.concat(list(model.feature_importance().values())).groupby(level=0).sum().to_numpy(np.float64)
        np.testing.assert_allclose(model.feature_importances_, counts / counts.sum())

    def test_cut_points_are_where_trees_split(self, fitted: dict[str, Model]) -> None:
        """Edges are sorted float32 values of the column; every threshold is one of them; categories have none."""
        X = people()
        for kind in KINDS:
            model = fitted[kind]
            assert {p: list(own) for p, own in model.cut_points_.items()} == {"bank": BANK[:2], "telecom": TELECOM}
            for owner, own in model.cut_points_.items():
                for name, edges in own.items():
                    assert edges.dtype == np.float32
                    assert (np.diff(edges) > 0).all()
                    assert set(edges) <= set(X[name].astype(np.float32))
                    assert len(edges) < model.max_bin
                part = next(m for m in model.partial_models_ if m.name == owner)
                splits = [n for tree in part.trees for n in tree if isinstance(n, Split) and n.threshold is not None]
                for node in splits:
                    assert np.isinf(node.threshold or 0.0) or np.float32(node.threshold or 0.0) in own[node.feature]

    def test_an_edge_goes_left(self) -> None:
        """A row on the edge goes the way of those below it, the next float32 the other way; in xgboost as well."""
        X = numbers()
        y = X[:, 0] + X[:, 2] > 0
        model = FedXGBClassifier(**QUICK | {"max_bin": 3, "max_depth": 1, "n_estimators": 1}).fit(X, y)
        (split,) = (n for tree in join(model.partial_models_).trees for n in tree if isinstance(n, JoinedSplit))
        edge = np.float32(split.threshold or 0.0)
        column = int(split.feature[1:])
        assert edge in model.cut_points_[f"P{split.owner}"][split.feature]
        below, above = np.nextafter(edge, np.float32(-np.inf)), np.nextafter(edge, np.float32(np.inf))
        rows = np.repeat(X[:1], 3, axis=0)
        rows[:, column] = [below, edge, above]
        for margins in (
            model.decision_function(rows),
            model.to_xgboost().predict(
                xgboost.DMatrix(rows, feature_names=["f0", "f1", "f2", "f3"]), output_margin=True
            ),
        ):
            assert margins[0] == margins[1] != margins[2]

    def test_record_is_the_meters(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Rounds, messages, bytes, products and comparisons are what the roles counted, and both ends agree."""
        runs: list[LocalRun[Any]] = []

        def keep(*arguments: Any, **options: Any) -> LocalRun[Any]:
            runs.append(run_locally(*arguments, **options))
            return runs[-1]

        monkeypatch.setattr("mpfedxgb.api.training.run_locally", keep)
        X = numbers()
        model = FedXGBClassifier(**QUICK, participants=3).fit(X, X[:, 0] > 0)
        record, (run,) = model.run_, runs
        told = json.loads(record.to_json())
        totals = {run.roster.name(role): run.meters[role].total() for role in run.roster.roles}
        assert list(record.roles) == list(told["roles"]) == ["coordinator", "P1", "P2", "P3"]
        assert told["bytes_sent"] == {name: t.bytes_sent for name, t in totals.items()}
        assert told["messages"] == {name: sum(t.messages.values()) for name, t in totals.items()}
        assert {told["rounds"]} == {t.rounds for name, t in totals.items() if name != "coordinator"}
        corrected = sum(totals[name].dealer_bytes for name in ("P1", "P2", "P3"))  # they take turns
        assert told["dealer_bytes"] == totals["coordinator"].dealer_bytes == corrected > 0
        assert told["products"] == totals["P1"].products > 0
        assert told["comparisons"] == totals["P1"].comparisons > 0
        for name, counts in totals.items():
            for peer, sent in counts.payload_sent.items():
                assert totals[peer].payload_received[name] == sent
            assert 0 < told["setup_bytes_sent"][name] < counts.bytes_sent or name == "coordinator"
        assert sum(phase["rounds"] for phase in told["phases"].values()) == told["rounds"]
        assert sum(phase["seconds"] for phase in told["phases"].values()) <= told["seconds"]
        assert told["ledger"] == [{"name": e.name, "receiver": e.receiver, "count": e.count} for e in run.ledgers[1]]
        assert told["trees"] == 3
        assert told["params"]["n_estimators"] == 3

    def test_record_can_be_printed(self, fitted: dict[str, Model]) -> None:
        """Printed, the record names roles, phases and everything that was revealed."""
        out = io.StringIO()
        with redirect_stdout(out):
            print(fitted["binary"].run_)  # noqa: T201 # what a user does
        text = out.getvalue()
        assert text.startswith("train: 3 trees in ")
        for word in ("bank", "telecom", "coordinator", "setup", "train/argmax", "own split", "leaf membership"):
            assert word in text

    def test_progress_is_shown_if_asked_for(self, capsys: pytest.CaptureFixture[str]) -> None:
        """With verbosity=1 a bar goes to standard error; nothing otherwise, and never to standard output."""
        X = numbers()
        FedXGBClassifier(**QUICK, verbosity=1).fit(X, X[:, 0] > 0)
        shown = capsys.readouterr()
        assert "3/3" in shown.err
        FedXGBClassifier(**QUICK).fit(X, X[:, 0] > 0)
        assert (shown.out, *capsys.readouterr()) == ("", "", "")


class TestFiles:
    """Models on disk: one file per participant, and back."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_round_trip(self, fitted: dict[str, Model], kind: str, tmp_path: Path) -> None:
        """A fresh estimator loads the folder and predicts the same, from frames of either form, without a warning."""
        X, model = people(), fitted[kind]
        paths = model.save_model(tmp_path / "models")
        assert [path.name for path in paths] == ["bank.mpfedxgb.json", "telecom.mpfedxgb.json"]
        assert sorted(p.name for p in (tmp_path / "models").iterdir()) == sorted(p.name for p in paths)
        loaded = type(model)().load_model(str(tmp_path / "models"))
        assert loaded.partial_models_ == model.partial_models_
        assert loaded.n_features_in_ == model.n_features_in_ == 6
        for form in (halves(X), X, X[X.columns[::-1]]):
            np.testing.assert_array_equal(loaded.predict(form), model.predict(halves(X)))
        if isinstance(model, FedXGBClassifier):
            np.testing.assert_array_equal(loaded.classes_, model.classes_)
            np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))

    @pytest.mark.parametrize("classes", [["no", "yes"], [False, True], [3, 10], [0.0, 1.0], ["a", "b", "c"]])
    def test_classes_come_back(self, classes: list[Any], tmp_path: Path) -> None:
        """Names and types of the classes are kept in the active participant's file, and only there."""
        X = numbers()
        y = np.array(classes)[np.digitize(X[:, 0], [0.0, 0.7][: len(classes) - 1])]
        paths = FedXGBClassifier(**QUICK).fit(X, y).save_model(tmp_path)
        loaded = FedXGBClassifier().load_model(tmp_path)
        assert loaded.classes_.tolist() == classes
        assert [type(c) for c in loaded.classes_.tolist()] == [type(c) for c in classes]
        assert set(loaded.predict(X).tolist()) <= set(classes)
        assert [json.loads(path.read_text())["classes"] for path in paths] == [classes, None]

    def test_loading_replaces_everything(self, fitted: dict[str, Model], tmp_path: Path) -> None:
        """Nothing of an earlier fit remains that the file does not say."""
        fitted["classes"].save_model(tmp_path)
        X = numbers()
        model = FedXGBClassifier(**QUICK).fit(pd.DataFrame(X, columns=list("abcd")), X[:, 0] > 0)
        model.load_model(tmp_path)
        assert model.classes_.tolist() == ["low", "middle", "top"]
        for name in ("run_", "cut_points_", "evals_result_", "feature_names_in_"):
            assert not hasattr(model, name)
        np.testing.assert_array_equal(model.predict(people()), fitted["classes"].predict(people()))
        assert model.get_params() == FedXGBClassifier(**QUICK).get_params()

    @pytest.mark.parametrize("kind", KINDS)
    def test_from_parts(self, fitted: dict[str, Model], kind: str, tmp_path: Path) -> None:
        """Parts in any order make what loading them makes, with the parameters and the cuts that are given."""
        model = fitted[kind]
        model.save_model(tmp_path)
        made = type(model).from_parts(model.partial_models_[::-1], model.cut_points_, **model.get_params())
        assert made.get_params() == model.get_params()
        fitted_to = {name: value for name, value in vars(made).items() if name.endswith("_")}
        cuts = fitted_to.pop("cut_points_")
        loaded = vars(type(model)(**model.get_params()).load_model(tmp_path))
        np.testing.assert_equal(fitted_to, {name: loaded[name] for name in loaded if name.endswith("_")})
        np.testing.assert_equal(cuts, model.cut_points_)
        np.testing.assert_array_equal(made.predict(people()), model.predict(people()))
        assert not hasattr(type(model).from_parts(model.partial_models_), "cut_points_")

    def test_from_parts_that_are_no_model(self, fitted: dict[str, Model]) -> None:
        """One too few, none, things of another kind, another kind of model, and a parameter that does not exist."""
        parts = fitted["binary"].partial_models_
        with refused(UserError, "missing", "telecom"):
            FedXGBClassifier.from_parts(parts[:1])
        with refused(UserError, "few", "models"):
            FedXGBClassifier.from_parts([])
        with refused(UserError, "type", "parts", "PartialModel, str"):
            FedXGBClassifier.from_parts([parts[0], "telecom"])  # type: ignore[list-item] # what is refused
        with refused(UserError, "mismatch", "objective", "binary:logistic"):
            FedXGBRegressor.from_parts(parts)
        with refused(UnknownParameterError, "refused", "max_leaves"):
            FedXGBClassifier.from_parts(parts, max_leaves=3)

    @pytest.mark.parametrize(("kind", "other"), [("binary", FedXGBRegressor), ("counts", FedXGBClassifier)])
    def test_the_wrong_estimator(self, fitted: dict[str, Model], kind: str, other: Any, tmp_path: Path) -> None:
        """A regressor does not take a classifier's model, nor the other way round, and stays what it was."""
        fitted[kind].save_model(tmp_path)
        fresh = other()
        with refused(UserError, "mismatch", "objective"):
            fresh.load_model(tmp_path)
        assert vars(fresh) == vars(other())

    def test_names_that_files_cannot_have(self, tmp_path: Path) -> None:
        """Participants whose names look alike on disk get a file each."""
        X = numbers()
        model = FedXGBClassifier(**QUICK).fit({"a/b": X, "a b": X, "../c": X}, X[:, 0] > 0)
        paths = model.save_model(tmp_path)
        assert len(set(paths)) == 3
        assert {path.parent for path in paths} == {tmp_path}
        assert FedXGBClassifier().load_model(tmp_path).partial_models_ == model.partial_models_

    def test_a_folder_that_is_none(self, fitted: dict[str, Model], tmp_path: Path) -> None:
        """Saving into a file, or loading from an empty folder, is an error that names it."""
        taken = tmp_path / "taken"
        taken.write_text("already here")
        with refused(UserError, "file", "taken"):
            fitted["binary"].save_model(taken)
        assert taken.read_text() == "already here"
        with refused(UserError, "missing", ANY):
            FedXGBClassifier().load_model(tmp_path)


@pytest.mark.parametrize("params", [{"subsample": 0.8}, {"security": "paper", "min_child_weight": 0.0}], ids=repr)
def test_a_mesh_changes_neither_model_nor_ledger(params: dict[str, Any]) -> None:
    """The same trees and reveals as in a star, in fewer hops, by the protocols of the paper too."""
    X = numbers()
    star, mesh = (
        FedXGBClassifier(**{**QUICK, **params}, participants=4, random_state=3, topology=topology).fit(X, X[:, 0] > 0)
        for topology in TOPOLOGIES
    )
    assert same_splits(join(star.partial_models_), join(mesh.partial_models_))
    np.testing.assert_array_equal(star.predict_proba(X), mesh.predict_proba(X))
    assert star.run_.ledger == mesh.run_.ledger
    assert mesh.run_.rounds == star.run_.rounds or "security" in params  # there, steps of the descent are random
    assert mesh.run_.rounds <= mesh.run_.roles["P1"].hops < 1.2 * mesh.run_.rounds
    assert star.run_.roles["P1"].hops > 1.2 * star.run_.rounds
    assert (mesh.run_.topology, mesh.run_.to_dict()["topology"]) == ("mesh", "mesh")
    with refused(SettingsError, "choice", "topology", "ring"):
        FedXGBClassifier(topology="ring").fit(X, X[:, 0] > 0)


def test_a_second_fit_forgets_the_first() -> None:
    """One estimator can be fitted to one table and then to several, and the other way round."""
    X = people()
    y = labels(X, "binary")
    model = estimator("binary").fit(X, y)
    assert model.feature_names_in_.tolist() == list(X.columns)
    model.fit(halves(X)["bank"], labels(X, "classes"))
    assert model.n_features_in_ == 3
    model.fit(halves(X), y)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 6
    assert model.classes_.tolist() == ["no", "yes"]


def test_missing_values_of_every_spelling() -> None:
    """NaN, None and pandas' NA are missing; so are they in whole and truth-value columns of pandas."""
    values: npt.NDArray[Any] = numbers()[:, 0]
    holes = np.arange(len(values)) % 4 == 0
    y = np.where(holes, 1, values > 0.3)
    spellings = [
        pd.Series(np.where(holes, np.nan, values)),
        pd.Series(values).mask(holes).astype("Float64"),
        pd.Series([None if hole else value for hole, value in zip(holes, values, strict=True)], dtype=object),
    ]
    models = [FedXGBClassifier(**QUICK).fit([s.to_frame("x"), pd.DataFrame({"z": values})], y) for s in spellings]
    assert len({join(model.partial_models_).trees for model in models}) == 1
    assert models[0].score([spellings[2].to_frame("x"), pd.DataFrame({"z": values})], y) > 0.95
    whole = pd.DataFrame({"a": pd.array([1, None, 3] * 10, dtype="Int64"), "b": pd.array([True, None] * 15)})
    assert FedXGBClassifier(**QUICK).fit(whole, [0, 0, 1] * 10).score(whole, [0, 0, 1] * 10) == 1.0


def test_prediction_run_is_the_record_of_scoring() -> None:
    """Scoring has a record of its own, with the final predictions on its ledger."""
    frame = people()
    model = FedXGBClassifier(**QUICK).fit(halves(frame), labels(frame, "binary"))
    run = model.prediction_run(halves(frame))

    assert run.kind == "predict"
    assert ("prediction of a row, at most all its leaves", "bank", len(frame)) in [
        (r.name, r.receiver, r.count) for r in run.ledger
    ]
