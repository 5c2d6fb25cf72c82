"""Predictions that may only grow with some columns."""

import numpy as np
from xgboost import XGBClassifier

from support.whole_numbers import whole_numbers

X, y = whole_numbers("classes", classes=2)
model = XGBClassifier(n_estimators=4, max_depth=3, max_bin=16, monotone_constraints={"a": 1, "e": -1}).fit(X, y)
grid = X.head(20)
paths = {
    name: np.array([model.predict_proba(grid.assign(**{name: value}))[:, 1] for value in range(0, 12, 3)])
    for name in ("a", "e")
}
result = {
    "grows": (np.diff(paths["a"], axis=0) >= 0).all(),
    "falls": (np.diff(paths["e"], axis=0) <= 0).all(),
    "probabilities": model.predict_proba(X),
}
