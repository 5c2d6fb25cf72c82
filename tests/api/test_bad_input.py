"""Input that cannot be used is refused in clear words before any protocol step, and leaves nothing behind."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost

from mpfedxgb import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.errors import Code, DataError, SettingsError, UnknownParameterError, UserError
from mpfedxgb.schema.training import IGNORED, REFUSED
from support.refusals import Expected, refused
from support.toy_tables import BANK, QUICK, TELECOM, halves, labels, numbers, people

NAN, INF = float("nan"), float("inf")
X, Y = people(), labels(people(), "binary")
NUMBERS = labels(people(), "regression")
BANK_TABLE, TELECOM_TABLE = halves(X).values()


@dataclass(frozen=True)
class Case:
    """One mistake: parameters and arguments of `fit`, and what the message has to name."""

    says: tuple[str, ...]
    X: Any = field(default_factory=lambda: halves(X))
    y: Any = field(default_factory=lambda: Y)
    params: dict[str, Any] = field(default_factory=dict)
    fit: dict[str, Any] = field(default_factory=dict)
    kind: Callable[..., Any] = FedXGBClassifier


def with_value(column: str, value: Any) -> dict[str, pd.DataFrame]:
    """Return the tables with one value of one column replaced."""
    values = X[column].astype(object)
    values.iloc[7] = value
    return halves(X.assign(**{column: values}))


def with_label(value: Any) -> list[Any]:
    """Return labels with one of them replaced."""
    return [*NUMBERS[:-1], value]


TABLES = {
    "fewer rows at one participant": Case(
        ("telecom", "69 rows", "bank 70", "same order"), X={"bank": BANK_TABLE, "telecom": TELECOM_TABLE[1:]}
    ),
    "no rows": Case(("bank", "no rows", "at least one"), X=halves(X[:0]), y=[]),
    "no rows in one table": Case(("P1", "no rows", "at least one"), X=X[:0], y=[]),
    "no columns in one table": Case(("0 feature(s)", "minimum of 1"), X=X[[]]),
    "no tables": Case(("at least two participants", "not 0"), X={}),
    "one participant": Case(("at least two participants", "not 1", "add a table"), X={"bank": BANK_TABLE}),
    "one participant in a list": Case(("at least two participants", "not 1"), X=[BANK_TABLE]),
    "a nameless participant": Case(("name", "1 to 100", "''"), X={"": BANK_TABLE, "telecom": TELECOM_TABLE}),
    "too many participants": Case(("2 to 255 participants", "300"), X=X, params={"participants": 300}),
    "the same name twice": Case(
        ("bank", "age", "twice", "rename or drop"),
        X={"bank": pd.concat([BANK_TABLE, BANK_TABLE[["age"]]], axis=1), "telecom": TELECOM_TABLE},
    ),
    "1 and '1'": Case(
        ("bank", "twice", "1", "rename"),
        X={"bank": pd.DataFrame({1: X["age"], "1": X["income"]}), "telecom": TELECOM_TABLE},
    ),
    "the same name twice in one table": Case(
        ("age", "same name", "rename or drop"), X=pd.concat([X, X[["age"]]], axis=1)
    ),
    "names of two kinds": Case(("names of columns", "astype(str)"), X=X.rename(columns={"age": 3})),
    "words": Case(("bank", "'income'", "'much'", "astype('category')"), X=with_value("income", "much")),
    "words in an array": Case(("X", "'f3'", "'x'", "DataFrame"), X=[["1", "2", "3", "x"]] * 4, y=[0, 1, 0, 1]),
    "a list as a value": Case(("telecom", "'calls'", "[1, 2]", "convert"), X=with_value("calls", [1, 2])),
    "dates": Case(
        ("bank", "'since'", "dates", "days since"),
        X={"bank": pd.DataFrame({"since": pd.date_range("2020-01-01", periods=len(X))}), "telecom": TELECOM_TABLE},
    ),
    "complex numbers": Case(
        ("bank", "'z'", "complex", "real"), X={"bank": pd.DataFrame({"z": [1j] * len(X)}), "telecom": TELECOM_TABLE}
    ),
    "infinity": Case(("telecom", "'calls'", "infinity", "cap"), X=with_value("calls", INF)),
    "infinity in an array": Case(("P1", "'f1'", "infinity", "cap"), X=[[0, INF, 1, 1]] * 4, y=[0, 1, 0, 1]),
    "beyond float32": Case(("bank", "'income'", "-1e+39", "float32", "rescale"), X=with_value("income", -1e39)),
    "beyond float32 in an array": Case(("P1", "'f0'", "4e+38", "rescale"), X=[[4e38, 1, 1, 1]] * 4, y=[0, 1, 0, 1]),
    "one dimension": Case(("2D", "Reshape"), X=X["age"].to_numpy()),
    "three dimensions": Case(("2D", "Reshape"), X=np.zeros((4, 2, 2)), y=[0, 1, 0, 1]),
    "rows of different lengths": Case(("X", "equal length"), X=[[1.0, 2.0], [1.0]], y=[0, 1]),
}

LABELS = {
    "too few": Case(("y has 69 labels for 70 rows", "one label per row"), y=Y[1:]),
    "none": Case(("y is missing",), y=None),
    "two columns": Case(("y has shape (70, 2)", "one label per row"), y=np.stack([Y, Y], axis=1)),
    "one class": Case(("only one class", "'no'", "two or more"), y=["no"] * len(X)),
    "more classes than rows": Case(("70 classes in 70 rows", "regression"), y=[f"person {i}" for i in range(len(X))]),
    "fractions as classes": Case(("does not hold classes", "continuous"), y=NUMBERS),
    "classes of two kinds": Case(("does not hold classes",), y=np.array([1, "a"] * 35, object)),
    "a missing class": Case(("1 of 70 labels are missing", "drop"), y=[None, *Y[1:]]),
    "a class that is not a number": Case(
        ("y holds nan", "1 of 70 labels are missing", "drop"), y=[NAN, *(Y[1:] == "yes").astype(float)]
    ),
    "not a number": Case(
        ("y holds nan", "1 of 70 labels are missing", "drop"), y=with_label(NAN), kind=FedXGBRegressor
    ),
    "infinity": Case(("y holds -inf", "drop"), y=with_label(-INF), kind=FedXGBRegressor),
    "missing": Case(("1 of 70 labels are missing", "drop"), y=with_label(None), kind=FedXGBRegressor),
    "a word": Case(("not a number", "needs numbers"), y=Y, kind=FedXGBRegressor),
    "huge": Case(("y holds 6e+08", "rescale", "2^29"), y=with_label(6e8), kind=FedXGBRegressor),
    "negative counts": Case(
        ("y holds -3", "count:poisson", "0 or more"),
        y=[-3] * len(X),
        kind=FedXGBRegressor,
        params={"objective": "count:poisson"},
    ),
    "infinite classes": Case(("y holds inf", "drop"), y=[INF, *[0.0, 1.0] * 34, 1.0]),
    "no counts at all": Case(
        ("zero everywhere", "base_score"),
        y=[0] * len(X),
        kind=FedXGBRegressor,
        params={"objective": "count:poisson"},
    ),
}

WEIGHTS = {
    "negative": Case(("sample_weight holds -2", "0 or more"), fit={"sample_weight": [-2, *[1] * 69]}),
    "not a number": Case(("sample_weight holds nan", "finite"), fit={"sample_weight": [NAN, *[1] * 69]}),
    "infinite": Case(("sample_weight holds inf", "finite"), fit={"sample_weight": [INF, *[1] * 69]}),
    "lists": Case(("sample_weight", "lists"), fit={"sample_weight": [[1], [1, 2]] * 35}),
    "words": Case(("sample_weight", "not a number"), fit={"sample_weight": ["heavy"] * 70}),
    "too few": Case(("sample_weight has shape (69,)", "one weight per row"), fit={"sample_weight": [2] * 69}),
    "two columns": Case(("sample_weight has shape (70, 2)",), fit={"sample_weight": np.ones((70, 2))}),
    "all zero": Case(("sample_weight is zero", "at least one"), fit={"sample_weight": [0] * 70}),
    "one class weighs nothing": Case(
        ("only one class", "positive weight"), fit={"sample_weight": (Y == "yes").astype(float)}
    ),
}


def setting(name: str, value: Any, *says: str, **more: Any) -> Case:
    """Return the case of one impossible parameter."""
    return Case((f"{name}={value!r}", *says), params={name: value}, **more)


SETTINGS = {
    "negative lambda": setting("reg_lambda", -1.0, "at least 0"),
    "lambda that is no number": setting("reg_lambda", NAN, "at least 0"),
    "lambda as text": setting("reg_lambda", "1", "at least 0"),
    "depth 0": setting("max_depth", 0, "integer from 1 to 16"),
    "depth 17": setting("max_depth", 17, "integer from 1 to 16"),
    "depth True": setting("max_depth", True, "integer from 1 to 16"),
    "depth 2.5": setting("max_depth", 2.5, "integer from 1 to 16"),
    "one bin": setting("max_bin", 1, "integer from 2"),
    "no trees": setting("n_estimators", 0, "integer from 1"),
    "learning rate 0": setting("learning_rate", 0, "above 0"),
    "infinite learning rate": setting("learning_rate", INF, "above 0"),
    "negative gamma": setting("gamma", -0.1, "at least 0"),
    "negative min_child_weight": setting("min_child_weight", -1, "at least 0"),
    "no rows in a sample": setting("subsample", 0.0, "above 0 and at most 1"),
    "more than all columns": setting("colsample_bytree", 1.5, "above 0 and at most 1"),
    "a text for missing values": setting("missing", "n.a.", "is not a number", "[data] missing"),
    "unknown security": setting("security", "some", "strict, sealed, paper, none"),
    "unknown objective": setting("objective", "binary:hing", "is not known", "binary:logistic"),
    "an objective that is not built": setting(
        "objective", "reg:expectileerror", "XGBoost's", "not supported", "a callable"
    ),
    "a regression that is not built": setting(
        "objective", "reg:expectileerror", "XGBoost's", "supported", "count:poisson", y=NUMBERS, kind=FedXGBRegressor
    ),
    "classes in a regression": setting(
        "objective", "binary:logitraw", "is not for regression", y=NUMBERS, kind=FedXGBRegressor
    ),
    "an objective that is no name": setting("objective", ["binary:logistic"], "binary:logistic"),
    "the name of what is no name": setting("objective", "custom", "a callable", y=NUMBERS, kind=FedXGBRegressor),
    "an old name of squared error": setting(
        "objective", "reg:linear", "it is called reg:squarederror here", y=NUMBERS, kind=FedXGBRegressor
    ),
    "softmax for two classes": setting("objective", "multi:softmax", "does not go with 2 classes", "binary:logistic"),
    "hinge for three classes": setting("objective", "binary:hinge", "multi:softprob", y=labels(X, "classes")),
    "a slope without its objective": setting("huber_slope", 2.0, "does not go with", "it is for reg:pseudohubererror"),
    "a quantile above 1": setting("quantile_alpha", 1.5, "at least 0 and at most 1"),
    "a power of 2": setting("tweedie_variance_power", 2.0, "at least 1 and at most 1.999"),
    "regression of classes": setting("objective", "reg:squarederror", "binary:logistic"),
    "binary for three classes": setting("objective", "binary:logistic", "multi:softprob", y=labels(X, "classes")),
    "several classes for two": setting("objective", "multi:softprob", "binary:logistic"),
    "classes of numbers": setting(
        "objective", "binary:logistic", "reg:squarederror", "count:poisson", y=NUMBERS, kind=FedXGBRegressor
    ),
    "a custom objective of three classes": Case(
        ("custom objective", "multi:softprob"), y=labels(X, "classes"), params={"objective": lambda y, m: (m, m)}
    ),
    "base_score of certainty": setting("base_score", 1.0, "probability"),
    "base_score as text": setting("base_score", "0.5", "None"),
    "base_score that is no number": setting("base_score", NAN, "None", y=NUMBERS, kind=FedXGBRegressor),
    "base_score too large": setting("base_score", 1e12, "rescale", y=NUMBERS, kind=FedXGBRegressor),
    "unknown metric": Case(("eval_metric='gini'", "logloss"), params={"eval_metric": "gini"}),
    "a metric of other labels": Case(("eval_metric='mlogloss'", "binary:logistic"), params={"eval_metric": "mlogloss"}),
    "a metric of classes": Case(
        ("eval_metric='auc'", "reg:squarederror"), params={"eval_metric": "auc"}, y=NUMBERS, kind=FedXGBRegressor
    ),
    "two metrics of one name": Case(("two metrics called auc",), params={"eval_metric": ["auc", "auc"]}),
    "a metric that is no name": setting("eval_metric", 3, "or a list of them"),
    "early stopping blindfold": setting("early_stopping_rounds", 3, "eval_set"),
    "early stopping at once": setting("early_stopping_rounds", 0, "1 or more", fit={"eval_set": [(halves(X), Y)]}),
    "early stopping True": setting("early_stopping_rounds", True, "1 or more", fit={"eval_set": [(halves(X), Y)]}),
    "early stopping as text": setting("early_stopping_rounds", "3", "1 or more", fit={"eval_set": [(halves(X), Y)]}),
    "one callback": Case(("callbacks=", "list of functions"), params={"callbacks": print}),
    "callbacks that are none": Case(
        ("callbacks: 3", "functions of a RoundReport, or objects with before_training"), params={"callbacks": [3]}
    ),
    "random_state True": setting("random_state", True, "integer, or None"),
    "a seed below 0": Case(("insecure_seed", "-1", "0 or more"), params={"insecure_seed": -1}),
    "a seed in words": Case(("insecure_seed", "'a'", "integer"), params={"insecure_seed": "a"}),
    "any time": Case(("deadline", "None", "a number"), params={"deadline": None}),
    "no thread": Case(("n_jobs", "0", "-1 for all cores"), params={"n_jobs": 0}),
    "half a thread": Case(("n_jobs", "0.5"), params={"n_jobs": 0.5}),
    "memory without a unit": Case(("max_memory", "6", "'6 GB'"), params={"max_memory": "6"}),
    "no memory": Case(("max_memory", "0"), params={"max_memory": 0}),
    "a number as a folder": Case(("spool", "3", "path"), params={"spool": 3}),
    "no time": Case(("deadline", "0", "above 0"), params={"deadline": 0}),
    "one participant": Case(("participants", "at least two", "not 1"), X=X, params={"participants": 1}),
    "one fraction": Case(("participants", "at least two", "not 1"), X=X, params={"participants": [1.0]}),
    "one named participant": Case(("participants", "at least two", "not 1"), X=X, params={"participants": {"a": BANK}}),
    "fractions of too little": Case(("[0.2, 0.3]", "add up to 1"), X=X, params={"participants": [0.2, 0.3]}),
    "negative fractions": Case(("participants=", "positive"), X=X, params={"participants": [1.5, -0.5]}),
    "fractions that are no numbers": Case(("participants=", "add up to 1"), X=X, params={"participants": [NAN, NAN]}),
    "participants True": Case(("participants=True", "number such as 4"), X=X, params={"participants": True}),
    "participants as text": Case(("participants='4'", "number such as 4"), X=X, params={"participants": "4"}),
    "unknown column": Case(("'height'", "age, income"), X=X, params={"participants": [["height"], TELECOM]}),
    "unknown place": Case(("column 17",), X=X, params={"participants": [[17], [0]]}),
    "columns as text": Case(("list of columns", "'age'"), X=X, params={"participants": ["age", "calls"]}),
    "a column twice": Case(("P1", "age", "twice"), X=X, params={"participants": [[*BANK, "age"], TELECOM]}),
    "columns left out": Case(
        ("leaves out", "income, visits", "drop them"),
        X=X,
        params={"participants": {"bank": ["age", "city"], "telecom": ["calls", "idle"]}},
    ),
    "columns left out of a list": Case(("leaves out", "idle"), X=X, params={"participants": [BANK, TELECOM[:-1]]}),
}

EVALUATION = {
    "one pair": Case(("eval_set", "[(X, y)]"), fit={"eval_set": (halves(X), Y)}),
    "not pairs": Case(("eval_set", "pairs"), fit={"eval_set": [halves(X)]}),
    "fewer labels": Case(("y of eval_set[0]", "69 labels for 70"), fit={"eval_set": [(halves(X), Y[1:])]}),
    "no labels": Case(("y of eval_set[0] is missing",), fit={"eval_set": [(halves(X), None)]}),
    "an unknown class": Case(
        ("y of eval_set[1]", "maybe", "drop"),
        fit={"eval_set": [(halves(X), Y), (halves(X), ["maybe", *Y[1:]])]},
    ),
    "labels that are no numbers": Case(
        ("y of eval_set[0] holds nan",),
        y=NUMBERS,
        kind=FedXGBRegressor,
        fit={"eval_set": [(halves(X), with_label(NAN))]},
    ),
    "negative counts": Case(
        ("y of eval_set[0] holds -3", "0 or more"),
        y=[1] * len(X),
        kind=FedXGBRegressor,
        params={"objective": "count:poisson"},
        fit={"eval_set": [(halves(X), [-3] * len(X))]},
    ),
    "another participant": Case(
        ("eval_set[0]", "P1, P2", "bank, telecom"), fit={"eval_set": [([BANK_TABLE, TELECOM_TABLE], Y)]}
    ),
    "one more participant": Case(
        ("eval_set[0]", "bank, telecom, shop"), fit={"eval_set": [({**halves(X), "shop": BANK_TABLE}, Y)]}
    ),
    "a missing column": Case(
        ("eval_set[0], bank", "lacks age"),
        fit={"eval_set": [({"bank": X[["income", "city"]], "telecom": TELECOM_TABLE}, Y)]},
    ),
    "an unknown column": Case(
        ("telecom", "unknown age"), fit={"eval_set": [({"bank": BANK_TABLE, "telecom": X[["age", *TELECOM]]}, Y)]}
    ),
    "numbers instead of categories": Case(
        ("eval_set[0], bank", "'city'", "numbers here and categories in the training table"),
        fit={"eval_set": [(halves(X.assign(city=1.0)), Y)]},
    ),
    "an unusable value": Case(("telecom", "'calls'", "infinity"), fit={"eval_set": [(with_value("calls", INF), Y)]}),
    "fewer weights than sets": Case(
        ("sample_weight_eval_set has 1", "2 evaluation sets"),
        fit={"eval_set": [(halves(X), Y)] * 2, "sample_weight_eval_set": [None]},
    ),
    "negative weights": Case(
        ("sample_weight_eval_set[0] holds -1", "0 or more"),
        fit={"eval_set": [(halves(X), Y)], "sample_weight_eval_set": [[-1] * 70]},
    ),
}

CASES = {
    f"{group}: {name}": case
    for group, cases in {
        "X": TABLES,
        "y": LABELS,
        "weights": WEIGHTS,
        "settings": SETTINGS,
        "eval_set": EVALUATION,
    }.items()
    for name, case in cases.items()
}


@pytest.fixture
def no_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test as soon as roles would start to talk."""

    def run_roles(*arguments: Any, **more: Any) -> None:
        pytest.fail("a protocol step was about to run")

    monkeypatch.setattr("mpfedxgb.party.local.run_roles", run_roles)


@pytest.mark.usefixtures("no_protocol")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_bad_input_is_refused_before_anything_runs(case: Case) -> None:
    """A ValueError of ours that names what is wrong and what to do; the estimator is as new."""
    model = case.kind(**QUICK | case.params)
    with pytest.raises(UserError) as caught:
        model.fit(case.X, case.y, **case.fit)
    assert isinstance(caught.value, ValueError)
    for words in case.says:
        assert words in str(caught.value)
    assert not re.search("the model|trained (on|with|by)", str(caught.value)), "there is none yet"
    assert set(vars(model)) == set(model.get_params())


@pytest.mark.parametrize("case", [TABLES["infinity"], LABELS["one class"], SETTINGS["depth 0"]])
def test_a_failed_fit_leaves_the_last_model(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was fitted before can still be used, classes and number of features included."""
    model = FedXGBClassifier(**QUICK).fit(numbers(), np.arange(60) % 3)
    before, expected = dict(vars(model)), model.predict(numbers())
    model.set_params(**case.params)
    with pytest.raises(UserError):
        model.fit(case.X, case.y)
    model.set_params(**QUICK)
    assert vars(model) == before
    np.testing.assert_array_equal(model.predict(numbers()), expected)


@pytest.mark.parametrize(
    ("names", "is_warned"),
    [
        ([f"person {i}" for i in range(70)], True),
        ([f"person {i // 2 * 2 if i % 7 else i}" for i in range(70)], True),
        ([f"person {i % 35}" for i in range(70)], False),
        ([f"person {i}" if i < 20 else None for i in range(70)], False),
    ],
    ids=["one each", "nearly", "two each", "few"],
)
def test_words_that_tell_rows_apart_are_warned_of(
    names: list[str | None], is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """As doctor says of a file: once a fit, with owner and column, and no word of it."""
    frame = X.assign(name=pd.Series(names, index=X.index, dtype=object))
    FedXGBClassifier(**QUICK | {"security": "none"}, participants=[[*BANK, "name"], TELECOM]).fit(frame, Y)

    told = [record.getMessage() for record in caplog.records if "words for" in record.getMessage()]
    assert len(told) == is_warned
    assert all(text.startswith("P1: column 'name' has ") and "drop it" in text for text in told)
    assert "person" not in caplog.text


def test_what_cannot_be_a_number_is_a_type_error() -> None:
    """scikit-learn wants this of an array of objects; whatever it is, nothing is left behind."""
    model = FedXGBClassifier(**QUICK)
    values = numbers().astype(object)
    values[3, 1] = {"an": "object"}
    with pytest.raises(TypeError, match="string or a real number"):
        model.fit(values, np.arange(60) % 2)
    assert set(vars(model)) == set(model.get_params())


@pytest.fixture(scope="module")
def federated() -> FedXGBClassifier:
    """Train on the participants' tables."""
    return FedXGBClassifier(**QUICK).fit(halves(X), Y)


@pytest.fixture(scope="module")
def single() -> FedXGBClassifier:
    """Train on one table that is cut."""
    return FedXGBClassifier(**QUICK).fit(X, Y)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"bank": X[["income", "city"]], "telecom": TELECOM_TABLE}, ("bank", "lacks age", "of the training table")),
        ({"bank": X[[*BANK, "calls"]], "telecom": TELECOM_TABLE}, ("bank", "unknown calls", "of the training table")),
        ({"bank": BANK_TABLE, "telecom": TELECOM_TABLE[:5]}, ("telecom", "5 rows", "bank 70")),
        ({"bank": BANK_TABLE, "shop": TELECOM_TABLE}, ("bank, shop", "bank, telecom", "one table for each")),
        ([BANK_TABLE, TELECOM_TABLE], ("P1, P2", "bank, telecom")),
        ({"bank": BANK_TABLE}, ("tables of bank", "bank, telecom", "one table for each")),
        ({"bank": pd.concat([BANK_TABLE] * 2, axis=1), "telecom": TELECOM_TABLE}, ("bank", "twice", "rename")),
        (halves(X[:0]), ("bank", "no rows")),
        (with_value("calls", INF), ("telecom", "'calls'", "infinity")),
        (with_value("income", 1e39), ("bank", "'income'", "1e+39", "rescale")),
        (with_value("income", "much"), ("bank", "'income'", "'much'")),
        (halves(X.assign(city=2.0)), ("bank", "'city'", "categories", "numbers")),
        (halves(X.assign(age=pd.Categorical(["old"] * 70))), ("bank", "'age'", "numbers", "categories")),
        (X.drop(columns="age"), ("bank", "lacks age")),
        (X.assign(height=1), ("unknown", "height")),
        (pd.concat([X, X[["age"]]], axis=1), ("age", "same name")),
    ],
)
@pytest.mark.usefixtures("no_protocol")
def test_bad_tables_to_score(federated: FedXGBClassifier, table: Any, says: tuple[str, ...]) -> None:
    """The same at predict time, by every method."""
    for method in (federated.predict, federated.predict_proba, federated.decision_function):
        with pytest.raises(UserError) as caught:
            method(table)
        for words in says:
            assert words in str(caught.value)


@pytest.mark.parametrize(
    "table",
    [X.drop(columns="age"), X.assign(height=1), X.rename(columns={"age": "AGE"}), X[:0]],
    ids=["missing", "unknown", "renamed", "empty"],
)
@pytest.mark.usefixtures("no_protocol")
def test_bad_single_tables_to_score(single: FedXGBClassifier, table: Any) -> None:
    """A model of one table refuses other tables, in scikit-learn's words or in ours."""
    with pytest.raises(ValueError, match=r"feature names should match|no rows"):
        single.predict(table)


@pytest.mark.usefixtures("no_protocol")
def test_a_loaded_model_refuses_the_same(federated: FedXGBClassifier, tmp_path: Path) -> None:
    """Loaded, a model knows its columns as well."""
    federated.save_model(tmp_path)
    loaded = FedXGBClassifier().load_model(tmp_path)
    tables = (X.drop(columns="age"), X.assign(height=1), with_value("calls", INF))
    wrong: tuple[tuple[Code, str], ...] = (("missing", "bank"), ("unknown", "X"), ("range", "calls"))
    for table, (code, name) in zip(tables, wrong, strict=True):
        with refused(UserError, code, name):
            loaded.predict(table)


@pytest.mark.usefixtures("no_protocol")
def test_nothing_works_unfitted() -> None:
    """An estimator that is not fitted says so, whatever it is asked."""
    model = FedXGBClassifier()
    for ask in (model.predict, model.predict_proba, model.save_model, model.feature_importance):
        with pytest.raises(ValueError, match="not fitted"):
            ask("weight")
    with pytest.raises(ValueError, match="not fitted"):
        model.to_xgboost()
    assert not hasattr(model, "feature_importances_")


@pytest.mark.parametrize("name", REFUSED)
def test_what_xgboost_has_and_we_refuse(name: str) -> None:
    """Parameters that cannot be expressed are refused by name, with the reason."""
    with refused(SettingsError, "refused", name) as caught:
        TrainParams.from_dict({name: "something else"})
    assert REFUSED[name].reason in str(caught.value)
    given: dict[str, Any] = {name: "something else"}
    with refused(SettingsError, "refused", name):
        FedXGBClassifier(**given)


def test_verbosity_may_be_none_as_in_xgboost() -> None:
    """None is XGBoost's default, so scripts pass it on."""
    x = np.arange(40.0).reshape(20, 2)
    model = FedXGBClassifier(n_estimators=1, max_depth=1, max_bin=4, verbosity=None).fit(x, np.arange(20) % 2)
    assert model.run_.trees == 1


@pytest.mark.parametrize(("name", "values"), [(one.name, (*one.harmless, None)) for one in REFUSED.values()])
def test_what_xgboost_has_and_changes_nothing(name: str, values: tuple[Any, ...]) -> None:
    """Values that say what is done anyway are taken, by a constructor and by set_params, and not kept."""
    for value in values:
        given: dict[str, Any] = {name: value}
        model = FedXGBRegressor(max_depth=2, **given)
        assert model.set_params(max_bin=8, **given) is model
        assert (model.max_depth, model.max_bin) == (2, 8)
        assert model.get_params() == FedXGBRegressor(max_depth=2, max_bin=8).get_params()
        assert TrainParams.from_dict({"max_depth": 2, **given}) == TrainParams(max_depth=2)
    assert name in REFUSED


@pytest.mark.parametrize("name", IGNORED)
def test_what_changes_nothing_whatever_it_is(name: str) -> None:
    """Taken with any value, and not kept."""
    for value in (None, True, False, 3, "a word"):
        given: dict[str, Any] = {name: value}
        assert FedXGBClassifier(**given).get_params() == FedXGBClassifier().get_params()


@pytest.mark.parametrize("kind", [FedXGBClassifier, FedXGBRegressor])
def test_none_is_not_set_as_in_xgboost(kind: Any) -> None:
    """All that XGBoost's own estimators have is taken; None stays what it is, and is the default of a parameter."""
    own = (xgboost.XGBClassifier() if kind is FedXGBClassifier else xgboost.XGBRegressor()).get_params()
    small = {"n_estimators": 2, "security": "none"}
    y = Y if kind is FedXGBClassifier else NUMBERS
    model, bare = kind(**own | small).set_params(max_depth=None).fit(X, y), kind(**small).fit(X, y)
    assert model.max_depth is None
    assert model.partial_models_[0].params == bare.partial_models_[0].params
    assert (model.predict(X) == bare.predict(X)).all()
    np.testing.assert_allclose(model.feature_importances_, bare.feature_importances_, rtol=1e-12)


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [(["c"], "feature_types"), ("float", "feature_types"), (["float"] * X.shape[1], "city")],
)
@pytest.mark.usefixtures("no_protocol")
def test_kinds_of_columns_that_the_table_has_not(kinds: Any, expected: str) -> None:
    """What feature_types says is held to the table."""
    with refused(DataError, "mismatch", expected):
        FedXGBClassifier(**QUICK, feature_types=kinds).fit(X, Y)


def test_all_that_is_refused_is_in_one_error() -> None:
    """Each with its remedy, so that nobody has to try once for each; values that change nothing are not among them."""
    given: dict[str, Any] = {
        "tree_method": "hist",
        "feature_weights": [1],
        "eta": 0.1,
        "sample_weight": [1],
        "missing": NAN,
    }
    for make in (FedXGBClassifier, FedXGBClassifier().set_params):
        with refused(SettingsError, "refused", "feature_weights") as caught:
            make(**given)
        faults = [(fault.code, fault.parameter) for fault in caught.value.faults]
        assert faults == [("refused", "feature_weights"), ("unknown", "eta"), ("place", "sample_weight")]
    with refused(SettingsError, "place", "max_depth") as caught:
        FedXGBClassifier().fit(X, Y, max_depth=2, max_leaves=8)  # type: ignore[call-arg]
    assert [fault.parameter for fault in caught.value.faults] == ["max_depth", "max_leaves"]
    with refused(SettingsError, "refused", "max_leaves") as caught:
        TrainParams.from_dict({"max_leaves": 8, "max_deph": 3})
    assert [fault.parameter for fault in caught.value.faults] == ["max_leaves", "max_deph"]


@pytest.mark.usefixtures("no_protocol")
def test_all_wrong_values_are_in_one_error() -> None:
    """Whatever looks at them: kinds, the link, memory, the objective; each with its code, its name and its value."""
    wrong: dict[str, Any] = {
        "max_depth": 0,
        "subsample": "half",
        "security": "secret",
        "random_state": 0.5,
        "deadline": -1,
        "link": "moon",
        "max_memory": "much",
        "callbacks": print,
        "objective": "binary:hing",
    }
    for kind, y in ((FedXGBClassifier, Y), (FedXGBRegressor, NUMBERS)):
        with pytest.raises(SettingsError) as caught:
            kind(**wrong).fit(halves(X), y)
        faults = {fault.parameter: (fault.code, fault.value) for fault in caught.value.faults}
        assert {name: value for name, (_, value) in faults.items()} == wrong
        codes = {"max_depth": "range", "subsample": "type", "security": "choice", "objective": "choice"}
        assert codes.items() <= {name: code for name, (code, _) in faults.items()}.items()
        assert all(f"{name}=" in str(caught.value) for name in wrong)
        assert caught.value.parameter == next(iter(faults))


def test_all_that_does_not_go_with_a_mode_is_in_one_error() -> None:
    """With the remedy of each."""
    with pytest.raises(SettingsError) as caught:
        TrainParams(security="paper", objective="count:poisson", reg_lambda=0.0, colsample_bytree=0.5, weighted=True)
    named = [fault.parameter for fault in caught.value.faults]
    assert named == ["objective", "reg_lambda", "min_child_weight", "colsample_bytree", "weighted"]
    assert {fault.code for fault in caught.value.faults} == {"mode"}


def test_unknown_parameters_are_refused() -> None:
    """A misspelt name comes with the right one."""
    with refused(SettingsError, "unknown", "max_deph"):
        TrainParams.from_dict({"max_deph": 3})
    with refused(SettingsError, "unknown", "zzz"):
        TrainParams.from_dict({"zzz": 3})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("max_deph", r"no parameter max_deph; did you mean max_depth\?"),
        ("eta", "no parameter eta; it is called learning_rate here"),
        ("lambda", "it is called reg_lambda here"),
        ("min_split_loss", "it is called gamma here"),
        ("num_boost_round", "it is called n_estimators here"),
        ("seed", "it is called random_state here"),
        ("verbose", "verbose is no parameter of the estimator; it is an argument of fit"),
        ("class_weight", r"no parameter class_weight: .*sample_weight=.*compute_sample_weight"),
        ("num_class", "there is no parameter num_class: classes are counted in the labels; leave it out"),
        ("nthread", "it is called n_jobs here"),
        ("device", "device is not supported: everything runs on the CPU"),
        ("tree_method", "tree_method is not supported: there is one method"),
        ("sample_weight", "sample_weight is no parameter of the estimator; it is an argument of fit"),
        ("zzz", "no parameter zzz; the parameters are .*learning_rate"),
    ],
)
def test_unknown_parameters_of_an_estimator(name: str, says: str) -> None:
    """The right name, the right place or the reason; a TypeError, as Python says it, and a ValueError, as we do."""
    given: dict[str, Any] = {name: 1}
    for error in (TypeError, UserError):
        with pytest.raises(error, match=says):
            FedXGBClassifier(**given)
    with pytest.raises(UnknownParameterError) as caught:
        FedXGBRegressor().set_params(**given)
    assert caught.value.parameter == name
    assert isinstance(caught.value, ValueError)  # as scikit-learn's own


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("silent", "place"),
        ("early_stopping_rounds", "place"),
        ("eval_sets", "unknown"),
        ("feature_weights", "refused"),
    ],
)
def test_unknown_arguments_of_fit(name: str, code: Code) -> None:
    """What XGBoost's fit takes, or took, and ours does not."""
    given: dict[str, Any] = {name: 1}
    with refused(UnknownParameterError, code, name) as caught:
        FedXGBClassifier().fit(X, Y, **given)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("returns", "expected"),
    [
        (lambda y, m: 3, ("type", "objective", None)),
        (lambda y, m: (m[:3], m[:3]), ("type", "objective", None)),
        (lambda y, m: (m - y, -np.ones_like(m)), ("range", "objective", "hessians")),
        (lambda y, m: (m * np.nan, m), ("range", "objective", "gradients")),
        (lambda preds, dtrain: preds - dtrain.get_label(), ("type", "objective", None)),
    ],
)
def test_a_custom_objective_that_cannot_be_used(returns: Callable[..., Any], expected: Expected) -> None:
    """What a custom objective returns is seen only while training; the message is as clear, the estimator as new."""
    model = FedXGBRegressor(**QUICK, objective=returns)
    with refused(UserError, *expected):
        model.fit(numbers(), numbers()[:, 0])
    assert set(vars(model)) == set(model.get_params())
