"""Data for pages: a small model written by hand, with everything that a page can show."""

from __future__ import annotations

from typing import Any

from mpfedxgb.boosting.model import Feature, PartialModel
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.party.ledger import Reveal
from mpfedxgb.party.meter import Counts
from mpfedxgb.report.history import Attempt, History
from mpfedxgb.report.html.data import ReportData, Spent
from mpfedxgb.tree.nodes import Dummy, Leaf, Split, Tree

HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(1)>"
"""A name that would do something, were it not escaped."""


def tree(depth: int, feature: str = "age", number: int = 0) -> Tree:
    """Return a full tree whose splits are the reader's and participant 2's in turn."""
    nodes: list[Leaf | Split | Dummy] = []
    inner = 2**depth - 1
    for n in range(inner):
        if n % 2:
            nodes.append(Dummy(2, 2 * n + 1, 2 * n + 2, 0.5))
        else:
            nodes.append(Split(feature, 40.5 + n + number, None, False, n % 4 == 0, 2 * n + 1, 2 * n + 2, 1.5))
    return (*nodes, *(Leaf((n - 2) << 30, 1.0) for n in range(2**depth)))


def model(count: int = 2, depth: int = 2, feature: str = "age", **changes: Any) -> PartialModel:
    """Return the active participant's part of a model."""
    content: dict[str, Any] = {
        "training": "c0ffee",
        "participant": 1,
        "participants": ("bank", "telecom"),
        "params": TrainParams(n_estimators=count),
        "features": (Feature(feature), Feature("city", ("Basel", "Quito"))),
        "trees": tuple(tree(depth, feature, number) for number in range(count)),
        "base_margin": (0.0,),
    }
    return PartialModel(**{**content, **changes})


def facts(part: PartialModel | None = None, **changes: Any) -> ReportData:
    """Return what bank knows after a training of a federation, with an attempt that failed and one that ended."""
    part = part or model()
    setup = Counts(1.5, 7, 12, messages={"telecom": 3}, payload_sent={"telecom": 4_000_000})
    train = Counts(
        8.0,
        1200,
        2500,
        products=9,
        payload_sent={"telecom": 8_000_000, "dealer": 1000},
        payload_received={"dealer": 6_000_000},
    )
    phases = {"setup": setup, "train/gain": train}
    about = {"begun": "2026-11-17T10:00:00Z", "session": "spring", "kind": "training"}
    ended = {"how": "done", "phases": {name: counts.to_dict() for name, counts in phases.items()}}
    history = History(
        (
            Attempt("a1", {**about, "attempt": 1, "seconds": 3.0, "rounds": 100, "bytes_sent": 1000}),
            Attempt("a2", {**about, "attempt": 2, "seconds": 9.5, "rounds": 1207, "bytes_sent": 12_001_000, **ended}),
        )
    )
    content: dict[str, Any] = {
        "role": part.name,
        "number": part.participant,
        "participants": part.participants,
        "coordinator": "dealer",
        "federation": "credit",
        "parameters": part.params.to_dict(),
        "spent": Spent(9.5, 1207, 12_001_000, phases),
        "ledger": (
            Reveal("tree shape and split owners", "participants", 6),
            Reveal("tree shape and split owners", "dealer", 6),
            Reveal("own split", "bank", 4),
            Reveal("own split", "telecom", 2),
            Reveal("leaf membership and weight", "bank", 160),
        ),
        "model": part,
        "trees": part.trees,
        "trees_per_round": part.params.trees_per_round,
        "features": part.features,
        "metrics": {"validation_0": {"auc": [0.7, 0.8], "logloss": [0.6, 0.5]}},
        "history": history,
        "versions": {"Python": "3.11.7"},
    }
    return ReportData(**{**content, **changes})
