"""Participants with different people align, then train on those they have in common, and on nobody else."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from contracts.transport_contract import Call
from mpfedxgb import Federation, FedXGBClassifier, join
from mpfedxgb.data.ids import IdRule
from mpfedxgb.errors import CheckpointError, DataError, FrameError, HandshakeError, SettingsError
from mpfedxgb.federation import role as roles
from mpfedxgb.federation.alignment import Terms, agree_on_terms, alignment_path, let_all_keep, rows_in_common
from mpfedxgb.federation.doctor import Severity, examine
from mpfedxgb.federation.record import read_record
from mpfedxgb.federation.rows import Rows, read_rows
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party import Party, run_roles
from mpfedxgb.party.entries import Entry
from mpfedxgb.ring import kernels
from mpfedxgb.transport.frame import Kind
from patience import patience
from support.refusals import refused
from support.switchboard import Organisations
from support.toy_tables import BANK, QUICK, TELECOM, labels, people
from support.views import Recorder

PEOPLE = people(80).assign(person=[f"C-{i:04}" for i in range(3000, 3080)])
ROWS = {"bank": slice(0, 60), "telecom": slice(15, 80)}
SHARED = slice(15, 60)
COLUMNS = {"bank": BANK, "telecom": TELECOM}


def tables() -> dict[str, pd.DataFrame]:
    """Return the participants' files: people of which only some are in both, each in an order of its own."""
    frame = PEOPLE.assign(label=labels(PEOPLE, "binary"))
    found = {}
    for seed, (name, columns) in enumerate(COLUMNS.items()):
        more = ["label"] if name == "bank" else []
        found[name] = frame[[*columns, "person", *more]].iloc[ROWS[name]].sample(frac=1, random_state=seed)
    return found


def organisations(tmp_path: Path, patch: pytest.MonkeyPatch) -> Organisations:
    """Return a federation of two that is told to align."""
    waiting = {"deadline": patience(60.0), "connect_timeout": patience(60.0)}
    places = Organisations(tmp_path, tables(), patch, {**QUICK, "num_class": 2}, waiting)
    for role in (1, 2):
        places.edit(role, 'id = "person"', 'id = "person"\nalign = true')
    return places


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Organisations]:
    """Return a federation of two that is told to align; at the end its coordinator waits no longer."""
    kernels.warm_up()  # on a busy machine that takes longer than anything here
    made = organisations(tmp_path, monkeypatch)
    yield made
    made.close()


def add(places: Organisations, role: int, text: str) -> None:
    """Add lines to a role's settings."""
    path = places.trial.settings(role)
    path.write_text(f"{path.read_text()}\n{text}\n")


def run(places: Organisations, *programs: Callable[[RoleSettings], Any]) -> list[Call]:
    """Start the coordinator for as long as it is needed, and the participants; return these."""
    places.start(0, lambda settings: roles.coordinate(settings, once=True))
    return [places.start(m, program) for m, program in enumerate(programs, start=1)]


def align(settings: RoleSettings) -> dict[str, Rows]:
    """Take part in an alignment with the files of the settings."""
    return roles.align(settings, read_rows(settings, "train"), n_jobs=1)


def train(settings: RoleSettings) -> Any:
    """Take part in a training with the files of the settings."""
    return roles.train(settings, read_rows(settings, "train"))


def result(call: Call) -> Any:
    """Return what a role's program returned; on a busy machine a training takes a while."""
    end = time.monotonic() + patience(120.0)
    while call.waits and time.monotonic() < end:
        time.sleep(0.01)
    return call.result()


def outcome(call: Call) -> str:
    """Return with what a role's program failed."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 # whose kind each test looks at
        result(call)
    return f"{type(caught.value).__name__}: {caught.value}"


def plain_trees() -> Any:
    """Return the trees of a training in one process on the people in common."""
    rows = PEOPLE.iloc[SHARED]
    y = labels(PEOPLE, "binary")[SHARED]
    plain = FedXGBClassifier(**QUICK).fit({name: rows[columns] for name, columns in COLUMNS.items()}, y)
    return join(plain.partial_models_).trees


def test_align_then_train(places: Organisations) -> None:
    """Everybody keeps which rows are in common, and a training on them gives the model of those rows alone."""
    recorder = Recorder()
    places.board.tap = recorder
    for call in run(places, align, align):
        assert list(result(call)["train"].ids.keys) == PEOPLE["person"].iloc[SHARED].tolist()
    kinds = {frame.kind for frame in recorder.received(frozenset({0}))}
    assert kinds == {Kind.HELLO, Kind.ANNOUNCE}, "the coordinator hears the kind of session"
    announced = list(recorder.received(frozenset({0}), [Kind.ANNOUNCE]))
    assert [[a.tolist() for a in frame.arrays] for frame in announced] == [[[3]]], "and no number after it"
    for role in (1, 2):
        path = alignment_path(places.settings(role))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "C-" not in path.read_text(), "no id"
    done = [result(call) for call in [places.start(m, train) for m in (1, 2)]]  # the coordinator is still there
    assert join([one.model for one in done]).trees == plain_trees()
    entries = {(r.name, r.receiver): r.count for r in read_record(places.settings(2)).total}
    assert entries[Entry.ROWS_BEFORE, "participants"] == entries[Entry.ROWS_BEFORE, "bank"] == 1
    assert entries[Entry.ROWS_IN_COMMON, "participants"] == 45


def test_training_aligns_first(places: Organisations) -> None:
    """Where nobody has aligned, a training does; the next one takes what was found."""
    done = [result(call) for call in run(places, train, train)]
    assert places.board.meetings == 2
    assert join([one.model for one in done]).trees == plain_trees()
    for call in run(places, train, train):
        result(call)
    assert places.board.meetings == 3


def test_from_python_with_rows_to_evaluate(places: Organisations) -> None:
    """Federation.align takes tables, aligns those to evaluate on too, and returns ids as the tables write them."""
    later = {name: frame.iloc[:30] for name, frame in tables().items()}
    want = sorted(set(later["bank"]["person"]) & set(later["telecom"]["person"]))
    assert want
    for role in (1, 2):
        add(places, role, "[align]\nmin_rows = 1")

    def both(settings: RoleSettings) -> Any:
        name = settings.role.name
        found = Federation(settings).align(tables()[name], later[name], n_jobs=1)
        trained = Federation(settings).train(tables()[name], evaluation=later[name])
        return found, trained

    for call in run(places, both, both):
        found, trained = result(call)
        assert found["train"].tolist() == PEOPLE["person"].iloc[SHARED].tolist()
        assert found["evaluate"].tolist() == want
        assert found["train"].name == "person"
        assert trained.model.trees


def test_categories_of_others_are_forgotten(places: Organisations) -> None:
    """A word that only rows outside the intersection have is no category of the training."""
    frame = tables()["telecom"]
    outside = frame["person"] > PEOPLE["person"].iloc[59]
    words = np.where(outside, "only-elsewhere", np.where(frame["person"] < "C-3040", "north", "south"))
    frame.assign(region=words).to_csv(places.settings(2).file_of("train"), index=False)
    calls = run(places, align, align)
    result(calls[0])
    column = next(c for c in result(calls[1])["train"].table.columns if c.name == "region")
    assert column.categories == ("north", "south")
    assert set(column.values.tolist()) == {0.0, 1.0}


# What the terms are about


@pytest.mark.parametrize(
    ("theirs", "says"),
    [
        ('ids = "integer"', '[align] ids is "integer" at telecom and "text" at bank'),
        ('case = "ignore"', '[align] case is "ignore" at telecom and "exact" at bank'),
        ('spaces = "remove"', '[align] spaces is "remove" at telecom and "trim" at bank'),
        ('unicode = "NFKC"', '[align] unicode is "NFKC" at telecom and "NFC" at bank'),
        ("min_rows = 5", "[align] min_rows is 5 at telecom and 20 at bank"),
    ],
)
def test_terms_that_differ(places: Organisations, theirs: str, says: str) -> None:
    """Everybody is told what differs before anything that depends on an id is sent."""
    if "integer" in theirs:
        frame = tables()["telecom"]
        frame.assign(person=range(len(frame))).to_csv(places.settings(2).file_of("train"), index=False)
    add(places, 2, f"[align]\n{theirs}")
    key, _, value = theirs.partition(" = ")
    told = [outcome(call) for call in run(places, align, align)]
    mine = says.split(" and ")[1].split(" at ")[0]
    for one in told:
        assert f"[align] {key} is" in one
        assert f"{value} at telecom" in one
        assert f"{mine} at bank" in one
        assert "make it the same at all participants" in one
    assert not alignment_path(places.settings(1)).exists()


def test_terms_that_are_none() -> None:
    """Whatever a peer sends in their place is an error with its name."""
    terms = Terms(IdRule(), 20, ("train",))
    for blob in (b"", b"[1]", b"7", b"{", b"[" * 4000, b"x" * 5000, b"[[1, 2]]", b"[[null, 1]]"):

        def program(party: Party, blob: bytes = blob) -> None:
            if party.is_coordinator:
                return
            if party.is_active:
                agree_on_terms(party, terms)
                return
            party.step("terms")
            party._communicator.receive(1)
            party._communicator.send([1], [np.frombuffer(blob, np.uint8)])

        error = run_roles(program, 2)[1].error
        assert isinstance(error, FrameError), (blob[:9], error)
        assert "P2 sent terms of an alignment that cannot be read" in str(error)


def test_terms_with_a_name_that_no_terminal_should_obey() -> None:
    """What a peer calls its terms is written without what a terminal or a log would obey."""
    terms = Terms(IdRule(), 20, ("train",))

    def program(party: Party) -> None:
        if party.is_active:
            agree_on_terms(party, terms)
        elif not party.is_coordinator:
            party.step("terms")
            party._communicator.receive(1)  # or else P_1 may find it gone
            party._communicator.send([1], [np.frombuffer(b'{"\\u001b[2J\\n": 1}', np.uint8)])

    error = run_roles(program, 2)[1].error
    assert isinstance(error, HandshakeError)
    assert str(error).isprintable()


def test_an_end_in_another_form() -> None:
    """Nobody keeps anything unless P_1 says what the program says."""

    def program(party: Party) -> None:
        if party.is_active:
            party.step("aligned")
            party._communicator.send([2], [np.zeros(3, np.uint8)])
        elif not party.is_coordinator:
            let_all_keep(party)

    assert "malformed end of the alignment from " in str(run_roles(program, 2)[2].error)


@pytest.mark.parametrize("which", [1, 2])
def test_a_role_that_is_not_asked_to_align(places: Organisations, which: int) -> None:
    """One wants to train where the other aligns: both are told, with the remedy."""
    places.edit(which, "align = true", "align = false")
    for call in run(places, *(train if m == which else align for m in (1, 2))):
        told = outcome(call)
        assert "began a session for" in told
        assert "give all participants the same [data] align, and run mpfedxgb align at all of them" in told


def test_it_has_to_be_in_the_settings(places: Organisations) -> None:
    """Otherwise a training would not take what is found."""
    places.edit(1, "align = true", "align = false")
    with refused(SettingsError, "place", "data.align"):
        align(places.settings(1))


@pytest.mark.parametrize("shared", [0, 7])
def test_too_few_rows(places: Organisations, shared: int) -> None:
    """Nothing is kept, and everybody is told that they are too few."""
    frame = tables()["telecom"]
    names = [*PEOPLE["person"][:shared], *(f"X-{i}" for i in range(len(frame) - shared))]
    frame.assign(person=names).to_csv(places.settings(2).file_of("train"), index=False)
    says = "fewer than 20 training rows in common" if shared else "no training row in common"
    for call in run(places, align, align):
        assert says in outcome(call)
    assert not alignment_path(places.settings(2)).exists()


@pytest.mark.parametrize(("role", "other", "limit"), [(1, "telecom", 64), (2, "bank", 59)])
def test_a_list_that_is_too_long(places: Organisations, role: int, other: str, limit: int) -> None:
    """The one that does not take it refuses it by name, before a point is sent; others hear no number."""
    recorder = Recorder()
    places.board.tap = recorder
    name = places.settings(role).role.name
    add(places, role, f"[align]\nmax_rows = {limit}")
    ended = {m: outcome(call) for m, call in enumerate(run(places, align, align), start=1)}
    for told in ended.values():
        assert f"{other} brings more training rows to align than {name} compares its own with" in told
        assert f"raise [align] max_rows at {name}" in told
    assert ended[role].startswith("RefusedError")
    assert f"({other} has {limit + 1} rows, and max_rows is {limit};" in ended[role]
    assert str(limit) not in ended[3 - role], "nor does the coordinator hear it"
    sent = [frame for frames in recorder.links.values() for frame in frames if frame.kind is Kind.DATA]
    assert not [frame for frame in sent if frame.label.endswith("/points")]


@pytest.mark.parametrize("extra", [0, 1])
def test_a_list_is_compared_with_one_of_twice_its_length(places: Organisations, extra: int) -> None:
    """Unless the settings say more."""
    frame = tables()["telecom"]
    more = frame.sample(120 + extra - len(frame), replace=True, random_state=0)
    more = more.assign(person=[f"X-{i}" for i in range(len(more))])
    pd.concat([frame, more]).to_csv(places.settings(2).file_of("train"), index=False)
    calls = run(places, align, align)
    if extra:
        says = "(telecom has 121 rows, and max_rows is 120; without the key it is twice the list itself)"
        assert says in outcome(calls[0])
    else:
        assert len(result(calls[1])["train"].ids) == 45


# What is kept


@pytest.fixture
def aligned(places: Organisations) -> Organisations:
    """Return a federation that has aligned; its coordinator waits for a training."""
    for call in run(places, align, align):
        result(call)
    return places


def test_a_table_that_has_changed(aligned: Organisations) -> None:
    """Other ids are refused before anybody is called; other values, and another order, are no change."""
    settings = aligned.settings(2)
    path, frame = settings.file_of("train"), tables()["telecom"]
    frame.iloc[::-1].assign(**{TELECOM[0]: 1.0}).to_csv(path, index=False)
    common = rows_in_common(settings, {"train": read_rows(settings, "train")})
    assert common is not None
    assert len(common["train"].ids) == 45
    for changed in (frame.iloc[1:], frame.replace({"person": {"C-3070": "C-9999"}})):
        changed.to_csv(path, index=False)
        with refused(DataError, "mismatch", "align"):
            train(settings)


def test_settings_that_have_changed(aligned: Organisations) -> None:
    """Another rule, or rows to evaluate that were not there, need a new alignment."""
    settings = aligned.settings(1)
    rows = read_rows(settings, "train")
    with refused(DataError, "missing", "align"):
        rows_in_common(settings, {"train": rows, "evaluate": rows})
    add(aligned, 1, '[align]\ncase = "ignore"')
    with refused(DataError, "mismatch", "[align]"):
        train(aligned.settings(1))


@pytest.mark.parametrize(
    "damage", ["", "{}", "[]", "null", '{"format": "mpfedxgb alignment 1", "tables": {"train": 3}}', "cut"]
)
def test_a_damaged_file(aligned: Organisations, damage: str) -> None:
    """It is named, with the remedy."""
    settings = aligned.settings(1)
    path = alignment_path(settings)
    content = json.loads(path.read_text())
    content["tables"]["train"]["marks"] = content["tables"]["train"]["marks"][4:]
    path.write_text(json.dumps(content) if damage == "cut" else damage)
    with refused(CheckpointError, "damaged", "alignment.json"):
        train(settings)


def test_one_who_has_lost_it(aligned: Organisations) -> None:
    """One aligns and the other trains: both are told to align."""
    alignment_path(aligned.settings(2)).unlink()
    for call in [aligned.start(m, train) for m in (1, 2)]:
        assert "run mpfedxgb align at all of them" in outcome(call)


def test_doctor(aligned: Organisations, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what is in common, what is not aligned yet, that ids look like numbers, and what does not fit."""

    def findings() -> list[tuple[Severity, str]]:
        found = examine(aligned.trial.settings(2), timeout=0.1)
        return [(finding.level, finding.text) for finding in found if finding.check == "align"]

    assert findings() == [(Severity.OK, "45 of 65 training rows are in common, as was found before")]
    path, frame = aligned.settings(2).file_of("train"), tables()["telecom"]
    frame.assign(person=range(100, 165)).to_csv(path, index=False)
    assert [level for level, _ in findings()] == [Severity.PROBLEM]
    alignment_path(aligned.settings(2)).unlink()
    assert [level for level, _ in findings()] == [Severity.WARNING, Severity.OK]
    assert 'set [align] ids = "integer" at all participants' in findings()[0][1]
    frame.assign(person=[f"{i}.0" if i % 2 else f"{i}" for i in range(100, 165)]).to_csv(path, index=False)
    assert [level for level, _ in findings()] == [Severity.WARNING, Severity.OK]
    assert "if 7, 007 and 7.0 are one id" in findings()[0][1]
    frame.assign(person=[f"p{i}.0" for i in range(100, 165)]).to_csv(path, index=False)
    assert [level for level, _ in findings()] == [Severity.OK]
    from mpfedxgb.federation import doctor

    def missing() -> None:
        raise SettingsError("needs PyNaCl")

    monkeypatch.setattr(doctor, "check_available", missing)
    assert findings() == [(Severity.PROBLEM, "needs PyNaCl")]
