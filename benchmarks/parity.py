"""Federated against xgboost on real tables: same splits, leaf values, margins, tree for tree.

    python benchmarks/parity.py --data DIR [--trees T] [--only NAME ...] [--list] [--security none | sealed]
                                [--depth D] [--rows N] [--json]

DIR holds the data sets (Adult one-hot, Give Me Some Credit, California housing, Dry Bean, Titanic) as gzipped CSV
files. Each case trains the federation and then `xgboost` (hist, max_bin=256) on the columns binned by the federation's
own cuts, with the same parameters and base_score. Where XGBoost's two best scores are a float32 tie, the case says so
with both scores and compares up to that node. Exit code 1 if any case differs. --only takes the cases whose names
contain one of its texts, --depth gives all of them another depth, and --rows draws rows of tables that have more.

With --security sealed, of the cases that such a training takes, trees have to be the same to the end, without ties, and
margins within 1e-5 of the largest: a sealed training has 24 binary places, in every round.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xgboost

from mpfedxgb import FedXGBClassifier, FedXGBRanker, FedXGBRegressor
from mpfedxgb.boosting.objectives import OBJECTIVES, RANKINGS
from mpfedxgb.modes.facts import facts_of
from mpfedxgb.testing.comparison import has_older_rules
from mpfedxgb.testing.parity import Parity, compare_with_xgboost
from plain_table import table

SHARES = [0.1, 0.2, 0.3, 0.4]
LEAF_TOLERANCE = 1e-5
MARGIN_TOLERANCE = 1e-6
SEALED_TOLERANCE = 1e-5
"""Of margins of sealed trainings, beside the largest."""


@dataclass(frozen=True)
class Case:
    """One table, label and set of parameters."""

    name: str
    X: pd.DataFrame
    y: Any
    params: dict[str, Any]
    regression: bool = False
    qid: Any = None


def cases(data: Path) -> Iterator[Case]:
    """Yield the comparisons, small tables first."""
    titanic = pd.read_csv(data / "titanic.csv.gz")
    X = titanic[["Pclass", "Age", "SibSp", "Parch", "Fare"]].assign(
        Sex=titanic["Sex"].astype("category"), Embarked=titanic["Embarked"].astype("category")
    )
    yield Case("Titanic, missing values, categories", X, titanic["Survived"], {"max_depth": 4, "gamma": 0.3})
    housing = pd.read_csv(data / "california_housing.csv.gz")
    X = columns_of(housing)
    for depth in (3, 4, 5):
        yield Case(f"California housing, depth {depth}", X, housing["median_house_value"], {"max_depth": depth}, True)
    yield from _of_objectives(X, housing["median_house_value"])
    beans = pd.read_csv(data / "dry_bean.csv.gz").sample(frac=1, random_state=0)
    yield Case("Dry Bean, 7 classes, depth 3", beans.drop(columns="Class"), beans["Class"], {"max_depth": 3})
    adult = pd.read_csv(data / "adult_onehot108.csv.gz")
    for depth in (3, 4, 5):
        yield Case(f"Adult, depth {depth}", adult.drop(columns="label"), adult["label"], {"max_depth": depth})
    credit = pd.read_csv(data / "give_me_some_credit.csv.gz", index_col=0)
    for depth in (3, 4, 5):
        X = credit.dropna().drop(columns="SeriousDlqin2yrs")
        y = credit.dropna()["SeriousDlqin2yrs"]
        yield Case(f"Give Me Some Credit, complete rows, depth {depth}", X, y, {"max_depth": depth, "gamma": 0.5})
    X, y = credit.drop(columns="SeriousDlqin2yrs"), credit["SeriousDlqin2yrs"]
    yield Case("Give Me Some Credit, missing values, depth 4", X, y, {"max_depth": 4, "min_child_weight": 5})
    prices = housing["median_house_value"] / 1e5
    beans_y = beans["Class"]
    for name, table_, labels, regression, directions in (
        (
            "California housing",
            columns_of(housing),
            prices,
            True,
            {"housing_median_age": 1, "households": -1, "median_income": 1},
        ),
        ("Dry Bean", beans.drop(columns="Class"), beans_y, False, {"Area": 1, "Extent": -1, "ShapeFactor4": 1}),
        ("Adult", adult.drop(columns="label"), adult["label"], False, {"Age": 1, "EdNum": 1, "Sex_Female": -1}),
        ("Give Me Some Credit", X, y, False, {"age": -1, "DebtRatio": 1, "NumberOfTimes90DaysLate": 1}),
    ):
        held: list[dict[str, Any]] = [{"reg_alpha": 1.0}, {"max_delta_step": 0.7}]
        held += [{"monotone_constraints": directions}, {"monotone_constraints": directions, "reg_alpha": 1.0}]
        for depth, params in zip(DEPTHS[name], held, strict=True):
            what = " and ".join("directions" if key == "monotone_constraints" else key for key in params)
            yield Case(f"{name}, {what}, depth {depth}", table_, labels, params | {"max_depth": depth}, regression)


DEPTHS = {
    "California housing": (3, 4, 5, 6),
    "Dry Bean": (4, 3, 3, 4),
    "Adult": (5, 6, 4, 3),
    "Give Me Some Credit": (6, 5, 6, 5),
}
"""Of the cases with penalties and bounds, in their order: each has all depths from 3 to 6 over all tables."""


def columns_of(housing: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of California housing."""
    columns = housing.drop(columns=["median_house_value", "ocean_proximity"])
    return columns.assign(ocean_proximity=housing["ocean_proximity"].astype("category"))


def _of_objectives(X: pd.DataFrame, value: pd.Series[Any]) -> Iterator[Case]:
    """Yield the other objectives, with labels derived from house values, such as counts, grades and times."""
    rng = np.random.default_rng(0)
    rank = value.rank(pct=True).to_numpy()
    grades, share = np.digitize(rank, [0.2, 0.4, 0.6, 0.8]), np.round(rank, 2).clip(0, 1)
    time, unknown = value.to_numpy() / 1e5, rng.random(len(value)) < 0.3
    bounds = np.stack([time, np.where(unknown, np.inf, time)], axis=1)
    for objective in ("binary:hinge", "binary:logitraw", "multi:softmax"):
        y = grades if objective == "multi:softmax" else grades > 2
        yield Case(f"California housing, {objective}", X, y.astype(int), {"max_depth": 4, "objective": objective})
    counts = np.random.default_rng(0).poisson(value / value.max() * 5).astype(float)
    labels: dict[str, tuple[Any, dict[str, Any]]] = {
        "count:poisson": (counts, {}),
        "reg:tweedie": (counts, {"tweedie_variance_power": 1.3}),
        "reg:gamma": (value / value.max() + 0.01, {}),
        "reg:logistic": (share, {}),
        "reg:squaredlogerror": (time, {}),
        "reg:pseudohubererror": (time, {"huber_slope": 0.5}),
        "reg:absoluteerror": (time, {}),
        "reg:quantileerror": (time, {"quantile_alpha": [0.1, 0.9]}),
        "survival:aft": (bounds, {"aft_loss_distribution_scale": 0.5}),
        "survival:cox": (np.where(unknown, -time, time), {}),
    }
    for objective, (y, more) in labels.items():
        yield Case(f"California housing, {objective}", X, y, {"max_depth": 4, "objective": objective, **more}, True)
    qid = np.sort(rng.integers(0, len(X) // 30, len(X)))
    for objective in RANKINGS:
        y = grades // 3 if objective == "rank:map" else grades
        yield Case(f"California housing, {objective}", X, y, {"max_depth": 4, "objective": objective}, True, qid)


def run(case: Case, trees: int, security: str = "strict") -> dict[str, Any]:
    """Return how one case compares."""
    kind = FedXGBRegressor if case.regression else FedXGBClassifier
    kind = kind if case.qid is None else FedXGBRanker
    groups = {} if case.qid is None else {"qid": case.qid}
    started = time.perf_counter()
    model: Any = kind(participants=SHARES, n_estimators=trees, security=security, **case.params)
    model.fit(case.X, case.y, **groups)
    seconds = time.perf_counter() - started
    parity = compare_with_xgboost(model, case.X, case.y, **groups)
    return {
        "case": case.name,
        "rows": len(case.X),
        "trees": parity.trees,
        "compared": parity.compared_trees,
        "same": is_same_sealed(parity) if security == "sealed" else parity.same_trees and values_agree(parity),
        "difference": parity.difference,
        "ties": parity.ties,
        "leaf": parity.max_leaf_difference,
        "margin": parity.max_margin_difference,
        "largest_margin": parity.largest_margin,
        "seconds": seconds,
    }


def asked(case: Case, depth: int | None, rows: int | None) -> Case:
    """Return a case with another depth and fewer rows, where that is asked for; the name says so."""
    if depth is not None:
        name = f"{case.name.partition(', depth')[0]}, depth {depth}"
        case = replace(case, name=name, params=case.params | {"max_depth": depth})
    if rows is None or rows >= len(case.X):
        return case
    few = np.sort(np.random.default_rng(0).permutation(len(case.X))[:rows])
    qid = None if case.qid is None else case.qid[few]
    return replace(case, name=f"{case.name}, {rows} rows", X=case.X.iloc[few], y=np.asarray(case.y)[few], qid=qid)


def values_agree(parity: Parity) -> bool:
    """Return whether leaves and margins are as near as promised; margins count only where no tie parts the models."""
    if parity.max_leaf_difference > LEAF_TOLERANCE:
        return False
    margin = max(MARGIN_TOLERANCE * parity.largest_margin, 1e-4) + parity.margin_resolution
    return bool(parity.ties) or parity.max_margin_difference <= margin


def is_same_sealed(parity: Parity) -> bool:
    """Return whether a sealed model has xgboost's trees to the end, and margins as near as promised."""
    has_all = parity.same_trees and not parity.ties and parity.compared_trees == parity.trees
    return has_all and parity.max_margin_difference <= SEALED_TOLERANCE * parity.largest_margin


def is_for(case: Case, security: str) -> bool:
    """Return whether such a training takes the case: sealed ones take some objectives.

    Before 3.4, xgboost has other gains where an L1 penalty meets directions.
    """
    if {"reg_alpha", "monotone_constraints"} <= set(case.params) and has_older_rules(xgboost.__version__):
        return False
    usual = "reg:squarederror" if case.regression else "binary:logistic"
    loss = OBJECTIVES[case.params.get("objective", usual)]
    return facts_of(security).scales(loss, False) is not None


def main() -> None:
    """Run all cases and print one line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--trees", type=int, default=20, help="rounds of each training (default 20)")
    parser.add_argument("--only", action="append", help="only cases whose name contains this; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and end")
    parser.add_argument("--depth", type=int, default=None, help="of all cases, in place of their own")
    parser.add_argument("--rows", type=int, default=None, help="most rows of a table; drawn at random from larger ones")
    parser.add_argument(
        "--security", default="strict", choices=["strict", "sealed", "none"], help="none: train in the open"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    if not args.data.is_dir():
        sys.exit(f"there is no folder {args.data}; give the folder with the data sets")
    results = []
    for case in cases(args.data):
        if is_for(case, args.security) and any(text.lower() in case.name.lower() for text in args.only or [""]):
            if args.list:
                print(case.name)
                continue
            results.append(run(asked(case, args.depth, args.rows), args.trees, args.security))
            print(_line(results[-1]), file=sys.stderr, flush=True)
    if args.list:
        return
    if args.json:
        print(json.dumps({"cases": results}))
    else:
        print(_page(results))
    sys.exit(0 if results and all(r["same"] for r in results) else 1)


def _line(r: dict[str, Any]) -> str:
    return f"{'same' if r['same'] else 'DIFFERENT'}: {r['case']} ({r['seconds']:.0f} s) {r['difference']}"


def _page(results: list[dict[str, Any]]) -> str:
    rows = [
        [
            r["case"],
            str(r["rows"]),
            f"{r['compared']}/{r['trees']}",
            "same" if r["same"] else "DIFFERENT",
            f"{r['leaf']:.1e}",
            f"{r['margin']:.1e} of {r['largest_margin']:.3g}",
            f"{r['margin'] / r['largest_margin']:.1e}",
            f"{r['seconds']:.1f}",
        ]
        for r in results
    ]
    header = ["case", "rows", "trees", "splits", "leaf, relative", "margin", "of the largest", "seconds"]
    notes = [f"{r['case']}: {tie}" for r in results for tie in r["ties"]]
    differences = [f"{r['case']}: {r['difference']}" for r in results if r["difference"]]
    page = table("Federated against xgboost", header, rows)
    if notes:
        page += "\n\nfloat32 ties of xgboost:\n" + "\n".join(notes)
    if differences:
        page += "\n\ndifferences:\n" + "\n".join(differences)
    return page


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    main()
