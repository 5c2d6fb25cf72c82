"""XGBRanker's counterpart: rows are ranked within groups that the active participant alone knows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from mpfedxgb.api.base import Groups
from mpfedxgb.api.estimators import FedXGBRegressor
from mpfedxgb.api.federated_table import FederatedTable, check_sorted
from mpfedxgb.api.row_order import RowOrder
from mpfedxgb.api.settings import read_metrics, reject_unknown_kwargs
from mpfedxgb.api.tables import row_order
from mpfedxgb.boosting.labels import read_groups, weights_of_groups
from mpfedxgb.boosting.metrics import named_metrics
from mpfedxgb.boosting.objective import Floats, Objective, Origin
from mpfedxgb.boosting.objectives import OBJECTIVES, RANKINGS, objective_error
from mpfedxgb.errors import DataError


class FedXGBRanker(FedXGBRegressor):
    """Federated XGBoost that ranks rows within groups, such as the documents of a query.

    Parameters and attributes as in `FedXGBClassifier`; `objective` is "rank:ndcg" (default), "rank:pairwise" or
    "rank:map", and labels are grades, or 0 and 1 for "rank:map". The active participant alone knows the groups.
    """

    @reject_unknown_kwargs
    def fit(  # type: ignore[override] # XGBRanker's arguments, which a regressor has not
        self,
        X: Any,
        y: Any = None,
        *,
        group: Any = None,
        qid: Any = None,
        sample_weight: Any = None,
        base_margin: Any = None,
        eval_set: Any = None,
        eval_group: Any = None,
        eval_qid: Any = None,
        verbose: Any = False,
        xgb_model: Any = None,
        sample_weight_eval_set: Any = None,
        base_margin_eval_set: Any = None,
    ) -> Self:
        """Train on rows in groups.

        Parameters
        ----------
        X, y, base_margin, eval_set, verbose, xgb_model, base_margin_eval_set
            As in `FedXGBClassifier.fit`.
        group : array of shape (groups,) or None
            The sizes of the groups, whose rows follow each other; in place of qid.
        qid : array of shape (rows,), or None for that of a FederatedTable
            The group of each row, sorted.
        sample_weight : array of shape (groups,) or (rows,), or None
            Groups are weighed as a whole; of rows, those of a group have one weight.
        eval_group, eval_qid, sample_weight_eval_set : list of arrays or None
            The same of each evaluation set.
        """
        groups = Groups(_group_ids(group, qid, "group", "qid"), _each_group_ids(eval_group, eval_qid))
        given = X, y, sample_weight, eval_set, sample_weight_eval_set
        return self._train(given, xgb_model, verbose, (base_margin, base_margin_eval_set), groups)

    def _beside(
        self, X: Any, y: Any, qid: Any, rows: tuple[RowOrder, int], names: tuple[str, str]
    ) -> tuple[Any, npt.NDArray[Any] | None]:
        """Return labels and the number of each row's group."""
        name = names[1]
        check_sorted(qid, name)
        given = X.qid if qid is None and isinstance(X, FederatedTable) else qid
        if given is None:
            text = f"{name} is missing: rows are ranked within groups; give the group of each row"
            raise DataError(text, "missing", name)
        order, count = rows
        ids = np.asarray(order.put(given, name))
        if ids.shape != (count,):
            text = f"{name} has shape {ids.shape} for {count} rows; give the group of each row"
            raise DataError(text, "mismatch", name, ids.shape)
        return y, read_groups(ids, Origin(name))

    def _weights(
        self, weight: Any, beside: npt.NDArray[Any] | None, rows: tuple[RowOrder, int], name: str
    ) -> Floats | None:
        """Return weights of rows that make groups weigh 1 on average."""
        assert beside is not None, "groups are read before weights"
        order, count = rows
        groups = int(beside.max()) + 1
        if weight is not None and np.shape(weight) == (groups,) != (count,):
            weight, order = np.asarray(weight)[beside], RowOrder(order.owner)  # by group, as XGBoost has them
        found = super()._weights(weight, beside, (order, count), name)
        return None if found is None else weights_of_groups(found, beside, Origin(name))

    def _loss(self) -> Objective:
        name = self.objective or RANKINGS[0]
        if name not in RANKINGS:
            raise objective_error(name, "is not for ranking", f"use {', '.join(RANKINGS)}")
        return OBJECTIVES[name]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, qid: Any = None) -> float:
        """Return the last of eval_metric for rows in groups, or the objective's own: NDCG or MAP."""
        check_is_fitted(self, "partial_models_")
        params = self.partial_models_[0].params
        y, sample_weight = self._as_predicted(X, y, sample_weight)
        order, scores = row_order(X, self.id, self.partial_models_[0].name), self.predict(X, output_margin=True)
        labels, groups = self._beside(X, y, qid, (order, len(scores)), ("y", "qid"))
        weight = self._weights(sample_weight, groups, (RowOrder(order.owner), len(scores)), "sample_weight")
        asked = read_metrics(self.eval_metric, params.objective) or [params.loss.default_metric]
        metric = next(reversed(named_metrics(asked, params.of_objectives).values()))
        return metric(self._encode(labels, len(scores), "y"), scores[None], weight, groups)


def _group_ids(group: Any, qid: Any, *names: str) -> Any:
    """Return the group of each row, also from the sizes of groups."""
    if group is None:
        return qid
    sizes = np.asarray(group)
    if qid is not None:
        raise DataError(f"{names[0]} and {names[1]} say the same; give one of them", "mismatch", names[0])
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 0).any():
        raise DataError(f"{names[0]} is no list of sizes; give how many rows each group has", "value", names[0])
    return np.repeat(np.arange(len(sizes)), sizes)


def _each_group_ids(group: Any, qid: Any) -> Any:
    if group is None:
        return qid
    return [_group_ids(sizes, None if qid is None else 0, "eval_group", "eval_qid") for sizes in group]
