"""Which row is whose: indexes that disagree are refused, an id column puts rows together, arrays are trusted."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, train_test_split

from mpfedxgb import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.errors import DataError
from support.refusals import Expected, refused
from support.toy_tables import QUICK, halves, labels, people

NAMES = pd.Index([f"person {i}" for i in range(70)], name="person")
X = people().set_index(NAMES)
Y = pd.Series(labels(people(), "binary"), index=NAMES)
ORDER = np.random.default_rng(0).permutation(len(X))
BANK, TELECOM = halves(X).values()
MIXED = TELECOM.iloc[ORDER]
"""The same people in another order."""

OTHERS = TELECOM.rename(index={"person 3": "person 300", "person 5": "person 500"})
"""Not the same people."""


def expected() -> Any:
    """Return the probabilities of a model of tables in one order."""
    return FedXGBClassifier(**QUICK).fit(halves(X), Y).predict_proba(halves(X))


class TestIndexes:
    """Without an id column, pandas' index is what a table says of its rows."""

    @pytest.mark.parametrize(
        ("telecom", "says"),
        [
            (MIXED, r"telecom has the rows of bank in another order.*telecom\.loc\[bank\.index\].*id=.*reset_index"),
            (OTHERS, "telecom and bank have different indexes: 2 of 70 rows of telecom are not bank's.*id="),
            (TELECOM.reset_index(drop=True), "70 of 70 rows of telecom are not bank's"),
        ],
        ids=["order", "people", "no index"],
    )
    def test_tables(self, telecom: pd.DataFrame, says: str) -> None:
        """Refused with what is wrong and what helps, for training, evaluation and scoring alike."""
        tables = {"bank": BANK, "telecom": telecom}
        model = FedXGBClassifier(**QUICK)
        with refused(DataError, "mismatch", "telecom", "bank") as caught:
            model.fit(tables, Y)
        assert re.search(says, str(caught.value))
        with refused(DataError, "mismatch", "telecom", "bank"):
            model.fit(halves(X), Y, eval_set=[(tables, Y)])
        model.fit(halves(X), Y)
        with refused(DataError, "mismatch", "telecom", "bank"):
            model.predict(tables)

    @pytest.mark.parametrize("form", [halves(X), [BANK, TELECOM], X], ids=["dict", "list", "one table"])
    @pytest.mark.parametrize("wrong", [lambda s: s.iloc[ORDER], lambda s: s.reset_index(drop=True)])
    def test_labels_and_weights(self, form: Any, wrong: Any) -> None:
        """A Series of labels or weights has to have the index of the tables."""
        model = FedXGBClassifier(**QUICK)
        weight = pd.Series(np.arange(1.0, 71.0), index=NAMES)
        for name, arguments in (
            ("y", {"y": wrong(Y)}),
            ("y", {"y": wrong(Y).to_frame()}),
            ("sample_weight", {"y": Y, "sample_weight": wrong(weight)}),
            ("y of eval_set[0]", {"y": Y, "eval_set": [(form, wrong(Y))]}),
            (
                "sample_weight_eval_set[0]",
                {"y": Y, "eval_set": [(form, Y)], "sample_weight_eval_set": [wrong(weight)]},
            ),
        ):
            with refused(DataError, "mismatch", name):
                model.fit(form, **arguments)
        with refused(DataError, "mismatch", "y"):
            FedXGBRegressor(**QUICK).fit(form, wrong(weight.rename("y")))
        assert set(vars(model)) == set(model.get_params())

    def test_scores(self) -> None:
        """`score` holds labels and weights to the rows as well."""
        weight = pd.Series(np.arange(1.0, 71.0), index=NAMES)
        classifier = FedXGBClassifier(**QUICK).fit(halves(X), Y)
        regressor = FedXGBRegressor(**QUICK).fit(halves(X), weight)
        assert classifier.score(halves(X), Y, weight) == classifier.score(X, Y.to_numpy(), weight.to_numpy()) > 0.5
        assert regressor.score(halves(X), weight) == regressor.score(halves(X), weight.tolist())
        mixed = {"y": Y.iloc[ORDER], "weight": weight.iloc[ORDER]}
        with refused(DataError, "mismatch", "y", "bank"):
            classifier.score(halves(X), mixed["y"])
        with refused(DataError, "mismatch", "sample_weight", "X"):
            classifier.score(X, Y, mixed["weight"])
        with refused(DataError, "mismatch", "y", "bank"):
            regressor.score(halves(X), mixed["weight"])

    def test_what_says_nothing_goes_by_position(self) -> None:
        """Default indexes of one length, arrays and lists: row i is row i, as the caller promises."""
        plain = people()
        for tables, y in (
            (halves(plain), Y.reset_index(drop=True)),
            (halves(X), Y.to_numpy()),
            (halves(X), Y.tolist()),
            ({"bank": BANK, "telecom": TELECOM.to_numpy()}, Y),
            ({"bank": BANK.drop(columns="city").to_numpy(), "telecom": TELECOM}, Y),
        ):
            model = FedXGBClassifier(**QUICK).fit(tables, y)
            assert model.score(tables, y) > 0.5
            assert model.classes_.tolist() == sorted(set(Y))

    def test_a_shuffled_index_that_all_share(self) -> None:
        """Parts of a table by scikit-learn have odd indexes, but the same ones."""
        X_train, X_test, y_train, y_test = train_test_split(X, Y, random_state=0)
        model = FedXGBClassifier(**QUICK)
        model.fit(halves(X_train), y_train, eval_set=[(halves(X_test), y_test)])
        assert model.score(halves(X_test), y_test) > 0.5

    def test_repeated_index(self) -> None:
        """An index with repetitions agrees with itself."""
        index = pd.Index([0] * 70)
        tables = {name: table.set_axis(index) for name, table in halves(X).items()}
        FedXGBClassifier(**QUICK).fit(tables, Y.set_axis(index))
        with refused(DataError, "mismatch", "y", "bank"):
            FedXGBClassifier(**QUICK).fit(tables, Y)


class TestIdColumn:
    """`id` names the column that says which row is whose."""

    def tables(self, telecom: pd.DataFrame = MIXED) -> dict[str, pd.DataFrame]:
        """Return the participants' tables with ids in a column, telecom's in another order."""
        return {"bank": BANK.reset_index(), "telecom": telecom.reset_index()}

    def test_rows_are_put_together(self) -> None:
        """The model and its predictions are those of aligned tables, in the order of the active participant's."""
        model = FedXGBClassifier(**QUICK, id="person").fit(self.tables(), Y.to_numpy())
        np.testing.assert_array_equal(model.predict_proba(self.tables()), expected())
        swapped = dict(reversed(self.tables().items()))  # the active participant's is still bank's
        np.testing.assert_array_equal(model.predict_proba(swapped), expected())
        assert model.score(swapped, Y.iloc[ORDER]) == model.score(swapped, Y.to_numpy())
        assert [f.name for part in model.partial_models_ for f in part.features] == list(X.columns)
        assert model.n_features_in_ == 6

    def test_as_the_index(self) -> None:
        """Ids may be the index; labels and weights that have it are put in order, too."""
        tables = {"bank": BANK, "telecom": MIXED}
        weight = pd.Series(np.arange(1.0, 71.0), index=NAMES)
        plain = FedXGBClassifier(**QUICK).fit(halves(X), Y, weight, [(halves(X), Y)], [weight])
        model = FedXGBClassifier(**QUICK, id="person")
        model.fit(tables, Y.iloc[ORDER], weight.iloc[ORDER], [(tables, Y.iloc[ORDER])], [weight.iloc[ORDER]])
        assert model.evals_result_ == plain.evals_result_
        np.testing.assert_array_equal(model.predict_proba(tables), plain.predict_proba(halves(X)))

    def test_evaluation_rows(self) -> None:
        """Evaluation tables are put together in the same way."""
        plain = FedXGBClassifier(**QUICK).fit(halves(X), Y, eval_set=[(halves(X), Y)])
        model = FedXGBClassifier(**QUICK, id="person")
        model.fit(self.tables(), Y.to_numpy(), eval_set=[(self.tables(), Y.to_numpy())])
        assert model.evals_result_ == plain.evals_result_

    @pytest.mark.parametrize(
        ("telecom", "expected"),
        [
            (OTHERS, ("mismatch", "person", "telecom")),
            (TELECOM[5:], ("mismatch", "person", "telecom")),
            (pd.concat([TELECOM, TELECOM[:3]]), ("duplicate", "person", 3)),
            (TELECOM.rename(index={"person 3": None}), ("missing", "person", 1)),
            (TELECOM.rename_axis("name"), ("unknown", "person", None)),
        ],
        ids=["others", "fewer", "repeated", "missing", "no column"],
    )
    def test_refused(self, telecom: pd.DataFrame, expected: Expected) -> None:
        """Ids that are missing, repeated or not everybody's are counted, for training and scoring."""
        model = FedXGBClassifier(**QUICK, id="person")
        with refused(DataError, *expected):
            model.fit(self.tables(telecom), Y.to_numpy())
        model.fit(self.tables(), Y.to_numpy())
        with refused(DataError, *expected):
            model.predict(self.tables(telecom))

    def test_labels_of_others(self) -> None:
        """Labels by id have to be of the same people."""
        model = FedXGBClassifier(**QUICK, id="person")
        with refused(DataError, "mismatch", "person", "y"):
            model.fit(self.tables(), Y.rename(index={"person 9": "person 900"}))

    def test_inside_scikit_learn(self) -> None:
        """One table with ids: they are no feature, in clones and searches as well."""
        frame = X.reset_index()
        search = GridSearchCV(FedXGBClassifier(**QUICK, id="person"), {"max_depth": [1, 2]}, cv=2)
        search.fit(frame, Y.to_numpy())
        best = search.best_estimator_
        assert clone(best).get_params()["id"] == "person"
        assert [f.name for part in best.partial_models_ for f in part.features] == list(X.columns)
        assert list(best.feature_names_in_) == list(X.columns)
        assert search.predict(frame).shape == (70,)
        plain = FedXGBClassifier(**QUICK).fit(X, Y)
        again = FedXGBClassifier(**QUICK, id="person").fit(frame, Y.to_numpy())
        np.testing.assert_array_equal(again.predict_proba(frame), plain.predict_proba(X))
        with refused(DataError, "unknown", "person"):
            best.predict(X.drop(columns="city").to_numpy())
