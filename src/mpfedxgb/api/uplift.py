"""Alone or together: what a federation brings over the active participant's own columns, by cross-validation.

Both models are trained on the same folds with security="none", so all tables are in one place: for experiments, before
anybody sets a federation up. Its models are those that security="strict" would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mpfedxgb.api.federated_table import FederatedTable
from mpfedxgb.api.functions import Metrics, Params, metrics_of_folds, more_is_better, read_folds
from mpfedxgb.api.models import save_text
from mpfedxgb.errors import DataError, SettingsError
from mpfedxgb.modes.facts import NONE, facts_of
from mpfedxgb.report.html.page import uplift_html
from mpfedxgb.report.html.pictures import Curve, curve

_TEST = "test"


@dataclass(frozen=True, slots=True)
class Uplift:
    """Metrics of test rows, fold by fold, of the active participant's columns alone and of everybody's together."""

    participants: tuple[str, ...]
    rounds: int
    alone: Sequence[Metrics] = field(repr=False)
    together: Sequence[Metrics] = field(repr=False)

    @property
    def metrics(self) -> list[str]:
        """The metrics, by name."""
        return list(self.together[0][_TEST])

    @property
    def frame(self) -> pd.DataFrame:
        """Each metric after the last boosting round: a row a fold, columns alone, together and their difference."""
        parts = {}
        for name in self.metrics:
            alone, together = (np.array([one[_TEST][name][-1] for one in of]) for of in (self.alone, self.together))
            parts[name] = pd.DataFrame({"alone": alone, "together": together, "difference": together - alone})
        frame = pd.concat(parts, axis=1)
        frame.index.name = "fold"
        return frame

    @property
    def summary(self) -> pd.DataFrame:
        """Each metric's means, the mean difference, its standard deviation over folds, and in how many it is better."""
        rows, frame = {}, self.frame
        for name in self.metrics:
            own = frame[name]
            sign = 1 if more_is_better(name) else -1
            rows[name] = {
                "alone": own["alone"].mean(),
                "together": own["together"].mean(),
                "difference": own["difference"].mean(),
                "spread": own["difference"].std(ddof=1),
                "better": int((sign * own["difference"] > 0).sum()),
            }
        return pd.DataFrame.from_dict(rows, orient="index")

    def __str__(self) -> str:
        """Return both tables as text."""
        active, folds = self.participants[0], len(self.together)
        lines = [f"{active} alone and {' + '.join(self.participants)} together, {folds} folds, {self.rounds} rounds"]
        for name, row in self.summary.iterrows():
            own = self.frame[str(name)]
            lines += ["", f"{name:20}{'alone':>12}{'together':>12}{'difference':>12}"]
            lines += [
                f"{f'fold {i + 1}':20}{a:>12.5f}{b:>12.5f}{d:>+12.5f}" for i, (a, b, d) in enumerate(own.to_numpy())
            ]
            lines += [f"{'mean':20}{row['alone']:>12.5f}{row['together']:>12.5f}{row['difference']:>+12.5f}"]
            lines += [
                f"together is better in {row['better']:.0f} of {folds} folds; the difference has a standard deviation "
                f"of {row['spread']:.5f}"
            ]
        return "\n".join(lines)

    def curves(self) -> list[Curve]:
        """Return each metric over the boosting rounds, the mean of all folds, as a drawing."""
        names = {f"{self.participants[0]} alone": self.alone, "together": self.together}
        drawn = []
        for name in self.metrics:
            lines = {who: np.mean([one[_TEST][name] for one in of], axis=0).tolist() for who, of in names.items()}
            drawn.append(curve(name, lines))
        return [one for one in drawn if one is not None]

    def report(self, path: str | Path) -> Path:
        """Write a page with the numbers and a drawing of each metric, and return its path."""
        return save_text(uplift_html(self), Path(path))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: participants, and for each metric its folds and its summary."""
        metrics: dict[str, Any] = {}
        for name, row in self.summary.iterrows():
            folds = {column: values.tolist() for column, values in self.frame[name].items()}
            metrics[str(name)] = {"folds": folds, **row.to_dict()}
        return {"participants": list(self.participants), "rounds": self.rounds, "metrics": metrics}


def uplift(
    params: Params,
    table: FederatedTable,
    num_boost_round: int = 10,
    *,
    nfold: int = 5,
    stratified: bool = False,
    folds: Any = None,
    seed: int = 0,
    shuffle: bool = True,
) -> Uplift:
    """Return what everybody's columns bring over the active participant's, on the same folds, computed in the clear.

    Parameters
    ----------
    params : dict or list of pairs
        As in `train`; "security" is "none".
    table : FederatedTable
        Of two or more participants, with a label.
    num_boost_round, nfold, stratified, folds, seed, shuffle
        As in `cv`.
    """
    own = dict(params)
    if facts_of(own.setdefault("security", NONE.name)).runs_a_protocol:
        text = f"security={own['security']!r} is not for uplift, which has all tables in one place; leave it out"
        raise SettingsError(text, "mode", "security", own["security"])
    chosen = list(read_folds(table, nfold, stratified, folds, seed, shuffle))
    names = tuple(table.tables)
    if len(names) < 2:
        text = f"table has the columns of {names[0]} alone; add the tables of those who might join"
        raise DataError(text, "few", "participants", 1)
    more = {"base_margin": table.base_margin, "missing": table.missing, "qid": table.qid}
    one = FederatedTable({names[0]: table.tables[names[0]]}, table.label, table.weight, **more)
    alone, together = (metrics_of_folds(own, some, num_boost_round, chosen) for some in (one, table))
    return Uplift(names, num_boost_round, alone, together)
