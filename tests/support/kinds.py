"""What kind of test each one is, in one table; a unit test that starts a process or opens a socket fails."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]

UNIT, EXHAUSTIVE, PROCESS, BROWSER = KINDS = ("unit", "exhaustive", "process", "browser")
"""No process, no network and no waiting; as unit, but computing for long: enumerations, attacks, whole trainings beside
an oracle; with processes, networks, or waits for deadlines; with a browser."""

KIND_OF = {
    "api": UNIT,
    "api/test_estimators.py": EXHAUSTIVE,
    "api/test_functions.py": EXHAUSTIVE,
    "api/test_resources.py": EXHAUSTIVE,
    "api/test_scikit_learn.py": EXHAUSTIVE,
    "api/test_sealed.py": EXHAUSTIVE,
    "api/test_unprotected.py": EXHAUSTIVE,
    "boosting": UNIT,
    "cli": PROCESS,
    "costs": EXHAUSTIVE,
    "costs/test_capacity.py": PROCESS,
    "data": UNIT,
    "data/test_spool.py": PROCESS,
    "experiments": EXHAUSTIVE,
    "federation": PROCESS,
    "intersection": UNIT,
    "leakage": EXHAUSTIVE,
    "lossless": EXHAUSTIVE,
    "modes": UNIT,
    "modes/none/test_training.py": EXHAUSTIVE,
    "modes/paper/test_leaf_weight.py": EXHAUSTIVE,
    "modes/paper/test_ledger.py": EXHAUSTIVE,
    "modes/paper/test_training.py": EXHAUSTIVE,
    "party": UNIT,
    "party/test_failure.py": PROCESS,
    "party/test_handshake.py": PROCESS,
    "party/test_local.py": PROCESS,
    "party/test_waiting.py": PROCESS,
    "protocols": UNIT,
    "protocols/test_products.py": EXHAUSTIVE,
    "report": UNIT,
    "report/html/test_browser.py": BROWSER,
    "ring": UNIT,
    "test_bench_plain.py": PROCESS,
    "test_bench_protocols.py": PROCESS,
    "test_bench_bounds.py": PROCESS,
    "test_bench_sealed.py": PROCESS,
    "test_bench_train.py": PROCESS,
    "test_bench_three.py": PROCESS,
    "test_bench_unprotected.py": PROCESS,
    "test_beside.py": PROCESS,
    "test_chain.py": PROCESS,
    "test_commands_in_documents.py": PROCESS,
    "test_deployments.py": PROCESS,
    "test_distribution.py": PROCESS,
    "test_fuzz.py": EXHAUSTIVE,
    "test_generated.py": PROCESS,
    "test_plain_words.py": UNIT,
    "test_units.py": UNIT,
    "test_mutants.py": PROCESS,
    "test_patience.py": PROCESS,
    "test_pictures.py": PROCESS,
    "test_project_files.py": PROCESS,
    "test_public_surface.py": PROCESS,
    "test_readme.py": PROCESS,
    "test_reference.py": EXHAUSTIVE,
    "test_scripts.py": EXHAUSTIVE,
    "test_site.py": BROWSER,
    "test_walk.py": PROCESS,
    "testing": UNIT,
    "training": UNIT,
    "training/test_checkpoint.py": PROCESS,
    "training/test_kept_shares.py": EXHAUSTIVE,
    "training/test_memory.py": PROCESS,
    "training/test_resume.py": EXHAUSTIVE,
    "transport": PROCESS,
    "transport/test_frame.py": UNIT,
    "transport/test_hostile_frames.py": UNIT,
    "transport/tls/test_stream.py": UNIT,
    "transport/test_memory.py": UNIT,
    "tree": UNIT,
    "workers": PROCESS,
} | {
    f"test_{name}.py": UNIT
    for name in (
        "atomic",
        "config",
        "data_samples",
        "decision_records",
        "errors",
        "every_test_asserts",
        "kinds",
        "machine",
        "parameter_page",
        "exponential",
        "sigmoid",
        "softmax",
    )
}
"""Folders and files of `tests/`; the longest entry decides, and a mark of the test's own over all."""


def kind_of(path: Path) -> str | None:
    """Return the kind of a file's tests, a path below `tests/`."""
    entries = (str(part) for part in (path, *path.parents))
    return next((KIND_OF[entry] for entry in entries if entry in KIND_OF), None)


def mark(items: Iterable[pytest.Item]) -> None:
    """Give every test the mark of its kind, unless it has one; one of no kind ends the run."""
    for item in items:
        own = [kind for kind in KINDS if item.get_closest_marker(kind)]
        kind = kind_of(item.path.relative_to(TESTS))
        if len(own) > 1 or not (own or kind):
            raise pytest.UsageError(f"{item.nodeid} has {' and '.join(own) or 'no kind'}; see {Path(__file__).name}")
        if not own and kind:
            item.add_marker(kind)


class UnitTestError(Exception):
    """A unit test has done what only other kinds may."""


_FORBIDDEN = {
    "subprocess.Popen",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.system",
    "socket.bind",
    "socket.connect",
}
_now = ""
"""The unit test that runs."""


def watch(item: pytest.Item | None) -> None:
    """Hold a test to its kind from now on, fixtures included; None: nobody any more."""
    global _now  # an audit hook has no other way to know
    _now = item.nodeid if item is not None and item.get_closest_marker(UNIT) else ""


def _refuse(event: str, _: tuple[Any, ...]) -> None:
    if _now and event in _FORBIDDEN:
        raise UnitTestError(f"{event} in {_now}, which is of the kind {UNIT}; see {Path(__file__).name}")


sys.addaudithook(_refuse)
