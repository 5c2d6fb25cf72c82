"""A participant's page holds what that participant may know: nothing of the others' columns, weights or metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpfedxgb import FedXGBClassifier
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Leaf, Split
from mpfedxgb.units import bytes_text, short, signed
from support.toy_tables import halves, labels, people


@pytest.fixture(scope="module")
def fitted() -> FedXGBClassifier:
    """Return a model with splits of both participants, an evaluation set and categories."""
    X = people(120)
    names = {name: f"{name}-4711" for name in X.columns}
    tables = {owner: table.rename(columns=names) for owner, table in halves(X).items()}
    y = labels(X, "binary")
    model = FedXGBClassifier(n_estimators=8, max_depth=3, max_bin=8)
    return model.fit(tables, y, eval_set=[(tables, y)])


def secrets_of(part: PartialModel) -> set[str]:
    """Return texts that only a participant knows: names of columns and categories, conditions, weights, gains."""
    found = {f.name for f in part.features} | {c for f in part.features for c in f.categories or ()}
    for tree in part.trees:
        for node in tree:
            if isinstance(node, Leaf):
                if node.weight:
                    value = node.weight / 2**WEIGHT_BITS
                    found |= {signed(value), f"{value:.6g}", str(node.weight)}
                continue
            if node.gain is not None:
                found |= {f"gain {short(node.gain)}", f"{node.gain:.6g}"}
            if isinstance(node, Split) and node.threshold is not None:
                found |= {f"\u2264 {short(node.threshold)}", repr(node.threshold)}
    return {text for text in found if len(text) > 4}


def test_each_page_keeps_the_others_secrets(fitted: FedXGBClassifier, tmp_path: Path) -> None:
    """All that the one page shows of its own is missing in the other, in any form that a page uses."""
    bank, telecom = fitted.partial_models_
    pages = {p.name: fitted.report(tmp_path / f"{p.name}.html", p.name).read_text() for p in (bank, telecom)}
    own = {part.name: secrets_of(part) for part in (bank, telecom)}
    common = own["bank"] & own["telecom"]
    for part in (bank, telecom):
        others = own["bank" if part is telecom else "telecom"] - common
        assert len(others) > 10
        assert [text for text in others if text in pages[part.name]] == []
    shown = [text for text in own["bank"] if text in pages["bank"]]
    assert len(shown) > 10, "the test would notice, since pages do show what is their own"


def test_metrics_stay_with_the_active_participant(fitted: FedXGBClassifier, tmp_path: Path) -> None:
    """Neither a curve nor a number of it is in an auxiliary's page."""
    ((metric, values),) = fitted.evals_result_["validation_0"].items()
    active = fitted.report(tmp_path / "bank.html").read_text()
    auxiliary = fitted.report(tmp_path / "telecom.html", "telecom").read_text()
    assert short(values[-1]) in active
    assert short(values[-1]) not in auxiliary
    assert metric not in auxiliary
    assert 'class="curve' not in auxiliary


def test_each_has_its_own_counts_only(fitted: FedXGBClassifier, tmp_path: Path) -> None:
    """What others sent, each to whom, is not in a page; what this one sent and received is."""
    own, others = fitted.run_.roles["telecom"], fitted.run_.roles["bank"]
    assert bytes_text(own.bytes_sent) != bytes_text(others.bytes_sent)
    html = fitted.report(tmp_path / "telecom.html", "telecom").read_text()
    assert f"{bytes_text(own.bytes_sent)} left" in html
    assert bytes_text(others.bytes_sent) not in html
