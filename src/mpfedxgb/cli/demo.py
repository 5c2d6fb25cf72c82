"""`demo`: four participants and a coordinator on a data set that ships with scikit-learn, beside xgboost itself."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.table import Table as RichTable
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

from mpfedxgb.api.estimators import FedXGBClassifier
from mpfedxgb.data.binning import bin_table
from mpfedxgb.data.table import Table
from mpfedxgb.modes.facts import check_for_real_tables
from mpfedxgb.report.record import RunRecord
from mpfedxgb.testing.parity import Parity, compare_with_xgboost
from mpfedxgb.testing.trial import Trial
from mpfedxgb.units import bytes_text

_OWNERS = ("bank", "telecom", "retail", "hospital")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the partial models and the pages to look at.")] = Path(
        "demo-models"
    ),
    # generated: options
    trees: Annotated[int, typer.Option(help="Boosting rounds; each grows one tree, or one for each class.")] = 20,
    max_depth: Annotated[int, typer.Option(help="Levels of splits of a tree.")] = 3,
    security: Annotated[
        str,
        typer.Option(
            help='"sealed" shows nobody anything of a training row. One of strict, sealed.',
            autocompletion=lambda: ["strict", "sealed"],
        ),
    ] = "strict",
    # end of generated
    three: Annotated[
        bool, typer.Option("--three", help="Three organisations and nobody else: retail is the coordinator too.")
    ] = False,
    processes: Annotated[
        bool, typer.Option("--processes", help="Run every role as a process of its own, over mTLS on loopback.")
    ] = False,
) -> None:
    r"""Train some participants, compare with xgboost on the joined table, and write the models.

    It takes some seconds, reads no file and opens nothing. A bank, a telecom, a retail chain and a hospital hold
    different columns about the same people; the bank has the label, and a coordinator without columns deals random
    masks. With --three there are a bank, a telecom and a retail chain, which deals them beside its columns. The
    end says where each one's report is, a page to look at in a browser. Without the xgboost package the comparison is
    left out.

    \b
    mpfedxgb demo                        all roles as threads of this process
    mpfedxgb demo --three                three organisations, nobody else
    mpfedxgb demo --processes            every role a process of its own, over mutual TLS
    mpfedxgb demo --security sealed      the same trees, and the bank does not see who shares a leaf
    mpfedxgb show demo-models            the trees that each of them has
    mpfedxgb simulate --help             next: the same with a table of your own
    """
    check_for_real_tables(security, "the demo")
    console = Console(highlight=False)
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    owners = _OWNERS[:3] if three else _OWNERS
    parts = np.array_split(np.arange(X.shape[1]), len(owners))
    train = {owner: X_train.iloc[:, p] for owner, p in zip(owners, parts, strict=True)}
    test = {owner: X_test.iloc[:, p] for owner, p in zip(owners, parts, strict=True)}
    held = ", ".join(f"{owner} {len(p)} columns" for owner, p in zip(owners, parts, strict=True))
    console.print(f"Breast cancer (scikit-learn), {len(X_train)} training rows: {held}; the label is bank's.")
    coordinator = owners[-1] if three else None
    model = FedXGBClassifier(
        n_estimators=trees, max_depth=max_depth, security=security, coordinator=coordinator, verbosity=1
    )
    if processes:
        model = _train_in_processes(console, model, train, y_train)
    else:
        model.fit(train, y_train, eval_set=[(test, y_test)])
    try:
        parity = compare_with_xgboost(model, X_train, y_train)
    except ImportError:
        parity = None
    _print_scores(console, parity, model.predict_proba(test)[:, 1], X_test, y_test)
    if not processes:
        _print_costs(console, model.run_)
    paths = model.save_model(out)
    console.print(f"\nPartial models: {', '.join(str(path) for path in paths)}")
    console.print("Look at them with: mpfedxgb show " + str(out))
    pages = [model.report(out / f"{owner}.report.html", owner) for owner in owners]
    console.print("Reports, one for each participant, to open in a browser:")
    for page in pages:
        console.print(f"  {page.absolute().as_uri()}", soft_wrap=True)
    if parity is None:
        missing = "The xgboost package is not installed, so nothing was compared with it: pip install xgboost"
        console.print(f"\n{missing}", soft_wrap=True)
        return
    verdict = "same trees" if parity.same_trees else f"DIFFERENT TREES: {parity.difference}"
    console.print(f"\n[bold]{verdict}[/bold]")
    if not parity.same_trees:
        sys.exit(1)


def _train_in_processes(
    console: Console, model: FedXGBClassifier, tables: dict[str, pd.DataFrame], y: pd.Series[int]
) -> FedXGBClassifier:
    """Train as a process for each role, and return the model that `fit` would have made."""
    with_ids = {name: table.assign(person=table.index) for name, table in tables.items()}
    with_ids[_OWNERS[0]] = with_ids[_OWNERS[0]].assign(label=y)
    names = ("n_estimators", "max_depth", "security")
    training = {"num_class": 2} | {name: getattr(model, name) for name in names}
    with tempfile.TemporaryDirectory(prefix="mpfedxgb-demo-") as folder:
        who = f"{len(tables)} participants, of whom {model.coordinator} is the coordinator too,"
        who = f"a coordinator and {len(tables)} participants" if model.coordinator is None else who
        console.print(f"Starting {who} as processes, mTLS on loopback ...")
        with Trial(Path(folder), with_ids, "label", "person", training, coordinator=model.coordinator) as trial:
            parts = trial.train()
            record = trial.record()
    console.print(
        f"Trained in {record['seconds']:.2f} s: {record['rounds']} message rounds, "
        f"{bytes_text(record['bytes_sent'])} sent by {_OWNERS[0]}; all processes have ended."
    )
    _print_ledger(console, ((entry["name"], entry["receiver"], entry["count"]) for entry in record["ledger"]))
    cuts = {
        name: dict(zip(table.columns, bin_table(Table.read(table, name), model.max_bin).edges, strict=True))
        for name, table in tables.items()
    }
    return FedXGBClassifier.from_parts(parts, cuts, **model.get_params())


def _print_scores(
    console: Console, parity: Parity | None, scores: np.ndarray[Any, Any], X_test: pd.DataFrame, y_test: pd.Series[int]
) -> None:
    if parity is None:
        auc, right = roc_auc_score(y_test, scores), accuracy_score(y_test, scores > 0.5)
        console.print(f"On {len(y_test)} rows that were kept back: AUC {auc:.6f}, accuracy {right:.6f}")
        return
    theirs = parity.predict(X_test)
    table = RichTable("", "federated", "xgboost", title="Federated against xgboost on the joined table")
    table.add_row("test AUC", f"{roc_auc_score(y_test, scores):.6f}", f"{roc_auc_score(y_test, theirs):.6f}")
    ours, other = accuracy_score(y_test, scores > 0.5), accuracy_score(y_test, theirs > 0.5)
    table.add_row("test accuracy", f"{ours:.6f}", f"{other:.6f}")
    table.add_row("trees", str(parity.trees), "the same" if parity.same_trees else "different")
    table.add_row("largest difference", f"{np.abs(scores - theirs).max():.1e}", "of a test probability")
    console.print(table)


def _print_costs(console: Console, run: RunRecord) -> None:
    title = f"{run.seconds:.2f} s, {run.rounds} message rounds ({run.rounds / run.trees:.0f} a tree)"
    table = RichTable("role", "sent", "received", title=title)
    for name, counts in run.roles.items():
        table.add_row(name, bytes_text(counts.bytes_sent), bytes_text(counts.bytes_received))
    console.print(table)
    _print_ledger(console, ((entry.name, entry.receiver, entry.count) for entry in run.ledger))


def _print_ledger(console: Console, entries: Iterable[tuple[str, str, int]]) -> None:
    revealed = RichTable("value", "to", "count", title="What was revealed, to whom")
    for name, receiver, count in entries:
        revealed.add_row(name, receiver, str(count))
    console.print(revealed)
