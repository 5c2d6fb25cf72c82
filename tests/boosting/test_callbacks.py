"""Who hears of a training: functions, and objects in XGBoost's form; in which order, and who may stop it."""

from __future__ import annotations

from typing import Any

import pytest
import xgboost

from mpfedxgb.boosting.callbacks import Callbacks, RoundReport
from mpfedxgb.errors import SettingsError, UserError
from support.refusals import refused

MODEL: Any = object()


class Diary:
    """Writes down what it is told, and answers as it was told to."""

    def __init__(self, stop_after: int = 99, stop_before: int = 99) -> None:
        self.stop_after, self.stop_before = stop_after, stop_before
        self.pages: list[Any] = []

    def before_training(self, model: Any) -> Any:
        """Note it."""
        self.pages.append(("begins", model))
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Note it, and perhaps stop."""
        self.pages.append(("before", epoch, evals_log))
        return epoch == self.stop_before

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Note it, and perhaps stop."""
        self.pages.append(("after", epoch, evals_log))
        return epoch == self.stop_after

    def after_training(self, model: Any) -> Any:
        """Note it."""
        self.pages.append(("ends", model))
        return model


class Half:
    """Has one of the four methods."""

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Go on."""
        return False


def report(t: int) -> RoundReport:
    """Return the report of a round."""
    return RoundReport(t, 3, {"validation_0": {"rmse": [1.0] * (t + 1)}}, 0, 0, MODEL)


def test_everyone_is_called_with_what_xgboost_calls_it_with() -> None:
    """Model, number of the round and the metrics so far; true answers before and after a training mean nothing."""
    diary, told = Diary(), list[RoundReport]()
    callbacks = Callbacks.read([diary, told.append, Half()])
    assert (len(callbacks.functions), len(callbacks.observers)) == (1, 2)
    callbacks.begin(MODEL, 0, {})
    assert not callbacks.after(report(0))
    assert not callbacks.before(MODEL, 1, {})
    callbacks.end(MODEL)
    assert diary.pages == [
        ("begins", MODEL),
        ("before", 0, {}),
        ("after", 0, report(0).metrics),
        ("before", 1, {}),
        ("ends", MODEL),
    ]
    assert told == [report(0)]


def test_one_of_many_may_stop() -> None:
    """All of them are called all the same."""
    first, second = Diary(stop_after=0), Diary(stop_before=1)
    callbacks = Callbacks.read([first, second])
    assert callbacks.after(report(0))
    assert callbacks.before(MODEL, 1, {})
    assert [len(one.pages) for one in (first, second)] == [2, 2]


def test_before_the_first_round_is_too_early() -> None:
    """There would be no model."""
    with refused(UserError, "few", "callbacks"):
        Callbacks.read([Diary(stop_before=0)]).begin(MODEL, 0, {})


@pytest.mark.parametrize(
    ("theirs", "remedy"),
    [
        (xgboost.callback.EarlyStopping(rounds=3), ("refused", "callbacks", "EarlyStopping")),
        (xgboost.callback.LearningRateScheduler(lambda t: 0.1), ("refused", "callbacks", "LearningRateScheduler")),
        (xgboost.callback.TrainingCheckPoint(directory="."), ("refused", "callbacks", "TrainingCheckPoint")),
    ],
)
def test_what_needs_a_booster_is_refused(theirs: Any, remedy: tuple[Any, ...]) -> None:
    """XGBoost's own callbacks that change its Booster are told what to use instead."""
    with refused(SettingsError, *remedy):
        Callbacks.read([theirs])


def test_what_needs_no_booster_works(capfd: pytest.CaptureFixture[str]) -> None:
    """XGBoost's monitor prints our metrics."""
    callbacks = Callbacks.read([xgboost.callback.EvaluationMonitor()])
    callbacks.begin(MODEL, 0, {})
    assert not callbacks.after(report(0))
    assert "validation_0-rmse:1.00000" in capfd.readouterr().out


def test_what_is_no_callback() -> None:
    """Is refused with what would be one."""
    with refused(SettingsError, "type", "callbacks", 7):
        Callbacks.read([7])
