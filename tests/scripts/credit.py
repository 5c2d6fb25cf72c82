"""A classifier with early stopping on rows that are kept back, samples of rows and columns, and a heavier class."""

from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

from support.whole_numbers import whole_numbers

X, y = whole_numbers("classes", rows=240, classes=2)
X_train, X_late, y_train, y_late = train_test_split(X, y, stratify=y, random_state=1)
model = XGBClassifier(
    n_estimators=40,
    max_depth=2,
    max_bin=16,
    learning_rate=0.5,
    subsample=0.8,
    colsample_bytree=0.8,
    reg_alpha=0.5,
    reg_lambda=2.0,
    scale_pos_weight=(y_train == 0).sum() / (y_train == 1).sum(),
    eval_metric="auc",
    early_stopping_rounds=3,
    tree_method="hist",
    n_jobs=2,
    random_state=7,
)
model.fit(X_train, y_train, eval_set=[(X_late, y_late)], verbose=10)
result = {
    "is good": roc_auc_score(y_late, model.predict_proba(X_late)[:, 1]) > 0.8,
    "has stopped": model.best_iteration < 39,
    "keeps the best": model.best_score == max(model.evals_result()["validation_0"]["auc"]),
}
