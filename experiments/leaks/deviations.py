"""One role that deviates from the program, and all others as they are: how its messages and choices are patched.

Every opened number is m = x + lambda, and a participant with a part in the sum can add an error e: the others go on
with x + e, and nothing shows it. Which candidate stands at which place of an opening is public, so no secret is needed
to choose e. What P_1 makes of that is in active_deviations.py, and an auxiliary in auxiliary_deviations.py; how much
they learn is measured in deviating.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.leaks.transcripts import RecordedTraining, write_truth
from mpfedxgb.boosting import Labels, TrainData, TrainResult
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import SessionSettings
from mpfedxgb.data import Table
from mpfedxgb.party import LocalRun, Party, run_locally
from mpfedxgb.party.observer import Observer
from mpfedxgb.protocols.row_blocks import RowBlocks
from mpfedxgb.ring import RingArray
from mpfedxgb.ring.kernels import U8
from mpfedxgb.training import secure_train
from mpfedxgb.transport.frame import Kind

SUMS, FRACTIONS = "gain/gains", "gain/gains #3 fractions"
"""How the labels of two openings end: of left sums G_L, H_L, (nodes, 2, columns), and of A, B, (2, nodes, columns)."""

CHILDREN = "children/child update"
"""How the label of the opening ends that has the rows of the left children, (nodes, packed)."""

Edit = Callable[[str, list[RingArray]], list[RingArray]]
"""From the label of an opening and a participant's parts of it to what it says its parts are."""

Run = LocalRun[TrainResult | None]

Deviation = Callable[[Party], RowBlocks | None]
"""Patches one role's party before the training, and may put another place for its row blocks there."""


def train(
    params: TrainParams,
    tables: Sequence[Table],
    labels: Labels,
    seed: int,
    deviating: Mapping[int, Deviation],
    seen_by_p1: Observer | None = None,
) -> tuple[RecordedTraining, Run]:
    """Train with some roles that deviate; all others run the ordinary program on the ordinary party."""

    def program(party: Party, data: TrainData | None) -> TrainResult | None:
        deviate = deviating.get(party.role)
        return secure_train(party, params, data, held=None if deviate is None else deviate(party))

    private = [(None,)] + [(TrainData(table, labels=labels if m == 0 else None),) for m, table in enumerate(tables)]
    settings = SessionSettings(insecure_seed=seed, parameters=params.to_json())
    looking = [Observer(), seen_by_p1 or Observer(), *(Observer() for _ in tables[1:])]
    run = run_locally(program, len(tables), private, settings, observers=looking)
    results = [result for result in run.results if result is not None]
    kept = [r.candidates for r in results], [r.model for r in results]
    training = RecordedTraining(params, tables, labels, *kept, transcripts=[])
    write_truth(training)
    return training, run


def edit_openings(party: Party, edit: Edit) -> None:
    """Let a participant add errors to what is opened in a star: an auxiliary to its own part, on its way to P_1.

    P_1 adds up, so it takes the part of the first auxiliary to be another. Either way all participants, the deviating
    one too, go on with the same wrong sum.
    """
    send, receive = party.send, party.receive

    def edited_send(peers: Sequence[int] | range, arrays: Sequence[RingArray], kind: Kind = Kind.DATA) -> None:
        send(peers, edit(party.label, list(arrays)), kind)

    def edited_receive(peer: int, specs: Sequence[Any], kind: Kind = Kind.DATA) -> list[RingArray]:
        arrays = receive(peer, specs, kind)
        return edit(party.label, arrays) if peer == party.others[0] else arrays

    if party.is_active:
        party.receive = edited_receive  # type: ignore[method-assign] # that is the attack
    else:
        party.send = edited_send  # type: ignore[method-assign] # that is the attack


def plus(array: RingArray, errors: Mapping[tuple[int, int, int], int]) -> RingArray:
    """Return an array with errors added, by place."""
    added = np.zeros(array.shape, object)
    for place, error in errors.items():
        added[place] = error
    return array + RingArray.encode(array.ring, added)


def toss_no_coins(party: Party) -> None:
    """Leave the own splits' sides as they are: a role may choose its own coins, and knows them anyway."""

    class Tails:
        def octets(self, count: int) -> U8:
            return np.zeros(count, np.uint8)

    party.keys.private_stream = lambda label: Tails()  # type: ignore[assignment,method-assign,return-value] # its own
