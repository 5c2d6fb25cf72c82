"""Sample tables: the same people everywhere, a label that can be learned, and better together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from mpfedxgb.federation.settings.template import ID, LABEL
from mpfedxgb.testing.samples import ROWS, sample_tables

NAMES = ["bank", "telecom", "retail"]


def features(purpose: str, owners: list[str]) -> tuple[dict[str, pd.DataFrame], pd.Series[int]]:
    """Return tables of numbers sorted by id, and the label."""
    tables = {owner: parts[purpose].set_index(ID).sort_index() for owner, parts in sample_tables(owners).items()}
    label = tables[owners[0]].pop(LABEL).astype(int)
    for table in tables.values():
        for name in table.columns:
            words = not pd.api.types.is_numeric_dtype(table[name])
            table[name] = table[name].astype("category").cat.codes if words else table[name].astype(float)
    return tables, label


def test_everybody_knows_the_same_people() -> None:
    """Every file lists the same ids at all participants, each in an order of its own; nobody is in two files."""
    tables = sample_tables(NAMES)
    seen: set[str] = set()
    for purpose, rows in ROWS.items():
        lists = [tables[owner][purpose][ID].tolist() for owner in NAMES]
        assert all(sorted(ids) == sorted(lists[0]) for ids in lists)
        assert lists[0] != lists[1] != lists[2]
        assert len(set(lists[0])) == rows
        assert not seen & set(lists[0])
        seen |= set(lists[0])


def test_only_the_active_participant_has_the_label() -> None:
    """And not in the rows to score."""
    tables = sample_tables(NAMES)
    having = [(owner, purpose) for owner in NAMES for purpose, frame in tables[owner].items() if LABEL in frame]
    assert having == [("bank", "train"), ("bank", "evaluate")]


def test_they_come_out_the_same_every_time() -> None:
    """Whoever tries it sees what the documents show."""
    for owner, parts in sample_tables(NAMES).items():
        for purpose, frame in parts.items():
            pd.testing.assert_frame_equal(frame, sample_tables(NAMES)[owner][purpose])


@pytest.mark.parametrize(
    "owners", [["a", "b"], ["retail", "x", "bank"], [f"p{i}" for i in range(12)], ["energy", "bank"]]
)
def test_any_participants(owners: list[str]) -> None:
    """Whatever they are called and however many they are, each gets columns of its trade, or of one that is left."""
    tables = sample_tables(owners)
    assert list(tables) == owners
    assert all(len(parts["train"].columns) >= 6 for parts in tables.values())
    if "bank" in owners:
        assert "income" in tables["bank"]["train"]


def test_it_pays_to_join() -> None:
    """The model of all columns, which the federation's equals, is good, and clearly better than the bank's alone."""
    xgboost = pytest.importorskip("xgboost")
    tables, y = features("train", NAMES)
    later, y_later = features("evaluate", NAMES)

    def auc(owners: list[str]) -> float:
        model = xgboost.XGBClassifier(n_estimators=20, learning_rate=0.2, max_depth=3, max_bin=32, n_jobs=1)
        model.fit(pd.concat([tables[owner] for owner in owners], axis=1), y)
        scores = model.predict_proba(pd.concat([later[owner] for owner in owners], axis=1))[:, 1]
        return float(roc_auc_score(y_later, scores))

    assert auc(NAMES) > 0.78
    assert auc(NAMES) > auc(["bank"]) + 0.03
    assert 0.2 < np.mean(y) < 0.5
