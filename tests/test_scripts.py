"""Scripts as people write them for xgboost, with the import and the table changed and nothing else, in strict.

Those beside this file give xgboost's results, for nothing in them is drawn at random but where they only ask whether a
result is good.
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

from mpfedxgb import FedXGBClassifier, FedXGBRegressor
from support.xgboost_versions import IS_3_4

HERE = Path(__file__).parent / "scripts"
OWN = sorted(path.stem for path in HERE.glob("*.py"))
OTHERS = Path(__file__).parents[2] / "shared" / "scripts"

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


def run(source: str, name: str) -> dict[str, Any]:
    """Run a script and return its names."""
    names: dict[str, Any] = {"__name__": name}
    exec(compile(source, name, "exec"), names)  # noqa: S102 # a script of ours
    return names


@pytest.mark.parametrize("name", OWN)
def test_scripts_give_xgboosts_results(name: str) -> None:
    """Of all participants together, to what float32 leaves of digits."""
    source = (HERE / f"{name}.py").read_text()
    names = run(changed(source), name)
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
    run(changed(source.replace("num_boost_round=15", "num_boost_round=2")), name)
    assert capsys.readouterr().out.splitlines()[-1].startswith(name[:3])
