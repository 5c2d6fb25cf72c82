"""Trainings that the active participant proposes: what others accept, what they refuse and why, and searches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import pytest

from mpfedxgb import Federation, join
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.cli.exit_codes import ExitCode
from mpfedxgb.cli.search import parse_space
from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import (
    CheckpointError,
    DataError,
    HandshakeError,
    PeerFailedError,
    RefusedError,
    SettingsError,
    StoppedError,
)
from mpfedxgb.federation import role as roles
from mpfedxgb.federation.accepting import NOTE, Acceptance, accepters_work, coordinators_work, refusals
from mpfedxgb.federation.lookup import NewestTables
from mpfedxgb.federation.overview import overview
from mpfedxgb.federation.programs import KINDS, SCORING, TRAINING, run_coordinator
from mpfedxgb.federation.proposals import Proposal, meet
from mpfedxgb.federation.quota import TrainingsPerDay
from mpfedxgb.federation.record import read_record
from mpfedxgb.federation.rows import workers_in_session
from mpfedxgb.federation.search import Rung, Search, rungs_of
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party import Meter, run_roles
from mpfedxgb.party.communicator import Communicator
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.party import Party
from mpfedxgb.ring.array import RingArray
from mpfedxgb.training.checkpoint import Checkpoints
from mpfedxgb.transport import Kind, MemoryHub
from patience import patience
from support.refusals import ANY, refused
from support.role_files import least
from support.role_processes import WAIT, place, tables
from support.switchboard import Organisations
from support.views import Recorder

if TYPE_CHECKING:
    from nursery import Nursery

QUICK: dict[str, Any] = {"n_estimators": 2, "max_depth": 2, "max_bin": 4, "num_class": 2}


def without_training(path: Path, limits: dict[str, Any]) -> None:
    """Have a settings file say what is accepted instead of what is trained."""
    text = re.sub(r"\[training\]\n(.+\n)*", "", path.read_text())
    path.write_text(f"{text}\n[accept]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in limits.items()))


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Organisations]:
    """Return a federation whose coordinator and auxiliary accept two trainings a day of 20 rows or more."""
    made = Organisations(tmp_path, tables(), monkeypatch, QUICK, {"connect_timeout": 5.0}, tables(slice(40, 60)))
    for role in (0, 2):
        without_training(made.trial.settings(role), {"min_rows": 20, "trainings_per_day": 2, "max_depth": 3})
    yield made
    made.close()


@contextmanager
def accepting(places: Organisations) -> Iterator[Federation]:
    """Have the others stay; gives the active participant's federation."""
    calls = [
        places.start(0, lambda settings: roles.coordinate(settings)),
        places.start(2, lambda settings: Federation(settings).accept()),
    ]
    yield Federation(places.settings(1))
    assert all(call.waits for call in calls), "they stay, whatever was proposed"
    places.board.close()
    for call in calls:
        with pytest.raises(StoppedError):
            call.result()


def changed(federation: Federation, **params: Any) -> Federation:
    """Return the active participant with another [training]."""
    settings = federation.settings
    return Federation(replace(settings, training=replace(settings.training, **params)))


# Within the limits


def test_trainings_one_after_the_other(places: Organisations) -> None:
    """Each is what was proposed, is on all records with the limits, and is no new one when it goes on."""
    with accepting(places) as bank:
        first = bank.train()
        again = bank.train()  # all have its rounds and the model
        second = changed(bank, max_depth=3).train(session="second")
    assert first.model.to_json() == again.model.to_json()
    for role in (0, 1, 2):
        settings = places.settings(role)
        attempts = read_record(settings).attempts
        assert [one.content["session"] for one in attempts] == ["trial", "trial", "second"]
        assert [one.content["parameters"]["max_depth"] for one in attempts] == [2, 2, 3]
        agreed = [one.content.get("agreed") for one in attempts]
        said = [None if one is None else (one["proposed_by"], one["accept"]["max_depth"]) for one in agreed]
        assert said == [None if role == 1 else ("bank", 3)] * 3
    telecom = roles.load_model(places.settings(2))
    assert telecom.training == second.model.training, "the last training is the model"
    assert len(join([second.model, telecom]).trees) == 2


def test_a_day_has_only_so_many(places: Organisations) -> None:
    """Neither another name nor a restart of those who accept gives more; what began goes on."""
    with accepting(places) as bank:
        bank.train()
        bank.train(session="second")
    with accepting_again(places) as bank:
        with refused(PeerFailedError, "failed", ANY, "RefusedError") as e:
            bank.train(session="third")
        assert "at most 2 new trainings a day (UTC)" in e.value.reason
        assert len(bank.train(session="second").model.trees) == 2
    assert not (places.settings(2).role.state / "third").exists(), "nothing is kept of what is refused"


def accepting_again(places: Organisations) -> Any:
    """Start those who accept anew."""
    places.board.reopen()
    return accepting(places)


class StopsInTheFirstRound(Observer):
    """Stops P_1 once it has seen which rows are in the leaves of a tree, before anybody has kept the round."""

    def __init__(self) -> None:
        self.leaves: list[bytes] = []

    def on_reveal(self, name: str, value: Any) -> None:
        """Stop, if these are leaves."""
        if name == Entry.LEAF_MEMBERSHIP and isinstance(value, RingArray):
            self.leaves.append(value.data.tobytes())
            raise StoppedError("stopped by SIGTERM")


@pytest.mark.parametrize("changes", ["nothing", "a cell at P_1", "a cell at the auxiliary"])
def test_first_rounds_that_are_repeated(places: Organisations, monkeypatch: pytest.MonkeyPatch, changes: str) -> None:
    """The same one tells the same; P_1 can change nothing; other tables of the auxiliary make another training."""
    monkeypatch.setattr(Checkpoints, "save", lambda own, state: None)  # all are killed before they keep it
    places.edit(1, "num_class = 2", "num_class = 2\nnum_parallel_tree = 3\nsubsample = 0.7")
    role, seen = 2 if "auxiliary" in changes else 1, list[bytes]()
    path = places.home(role) / "train.csv"
    frame = pd.read_csv(path)
    with accepting(places):
        for k in range(3):
            if changes != "nothing" and k:
                name = f"{places.settings(role).role.name}_a"
                frame[name] = frame[name] + 0.001 * (np.arange(len(frame)) == 0)
                frame.to_csv(path, index=False)
            settings, stopping = places.settings(1), StopsInTheFirstRound()
            with pytest.raises((StoppedError, PeerFailedError)) as e:
                roles.train(settings, *NewestTables(settings)(), observer=stopping)
            seen += stopping.leaves
            if len(seen) == k + 1:
                continue
            assert isinstance(e.value, PeerFailedError)
            assert ("brings other labels" if role == 1 else "new trainings a day") in e.value.reason
    counted = json.loads((places.settings(2).role.state / "trainings-accepted.json").read_text())["trainings"]
    assert (counted, len(seen), len(set(seen))) == {
        "nothing": (1, 3, 1),
        "a cell at P_1": (1, 1, 1),
        "a cell at the auxiliary": (2, 2, 2),
    }[changes]


def test_another_training_under_a_name(places: Organisations) -> None:
    """What was kept of the first would be in its way; the first still goes on."""
    with accepting(places) as bank:
        bank.train()
        with refused(PeerFailedError, "failed", ANY, "RefusedError") as e:
            changed(bank, max_depth=3).train()
        assert "has accepted another training as trial" in e.value.reason
        assert len(bank.train().model.trees) == 2


def test_a_refusal_reaches_all(places: Organisations, caplog: pytest.LogCaptureFixture) -> None:
    """With the reason, who and the limit; nothing is counted or kept of it, and a training within limits follows."""
    with accepting(places) as bank:
        with refused(PeerFailedError, "failed", ANY, "RefusedError") as e:
            changed(bank, max_depth=4, max_bin=65).train(session="deep")
        assert "max_depth=4; its limit is [accept] max_depth = 3" in e.value.reason
        assert "max_bin=65; its limit is [accept] max_bin = 64" in e.value.reason
        bank.train()
    for role in (0, 2):
        assert json.loads((places.settings(role).role.state / "trainings-accepted.json").read_text())["trainings"] == 1
        assert [one.content["session"] for one in read_record(places.settings(role)).attempts] == ["trial"]


class Leaves(Observer):
    """Stops P_1 between its proposal and the greetings."""

    def on_start(self, stop: Any) -> None:
        """Stop."""
        raise StoppedError("stopped by SIGTERM")


def test_what_is_heard_is_on_record(places: Organisations, caplog: pytest.LogCaptureFixture) -> None:
    """A line at all roles for a proposal that led to no attempt: refused, an inquiry, or P_1 went away after it."""
    searching(places, 4)
    places.edit(2, "min_rows = 20", "min_rows = 41")
    with accepting(places) as bank:
        with refused(PeerFailedError, "failed", ANY, "RefusedError") as e:
            bank.train(session="few")
        assert "telecom does not accept this number of rows; its limit is [accept] min_rows = 41" in e.value.reason
        assert "40" not in e.value.reason, "its own number of rows is nobody's business"
    assert "min_rows = 41 (40 rows)" in caplog.text, "but in its own log"
    places.edit(2, "min_rows = 41", "min_rows = 20")
    mine = places.settings(1)
    tables = NewestTables(mine)()
    with accepting_again(places):
        Search(mine, {"max_depth": [1, 2]}).ask(tables[0])
        with pytest.raises(StoppedError):
            roles.train(mine, *tables, observer=Leaves())
    ends = {
        0: ("PeerFailedError", "done", "PeerFailedError"),
        1: ("PeerFailedError", "done", "StoppedError"),
        2: ("RefusedError", "done", "PeerFailedError"),
    }
    for role, ended in ends.items():
        history = read_record(places.settings(role))
        assert (history.attempts, history.problems, history.damaged) == ((), (), ())
        assert [one.content["session"] for one in history.proposals] == ["few", "trial", "trial"]
        assert tuple(one.content["how"] for one in history.proposals) == ended
        asked = {"kind": "inquiry", "rows": 40, "is_trial": False, "trainings": 3, "candidates": 2}
        assert history.proposals[1].content["proposal"] == asked
        assert "trial, proposed (kind inquiry, rows 40" in str(history)
        assert len(history.to_dict()["proposals"]) == 3
        assert len(history.of_session("few").proposals) == 1


def test_a_training_of_its_own(places: Organisations) -> None:
    """Where [training] is given, only that is accepted."""
    path = places.trial.settings(2)
    path.write_text(path.read_text() + "[training]\n" + "".join(f"{k} = {v}\n" for k, v in QUICK.items()))
    with accepting(places) as bank:
        with refused(PeerFailedError, "failed", ANY, "RefusedError") as e:
            changed(bank, max_depth=3).train()
        assert "max_depth is 2, proposed 3" in e.value.reason
        assert len(bank.train().model.trees) == 2


def test_scores_without_a_training(places: Organisations) -> None:
    """An auxiliary that serves needs no [training] either: the model says what is scored."""
    with accepting(places) as bank:
        bank.train()
    places.board.reopen()
    calls = [
        places.start(0, lambda settings: roles.coordinate(settings)),
        places.start(2, lambda settings: Federation(settings).serve()),
    ]
    scores = Federation(places.settings(1)).predict(tables(slice(40, 60))["bank"].drop(columns="label"))
    places.board.close()
    for call in calls:
        with pytest.raises(StoppedError):
            call.result()
    assert len(scores) == 20


# Limits, one by one


def role_with(**limits: Any) -> RoleSettings:
    """Return an auxiliary's settings with some limits."""
    return RoleSettings.from_dict({**least("telecom"), "accept": limits})


@pytest.mark.parametrize(
    ("params", "rows", "key", "value"),
    [
        ({"max_depth": 7}, 100, "max_depth", 7),
        ({"n_estimators": 101}, 100, "max_trees", 101),
        ({"n_estimators": 51, "num_parallel_tree": 2}, 100, "max_trees", 102),
        ({"n_estimators": 34, "objective": "multi:softprob", "num_class": 3}, 100, "max_trees", 102),
        ({"max_bin": 65}, 100, "max_bin", 65),
        ({}, 99, "min_rows", 99),
        ({}, 1001, "max_rows", 1001),
        ({"security": "paper", "min_child_weight": 0.0}, 100, "security", "paper"),
        ({"security": "none"}, 100, "security", "none"),
    ],
)
def test_each_limit(params: dict[str, Any], rows: int, key: str, value: object) -> None:
    """What is beyond one is refused, naming it; what is at all of them is not."""
    settings = replace(role_with(max_rows=1000), has_training=False)
    (error,) = refusals(settings, TrainParams(**params), rows)
    assert (error.parameter, error.value) == (f"accept.{key}", value)
    assert error.code == ("mode" if key == "security" else "range")
    at_the_limits = TrainParams(max_depth=6, n_estimators=100, max_bin=64, security="sealed")
    assert not [*refusals(settings, at_the_limits, 100), *refusals(settings, at_the_limits, 1000)]


def test_trainings_a_day(tmp_path: Path) -> None:
    """The count is the role's: it outlives the process, and no name begins it anew; what is known costs nothing."""
    settings = RoleSettings.from_dict({**least("telecom"), "accept": {"trainings_per_day": 2}}, tmp_path)
    meeting: Any = None  # it looks at nobody
    for name in ("one", "two", "two", "one"):
        Acceptance(settings.for_session(name)).on_meeting(meeting)
    with refused(RefusedError, "range", "trainings_per_day", 1):
        Acceptance(settings.for_session("three"))
    with refused(RefusedError, "duplicate", "session", "two"):
        Acceptance(settings.for_session("two", TrainParams(max_depth=2)))
    note = tmp_path / "state" / "one" / NOTE
    assert json.loads(note.read_text()) == {"parameters": settings.training.to_dict()}
    for damaged in ("{", "[]", "{}"):
        note.write_text(damaged)
        with refused(CheckpointError, "damaged", NOTE):
            Acceptance(settings.for_session("one"))


def test_beginning_again(tmp_path: Path) -> None:
    """It costs nothing under the same name of the training, one of the day under another; P_1's data stay the same."""
    settings = RoleSettings.from_dict({**least("telecom"), "accept": {"trainings_per_day": 2}}, tmp_path)

    def attempt(training: str, commitment: str) -> None:
        acceptance = Acceptance(settings)
        acceptance.on_meeting(cast(Party, SimpleNamespace(training=training)))
        acceptance.on_milestone({"kind": "training"})
        acceptance.on_milestone({"labels": commitment})

    for training in ("a", "a", "b", "b"):
        attempt(training, "11")
    assert TrainingsPerDay(tmp_path / "state", 2).asked() == 2
    with refused(RefusedError, "range", "trainings_per_day", 1):
        attempt("a", "11")
    with refused(RefusedError, "mismatch", "label"):
        attempt("b", "12")
    attempt("b", "11")
    assert TrainingsPerDay(tmp_path / "state", 2).asked() == 2


@pytest.mark.parametrize("name", ["lock", "Lock", "record-000001.chain", "..", "a/b", "-a", "a" * 101])
def test_names_that_are_no_folder(tmp_path: Path, places: Organisations, name: str) -> None:
    """A proposed name never is another file of the state folder, nor outside of it."""
    settings = places.settings(2)
    before = sorted(tmp_path.rglob("*"))
    proposal = Proposal(KINDS[TRAINING], name, (TrainParams(**QUICK).to_dict(),), 40)
    with pytest.raises((RefusedError, SettingsError)) as e:
        accepters_work(settings, NewestTables(settings), None)(proposal)
    assert e.value.parameter in ("session", "session.name")
    assert [path for path in sorted(tmp_path.rglob("*")) if path not in before and path.name != "state"] == []


def test_another_kind_of_session_than_was_proposed() -> None:
    """A training that was proposed as a scoring session, for which nobody has limits, is refused."""

    def bank(party: Party) -> None:
        party.broadcast(Entry.KIND_OF_SESSION, [TRAINING])
        party.barrier("never")

    outcomes = run_roles(
        lambda party, *private: run_coordinator(party, *private) if party.is_coordinator else bank(party),
        2,
        [(TrainParams(), None, workers_in_session, KINDS[SCORING]), (), ()],
    )
    with refused(HandshakeError, "mismatch", "session", "training"):
        raise outcomes[0].error or AssertionError("it was let through")
    assert all(isinstance(one.error, PeerFailedError) for one in outcomes[1:])


# What is heard


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"[" * 50_000,
        b'{"kind": "training", "session": "a", "parameters": []}',
        b'{"kind": "training", "session": "a", "parameters": [{}, {}]}',
        b'{"kind": "training", "session": "a", "parameters": [7]}',
        b'{"kind": "training", "session": "a", "parameters": [{}], "rows": -1}',
        b'{"kind": "training", "session": "a", "parameters": [{}], "rows": true}',
        b'{"kind": "mining", "session": "a", "parameters": [{}]}',
        b'{"kind": "training", "session": 7, "parameters": [{}]}',
        b'{"kind": "inquiry", "session": "a", "parameters": [{}], "trainings": 0}',
        b'{"kind": "training", "session": "a", "parameters": [{"max_depth": 99}]}',
        b'{"kind": "training", "session": "a", "parameters": [{"no_such": 1}]}',
    ],
)
def test_proposals_that_are_none(places: Organisations, content: bytes) -> None:
    """They are refused as what they are, before any greeting, and all neighbours are told."""
    settings = places.settings(0)
    hub = MemoryHub(settings.roster.links(), 1 << 20)
    session = SessionSettings(session="trial: proposal")
    bank = Communicator(hub.end(1), settings.roster, 1, session, Meter())
    bank.advance("proposal")
    bank.send([0], [np.frombuffer(content, np.uint8)], Kind.HELLO)
    with pytest.raises(HandshakeError):
        meet(settings, hub.end(0), None, coordinators_work(settings, lambda: workers_in_session(settings)))
    with refused(PeerFailedError, "failed", ANY, ANY):
        bank.receive(0, Kind.HELLO)


def test_no_proposal(places: Organisations) -> None:
    """An older version greets at once."""
    settings = places.settings(0)
    hub = MemoryHub(settings.roster.links(), 1 << 20)
    bank = Communicator(hub.end(1), settings.roster, 1, SessionSettings(session="trial/trial"), Meter())
    bank.advance("handshake")
    bank.send([0], [np.frombuffer(b"{}", np.uint8), np.zeros(16, np.uint8)], Kind.HELLO)
    with refused(HandshakeError, "version", "proposal", "bank"):
        meet(settings, hub.end(0), None, coordinators_work(settings, lambda: workers_in_session(settings)))


# Searches


def test_rungs() -> None:
    """Each trains a third of the candidates for three times as long; the last one, whole."""
    assert rungs_of(9, 90, 3) == (Rung(9, 10), Rung(3, 30), Rung(1, 90))
    assert rungs_of(4, 20, 2) == (Rung(4, 5), Rung(2, 10), Rung(1, 20))
    assert rungs_of(5, 4, 3) == (Rung(5, 1), Rung(2, 1), Rung(1, 4))
    assert rungs_of(1, 7, 3) == (Rung(1, 7),)


def searching(places: Organisations, trainings: int) -> None:
    """Give everybody rows to evaluate on, and those who accept a number of trainings a day."""
    for role, name in ((1, "bank"), (2, "telecom")):
        tables(slice(40, 60))[name].to_csv(places.home(role) / "evaluate.csv", index=False)
        places.edit(role, 'train = "train.csv"', 'train = "train.csv"\nevaluate = "evaluate.csv"')
    places.edit(1, 'column = "label"', 'column = "label"\neval_metric = ["error", "logloss"]')
    for role in (0, 2):
        places.edit(role, "trainings_per_day = 2", f"trainings_per_day = {trainings}")


def test_a_search(places: Organisations) -> None:
    """The best of each rung goes on; the last training is whole, and its model the role's, as if trained alone."""
    searching(places, 4)
    with accepting(places) as bank:
        found = bank.search({"max_depth": [1, 2, 3]})
        with refused(PeerFailedError, "failed", ANY, "RefusedError") as e:
            changed(bank, max_bin=8).train(session="one-more")
        assert "trainings a day" in e.value.reason
    assert found["session"].tolist() == ["trial-1-1", "trial-1-2", "trial-1-3", "trial"]
    assert found["rounds"].tolist() == [1, 1, 1, 2]
    depths, losses = found["max_depth"].tolist(), found["logloss"].tolist()
    assert depths[3] == depths[int(np.argmin(losses[:3]))]
    for role in (1, 2):
        model = roles.load_model(places.settings(role))
        assert (model.params.max_depth, model.params.n_estimators) == (depths[3], 2)
    assert (overview(places.settings(1)).judgement is None, overview(places.settings(2)).judgement) == (False, None)
    history = read_record(places.settings(1))
    plan = Search(places.settings(1), {"max_depth": [1, 2, 3]})
    rows, evaluation = NewestTables(places.settings(1))()
    foretold = {(r.name, r.receiver): r.count for r in plan.ledger(rows, evaluation)}
    for reveal in [r for attempt in history.attempts for r in attempt.ledger]:
        key = reveal.name, reveal.receiver
        foretold[key] = foretold.get(key, 0) - reveal.count
    assert min(foretold.values()) >= 0, "more was revealed than was foretold"
    assert {name for (name, _), left in foretold.items() if left} <= {Entry.TREE_SHAPE, Entry.OWN_SPLIT, Entry.OWN_PATH}


@pytest.mark.parametrize(
    ("space", "words"), [({"max_depth": [3, 4]}, "max_depth = 3"), ({"gamma": [0.0, 1.0]}, "a day")]
)
def test_a_search_beyond_the_limits(places: Organisations, space: dict[str, list[Any]], words: str) -> None:
    """It is refused before the first training, whose candidate would have been accepted."""
    searching(places, 2)
    with accepting(places) as bank, refused(PeerFailedError, "failed", ANY, "RefusedError") as e:
        bank.search(space)
    assert words in e.value.reason
    assert not [path for path in places.trial.folder.rglob("*") if path.name == NOTE]


@pytest.mark.parametrize(
    ("space", "parameter", "factor"),
    [
        ({"max_dept": [3]}, "max_dept", 3),
        ({"n_estimators": [3]}, "n_estimators", 3),
        ({"max_depth": []}, "max_depth", 3),
        ({"max_depth": [99]}, "max_depth", 3),
        ({"max_depth": [3]}, "factor", 1),
        ({"max_depth": [*range(1, 17)], "max_bin": [*range(2, 102)]}, "trainings", 3),
    ],
)
def test_searches_that_cannot_be(places: Organisations, space: dict[str, Any], parameter: str, factor: int) -> None:
    """They are refused by name before anybody is asked."""
    searching(places, 2)
    with pytest.raises(SettingsError) as e:
        Search(places.settings(1), space, factor)
    assert e.value.parameter == parameter


def test_who_searches(places: Organisations) -> None:
    """The active participant, with rows to evaluate on."""
    with refused(SettingsError, "missing", "data.evaluate"):
        Search(places.settings(1), {"max_depth": [1]})
    with refused(SettingsError, "place", "telecom"):
        Search(places.settings(2), {"max_depth": [1]})
    with refused(SettingsError, "place", "accept"):
        Federation(places.settings(1)).accept()


def test_values_on_the_command_line() -> None:
    """Numbers and words are told apart; a parameter is given once."""
    assert parse_space(["max_depth=3, 4", "learning_rate=0.1", "security=strict,sealed", "first_layer_mask=true"]) == {
        "max_depth": [3, 4],
        "learning_rate": [0.1],
        "security": ["strict", "sealed"],
        "first_layer_mask": [True],
    }
    for wrong in (["max_depth"], ["=3"], ["a=1", "a=2"]):
        with refused(SettingsError, "value", "try", ANY):
            parse_space(wrong)


def test_rows_in_common(places: Organisations) -> None:
    """Whoever accepts can align without a [training]; an inquiry, too, names the rows that all have and no others."""
    searching(places, 4)
    for role in (1, 2):
        places.edit(role, "[data]\n", "[data]\nalign = true\n")
    path = places.home(2) / "train.csv"
    pd.read_csv(path).iloc[:-8].to_csv(path, index=False)
    for role in (0, 2):
        places.edit(role, "min_rows = 20", "min_rows = 20\nmax_rows = 32")
    with refused(DataError, "missing", "align"):
        Search(places.settings(1), {"max_depth": [1, 2]}).ask(NewestTables(places.settings(1))()[0])

    others = [places.start(0, lambda settings: roles.coordinate(settings))]
    others.append(places.start(2, lambda settings: roles.align(settings, *NewestTables(settings)())))
    found = roles.align(places.settings(1), *NewestTables(places.settings(1))())
    assert len(found["train"].ids) == 32 < len(NewestTables(places.settings(1))()[0].ids)
    assert len(others[1].result()["train"].ids) == 32
    places.board.close()
    with pytest.raises(StoppedError):
        others[0].result()

    places.board.tap = recorder = Recorder()
    with accepting_again(places) as bank:
        assert len(bank.search({"max_depth": [1, 2]})) == 3
    told = [json.loads(f.arrays[0].tobytes()) for f in recorder.links[1, 0] if f.arrays and f.label == "proposal"]
    assert {(one["kind"], one["rows"]) for one in told} == {("inquiry", 32), ("training", 32)}


# Real processes


def test_processes_that_accept(tmp_path: Path, nursery: Nursery) -> None:
    """Coordinator and auxiliary stay, over a refused search and two trainings, until they are stopped."""
    with place(tmp_path, nursery) as made:
        for role in (0, 2):
            without_training(made.trial.settings(role), {"min_rows": 20, "max_depth": 2, "trainings_per_day": 3})
        for role, name in ((1, "bank"), (2, "telecom")):
            tables(slice(40, 60))[name].to_csv(made.home(role) / "evaluate.csv", index=False)
            made.edit(role, 'train = "train.csv"', 'train = "train.csv"\nevaluate = "evaluate.csv"')
        made.edit(1, 'column = "label"', 'column = "label"\neval_metric = "logloss"')
        made.start(0, "--json-logs")
        made.start(2, "--accept")
        search = [made.trial.settings(1), "--try", "max_depth=1,2,3"]
        made.children[1] = made.nursery.start(["search", *search], made.home(1) / "log")
        assert made.children[1].wait(patience(WAIT)) == ExitCode.REFUSED, made.logs()
        assert "its limit is [accept] max_depth = 2" in made.last_line(1)
        assert "will be revealed in all, at most" in made.log(1)
        search[-1] = "max_depth=1,2"
        made.children[1] = made.nursery.start(["search", *search], made.home(1) / "log")
        assert made.children[1].wait(patience(WAIT)) == 0, made.logs()
        assert "all roles accept that" in made.log(1)
        assert made.start(1, "--train", "--session", "one-more").wait(patience(WAIT)) == ExitCode.REFUSED, made.logs()
        assert "new trainings a day (UTC)" in made.last_line(1)
        for role in (0, 2):
            assert made.children[role].poll() is None, made.log(role)
            made.children[role].terminate()
        assert made.codes() == {0: ExitCode.STOPPED, 1: ExitCode.REFUSED, 2: ExitCode.STOPPED}
    models = [roles.load_model(RoleSettings.from_toml(made.trial.settings(role))) for role in (1, 2)]
    assert len(join(models).trees) == 2
