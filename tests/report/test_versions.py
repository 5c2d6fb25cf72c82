"""Versions are found whatever name a package was installed under."""

from __future__ import annotations

import numpy as np
import xgboost

from mpfedxgb.report.versions import version_of, versions


def test_versions_are_those_of_the_modules() -> None:
    """Xgboost's is found too where the module came from the distribution xgboost-cpu."""
    assert version_of("numpy") == np.__version__
    assert version_of("xgboost") == xgboost.__version__


def test_what_a_report_says_of_its_machine() -> None:
    """Python and the packages that matter most, this one first among them."""
    found = versions()
    assert list(found)[:2] == ["Python", "mpfedxgb"]
    assert all(found.values())


def test_a_package_that_is_not_there() -> None:
    """It has no version, and that is no error."""
    assert version_of("no-such-package-of-mpfedxgb") == ""
