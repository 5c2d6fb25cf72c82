"""What the command line says of its sub-commands before any is imported: a line and an example of each."""

from __future__ import annotations

from typing import NamedTuple


class Summary(NamedTuple):
    """A line of the list of commands, and what somebody would type."""

    line: str
    example: str


SUMMARIES = {
    "demo": Summary("Train four participants and compare with xgboost.", "mpfedxgb demo"),
    "simulate": Summary(
        "Train a federation in this process, from a table to models.",
        "mpfedxgb simulate table.csv --label target --participants 3 --holdout 0.2 --out models",
    ),
    "predict": Summary(
        "Score a table with the models of a simulation.",
        "mpfedxgb predict models table.csv --drop target --out scores.csv",
    ),
    "show": Summary("Print each participant's partial trees.", "mpfedxgb show models"),
    "importance": Summary(
        "Tell how much columns matter, as a participant may know it.", "mpfedxgb importance models/P1.mpfedxgb.json"
    ),
    "init": Summary(
        "Write a ready federation: settings, trial certificates, sample tables.",
        "mpfedxgb init trial --participants bank,telecom",
    ),
    "doctor": Summary("Check a role's settings, files and connections.", "mpfedxgb doctor bank.toml"),
    "plan": Summary("Foretell what a training costs.", "mpfedxgb plan --rows 10000 --columns 28 --trees 10"),
    "align": Summary("Find the rows that all participants have.", "mpfedxgb align bank.toml"),
    "coordinator": Summary("Be the coordinator.", "mpfedxgb coordinator coordinator.toml"),
    "participant": Summary(
        "Be a participant: train, score, or answer scoring sessions.", "mpfedxgb participant bank.toml --train"
    ),
    "mpi-run": Summary("Train over MPI, one rank for each role.", "mpfedxgb mpi-run trial"),
    "record": Summary("Print what a role has done, and what was revealed to whom.", "mpfedxgb record bank.toml"),
    "report": Summary("Write pages to look at: curves, trees, costs, what was revealed.", "mpfedxgb report models"),
    "join": Summary(
        "Join all participants' parts into the whole model.", "mpfedxgb join bank.json telecom.json --out whole.json"
    ),
    "export-xgboost": Summary(
        "Join all parts into a model that xgboost loads.", "mpfedxgb export-xgboost models --out model.json"
    ),
    "reproduce": Summary("Repeat tables and figures of the paper.", "mpfedxgb reproduce table2 --out results"),
    "exit-codes": Summary("List what a process may end with.", "mpfedxgb exit-codes"),
}

FIRST = ("demo", "simulate", "predict", "init", "participant")
"""Whose examples the help of the whole command shows."""


def examples(names: tuple[str, ...]) -> str:
    """Return examples as the end of a help text."""
    head = "Examples:" if len(names) > 1 else "Example:"
    return "\n".join(["\b", head, *(f"  {SUMMARIES[name].example}" for name in names)])  # \b: lines stay
