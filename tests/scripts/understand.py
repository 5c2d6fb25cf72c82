"""What a model has learnt: contributions, calibration, permutations, partial dependence, leaves."""

import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.inspection import partial_dependence, permutation_importance
from xgboost import DMatrix, XGBClassifier

from support.whole_numbers import whole_numbers

X, y = whole_numbers("classes", classes=2)
X = X.astype(float)
model = XGBClassifier(n_estimators=3, max_depth=2, max_bin=16).fit(X, y)
contributions = model.get_booster().predict(DMatrix(X), pred_contribs=True)
share, mean = calibration_curve(y, model.predict_proba(X)[:, 1], n_bins=4)
drops = permutation_importance(model, X.head(60), y.head(60), n_repeats=1, random_state=0).importances_mean
curve = partial_dependence(
    model, X.head(40), ["a"], kind="average", grid_resolution=13, response_method="predict_proba"
)
result = {
    "contributions": contributions,
    "they add up": np.abs(contributions.sum(axis=1) - model.predict(X, output_margin=True)).max() < 1e-5,
    "calibration": [*share, *mean],
    "importances": drops,
    "weights": sorted(model.get_booster().get_score(importance_type="weight").items()),
    "gains": model.feature_importances_,
    "curve": curve["average"],
    "leaves": model.apply(X),
    "classes and start": [model.n_classes_, *model.intercept_],
}
