"""The `mpfedxgb` command: its sub-commands, and one place where errors become messages and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import typer
from rich.console import Console

from mpfedxgb.cli.exit_codes import exit_code
from mpfedxgb.errors import MpfedxgbError, StoppedError, own_reason

COMMANDS = {
    "demo": "demo:demo",
    "simulate": "simulate:simulate",
    "predict": "simulate:predict",
    "show": "simulate:show",
    "init": "init:init",
    "doctor": "doctor:doctor",
    "plan": "plan:plan",
    "align": "align:align",
    "coordinator": "roles:coordinator",
    "participant": "roles:participant",
    "mpi-run": "roles:mpi_run",
    "record": "record:record",
    "report": "report:report",
    "join": "models:join",
    "export-xgboost": "models:export_xgboost",
    "reproduce": "reproduce:reproduce_command",
    "exit-codes": "exit_codes:exit_codes",
}
"""Every sub-command with its module and function; only what is called for is imported."""


def make_app(names: Sequence[str]) -> typer.Typer:
    """Return the command line with some of its sub-commands."""
    app = typer.Typer(
        name="mpfedxgb",
        help="Lossless, multi-party, vertical federated XGBoost under secret sharing.\n\n"
        "Two or more participants hold different columns about the same people; one of them also holds the label. "
        "They train one XGBoost model over all columns without showing each other columns or labels: apart from what "
        "the ledger of a run lists by name, only randomly masked numbers travel. Begin with: mpfedxgb demo. For a "
        "federation of several organisations: mpfedxgb init",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_nothing_before)
    for name in names:
        module, function = COMMANDS[name].split(":")
        app.command(name)(getattr(import_module(f"mpfedxgb.cli.{module}"), function))
    return app


def _nothing_before() -> None:
    pass


_nothing_before.__doc__ = None  # the help of the whole command is above


def main() -> None:
    """Run the command line; errors of this package, and of files, become one clear line and an exit code."""
    asked = sys.argv[1] if len(sys.argv) > 1 else ""
    app = make_app([asked] if asked in COMMANDS else list(COMMANDS))
    try:
        app()
    except (MpfedxgbError, StoppedError, OSError, MemoryError) as error:
        Console(stderr=True, highlight=False).print(f"mpfedxgb: {own_reason(error)}", markup=False, soft_wrap=True)
        sys.exit(exit_code(error))
