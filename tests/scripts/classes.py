"""Many classes under cross-validation, with names for labels."""

from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.preprocessing import LabelEncoder
from xgboost import XGBClassifier

from support.whole_numbers import whole_numbers

X, y = whole_numbers("classes", classes=3)
codes = LabelEncoder().fit_transform(y.map({0: "low", 1: "middle", 2: "top"}))
model = XGBClassifier(n_estimators=2, max_depth=2, max_bin=16, objective="multi:softmax")
result = {
    "scores": cross_val_score(model, X, codes, cv=3),
    "probabilities": cross_val_predict(model, X, codes, cv=2, method="predict_proba"),
}
