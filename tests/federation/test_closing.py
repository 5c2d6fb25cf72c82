"""How a training ends: whoever is lost in the last moments, all have the model, or all come back and get it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from federation.test_role import coordinate, estimator, organisations, train
from mpfedxgb import join
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.errors import (
    CheckpointError,
    FederationError,
    MissingPeerError,
    MpfedxgbError,
    PeerFailedError,
    StoppedError,
)
from mpfedxgb.federation import role as roles
from mpfedxgb.federation.own_training import Finished
from mpfedxgb.party import Party
from mpfedxgb.party.entries import Entry
from mpfedxgb.training.checkpoint import Checkpoints
from support.switchboard import Organisations


class LostError(StoppedError):
    """What stands for the loss of a role."""


def before_the_last_round_is_kept(patch: pytest.MonkeyPatch, name: str) -> None:
    """Lose a role when it has computed everything and written nothing."""
    save = Checkpoints.save

    def lose(self: Checkpoints, state: Any) -> None:
        if self.fingerprint["role"] == name and state.rounds == self.fingerprint["parameters"]["n_estimators"]:
            raise LostError
        save(self, state)

    patch.setattr(Checkpoints, "save", lose)


def before_it_tells(patch: pytest.MonkeyPatch, name: str) -> None:
    """Lose a role when it has kept the last round and told nobody."""
    lose_at_end(patch, name, first=True, after=False)


def before_its_model_is_written(patch: pytest.MonkeyPatch, name: str) -> None:
    """Lose a role when all know that all have kept the last round."""
    lose_at_end(patch, name, first=True, after=True)


def before_it_tells_of_its_model(patch: pytest.MonkeyPatch, name: str) -> None:
    """Lose a role when it has its model and told nobody."""
    lose_at_end(patch, name, first=False, after=False)


def after_everything(patch: pytest.MonkeyPatch, name: str) -> None:
    """Lose a role when it has told everybody, and before it ends."""
    lose_at_end(patch, name, first=False, after=True)


def lose_at_end(patch: pytest.MonkeyPatch, name: str, first: bool, after: bool) -> None:
    """Lose a role before or after it tells the others of its last round, or of its model."""
    plain = Party.tell_everyone

    def tell(self: Party, what: Entry, mine: Any, shape: tuple[int, ...] = (1,)) -> Any:
        here = what == Entry.KEPT_AT_THE_END and self.name == name and (mine == [1]) == first
        if here and not after:
            raise LostError
        told = plain(self, what, mine, shape)
        if here:
            raise LostError
        return told

    patch.setattr(Party, "tell_everyone", tell)


MOMENTS = [
    before_the_last_round_is_kept,
    before_it_tells,
    before_its_model_is_written,
    before_it_tells_of_its_model,
]


def run(places: Organisations) -> list[Any]:
    """Run a training; return how each participant ended: with its outcome, or with its error."""
    calls = [places.start(0, coordinate), *(places.start(role, train) for role in places.roles[1:])]
    ended: list[Any] = []
    for call in calls:
        try:
            ended.append(call.result())
        except (MpfedxgbError, LostError) as error:
            ended.append(error)
    return ended


@pytest.mark.parametrize("security", ["strict", "paper"])
@pytest.mark.parametrize("name", ["bank", "telecom"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_nobody_finishes_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: Callable[..., None], name: str, security: str
) -> None:
    """While a role lacks something at its end, none ends well; all that start again get one and the same model."""
    options = {"security": security, "min_child_weight": 0} if security == "paper" else {}
    places = organisations(tmp_path, monkeypatch, training=options)
    with monkeypatch.context() as patch:
        moment(patch, name)
        ended = run(places)
    assert all(isinstance(one, FederationError | LostError) for one in ended), ended
    assert not any(isinstance(one, MissingPeerError) for one in ended), ended
    _, *again = run(places)
    models = [one.model for one in again]
    if security == "strict":
        assert join(models).trees == join(estimator("binary").partial_models_).trees
    assert len({len(model.trees) for model in models}) == 1
    assert len({model.training for model in models}) == 1


@pytest.mark.parametrize("name", ["bank", "telecom"])
def test_a_model_that_cannot_be_written_ends_the_training_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The others are told why, between the two announcements; once there is room, all get the model."""
    places = organisations(tmp_path, monkeypatch)
    save = PartialModel.save

    def fail(self: PartialModel, path: Path) -> None:
        if self.name == name:
            raise CheckpointError(f"cannot write {path}: No space left on device")
        save(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(PartialModel, "save", fail)
        coordinator, *ended = run(places)
    failed, other = ended if name == "bank" else reversed(ended)
    assert isinstance(failed, CheckpointError)
    assert "No space left on device" in str(failed)
    for one in (coordinator, other):
        assert isinstance(one, PeerFailedError)
        assert f"{name} failed: CheckpointError" in str(one)
    _, *again = run(places)
    assert join([one.model for one in again]).trees == join(estimator("binary").partial_models_).trees


@pytest.mark.parametrize("name", ["bank", "telecom"])
def test_who_has_the_others_word_needs_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A role that is lost after it told all comes back alone, and has the model; with other data it is not taken in."""
    places = organisations(tmp_path, monkeypatch, network={"connect_timeout": 3.0})
    with monkeypatch.context() as patch:
        after_everything(patch, name)
        ended = run(places)
    role = 1 if name == "bank" else 2
    assert isinstance(ended[role], LostError)
    trees = roles.load_model(places.settings(role)).trees
    again = train(places.settings(role))
    assert again.model.trees == trees
    path = places.settings(role).role.model
    assert path is not None
    path.write_text(path.read_text() + "\n")
    with pytest.raises(MissingPeerError):
        train(places.settings(role))


def test_a_note_is_of_one_model_and_training(tmp_path: Path) -> None:
    """Anything else that is there, or not there, is no word of the others."""
    model = tmp_path / "model"
    finished = Finished(tmp_path, {"session": "spring"})
    assert not finished.is_noted(model)
    model.write_text("1")
    assert not finished.is_noted(model)
    finished.note(model)
    assert finished.is_noted(model)
    assert not Finished(tmp_path, {"session": "autumn"}).is_noted(model)
    model.write_text("2")
    assert not finished.is_noted(model)
    model.write_text("1")
    for text in ("", "[", "7", json.dumps({"model": "1"})):
        (tmp_path / "finished.json").write_text(text)
        assert not finished.is_noted(model)
    finished.forget()
    finished.forget()
    assert not finished.is_noted(model)
