"""A random search over penalties, samples and shapes of trees."""

from scipy.stats import uniform
from sklearn.model_selection import RandomizedSearchCV
from xgboost import XGBClassifier

from support.whole_numbers import whole_numbers

X, y = whole_numbers("classes", classes=2)
space = {
    "reg_alpha": uniform(0, 2),
    "max_delta_step": [0, 1],
    "min_child_weight": [1, 5],
    "gamma": [0, 0.5],
    "learning_rate": [0.1, 0.3],
    "max_depth": [2, 3],
    "scale_pos_weight": [1, 10],
    "num_parallel_tree": [1, 2],
}
model = XGBClassifier(n_estimators=3, max_bin=16, booster="gbtree", device="cpu", colsample_bylevel=1.0)
search = RandomizedSearchCV(model, space, n_iter=4, cv=2, scoring="roc_auc", random_state=3).fit(X, y)
result = {"scores": search.cv_results_["mean_test_score"], "best": sorted(map(str, search.best_params_.items()))}
