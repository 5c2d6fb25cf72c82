"""Three organisations and nobody else: retail is the coordinator and brings columns, in all that a federation does."""

from __future__ import annotations

import http.client
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from mpfedxgb import Federation, FedXGBClassifier, join
from mpfedxgb.api.models import load_parts
from mpfedxgb.cli.exit_codes import ExitCode
from mpfedxgb.errors import Code, PeerFailedError, RefusedError, SettingsError
from mpfedxgb.federation import role as roles
from mpfedxgb.federation.doctor import Severity, examine
from mpfedxgb.federation.overview import overview
from mpfedxgb.federation.own_training import training_fingerprint
from mpfedxgb.federation.record import read_record
from mpfedxgb.federation.role import Trained
from mpfedxgb.federation.rows import read_rows
from mpfedxgb.federation.scoring import RowsNotFoundError
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party.entries import Entry
from mpfedxgb.report.html.page import page_html
from mpfedxgb.ring import kernels
from mpfedxgb.transport.frame import Kind
from patience import patience
from support.commands import Shell
from support.refusals import refused
from support.role_files import least
from support.role_processes import place
from support.role_processes import tables as small_tables
from support.switchboard import Organisations
from support.toy_tables import QUICK, labels, people
from support.views import Recorder

if TYPE_CHECKING:
    from nursery import Nursery

BANK, TELECOM, RETAIL = 1, 2, 0
NAMES = {BANK: "bank", TELECOM: "telecom", RETAIL: "retail"}
PEOPLE = people(90).assign(person=[f"C-{i:04}" for i in range(3000, 3090)])
FEATURES = [name for name in PEOPLE.columns if name != "person"]
COLUMNS = {"bank": FEATURES[::3], "telecom": FEATURES[1::3], "retail": FEATURES[2::3]}
ROWS = {"bank": slice(0, 60), "telecom": slice(10, 70), "retail": slice(5, 65)}
SHARED, EVALUATED, SCORED = slice(10, 60), slice(70, 80), slice(80, 90)


def tables(rows: dict[str, slice], with_label: bool = True) -> dict[str, pd.DataFrame]:
    """Return the organisations' files, each in an order of its own; the bank has the label."""
    frame = PEOPLE.assign(label=labels(PEOPLE, "binary"))
    found = {}
    for seed, (name, columns) in enumerate(COLUMNS.items()):
        more = ["label"] if name == "bank" and with_label else []
        found[name] = frame[[*columns, "person", *more]].iloc[rows[name]].sample(frac=1, random_state=seed)
    return found


def everywhere(rows: slice) -> dict[str, slice]:
    """Return the same rows for all."""
    return dict.fromkeys(COLUMNS, rows)


Make = Callable[..., Organisations]


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return a way to run commands in this process."""
    return Shell(monkeypatch, capsys)


@pytest.fixture
def organise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Return how to make a federation of three; at its end nobody waits any longer."""
    kernels.warm_up()
    made: list[Organisations] = []

    def make(rows: dict[str, slice] | None = None, topology: str = "star", **training: Any) -> Organisations:
        waiting = {"deadline": patience(60.0), "connect_timeout": patience(60.0)}
        given, scored = tables(rows or everywhere(SHARED)), tables(everywhere(SCORED), with_label=False)
        training = {**QUICK, "num_class": 2, **training}
        made.append(
            Organisations(
                tmp_path, given, monkeypatch, training, waiting, scored, topology=topology, coordinator="retail"
            )
        )
        return made[-1]

    yield make
    for one in made:
        one.close()


def edit_all(places: Organisations, old: str, new: str) -> None:
    """Change every organisation's settings."""
    for role in NAMES:
        places.edit(role, old, new)


def train(settings: RoleSettings) -> Trained:
    """Take part in a training with the files of the settings."""
    evaluation = read_rows(settings, "evaluate") if settings.data and settings.data.evaluate else None
    return roles.train(settings, read_rows(settings, "train"), evaluation)


def train_all(places: Organisations) -> list[Trained]:
    """Run a training with everybody; return what the bank, telecom and retail have."""
    calls = {role: places.start(role, train) for role in NAMES}
    return [calls[role].result() for role in NAMES]


def simulated(**changes: Any) -> FedXGBClassifier:
    """Train in one process on the rows in common."""
    y = labels(PEOPLE, "binary")[SHARED]
    given = {name: PEOPLE.iloc[SHARED][columns] for name, columns in COLUMNS.items()}
    return FedXGBClassifier(**{**QUICK, "coordinator": "retail", **changes}).fit(given, y)


@pytest.mark.parametrize(("topology", "security"), [("star", "strict"), ("mesh", "strict"), ("star", "sealed")])
def test_training_and_scoring_from_files(organise: Make, topology: str, security: str) -> None:
    """Each gets its part of the simulation's model, with evaluation rows and samples of columns; retail serves too."""
    sampled = {"colsample_bytree": 0.9, "colsample_bylevel": 0.9, "colsample_bynode": 0.9, "first_layer_mask": True}
    places = organise(topology=topology, security=security, **sampled)
    for name, table in tables(everywhere(EVALUATED)).items():
        table.to_parquet(places.trial.folder / name / "evaluate.parquet")
    edit_all(places, "[data]", '[data]\nevaluate = "evaluate.parquet"')
    done = train_all(places)
    parts = [one.model for one in done]

    assert [(part.name, part.participant, part.coordinator) for part in parts] == [
        ("bank", 1, "retail"), ("telecom", 2, "retail"), ("retail", 3, "retail"),
    ]  # fmt: skip
    assert list(done[0].metrics) == ["validation_0"]
    assert len(join(parts).trees) == QUICK["n_estimators"]
    serving = [places.start(role, lambda settings: roles.serve_rows(settings, once=True)) for role in (TELECOM, RETAIL)]
    with roles.scoring(places.settings(BANK), parts[0]) as session:
        scored = session.predict(tables(everywhere(SCORED), with_label=False)["bank"])
    for call in serving:
        call.result()
    whole = FedXGBClassifier.from_parts(parts)
    expected = whole.predict_proba({name: PEOPLE.iloc[SCORED][columns] for name, columns in COLUMNS.items()})
    by_person = scored.set_index("person").loc[PEOPLE.person.iloc[SCORED], "class_yes"]
    np.testing.assert_array_equal(by_person, expected[:, 1])


@pytest.mark.parametrize("topology", ["star", "mesh"])
def test_a_training_aligns_first(organise: Make, topology: str) -> None:
    """Retail is one of those who align: all find the same rows, and the model is the simulation's on these."""
    places, recorder = organise(ROWS, topology), Recorder()
    places.board.tap = recorder
    edit_all(places, "[data]", "[data]\nalign = true")
    done = train_all(places)

    assert join([one.model for one in done]).trees == join(simulated().partial_models_).trees
    for role in NAMES:
        entries = {(r.name, r.receiver): r.count for r in read_record(places.settings(role)).total}
        assert entries[Entry.ROWS_BEFORE, "bank"] == 2
        assert entries[Entry.ROWS_IN_COMMON, "participants"] == 50
    inbox = [frame for frame in recorder.received(frozenset({RETAIL})) if frame.payload_bytes]
    assert {frame.kind for frame in inbox} == {Kind.HELLO, Kind.ANNOUNCE, Kind.OWN}, "nothing masked, no share"
    assert {frame.sender for frame in inbox if frame.kind is Kind.OWN and topology == "star"} <= {BANK}


def test_one_session_after_the_other(organise: Make) -> None:
    """Retail answers session after session, says which rows it lacks, and keeps to its own quota."""
    places = organise()
    parts = [one.model for one in train_all(places)]
    asked = tables(everywhere(SCORED), with_label=False)
    asked["retail"].iloc[:-1].to_csv(places.home(RETAIL) / "score.csv", index=False)
    places.edit(RETAIL, "[data]", "[scoring]\nmax_rows_per_day = 21\n\n[data]")
    for role in (TELECOM, RETAIL):
        places.start(role, roles.serve_rows)
    missing = asked["retail"].person.iloc[-1]
    known = asked["bank"][asked["bank"].person != missing]
    for _ in range(2):
        with roles.scoring(places.settings(BANK), parts[0]) as session:
            assert len(session.predict(known)) == 9
    with roles.scoring(places.settings(BANK), parts[0]) as session:
        with pytest.raises(RowsNotFoundError) as absent:
            session.predict(asked["bank"][asked["bank"].person == missing])
        assert absent.value.counts == {"retail": 1}
        with pytest.raises(PeerFailedError, match="retail answers for at most 21 rows a day") as most:
            session.predict(known)
    assert most.value.kind == RefusedError.__name__


def test_what_it_keeps_and_shows(organise: Make) -> None:
    """State, record, report and `doctor` are those of a participant; it is no coordinator alone."""
    places = organise()
    done = train_all(places)
    settings = places.settings(RETAIL)
    shown = overview(settings)
    page = " ".join(page_html(shown).split())

    assert (settings.number, settings.owner, settings.is_coordinator) == (0, 3, False)
    assert "The auxiliary participant, and the coordinator, of the federation trial, with bank and telecom." in page
    assert (shown.number, shown.participants, shown.model) == (3, ("bank", "telecom", "retail"), done[2].model)
    assert {path.name for path in places.state(RETAIL).iterdir()} >= {"private.key", "attempt", "checkpoints"}
    attempt = read_record(settings).attempts[-1]
    assert [entry.name for entry in attempt.ledger if entry.receiver == "retail"]
    assert (attempt.content["rounds"], attempt.content["forecast"]["rounds"]) == (0, 0), "rounds are the participants'"
    found = {finding.check: finding for finding in examine(places.trial.settings(RETAIL))}
    assert "retail (auxiliary and the coordinator)" in found["settings"].text
    assert {found[what].level for what in ("data", "room", "model", "scoring", "state")} == {Severity.OK}
    with refused(SettingsError, "place", "retail", "coordinate"):
        Federation(settings).coordinate()
    changed = training_fingerprint(settings, [], None)
    assert changed["coordinator"] == "retail"
    assert "coordinator" not in training_fingerprint(_independent(settings), [], None)


def _independent(settings: RoleSettings) -> RoleSettings:
    content = least("telecom")
    content["federation"]["coordinator"] = "coordinator"
    return RoleSettings.from_dict(content)


def content_of(role: str, **federation: Any) -> dict[str, dict[str, Any]]:
    """Return the least that a role's settings hold."""
    content = least("bank" if role == "bank" else "telecom")
    content["federation"] |= {"participants": ["bank", "telecom", "retail"], "coordinator": "retail", **federation}
    content["role"]["name"] = role
    if role == "retail":
        content["network"] = {"listen": "0.0.0.0:7701"}
    return content


def test_settings_say_who_coordinates() -> None:
    """Retail listens for everybody, has data and a model, and is the last owner; the others dial it."""
    retail, bank = (RoleSettings.from_dict(content_of(role)) for role in ("retail", "bank"))
    assert (retail.number, retail.owner, retail.roster.owner_names) == (0, 3, ("bank", "telecom", "retail"))
    assert (retail.data is not None, retail.role.model is not None, retail.peers()) == (True, True, {})
    assert list(bank.peers()) == ["retail"]


@pytest.mark.parametrize(
    ("changes", "code", "parameter"),
    [
        ({"federation": {"coordinator": "bank"}}, "place", "federation.coordinator"),
        ({"federation": {"participants": ["bank", "retail"]}}, "few", "federation.coordinator"),
        ({"network": {"coordinator": "x:1"}}, "place", "network.coordinator"),
        ({"network": {"active": "x:1"}}, "place", "network.active"),
        ({"label": {"column": "defaulted"}}, "place", "label"),
        ({"training": {"security": "paper", "min_child_weight": 0.0}}, "mode", "federation.coordinator"),
        ({"training": {"security": "none"}}, "mode", "training.security"),
    ],
)
def test_what_does_not_go_with_it(changes: dict[str, dict[str, Any]], code: Code, parameter: str) -> None:
    """The active participant, one of two, addresses to dial, a label, the paper's way: each with its reason."""
    content = content_of("retail")
    for table, keys in changes.items():
        content.setdefault(table, {}).update(keys)
    with refused(SettingsError, code, parameter):
        RoleSettings.from_dict(content)


def test_commands_say_which_is_which(tmp_path: Path, shell: Shell) -> None:
    """`init` writes three folders; `coordinator retail.toml` is refused with the line to run."""
    names = ("--participants", "bank,telecom,retail", "--coordinator", "retail")
    assert shell.run("init", tmp_path / "trial", *names, "--ports", "7,8") == 0
    assert "mpfedxgb coordinator" not in shell.out
    path = tmp_path / "trial" / "retail" / "retail.toml"
    assert shell.out.count(f"mpfedxgb participant {path} --train") == 1
    assert shell.run("coordinator", path) == ExitCode.USER
    assert f"run: mpfedxgb participant {path} --train" in shell.err
    assert shell.run("plan", path) == 0
    assert "this machine has room for retail" in shell.out


def test_three_processes(tmp_path: Path, nursery: Nursery) -> None:
    """Over mutual TLS: align, train, score a file and serve on, and no coordinator besides."""
    with place(tmp_path, nursery, coordinator="retail") as made:
        for role in NAMES:
            made.edit(role, "[data]", "[data]\nalign = true")
            made.children[role] = made.nursery.start(["align", made.trial.settings(role)], made.home(role) / "log")
        assert made.codes() == dict.fromkeys(NAMES, 0), made.logs()
        assert made.last_line(RETAIL) == "retail: 40 of 40 training rows are in common"
        for options in (("--train",), ("--predict",)):
            for role in NAMES:
                made.start(role, *options)
            assert made.codes() == dict.fromkeys(NAMES, 0), made.logs()
        first = (made.home(BANK) / "predictions.csv").read_bytes()
        shutil.copy(made.home(BANK) / "predictions.csv", tmp_path / "first.csv")
        serving = [made.start(role, "--serve") for role in (TELECOM, RETAIL)]
        for _ in range(2):
            (made.home(BANK) / "predictions.csv").unlink()
            assert made.start(BANK, "--predict").wait(patience(60)) == 0, made.logs()
            assert (made.home(BANK) / "predictions.csv").read_bytes() == first
        asked = small_tables(slice(40, 42), tuple(COLUMNS))["bank"].drop(columns="label").to_dict("records")
        served = made.start(BANK, "--serve", "--http", "0")
        made.wait_for(BANK, "bank answers requests for scores")
        (url,) = re.findall(r" on http://(\S+)", made.log(BANK))
        connection = http.client.HTTPConnection(url.rstrip("/"), timeout=patience(60))
        connection.request(
            "POST", "/invocations", json.dumps({"dataframe_records": asked}), {"Content-Type": "application/json"}
        )
        answer = json.loads(connection.getresponse().read())
        connection.close()
        by_person = pd.read_csv(tmp_path / "first.csv").set_index("person")
        for row in answer["predictions"]:
            assert row["probability"] == by_person.loc[row["id"]].filter(like="class_").iloc[-1]
        served.terminate()
        served.wait(patience(60))
        assert [child.poll() for child in serving] == [None, None], "they stay for the next session"
        made.stop()


def test_the_demo_of_three(tmp_path: Path, shell: Shell) -> None:
    """`demo --three --processes`: three processes over mutual TLS give xgboost's trees."""
    assert shell.run("demo", "--three", "--processes", "--trees", 1, "--max-depth", 2, "--out", tmp_path / "d") == 0
    assert "same trees" in shell.out
    assert "3 participants, of whom retail is the coordinator too" in " ".join(shell.out.split())
    assert {path.name.partition(".")[0] for path in (tmp_path / "d").iterdir()} == set(NAMES.values())


def test_simulations_from_the_command_line(tmp_path: Path, shell: Shell) -> None:
    """`simulate --coordinator` trains the same model by the protocol and in the clear; the paper's way is refused."""
    frame = PEOPLE[FEATURES].assign(label=labels(PEOPLE, "binary"))
    frame.to_csv(tmp_path / "people.csv", index=False)
    words = ("simulate", tmp_path / "people.csv", "--label", "label", "--participants", 3, "--trees", 2)
    trees = []
    for security in ("strict", "none"):
        out = tmp_path / security
        assert shell.run(*words, "--coordinator", "P2", "--security", security, "--out", out) == 0
        parts = load_parts(out)
        assert [part.name for part in parts] == ["P1", "P3", "P2"]
        trees.append(join(parts).trees)
    assert trees[0] == trees[1]
    paper = ("--security", "paper", "--min-child-weight", 0, "--out", tmp_path / "paper")
    assert shell.run(*words, "--coordinator", "P2", *paper) == ExitCode.USER
    assert "permutes everybody's features" in shell.err


@pytest.mark.parametrize("security", ["strict", "sealed"])
def test_directions_of_its_own_columns(organise: Make, security: str) -> None:
    """Retail says in its own settings which way predictions go with its columns, as every owner does."""
    places = organise(security=security, constrained=True)
    signs = {name: {column: 1 for column in columns if column != "city"} for name, columns in COLUMNS.items()}
    for role, name in NAMES.items():
        written = ", ".join(f"{column} = {sign}" for column, sign in signs[name].items())
        places.edit(role, "[data]", f"[data]\nmonotone = {{ {written} }}")
    done = train_all(places)
    every = {column: 1 for of in signs.values() for column in of}
    held, free = simulated(security=security, monotone_constraints=every), simulated(security=security)

    assert join([one.model for one in done]).trees == join(held.partial_models_).trees
    assert join(held.partial_models_).trees != join(free.partial_models_).trees
