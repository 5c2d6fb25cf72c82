"""Where the xgboost that is installed decides otherwise than the one whose rules this project follows."""

from __future__ import annotations

import pytest
import xgboost

IS_3_4 = tuple(int(part) for part in xgboost.__version__.split(".")[:2]) >= (3, 4)

RULES_OF_3_3 = pytest.mark.skipif(
    IS_3_4, reason="XGBoost 3.4 has other rules for light roots and for sides without hessian: see docs/parameters.md"
)
