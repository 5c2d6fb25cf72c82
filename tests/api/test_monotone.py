"""monotone_constraints: in the forms of XGBoost, in settings files, and kept by every prediction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mpfedxgb
from mpfedxgb import FederatedTable, FedXGBClassifier, FedXGBRegressor, join
from mpfedxgb.data.directions import check_directions, read_direction, read_directions
from mpfedxgb.data.table import Table
from mpfedxgb.errors import DataError, SettingsError
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.testing.parity import compare_with_xgboost
from support.property_tests import examples
from support.refusals import refused
from support.role_files import full
from support.small_problems import small_problem
from support.xgboost_versions import IS_3_4

MODES = ["none", "strict", "sealed"]
NAMES = ["age", "income", "debt", "kind"]


def people(rows: int = 200, seed: int = 3) -> tuple[pd.DataFrame, Any]:
    """Return a table with gaps and categories, and labels that go against its directions here and there."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({name: np.round(rng.normal(size=rows), 1) for name in NAMES[:3]})
    X.loc[rng.random(rows) < 0.1, "income"] = np.nan
    X["kind"] = pd.Categorical(rng.choice(["a", "b", "c"], rows))
    signal = X["debt"] - X["income"].fillna(0.4) + np.sin(4 * X["age"]) + (X["kind"] == "b") + rng.normal(size=rows)
    return X, (signal > signal.median()).astype(int)


def fit(constraints: Any, X: Any = None, **params: Any) -> FedXGBClassifier:
    """Train with directions."""
    table, y = people()
    usual: dict[str, Any] = {"n_estimators": 4, "max_depth": 4, "max_bin": 12, "security": "none"}
    return FedXGBClassifier(monotone_constraints=constraints, **usual | params).fit(table if X is None else X, y)


def trees(model: Any) -> Any:
    """Return what models are compared by."""
    return join(model.partial_models_).trees


def violation(model: Any, X: pd.DataFrame, column: str, direction: int) -> float:
    """Return by how much a prediction goes the wrong way at most while one column grows through its values."""
    values = np.sort(X[column].dropna().unique())
    grown = pd.concat([X.assign(**{column: value}) for value in values])
    margins = model.predict(grown, output_margin=True).reshape(len(values), len(X), -1)
    return float((-direction * np.diff(margins, axis=0)).max())


# Forms


@pytest.mark.parametrize(
    "given",
    [
        (0, -1, 1, 0),
        [0, -1, 1],
        "(0,-1,1,0)",
        "(0, -1, +1)",
        np.array([0, -1, 1, 0]),
        {"income": -1, "debt": 1},
        {"income": np.int64(-1), "debt": 1, "kind": 0},
    ],
)
def test_forms_of_xgboost(given: Any) -> None:
    """Tuple, list, array, text or dict; what stands behind the last one has no direction."""
    model = fit(given)
    assert model.monotone_constraints_ == {"P1": {"income": -1}, "P2": {"debt": 1}}
    assert trees(model) == trees(fit({"income": -1, "debt": 1}))
    assert model.partial_models_[0].params.constrained


@pytest.mark.parametrize(
    "given",
    [
        {"income": -1, "debt": 1},
        {"bank": (0, -1), "shop": "(1)"},
        {"bank": {"income": -1}, "shop": [1, 0]},
        [(0, -1), {"debt": 1}],
    ],
)
def test_forms_for_one_table_each(given: Any) -> None:
    """A dict by column, or any form for each participant, by name or in their order."""
    X, _ = people()
    tables = {"bank": X[NAMES[:2]], "shop": X[NAMES[2:]]}
    model = fit(given, tables)
    assert model.monotone_constraints_ == {"bank": {"income": -1}, "shop": {"debt": 1}}
    assert trees(model) == trees(fit({"income": -1, "debt": 1}))


def test_only_some_participants_have_directions() -> None:
    """Whoever is not named has none."""
    X, _ = people()
    model = fit({"shop": {"debt": 1}}, {"bank": X[NAMES[:2]], "shop": X[NAMES[2:]]})
    assert model.monotone_constraints_ == {"bank": {}, "shop": {"debt": 1}}


@pytest.mark.parametrize("given", [None, (), "()", "", {}, (0, 0, 0, 0), {"age": 0}])
def test_no_direction_is_no_constraint(given: Any) -> None:
    """A training that nobody constrains is not constrained, and costs what it did."""
    model = fit(given)
    assert not model.partial_models_[0].params.constrained
    assert trees(model) == trees(fit(None))


def test_functions_take_them() -> None:
    """mpfedxgb.train, in XGBoost's words."""
    X, y = people()
    table = FederatedTable({"bank": X[NAMES[:2]], "shop": X[NAMES[2:]]}, label=y)
    params = {"objective": "binary:logistic", "max_depth": 3, "max_bin": 12, "security": "none"}
    model = mpfedxgb.train(params | {"monotone_constraints": {"debt": 1}}, table, 3, verbose_eval=False)
    assert model.monotone_constraints_["shop"] == {"debt": 1}
    assert violation(model, X.head(20), "debt", 1) <= 0


@pytest.mark.parametrize(
    ("given", "error", "code"),
    [
        ({"incom": 1}, DataError, "unknown"),
        ({"kind": 1}, DataError, "type"),
        ((0, 0, 0, 1), DataError, "type"),
        ((0, 0, 0, 0, 1), DataError, "mismatch"),
        ((2, 0), SettingsError, "choice"),
        ((0.5,), SettingsError, "choice"),
        ((True,), SettingsError, "choice"),
        ({"age": "up"}, SettingsError, "choice"),
        ("up", SettingsError, "choice"),
        (1, SettingsError, "type"),
    ],
)
def test_what_is_no_direction_is_refused(given: Any, error: type[Exception], code: str) -> None:
    """Unknown and categorical columns, other values, other forms."""
    with pytest.raises(error) as caught:
        fit(given)
    assert caught.value.code == code  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ((0, -1, 1, 0), "mismatch"),
        ("(1)", "mismatch"),
        ({"bakery": {"age": 1}}, "unknown"),
        ({"age": 1}, "duplicate"),
        ({"bank": {"debt": 1}}, "unknown"),
    ],
)
def test_what_does_not_go_with_several_tables(given: Any, code: str) -> None:
    """One row of directions for all tables, other names, and a name that two participants have."""
    X, _ = people()
    with pytest.raises((DataError, SettingsError)) as caught:
        fit(given, {"bank": X[NAMES[:2]], "shop": X[["debt", "age"]]})
    assert caught.value.code == code


def test_the_papers_algorithms_refuse_them() -> None:
    """By the name of the parameter."""
    with refused(SettingsError, "mode", "constrained"):
        fit({"debt": 1}, security="paper", min_child_weight=0)


def test_directions_of_a_table() -> None:
    """Read from one value, and checked against columns."""
    table = Table.read(people()[0], "bank")
    assert [read_direction(value, "x") for value in (1, "-1", np.int8(0))] == [1, -1, 0]
    assert read_directions(None, table.names, "x") == {}
    check_directions(table, {"age": 1}, "x")
    with refused(DataError, "type", "x"):
        check_directions(table, {"kind": 1}, "x")


# Predictions


@pytest.mark.parametrize("security", MODES)
@pytest.mark.parametrize("params", [{}, {"reg_alpha": 1.0, "max_delta_step": 0.7}], ids=["alone", "held back"])
def test_predictions_are_monotone(security: str, params: dict[str, Any]) -> None:
    """Every constrained column through all of its values, others fixed, over rows as they are; without, some fall."""
    X, _ = people()
    directions = {"age": 1, "income": -1, "debt": 1}
    fewer = {"n_estimators": 2, "max_depth": 3} if security == "sealed" else {}
    model, free = fit(directions, security=security, **params, **fewer), fit(None, **params)
    for column, direction in directions.items():
        assert violation(model, X.head(40), column, direction) <= 0, column
    assert violation(free, X.head(40), "age", 1) > 0
    assert any(len(tree) > 3 for tree in trees(model))


@pytest.mark.parametrize("objective", ["reg:squarederror", "count:poisson", "multi:softprob"])
def test_predictions_of_other_losses_are_monotone(objective: str) -> None:
    """Regression, counts, and every class of several, margin by margin."""
    kind = {"reg:squarederror": "regression", "count:poisson": "counts", "multi:softprob": "classes"}[objective]
    problem = small_problem(5, kind, rows=150, participants=2, weighted=True)
    estimator: Any = FedXGBClassifier if kind == "classes" else FedXGBRegressor
    numbers = problem.whole.select_dtypes("number")
    directions = {str(column): (-1) ** i for i, column in enumerate(numbers) if numbers[column].nunique() > 1}
    model = estimator(objective=objective, n_estimators=3, max_bin=8, monotone_constraints=directions, security="none")
    model.fit(numbers, problem.y, sample_weight=problem.weight)
    for column, direction in directions.items():
        assert violation(model, numbers.head(20), column, direction) <= 0, column


def test_exported_models_predict_the_same_and_gains_are_those_that_are_known() -> None:
    """XGBoost takes the joined model; right above held leaves nobody knows gains, and importance is of the others."""
    X, y = people()
    model = fit({"income": -1, "debt": 1, "age": 1})
    booster = model.to_xgboost()
    parity = compare_with_xgboost(model, X, y)
    assert parity.same_trees, parity.difference
    assert parity.max_margin_difference < 1e-5
    gains = [node.gain for tree in trees(model) for node in tree if hasattr(node, "gain")]
    assert None in gains
    assert any(gain for gain in gains if gain)
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert booster.attr("security") == "none"


def test_a_leaf_at_the_largest_weight_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Weights that no scale leaves room for are held at W: the log says so, and the comparison knows."""
    X = pd.DataFrame({"a": np.arange(60.0), "b": np.arange(60.0) % 7})
    y = np.select([X["a"] < 20, X["a"] < 40], [1e4, 0.0], -1e4)
    params: dict[str, Any] = {"n_estimators": 1, "base_score": 0.0, "reg_lambda": 1e-9, "min_child_weight": 0.0}
    params |= {"objective": "reg:pseudohubererror", "huber_slope": 1e-2, "security": "none"}
    model = FedXGBRegressor(**params, monotone_constraints={"a": -1}).fit(X, y)
    parity = compare_with_xgboost(model, X, y)

    assert "weighs as much as any may" in caplog.text
    assert parity.same_trees, parity.difference
    assert parity.max_leaf_difference < 1e-5
    caplog.clear()
    FedXGBRegressor(**params | {"reg_lambda": 1.0}, monotone_constraints={"a": -1}).fit(X, y)
    assert not caplog.text


def test_a_training_goes_on_with_or_without_them() -> None:
    """From a model to another that is constrained, and from that to one that is not."""
    X, y = people()
    free = fit(None)
    more = FedXGBClassifier(n_estimators=2, max_depth=4, max_bin=12, security="none", monotone_constraints={"age": 1})
    more.fit(X, y, xgb_model=free)
    assert trees(more)[:4] == trees(free)
    again = FedXGBClassifier(n_estimators=1, max_depth=4, max_bin=12, security="none").fit(X, y, xgb_model=more)
    assert trees(again)[:6] == trees(more)


@examples(12)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["binary", "regression", "counts", "classes"]),
    weighted=st.booleans(),
    constrained=st.booleans(),
    reg_alpha=st.sampled_from([0.0, 0.5]),
    max_delta_step=st.sampled_from([0.0, 0.7]),
    max_depth=st.integers(2, 5),
)
def test_trees_are_those_of_the_installed_xgboost(
    seed: int, kind: str, weighted: bool, constrained: bool, **params: Any
) -> None:
    """L1, clipped weights and directions, alone and together; before 3.4 not L1 beside the others."""
    if not IS_3_4 and (constrained or params["max_delta_step"]):
        params["reg_alpha"] = 0.0
    problem = small_problem(seed, kind, rows=200, participants=3, weighted=weighted)
    y = problem.y / (1000 if kind == "regression" else 1)
    rng = np.random.default_rng(seed)
    directions = {
        name: {column: int(rng.integers(-1, 2)) for column in table.select_dtypes("number")}
        for name, table in problem.tables.items()
    }
    params |= {"n_estimators": 2, "max_bin": 10, "security": "none"}
    params |= {"monotone_constraints": directions if constrained else None}
    if kind in ("binary", "classes"):
        model: Any = FedXGBClassifier(**params)
    else:
        model = FedXGBRegressor(objective="count:poisson" if kind == "counts" else None, **params)
    parity = compare_with_xgboost(
        model.fit(problem.tables, y, sample_weight=problem.weight), problem.whole, y, problem.weight
    )
    assert parity.same_trees, parity.difference
    assert parity.max_leaf_difference < 1e-5
    assert parity.compared_trees or parity.ties


# Settings


def settings_of(role: str, monotone: Any, constrained: bool = True) -> RoleSettings:
    """Return settings of a role whose columns have directions."""
    content = full(role)
    content["training"]["constrained"] = constrained
    content["data"]["monotone"] = monotone
    for key in ("features", "categorical", "numeric"):
        content["data"].pop(key, None)
    return RoleSettings.from_dict(content)


def test_settings_have_directions_of_own_columns() -> None:
    """In [data], at their owner; those of 0 are none."""
    settings = settings_of("telecom", {"calls": 1, "visits": -1, "age": 0})
    assert settings.data is not None
    assert settings.data.monotone == {"calls": 1, "visits": -1}
    assert "calls" not in json.dumps(settings.training.to_dict())


@pytest.mark.parametrize("monotone", [{"calls": 2}, {"calls": True}, {"calls": "1"}, {"calls": 0.5}, "calls", 1])
def test_settings_refuse_what_is_no_direction(monotone: Any) -> None:
    """Naming table and key."""
    with pytest.raises(SettingsError) as caught:
        settings_of("telecom", monotone)
    assert "data.monotone" in [fault.parameter for fault in caught.value.faults]


def test_settings_need_the_public_flag() -> None:
    """Directions without constrained = true in [training]: everybody has to know."""
    with refused(SettingsError, "value", "data.monotone") as caught:
        settings_of("telecom", {"calls": 1}, constrained=False)
    assert caught.value.parameter == "data.monotone"


@pytest.mark.parametrize(
    ("role", "name"), [("telecom", "customer"), ("bank", "defaulted"), ("telecom", "dropped"), ("telecom", "words")]
)
def test_settings_refuse_directions_of_what_is_no_feature_or_has_no_order(role: str, name: str) -> None:
    """The id, the label, a column that is dropped, categories."""
    content = full(role)
    content["training"]["constrained"] = True
    data = content["data"]
    for key in ("features", "categorical", "numeric"):
        data.pop(key, None)
    data |= {"drop": ["dropped"], "categorical": ["words"]}
    name = {"customer": data["id"], "defaulted": full("bank")["label"]["column"]}.get(name, name)
    data["monotone"] = {name: 1}
    with pytest.raises(SettingsError) as caught:
        RoleSettings.from_dict(content)
    assert {fault.parameter for fault in caught.value.faults} & {"data.monotone", "label.column"}


def test_simulate_takes_directions(tmp_path: Path) -> None:
    """--monotone income=-1,debt=1, and refuses what it does not understand."""
    from mpfedxgb.cli.simulate import parse_directions

    assert parse_directions("income=-1, debt=1") == {"income": -1, "debt": 1}
    assert parse_directions("") == {}
    for text in ("income", "income=up", "=1"):
        with pytest.raises(SettingsError):
            parse_directions(text)
