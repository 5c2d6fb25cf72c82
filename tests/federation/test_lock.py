"""One process at a time in a state folder: a second one is refused, and what the first has kept stays as it is."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from federation.test_role import coordinate, organisations, serve_once, train
from mpfedxgb import Federation
from mpfedxgb.boosting.callbacks import RoundReport
from mpfedxgb.cli.exit_codes import ExitCode
from mpfedxgb.errors import CheckpointError
from mpfedxgb.federation import role as roles
from mpfedxgb.federation.record import read_record
from mpfedxgb.federation.session import locked_state
from nursery import Nursery
from support.refusals import refused
from support.role_processes import place


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_second_restart_leaves_the_first_training_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a training runs, a second start in the same folder changes no file; the training ends well."""
    places = organisations(tmp_path, monkeypatch)
    errors: list[CheckpointError] = []

    def start_again(report: RoundReport) -> None:
        before = contents(places.state(1))
        assert report.iteration == 0 or "checkpoints/rounds.checkpoint" in before
        with refused(CheckpointError, "busy", "lock") as no:
            train(places.settings(1), restart=True)
        errors.append(no.value)
        assert contents(places.state(1)) == before

    calls = [places.start(0, coordinate), places.start(1, lambda s: train(s, callback=start_again))]
    calls.append(places.start(2, train))
    for call in calls:
        call.result()
    assert len(errors) == 3


def test_every_way_to_write_state_takes_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training, aligning, scoring and serving; reading the record, and the coordinator, do not."""
    places = organisations(tmp_path, monkeypatch)
    for call in [places.start(0, coordinate), *(places.start(role, train) for role in (1, 2))]:
        call.result()
    bank, telecom = places.settings(1), places.settings(2)
    with locked_state(bank), locked_state(telecom):
        assert stat.S_IMODE((bank.role.state / "lock").stat().st_mode) == 0o600
        for act in (
            lambda: Federation(bank).train(),
            lambda: Federation(bank).align(),
            lambda: Federation(bank).predict(None),
            lambda: Federation(telecom).serve(once=True),
            lambda: serve_once(telecom),
        ):
            with refused(CheckpointError, "busy", "lock"):
                act()
        assert len(roles.load_model(bank).trees) == 3
        assert read_record(bank).attempts
    assert places.board.meetings == 1
    with locked_state(bank):
        pass


def test_a_lock_that_cannot_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link in its place is not followed, and nothing is written where it leads."""
    bank = organisations(tmp_path, monkeypatch).settings(1)
    bank.role.state.mkdir()
    (bank.role.state / "lock").symlink_to(tmp_path / "elsewhere")
    with refused(CheckpointError, "file", value=40), locked_state(bank):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_where_files_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without fcntl is named, and the block does not begin."""
    bank = organisations(tmp_path, monkeypatch).settings(1)
    bank.role.state.mkdir()
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with refused(CheckpointError, "file", "lock"):
        Federation(bank).train()


def test_beside_a_process_and_after_its_death(tmp_path: Path, nursery: Nursery) -> None:
    """The second ends with code 7 and names the first, which goes on; after SIGKILL there is no lock."""
    with place(tmp_path, nursery) as made:
        first = made.start(1)
        made.wait_for(1, "bank waits for")
        first_log = made.home(1) / "log"
        second = nursery.start(["participant", made.trial.settings(1), "--train", "--restart"], made.home(1) / "second")
        assert second.wait(60) == ExitCode.CHECKPOINT
        said = (made.home(1) / "second").read_text()
        assert f"bank: process {first.pid} is at work with the state folder" in said
        reading = nursery.start(["record", made.trial.settings(1)], made.home(1) / "third")
        assert reading.wait(60) == ExitCode.DONE, (made.home(1) / "third").read_text()
        assert first.poll() is None, first_log.read_text()
        first.kill()
        first.wait(60)
        made.start_all()
        assert made.codes() == {0: 0, 1: 0, 2: 0}, made.logs()
