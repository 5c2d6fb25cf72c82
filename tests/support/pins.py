"""What pins hold: digests of whole transcripts, files, ledgers and counts; and the names that files and users rely on.

Every run is under `insecure_seed`, with a fixed text in the place of its parameters, which enter all keys: a parameter
that comes anew changes texts, and neither masks nor models. No pin has the name of a module or of a function.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mpfedxgb import FedXGBClassifier, errors
from mpfedxgb.atomic import HEX
from mpfedxgb.boosting import PartialModel, TrainData, TrainResult
from mpfedxgb.boosting.callbacks import State
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.cli.exit_codes import ExitCode, exit_code
from mpfedxgb.config import TOPOLOGIES, SessionSettings, Tuning
from mpfedxgb.data.ids import IdRule, Ids
from mpfedxgb.federation import role as roles
from mpfedxgb.federation.alignment import Terms, alignment_path
from mpfedxgb.federation.programs import run_aligning, run_coordinator
from mpfedxgb.federation.rows import read_rows
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.intersection.group import Edwards25519
from mpfedxgb.modes.none.labels import plain_train
from mpfedxgb.party import LocalRun, Party, Roster, run_locally
from mpfedxgb.party.observer import Observer
from mpfedxgb.report.history import record_chain
from mpfedxgb.schema.settings import TABLES
from mpfedxgb.training import secure_train
from mpfedxgb.training.checkpoint import ROUNDS, Checkpoints
from mpfedxgb.transport.frame import Frame, Kind
from support.sealed_trainings import Memory
from support.small_scorings import serve
from support.small_trainings import Training, models, training_of
from support.switchboard import Organisations
from support.toy_tables import BANK, QUICK, TELECOM, labels, people
from support.views import Recorder

PARTICIPANTS, SEED = 3, 23
BATCHES = ([3, 1, 4], [1], [5, 9, 2, 6])
STAND_IN = "pinned"
"""What roles are given as the text of their parameters."""

MODES: dict[str, dict[str, object]] = {
    "strict": {},
    "sealed": {"security": "sealed"},
    "paper": {"security": "paper", "min_child_weight": 0.0},
}
ALIGNMENT = "alignment"
TRANSCRIPTS = [
    *(f"{mode} {topology} {job}" for mode in MODES for topology in TOPOLOGIES for job in ("train", "resume", "score")),
    *(f"{ALIGNMENT} {topology}" for topology in TOPOLOGIES),
]
LISTS: dict[str, tuple[range, ...]] = {
    "train": (range(60), range(15, 80), range(10, 45)),
    "evaluate": (range(100, 130), range(105, 123), range(90, 112)),
}
"""Whom each participant has, by number, in the two tables that are aligned."""


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """A run with all frames, the text of its parameters, and of a training what every role keeps."""

    run: LocalRun[Any]
    recorder: Recorder
    parameters: str
    kept: list[Memory] = field(default_factory=list)


def short(pieces: Iterable[bytes]) -> str:
    """Return a digest of pieces, each with its length, that fits into a table."""
    whole = hashlib.sha256()
    for piece in pieces:
        whole.update(len(piece).to_bytes(8, "little") + piece)
    return whole.hexdigest()[:16]


def training_for(mode: str) -> Training:
    """Return a training of three rounds with evaluation rows."""
    training = training_of("evaluation rows", PARTICIPANTS)
    changes: dict[str, Any] = MODES.get(mode, {"security": mode})
    return replace(training, params=replace(training.params, n_estimators=3, **changes))


def settings_of(topology: str, attempt: int = 1, seed: int = SEED) -> SessionSettings:
    """Return settings under which every byte repeats, whatever parameters there are."""
    return SessionSettings("pins", attempt, STAND_IN, insecure_seed=seed, topology=topology)


def train(mode: str, settings: SessionSettings, memories: list[Memory] | None = None) -> Recorded:
    """Train in one attempt."""
    training, recorder = training_for(mode), Recorder()
    kept = [Memory() for _ in range(PARTICIPANTS + 1)] if memories is None else memories

    def program(party: Party, params: TrainParams, data: TrainData | None, memory: Memory) -> TrainResult | None:
        return secure_train(party, params, data, memory)

    private = [(*own, memory) for own, memory in zip(training.private, kept, strict=True)]
    run = run_locally(program, PARTICIPANTS, private, settings, recorder)
    return Recorded(run, recorder, training.params.to_json(), kept)


@lru_cache(maxsize=8)
def trained(mode: str, topology: str) -> Recorded:
    """Return a whole training, once for all that look at it."""
    return train(mode, settings_of(topology))


def recorded(name: str) -> Recorded:
    """Return one of TRANSCRIPTS, run anew unless it is a whole training."""
    mode, topology, *job = name.split()
    if mode == ALIGNMENT:
        return align(topology)
    whole = trained(mode, topology)
    if job == ["train"]:
        return whole
    if job == ["resume"]:
        again = [Memory(dict(memory.states), until=1) for memory in whole.kept]
        return train(mode, settings_of(topology, attempt=2), again)
    recorder = Recorder()
    run = serve(models(whole.run), training_for(mode).tables, BATCHES, settings_of(topology), recorder)
    return Recorded(run, recorder, whole.parameters)


def align(topology: str) -> Recorded:
    """Align two lists over messages of 16 ids, every role's entropy from a stream of its own."""
    recorder, params = Recorder(), TrainParams()

    def program(party: Party, lists: dict[str, Ids]) -> Any:
        if party.is_coordinator:
            return run_coordinator(party, params)
        return run_aligning(party, Terms(IdRule(), 5, tuple(LISTS)), lists, Edwards25519(1), None)

    private = [({what: ids_of(people[m]) for what, people in LISTS.items()},) for m in range(PARTICIPANTS)]
    settings = replace(settings_of(topology), tuning=Tuning(aligned_ids=16))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", seeded_by_thread(("coordinator", *Roster.numbered(PARTICIPANTS).participants)))
        run = run_locally(program, PARTICIPANTS, [({},), *private], settings, recorder)
    for m, found in enumerate(run.results[1:]):
        for what, lists in LISTS.items():
            common = set(lists[0]).intersection(*lists[1:])
            assert found[what].tolist() == [person in common for person in lists[m]]
    return Recorded(run, recorder, params.to_json())


def ids_of(people: range) -> Ids:
    """Return the ids of some people, in the order of a sorted table."""
    keys = tuple(f"c-{person:04}" for person in people)
    return Ids(keys, keys, np.arange(len(keys)))


def seeded_by_thread(names: Iterable[str]) -> Callable[[int], bytes]:
    """Return a stand-in for `os.urandom` that repeats itself in the threads of roles, who have one each."""
    drawn, fresh = dict.fromkeys(names, 0), os.urandom

    def draw(count: int) -> bytes:
        name = threading.current_thread().name
        if name not in drawn:
            return fresh(count)
        drawn[name] += 1
        return hashlib.shake_256(f"{SEED} {name} {drawn[name]}".encode()).digest(count)

    return draw


def is_text(array: npt.NDArray[Any]) -> bool:
    """Return whether an array of a message is announced text, which is JSON."""
    return array.dtype == np.uint8 and array.ndim == 1 and array[:2].tobytes() == b'{"'


def frames_of(recorder: Recorder) -> Iterator[tuple[tuple[int, int], Frame]]:
    """Yield what every role sent to every other, link by link."""
    for link, frames in sorted(recorder.links.items()):
        yield from ((link, frame) for frame in frames)


def arrays_of(recorder: Recorder) -> Iterator[bytes]:
    """Yield all frames after the handshake: kind, step, label, and all arrays that are no text."""
    for link, frame in frames_of(recorder):
        if frame.kind is not Kind.HELLO:
            yield repr((link, frame.kind, frame.step, frame.label)).encode()
            for array in frame.arrays:
                if not is_text(array):
                    yield repr((array.dtype.str, array.shape)).encode()
                    yield array.tobytes()


def texts_of(found: Recorded) -> Iterator[bytes]:
    """Yield all texts of a run, those of the handshake too, with the real parameters in their place."""
    for link, frame in frames_of(found.recorder):
        for array in filter(is_text, frame.arrays):
            yield repr(link).encode()
            yield array.tobytes().replace(json.dumps(STAND_IN).encode(), json.dumps(found.parameters).encode())


def ledgers_of(run: LocalRun[Any]) -> Iterator[bytes]:
    """Yield every role's ledger."""
    for ledger in run.ledgers:
        yield json.dumps([[reveal.name, reveal.receiver, reveal.count] for reveal in ledger]).encode()


def counts_of(run: LocalRun[Any]) -> Iterator[bytes]:
    """Yield what every role counted in each phase, but for seconds, and how it planned."""
    for meter in run.meters:
        phases = {name: counts.to_dict() | {"seconds": 0} for name, counts in meter.phases.items()}
        yield json.dumps([phases, meter.plans], sort_keys=True).encode()


def pin_transcript(name: str) -> dict[str, str]:
    """Return the pin of one of TRANSCRIPTS."""
    found = recorded(name)
    return {
        "arrays": short(arrays_of(found.recorder)),
        "texts": short(texts_of(found)),
        "ledgers": short(ledgers_of(found.run)),
        "counts": short(counts_of(found.run)),
    }


def pin_model(mode: str) -> dict[str, str]:
    """Return the pin of everybody's model file and ledger; parameters and the digest over them are left out."""
    run = trained(mode, TOPOLOGIES[0]).run if mode in MODES else in_the_clear()
    return {"files": short(map(file_of, models(run))), "ledgers": short(ledgers_of(run))}


def in_the_clear() -> LocalRun[Any]:
    """Train with security="none", whose coins are made of the parameters' own text."""
    training = training_for("none")
    data = [mine for _, mine in training.private if mine is not None]
    roster = Roster.numbered(PARTICIPANTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainParams, "to_json", lambda _: STAND_IN)
        return plain_train(training.params, roster, data, settings_of(TOPOLOGIES[0]), Observer())


def file_of(model: PartialModel) -> bytes:
    """Return a model file without its parameters and the digest over them."""
    text, count = re.subn(r'"(params": \{[^{}]*\}|digest": "[0-9a-f]*")', "", model.to_json())
    assert count == 2
    return text.encode()


def pin_checkpoints(mode: str) -> str:
    """Return the pin of all files that participants keep of a training; metrics, which are floats, are 1/2."""
    kept = trained(mode, TOPOLOGIES[0]).kept
    with TemporaryDirectory() as folder:
        for m, memory in enumerate(kept[1:], start=1):
            checkpoints = Checkpoints(Path(folder, "state", f"P{m}"), {"pins": mode})
            assert checkpoints.fits("labels")
            for _, state in sorted(memory.states.items()):
                checkpoints.save(with_halves(state))
            checkpoints.all_have(1)
        files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return short(part for path in files for part in (str(path.relative_to(folder)).encode(), path.read_bytes()))


def with_halves(state: State) -> State:
    """Return a state all of whose metrics are 1/2."""
    evaluation = state.evaluation
    if evaluation is None:
        return state
    metrics = {on: {name: [0.5] * len(v) for name, v in m.items()} for on, m in evaluation.metrics.items()}
    best = None if evaluation.best_value is None else 0.5
    return replace(state, evaluation=replace(evaluation, metrics=metrics, best_value=best))


def pin_sessions() -> dict[str, Any]:
    """Return what an alignment, a training and a scoring of two organisations leave, by the names in it.

    Of the record the keys of each line; of the checkpoints whom they belong to; and which files there are.
    """
    whole = people(50).assign(person=[f"c-{i:04}" for i in range(50)])
    whole["label"] = labels(whole, "binary")
    columns = {"bank": [*BANK, "person"], "telecom": [*TELECOM, "person"]}
    rows = {name: whole[[*own, "label"] if name == "bank" else own][:40] for name, own in columns.items()}
    to_score = {name: whole[own][40:] for name, own in columns.items()}
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        places = Organisations(Path(folder), rows, patch, {**QUICK, "num_class": 2}, to_score=to_score)
        places.edit(1, 'predict = "score.csv"', 'predict = "score.csv"\npredictions = "out.csv"')
        for role in (1, 2):
            places.edit(role, 'id = "person"', 'id = "person"\nalign = true')
        try:
            run_sessions(places)
        finally:
            places.close()
        names = [places.settings(role).role.name for role in places.roles]
        aligned = json.loads(alignment_path(places.settings(1)).read_text())
        (kept,) = places.state(1).rglob(ROUNDS)
        header = kept.read_bytes().splitlines()[1][HEX + 1 :]
        return {
            "record": {name: lines_of(places.settings(role)) for role, name in enumerate(names)},
            "checkpoints belong to": keys(json.loads(header)["belongs_to"]),
            "alignment": [keys(aligned), keys(aligned["tables"]["train"])],
            "files": {name: files_of(places.settings(role)) for role, name in enumerate(names)},
        }


def run_sessions(places: Organisations) -> None:
    """Align, train and score, each in a session of all roles."""

    def learn(settings: RoleSettings) -> None:
        roles.train(settings, read_rows(settings, "train"))

    def score(settings: RoleSettings) -> None:
        model = roles.load_model(settings)
        if settings.is_active:
            roles.score_file(settings, model)
        else:
            roles.serve_rows(settings, once=True)

    for program in (learn, score):  # who learns aligns first, as the settings say
        calls = [places.start(0, lambda settings: roles.coordinate(settings, once=True))]
        calls += [places.start(role, program) for role in (1, 2)]
        for call in calls:
            call.result()


def lines_of(settings: RoleSettings) -> list[str]:
    """Return the keys of every line of a role's record."""
    found = record_chain(settings.role.state).read()
    assert not found.damaged
    assert not found.problems
    return [keys(json.loads(body)) for _, body in found.lines]


def files_of(settings: RoleSettings) -> list[str]:
    """Return the names of all files that a role keeps."""
    folder = settings.role.state
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def keys(content: Iterable[str]) -> str:
    """Return keys in one line."""
    return ", ".join(sorted(content))


def pin_run_record() -> dict[str, str]:
    """Return the keys of what an estimator tells of a training, and of what a role counts."""
    table = people(30)
    model = FedXGBClassifier(**QUICK, insecure_seed=SEED).fit(table, labels(table, "binary"))
    content = model.run_.to_dict()
    return {"run": keys(content), "counts": keys(content["phases"][""]), "reveal": keys(content["ledger"][0])}


def pin_whole_files() -> dict[str, str]:
    """Return the pins of whole model files, parameters included, with everybody's ledger, of three other trainings."""
    squared = training_of("squared error", 2)
    in_paper = replace(squared.params, security="paper", min_child_weight=0.0)
    trainings = {
        "strict, log-loss, early stopping": training_of("early stopping", 3),
        "strict, softmax": training_of("classes", 4),
        "paper, squared error": replace(squared, params=in_paper),
    }
    pins = {}
    for name, training in trainings.items():
        run = training.run(seed=11)
        files = (model.to_json().encode() for model in models(run))
        pins[name] = short([*ledgers_of(run), *files])
    return pins


def pin_exit_codes() -> dict[str, dict[str, int]]:
    """Return all exit codes, and with which a process ends after each error but one, which has another's code."""
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]
    named = {kind.__name__: kind for kind in kinds if issubclass(kind, BaseException)}
    del named["PeerFailedError"]
    ends = {name: int(exit_code(kind.__new__(kind, "why"))) for name, kind in named.items()}
    return {"codes": {code.name: int(code) for code in ExitCode}, "errors": ends}


def pin_settings() -> dict[str, str]:
    """Return the tables of a settings file with their keys."""
    return {name: keys(key.name for key in table.keys) for name, table in TABLES.items()}


MODELS = [*MODES, "none"]
PINS: dict[str, Callable[[], Any]] = {
    "sessions": pin_sessions,
    "run record": pin_run_record,
    "exit codes": pin_exit_codes,
    "settings": pin_settings,
    "whole files": pin_whole_files,
}
"""What is pinned besides transcripts, models and checkpoints."""


def all_pins() -> dict[str, Any]:
    """Return everything that is pinned, as the file has it."""
    return {
        "transcripts": {name: pin_transcript(name) for name in TRANSCRIPTS},
        "models": {mode: pin_model(mode) for mode in MODELS},
        "checkpoints": {mode: pin_checkpoints(mode) for mode in MODES},
        **{name: pin() for name, pin in PINS.items()},
    }
