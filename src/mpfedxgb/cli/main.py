"""The `mpfedxgb` command: its sub-commands, and one place where errors become messages and exit codes."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from mpfedxgb.cli.demo import demo
from mpfedxgb.cli.simulate import predict, show, simulate
from mpfedxgb.errors import MpfedxgbError, UserError

EXIT_USER = 2
EXIT_FAILED = 1

app = typer.Typer(
    name="mpfedxgb",
    help="Lossless, multi-party, vertical federated XGBoost under secret sharing.\n\n"
    "Two or more participants hold different columns about the same people; one of them also holds the label. "
    "They train one XGBoost model over all columns without showing each other columns or labels: apart from what the "
    "ledger of a run lists by name, only randomly masked numbers travel. Begin with: mpfedxgb demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(simulate)
app.command()(predict)
app.command()(show)


def main() -> None:
    """Run the command line; errors of this package, and of files, become one clear line and an exit code."""
    try:
        app()
    except (UserError, OSError) as error:
        _fail(error, EXIT_USER)
    except MpfedxgbError as error:
        _fail(error, EXIT_FAILED)


def _fail(error: Exception, code: int) -> None:
    Console(stderr=True, highlight=False).print(f"mpfedxgb: {error}", markup=False, soft_wrap=True)
    sys.exit(code)
