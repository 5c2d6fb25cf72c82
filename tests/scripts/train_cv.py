"""XGBoost's own functions on its own table."""

import xgboost as xgb

from support.whole_numbers import whole_numbers

X, y = whole_numbers("classes", classes=2)
table = xgb.DMatrix(X, label=y)
params = {
    "objective": "binary:logistic",
    "eta": 0.4,
    "max_depth": 2,
    "max_bin": 16,
    "lambda": 1.5,
    "alpha": 0.2,
    "eval_metric": ["auc", "logloss"],
}
seen: dict[str, dict[str, list[float]]] = {}
booster = xgb.train(params, table, num_boost_round=3, evals=[(table, "train")], evals_result=seen, verbose_eval=False)
folds = xgb.cv(params, table, num_boost_round=3, nfold=3, early_stopping_rounds=2, seed=1)
result = {"auc": seen["train"]["auc"], "logloss": seen["train"]["logloss"], **{name: folds[name] for name in folds}}
