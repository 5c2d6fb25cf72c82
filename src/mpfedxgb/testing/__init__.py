"""Tools to try a federation with: samples, all roles on one machine, and the comparison with `xgboost`."""
