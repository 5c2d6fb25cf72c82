"""What users may rely on: the names of the package, each with a docstring, nothing heavy behind the first import."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest

import mpfedxgb

NAMES = {
    "FedXGBClassifier",
    "FedXGBRanker",
    "FedXGBRegressor",
    "FederatedTable",
    "Federation",
    "MpfedxgbError",
    "PartialModel",
    "__version__",
    "cv",
    "join",
    "plot_importance",
    "plot_metrics",
    "plot_tree",
    "train",
    "uplift",
}
STANDARD = {*sys.stdlib_module_names, "__main__", "__mp_main__"}


def loaded_after(code: str) -> set[str]:
    """Return the top-level packages from elsewhere that a fresh interpreter has loaded after some code."""
    program = (
        f"import json, sys\nbefore = set(sys.modules)\n{code}\nprint(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)  # noqa: S603 # ours
    return {name.split(".")[0] for name in json.loads(done.stdout)} - STANDARD


def test_the_names_are_these() -> None:
    """A name that comes or goes is a decision: this list, the changelog and the documents follow it."""
    assert set(mpfedxgb.__all__) == NAMES
    assert dir(mpfedxgb) == sorted(NAMES)
    assert len(mpfedxgb.__all__) == len(NAMES)


@pytest.mark.parametrize("name", sorted(NAMES - {"__version__"}))
def test_every_name_is_documented(name: str) -> None:
    """With a docstring of its own, and one for each public method."""
    thing = getattr(mpfedxgb, name)
    assert thing.__doc__
    assert thing.__module__.startswith("mpfedxgb.")
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            if not member.startswith("_") and inspect.isroutine(value):
                assert inspect.getdoc(getattr(thing, member)), f"{name}.{member}"


def test_star_import_brings_exactly_these() -> None:
    """Names that are imported when they are asked for come with the star too."""
    found: dict[str, object] = {}
    exec("from mpfedxgb import *", found)  # noqa: S102 # what is tested
    assert {name for name in found if name != "__builtins__"} == NAMES
    assert found["join"] is mpfedxgb.join


def test_other_names_are_refused() -> None:
    """As by any module."""
    with pytest.raises(AttributeError, match="no attribute 'DMatrix'"):
        _ = mpfedxgb.DMatrix


def test_the_first_import_loads_nothing_else() -> None:
    """`import mpfedxgb` is free; what is used is loaded when it is used."""
    assert loaded_after("import mpfedxgb") == {"mpfedxgb"}


def test_estimators_load_no_network_and_no_rival() -> None:
    """A simulation needs no TLS, MPI or Dask, and neither xgboost nor matplotlib, which are not required at all."""
    loaded = loaded_after("from mpfedxgb import FedXGBClassifier, FedXGBRegressor, PartialModel, join, plot_tree")
    assert {"mpfedxgb", "numpy", "sklearn"} <= loaded
    assert not loaded & {"ssl", "mpi4py", "distributed", "dask", "xgboost", "matplotlib", "phe"}


@pytest.mark.parametrize("command", ["coordinator", "participant"])
def test_a_role_loads_neither_scikit_learn_nor_dask(command: str) -> None:
    """Every organisation starts a process for each session; Dask is imported by those whose settings name workers."""
    loaded = loaded_after(f"from mpfedxgb.cli.main import make_app; make_app([{command!r}])")
    assert {"mpfedxgb", "numpy", "numba"} <= loaded
    assert not loaded & {"sklearn", "distributed", "dask", "xgboost", "matplotlib", "mpi4py"}


def test_templates_are_loaded_by_the_first_report() -> None:
    """A role or an estimator that makes no report goes without jinja2, which dask too would load if it was there."""
    modules = "mpfedxgb.federation.role, mpfedxgb.api.estimators, mpfedxgb.report.html"
    loaded = loaded_after(f"sys.modules['distributed'] = None\nimport {modules}")
    assert "numpy" in loaded
    assert "jinja2" not in loaded


WITHOUT_UNIX = """
import sys
sys.modules["fcntl"] = sys.modules["resource"] = None

import numpy as np
import mpfedxgb

X = np.arange(40.0).reshape(20, 2) % 7
y = X[:, 0] > 2
model = mpfedxgb.FedXGBClassifier(n_estimators=1, max_depth=1, max_bin=4).fit(X, y)
assert (model.predict(X) == y).all()
assert model.run_.rounds > 0
assert mpfedxgb.FedXGBRegressor.from_parts
"""


def test_estimators_need_no_unix() -> None:
    """Where fcntl and resource do not exist, a simulation trains and predicts; tests of locks see what then fails."""
    command = [sys.executable, "-W", "error", "-c", WITHOUT_UNIX]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 # ours
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
