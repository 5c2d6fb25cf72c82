"""A search over a pipeline that turns words into columns, kept in a file."""

import io

import joblib
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from xgboost import XGBClassifier

from support.whole_numbers import whole_numbers

X, y = whole_numbers("classes", classes=2)
X = X.assign(city=pd.Series(["Basel", "Lagos", "Quito", "Riga"]).take(X["c"] // 3).to_numpy())
shape = ColumnTransformer(
    [("words", OneHotEncoder(handle_unknown="ignore"), ["city"]), ("numbers", StandardScaler(), ["a", "b", "e"])]
)
booster = XGBClassifier(n_estimators=3, max_bin=64, booster="dart", rate_drop=0.0)
search = GridSearchCV(Pipeline([("shape", shape), ("model", booster)]), {"model__max_depth": [1, 2]}, cv=2).fit(X, y)
file = io.BytesIO()
joblib.dump(search.best_estimator_, file)
again = joblib.load(io.BytesIO(file.getvalue()))
result = {
    "scores": search.cv_results_["mean_test_score"],
    "the same from a file": (again.predict(X) == search.predict(X)).all(),
}
