"""What the roles of a federation run together: align, then train or score. The active participant says which.

How a training ends: nobody ends well while somebody else could not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.callbacks import NothingKept, Progress, State
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.parts import TrainData, TrainResult
from mpfedxgb.config import Resources
from mpfedxgb.data.ids import SALT_BYTES, Ids, count_common
from mpfedxgb.errors import FrameError, HandshakeError, RefusedError, UserError
from mpfedxgb.federation.alignment import Terms, agree_on_terms, find_all_common, let_all_keep
from mpfedxgb.federation.proposals import SESSIONS
from mpfedxgb.federation.scoring import Service, score_batches
from mpfedxgb.federation.session import ignore_stops
from mpfedxgb.intersection.group import Group, pass_keys_on
from mpfedxgb.intersection.intersect import Marks
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.handshake import COMMITMENT_BYTES, MOST_ROWS, check_numbers
from mpfedxgb.party.ledger import Ledger
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE, Roster
from mpfedxgb.protocols.row_blocks import RowBlocks
from mpfedxgb.protocols.storage import LocalRows, Storage
from mpfedxgb.ring.prg import os_entropy
from mpfedxgb.training.train import secure_train
from mpfedxgb.workers.cluster import Cluster
from mpfedxgb.workers.rows import WorkerRows

KINDS = dict(enumerate(SESSIONS, 1))
TRAINING, SCORING, ALIGNING = KINDS

OpenCluster = Callable[[], AbstractContextManager[Cluster | None]]

_log = logging.getLogger("mpfedxgb.session")


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """What one participant brings to a training: its data, the ids of training and evaluation rows, its checkpoints.

    Its rows live with the workers of `cluster`, or in this process. `commitment` is P_1's, to labels and tables.
    """

    data: TrainData
    ids: Sequence[Ids]
    progress: Progress
    limits: Resources = field(default_factory=Resources)
    cluster: Cluster | None = field(default=None, repr=False)
    commitment: bytes | None = field(default=None, repr=False)


def run_training(party: Party, params: TrainParams, mine: Training, stays: bool = False) -> TrainResult:
    """Train, as an owner of columns; a role that `stays` for other sessions can still be stopped after it."""
    _agree_on_kind(party, TRAINING)
    check_alignment(party, mine.ids)
    if params.facts.hides_rows:
        refuse_training_ids(party.name, mine.ids)
    commit_to_labels(party, mine.commitment, mine.progress)
    with Storage(mine.limits) as storage, closing(_row_blocks(mine.cluster, storage)) as held:
        result = secure_train(party, params, mine.data, mine.progress, held)
    assert result is not None
    close_training(party, mine.progress, result.model)
    if not stays:
        ignore_stops()
    return result


def reveals_of_session(roster: Roster) -> Ledger:
    """Return what a session for a training reveals beside the training itself."""
    entries = [(Entry.ID_DIGEST, roster.name(ACTIVE), 2 * len(roster.other_owners))]
    for receiver in (roster.coordinator, "participants"):
        entries += [
            (Entry.KIND_OF_SESSION, receiver, 1),
            (Entry.LABEL_COMMITMENT, receiver, COMMITMENT_BYTES // 8),
            (Entry.KEPT_AT_THE_END, receiver, 2 * len(roster.owners)),
        ]
    return Ledger.read(entries)


def run_scoring(party: Party, service: Service) -> None:
    """Score batches until the active participant ends the session, as an owner of columns."""
    _agree_on_kind(party, SCORING)
    score_batches(party, service)


def run_aligning(
    party: Party, terms: Terms, lists: Mapping[str, Ids], group: Group, max_rows: int | None
) -> dict[str, Marks]:
    """Find the rows that all participants have, as a participant; return which of each list they are."""
    _agree_on_kind(party, ALIGNING)
    agree_on_terms(party, terms)
    found = find_all_common(party, lists, terms, group, max_rows)
    check_alignment(party, [lists[what].take(marks) for what, marks in found.items()])
    let_all_keep(party)
    return found


def run_coordinator(
    party: Party,
    params: TrainParams,
    limits: Resources | None = None,
    workers: OpenCluster = nullcontext,
    proposed: str = "",
) -> str:
    """Deal, without columns, for any session that P_1 begins; return its kind. In an alignment it passes keys on.

    `workers` connects with its own. Where something was `proposed`, it is of no other kind.
    """
    kind = _agree_on_kind(party, 0)
    if proposed not in ("", KINDS[kind]):
        text = f"{party.roster.name(ACTIVE)} began a session for {KINDS[kind]} and had proposed one for {proposed}"
        raise HandshakeError(text, "mismatch", "session", KINDS[kind])
    if kind == ALIGNING:
        agree_on_terms(party, None)
        pass_keys_on(party)
        return KINDS[kind]
    if kind == TRAINING:
        check_alignment(party, ())
        commit_to_labels(party, None, NothingKept())
        with workers() as cluster, Storage(limits) as storage, closing(_row_blocks(cluster, storage)) as held:
            secure_train(party, params, None, ProgressHeard(params.n_estimators), held)
        close_training(party, NothingKept(), None)
    else:
        score_batches(party, None)
    return KINDS[kind]


def _row_blocks(cluster: Cluster | None, storage: Storage) -> RowBlocks:
    return LocalRows(storage) if cluster is None else WorkerRows(cluster, storage)


def _agree_on_kind(party: Party, mine: int) -> int:
    """Return the kind of session that the active participant has begun; raise if this participant wants another."""
    kind = int(party.broadcast(Entry.KIND_OF_SESSION, [mine])[0])
    if kind not in KINDS:
        raise FrameError(f"{party.roster.name(ACTIVE)} began a session of an unknown kind", parameter="session")
    if mine and kind != mine:
        remedy = "start all participants with the same command"
        if ALIGNING in (kind, mine):
            remedy = "give all participants the same [data] align, and run mpfedxgb align at all of them"
        text = f"{party.roster.name(ACTIVE)} began a session for {KINDS[kind]}, {party.name} one for {KINDS[mine]}"
        raise HandshakeError(f"{text}; {remedy}", "mismatch", "session")
    party.observer.on_milestone({"kind": KINDS[kind]})
    return kind


def check_alignment(party: Party, ids: Sequence[Ids]) -> None:
    """Make sure that all participants have the same people in the same order, before anything else happens.

    1. The active participant sends a fresh salt to the others; a coordinator without columns never sees it.
    2. They answer with the number of rows and the salted digest of the ids, for training and for evaluation rows.
    3. It compares and stops everyone where they differ, naming who has how many rows, never an id.

    Reveals: ID_DIGEST to the active participant.
    """
    party.step("align")
    active = party.roster.name(ACTIVE)
    others = party.roster.other_owners
    party.record(Entry.ID_DIGEST, ACTIVE, len(others) * 2)
    if not party.owner:
        return
    party.count(rounds=1, hops=2)
    if not party.is_active:
        salt = party.receive_bytes(ACTIVE, (np.uint8, (SALT_BYTES,)), name="salt")
        party.send_bytes([ACTIVE], [*_digests(ids, salt[0].tobytes())])
        return
    salt_bytes = os_entropy(SALT_BYTES)
    party.send_bytes(others, [np.frombuffer(salt_bytes, np.uint8)])
    counts, digests = _digests(ids, salt_bytes)
    for m in others:
        forms = ((counts.dtype, counts.shape), (digests.dtype, digests.shape))
        arrays = party.receive_bytes(m, *forms, name=Entry.ID_DIGEST)
        check_numbers(party, m, arrays[0].tolist(), *(("rows", 0, MOST_ROWS),) * 2)
        for i, what in enumerate(("training", "evaluation")):
            if (arrays[1][i] != digests[i]).any() or arrays[0][i] != counts[i]:
                raise UserError(
                    _differ(active, party.roster.name(m), what, int(counts[i]), int(arrays[0][i])), "mismatch", what
                )


def commit_to_labels(party: Party, commitment: bytes | None, progress: Progress) -> None:
    """Make the active participant's commitment to labels and tables part of the training's name, at all roles.

    A participant that has begun with others under this session's name refuses: the rounds that it has kept, or the one
    that was under way, would be repeated with labels or columns of P_1's choice. Nobody can see whether they are those
    of the commitment; P_1 can be asked to show it.

    Rounds: 1. Sent: 32 bytes by P_1 to each other role. Reveals: LABEL_COMMITMENT to everyone.
    """
    assert party.is_active == (commitment is not None), "P_1 alone has labels"
    mine = np.frombuffer(commitment or bytes(COMMITMENT_BYTES), np.int64)
    announced = party.broadcast(Entry.LABEL_COMMITMENT, mine).tobytes()
    party.keys.commit(announced)
    if not progress.fits(announced.hex()):
        raise other_data(party.roster.name(ACTIVE), party.name)
    party.observer.on_milestone({"labels": announced.hex()})


def other_data(active: str, who: str) -> RefusedError:
    """Return how a role refuses a commitment to something else than it has begun a session with."""
    text = (
        f"{active} brings other labels, row weights, starts or columns, for training or evaluation, than {who} has "
        "begun this session with, by its commitment to them. Take the earlier ones; or give the training another "
        "[session] name; or begin again, with --restart at every participant, which each organisation decides for "
        "itself"
    )
    return RefusedError(text, code="mismatch", parameter="label")


def refuse_training_ids(name: str, ids: Sequence[Ids]) -> None:
    """Raise UserError if evaluation rows of a sealed training are training rows; it says how many, never which.

    The active participant gets the margins of evaluation rows round by round, and so their leaves. Every participant
    looks at its own two lists, so that nobody else can have a training row evaluated.
    """
    if len(ids) < 2:
        return
    train, evaluation = ids
    common = count_common(train, evaluation)
    if common:
        text = (
            f"{name}: {common} of {len(evaluation)} evaluation rows are training rows, by their ids; security='sealed' "
            "lets nobody learn anything about a training row, and evaluation tells margins after every boosting "
            "round: take those rows out of the evaluation table or the training table at all participants, "
            "or evaluate nothing"
        )
        raise UserError(text, "duplicate", "evaluation", common)


def _digests(ids: Sequence[Ids], salt: bytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    counts, digests = np.zeros(2, np.int64), np.zeros((2, 32), np.uint8)
    for i, one in enumerate(ids):
        counts[i], digests[i] = len(one), np.frombuffer(one.digest(salt), np.uint8)
    return counts, digests


def _differ(active: str, other: str, what: str, mine: int, theirs: int) -> str:
    aligned = "or let them find the people that all have, with [data] align = true at all participants"
    if not mine or not theirs:
        text = f"{active} has {mine} {what} rows and {other} has {theirs}"
        return f"{text}; name files of the same people under [data] at all participants, or at none"
    if mine != theirs:
        text = f"{active} has {mine} {what} rows and {other} has {theirs}"
        return f"{text}; give all participants files of the same people, one row each, {aligned}"
    text = f"{active} and {other} both have {mine} {what} rows, but not of the same people"
    return f"{text}; compare how both write the id column, {aligned}"


class ProgressHeard(NothingKept):
    """The coordinator's progress, which its log tells."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds

    def save(self, state: State) -> None:
        """Say in the log how far the training is; a full disk here is no reason to end it."""
        _log.info("boosting round %d of %d is done", state.rounds, self._rounds)


_ROUND_KEPT, _MODEL_WRITTEN = 1, 2


def close_training(party: Party, progress: Progress, model: PartialModel | None) -> None:
    """End a training together, after the last round was kept; the coordinator listens.

    1. Everyone tells that it has kept the last round: nobody will have to make it again.
    2. Everyone writes its model and notes that (1) has happened (`Progress.finish`), and tells so. One that cannot ends
       with that error, as on a full disk, and the others hear of it instead.

    A role that is lost before (1) is waited for by all, who go on from their checkpoints. A role that is lost after (1)
    finds the others waiting too, unless they have heard (2) from all, this one included: then it has its model and the
    note, and needs nobody. Rounds: 2. Reveals: KEPT_AT_THE_END to everyone.
    """
    party.tell_everyone(Entry.KEPT_AT_THE_END, [_ROUND_KEPT] if party.owner else None)
    if model is not None:
        progress.finish(model)
    party.tell_everyone(Entry.KEPT_AT_THE_END, [_MODEL_WRITTEN] if party.owner else None)
