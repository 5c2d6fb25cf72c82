"""The alignment check: the same people in the same order, or a message with counts; never an id, never a guess."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import SessionSettings
from mpfedxgb.data.ids import SALT_BYTES, Ids, sort_by_id
from mpfedxgb.data.table import Table
from mpfedxgb.errors import FrameError, HandshakeError, PeerFailedError, UserError
from mpfedxgb.federation import programs
from mpfedxgb.federation.own_training import data_digest
from mpfedxgb.federation.programs import SCORING, TRAINING, _agree_on_kind, check_alignment
from mpfedxgb.party import COORDINATOR, Outcome, Party, Roster, run_roles
from mpfedxgb.party.entries import Entry
from mpfedxgb.transport.frame import Kind
from patience import patience
from support.names import unlisted
from support.views import Recorder

ROSTER = Roster(("bank", "telecom", "retail"))
PEOPLE = [f"c-{number:05}" for number in range(7000, 7040)]


def patient() -> SessionSettings:
    """Return settings whose deadline only a hang reaches, by the load of this moment."""
    return SessionSettings(deadline=patience(10.0))


PARAMS = TrainParams()


def ids(people: Sequence[object], seed: int = 0) -> Ids:
    """Return the ids of a table with these people, in an order of its own."""
    order = np.random.default_rng(seed).permutation(len(people))
    frame = pd.DataFrame({"person": [people[i] for i in order], "x": range(len(people))})
    return sort_by_id(frame, "person", "somebody")[1]


def run(
    training: Sequence[Sequence[object]], evaluation: Sequence[Sequence[object] | None] = (None,) * 3
) -> tuple[list[Outcome[None]], Recorder]:
    """Check everybody's ids; return how each role ended, and all frames."""
    recorder = Recorder()
    private: list[tuple[Sequence[Ids]]] = [((),)]
    for seed, (train, other) in enumerate(zip(training, evaluation, strict=True)):
        private.append(([ids(train, seed), *([] if other is None else [ids(other, seed)])],))
    return run_roles(check_and_go_on, ROSTER, private, patient(), recorder), recorder


def check_and_go_on(party: Party, mine: Sequence[Ids]) -> None:
    """Check the ids, and do something that takes everybody."""
    check_alignment(party, mine)
    party.tell_everyone(unlisted("something else"), None if party.is_coordinator else [0])


def test_the_same_people_in_any_order() -> None:
    """Everybody sorts by id, so the order of the files does not matter; training and evaluation rows are compared."""
    for evaluation in ((None,) * 3, (PEOPLE[:7],) * 3):
        outcomes, _ = run([PEOPLE] * 3, evaluation)
        assert [outcome.error for outcome in outcomes] == [None] * 4
        for outcome in outcomes:
            assert (Entry.ID_DIGEST, "bank", 4) in {(e.name, e.receiver, e.count) for e in outcome.ledger}


@pytest.mark.parametrize("odd", [1, 2])
@pytest.mark.parametrize("what", ["training", "evaluation"])
def test_other_numbers_of_rows_are_told(odd: int, what: str) -> None:
    """Who has how many rows, at all roles; nothing else is told."""
    fewer = [PEOPLE[:-3] if m == odd else PEOPLE for m in range(3)]
    outcomes, recorder = run(fewer) if what == "training" else run([PEOPLE] * 3, fewer)
    name = ROSTER.participants[odd]
    assert isinstance(outcomes[1].error, UserError)
    for outcome in outcomes:
        told = str(outcome.error)
        assert f"bank has 40 {what} rows and {name} has 37; give all participants files of the same people" in told
        assert "[data] align = true at all participants" in told
    no_id_is_told(outcomes, recorder)


@pytest.mark.parametrize("odd", [1, 2])
def test_other_people_are_told(odd: int) -> None:
    """As many, but not the same: a different person, a different spelling."""
    for other in ([*PEOPLE[:-1], "c-99999"], [*PEOPLE[:-1], PEOPLE[-1].upper()], [p.replace("-", "_") for p in PEOPLE]):
        outcomes, recorder = run([other if m == odd else PEOPLE for m in range(3)])
        for outcome in outcomes:
            told = str(outcome.error)
            assert f"bank and {ROSTER.participants[odd]} both have 40 training rows, but not of the same people" in told
            assert "[data] align = true at all participants" in told
        no_id_is_told(outcomes, recorder)


def test_evaluation_rows_at_some_participants_only() -> None:
    """Nobody goes on without the rows that others evaluate on, or with rows that others do not have."""
    for there, told in (((None, PEOPLE, None), "bank has 0 evaluation rows and telecom has 40"),):
        outcomes, _ = run([PEOPLE] * 3, there)
        assert all(told in str(outcome.error) for outcome in outcomes)
    outcomes, _ = run([PEOPLE] * 3, (PEOPLE[:9], PEOPLE[:9], None))
    assert all("bank has 9 evaluation rows and retail has 0" in str(outcome.error) for outcome in outcomes)


def test_numbers_and_texts() -> None:
    """Ids that are numbers agree however the file wrote them."""
    outcomes, _ = run([[7, 8, 9], ["007", "8", " 9 "], [7.0, 8.0, 9.0]])
    assert [outcome.error for outcome in outcomes] == [None] * 4


def no_id_is_told(outcomes: Sequence[Outcome[None]], recorder: Recorder) -> None:
    """No id, nor what tells people apart in it, is in an error or in a frame; the coordinator gets no digest."""
    words = [person[-4:] for person in PEOPLE]
    for outcome in outcomes:
        assert not any(word in str(outcome.error) for word in words)
    for (_, receiver), frames in recorder.links.items():
        for frame in frames:
            content = b"".join(array.tobytes() for array in frame.arrays)
            if frame.kind is not Kind.HELLO:  # those hold random hex digits
                assert not any(word.encode() in content for word in words)
            assert receiver != COORDINATOR or frame.kind is not Kind.DATA


def test_digests_are_salted_anew() -> None:
    """The same people look different in every session, and the coordinator never sees salt or digest."""
    seen: list[set[bytes]] = []
    for _ in range(2):
        outcomes, recorder = run([PEOPLE] * 3)
        assert [outcome.error for outcome in outcomes] == [None] * 4
        frames = [f for link in recorder.links.values() for f in link if f.kind is Kind.DATA and f.label == "align"]
        assert {len(frame.arrays) for frame in frames} == {1, 2}
        seen.append({frame.arrays[-1].tobytes() for frame in frames})
        no_id_is_told(outcomes, recorder)
    assert not seen[0] & seen[1]


@pytest.mark.parametrize(
    "salt",
    [
        [],
        [np.zeros(SALT_BYTES - 1, np.uint8)],
        [np.zeros(SALT_BYTES, np.uint64)],
        [np.zeros((1, SALT_BYTES), np.uint8)],
        [np.zeros(SALT_BYTES, np.uint8)] * 2,
    ],
)
def test_a_salt_of_another_form(salt: list[Any]) -> None:
    """An auxiliary answers to a salt, and to nothing else."""

    def program(party: Party) -> None:
        if party.is_active:
            party.step("align")
            party._communicator.send(party.others, salt)
            party._communicator.receive(2)
        else:
            check_alignment(party, [ids(PEOPLE)])

    outcomes = run_roles(program, 2, settings=patient())
    assert isinstance(outcomes[2].error, FrameError)
    assert "malformed salt from P1: got " in str(outcomes[2].error)
    assert isinstance(outcomes[1].error, PeerFailedError)


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [np.zeros(2, np.int64)],
        [np.zeros(2, np.int64), np.zeros((2, 31), np.uint8)],
        [np.zeros(3, np.int64), np.zeros((2, 32), np.uint8)],
        [np.zeros((2, 32), np.uint8), np.zeros(2, np.int64)],
        [np.zeros(2, np.int64), np.zeros((2, 32), np.uint8), np.zeros(1, np.uint8)],
    ],
)
def test_an_answer_of_another_form(answer: list[Any]) -> None:
    """The active participant compares counts and digests, and refuses anything else by name."""

    def program(party: Party) -> None:
        if party.role == 2:
            party.step("align")
            party._communicator.receive(1)
            party._communicator.send([1], answer)
            party._communicator.receive(1)
        else:
            check_alignment(party, [] if party.is_coordinator else [ids(PEOPLE)])

    outcomes = run_roles(program, 2, settings=patient())
    assert isinstance(outcomes[1].error, FrameError)
    assert "malformed salted digest of the row ids from P2: got " in str(outcomes[1].error)
    assert isinstance(outcomes[2].error, PeerFailedError)


# Which kind of session


def test_all_agree_on_the_kind_of_session() -> None:
    """The coordinator takes part in whatever the active participant begins."""
    for kind in (TRAINING, SCORING):
        outcomes = run_roles(_agree_on_kind, ROSTER, [(0,), (kind,), (kind,), (kind,)], patient())
        assert [outcome.result for outcome in outcomes] == [kind] * 4
        assert {e.name for outcome in outcomes for e in outcome.ledger} == {Entry.KIND_OF_SESSION}


@pytest.mark.parametrize(("active", "words"), [(TRAINING, ("training", "scoring")), (SCORING, ("scoring", "training"))])
def test_another_kind_of_session_is_named(active: int, words: tuple[str, str]) -> None:
    """Who was started for something else says so, and everybody who still has something to do is told."""

    def program(party: Party, mine: int) -> None:
        _agree_on_kind(party, mine)
        check_and_go_on(party, [] if party.is_coordinator else [ids(PEOPLE)])

    outcomes = run_roles(program, ROSTER, [(0,), (active,), (3 - active,), (active,)], patient())
    assert isinstance(outcomes[2].error, HandshakeError)
    for outcome in outcomes:
        assert f"bank began a session for {words[0]}, telecom one for {words[1]}; start all participants with" in str(
            outcome.error
        )


@pytest.mark.parametrize("kind", [0, 4, -1, 1 << 60])
def test_an_unknown_kind_of_session(kind: int) -> None:
    """As of a later version."""

    def program(party: Party) -> None:
        if party.is_active:
            party.broadcast(Entry.KIND_OF_SESSION, [kind])
            party._communicator.receive(2)
        else:
            _agree_on_kind(party, 0 if party.is_coordinator else TRAINING)
            party._communicator.receive(1)

    outcomes = run_roles(program, 2, settings=patient())
    assert all("P1 began a session of an unknown kind" in str(outcome.error) for outcome in outcomes)


# What tells data apart


def table(values: Sequence[float], name: str = "x", word: str = "red") -> Table:
    """Return a small table."""
    frame = pd.DataFrame({name: values, "colour": pd.Categorical([word, "blue"] * (len(values) // 2))})
    return Table.read(frame, "bank")


def test_the_digest_of_data() -> None:
    """It changes with every value, name, category, row and label, and with nothing else."""
    plain, y = table([1.0, 2.0]), np.array([0.0, 1.0])
    same = data_digest([table([1.0, 2.0])], [y.copy(), None])
    assert data_digest([plain], [y, None]) == same
    others = [
        data_digest([table([1.0, 2.5])], [y, None]),
        data_digest([table([1.0, np.nan])], [y, None]),
        data_digest([table([1.0, 2.0], "z")], [y, None]),
        data_digest([table([1.0, 2.0], word="green")], [y, None]),
        data_digest([table([1.0, 2.0, 1.0, 2.0])], [y, None]),
        data_digest([plain, plain], [y, None]),
        data_digest([plain], [1 - y, None]),
        data_digest([plain], [y, y]),
        data_digest([plain], [y]),
        data_digest([plain], [y[None], None]),
        data_digest([], []),
    ]
    assert len({same, *others}) == len(others) + 1


def test_the_checks_come_before_the_training() -> None:
    """A training checks alignment before it looks at a column."""

    def program(party: Party) -> None:
        mine = None if party.is_coordinator else programs.Training(None, [ids(PEOPLE[: 30 + party.role])], None)  # type: ignore[arg-type]
        if party.is_coordinator:
            programs.run_coordinator(party, PARAMS)
        else:
            assert mine is not None
            programs.run_training(party, PARAMS, mine)

    outcomes = run_roles(program, ROSTER, settings=patient())
    assert isinstance(outcomes[1].error, UserError)
    assert "bank has 31 training rows and telecom has 32" in str(outcomes[2].error)
