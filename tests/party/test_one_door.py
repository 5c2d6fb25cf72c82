"""Nothing outside `party/` talks past a party, or writes on its ledger or its meter by hand."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mpfedxgb

SOURCE = Path(mpfedxgb.__file__).parent
COMMUNICATORS = {"communicator", "_communicator", "Communicator"}


def past_the_door(text: str) -> list[str]:
    """Return what of some code touches a communicator, or writes on a party's ledger or meter."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            words = {*(node.module or "").split("."), *(name.name for name in node.names)}
        elif isinstance(node, ast.Import):
            words = {word for name in node.names for word in name.name.split(".")}
        else:
            words = {getattr(node, "id", getattr(node, "attr", ""))}
        if COMMUNICATORS & words:
            found.append(ast.unparse(node))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".ledger.record", ".meter.sent")):
            found.append(ast.unparse(node))
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found += [ast.unparse(t) for t in targets if ".meter." in ast.unparse(t) or "meter.now" in ast.unparse(t)]
    return found


@pytest.mark.parametrize(
    "text",
    [
        "party.communicator.send(peers, arrays)",
        "send = party._communicator.send",
        "from mpfedxgb.party.communicator import Array",
        "from mpfedxgb.party import communicator",
        "import mpfedxgb.party.communicator",
        "party.ledger.record(name, receiver, 1)",
        "self.party.meter.now.rounds += 1",
        "party.meter.plans[name] = plan",
        "party.meter.sent(peer, 1, 1)",
    ],
)
def test_the_test_sees_ways_around(text: str) -> None:
    """Whichever it is."""
    assert len(past_the_door(text)) >= 1


@pytest.mark.parametrize("text", ["party.record(name, to, 1)", "party.count(rounds=1)", "ledger.record(*entry)"])
def test_the_test_lets_the_verbs_pass(text: str) -> None:
    """And a ledger of a report's own, which adds up what others wrote."""
    assert past_the_door(text) == []


def test_nothing_outside_party_goes_around_it() -> None:
    """Every message, count and entry goes through a verb of `Party`, and so is checked, metered and written down."""
    files = [path for path in SOURCE.rglob("*.py") if SOURCE / "party" not in path.parents]
    found = {str(path.relative_to(SOURCE)): past_the_door(path.read_text(encoding="utf-8")) for path in files}
    assert len(files) > 100
    assert {path: lines for path, lines in found.items() if lines} == {}
