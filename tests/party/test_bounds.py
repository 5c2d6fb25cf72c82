"""Sizes that roles tell each other: what cannot be is refused before memory is taken, and named with who told it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mpfedxgb.boosting.callbacks import NothingKept
from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import DoesNotFitError, FrameError, MpfedxgbError, PeerFailedError
from mpfedxgb.party import Outcome, Party, run_roles
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.handshake import check_numbers
from mpfedxgb.training.train import secure_train
from mpfedxgb.tree.nodes import Scorer
from mpfedxgb.tree.predict import secure_predict
from patience import patience
from support.names import unlisted
from support.small_trainings import models, training_of


def patient() -> SessionSettings:
    """Return settings whose deadline only a hang reaches, by the load of this moment."""
    return SessionSettings(deadline=patience(20.0))


Change = Callable[[np.ndarray[Any, Any]], Any]


def lying(program: Callable[..., object], name: str, change: Change) -> Callable[..., object]:
    """Return a program in which the active participant announces other numbers to the coordinator."""

    def run(party: Party, *private: Any) -> object:
        plain = party.announce

        def announce(name_: Entry, values: Any, shape: Any = None) -> Any:
            if name_ != name or not party.is_active:
                return plain(name_, values, shape)
            plain(name_, change(np.array(values)))
            return np.asarray(values, np.int64)

        party.announce = announce  # type: ignore[method-assign,assignment]
        return program(party, *private)

    return run


def expect(outcomes: list[Outcome[Any]], named: str) -> None:
    """Make sure that the coordinator refuses by name, and that all are told."""
    assert isinstance(outcomes[0].error, FrameError)
    assert named in str(outcomes[0].error)
    for outcome in outcomes[1:]:
        assert isinstance(outcome.error, PeerFailedError)
        assert (outcome.error.origin, outcome.error.kind) == ("coordinator", "FrameError")


def put(row: int, column: int, value: int) -> Change:
    """Return what puts another number in the place of one."""

    def change(values: np.ndarray[Any, Any]) -> Any:
        values[row, column] = value
        return values

    return change


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        (
            Entry.TABLE_SIZES,
            put(1, 2, 1 << 31),
            "P2 announced 2147483648 candidate columns; allowed: 0 to 4194304",
        ),
        (Entry.TABLE_SIZES, put(0, 2, -1), "P1 announced -1 candidate columns"),
        (Entry.TABLE_SIZES, put(0, 0, 1 << 40), "P1 announced 1099511627776 training rows; allowed: 1 to 67108864"),
        (Entry.TABLE_SIZES, put(1, 0, 0), "P2 announced 0 training rows"),
        (Entry.TABLE_SIZES, put(1, 1, 1 << 62), "evaluation rows; allowed: 0"),
        (Entry.TABLE_SIZES, lambda v: v[:, :2], "malformed"),
        (Entry.TABLE_SIZES, lambda v: v[:1], "malformed"),
        (Entry.TABLE_SIZES, lambda v: v[0], "malformed"),
        (Entry.ROUNDS_DONE, put(1, 0, -1), "P2 announced -1 boosting rounds that are done"),
        (Entry.ROUNDS_DONE, put(0, 0, 1 << 40), "boosting rounds that are done; allowed: 0 to"),
        (Entry.FEATURE_SIZES, put(0, 0, 1 << 31), "P1 announced 2147483648"),
        (Entry.FEATURE_SIZES, put(1, 0, -5), "P2 announced -5"),
    ],
)
def test_a_training(name: str, change: Change, named: str) -> None:
    """The coordinator believes no size that cannot be."""
    training = training_of("binary", 2)
    if name == Entry.FEATURE_SIZES:
        training = replace(training, params=replace(training.params, security="paper", min_child_weight=0.0))
    private = [(*own, NothingKept()) for own in training.private]
    expect(run_roles(lying(secure_train, name, change), 2, private, patient()), named)


def everywhere(place: tuple[int, ...], value: int) -> Change:
    """Return what changes the same number of every participant."""

    def change(values: np.ndarray[Any, Any]) -> Any:
        for row in values:
            row[place] = value
        return values

    return change


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        (Entry.ROWS_TO_SCORE, everywhere((0,), 1 << 40), "rows to score; allowed: 0 to 67108864"),
        (Entry.ROWS_TO_SCORE, everywhere((1,), 1 << 40), "trees; allowed: 1 to"),
        (Entry.ROWS_TO_SCORE, everywhere((2,), 1 << 20), "P1 announced 1048576 trees in use"),
        (Entry.ROWS_TO_SCORE, everywhere((3,), 7), "holders of shares"),
        (Entry.TREE_SHAPE, everywhere((0, 1), 1 << 40), "leaves; allowed: 1 to 16777216"),
        (Entry.TREE_SHAPE, everywhere((0, 1), 0), "P1 announced trees that no model has"),
        (Entry.TREE_SHAPE, everywhere((0, 0), 5), "P1 announced trees that no model has"),
        (Entry.TREE_SHAPE, everywhere((0, 2), 2), "P1 announced trees that no model has"),
        (Entry.TREE_SHAPE, lambda v: v[:, :1], "malformed"),
    ],
)
def test_a_scoring(name: str, change: Change, named: str) -> None:
    """Nor of rows and trees that rows are scored with."""
    training = training_of("binary", 2)
    parts = models(training.run())
    scorers = [Scorer(part.trees, table, False) for part, table in zip(parts, training.tables, strict=True)]
    private = [(1, None, None), *((1, scorer, None) for scorer in scorers)]

    def program(party: Party, *own: Any) -> None:
        secure_predict(party, *own)
        party.tell_everyone(unlisted("end"), None if party.is_coordinator else [0])  # as sessions end: all together

    expect(run_roles(lying(program, name, change), 2, private, patient()), named)


def test_own_sizes_are_the_users_business() -> None:
    """A table that is too large is refused where it is, as something that does not fit."""

    def program(party: Party) -> None:
        check_numbers(party, 2, [3, 9], ("rows", 1, 8), ("columns", 0, 8))

    outcomes = run_roles(program, 2, settings=patient())
    assert isinstance(outcomes[2].error, DoesNotFitError)
    assert str(outcomes[2].error) == "P2 announced 9 columns; allowed: 0 to 8"
    assert all(isinstance(outcome.error, MpfedxgbError) for outcome in outcomes)


def test_lack_of_memory_is_told_by_its_kind() -> None:
    """The others learn that it was that, and who it was; not how much was asked for."""

    def program(party: Party) -> int:
        if party.role == 2:
            return len(np.empty(1 << 58, np.uint8))
        return int(party.tell_everyone(unlisted("size"), None if party.is_coordinator else [1]).sum())

    outcomes = run_roles(program, 3, settings=patient())
    assert isinstance(outcomes[2].error, MemoryError)
    for role in (0, 1, 3):
        error = outcomes[role].error
        assert isinstance(error, PeerFailedError)
        assert (error.origin, error.kind) == ("P2", "MemoryError")
        assert error.reason.startswith("there is not enough memory on that machine at step")
