"""The forecast against the meter: what a training of full trees will cost, computed from sizes alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from mpfedxgb.boosting import Labels, TrainData
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import TUNING, SessionSettings, Tuning, link_of
from mpfedxgb.costs.forecast import Forecast, assumed_owners, forecast
from mpfedxgb.data import Candidates, Table, bin_table
from mpfedxgb.errors import UserError
from mpfedxgb.party import ACTIVE, LocalRun, Party, run_locally
from mpfedxgb.party.dry_run import DryRunParty
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.meter import Counts
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.roster import Roster
from mpfedxgb.protocols.reveal import NOBODY
from mpfedxgb.training import secure_train
from mpfedxgb.tree.level import TableSizes
from support.refusals import refused

BASE = TrainParams(n_estimators=3, max_depth=2, max_bin=8, min_child_weight=0.0)


def case(participants: int, features: int = 5, rows: int = 203, **changes: Any) -> dict[str, Any]:
    """Return a shape: how many there are, columns and rows of all together, evaluation rows, link, parameters."""
    other = ("eval_rows", "link", "topology", "weights", "chunk", "coordinator_owns")
    rest: dict[str, Any] = {name: changes.pop(name) for name in other if name in changes}
    params = replace(BASE, **changes)
    return {"participants": participants, "features": features, "rows": rows, "params": params, **rest}


SHAPES = {
    "two": case(2),
    "three, deep": case(3, max_depth=4, rows=611),
    "four, a wide link": case(4, features=9, link="wan", n_estimators=5),
    "five, one without a column": case(5, features=4, n_estimators=7),
    "many rows": case(2, rows=9001, n_estimators=1),
    "classes": case(3, objective="multi:softprob", num_class=3),
    "gamma": case(2, gamma=0.01),
    "no lambda": case(3, reg_lambda=0.0),
    "least weight": case(2, min_child_weight=0.5),
    "columns sampled": case(3, colsample_bytree=0.6),
    "columns sampled, least weight": case(2, colsample_bytree=0.6, min_child_weight=0.5),
    "columns sampled by node": case(4, colsample_bylevel=0.8, colsample_bynode=0.5, first_layer_mask=True),
    "rows sampled": case(2, subsample=0.7),
    "parallel trees": case(3, num_parallel_tree=3, subsample=0.7, colsample_bytree=0.6),
    "weights": case(3, weighted=True, weights=True),
    "regression": case(2, objective="reg:squarederror"),
    "counts": case(3, objective="count:poisson"),
    "L1 penalty": case(3, reg_alpha=0.01, min_child_weight=0.5),
    "directions": case(3, constrained=True, min_child_weight=0.5),
    "directions, L1 penalty, a mesh": case(2, constrained=True, topology="mesh", reg_alpha=0.01, colsample_bynode=0.6),
    "sealed, directions": case(3, constrained=True, reg_alpha=0.01, security="sealed", n_estimators=2),
    "clipped weights, a mesh": case(3, topology="mesh", max_delta_step=0.9, colsample_bytree=0.6),
    "evaluation rows, may stop": case(4, eval_rows=37, may_stop_early=True),
    "a loss of one's own": case(2, objective="custom"),
    "a mesh": case(2, topology="mesh"),
    "a mesh of four, in pieces": case(4, topology="mesh", link="0.1/1", rows=2001, max_depth=3, n_estimators=6),
    "a mesh of three, bytes": case(3, topology="mesh", link="500/0.01", min_child_weight=0.5),
    "a mesh of five, wide": case(
        5, topology="mesh", link="wan", features=7, eval_rows=30, may_stop_early=True, colsample_bylevel=0.5
    ),
    "first layer": case(3, first_layer_mask=True),
    **{
        f"sealed, {count} with {rounds} rounds": case(count, security="sealed", n_estimators=rounds)
        for count, rounds in ((2, 1), (2, 2), (2, 7), (3, 1), (3, 3), (3, 4), (3, 9), (4, 2), (4, 5))
    },
    "sealed, deep": case(3, max_depth=4, rows=611, security="sealed", n_estimators=2),
    "sealed, weights, rows sampled": case(2, weighted=True, weights=True, subsample=0.7, security="sealed"),
    "sealed regression, rows sampled": case(
        3, rows=403, objective="reg:squarederror", subsample=0.7, security="sealed"
    ),
    "sealed, weights in regression": case(
        2, objective="reg:squarederror", weighted=True, weights=True, security="sealed"
    ),
    "sealed counts, clipped weights": case(2, objective="count:poisson", max_delta_step=0.7, security="sealed"),
    "sealed amounts, weights, rows in chunks": case(
        3, objective="reg:tweedie", weighted=True, weights=True, security="sealed", chunk=64, subsample=0.7
    ),
    "sealed classes": case(3, objective="multi:softprob", num_class=3, security="sealed", n_estimators=4),
    "sealed classes, weights, a mesh, rows in chunks, evaluation": case(
        2,
        objective="multi:softmax",
        num_class=3,
        weighted=True,
        weights=True,
        security="sealed",
        chunk=192,
        topology="mesh",
        eval_rows=30,
        may_stop_early=True,
        subsample=0.7,
    ),
    "sealed, L1 penalty, clipped weights": case(
        2, objective="reg:squarederror", reg_alpha=0.01, max_delta_step=0.9, security="sealed"
    ),
    "sealed, rows in chunks, a mesh": case(3, topology="mesh", security="sealed", chunk=64),
    "sealed, evaluation, a wide mesh": case(
        3, topology="mesh", link="wan", eval_rows=30, may_stop_early=True, security="sealed", n_estimators=4
    ),
    "sealed, everything": case(
        2,
        security="sealed",
        eval_rows=21,
        may_stop_early=True,
        gamma=0.01,
        first_layer_mask=True,
        min_child_weight=0.5,
        colsample_bynode=0.6,
        subsample=0.7,
        chunk=100,
    ),
}


OWNING = {
    "three": case(3, coordinator_owns=True),
    "three, columns sampled": case(3, rows=611, max_depth=3, colsample_bytree=0.6, coordinator_owns=True),
    "four in a mesh, may stop": case(4, topology="mesh", eval_rows=30, may_stop_early=True, coordinator_owns=True),
    "three, sealed": case(3, security="sealed", eval_rows=30, chunk=64, coordinator_owns=True),
}
"""Shapes with a coordinator that brings the last columns: what its own splits cost depends on how many there are."""


@cache
def trained(name: str) -> tuple[LocalRun[Any], TableSizes, list[npt.NDArray[np.int64]]]:
    """Return a run of a shape, its sizes, and whose splits there were, level by level."""
    shape, rng = shape_of(name), np.random.default_rng(7)
    params: TrainParams = shape["params"]
    participants, rows, later = shape["participants"], shape["rows"], shape.get("eval_rows", 0)
    X = rng.normal(size=(rows + later, shape["features"]))
    score = X.sum(axis=1) + rng.normal(size=rows + later)
    borders = np.quantile(score, np.arange(1, max(2, params.num_class)) / max(2, params.num_class))
    numbers = {"custom": score, "reg:squarederror": score, "count:poisson": np.floor(np.exp(score / 4)).clip(0, 30)}
    y = numbers.get(params.objective, np.digitize(score, borders).astype(np.float64))
    cut = [pd.DataFrame(X[:, i::participants]).add_prefix("c") for i in range(participants)]
    tables = [Table.read(frame[:rows], "somebody") for frame in cut]
    others = [[Table.read(frame[rows:], "somebody")] if later else [] for frame in cut]
    weight = rng.uniform(0.5, 2.0, rows) if shape.get("weights") else None
    own = (lambda y, margin: (margin - y, np.ones(len(y)))) if params.objective == "custom" else None
    start = None if own is None else 0.5
    labels = Labels(y[:rows], weight, eval_y=[y[rows:]] if later else [], custom=own, base_score=start)
    data = [
        TrainData(t, o, labels if i == 0 else None, "samples")
        for i, (t, o) in enumerate(zip(tables, others, strict=True))
    ]
    owns = shape.get("coordinator_owns", False)
    roster = replace(Roster.numbered(participants - owns), coordinator_owns=owns)
    private = [(mine,) for mine in roster.by_role(data, None)]
    owners: list[npt.NDArray[np.int64]] = []

    class Owners(Observer):
        def on_reveal(self, name: str, value: Any) -> None:
            if name == Entry.TREE_SHAPE:
                owners.append(value)

    def program(party: Party, data: TrainData | None) -> Any:
        return secure_train(party, params, data)

    observers = [Owners(), *[Observer()] * roster.size]
    run = run_locally(program, roster, private, settings_of(name), observers=observers)
    columns = tuple(len(Candidates(bin_table(t, params.max_bin))) for t in tables)
    return run, TableSizes(rows, later, columns), owners


def shape_of(name: str) -> dict[str, Any]:
    """Return a shape."""
    return (SHAPES | OWNING)[name]


def settings_of(name: str) -> SessionSettings:
    """Return the settings of a shape's session."""
    link, topology = link_of(shape_of(name).get("link", "local")), shape_of(name).get("topology", "star")
    tuning = Tuning(gradient_rows=shape_of(name).get("chunk", TUNING.gradient_rows))
    return SessionSettings(parameters=shape_of(name)["params"].to_json(), link=link, topology=topology, tuning=tuning)


def forecast_of(name: str, owners: Sequence[npt.NDArray[np.int64]] | None = None) -> Forecast:
    """Return the forecast of a shape."""
    run, sizes, _ = trained(name)
    return forecast(shape_of(name)["params"], sizes, run.roster, settings_of(name), owners)


def plain(counts: Counts) -> dict[str, Any]:
    """Return counts without the time that passed."""
    return {name: value for name, value in counts.to_dict().items() if name != "seconds"}


@pytest.mark.parametrize("name", SHAPES)
def test_full_trees_cost_what_was_forecast(name: str) -> None:
    """From sizes alone: rounds, all bytes together, dealt and set-up bytes, products and plans are the meter's."""
    run, sizes, owners = trained(name)
    assert all((level != NOBODY).all() for level in owners), "the trees of this shape are not full"

    told = forecast_of(name)

    active = run.meters[ACTIVE].total()
    assert told.rounds == active.rounds
    assert told.dealer_bytes == run.meters[0].total().dealer_bytes
    assert told.plans == run.meters[ACTIVE].plans
    assert (told.roles["P1"].products, told.roles["P1"].comparisons) == (active.products, active.comparisons)
    # In a star, splits of the active participant's alone, and directions, are published in one hop instead of two.
    assumed = assumed_owners(shape_of(name)["params"], sizes)
    alone, assumed_alone = (
        [(level == ACTIVE).all() for level in levels] for levels in (owners, [assumed(len(o)) for o in owners])
    )
    spared = 0 if settings_of(name).topology == "mesh" else sum(alone) - sum(assumed_alone)
    assert told.hops == active.hops + spared * (1 + shape_of(name)["params"].constrained)
    for kind in ("payload_sent", "payload_received"):
        spent = sum(sum(getattr(m.total(), kind).values()) for m in run.meters)
        assert sum(sum(getattr(c, kind).values()) for c in told.roles.values()) == spent, kind
    for role, meter in enumerate(run.meters):
        assert plain(told.setup[run.roster.name(role)]) == plain(meter.total("setup"))


@pytest.mark.parametrize("name", [*SHAPES, *OWNING])
def test_with_the_owners_every_counter_is_the_meters(name: str) -> None:
    """Told whose splits there were, the forecast has every counter of every role, peer by peer, and the ledger."""
    run, _, owners = trained(name)

    told = forecast_of(name, owners)

    for role, meter in enumerate(run.meters):
        assert plain(told.roles[run.roster.name(role)]) == plain(meter.total())
    assert told.ledger == tuple(run.ledgers[0])


def test_kept_rounds_cost_an_agreement_more() -> None:
    """Where rounds are kept, the roles agree where to begin: that is told, and counted."""
    sizes, roster = TableSizes(50, 0, (4, 3)), Roster.numbered(2)
    plain, kept = (forecast(BASE, sizes, roster, keeps_rounds=keeps) for keeps in (False, True))

    assert kept.rounds == plain.rounds + 2
    assert {r.name for r in kept.ledger} - {r.name for r in plain.ledger} == {
        Entry.ROUNDS_DONE,
        Entry.NUMBER_OF_TREES,
    }
    assert plain.disk == {"coordinator": 0, "P1": 0, "P2": 0}
    assert kept.disk["P1"] > kept.disk["P2"] > kept.disk["coordinator"] == 0


def test_rounds_cost_alike() -> None:
    """Every round costs the same, and a hundred are not rehearsed a hundred times."""
    sizes, roster = TableSizes(3001, 5, (9, 0, 4)), Roster.numbered(3)
    settings = SessionSettings()  # the same greeting for all of them
    few, more, many = (forecast(replace(BASE, n_estimators=n), sizes, roster, settings) for n in (3, 6, 999))

    for name in few.roles:
        for kind in ("rounds", "bytes_sent", "bytes_received", "dealer_bytes", "products"):
            a, b, c = (getattr(told.roles[name], kind) for told in (few, more, many))
            assert c - a == (b - a) * 332, (name, kind)
    counts = [{(r.name, r.receiver): r.count for r in told.ledger} for told in (few, more, many)]
    assert all(counts[2][key] - counts[0][key] == (counts[1][key] - counts[0][key]) * 332 for key in counts[0])


def test_a_million_rows_are_not_gone_through() -> None:
    """Tiles and blocks of one size are gone through once: a million rows take hardly more calls than a few."""

    def calls(rows: int) -> int:
        counted, count = 0, DryRunParty.send

        def send(self: DryRunParty, peers: Any, arrays: Any) -> None:
            nonlocal counted
            counted += 1
            count(self, peers, arrays)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DryRunParty, "send", send)
            told = forecast(
                replace(BASE, max_depth=5, n_estimators=2), TableSizes(rows, 0, (434, 434)), Roster.numbered(2)
            )
        assert told.roles["P1"].bytes_sent > 8 * rows * 434
        return counted

    assert calls(1_000_000) <= calls(100_000) + 20


def test_what_is_not_forecast_says_so() -> None:
    """The paper's own way depends on data, and a roster of another size is none: both are refused with a reason."""
    sizes = TableSizes(50, 0, (4, 3))
    with refused(UserError, "mode", "security", "paper"):
        forecast(replace(BASE, security="paper"), sizes, Roster.numbered(2))
    with refused(UserError, "mismatch", "columns", 2):
        forecast(BASE, sizes, Roster.numbered(3))


def test_nobody_has_a_candidate() -> None:
    """Trees without a candidate are leaves: nothing is dealt for splits, and the forecast is there all the same."""
    told = forecast(BASE, TableSizes(50, 0, (0, 0)), Roster.numbered(2))

    assert not told.plans
    assert told.rounds > 0


def test_as_text_and_as_numbers() -> None:
    """The page names every role and figure in units for people; the dictionary holds the same as plain numbers."""
    told = forecast(BASE, TableSizes(100_000, 0, (40, 30)), Roster(("bank", "telecom")))
    page, numbers = str(replace(told, seconds=100.0)), json.loads(json.dumps(told.to_dict()))

    assert all(word in page for word in ("bank", "telecom", "coordinator", "1 min 40 s", "MB", "leaf membership"))
    assert numbers["rounds"] == told.rounds
    assert numbers["bytes_sent"] == {name: counts.bytes_sent for name, counts in told.roles.items()}
    assert numbers["candidate_columns"] == {"bank": 40, "telecom": 30}
    assert numbers["seconds"] is None
    assert str(told.rounds) in told.summary


def test_the_line_names_the_busiest_participant() -> None:
    """The coordinator's bytes are told once; beside them stand those of a participant, also where it sends less."""
    told = forecast(BASE, TableSizes(500, 0, (40, 30)), Roster(("bank", "telecom")))
    sent = {name: counts.bytes_sent for name, counts in told.roles.items()}

    assert max(sent, key=lambda name: sent[name]) == "coordinator"
    assert "sent by bank" in told.summary
