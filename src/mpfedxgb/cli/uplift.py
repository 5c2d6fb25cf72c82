"""`simulate --uplift`: the first participant alone, and all together, on the same folds."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import typer

from mpfedxgb.api.estimators import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.api.federated_table import FederatedTable
from mpfedxgb.api.ranker import FedXGBRanker
from mpfedxgb.api.tables import places_of
from mpfedxgb.api.uplift import uplift
from mpfedxgb.atomic import write_file
from mpfedxgb.cli.labels import Rows
from mpfedxgb.errors import SettingsError
from mpfedxgb.modes.facts import STRICT, facts_of

PAGE, NUMBERS = "uplift.html", "uplift.json"

_OF_A_FEDERATION = ("participants", "coordinator", "id", "client", "verbosity", "security")
_OF_FUNCTIONS = ("n_estimators", "callbacks", "early_stopping_rounds")


def compare_alone(
    model: FedXGBClassifier | FedXGBRegressor,
    rows: Rows,
    folds: int,
    out: Path,
    as_json: bool,
) -> None:
    """Print what others bring over the first participant's columns, with a model's parameters; write numbers and page.

    Classes share in every fold alike.
    """
    X, y = rows
    same_model, alone = facts_of(model.security).same_model_as == STRICT.name, model.early_stopping_rounds is None
    for is_fine, name, value in (
        (same_model, "security", model.security),
        (alone, "early_stopping_rounds", model.early_stopping_rounds),
        (model.coordinator is None, "coordinator", model.coordinator),
    ):
        if not is_fine:
            text = f"--{name.replace('_', '-')} {value} does not go with --uplift, which trains every fold to its end"
            raise SettingsError(f"{text}, in one process and by the rules of strict; leave it out", "mode", name, value)
    params = {name: value for name, value in model.get_params().items() if name not in _OF_A_FEDERATION + _OF_FUNCTIONS}
    if not isinstance(model, FedXGBRegressor):
        y = pd.Series(pd.factorize(y, sort=True)[0], index=y.index)
    y, qid = (y.iloc[:, 0], y.iloc[:, 1]) if isinstance(model, FedXGBRanker) else (y, None)
    table = FederatedTable({who: X.iloc[:, own] for who, own in places_of(X, model.participants).items()}, y, qid=qid)
    stratified = isinstance(model, FedXGBClassifier)
    found = uplift(params, table, model.n_estimators, nfold=folds, stratified=stratified)
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found.to_dict(), indent=1)
    write_file(out / NUMBERS, text + "\n")
    found.report(out / PAGE)
    typer.echo(text if as_json else f"{found}\n\nwritten to {out}: {PAGE}, {NUMBERS}")
