"""Nothing outside `party/` talks past a party, writes on its ledger or meter by hand, or changes who looks on."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_type_hints

import pytest

import mpfedxgb
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.reveal import open_tags, reveal

SOURCE = Path(mpfedxgb.__file__).parent
VERBS = {"reveal": 3, "open_tags": 3, "record": 0, "announce": 0, "broadcast": 0, "tell_everyone": 0, "tell": 2}
"""What makes a value known, and the place of its name."""
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
        if isinstance(node, ast.Call) and _writes(node):
            found.append(ast.unparse(node))
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found += [ast.unparse(t) for t in targets if ".meter." in ast.unparse(t) or "meter.now" in ast.unparse(t)]
            found += [ast.unparse(t) for t in targets if getattr(t, "attr", "").startswith(("observer", "on_"))]
    return found


def _writes(call: ast.Call) -> bool:
    """Return whether a call puts a number of its own on a ledger or into counters, or a name past what is declared."""
    words = ast.unparse(call.func).split(".")
    if words[-1] == "record" and words[-2:-1] != ["party"]:  # others' `record` take nothing
        return len(call.args) + len(call.keywords) > 1
    if words[-1] == "cast" or (words[-1] == "Entry" and len(words) == 1):
        return any("Entry" in ast.unparse(part) for part in (call.func, *call.args))
    return words[-1] in ("Counts", "Reveal") or words[-2:] == ["meter", "sent"]


def unnamed(text: str) -> list[str]:
    """Return the calls of verbs that make a value known under a name which is written out, not an entry."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            place = VERBS.get(ast.unparse(node.func).split(".")[-1])
            arguments = [*node.args[place : None if place is None else place + 1]] if place is not None else []
            arguments += [word.value for word in node.keywords if place is not None and word.arg == "name"]
            found += [ast.unparse(node) for name in arguments if isinstance(name, ast.Constant | ast.JoinedStr)]
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
        "party.observer = mine",
        "party.observer.on_sizes = check",
        "ledger.record(name, receiver, 3)",
        "self._ledger.record(name=name, receiver=receiver, count=3)",
        "Reveal(name, receiver, 3)",
        "ledger.add([Reveal(name, receiver, 3)])",
        "total = Counts(rounds=3)",
        "party.record(cast(Entry, name), receiver, 3)",
        "Entry('a name')",
    ],
)
def test_the_test_sees_ways_around(text: str) -> None:
    """Whichever it is."""
    assert len(past_the_door(text)) >= 1


@pytest.mark.parametrize(
    "text", ["party.record(name, to, 1)", "ledger.add(other, times)", "Counts.sum(parts)", "trial.record()"]
)
def test_the_test_lets_the_verbs_pass(text: str) -> None:
    """And sums of what others wrote and counted."""
    assert past_the_door(text) == []


def test_nothing_outside_party_goes_around_it() -> None:
    """Every message, count and entry goes through a verb of `Party`, and so is checked, metered and written down."""
    files = [path for path in SOURCE.rglob("*.py") if SOURCE / "party" not in path.parents]
    found = {str(path.relative_to(SOURCE)): past_the_door(path.read_text(encoding="utf-8")) for path in files}
    assert len(files) > 100
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize("text", ["party.announce('a name', values)", "reveal(party, x, ALL, name=f'{what} of it')"])
def test_the_test_sees_names_that_are_written_out(text: str) -> None:
    """Of whatever verb; types refuse them too, unless somebody has them look away."""
    assert unnamed(text) == [ast.unparse(ast.parse(text))]
    assert unnamed(text.replace("'a name'", "Entry.BATCH").replace("f'{what} of it'", "Entry.BATCH")) == []


def test_every_name_is_an_entry() -> None:
    """What is made known has a name that `Entry` declares: the verbs take no other type, and nobody makes one up."""
    for verb in (reveal, open_tags, Party.record, Party.announce, Party.broadcast, Party.tell_everyone, Party.tell):
        assert get_type_hints(verb)["name"] is Entry
    assert {str(path) for path in SOURCE.rglob("*.py") if unnamed(path.read_text(encoding="utf-8"))} == set()
