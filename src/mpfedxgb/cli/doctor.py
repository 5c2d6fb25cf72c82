"""`doctor`: whether a role is ready to run, and what to mend if not."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from mpfedxgb.federation.doctor import Finding, Severity, examine

EXIT_PROBLEMS = 2

_COLOURS = {Severity.OK: "green", Severity.WARNING: "yellow", Severity.PROBLEM: "red"}


def doctor(
    settings: Annotated[Path, typer.Argument(help="Settings file of a role (.toml).")],
    as_json: Annotated[bool, typer.Option("--json", help="Print all findings as one JSON object.")] = False,
) -> None:
    """Check a role before it runs: settings, data, certificate, clock, port, peers, versions; say what to mend.

    The exit code is 0 without problems, warnings or not, and 2 with problems.
    """
    findings: list[Finding] = []
    for finding in examine(settings):
        findings.append(finding)
        if not as_json:
            level = typer.style(f"{finding.level:8}", fg=_COLOURS[finding.level])
            typer.echo(f"{level}{finding.check:13}{finding.text}")
    counts = Counter(finding.level for finding in findings)
    if as_json:
        content = {
            "settings": str(settings),
            "problems": counts[Severity.PROBLEM],
            "warnings": counts[Severity.WARNING],
            "findings": [{"check": f.check, "level": str(f.level), "text": f.text} for f in findings],
        }
        typer.echo(json.dumps(content, indent=1))
    else:
        typer.echo(f"\n{_count(counts[Severity.PROBLEM], 'problem')}, {_count(counts[Severity.WARNING], 'warning')}")
    if counts[Severity.PROBLEM]:
        sys.exit(EXIT_PROBLEMS)


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
