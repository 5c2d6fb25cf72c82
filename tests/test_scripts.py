"""Scripts as people write them for xgboost, with the import and the table changed and nothing else, in strict.

Those beside this file give xgboost's results, for nothing in them is drawn at random but where they only ask whether a
result is good. What is still refused is refused by name, and the script runs as soon as it is not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mpfedxgb
from mpfedxgb import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.errors import SettingsError, UnknownParameterError
from mpfedxgb.schema.training import BY_NAME
from support.xgboost_versions import IS_3_4

HERE = Path(__file__).parent / "scripts"
OWN = sorted(path.stem for path in HERE.glob("*.py"))
OTHERS = Path(__file__).parents[2] / "shared" / "scripts"

NEEDS = {
    "credit": ("reg_alpha", "scale_pos_weight"),
    "search": ("reg_alpha", "max_delta_step", "scale_pos_weight", "num_parallel_tree"),
    "monotone": ("monotone_constraints",),
    "losses": ("max_delta_step",),
    "rank": ("FedXGBRanker",),
    "train_cv": ("reg_alpha",),
    "types": ("missing",),
    "pipeline": ("booster",),
    "s01_credit": ("reg_alpha", "scale_pos_weight"),
    "s02_search": ("reg_alpha", "max_delta_step", "scale_pos_weight", "num_parallel_tree", "colsample_bylevel"),
    "s03_monotone": ("monotone_constraints",),
    "s06_rank": ("FedXGBRanker",),
    "s07_train_cv": ("reg_alpha",),
    "s09_types": ("missing",),
    "s10_pipeline": ("booster",),
}
"""What a script needs and this version may still refuse."""

OF_3_4 = ("search", "losses")
"""Scripts that xgboost answers otherwise before 3.4: where L1 meets clipped weights, and of absolute errors."""


def changed(source: str) -> str:
    """Return a script with the import and the table changed: estimators cut one table, a DMatrix becomes two tables."""
    source = re.sub(r"from xgboost import (.*)", lambda found: imports(found[1].split(", ")), source)
    source = source.replace("import xgboost as xgb", "import mpfedxgb as xgb")
    return source.replace("xgb.DMatrix(X, ", "xgb.FederatedTable([X.iloc[:, :2], X.iloc[:, 2:]], ")


def imports(names: list[str]) -> str:
    """Return the import of the federated estimators under the names of xgboost's; a DMatrix stays what it is."""
    ours = [f"from mpfedxgb import Fed{name} as {name}" for name in names if name.startswith("XGB")]
    return "; ".join([*ours, *(f"from xgboost import {name}" for name in names if not name.startswith("XGB"))])


def refused(name: str) -> list[str]:
    """Return what of a script's needs is not there yet."""
    return [need for need in NEEDS.get(name, ()) if not is_there(need)]


def is_there(need: str) -> bool:
    """Return whether strict has a parameter, or the package a class."""
    if need.startswith("Fed"):
        return hasattr(mpfedxgb, need)
    return need in BY_NAME and all(rule.mode != "strict" for rule in BY_NAME[need].modes)


def run(source: str, name: str) -> dict[str, Any]:
    """Run a script and return its names."""
    names: dict[str, Any] = {"__name__": name}
    exec(compile(source, name, "exec"), names)  # noqa: S102 # a script of ours
    return names


def run_federated(source: str, name: str) -> dict[str, Any] | None:
    """Run a changed script; None if it was refused, by the name of something that it needs."""
    missing = refused(name)
    if not missing:
        return run(changed(source), name)
    with pytest.raises((UnknownParameterError, SettingsError, ImportError, ValueError)) as caught:
        run(changed(source), name)
    assert any(need in str(caught.value) for need in missing)
    return None


@pytest.mark.parametrize("name", OWN)
def test_scripts_give_xgboosts_results(name: str) -> None:
    """Of all participants together, to what float32 leaves of digits."""
    source = (HERE / f"{name}.py").read_text()
    names = run_federated(source, name)
    if names is None:
        return
    models = [value for value in names.values() if isinstance(value, (FedXGBClassifier, FedXGBRegressor))]
    assert {model.security for model in models} <= {"strict"}
    if name in OF_3_4 and not IS_3_4:
        return
    expected, found = run(source, name)["result"], names["result"]
    assert list(found) == list(expected)
    for what, value in expected.items():
        if np.asarray(value).dtype.kind == "f":
            np.testing.assert_allclose(found[what], value, atol=2e-5, err_msg=what)
        else:
            np.testing.assert_array_equal(found[what], value, err_msg=what)


def first_rows(read: Callable[[], Any]) -> Callable[..., Any]:
    """Return a reader of a few rows of a table, whatever number is asked for."""
    return lambda *_: tuple(part.iloc[:150] for part in read())


@pytest.mark.parametrize("name", sorted(path.stem for path in OTHERS.glob("s*.py")) or [""])
def test_scripts_of_others_run(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Those beside the project, if there are any, on fewer rows and with fewer trees; each prints its line."""
    if not name:
        pytest.skip("there are no scripts in ../shared/scripts")
    monkeypatch.syspath_prepend(str(OTHERS))
    common = import_module("common")
    small = {reader: first_rows(getattr(common, reader)) for reader in ("credit", "housing", "titanic", "beans")}
    monkeypatch.setitem(sys.modules, "common", SimpleNamespace(**small))
    source = re.sub(r"n_estimators=\d+", "n_estimators=2", (OTHERS / f"{name}.py").read_text())
    if run_federated(source.replace("num_boost_round=15", "num_boost_round=2"), name) is not None:
        assert capsys.readouterr().out.splitlines()[-1].startswith(name[:3])
