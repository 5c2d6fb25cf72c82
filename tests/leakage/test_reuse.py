"""No mask hides two values: not in a training, nor over trainings, attempts and scorings; and a test that would know.

Everybody but one pools what it received in all of these runs, its own streams being zero (see support/reuse.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import pytest

from mpfedxgb.boosting import PartialModel, TrainData, TrainResult
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import TUNING, SessionSettings, Tuning
from mpfedxgb.party import ACTIVE, Party, run_locally
from mpfedxgb.party import party as party_module
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.roster import MakeSource
from mpfedxgb.ring import Ring, RingArray
from mpfedxgb.ring.prg import Source, Stream, digest
from mpfedxgb.ring.ring import Shape
from mpfedxgb.training import secure_train
from support.reuse import BYTES, WORDS, Inbox, reused
from support.sealed_trainings import RESUMED, Memory, sealed_of
from support.small_scorings import serve
from support.small_trainings import models, training_of
from support.streams import Spoilt, all_but
from support.views import Recorder, written_out

HONEST = [(participants, honest) for participants in (2, 3) for honest in range(1, participants + 1)]
FIRST, AGAIN = SessionSettings("one", 1, insecure_seed=1), SessionSettings("one", 2, insecure_seed=1)
OTHER, SCORES, MORE = (SessionSettings(name, 1, insecure_seed=1) for name in ("two", "scores", "more scores"))
ROWS = range(40)


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of one federation, as all participants but one look back on them."""

    participants: int
    inboxes: Sequence[Inbox]
    streams: MakeSource
    owns: bool = False

    def train(
        self, settings: SessionSettings, kind: str = "binary", memories: Sequence[Memory] | None = None
    ) -> list[PartialModel]:
        """Train, sealed where there are memories; return everybody's partial model."""
        recorder = Recorder()
        kept: Sequence[Memory | None] = memories or [None] * (self.participants + 1)
        make = training_of if memories is None else sealed_of
        training = replace(make(kind, self.participants + self.owns), coordinator_owns=self.owns)

        def program(
            party: Party, params: TrainParams, data: TrainData | None, memory: Memory | None
        ) -> TrainResult | None:
            return secure_train(party, params, data, memory)

        private = [(*own, memory) for own, memory in zip(training.private, kept, strict=True)]
        looking = self.inboxes[0].watch(self.participants, Entry.TREE_SHAPE)
        run = run_locally(program, training.roster, private, settings, recorder, self.streams, observers=looking)
        self._add(f"training {settings.session}, attempt {settings.attempt}", recorder)
        return models(run)

    def score(self, settings: SessionSettings, parts: Sequence[PartialModel], batches: int) -> None:
        """Score the same rows in each batch of a session."""
        tables, recorder = training_of("binary", len(parts)).tables, Recorder()
        serve(parts, tables, [ROWS] * batches, settings, recorder, self.streams)
        self._add(f"scoring {settings.session}", recorder)

    def _add(self, run: str, recorder: Recorder) -> None:
        for inbox in self.inboxes:
            inbox.add(run, recorder)

    def found(self) -> list[str]:
        """Return where a mask seems to hide two values."""
        return [place for inbox in self.inboxes for place in reused(inbox)]


def runs(participants: int, honest: int, streams: MakeSource | None = None, owns: bool = False) -> Runs:
    """Return runs that are still to come; with a coordinator that `owns` columns besides."""
    number = participants + 1 if owns else -1
    ways = [False] if honest == ACTIVE else [False, True]
    inboxes = [Inbox(honest, added_up=way, coordinator=number) for way in ways]
    return Runs(participants, inboxes, all_but(honest) if streams is None else streams, owns)


@pytest.mark.parametrize(
    ("participants", "honest", "owns"), [*((*one, False) for one in HONEST), (2, 1, True), (2, 2, True)]
)
def test_no_mask_hides_two_values(participants: int, honest: int, owns: bool) -> None:
    """Two attempts at a training, another training, and three batches of the same rows in two sessions, in chunks."""
    everything = runs(participants, honest, owns=owns)
    parts = everything.train(FIRST)
    everything.train(AGAIN)
    everything.train(OTHER, "classes")
    everything.score(replace(SCORES, tuning=Tuning(leaf_elements=1)), parts, 2)
    everything.score(replace(MORE, tuning=Tuning(leaf_elements=1, direct_bytes=0)), parts, 1)

    assert everything.found() == []
    assert len(everything.inboxes[0].tags) > 4
    for inbox in everything.inboxes:
        assert inbox.arrays.keys() >= {WORDS, BYTES}
        assert sum(array.size for _, array in inbox.arrays[WORDS]) > 15_000


@pytest.mark.parametrize(
    ("participants", "honest", "owns", "kind"),
    [
        (2, 1, False, RESUMED),
        (2, 2, False, RESUMED),
        (3, 3, False, RESUMED),
        (2, 2, True, RESUMED),
        (2, 2, False, "classes, weights"),
    ],
)
def test_no_mask_of_a_sealed_training_hides_two_values(participants: int, honest: int, owns: bool, kind: str) -> None:
    """An attempt, another that goes on after its first round, and two batches of the same rows."""
    everything = runs(participants, honest, owns=owns)
    memories = [Memory() for _ in range(participants + 1)]
    everything.train(FIRST, kind, memories)
    for memory in memories:
        memory.until = 1
    everything.score(SCORES, everything.train(AGAIN, kind, memories), 2)

    assert everything.found() == []
    assert sum(array.size for _, array in everything.inboxes[0].arrays[WORDS]) > 15_000


@dataclass(slots=True)
class Cached:
    """A stream whose draws are the same for all nodes of a batch, the leading axis."""

    stream: Source

    def elements(self, ring: Ring, shape: Shape) -> RingArray:
        """Return the next elements, those of the first node for every node."""
        return written_out(self.stream.elements(ring, (1, *shape[1:])).broadcast_to(shape))

    def again(self, start: int = 0) -> Cached:
        """Return the same stream from so many bytes behind its beginning."""
        return Cached(self.stream.again(start))


def spoilt(honest: int, at: str, stream: Callable[[str, Source], Source]) -> Spoilt:
    """Return streams of which the honest participant's are replaced at some steps."""
    return Spoilt(
        all_but(honest),
        lambda participant, label, sound: stream(label, sound) if participant == honest and at in label else None,
    )


def by_label(label: str, sound: Source) -> Source:
    """Return a stream that hangs on number and name of the step alone, as if keys forgot session, attempt, nonces."""
    return Stream(digest(label.encode()))


def one_for_all(label: str, sound: Source) -> Source:
    """Return the same stream whatever the step."""
    return Stream(digest(b"always the same"))


def cached(label: str, sound: Source) -> Source:
    """Return a stream that is drawn once for all nodes of a batch."""
    return Cached(sound)


def found(leaking: Runs) -> list[str]:
    """Return what is found in runs with a leak; if nothing was spoilt, because steps have other names, say so."""
    assert isinstance(leaking.streams, Spoilt)
    assert leaking.streams.count > 0, "no step of this name draws anything: name the steps that do"
    return leaking.found()


@lru_cache(maxsize=1)
def trained() -> list[PartialModel]:
    """Return a model of two participants, to be scored with."""
    return runs(2, ACTIVE).train(FIRST)


@pytest.mark.parametrize(("participants", "honest"), [(2, 1), (2, 2), (3, 3)])
def test_masks_of_one_attempt_in_the_next_are_found(participants: int, honest: int) -> None:
    """Negative control: keys that forget the attempt. One attempt alone is blameless, and so are its tags."""
    attempts = runs(participants, honest, spoilt(honest, "", by_label))
    attempts.train(FIRST)
    assert found(attempts) == []

    attempts.train(AGAIN)
    places = found(attempts)
    assert any("attempt 1" in place and "attempt 2" in place for place in places)
    assert any(place.startswith("words anywhere") for place in places)
    assert any(place.startswith("opened tags") for place in places)


@pytest.mark.parametrize("honest", [1, 2])
def test_one_mask_for_two_values_of_the_coordinators_is_found(honest: int) -> None:
    """Negative control: what a coordinator with columns marks of the same rows in two sessions, masked alike."""
    parts = runs(2, honest, owns=True).train(FIRST)
    sessions = runs(2, honest, spoilt(honest, "predict/share each", by_label), owns=True)
    sessions.score(SCORES, parts, 1)
    assert found(sessions) == []

    sessions.score(MORE, parts, 1)
    assert any("from 0" in place and place.count("share each") == 2 for place in found(sessions))


def test_mask_of_a_training_in_a_scoring_is_found() -> None:
    """Negative control: gradients and leaf weights under one mask, in arrays of other shapes at other steps."""
    both = runs(2, ACTIVE, spoilt(ACTIVE, "share of", one_for_all))
    both.score(SCORES, both.train(FIRST), 1)

    assert any("gradients" in place and "predict" in place for place in found(both))


SCORING_STEPS = [(1, "share of"), (1, "share each"), (1, "and"), (2, "share each"), (2, "and")]
SCORING_STEPS += [(2, "leaf sums"), (2, "reveal")]
"""Who draws at which steps of a scoring; the weights are shared once a session, all else for every batch."""


@pytest.mark.parametrize(("honest", "step"), SCORING_STEPS)
def test_masks_of_one_scoring_in_the_next_are_found(monkeypatch: pytest.MonkeyPatch, honest: int, step: str) -> None:
    """Negative control: in two sessions, or in two batches of a session, one kind of step has the same masks."""
    few = Tuning(direct_bytes=0) if step == "and" else TUNING  # marks are multiplied in rounds, not with the weights
    one, other = (replace(settings, tuning=few) for settings in (SCORES, MORE))
    monkeypatch.setattr(party_module, "turn", lambda step, participants: ACTIVE)  # so P_2 draws all that is dealt
    sessions = runs(2, honest, spoilt(honest, f"predict/{step}", by_label))
    sessions.score(one, trained(), 1)
    assert found(sessions) == []

    sessions.score(other, trained(), 1)
    assert any("scoring scores" in place and "scoring more scores" in place for place in found(sessions))

    batches = runs(2, honest, spoilt(honest, f"predict/{step}", one_for_all))
    batches.score(one, trained(), 2)
    assert any(step in place for place in found(batches)) == (step != "share of")


@pytest.mark.parametrize("honest", [1, 2])
@pytest.mark.parametrize("stream", [cached, one_for_all], ids=["in a level", "between levels"])
def test_blinding_of_tags_cached_between_nodes_is_found(stream: Callable[[str, Source], Source], honest: int) -> None:
    """Negative control: opened tags under one kappa differ by an index. Nothing but the tags tells."""
    training = runs(2, honest, spoilt(honest, "tags", stream))
    training.train(FIRST, "classes")

    assert {place.partition(":")[0] for place in found(training)} == {"opened tags"}


@pytest.mark.parametrize("honest", [1, 2])
def test_no_mask_of_bounded_weights_is_reused(honest: int) -> None:
    """Bounds of two trainings and two attempts, open and sealed, all under masks of their own."""
    both = runs(2, honest)
    both.train(FIRST, "directions")
    both.train(AGAIN, "directions")
    both.train(OTHER, "directions", [Memory() for _ in range(3)])

    assert both.found() == []


@pytest.mark.parametrize("step", ["gain/gains", "argmax/stage", "child update"])
def test_mask_cached_between_nodes_is_found(step: str) -> None:
    """Negative control: sums, all that a stage opens, or rows of all nodes of a level under one mask.

    P_2's part of a masked sum hides its mask; it is P_1's sum that tells.
    """
    training = runs(2, 2, spoilt(2, step, cached))
    training.train(FIRST, "classes")

    assert any("at 0 and 1 of axis" in place for place in found(training))
