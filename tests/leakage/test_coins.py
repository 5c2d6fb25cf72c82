"""Coins that hide which side of a split is the lower one: one for every node, and none tells another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from itertools import pairwise

import pytest
from scipy import stats

from mpfedxgb.party.roster import Keyring
from mpfedxgb.ring.prg import digest
from mpfedxgb.tree import Split
from support.chance import THRESHOLD
from support.small_trainings import models, training_of

CLASSES, ROUNDS, SEEDS = 3, 3, 8

Place = tuple[int, int, int, int]
"""Of a coin: run, round, tree of the round, node."""

Toss = Callable[[Keyring, str, int, int], bool]


def tossed() -> dict[Place, bool]:
    """Return how the coins of all splits fell, in several runs of one training."""
    training = training_of("classes", 2)
    deeper = replace(training, params=replace(training.params, n_estimators=ROUNDS, max_depth=3, min_child_weight=0.0))
    return {
        (seed, *divmod(t, CLASSES), number): node.flipped
        for seed in range(SEEDS)
        for model in models(deeper.run(seed))
        for t, tree in enumerate(model.trees)
        for number, node in enumerate(tree)
        if isinstance(node, Split)
    }


ALIKE: dict[str, Callable[[Place], tuple[int, ...]]] = {
    "nodes of a tree": lambda place: place[:3],
    "trees of a round": lambda place: (place[0], place[1], place[3]),
    "rounds of a training": lambda place: (place[0], place[2], place[3]),
    "runs of a training": lambda place: place[1:],
}
"""Coins that must not hang together: those of which this is the same."""


def dependent(coins: dict[Place, bool]) -> list[str]:
    """Return what is unlikely of fair and independent coins: more of one side, or neighbours that agree or differ."""
    found = []
    if stats.binomtest(sum(coins.values()), len(coins)).pvalue < THRESHOLD:
        found.append("sides")
    for what, group_of in ALIKE.items():
        groups: dict[tuple[int, ...], list[bool]] = {}
        for place in sorted(coins):
            groups.setdefault(group_of(place), []).append(coins[place])
        agree = [one == next_one for group in groups.values() for one, next_one in pairwise(group)]
        assert len(agree) > 100, f"too few coins to tell anything of {what}"
        if stats.binomtest(sum(agree), len(agree)).pvalue < THRESHOLD:
            found.append(what)
    return found


def test_every_node_has_a_coin_of_its_own() -> None:
    """Fair, and independent between the nodes of a tree, the trees of a round, rounds and runs."""
    assert dependent(tossed()) == []


def test_no_coin_is_asked_for_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within one training a participant's coins have different labels, as many as it has splits."""
    labels: dict[int, list[str]] = {}
    stream = Keyring.private_stream

    def watched(keys: Keyring, label: str) -> object:
        labels.setdefault(id(keys), []).append(label)
        return stream(keys, label)

    monkeypatch.setattr(Keyring, "private_stream", watched)
    run = training_of("classes", 2).run(1)
    splits = [sum(isinstance(node, Split) for tree in model.trees for node in tree) for model in models(run)]

    assert sorted(len(one) for one in labels.values()) == sorted(splits)
    assert all(len(set(one)) == len(one) for one in labels.values())
    assert min(splits) > 3


def worse(kind: str, toss: Toss) -> Toss:
    """Return a way to toss that is not what it should be."""
    return {
        "one for a tree": lambda keys, label, tree, node: toss(keys, label, tree, 0),
        "turned over from node to node": lambda keys, label, tree, node: toss(keys, label, tree, 0) ^ bool(node & 1),
        "one for the trees of a round": lambda keys, label, tree, node: toss(keys, label, 0, node),
        "one for all rounds": lambda keys, label, tree, node: toss(keys, "", tree, node),
        "without a key": lambda keys, label, tree, node: bool(digest(f"{label}/{tree}/{node}".encode())[0] & 1),
        "never": lambda keys, label, tree, node: False,
    }[kind]


@pytest.mark.parametrize(
    ("kind", "seen_in"),
    [
        ("one for a tree", "nodes of a tree"),
        ("turned over from node to node", "nodes of a tree"),
        ("one for the trees of a round", "trees of a round"),
        ("one for all rounds", "rounds of a training"),
        ("without a key", "runs of a training"),
        ("never", "sides"),
    ],
)
def test_coins_that_hang_together_are_found(kind: str, seen_in: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: a coin that serves several nodes is seen in those that it serves."""
    module = import_module("mpfedxgb.tree.grow")  # the name in mpfedxgb.tree is the function
    monkeypatch.setattr(module, "toss", worse(kind, module.toss))

    assert seen_in in dependent(tossed())
