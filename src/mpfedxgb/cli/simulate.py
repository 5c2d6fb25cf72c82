"""`simulate`, `predict` and `show`: a federation in one process, from files to files.

Which rows a simulation judges its model by, and how well it does there.

Columns that a command line names: those to leave out, and the label.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.console import Console

from mpfedxgb.api.estimators import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.api.models import load_models, load_parts, predict_margins, refuse_other_parts
from mpfedxgb.api.ranker import FedXGBRanker
from mpfedxgb.api.tables import cut_as_trained
from mpfedxgb.atomic import write_file
from mpfedxgb.boosting.metrics import METRICS
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.objectives import FOR_NUMBERS, NAMED, RANKINGS, for_classes
from mpfedxgb.cli.labels import check_beside, choose_evaluation_rows, fit, score, with_column
from mpfedxgb.cli.uplift import compare_alone
from mpfedxgb.config import SessionSettings
from mpfedxgb.data.csv_format import CsvFormat
from mpfedxgb.data.directions import read_direction
from mpfedxgb.data.files import read_table, write_table
from mpfedxgb.errors import DataError, SettingsError
from mpfedxgb.modes.facts import NONE_WARNING, facts_of
from mpfedxgb.report.trees import model_text


def listed(names: str) -> list[str]:
    """Return names that are separated by commas."""
    return [name.strip() for name in names.split(",") if name.strip()]


def read_labelled(
    path: Path, label: str, drop: str, categorical: str, csv: CsvFormat
) -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Return the columns of a file without the label and those that are left out, and the label."""
    dropped = listed(drop)
    frame = read_table(path, listed(categorical), csv=csv, exact=[label], may_mix=dropped.__contains__)
    return take_label(leave_out(frame, dropped), label, str(path))


def leave_out(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return a table without some columns."""
    for name in names:
        if name not in frame.columns:
            text = f"--drop: there is no column {name!r}; the columns are {', '.join(map(str, frame.columns))}"
            raise DataError(text, "unknown", "drop", name)
    return frame.drop(columns=names)


def take_label(frame: pd.DataFrame, label: str, where: str = "the table") -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Return the columns without the label, and the label."""
    if label not in frame.columns:
        have = ", ".join(map(str, frame.columns))
        raise DataError(
            f"{where} has no column {label!r}, the label; the columns are {have}", "unknown", "label", label
        )
    column = frame[label]
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    return frame.drop(columns=label), column


RECORD = "run.json"
_FEW = 20
"""Up to this many different numbers a label is taken for classes."""

COORDINATES = "The auxiliary of three or more that is the coordinator too: P3; a role without columns if not given."
_DROP = "Columns to leave out: a,b."
_DELIMITER = "What parts the values of a CSV file, or tab; found out if not given."
_ENCODING = "Encoding of a CSV file, such as cp1252; UTF-8 if not given."
_DECIMAL = "Decimal mark in a CSV file, . or a comma; found out if not given."
_MISSING = "Texts that stand for missing values, beside empty ones and NA: n.a.,-."


def simulate(
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file with all columns and the label.")],
    label: Annotated[str, typer.Option(help="Name of the label column.")],
    out: Annotated[Path, typer.Option(help="Folder for the partial models and the record of the run.")],
    participants: Annotated[
        str,
        typer.Option(help="A number, fractions of the columns such as 0.1,0.2,0.3,0.4, or a;b,c;d by column names."),
    ] = "2",
    coordinator: Annotated[str | None, typer.Option(help=COORDINATES)] = None,
    objective: Annotated[str, typer.Option(help=f"{', '.join(NAMED[:-1])} or {NAMED[-1]}; chosen by the label.")] = "",
    qid: Annotated[str, typer.Option(help="Column of groups, within which rows are ranked.")] = "",
    upper: Annotated[str, typer.Option(help="Column of upper bounds of times; the label has the lower ones.")] = "",
    evaluate: Annotated[
        Path | None, typer.Option(help="CSV or Parquet file with the same columns, to watch progress and score on.")
    ] = None,
    holdout: Annotated[float, typer.Option(help="Share of the rows to keep back and score the model on.")] = 0.0,
    eval_metric: Annotated[
        str, typer.Option(help=f"Metrics to tell, the last of which decides about stopping: {', '.join(METRICS)}.")
    ] = "",
    monotone: Annotated[
        str, typer.Option(help="Columns with which predictions may only rise (1) or fall (-1): income=1,age=-1.")
    ] = "",
    drop: Annotated[str, typer.Option(help=_DROP)] = "",
    categorical: Annotated[str, typer.Option(help="Columns to read as words though they look like numbers: a,b.")] = "",
    delimiter: Annotated[str | None, typer.Option(help=_DELIMITER)] = None,
    encoding: Annotated[str | None, typer.Option(help=_ENCODING)] = None,
    decimal: Annotated[str | None, typer.Option(help=_DECIMAL)] = None,
    missing: Annotated[str, typer.Option(help=_MISSING)] = "",
    # generated: options
    trees: Annotated[int, typer.Option(help="Boosting rounds; each grows one tree, or one for each class.")] = 100,
    num_parallel_tree: Annotated[int, typer.Option(help="Trees of a boosting round, for each class.")] = 1,
    max_depth: Annotated[int, typer.Option(help="Levels of splits of a tree.")] = 3,
    max_bin: Annotated[int, typer.Option(help="Most bins of a column; each costs bytes and comparisons.")] = 32,
    learning_rate: Annotated[float, typer.Option(help="Shrinks every leaf weight.")] = 0.3,
    reg_lambda: Annotated[float, typer.Option(help="L2 penalty on leaf weights.")] = 1.0,
    reg_alpha: Annotated[float, typer.Option(help="L1 penalty on leaf weights.")] = 0.0,
    max_delta_step: Annotated[
        float | None, typer.Option(help="Most that a leaf may weigh before learning_rate; 0 for no bound.")
    ] = None,
    gamma: Annotated[float, typer.Option(help="Least gain of a split, on XGBoost's scale.")] = 0.0,
    min_child_weight: Annotated[float, typer.Option(help="Least sum of hessians on either side of a split.")] = 1.0,
    subsample: Annotated[float, typer.Option(help="Share of rows in a boosting round.")] = 1.0,
    colsample_bytree: Annotated[float, typer.Option(help="Share of columns in a tree.")] = 1.0,
    colsample_bylevel: Annotated[float, typer.Option(help="Share of the tree's columns in each of its levels.")] = 1.0,
    colsample_bynode: Annotated[float, typer.Option(help="Share of the level's columns in each of its nodes.")] = 1.0,
    booster: Annotated[
        str,
        typer.Option(
            help="Which trees; both names mean the same, as in XGBoost 3.4. One of gbtree, dart.",
            autocompletion=lambda: ["gbtree", "dart"],
        ),
    ] = "gbtree",
    rate_drop: Annotated[
        float, typer.Option(help="Chance of each earlier tree to be left out of a boosting round.")
    ] = 0.0,
    skip_drop: Annotated[float, typer.Option(help="Chance of a boosting round that leaves no tree out.")] = 0.0,
    one_drop: Annotated[
        bool, typer.Option(help="Leave out one tree at least, but in boosting rounds that skip_drop spares.")
    ] = False,
    sample_type: Annotated[
        str,
        typer.Option(
            help='"weighted" leaves trees out the more often the larger their scale is. One of uniform, weighted.',
            autocompletion=lambda: ["uniform", "weighted"],
        ),
    ] = "uniform",
    normalize_type: Annotated[
        str,
        typer.Option(
            help="New trees weigh as much as one of those left out, or as all of them together.",
            autocompletion=lambda: ["tree", "forest"],
        ),
    ] = "tree",
    huber_slope: Annotated[float, typer.Option(help="Where reg:pseudohubererror turns from a square to a line.")] = 1.0,
    tweedie_variance_power: Annotated[
        float, typer.Option(help="Power of the mean by which reg:tweedie's variance grows; 2 is gamma's.")
    ] = 1.5,
    quantile_alpha: Annotated[float, typer.Option(help="Which quantile reg:quantileerror predicts.")] = 0.5,
    lambdarank_pair_method: Annotated[
        str,
        typer.Option(
            help="Which rows of a group are held against each other when ranking. One of topk, mean.",
            autocompletion=lambda: ["topk", "mean"],
        ),
    ] = "topk",
    lambdarank_num_pair_per_sample: Annotated[
        int | None, typer.Option(help="How many of the first rows, or how many random ones for each row.")
    ] = None,
    lambdarank_normalization: Annotated[
        bool, typer.Option(help="Whether a group's gradients are scaled by what they add up to.")
    ] = True,
    lambdarank_score_normalization: Annotated[
        bool, typer.Option(help="Whether a pair counts less the farther apart its scores are.")
    ] = True,
    ndcg_exp_gain: Annotated[
        bool, typer.Option(help="Whether a grade gains 2^grade - 1 in rank:ndcg, or the grade itself.")
    ] = True,
    aft_loss_distribution: Annotated[
        str,
        typer.Option(
            help="How logarithms of times are spread in survival:aft. One of normal, logistic, extreme.",
            autocompletion=lambda: ["normal", "logistic", "extreme"],
        ),
    ] = "normal",
    aft_loss_distribution_scale: Annotated[float, typer.Option(help="How far they are spread.")] = 1.0,
    scale_pos_weight: Annotated[
        float, typer.Option(help="Multiplies the weights of rows of the second class, or with a label of 1.")
    ] = 1.0,
    early_stopping_rounds: Annotated[
        int | None, typer.Option(help="Boosting rounds without progress before stopping; needs rows to watch.")
    ] = None,
    first_layer_mask: Annotated[bool, typer.Option(help="Let only the active participant split the root.")] = False,
    security: Annotated[
        str,
        typer.Option(
            help='"sealed" shows nobody anything of a training row; "paper" reveals more. One of '
            "strict, sealed, paper, none.",
            autocompletion=lambda: ["strict", "sealed", "paper", "none"],
        ),
    ] = "strict",
    binning: Annotated[
        str,
        typer.Option(
            help='Equal frequency; "paper" takes the sketch of the paper\'s own code. One of quantile, paper.',
            autocompletion=lambda: ["quantile", "paper"],
        ),
    ] = "quantile",
    insecure_seed: Annotated[
        int | None, typer.Option(help="Makes the whole run repeat, for demonstrations; never for real data.")
    ] = None,
    link: Annotated[str, typer.Option(help="What to plan for: local, lan, wan, or ms/Mbit/s as in 20/100.")] = "local",
    topology: Annotated[
        str,
        typer.Option(
            help="How participants are connected: star, over the active one, or mesh, each with each.",
            autocompletion=lambda: ["star", "mesh"],
        ),
    ] = "star",
    # end of generated
    uplift: Annotated[
        bool,
        typer.Option(
            "--uplift", help="Train no federation, but compare the first participant alone with all, in the clear."
        ),
    ] = False,
    folds: Annotated[int, typer.Option(help="Folds of --uplift's cross-validation.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record of the run as JSON.")] = False,
) -> None:
    r"""Train a federation in this process: cut a table by columns, one part per participant, and write their models.

    The participants are called P1, P2, ...; P1 has the label. The end tells what was revealed to whom, and scores.

    \b
    mpfedxgb simulate credit.csv --label defaulted --out models --participants 3
    mpfedxgb simulate credit.csv --label defaulted --out models \
        --participants "age,income;calls,visits"
    mpfedxgb simulate train.csv --label defaulted --out models \
        --evaluate test.csv --early-stopping-rounds 10 --eval-metric logloss,auc
    mpfedxgb simulate credit.csv --label defaulted --out models --security sealed

    To try parameters in a moment, without any protection, and then to look at the result in a browser:

    \b
    mpfedxgb simulate credit.csv --label defaulted --out models \
        --holdout 0.2 --security none
    mpfedxgb report models

    What others' columns bring over the first participant's own, by cross-validation in the clear:

    \b
    mpfedxgb simulate credit.csv --label defaulted --out alone-or-together \
        --participants "age,income;calls,visits" --uplift
    """
    dealt = parse_participants(participants)
    _check_out(out, dealt if isinstance(dealt, int) else len(dealt))
    csv = CsvFormat(delimiter, encoding, decimal, tuple(listed(missing)))
    paths = [table] if evaluate is None else [table, evaluate]
    rows, *others = (read_labelled(path, label, drop, categorical, csv) for path in paths)
    for option, column in (("qid", qid), ("upper", upper)):
        rows, *others = (with_column(each, column, option) if column else each for each in (rows, *others))
    (X, y), judged = choose_evaluation_rows(rows, holdout, others[0] if others else None, str(evaluate))
    if early_stopping_rounds is not None and not judged.kept_back:
        text = "--early-stopping-rounds needs rows to watch; name a file (--evaluate) or --holdout 0.2"
        raise SettingsError(text, "missing", "early_stopping_rounds")
    objective, why = choose_objective(rows[1], objective)
    metrics = listed(eval_metric)
    if uplift or not facts_of(security).runs_a_protocol:
        typer.echo(f"mpfedxgb: {NONE_WARNING}", err=True)
    kind = FedXGBRegressor if objective in FOR_NUMBERS else FedXGBClassifier
    kind = FedXGBRanker if objective in RANKINGS else kind
    check_beside(objective, {"qid": qid, "upper": upper})
    model = kind(
        participants=dealt,
        coordinator=coordinator,
        objective=objective,
        monotone_constraints=parse_directions(monotone),
        # generated: arguments
        n_estimators=trees,
        num_parallel_tree=num_parallel_tree,
        max_depth=max_depth,
        max_bin=max_bin,
        learning_rate=learning_rate,
        reg_lambda=reg_lambda,
        reg_alpha=reg_alpha,
        max_delta_step=max_delta_step,
        gamma=gamma,
        min_child_weight=min_child_weight,
        subsample=subsample,
        colsample_bytree=colsample_bytree,
        colsample_bylevel=colsample_bylevel,
        colsample_bynode=colsample_bynode,
        booster=booster,
        rate_drop=rate_drop,
        skip_drop=skip_drop,
        one_drop=one_drop,
        sample_type=sample_type,
        normalize_type=normalize_type,
        huber_slope=huber_slope,
        tweedie_variance_power=tweedie_variance_power,
        quantile_alpha=quantile_alpha,
        lambdarank_pair_method=lambdarank_pair_method,
        lambdarank_num_pair_per_sample=lambdarank_num_pair_per_sample,
        lambdarank_normalization=lambdarank_normalization,
        lambdarank_score_normalization=lambdarank_score_normalization,
        ndcg_exp_gain=ndcg_exp_gain,
        aft_loss_distribution=aft_loss_distribution,
        aft_loss_distribution_scale=aft_loss_distribution_scale,
        scale_pos_weight=scale_pos_weight,
        early_stopping_rounds=early_stopping_rounds,
        first_layer_mask=first_layer_mask,
        security=security,
        binning=binning,
        insecure_seed=insecure_seed,
        link=link,
        topology=topology,
        # end of generated
        eval_metric=metrics or None,
        verbosity=0 if as_json else 1,
    )
    if uplift:
        if judged.kept_back:
            text = "--uplift keeps rows back by itself, fold by fold; leave --holdout and --evaluate out"
            raise SettingsError(text, "place", "uplift")
        compare_alone(model, (X, y), folds, out, as_json)
        return
    watches = judged.kept_back and bool(others or metrics or early_stopping_rounds is not None)
    fit(model, (X, y), judged if watches else None)
    scores = score(model, judged, metrics)
    known = {"rows": len(judged.y), "kept_back": judged.kept_back}
    (out / RECORD).unlink(missing_ok=True)
    paths = model.save_model(out)
    record = {**model.run_.to_dict(), "objective_because": why, "score": known | scores, "metrics": model.evals_result_}
    text = json.dumps(record, indent=1)
    write_file(out / RECORD, text + "\n")
    if as_json:
        typer.echo(text)
        return
    typer.echo(f"objective {objective}: {why}\n{_columns(X)}\n{model.run_}")
    if model.best_iteration_ is not None:
        trained = len(next(iter(next(iter(model.evals_result_.values())).values())))
        typer.echo(
            f"\nbest boosting round: {model.best_iteration_ + 1} of {trained}; "
            "the model predicts with the trees up to it"
        )
    text = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
    typer.echo(f"\nscore: {text} on {judged.where}")
    typer.echo(f"written to {out}: {', '.join(path.name for path in paths)}, {RECORD}")
    typer.echo(f"pages to look at: mpfedxgb report {out}")


def parse_directions(text: str) -> dict[str, int]:
    """Return the direction of each column, from texts such as income=1,age=-1."""
    directions = {}
    for one in listed(text):
        name, _, value = one.rpartition("=")
        if not name:
            raise SettingsError(
                f"--monotone {text!r} is not understood; write income=1,age=-1", "value", "monotone", text
            )
        directions[name.strip()] = read_direction(value.strip(), f"--monotone {name.strip()}")
    return directions


def _check_out(out: Path, participants: int) -> None:
    if out.exists() and not out.is_dir():
        raise SettingsError(f"--out {out} is a file; give a folder for the models", "file", "out", out)
    refuse_other_parts(out, [f"P{m}" for m in range(1, participants + 1)])


def choose_objective(y: pd.Series[Any], asked: str) -> tuple[str, str]:
    """Return the objective for a label, and why; a label that could be meant in several ways is refused."""
    if asked:
        return asked, "as --objective says"
    values = y.nunique()
    if values > _FEW and y.dtype.kind == "f":
        return FOR_NUMBERS[0], f"the label holds {values} different numbers"
    if values > _FEW and y.dtype.kind in "iu":
        meant = ", ".join([for_classes(values).name, *FOR_NUMBERS])
        text = (
            f"the label holds {values} different whole numbers, which may be classes, amounts or counts; "
            f"say --objective, one of {meant}"
        )
        raise SettingsError(text, "missing", "objective")
    return for_classes(max(2, values)).name, f"the label has {values} classes"


def _columns(X: pd.DataFrame) -> str:
    words = [str(name) for name in X.columns if isinstance(X[name].dtype, pd.CategoricalDtype)]
    named = f" ({', '.join(words)})" if words else ""
    return f"columns: {len(X.columns) - len(words)} of numbers, {len(words)} of words{named}"


def predict(
    models: Annotated[Path, typer.Argument(help="Folder with all participants' models, as simulate writes it.")],
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file with the columns of all participants.")],
    out: Annotated[
        Path | None, typer.Option(help="CSV or Parquet file for the predictions; standard output if not given.")
    ] = None,
    drop: Annotated[str, typer.Option(help=_DROP)] = "",
    delimiter: Annotated[str | None, typer.Option(help=_DELIMITER)] = None,
    encoding: Annotated[str | None, typer.Option(help=_ENCODING)] = None,
    decimal: Annotated[str | None, typer.Option(help=_DECIMAL)] = None,
    missing: Annotated[str, typer.Option(help=_MISSING)] = "",
) -> None:
    r"""Score a table jointly: every participant contributes its own splits, and only the prediction is revealed.

    \b
    mpfedxgb predict models people.csv                          predictions on standard output
    mpfedxgb predict models people.csv --out predictions.csv --drop defaulted
    """
    parts = load_models(models)
    if not parts[0].params.facts.runs_a_protocol:
        typer.echo(f"mpfedxgb: {parts[0].params.facts.warning}", err=True)
    wanted = {part.name: [f.name for f in part.features] for part in parts}
    words = {f.name for part in parts for f in part.features if f.categories is not None}
    numbers = {name for names in wanted.values() for name in names} - words
    csv, dropped = CsvFormat(delimiter, encoding, decimal, tuple(listed(missing))), listed(drop)
    frame = leave_out(read_table(table, words, numbers, csv=csv, exact=[], may_mix=dropped.__contains__), dropped)
    margins, _ = predict_margins(parts, cut_as_trained(frame, wanted, "leave them out (--drop)"), SessionSettings())
    result = _predictions(parts[0], margins)
    if out is None:
        result.to_csv(typer.get_text_stream("stdout"), index=False)
    else:
        write_table(result, out)
        typer.echo(f"{len(result)} predictions are in {out}")


def _predictions(active: PartialModel, margins: Floats) -> pd.DataFrame:
    """Return the prediction of every row; for a classifier the likeliest class and the probability of each."""
    if active.classes is None:
        loss = active.params.loss
        return pd.DataFrame(dict(zip(loss.targets, loss.transform(margins), strict=True)))
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
        text = (
            f"--participants {text} is not understood; give a number such as 4, fractions such as 0.1,0.2,0.3,0.4, "
            "or column names such as age,income;visits,calls (one group per participant)"
        )
        raise SettingsError(text, "value", "participants", text) from None
