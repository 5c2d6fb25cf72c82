"""Tables and labels are not shown in text, and what other roles are told of an error does not quote them."""

from __future__ import annotations

import numpy as np
import pytest

from mpfedxgb.boosting.active import Labels
from mpfedxgb.boosting.objectives import CUSTOM, OBJECTIVES
from mpfedxgb.boosting.parts import TrainData
from mpfedxgb.data.binning import Bins
from mpfedxgb.data.table import Column, Table
from mpfedxgb.errors import UserError, public_reason
from support.refusals import refused

LABEL = 739184.0


def test_text_of_tables_and_labels_shows_no_value() -> None:
    """A participant's columns, bins, labels, weights and sampling key are shown by name and number only."""
    many = np.full(9, LABEL)
    column = Column("age", many.astype(np.float32), (str(LABEL),))
    table = Table("P1", (column,), 9)
    labels = Labels(many, many, [many], [many], base_score=LABEL)
    data = TrainData(table, [table], labels, sample_key=str(LABEL))
    bins = Bins(table, (many.astype(np.float32),), (2,), (False,), np.full((1, 9), 73, np.uint8))

    for thing in (column, table, labels, data, bins):
        for text in (repr(thing), str(thing), f"{thing}"):
            assert "739184" not in text
            assert "73 73" not in text
            assert "73, 73" not in text


def test_error_in_a_custom_objective_quotes_no_label_to_others() -> None:
    """A custom objective may fail with any text; the others are told the type of the error only."""

    def objective(y: object, margin: object) -> object:
        return int(f"{LABEL}?")

    with refused(UserError, "type", "objective") as caught:
        CUSTOM.with_function(objective).gradients(np.array([LABEL]), np.zeros((1, 1)))

    assert str(LABEL) not in public_reason(caught.value)


@pytest.mark.parametrize("objective", ["binary:logistic", "count:poisson"])
def test_impossible_mean_of_the_labels_is_not_told_to_others(objective: str) -> None:
    """The mean of the labels, where it serves as base_score, stays with the active participant."""
    with pytest.raises(UserError, match=str(LABEL)) as caught:
        OBJECTIVES[objective].base_margin(np.array([-LABEL]), None, None, 1)

    assert str(LABEL) not in public_reason(caught.value)
