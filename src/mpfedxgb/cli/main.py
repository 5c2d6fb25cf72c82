"""The `mpfedxgb` command: its sub-commands, and one place where errors become messages and exit codes.

Of its sub-commands it knows a line and an example before any is imported; `--version` tells what matters of an
installation without importing any of it.
"""

from __future__ import annotations

import inspect
import os
import platform
import sys
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand

import mpfedxgb
from mpfedxgb.cli.exit_codes import exit_code
from mpfedxgb.config import PROTOCOLS
from mpfedxgb.errors import MpfedxgbError, StoppedError, own_reason
from mpfedxgb.machine import version_of


class Command(NamedTuple):
    """Where a sub-command's function is, its line in the list of commands, and what somebody would type after it."""

    home: str
    line: str
    arguments: str


COMMANDS = {
    "demo": Command("demo:demo", "Train four participants and compare with xgboost.", ""),
    "simulate": Command(
        "simulate:simulate",
        "Train a federation in this process, from a table to models.",
        "table.csv --label target --participants 3 --holdout 0.2 --out models",
    ),
    "predict": Command(
        "simulate:predict",
        "Score a table with the models of a simulation.",
        "models table.csv --drop target --out scores.csv",
    ),
    "show": Command("simulate:show", "Print each participant's partial trees.", "models"),
    "importance": Command(
        "models:importance", "Tell how much columns matter, as a participant may know it.", "models/P1.mpfedxgb.json"
    ),
    "init": Command(
        "init:init",
        "Write a ready federation: settings, trial certificates, sample tables.",
        "trial --participants bank,telecom",
    ),
    "cert": Command("cert:cert", "Make, sign, renew and show certificates of roles.", "renew bank.toml"),
    "doctor": Command("plan:doctor", "Check a role's settings, files and connections.", "bank.toml"),
    "plan": Command("plan:plan", "Foretell what a training costs.", "--rows 10000 --columns 28 --trees 10"),
    "align": Command("roles:align", "Find the rows that all participants have.", "bank.toml"),
    "coordinator": Command("roles:coordinator", "Be the coordinator.", "coordinator.toml"),
    "participant": Command(
        "roles:participant", "Be a participant: train, score, or answer scoring sessions.", "bank.toml --train"
    ),
    "search": Command(
        "search:search", "Search for parameters, within what all roles accept.", "bank.toml --try max_depth=3,4,6"
    ),
    "mpi-run": Command("roles:mpi_run", "Train over MPI, one rank for each role.", "trial"),
    "record": Command("roles:record", "Print what a role has done, and what was revealed to whom.", "bank.toml"),
    "report": Command("models:report", "Write pages to look at: curves, trees, costs, what was revealed.", "models"),
    "join": Command(
        "models:join", "Join all participants' parts into the whole model.", "bank.json telecom.json --out whole.json"
    ),
    "export-xgboost": Command(
        "models:export_xgboost", "Join all parts into a model that xgboost loads.", "models --out model.json"
    ),
    "reproduce": Command(
        "reproduce:reproduce_command", "Repeat tables and figures of the paper.", "table2 --out results"
    ),
    "exit-codes": Command("exit_codes:exit_codes", "List what a process may end with.", ""),
}
"""Every sub-command; only what is called for is imported."""

FIRST = ("demo", "simulate", "predict", "init", "participant")
"""Whose examples the help of the whole command shows."""


def examples(names: tuple[str, ...]) -> str:
    """Return examples as the end of a help text."""
    head = "Examples:" if len(names) > 1 else "Example:"
    lines = (f"  mpfedxgb {name} {COMMANDS[name].arguments}".rstrip() for name in names)
    return "\n".join(["\b", head, *lines])  # \b: lines stay


def make_app(names: Sequence[str]) -> typer.Typer:
    """Return the command line with some of its sub-commands; of the others it knows name, line and example only."""
    app = typer.Typer(
        name="mpfedxgb",
        help="Lossless, multi-party, vertical federated XGBoost under secret sharing.\n\n"
        "Two or more participants hold different columns about the same people; one of them also holds the label. "
        "They train one XGBoost model over all columns without showing each other columns or labels: apart from what "
        "the ledger of a run lists by name, only randomly masked numbers travel. Begin with: mpfedxgb demo. For a "
        "federation of several organisations: mpfedxgb init",
        epilog=examples(FIRST),
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_before)
    for name, command in COMMANDS.items():
        module, function = command.home.split(":")
        found = getattr(import_module(f"mpfedxgb.cli.{module}"), function) if name in names else _not_imported
        end = examples((name,))
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name, help=command.line, epilog=end)
        else:
            app.command(name, cls=_Explaining, help=_help_of(found), short_help=command.line, epilog=end)(found)
    return app


class _Explaining(TyperCommand):
    """A sub-command that says of XGBoost's parameters what they are called here, or why there are none."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; an unknown option that is a parameter gets its reason."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # an error of the parser, whose class typer does not make public
            name = str(getattr(error, "option_name", "")).lstrip("-").replace("-", "_")
            known = {option for parameter in self.params for option in parameter.opts}
            if name and (hint := _hint(name, known)):
                error.message = f"No such option: {error.option_name}; {hint}"  # type: ignore[attr-defined] # see above
                error.possibilities = None  # type: ignore[attr-defined]
            raise


def _hint(name: str, options: Collection[str]) -> str:
    """Return what a parameter's option is called, or why there is none; nothing for what is no parameter."""
    from mpfedxgb.schema.training import ALIASES, BY_NAME, OF_OTHERS, REFUSED

    if name in REFUSED:
        return f"{name} is not supported: {REFUSED[name].reason}"
    if name in OF_OTHERS:
        return OF_OTHERS[name]
    own = ALIASES.get(name, name)
    if own not in BY_NAME:
        return ""
    option = f"--{(BY_NAME[own].option or own).replace('_', '-')}"
    return f"it is called {option} here" if option in options else ""


def _help_of(command: Callable[..., None]) -> str:
    r"""Return a command's docstring; a line of \b before a paragraph keeps its lines as they are, as click has it."""
    return (inspect.getdoc(command) or "").replace("\\b\n", "\b\n")


def _not_imported() -> None:
    """Stand for a command that this call only lists."""


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(version_text())
        raise typer.Exit


def _before(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=_tell_version,
            help="Tell versions of package, protocol, Python and what else matters, and end.",
        ),
    ] = False,
) -> None:
    pass


_before.__doc__ = None  # the help of the whole command is above


def _asked_for() -> str:
    """Return the sub-command on the command line, or on the one that a shell wants completed, if any."""
    completed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    words = completed.split()[1:] if "_MPFEDXGB_COMPLETE" in os.environ else sys.argv[1:]
    return next((word for word in words if not word.startswith("-")), "")


def main() -> None:
    """Run the command line; errors of this package, and of files, become one clear line and an exit code."""
    app = make_app([_asked_for()])
    try:
        app()
    except (MpfedxgbError, StoppedError, OSError, MemoryError) as error:
        from rich.console import Console  # of no use to help and version

        Console(stderr=True, highlight=False).print(f"mpfedxgb: {own_reason(error)}", markup=False, soft_wrap=True)
        sys.exit(exit_code(error))


_PACKAGES = ("numpy", "numba", "pandas", "scikit-learn", "cryptography")


def version_text() -> str:
    """Return package, protocol, Python, the packages that matter, xgboost if there, and the state of the kernels."""
    spoken = ", ".join(str(number) for number in PROTOCOLS)
    packages = ", ".join(f"{name} {version_of(name) or 'missing'}" for name in _PACKAGES)
    xgboost = version_of("xgboost") or "not installed (needed for to_xgboost and comparisons only)"
    return "\n".join(
        [
            f"mpfedxgb {mpfedxgb.__version__}",
            f"protocol {spoken} (the roles of a federation need one in common)",
            f"Python {platform.python_version()} on {platform.system()} {platform.machine()}",
            f"with {packages}",
            f"xgboost {xgboost}",
            f"kernels {'compiled' if _are_compiled() else 'to be compiled by the first training, once'}",
        ]
    )


def _are_compiled() -> bool:
    """Return whether numba has kept the kernels where it keeps them: beside the package, or where it was told to."""
    folders = [Path(mpfedxgb.__file__).parent / "ring" / "__pycache__"]
    configured = os.environ.get("NUMBA_CACHE_DIR")
    folders += [Path(configured)] if configured else []
    return any(next(folder.rglob("kernels.*.nbi"), None) for folder in folders)
