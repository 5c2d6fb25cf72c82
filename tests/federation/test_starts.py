"""[label] base_margin and scale_pos_weight between organisations: trained with, gone on with, scored with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from federation.test_record import PEOPLE, PERSONS, ROWS, organisations, score_all, stop_after, train_all
from mpfedxgb import FedXGBClassifier
from mpfedxgb.boosting.join import join
from mpfedxgb.errors import DataError, StoppedError
from mpfedxgb.federation.role import load_model
from mpfedxgb.federation.rows import read_rows
from mpfedxgb.federation.serving.bodies import RowReader, metadata
from support.refusals import refused
from support.switchboard import Organisations
from support.toy_tables import BANK, QUICK, TELECOM, labels

STARTS = np.linspace(-1.5, 1.5, len(PEOPLE))


def with_margins(folder: Path, patch: pytest.MonkeyPatch) -> Organisations:
    """Return a federation of two whose bank has a column of margins in all its files."""
    made = organisations(folder, patch)
    starts = dict(zip(PERSONS, STARTS, strict=True))
    for name in ("train", "evaluate", "score"):
        path = made.home(1) / f"{name}.csv"
        table = pd.read_csv(path)
        table.assign(start=table["person"].map(starts)).to_csv(path, index=False)
    made.edit(1, "[label]", '[label]\nbase_margin = "start"\nscale_pos_weight = 2.0')
    for role in made.roles:
        made.edit(role, "[training]", "[training]\nweighted = true")
    return made


def test_they_are_those_of_a_simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped and gone on with, too; what is scored begins at the margins of the file to score."""
    made = with_margins(tmp_path, monkeypatch)
    assert isinstance(train_all(made, callback=stop_after(1))[1], StoppedError)
    table = made.home(1) / "train.csv"
    text = table.read_text()
    pd.read_csv(table).assign(start=0.0).to_csv(table, index=False)
    assert "bank brings other labels" in str(train_all(made)[1])
    table.write_text(text)
    trained = train_all(made)[1]

    tables = {"bank": PEOPLE[BANK], "telecom": PEOPLE[TELECOM]}
    known = {name: frame[:ROWS] for name, frame in tables.items()}
    y = labels(PEOPLE, "binary")
    model = FedXGBClassifier(**QUICK, scale_pos_weight=2.0)
    model.fit(
        known, y[:ROWS], base_margin=STARTS[:ROWS], eval_set=[(known, y[:ROWS])], base_margin_eval_set=[STARTS[:ROWS]]
    )
    assert join([load_model(made.settings(role)) for role in (1, 2)]).trees == join(model.partial_models_).trees
    assert trained.metrics == model.evals_result_
    assert not [error for error in score_all(made) if isinstance(error, Exception)]
    scored = pd.read_csv(made.home(1) / "out.csv")
    later = {name: frame[ROWS:] for name, frame in tables.items()}
    expected = model.predict_proba(later, base_margin=STARTS[ROWS:])
    np.testing.assert_allclose(scored.filter(like="class_").to_numpy(), expected, rtol=0, atol=1e-12)


def test_requests_bring_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row to score needs its margin, from a file or over HTTP."""
    made = with_margins(tmp_path, monkeypatch)
    settings = made.settings(1)
    train_all(made)
    model = load_model(settings)
    assert {"name": "start", "datatype": "FP64", "shape": [-1]} in metadata(settings, "m", model)["inputs"]
    request: dict[str, list[Any]] = {f.name: [1.0, 2.0] for f in model.features}
    request |= {"person": ["b", "a"], "start": [0.25, -0.5]}
    reader = RowReader(settings, model.features)
    rows = reader.read(request)
    assert rows.base_margin is not None
    assert rows.base_margin.tolist() == [[-0.5, 0.25]]
    with refused(DataError, "mismatch", "columns"):
        reader.read({name: values for name, values in request.items() if name != "start"})
    path = made.home(1) / "score.csv"
    pd.read_csv(path).drop(columns="start").to_csv(path, index=False)
    with refused(DataError, "unknown", "start"):
        read_rows(settings, "predict", model.features)
