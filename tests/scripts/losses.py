"""One regressor for each kind of number."""

from xgboost import XGBRegressor

from support.whole_numbers import whole_numbers

X, y = whole_numbers("numbers")
counts = (4 * y).round()
labels = {
    "reg:squarederror": (y, {}),
    "count:poisson": (counts, {"max_delta_step": 0.7}),
    "reg:tweedie": (counts, {"tweedie_variance_power": 1.3}),
    "reg:gamma": (y + 0.01, {}),
    "reg:quantileerror": (y, {"quantile_alpha": 0.9}),
    "reg:absoluteerror": (y, {}),
    "reg:squaredlogerror": (y, {}),
    "reg:pseudohubererror": (y, {"huber_slope": 0.5}),
}
result = {}
for objective, (label, more) in labels.items():
    model = XGBRegressor(objective=objective, n_estimators=2, max_depth=2, max_bin=16, **more).fit(X, label)
    result[objective] = model.predict(X)
