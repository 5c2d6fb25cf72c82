"""Words, numbers that may be missing, truth values, and a sparse matrix whose zeros are missing."""

import numpy as np
import pandas as pd
import scipy.sparse as sp
from xgboost import XGBClassifier

from support.whole_numbers import whole_numbers

X, y = whole_numbers("classes", classes=2)
table = X.assign(
    city=pd.Categorical(np.array(["Basel", "Lagos", "Quito"])[X["c"] // 4]),
    b=X["b"].where(X["b"] > 2).astype("Int64"),
    d=(X["d"] > 5).astype("boolean"),
).drop(columns="c")
model = XGBClassifier(n_estimators=3, max_depth=2, max_bin=16, enable_categorical=True, tree_method="hist")
model.fit(table, y)
held = sp.csr_matrix(np.where(X > 4, X, 0).astype(float))
thin = XGBClassifier(n_estimators=3, max_depth=2, max_bin=16, missing=0.0).fit(held, y)
result = {"mixed": model.predict_proba(table), "sparse": thin.predict_proba(held)}
