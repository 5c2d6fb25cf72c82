"""Shares that are kept between attempts: those of two attempts never meet, wherever a role dies, or it is noticed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from mpfedxgb.boosting import join
from mpfedxgb.errors import CheckpointError, PeerFailedError, RefusedError, StoppedError, UserError
from mpfedxgb.ring import kernels
from mpfedxgb.training import checkpoint
from mpfedxgb.training.checkpoint import KEPT, ROUNDS
from support.attempts import Site, Stop, comparable, training_for, uninterrupted
from support.refusals import refused

KIND = "sealed binary"
ACTS = ("write_file", "append_to_file", "cut_file")
"""How a checkpoint changes on disk."""


@pytest.fixture(autouse=True, scope="module")
def _warm() -> None:
    kernels.warm_up()


@contextmanager
def dying(role: int, act: int, before: bool) -> Iterator[list[str]]:
    """Let a role die just before or after one of its acts on disk; yields the names of what it has done."""
    done: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ACTS:

            def acting(
                path: Path,
                *rest: object,
                name: str = name,
                real: Callable[..., None] = getattr(checkpoint, name),  # noqa: B008 # each its own
            ) -> None:
                if path.parent.name != str(role):
                    real(path, *rest)
                    return
                if before and len(done) == act:
                    raise StoppedError("killed")
                real(path, *rest)
                done.append(name)
                if len(done) == act + 1:
                    raise StoppedError("killed")

            patch.setattr(checkpoint, name, acting)
            if name == "write_file":
                patch.setattr(checkpoint, name, acting)
        yield done


DEATHS = [*product((1, 2), range(7), (True, False))]
"""A role, which act of it on disk, and whether it dies before it: the common round, then three rounds, each with its
margins and a line."""


@pytest.mark.parametrize("seed", range(4))
def test_wherever_roles_die(tmp_path: Path, seed: int) -> None:
    """A role dies at one of its acts on disk, in the next attempt one at another: trees and predictions are equal."""
    expected, _ = uninterrupted(KIND, 2)
    draws = np.random.default_rng(seed)
    site = Site(training_for(KIND, 2), tmp_path)
    for number in draws.choice(len(DEATHS), 2):
        role, act, before = DEATHS[number]
        with dying(role, act, before) as done:
            outcomes = site.run()
        assert isinstance(outcomes[role].error, StoppedError) or len(done) <= act
    assert comparable(site.finish()) == expected, f"seed {seed}"


def test_a_role_that_dies_before_it_forgets_a_round(tmp_path: Path) -> None:
    """P1 has a round more, dies as that is to be cut off, and the others make the round again without it: they cannot.

    So its round stays one that P1 alone has, and is cut off by the attempt after that.
    """
    expected, _ = uninterrupted(KIND, 2)
    site = Site(training_for(KIND, 2), tmp_path)
    site.run(_second_waits_for_first(site, 2))
    assert [site.checkpoints(r).newest() for r in (1, 2)] == [2, 1]
    with dying(1, 0, before=True):
        outcomes = site.run()
    assert isinstance(outcomes[1].error, StoppedError)
    assert [site.checkpoints(r).newest() for r in (1, 2)] == [2, 1]
    assert comparable(site.finish()) == expected
    assert site.loaded == [1, 1]


def all_before(rounds: int) -> Stop:
    """Stop everyone before it keeps a round."""

    def stop(who: int, reached: int) -> None:
        if reached == rounds:
            raise StoppedError("stopped by SIGTERM")

    return stop


def _second_waits_for_first(site: Site, rounds: int) -> Stop:
    """Stop P2 before it keeps a round, once P1 has kept it."""

    def stop(who: int, reached: int) -> None:
        if (who, reached) == (2, rounds):
            site.saved.wait_for([1], rounds)
            raise StoppedError("stopped by SIGTERM")

    return stop


@pytest.mark.parametrize("kind", [KIND, "paper binary"])
def test_a_copy_of_an_earlier_attempt_is_noticed(tmp_path: Path, kind: str) -> None:
    """Somebody puts back a folder whose last round was made again since: nobody goes on, and nothing is lost."""
    expected, _ = uninterrupted(kind, 2)
    site = Site(training_for(kind, 2), tmp_path / "site")
    site.run(_second_waits_for_first(site, 2))
    mine = site.checkpoints(1).folder
    shutil.copytree(mine, tmp_path / "old")
    site.run(all_before(3))
    assert site.loaded == [1, 1]
    mine.rename(tmp_path / "new")
    shutil.copytree(tmp_path / "old", mine)

    outcomes = site.run()

    for outcome in outcomes:
        assert isinstance(outcome.error, CheckpointError | PeerFailedError)
        assert "P2 and P1 have kept boosting rounds of different attempts" in str(outcome.error)
        assert "--restart" in str(outcome.error)
    shutil.rmtree(mine)
    (tmp_path / "new").rename(mine)
    assert comparable(site.finish()) == expected
    assert site.loaded == [2, 2]


def test_a_last_round_that_some_have(tmp_path: Path) -> None:
    """Whoever has kept the last round may have a part; the round is made again, and the old part fits no new one."""
    expected, rounds = uninterrupted(KIND, 2)
    site = Site(training_for(KIND, 2), tmp_path)
    first = site.run(_second_waits_for_first(site, rounds))[1].result
    assert first is not None
    results = site.finish()
    assert comparable(results) == expected
    with refused(UserError, "mismatch", "training", "P2"):
        join([first.model, results[1].model])
    again = site.finish()  # what is only read again is the same to the last bit
    assert [r.model.to_json() for r in again] == [r.model.to_json() for r in results]


DAMAGES: dict[str, Callable[[Path, Path], object]] = {
    "missing": lambda path, other: path.unlink(),
    "empty": lambda path, other: path.write_bytes(b""),
    "one bit": lambda path, other: path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:]),
    "another's": lambda path, other: shutil.copy(other, path),
    "an earlier round's": lambda path, other: shutil.copy(path.with_name(path.name.replace("2", "1")), path),
}


@pytest.mark.parametrize("role", [1, 2])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_margin_shares(tmp_path: Path, damage: str, role: int) -> None:
    """At any participant: the last round before, which all have, is gone on from."""
    expected, _ = uninterrupted(KIND, 2)
    site = Site(training_for(KIND, 2), tmp_path)
    site.run(all_before(3))
    path, other = (site.checkpoints(r).folder / "margins-000002.checkpoint" for r in (role, 3 - role))
    DAMAGES[damage](path, other)
    assert comparable(site.finish()) == expected
    assert site.loaded == [1, 1]


def test_margin_shares_that_are_all_damaged(tmp_path: Path) -> None:
    """Of one participant: it says so, with what to do, and the others go on from nothing."""
    site = Site(training_for(KIND, 2), tmp_path)
    site.run(all_before(3))
    for path in site.checkpoints(2).folder.glob("margins-*"):
        path.unlink()
    outcomes = site.run()
    assert isinstance(outcomes[2].error, CheckpointError)
    assert "no boosting round in it can be used" in str(outcomes[2].error)
    assert isinstance(outcomes[1].error, PeerFailedError)
    assert site.checkpoints(1).newest() == 2


def test_a_round_too_old_for_somebody(tmp_path: Path) -> None:
    """P2 has an old copy, from before rounds that all had: all say so, with what to do, and cut nothing off."""
    training = training_for(KIND, 2)
    site = Site(replace(training, params=replace(training.params, n_estimators=5)), tmp_path)
    site.run(all_before(KEPT + 1))
    folder = site.checkpoints(2).folder
    shutil.copytree(folder, tmp_path / "old")
    site.finish()
    shutil.rmtree(folder)
    (tmp_path / "old").rename(folder)
    (folder / f"margins-{KEPT:06}.checkpoint").unlink()
    before = (site.checkpoints(1).folder / ROUNDS).read_bytes()

    outcomes = site.run()

    for outcome in outcomes:
        assert isinstance(outcome.error, RefusedError)
        assert f"had kept boosting round 4, and now some went back: P2 to {KEPT - 1}" in str(outcome.error)
        assert "--restart at every participant" in str(outcome.error)
    with refused(CheckpointError, "missing", "margins-000002.checkpoint"):
        site.checkpoints(1).load(KEPT - 1)
    assert (site.checkpoints(1).folder / ROUNDS).read_bytes() == before
