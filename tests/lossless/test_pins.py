"""Moving code must not move a message, a file or a name: what small runs under `insecure_seed` do, held to pins.json.

Of every transcript there are two digests. "arrays" covers every frame after the handshake: kind, step, label, and all
arrays to the last byte. Step labels, phase names and announced names are key material: a renamed one changes every mask
after it. "texts" covers what roles announce in words, the parameters above all. The runs take a fixed text for their
keys, so that an issue that adds a parameter takes only the texts anew (and the key of settings files). Beside them are
all roles' ledgers and counts.

Besides: model files of all modes without their parameters, checkpoints, the keys of records, exit codes, and the keys
of settings files; whole model files with parameters. Public names are held by tests/test_public_surface.py, texts of
exit codes by tests/cli/test_exit_codes.py.

A change that alters any of it on purpose takes the pins anew with

    PYTHONPATH=tests:benchmarks python tests/lossless/write_pins.py

and says in the changelog what changed; another "arrays" digest is another protocol.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.pins import (
    MODELS,
    MODES,
    PINS,
    SEED,
    TRANSCRIPTS,
    arrays_of,
    pin_checkpoints,
    pin_model,
    pin_transcript,
    settings_of,
    short,
    texts_of,
    train,
    trained,
)

PINNED: dict[str, Any] = json.loads(Path(__file__).with_name("pins.json").read_text(encoding="utf-8"))


def test_nothing_else_is_pinned() -> None:
    """A pin that no test looks at would hold nothing."""
    assert set(PINNED) == {"transcripts", "models", "checkpoints", *PINS}
    assert list(PINNED["transcripts"]) == TRANSCRIPTS
    assert (list(PINNED["models"]), list(PINNED["checkpoints"])) == (MODELS, list(MODES))


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_transcripts_stay_as_they_are(name: str) -> None:
    """Who sends what to whom, in which order, under which mask, and what for: to the last byte as it was."""
    assert pin_transcript(name) == PINNED["transcripts"][name]


@pytest.mark.parametrize("mode", MODELS)
def test_models_stay_as_they_are(mode: str) -> None:
    """Everybody's file and ledger, those without any protection included."""
    assert pin_model(mode) == PINNED["models"][mode]


@pytest.mark.parametrize("mode", MODES)
def test_checkpoints_stay_as_they_are(mode: str) -> None:
    """Names and bytes of all files, so that a training can go on with the next version."""
    assert pin_checkpoints(mode) == PINNED["checkpoints"][mode]


@pytest.mark.parametrize("name", PINS)
def test_names_stay_as_they_are(name: str) -> None:
    """Keys of records and settings files, names of files, exit codes: what others read."""
    assert PINS[name]() == PINNED[name]


def test_a_transcript_tells_one_byte_from_another() -> None:
    """The digest is over content, not over sizes: another seed, the same sizes, another digest."""
    one, other = trained("strict", "star"), train("strict", settings_of("star", seed=SEED + 1))
    links = [found.recorder.links for found in (one, other)]
    sizes = [[[frame.payload_bytes for frame in its[link]] for link in sorted(its)] for its in links]
    assert sizes[0] == sizes[1]
    assert short(arrays_of(one.recorder)) != short(arrays_of(other.recorder))


def test_texts_hold_the_real_parameters() -> None:
    """Every greeting has them in the place of the text that the keys are made of."""
    found = trained("strict", "star")
    texts = [json.loads(text) for text in texts_of(found) if text.startswith(b"{")]
    announced = [text["parameters"] for text in texts if "parameters" in text]
    assert set(announced) == {found.parameters}
    assert len(announced) == len(texts) - 3, "P_1 sends to each other role what it has settled"
