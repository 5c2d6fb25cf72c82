"""Rows in groups, ranked within each."""

import numpy as np
from xgboost import XGBRanker

from support.whole_numbers import whole_numbers

X, y = whole_numbers("classes", classes=3)
qid = np.arange(len(X)) // 12
model = XGBRanker(
    objective="rank:ndcg",
    n_estimators=3,
    max_depth=2,
    max_bin=16,
    lambdarank_pair_method="topk",
    eval_metric="ndcg@5",
)
model.fit(X, y, qid=qid, eval_set=[(X, y)], eval_qid=[qid], verbose=False)
result = {"ndcg": model.evals_result()["validation_0"]["ndcg@5"], "scores": model.predict(X)}
