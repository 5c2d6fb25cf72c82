"""What participants of a sealed training keep on disk: shares, each alone uniform whatever the others have."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import pytest

from mpfedxgb.boosting import TrainData, TrainResult
from mpfedxgb.boosting.callbacks import NothingKept
from mpfedxgb.config import SessionSettings
from mpfedxgb.party import ACTIVE, Party, run_locally
from mpfedxgb.sigmoid import PLACES
from mpfedxgb.training import secure_train
from mpfedxgb.training.checkpoint import Checkpoints, read_kept
from mpfedxgb.tree import Leaf
from mpfedxgb.tree.leaf import WEIGHT_BITS
from support.chance import THRESHOLD, half_bytes, joint, p_uniform, p_views_alike
from support.small_trainings import Training, two_halves

RUNS, ROUNDS, PARTICIPANTS = 48, 2, 2
Words = npt.NDArray[np.uint64]
View = list[Words]
"""Margin shares after each round, then the shares of the leaf weights of the first tree."""

WORLDS = {"and": ("01 and", False), "or": ("12 or", True)}
"""Other labels, and an auxiliary with other columns; the first tree has the same shape in both."""


def training_in(world: str, security: str) -> Training:
    """Return a training of two rounds whose first tree is split by the auxiliary."""
    labels, mirrored = WORLDS[world]
    training = two_halves(labels, owner=2, participants=PARTICIPANTS, mirrored=mirrored)
    return replace(training, params=replace(training.params, n_estimators=ROUNDS, security=security))


def keep(training: Training, seed: int, folder: Path) -> None:
    """Train, every role as a thread, and keep rounds in folders by role."""

    def program(party: Party, params: object, data: TrainData | None) -> TrainResult | None:
        progress = NothingKept() if party.is_coordinator else Checkpoints(folder / str(party.role), {})
        return secure_train(party, training.params, data, progress)

    settings = SessionSettings(insecure_seed=seed, parameters=training.params.to_json())
    run_locally(program, PARTICIPANTS, training.private, settings)


def margins_in(folder: Path, rounds: int) -> Words:
    """Return the content of a file of margins."""
    return np.fromfile(folder / f"margins-{rounds:06}.checkpoint", "<u8")


@cache
def views(world: str) -> list[list[View]]:
    """Return what each participant has kept after each of many trainings, with other keys every time."""
    out: list[list[View]] = [[] for _ in range(PARTICIPANTS)]
    with TemporaryDirectory() as name:
        folder = Path(name)
        for seed in range(RUNS):
            keep(training_in(world, "sealed"), 1000 * len(world) + seed, folder)
            for m in range(PARTICIPANTS):
                tree = read_kept(folder / str(m + 1)).trees[0]
                shares = [node.share for node in tree if isinstance(node, Leaf)]
                assert None not in shares
                leaves = np.array(shares, np.int64).view(np.uint64)
                out[m].append([*(margins_in(folder / str(m + 1), t) for t in range(1, ROUNDS + 1)), leaves])
            shutil.rmtree(folder / "1")
            shutil.rmtree(folder / "2")
    return out


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("role", range(1, PARTICIPANTS + 1))
def test_kept_shares_are_uniform(role: int, world: str) -> None:
    """Every participant's margin shares and leaf shares, all together and each place on its own (chi-square)."""
    for place, arrays in enumerate(zip(*views(world)[role - 1], strict=True)):
        words = np.stack(arrays)
        assert words.shape[1] == (3 if place == ROUNDS else 24)
        octets = words.view(np.uint8)
        assert p_uniform(octets.ravel(), 256) > THRESHOLD, place
        each = [p_uniform(column.ravel(), 256) for column in octets.reshape(RUNS, -1, 8).swapaxes(0, 1)]
        assert joint(each) > THRESHOLD, place


@pytest.mark.parametrize("role", range(1, PARTICIPANTS + 1))
def test_kept_shares_depend_on_nothing(role: int) -> None:
    """They have one distribution whatever the labels and the other's columns are, and no run's tell the next one's."""
    one, two = ([half_bytes(view) for view in views(world)[role - 1]] for world in WORLDS)
    assert p_views_alike(one, two) > THRESHOLD
    for arrays in zip(*views("and")[role - 1], strict=True):
        words = np.stack(arrays)
        assert p_uniform((words[1:] - words[:-1]).view(np.uint8).ravel(), 256) > THRESHOLD


def total(parts: Sequence[Words]) -> npt.NDArray[np.int64]:
    """Return what shares add up to."""
    out = parts[0].copy()
    for part in parts[1:]:
        out += part
    return out.view(np.int64)


@pytest.mark.parametrize("world", WORLDS)
def test_kept_shares_add_up(world: str, tmp_path: Path) -> None:
    """To the same margins and weights in every run, within rounding those of the strict way; which are not uniform."""
    everyone = list(zip(*views(world), strict=True))
    sums = [[total(parts) for parts in zip(*run, strict=True)] for run in everyone]
    for run in sums[1:]:
        assert all((a == b).all() for a, b in zip(sums[0][:ROUNDS], run[:ROUNDS], strict=True))
    keep(training_in(world, "strict"), 1, tmp_path)
    for rounds in range(1, ROUNDS + 1):
        strict = margins_in(tmp_path / str(ACTIVE), rounds).view(np.int64)
        assert np.abs(sums[0][rounds - 1] * 2.0**-PLACES - strict * 2.0**-WEIGHT_BITS).max() < 2.0**-20
        assert p_uniform(np.stack([run[rounds - 1] for run in sums]).view(np.uint8).ravel(), 256) < THRESHOLD
    weights = {tuple(sorted(run[ROUNDS].tolist())) for run in sums}
    assert len(weights) == 1, "leaves change places with the coins, not their weights"
