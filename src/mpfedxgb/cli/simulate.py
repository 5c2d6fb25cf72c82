"""`simulate`, `predict` and `show`: a federation in one process, from files to files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from rich.console import Console

from mpfedxgb.api.estimators import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.api.models import load_models, load_parts, predict_margins
from mpfedxgb.api.tables import cut_as_trained
from mpfedxgb.atomic import write_file
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.objectives import FOR_NUMBERS, NAMED
from mpfedxgb.cli.files import read_table, take_label
from mpfedxgb.config import SessionSettings
from mpfedxgb.data.files import write_table
from mpfedxgb.errors import SettingsError
from mpfedxgb.report.trees import model_text


def simulate(
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file with all columns and the label.")],
    label: Annotated[str, typer.Option(help="Name of the label column.")],
    out: Annotated[Path, typer.Option(help="Folder for the partial models and the record of the run.")],
    participants: Annotated[
        str,
        typer.Option(help="A number, fractions of the columns such as 0.1,0.2,0.3,0.4, or a;b,c;d by column names."),
    ] = "2",
    objective: Annotated[
        str,
        typer.Option(help=f"{', '.join(NAMED[:-1])} or {NAMED[-1]}; chosen by the label."),
    ] = "",
    trees: Annotated[int, typer.Option(help="Number of rounds.")] = 100,
    max_depth: Annotated[int, typer.Option(help="Levels of splits.")] = 3,
    max_bin: Annotated[int, typer.Option(help="Bins per column.")] = 32,
    learning_rate: Annotated[float, typer.Option(help="Shrinks every leaf weight.")] = 0.3,
    reg_lambda: Annotated[float, typer.Option(help="L2 penalty on leaf weights.")] = 1.0,
    gamma: Annotated[float, typer.Option(help="Least gain of a split, in XGBoost's scale.")] = 0.0,
    min_child_weight: Annotated[float, typer.Option(help="Least sum of hessians on either side of a split.")] = 1.0,
    subsample: Annotated[float, typer.Option(help="Share of rows per round.")] = 1.0,
    colsample_bytree: Annotated[float, typer.Option(help="Share of columns per tree.")] = 1.0,
    first_layer_mask: Annotated[bool, typer.Option(help="Let only the active participant split the root.")] = False,
    security: Annotated[
        str, typer.Option(help="strict, or paper: the paper's algorithms as printed, which reveal more.")
    ] = "strict",
    binning: Annotated[
        str, typer.Option(help="quantile (at most max-bin bins), or paper: the sketch of the paper's code.")
    ] = "quantile",
    insecure_seed: Annotated[int | None, typer.Option(help="Makes the run repeat. Never for real data.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record of the run as JSON.")] = False,
) -> None:
    """Train a federation in this process: cut a table by columns, one part per participant, and write their models."""
    if out.exists() and not out.is_dir():
        raise SettingsError(f"--out {out} is a file; give a folder for the models")
    X, y = take_label(read_table(table), label)
    regression = objective in FOR_NUMBERS or (not objective and y.dtype.kind == "f" and y.nunique() > 20)
    kind = FedXGBRegressor if regression else FedXGBClassifier
    model = kind(
        participants=parse_participants(participants),
        objective=objective or None,
        n_estimators=trees,
        max_depth=max_depth,
        max_bin=max_bin,
        learning_rate=learning_rate,
        reg_lambda=reg_lambda,
        gamma=gamma,
        min_child_weight=min_child_weight,
        subsample=subsample,
        colsample_bytree=colsample_bytree,
        first_layer_mask=first_layer_mask,
        security=security,
        binning=binning,
        insecure_seed=insecure_seed,
        verbosity=0 if as_json else 1,
    )
    model.fit(X, y)
    paths = model.save_model(out)
    write_file(out / "run.json", model.run_.to_json() + "\n")
    if as_json:
        typer.echo(model.run_.to_json())
        return
    typer.echo(str(model.run_))
    typer.echo(f"\nwritten to {out}: {', '.join(path.name for path in paths)}, run.json")


def predict(
    models: Annotated[Path, typer.Argument(help="Folder with all participants' models, as simulate writes it.")],
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file with the columns of all participants.")],
    out: Annotated[
        Path | None, typer.Option(help="CSV or Parquet file for the predictions; standard output if not given.")
    ] = None,
) -> None:
    """Score a table jointly: every participant contributes its own splits, and only the prediction is revealed."""
    parts = load_models(models)
    wanted = {part.name: [f.name for f in part.features] for part in parts}
    frame = read_table(table, {f.name for part in parts for f in part.features if f.categories is not None})
    margins, _ = predict_margins(parts, cut_as_trained(frame, wanted, more_columns=True), SessionSettings())
    result = _predictions(parts[0], margins)
    if out is None:
        result.to_csv(typer.get_text_stream("stdout"), index=False)
    else:
        write_table(result, out)


def _predictions(active: PartialModel, margins: Floats) -> pd.DataFrame:
    """Return the prediction of every row; for a classifier the likeliest class and the probability of each."""
    if active.classes is None:
        return pd.DataFrame({"prediction": active.params.loss.transform(margins)[0]})
    probabilities = active.params.loss.probabilities(margins).T
    result = pd.DataFrame(probabilities, columns=pd.Index([f"class_{name}" for name in active.classes]))
    result.insert(0, "prediction", np.array(active.classes)[probabilities.argmax(axis=1)])
    return result


def show(models: Annotated[Path, typer.Argument(help="Folder with partial models.")]) -> None:
    """Print each participant's partial trees: its own splits in words, Dummy for the others'."""
    console = Console(highlight=False, soft_wrap=True)
    for part in load_parts(models):
        console.print(model_text(part), markup=False)
        console.print()


def parse_participants(text: str) -> int | list[float] | list[list[str]]:
    """Return what --participants means: a number, fractions, or groups of column names."""
    if ";" in text:
        return [[name.strip() for name in group.split(",") if name.strip()] for group in text.split(";")]
    try:
        if "," not in text:
            return int(text)
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise SettingsError(
            f"--participants {text} is not understood; give a number such as 4, fractions such as 0.1,0.2,0.3,0.4, "
            "or column names such as age,income;visits,calls (one group per participant)"
        ) from None
