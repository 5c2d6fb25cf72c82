"""Whether the xgboost that is installed has the rules that this project follows."""

from __future__ import annotations

import xgboost

from mpfedxgb.testing.comparison import has_older_rules

IS_3_4 = not has_older_rules(xgboost.__version__)
