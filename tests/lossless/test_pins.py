"""Moving code must not move a message: whole transcripts of small runs under `insecure_seed`, held to digests.

One digest covers every frame that any role sent after the handshake: kind, step, label, and all arrays to the last
byte. The runs hand the roles a fixed text as their parameters, so that a new parameter changes nothing here; a second
digest covers the parameters' text itself. Step labels, phase names and announced names are key material: a renamed one
changes every mask after it, and with them the first digest.

A change that alters messages on purpose prints new digests with

    python -m pytest tests/lossless/test_pins.py --tb=line

and says in the changelog that the protocol changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import pytest

from mpfedxgb.boosting import PartialModel, TrainData, TrainResult, secure_train
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import TOPOLOGIES, SessionSettings
from mpfedxgb.party import Party, run_locally
from mpfedxgb.transport.frame import Kind
from support.sealed_trainings import Memory
from support.small_scorings import serve
from support.small_trainings import Training, models, training_of
from support.views import Recorder

PARTICIPANTS, SEED = 3, 23
BATCHES = ([3, 1, 4], [1], [5, 9, 2, 6])
MODES: dict[str, dict[str, object]] = {
    "strict": {},
    "sealed": {"security": "sealed"},
    "paper": {"security": "paper", "min_child_weight": 0.0},
}
JOBS = ("train", "resume", "score")

TRANSCRIPTS = {
    ("strict", "star", "train"): "f7c613075fb036e2",
    ("strict", "star", "resume"): "3e0289c518a0fa4e",
    ("strict", "star", "score"): "b44c73c0ce0aa64e",
    ("strict", "mesh", "train"): "68da6d835a434a10",
    ("strict", "mesh", "resume"): "568e73d628a8d952",
    ("strict", "mesh", "score"): "ca893b255235d111",
    ("sealed", "star", "train"): "7aa9374c1e0501b3",
    ("sealed", "star", "resume"): "0e144d70104d033c",
    ("sealed", "star", "score"): "4c91bc2c3eab5f45",
    ("sealed", "mesh", "train"): "aa599d75b01b91c3",
    ("sealed", "mesh", "resume"): "c03e35d2160568ee",
    ("sealed", "mesh", "score"): "5a7c180c37d92acf",
    ("paper", "star", "train"): "849431191406d420",
    ("paper", "star", "resume"): "4883a890fcad08d4",
    ("paper", "star", "score"): "5d0f777207ca15b6",
    ("paper", "mesh", "train"): "f0a7c68dc099fb05",
    ("paper", "mesh", "resume"): "45c6ee15da78242e",
    ("paper", "mesh", "score"): "b3f1c1d2e62b39cc",
}
PARAMETERS = {
    "strict": "82e981dafd253167",
    "sealed": "5c6a945274505efc",
    "paper": "db09ff289595284d",
}


def training_for(mode: str) -> Training:
    """Return a training of three rounds with evaluation rows."""
    training = training_of("evaluation rows", PARTICIPANTS)
    return replace(training, params=replace(training.params, n_estimators=3, **MODES[mode]))  # type: ignore[arg-type]


def settings(topology: str, attempt: int = 1) -> SessionSettings:
    """Return settings under which every byte repeats, whatever parameters there are."""
    return SessionSettings("pins", attempt, "pinned", insecure_seed=SEED, topology=topology)


def train(
    mode: str, topology: str, tap: Recorder | None = None, memories: list[Memory] | None = None, attempt: int = 1
) -> tuple[list[PartialModel], list[Memory]]:
    """Train in one attempt; return everybody's model, and what all roles keep."""
    training = training_for(mode)
    kept = [Memory() for _ in range(PARTICIPANTS + 1)] if memories is None else memories

    def program(party: Party, params: TrainParams, data: TrainData | None, memory: Memory) -> TrainResult | None:
        return secure_train(party, params, data, memory)

    private = [(*own, memory) for own, memory in zip(training.private, kept, strict=True)]
    return models(run_locally(program, PARTICIPANTS, private, settings(topology, attempt), tap)), kept


@lru_cache(maxsize=8)
def trained(mode: str, topology: str) -> tuple[Recorder, list[PartialModel], list[Memory]]:
    """Return the transcript of a whole training, its models, and what all roles keep."""
    recorder = Recorder()
    return recorder, *train(mode, topology, recorder)


def transcript(mode: str, topology: str, job: str) -> Recorder:
    """Return every frame of a run."""
    recorder, parts, kept = trained(mode, topology)
    if job == "train":
        return recorder
    recorder = Recorder()
    if job == "resume":
        again = [Memory(dict(memory.states), until=1) for memory in kept]
        train(mode, topology, recorder, again, attempt=2)
    else:
        serve(parts, training_for(mode).tables, BATCHES, settings(topology), recorder)
    return recorder


def pieces(recorder: Recorder) -> Iterator[bytes]:
    """Yield what every role sent to every other after the handshake, link by link."""
    for link, frames in sorted(recorder.links.items()):
        for frame in frames:
            if frame.kind is not Kind.HELLO:
                yield repr((link, frame.kind, frame.step, frame.label)).encode()
                for array in frame.arrays:
                    yield repr((array.dtype.str, array.shape)).encode()
                    yield array.tobytes()


def digest_of(recorder: Recorder) -> str:
    """Return the digest of a transcript, short enough for a table."""
    whole = hashlib.sha256()
    for piece in pieces(recorder):
        whole.update(len(piece).to_bytes(8, "little") + piece)
    return whole.hexdigest()[:16]


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("mode", MODES)
def test_transcripts_stay_as_they_are(mode: str, topology: str, job: str) -> None:
    """Who sends what to whom, in which order, under which mask: to the last byte as it was."""
    assert digest_of(transcript(mode, topology, job)) == TRANSCRIPTS[mode, topology, job]


@pytest.mark.parametrize("mode", MODES)
def test_parameters_that_must_agree_stay_as_they_are(mode: str) -> None:
    """The text that all roles compare in the handshake."""
    text = training_for(mode).params.to_json()
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == PARAMETERS[mode], text


def test_a_transcript_tells_one_byte_from_another() -> None:
    """The digest is over content, not over sizes: another seed, the same sizes, another digest."""
    one, other = Recorder(), Recorder()
    train("strict", "star", one)
    training = training_for("strict")
    private = [(*own, Memory()) for own in training.private]
    run_locally(secure_train, PARTICIPANTS, private, replace(settings("star"), insecure_seed=SEED + 1), other)
    sizes = [[frame.payload_bytes for frame in one.links[link]] for link in sorted(one.links)]
    assert sizes == [[frame.payload_bytes for frame in other.links[link]] for link in sorted(other.links)]
    assert digest_of(one) != digest_of(other)
