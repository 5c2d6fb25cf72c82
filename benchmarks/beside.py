"""A benchmark of this tree beside the same benchmark of an earlier commit, in turns: whether it has become slower.

    python benchmarks/beside.py REF [--turns N] [--json] -- bench_train.py --repeat 20

Makes a worktree of REF in a temporary folder and runs the script of that tree and of this one alternately, each in a
process of its own with its own `src` on the path, N times (ten). A first turn of both, in which kernels are compiled,
is not counted. Wall seconds are those of the command; processor seconds are user and system time of the command and of
all processes that it waited for, so of all roles. The least of each counts. "Not slower" means: processor seconds at
most 3 % above those of REF; the exit code is 1 otherwise. Starting Python counts too, so let the script work for some
seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plain_table import table

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = 1.03
"""Processor seconds of this tree over those of the earlier one that still count as "not slower"."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Seconds of one run of the script."""

    wall: float
    processor: float


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print a table or one JSON object, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ref", help="commit, branch or tag to stand beside")
    parser.add_argument("--turns", type=int, default=10, help="counted turns of each tree (default 10)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("command", nargs="+", metavar="SCRIPT", help="script of benchmarks/ and its options, after --")
    args = parser.parse_args(words)
    if args.turns < 1:
        parser.error(f"--turns {args.turns}: at least one turn has to count")
    if not (ROOT / "benchmarks" / args.command[0]).is_file():
        parser.error(f"{args.command[0]}: no such script in {ROOT / 'benchmarks'}")
    with worktree(args.ref) as before:
        result = compare(before, ROOT, args.command, args.turns)
    print(json.dumps(result) if args.json else _page(args.ref, result))
    return int(result["processor_ratio"] > ALLOWED)


@contextmanager
def worktree(ref: str) -> Iterator[Path]:
    """Yield a folder with the tree of a commit; it is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "tree"
        _git("worktree", "add", "--quiet", "--detach", str(place), ref)
        try:
            yield place
        finally:
            _git("worktree", "remove", "--force", str(place))


def compare(before: Path, now: Path, command: Sequence[str], turns: int) -> dict[str, Any]:
    """Return the least seconds of both trees and their ratios, this tree's over the earlier one's."""
    found: dict[Path, list[Turn]] = {before: [], now: []}
    for turn in range(turns + 1):
        for tree in (before, now) if turn % 2 else (now, before):
            seconds = run(tree, command)
            if turn:  # the first compiles the kernels
                found[tree].append(seconds)
    least = {
        name: {kind: min(getattr(turn, kind) for turn in found[tree]) for kind in ("wall", "processor")}
        for name, tree in (("before", before), ("now", now))
    }
    ratios = {f"{kind}_ratio": least["now"][kind] / least["before"][kind] for kind in ("wall", "processor")}
    return {"command": " ".join(command), "turns": turns, **least, **ratios}


def run(tree: Path, command: Sequence[str]) -> Turn:
    """Run a tree's script and return its seconds; raise with what it printed if it fails."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    words = [sys.executable, str(tree / "benchmarks" / command[0]), *command[1:]]
    started = time.perf_counter()
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(words, cwd=tree, env=environment, stdout=printed, stderr=subprocess.STDOUT)  # noqa: S603 # our own script
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            printed.seek(0)
            sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{printed.read().decode()}")
    return Turn(wall, usage.ru_utime + usage.ru_stime)


def _page(ref: str, result: dict[str, Any]) -> str:
    rows = [
        [kind, *(f"{result[name][kind]:.3f}" for name in ("before", "now")), f"{result[f'{kind}_ratio']:.3f}"]
        for kind in ("wall", "processor")
    ]
    title = f"{result['command']}: least seconds of {result['turns']} turns"
    verdict = "slower" if result["processor_ratio"] > ALLOWED else "not slower"
    return table(title, ["seconds", ref, "this tree", "ratio"], rows) + f"\n{verdict} (processor seconds, 3 % allowed)"


def _git(*words: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *words], check=True)  # noqa: S603, S607 # the checkout's own git


if __name__ == "__main__":
    sys.exit(main())
