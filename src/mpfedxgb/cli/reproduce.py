"""`reproduce`: the paper's tables and figures, each beside the paper's own numbers."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from enum import StrEnum, auto
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import mpfedxgb
from mpfedxgb.errors import SettingsError, UserError


class Item(StrEnum):
    """What can be reproduced, in the order of the paper; the names of `experiments.items.ITEMS`."""

    table2 = auto()
    complexity = auto()
    fig4a = auto()
    fig4b = auto()
    fig5 = auto()
    table3 = auto()
    iterations = auto()
    precision = auto()
    all = auto()


def reproduce_command(
    item: Annotated[Item, typer.Argument(help="What to reproduce; see above.", metavar="ITEM")],
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with give_me_some_credit.csv.gz and adult_onehot108.csv.gz. Without it: OpenML."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help='Print one JSON object, {"rows": [...]}, only.')] = False,
) -> None:
    """Reproduce a table or figure of the paper and print it beside the paper's numbers.

    Writes ITEM.csv (the data), ITEM.png and ITEM.svg (a figure) and ITEM.md (what the paper says, what was measured,
    when and on what machine) into the folder --out.

    \b
    table2      multiplications of the best-split search, with and without division   (section 6.1)
    complexity  a training against Paillier encryption, by formula and by the clock   (section 6.2)
    fig4a       runtime against the number of trees                                   (section 7.1)
    fig4b       runtime against the depth of the trees                                (section 7.1)
    fig5        runtime against rows and features; needs about 10 GiB of memory       (section 7.1)
    table3      accuracy, F1 and AUC of XGBoost and MP-FedXGB on both data sets       (section 7.2)
    iterations  steps of the gradient descent that finds leaf weights                 (Appendix A)
    precision   how many binary places make the trees identical with xgboost's        (not in the paper)
    all         everything, with index.html and README.md

    The experiments are no part of the package: this command runs from a checkout of the project (make setup there).

    The data sets are Give Me Some Credit (Dataset1) and Adult (Dataset2). --data names a folder that holds them as CSV
    files; without it they are fetched from OpenML. Either way checksums are compared. table2 and complexity need no
    data.

    \b
    mpfedxgb reproduce table2
    mpfedxgb reproduce table3 --data DIR --json
    mpfedxgb reproduce all --data DIR --out results
    """  # noqa: D301 # the backspace is click's sign for lines that stay as they are
    if out.exists() and not out.is_dir():
        raise SettingsError(f"--out {out} is a file; give a folder for the results", "file", "out", out)
    if data is not None and not data.is_dir():
        raise SettingsError(
            f"--data {data} is not a folder; give the folder that holds the CSV files", "file", "data", data
        )
    _find_experiments()
    from experiments.items import ALL, reproduce
    from experiments.output import text_table

    errors = Console(stderr=True, highlight=False)
    started = time.perf_counter()
    with errors.status("starting") as status:

        def on_progress(text: str) -> None:
            status.update(f"{text} ({time.perf_counter() - started:.0f} s so far)")
            if not errors.is_terminal:
                errors.print(f"{time.perf_counter() - started:6.0f} s  {text}", markup=False)

        results = reproduce(item.value, data, out, on_progress)
    if as_json:
        rows = [({"item": r.item} if item.value == ALL else {}) | row for r in results for row in r.rows]
        typer.echo(json.dumps({"rows": rows}))
        return
    for result in results:
        said = [f"The paper: {result.paper}", f"Here: {result.measured}"]
        paragraphs = [textwrap.fill(text, 100) for text in said]
        typer.echo("\n\n".join([result.title, text_table(result.header, result.cells), *paragraphs, ""]))
    typer.echo(f"Written to {out}; begin with {out / ('index.html' if item.value == ALL else item.value + '.md')}")


def _find_experiments() -> None:
    """Make `experiments` importable, which stand in the checkout that the package was installed from."""
    checkout = Path(mpfedxgb.__file__).parents[2]
    if not (checkout / "experiments" / "items.py").is_file():
        text = (
            "reproduce runs from a checkout of the project, since its experiments are no part of the package: "
            "run make setup there, then .venv/bin/mpfedxgb reproduce"
        )
        raise UserError(text, "package", "checkout")
    if str(checkout) not in sys.path:
        sys.path.insert(0, str(checkout))
