"""Random trainings, each from one number: tables that make trees difficult, an objective, options that go with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.schema.training import OF_OBJECTIVES

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator

OTHER_ROWS = 40
"""Rows beside those of the training: evaluation rows, and rows to score."""

_NOWHERE = -987.0
"""A number that is in no table."""

_SMALLEST_WORK, _MOST_WORK = 3e3, 8e4
"""Candidates times nodes times trees: some hundredths of a second, and some seconds."""


@dataclass(frozen=True)
class Training:
    """A table cut into participants' parts, labels, weights and parameters; the last rows are not for training."""

    seed: int
    objective: str
    params: dict[str, Any]
    tables: dict[str, pd.DataFrame]
    y: npt.NDArray[Any]
    weight: Floats | None
    evaluates: bool
    evaluation_weight: Floats | None = None
    curve: str = ""
    base_margin: Floats | None = None
    qid: npt.NDArray[np.int64] | None = None

    @property
    def rows(self) -> int:
        """How many rows are for training."""
        return len(self.y) - OTHER_ROWS

    @property
    def has_classes(self) -> bool:
        """Whether labels are classes."""
        return _has_classes(self.objective)

    @property
    def labels(self) -> npt.NDArray[Any]:
        """The labels of the training rows."""
        return self.y[: self.rows]

    @property
    def evaluation_labels(self) -> npt.NDArray[Any]:
        """The labels of the other rows."""
        return self.y[self.rows :]

    @property
    def groups(self) -> npt.NDArray[np.int64] | None:
        """The groups of the training rows, sorted, if rows are ranked."""
        return None if self.qid is None else self.qid[: self.rows]

    @property
    def evaluation_groups(self) -> npt.NDArray[np.int64] | None:
        """Those of the other rows."""
        return None if self.qid is None else self.qid[self.rows :]

    @property
    def start(self) -> Floats | None:
        """The margins that training rows start from, if they have their own."""
        return None if self.base_margin is None else self.base_margin[: self.rows]

    @property
    def evaluation_start(self) -> Floats | None:
        """Those of the other rows."""
        return None if self.base_margin is None else self.base_margin[self.rows :]

    @property
    def for_training(self) -> dict[str, pd.DataFrame]:
        """The participants' training tables, row by row."""
        return {name: table.iloc[: self.rows] for name, table in self.tables.items()}

    @property
    def for_evaluation(self) -> dict[str, pd.DataFrame]:
        """The participants' evaluation tables, row by row."""
        return {name: table.iloc[self.rows :] for name, table in self.tables.items()}

    def as_passed(self, tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        """Return tables as `fit` gets them: with ids, everybody but the active one has its rows in another order.

        Where a number stands for missing values, all columns of numbers have that in place of NaN.
        """
        if "missing" in self.params:
            tables = {name: table.copy() for name, table in tables.items()}
            for table in tables.values():
                for name in table.columns:
                    if table[name].dtype.kind in "fiu" and table[name].isna().any():
                        table[name] = table[name].fillna(int(self.params["missing"]))
        if "id" not in self.params:
            return tables
        rng = np.random.default_rng(self.seed)
        keyed = {name: table.assign(**{self.params["id"]: table.index}) for name, table in tables.items()}
        others = {name: table.iloc[rng.permutation(len(table))] for name, table in list(keyed.items())[1:]}
        return keyed | others

    def __str__(self) -> str:
        columns = "+".join(str(table.shape[1]) for table in self.tables.values())
        weights = "" if self.weight is None else ", weighted"
        weights += "" if self.base_margin is None else ", base margins"
        options = ", ".join(f"{k}={v}" for k, v in self.params.items() if k not in ("objective", "insecure_seed"))
        return f"{self.objective}{self.curve}, {self.rows} rows, {columns} columns{weights}, {options}"


def _has_classes(objective: str) -> bool:
    return objective.startswith(("binary:", "multi:")) or objective == "custom classes"


def random_training(seed: int) -> Training:
    """Return the training that a number stands for."""
    rng = np.random.default_rng(seed)
    objective = str(rng.choice(list(_OBJECTIVES)))
    rows = int(np.exp(rng.uniform(np.log(20), np.log(2000))))
    frame = _table(rng, rows + OTHER_ROWS)
    tables = _dealt(rng, frame)
    y = _OBJECTIVES[objective](rng, _signal(rng, frame))
    weight = _weights(rng, rows) if rng.random() < 0.3 else None
    qid = _groups(rng, rows) if objective.startswith("rank:") else None
    if qid is not None and weight is not None:
        weight = weight[np.searchsorted(qid[:rows], qid[:rows])]
    if _has_classes(objective):
        classes = np.union1d(y, [0, 1])
        y[: len(classes)] = classes  # each is there, also among rows that count
        if weight is not None:
            weight[: len(classes)] = 1.0
    params = _options(rng, objective, float(y[:rows].mean()))
    is_paper = objective in ("binary:logistic", "reg:squarederror") and rng.random() < 0.2
    if is_paper:
        params |= {"security": "paper", "min_child_weight": 0.0, "colsample_bytree": 1.0}
        params["reg_lambda"] = max(0.1, params["reg_lambda"])
        weight = None
    work = float(np.exp(rng.uniform(np.log(_SMALLEST_WORK), np.log(_MOST_WORK)))) / (4 if is_paper else 1)
    _bound(params, frame, work / (len(np.unique(y)) if objective.startswith("multi:") else 1))
    evaluates = bool(rng.random() < 0.3)
    if evaluates and rng.random() < 0.7:
        params["early_stopping_rounds"] = 1
    curve = ""
    if objective.startswith("custom"):
        curve = str(rng.choice(list(_CURVES)))
        params["objective"] = partial(_CURVES[curve], scale=float(np.std(y)) or 1.0)
        curve = f" ({curve})"
    elif objective not in ("binary:logistic", "multi:softprob"):
        params["objective"] = objective
    params |= _further_options(rng, objective, is_paper, evaluates)
    shares = rng.choice([0.0, 0.5, 2.0], OTHER_ROWS) + 1e-3 if evaluates and rng.random() < 0.4 else None
    shares = None if qid is not None else shares  # groups are weighed as a whole
    params |= {"insecure_seed": seed} | _of_ranks_and_times(rng, objective) | _weighs_more(rng, objective, is_paper)
    several = np.size(params.get("quantile_alpha", 0.5))
    start = _base_margin(rng, objective, y, several) if rng.random() < 0.15 else None
    params |= {} if is_paper else _dropped_trees(rng)
    if rng.random() < 0.1:
        params["missing"] = _NOWHERE
    params |= {} if is_paper else _bounded_weights(rng, frame)
    drawn = Training(seed, objective, params, tables, y, weight, evaluates, shares, curve, start, qid)
    has_three = len(tables) > 2 and not is_paper
    return coordinated(drawn) if has_three and np.random.default_rng([seed, 2]).random() < 0.2 else drawn


def coordinated(training: Training) -> Training:
    """Return a training in which an auxiliary is the coordinator too; where there are two participants, a third joins.

    Its table comes last, as its columns do.
    """
    tables = dict(training.tables)
    for m in range(len(tables) + 1, 4):
        tables[f"P{m}"] = next(iter(tables.values())).iloc[:, :0]
    name = str(np.random.default_rng([training.seed, 3]).choice(list(tables)[1:]))
    tables[name] = tables.pop(name)
    return replace(training, tables=tables, params=training.params | {"coordinator": name})


def random_sealed_training(seed: int) -> Training:
    """Return a sealed training from a number: that of `random_training` with the nearest loss, and more extremes.

    Rates from 1e-3 to 3, few rounds or many, labels and weights of all sizes, weights of 0 beside huge ones; a lambda
    of 0, which is refused, becomes another.
    """
    drawn, rng = random_training(seed), np.random.default_rng([seed, 1])
    objective, y, weight, params = drawn.objective, drawn.y, drawn.weight, _on_secrets(drawn, rng)
    if objective in _ON_SECRETS:
        y = y * (rng.choice([1.0, 1.0, 1e-6, 1e3]) if objective in _OF_MEANS else 1)
    elif drawn.has_classes:
        objective, y = "binary:logistic", (y > y.min()).astype(np.int64)
        y[:2] = 0, 1  # as in `random_training`, and these two count
    else:
        objective, y = "reg:squarederror", y if y.ndim == 1 else y[:, 0]
        params["objective"] = objective
        if rng.random() < 0.2:
            y = y / max(1e-9, float(np.abs(y).max())) * rng.choice([1e-9, 1e-6, 4e8])
        elif rng.random() < 0.05:
            y = np.full(len(y), 7.0)
    if rng.random() < 0.1:
        weight = rng.choice([0.0, 1e-9, 1.0, 1e3], drawn.rows) * rng.choice([1e-3, 1.0])
        weight[:2] = weight.max() or 1.0
    if params["reg_lambda"] == 0:
        params["reg_lambda"] = float(rng.choice([1e-4, 0.01, 10.0]))
    heaviest = (1.0 if weight is None else float(weight.max())) * max(1.0, params.get("scale_pos_weight", 1.0))
    if "scale_pos_weight" in params or (weight is not None and rng.random() < 0.8):
        params["reg_lambda"] = max(params["reg_lambda"], heaviest / 2000)  # smaller than that it is refused
    if rng.random() < 0.4:
        params["learning_rate"] = float(rng.choice([1e-3, 0.0123456789, 0.7, 3.0]))
    if rng.random() < 0.1:
        params["n_estimators"] = 3 * int(params["n_estimators"])
    params |= {"security": "sealed", "topology": str(rng.choice(["star", "mesh"]))}
    if drawn.evaluates:
        params["eval_metric"] = _METRICS.get(objective, ["rmse"])[:1]
    start = drawn.base_margin
    if start is not None and not objective.startswith("multi:"):  # of several columns one
        start = start.reshape(len(y), -1)[:, 0]
    return Training(
        seed, objective, params, drawn.tables, y, weight, drawn.evaluates, drawn.evaluation_weight, base_margin=start
    )


def _on_secrets(drawn: Training, rng: Rng) -> dict[str, Any]:
    """Return the parameters of a training that go with a sealed one."""
    others = {
        "objective",
        "leaf_epsilon",
        "eval_metric",
        "num_parallel_tree",
        "rate_drop",
        "one_drop",
        *(name for name, _ in _PARAMETERS.values()),
        *OF_OBJECTIVES,
    }
    others -= {"objective", "tweedie_variance_power"} if drawn.objective in _ON_SECRETS else set()
    params = {k: v for k, v in drawn.params.items() if k not in others}
    if "tweedie_variance_power" in params:
        params["tweedie_variance_power"] = max(params["tweedie_variance_power"], 1.03125)
    if drawn.objective == "count:poisson":
        params["max_delta_step"] = float(rng.choice([0.0, 0.1, 0.7, 2.5]))
    return params


# Tables


def _table(rng: Rng, rows: int) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for j in range(int(rng.integers(1, 13))):
        earlier = [name for name, c in columns.items() if isinstance(c, np.ndarray)]
        if earlier and rng.random() < 0.15:
            twin = columns[rng.choice(earlier)]
            columns[f"c{j}"] = rng.choice([1.0, -1.0]) * twin
        elif rng.random() < 0.2:
            columns[f"c{j}"] = _categories(rng, rows)
        else:
            columns[f"c{j}"] = _numbers(rng, rows)
    return pd.DataFrame(columns)


def _numbers(rng: Rng, rows: int) -> Any:
    """Return a column of numbers of one kind or another."""
    normal = rng.normal(size=rows)
    kind = rng.choice(
        ["plain", "ties", "few", "constant", "zeros", "extreme", "large", "integers", "nullable", "truth"]
    )
    if kind == "integers":
        return pd.Series(rng.poisson(3, rows))
    if kind == "nullable":
        return pd.Series(rng.integers(-5, 40, rows)).astype("Int64").mask(rng.random(rows) < 0.2)
    if kind == "truth":
        return pd.Series(normal > 1)
    kinds: dict[str, Callable[[], Floats]] = {
        "plain": lambda: normal,
        "ties": lambda: np.round(normal, int(rng.integers(0, 3))),
        "few": lambda: rng.integers(0, int(rng.integers(2, 6)), rows) / 3,
        "constant": lambda: np.full(rows, 3.0),
        "zeros": lambda: np.where(rng.random(rows) < 0.9, 0.0, normal),
        "extreme": lambda: np.sign(normal) * 10.0 ** rng.uniform(-42, 38, rows),
        "large": lambda: 2.0**24 + np.round(30 * normal),  # where float32 has no odd numbers any more
    }
    values = kinds[str(kind)]()
    if rng.random() < 0.3:
        values = np.where(
            rng.random(rows) < rng.choice([0.02, 0.3, 0.9, 1.0], p=[0.4, 0.4, 0.15, 0.05]), np.nan, values
        )
    return values


def _categories(rng: Rng, rows: int) -> Any:
    """Return a column of categories: some declared ones absent, some values missing, rare ones perhaps only later."""
    declared = int(rng.integers(1, 13))
    names = np.array([f"k{i:02}" for i in range(declared)], object)
    present = rng.random(declared) < 0.7
    present[rng.integers(declared)] = True
    shares = present * rng.exponential(size=declared) ** 2
    words = rng.choice(names, rows, p=shares / shares.sum())
    words[rng.random(rows) < rng.choice([0.0, 0.05, 0.4])] = None
    if pd.isna(words).all():
        words[0] = names[0]
    return pd.Series(pd.Categorical(words, categories=names)) if rng.random() < 0.7 else pd.Series(words)


def _dealt(rng: Rng, frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return one table per participant; somebody may have no column."""
    participants = int(rng.integers(2, 6))
    owners = rng.integers(1, participants + 1, frame.shape[1])
    return {f"P{m}": frame.iloc[:, np.flatnonzero(owners == m)] for m in range(1, participants + 1)}


# Labels and weights


def _signal(rng: Rng, frame: pd.DataFrame) -> Floats:
    """Return something that hangs together with some columns, and noise."""
    signal = np.zeros(len(frame))
    for name in frame.columns:
        column = frame[name]
        is_number = pd.api.types.is_numeric_dtype(column)
        ranks = column.rank(pct=True) if is_number else pd.Series(pd.factorize(column)[0] % 3).mask(column.isna())
        signal += rng.normal() * np.where(ranks.isna(), rng.normal(), ranks.to_numpy(np.float64, na_value=0.0))
    return np.asarray(signal + rng.choice([0.0, 0.2, 1.0]) * rng.normal(size=len(frame)))


def _two_classes(rng: Rng, signal: Floats) -> npt.NDArray[Any]:
    return np.asarray(signal > np.quantile(signal, rng.choice([0.05, 0.3, 0.5, 0.9]))).astype(np.int64)


def _classes(rng: Rng, signal: Floats) -> npt.NDArray[Any]:
    count = int(rng.integers(3, 6))
    return np.digitize(signal, np.quantile(signal, np.sort(rng.uniform(0.1, 0.9, count - 1))))


def _amounts(rng: Rng, signal: Floats) -> npt.NDArray[Any]:
    values = signal * rng.choice([0.01, 1.0, 1e3, 1e6])
    return np.asarray(np.round(values) if rng.random() < 0.3 else values)


def _amounts_near_one(rng: Rng, signal: Floats) -> npt.NDArray[Any]:
    outliers = np.where(rng.random(len(signal)) < 0.02, 30.0, 0.0)
    return np.asarray(signal * rng.choice([0.3, 1.0, 5.0]) + outliers)


def _counts(rng: Rng, signal: Floats) -> npt.NDArray[Any]:
    counts = rng.poisson(np.exp(np.clip(signal, -4, 4)) * rng.choice([0.1, 1.0, 20.0]))
    counts[0] = max(1, counts[0])
    return np.asarray(counts)


def _positive(rng: Rng, signal: Floats) -> npt.NDArray[Any]:
    return np.asarray(np.exp(np.clip(signal, -4, 4)) * rng.gamma(2.0, size=len(signal)) * rng.choice([0.1, 1.0, 1e3]))


def _claims(rng: Rng, signal: Floats) -> npt.NDArray[Any]:
    return np.asarray(_counts(rng, signal) * rng.choice([0.5, 1.0, 100.0]))


def _shares(rng: Rng, signal: Floats) -> npt.NDArray[Any]:
    return np.asarray((1 / (1 + np.exp(-signal))).round(2))


def _grades(rng: Rng, signal: Floats) -> npt.NDArray[Any]:
    return _classes(rng, signal).astype(np.float64)


def _times(rng: Rng, signal: Floats) -> Floats:
    times = np.exp(np.clip(signal, -4, 4)) * rng.choice([0.1, 1.0, 1e3])
    return np.asarray(times.round(int(rng.choice([0, 1, 6]))) + 0.01)


def _bounds(rng: Rng, signal: Floats) -> npt.NDArray[Any]:
    """Return lower and upper bounds: times that are known, not over, begun at an unknown time, or between two."""
    times, kind = _times(rng, signal), rng.integers(0, 4, len(signal))
    upper = np.where(kind == 1, np.inf, times * np.where(kind == 3, 1.5, 1))
    return np.stack([np.where(kind == 2, 0, times), upper], axis=1)


def _signed_times(rng: Rng, signal: Floats) -> npt.NDArray[Any]:
    times = _times(rng, signal) * rng.choice([-1, 1, 1], len(signal))
    times[0] = abs(times[0])  # an event at least
    return np.asarray(times)


def _groups(rng: Rng, rows: int) -> npt.NDArray[np.int64]:
    """Return the groups of all rows, sorted among those of the training and among the others."""
    size = int(rng.integers(2, 60))
    return np.concatenate([np.sort(rng.integers(0, max(1, count // size), count)) for count in (rows, OTHER_ROWS)])


def _weights(rng: Rng, rows: int) -> Floats:
    kind = rng.choice(["steps", "spread", "ones and zeros", "small", "large"])
    kinds: dict[str, Callable[[], Floats]] = {
        "steps": lambda: rng.choice([0.0, 0.5, 1.0, 3.7], rows),
        "spread": lambda: rng.lognormal(0, 2, rows),
        "ones and zeros": lambda: (rng.random(rows) < 0.8).astype(np.float64),
        "small": lambda: 1e-4 * rng.integers(1, 4, rows).astype(np.float64),
        "large": lambda: 1e4 * rng.random(rows),
    }
    drawn = kinds[str(kind)]()
    drawn[0] = 1.0  # a sum of 0 is refused
    return drawn


_OBJECTIVES: dict[str, Callable[[Rng, Floats], npt.NDArray[Any]]] = {
    "binary:logistic": _two_classes,
    "multi:softprob": _classes,
    "reg:squarederror": _amounts,
    "count:poisson": _counts,
    "reg:pseudohubererror": _amounts_near_one,
    "binary:logitraw": _two_classes,
    "binary:hinge": _two_classes,
    "multi:softmax": _classes,
    "reg:logistic": _shares,
    "reg:squaredlogerror": _positive,
    "reg:gamma": _positive,
    "reg:tweedie": _claims,
    "reg:absoluteerror": _amounts,
    "reg:quantileerror": _amounts,
    "rank:ndcg": _grades,
    "rank:pairwise": _grades,
    "rank:map": _two_classes,
    "survival:aft": _bounds,
    "survival:cox": _signed_times,
    "custom": _amounts,
    "custom classes": _two_classes,
}


def _squared(y: Floats, margin: Floats, scale: float) -> tuple[Floats, Floats]:
    return margin - y, np.ones_like(y)


def _huber(y: Floats, margin: Floats, scale: float) -> tuple[Floats, Floats]:
    """Return g and h of a loss without curvature far from the label."""
    z = (margin - y) / scale
    return np.clip(z, -1, 1), (np.abs(z) < 1).astype(np.float64)


def _partly_flat(y: Floats, margin: Floats, scale: float) -> tuple[Floats, Floats]:
    """Return g and h where every third row has neither, and every seventh no hessian."""
    row = np.arange(len(y))
    g, h = (margin - y) / scale, 1 + (row % 5) / 4
    return np.where(row % 3, g, 0), np.where((row % 3 != 0) & (row % 7 != 0), h, 0)


_CURVES = {"squared": _squared, "huber": _huber, "partly flat": _partly_flat}


# Options


def _options(rng: Rng, objective: str, typical: float) -> dict[str, Any]:
    """Return parameters: values that leave trees to compare, and now and then one that leaves none."""
    samples = rng.random() < 0.25
    params: dict[str, Any] = {
        "max_depth": int(rng.integers(1, 7)),
        "max_bin": int(rng.choice([2, 255, 256, 257, 512, *np.geomspace(3, 512, 12).astype(int)])),
        "learning_rate": float(rng.choice([0.01, 0.1, 0.3, 0.3, 1.0])),
        "reg_lambda": _mostly(rng, [0.0, 1e-6, 0.01, 0.4, 1.0, 1.0, 5.0], [100.0, 1e4, 1e8]),
        "gamma": _mostly(rng, [0.0, 0.0, 0.0, 1e-6, 1e-3, 0.1, 0.5], [5.0, 1e6]),
        "min_child_weight": _mostly(rng, [0.0, 0.0, 0.01, 0.3, 1.0, 1.0, 3.0], [30.0, 1e5]),
        "subsample": float(rng.choice([0.3, 0.8, 1.0])) if samples else 1.0,
        "colsample_bytree": float(rng.choice([0.3, 0.7, 1.0])) if samples else 1.0,
        "first_layer_mask": bool(rng.random() < 0.1),
        "random_state": int(rng.integers(1000)),
    }
    if rng.random() < 0.3:
        start = 0.5 if objective.startswith("multi:") else float(rng.choice([0.05, 0.5, 0.9]))
        params["base_score"] = 2 * start * typical if objective in _OF_MEANS else start
    if objective in _PARAMETERS:
        name, values = _PARAMETERS[objective]
        params[name] = float(rng.choice(values))
    return params


_OF_MEANS = ("count:poisson", "reg:gamma", "reg:tweedie")
_PARAMETERS = {
    "reg:pseudohubererror": ("huber_slope", [0.1, 1.0, 2.5, 100.0]),
    "reg:tweedie": ("tweedie_variance_power", [1.0, 1.1, 1.5, 1.9]),
    "reg:quantileerror": ("quantile_alpha", [0.05, 0.5, 0.9]),
}
"""What a loss depends on."""


def _of_ranks_and_times(rng: Rng, objective: str) -> dict[str, Any]:
    """Return what rankings and survival times depend on, and now and then several quantiles."""
    if objective == "survival:aft":
        distribution = str(rng.choice(["normal", "logistic", "extreme"]))
        return {"aft_loss_distribution": distribution, "aft_loss_distribution_scale": float(rng.choice([0.3, 1, 2]))}
    if objective == "reg:quantileerror" and rng.random() < 0.3:
        return {"quantile_alpha": [0.1, 0.6]}
    if not objective.startswith("rank:"):
        return {}
    return {
        "lambdarank_pair_method": str(rng.choice(["topk", "topk", "topk", "mean"])),
        "lambdarank_num_pair_per_sample": [None, 1, 4][int(rng.integers(3))],
        "lambdarank_normalization": bool(rng.random() < 0.7),
        "lambdarank_score_normalization": bool(rng.random() < 0.7),
        "ndcg_exp_gain": bool(rng.random() < 0.7),
    }


def _further_options(rng: Rng, objective: str, is_paper: bool, evaluates: bool) -> dict[str, Any]:
    """Return what most trainings leave as it is."""
    params: dict[str, Any] = {}
    if rng.random() < 0.15:
        params["binning"] = "paper"
    if rng.random() < 0.15:
        params["id"] = "person"
    if is_paper:
        params["leaf_epsilon"] = float(rng.choice([1e-8, 1e-6, 1e-4]))
    if evaluates and rng.random() < 0.6:
        names = _METRICS.get(objective, ["rmse", "mae", "mphe", "quantile"])
        params["eval_metric"] = [str(name) for name in rng.permutation(names)[: int(rng.integers(1, len(names) + 1))]]
    if not is_paper and rng.random() < 0.1:
        params["num_parallel_tree"] = int(rng.integers(2, 5))
    if not is_paper and rng.random() < 0.1:
        params["colsample_bylevel"] = float(rng.choice([0.4, 0.8, 1.0]))
        params["colsample_bynode"] = float(rng.choice([0.4, 0.8, 1.0]))
    return params


_ON_SECRETS = ("binary:logitraw", "reg:logistic", "multi:softprob", "multi:softmax", *_OF_MEANS)
"""What a sealed training takes as it is drawn, beside those that stand for all others."""

_METRICS = {
    "binary:logistic": ["logloss", "error", "auc", "aucpr"],
    "binary:logitraw": ["logloss", "error@0.3", "auc", "aucpr"],
    "binary:hinge": ["error", "auc"],
    "custom classes": ["logloss", "error", "auc"],
    "multi:softprob": ["mlogloss", "merror", "auc"],
    "multi:softmax": ["mlogloss", "merror", "aucpr"],
    "count:poisson": ["poisson-nloglik", "rmse", "mae"],
    "reg:gamma": ["gamma-deviance", "gamma-nloglik", "mape"],
    "reg:tweedie": ["tweedie-nloglik@1.2", "tweedie-nloglik@1.5", "rmsle"],
    "reg:squaredlogerror": ["rmsle", "rmse"],
    "rank:ndcg": ["ndcg", "ndcg@3-"],
    "rank:pairwise": ["ndcg@5"],
    "rank:map": ["map", "pre@2", "ndcg@4"],
    "survival:aft": ["aft-nloglik", "interval-regression-accuracy"],
    "survival:cox": ["cox-nloglik"],
}
"""Metrics that go with an objective; the others predict a number."""


def _weighs_more(rng: Rng, objective: str, is_paper: bool) -> dict[str, float]:
    """Return a weight for rows of the second class, or with a label of 1, if there is one."""
    scaled = ("binary:logistic", "binary:logitraw", "reg:logistic", "reg:squarederror", "reg:gamma")
    if is_paper or objective not in scaled or rng.random() > 0.2:
        return {}
    return {"scale_pos_weight": float(rng.choice([0.0, 0.01, 0.5, 3.0, 40.0]))}


def _bounded_weights(rng: Rng, frame: pd.DataFrame) -> dict[str, Any]:
    """Return an L1 penalty, the largest step of a leaf, and directions of columns, now and then."""
    params: dict[str, Any] = {}
    if rng.random() < 0.15:
        params["reg_alpha"] = float(rng.choice([1e-3, 0.1, 1.0, 30.0]))
    if rng.random() < 0.1:
        params["max_delta_step"] = float(rng.choice([0.01, 0.3, 0.7, 5.0]))
    if rng.random() < 0.1:
        numbers = [name for name in frame.columns if frame[name].dtype.kind in "fiu"]
        params["monotone_constraints"] = {name: int(rng.integers(-1, 2)) for name in numbers}
    return params


def _dropped_trees(rng: Rng) -> dict[str, Any]:
    """Return the parameters of dart, now and then: xgboost leaves the same trees out if it is all or none."""
    if rng.random() > 0.15:
        return {}
    return {
        "booster": str(rng.choice(["gbtree", "dart"])),
        "rate_drop": float(rng.choice([0.0, 0.1, 0.5, 1.0, 1.0])),
        "skip_drop": float(rng.choice([0.0, 0.0, 0.5])),
        "one_drop": bool(rng.random() < 0.3),
        "sample_type": str(rng.choice(["uniform", "uniform", "weighted"])),
        "normalize_type": str(rng.choice(["tree", "forest"])),
    }


def _base_margin(rng: Rng, objective: str, y: npt.NDArray[Any], several: int) -> Floats:
    """Return margins for all rows, of a size that goes with the labels."""
    classes = len(np.unique(y)) if objective.startswith("multi:") else several
    margins = rng.normal(size=(len(y), classes)) * rng.choice([0.1, 1.0, 3.0])
    if objective.startswith("reg:") and objective not in _OF_LOGARITHMS:
        margins *= float(np.std(y)) or 1.0
    return np.asarray(margins if classes > 1 else margins[:, 0])


_OF_LOGARITHMS = ("reg:gamma", "reg:tweedie", "reg:logistic")


def _mostly(rng: Rng, common: list[float], rare: list[float]) -> float:
    return float(rng.choice(common if rng.random() < 0.93 else rare))


def _bound(params: dict[str, Any], frame: pd.DataFrame, work: float) -> None:
    """Give a training a depth and a number of rounds that take bearable time."""
    candidates = sum(
        min(params["max_bin"], frame[name].nunique()) * (1 + frame[name].isna().any()) for name in frame.columns
    )
    while params["max_depth"] > 1 and candidates * 2 ** params["max_depth"] > work:
        params["max_depth"] -= 1
    params["n_estimators"] = int(np.clip(work / (max(1, candidates) * 2 ** params["max_depth"]), 1, 6))
