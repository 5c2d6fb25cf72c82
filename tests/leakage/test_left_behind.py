"""What roles leave behind: no masked value, no mask and no id is in a log at any level, a record or a file of `state/`.

A participant knows its masked values, and its shares of masks, while a session lasts. A file that had both, or a log
that is sent to somebody, would give what a mask hides to anybody who has the rest.
"""

from __future__ import annotations

import base64
import io
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from federation.test_record import PERSONS, score_all, stop_after, train_all
from federation.test_sealed import evaluate, federation
from mpfedxgb.boosting import PartialModel
from mpfedxgb.errors import StoppedError
from mpfedxgb.federation import scoring
from mpfedxgb.federation.role import model_path
from mpfedxgb.modes.sealed.labels import Sealed
from mpfedxgb.party import Party
from mpfedxgb.ring.prg import Stream
from mpfedxgb.tree import Leaf
from support.chance import Words
from support.searched import Wanted, as_words, received_words
from support.switchboard import Organisations
from support.views import Recorder

MASKED, MASKS, IDS = "masked values", "masks", "ids"
KEEPS_SHARES = (".checkpoint", ".mpfedxgb.json")


@dataclass(frozen=True, slots=True)
class Left:
    """What two organisations and a coordinator left behind, by name; and what must not be in it."""

    contents: dict[str, bytes]
    masked: Wanted
    masks: Wanted
    kept_shares: Words

    def found(self) -> dict[str, set[str]]:
        """Return the forbidden kinds that each content has, by its name; nothing, if all is well.

        An auxiliary's share of a margin or a leaf weight is its share of the mask, or the negative of that. Checkpoints
        and models have to keep it: the masked number, which nobody may keep, would tell the rest.
        """
        found: dict[str, set[str]] = {}
        others = self.masks.without(self.kept_shares)
        for name, content in self.contents.items():
            masks = others if name.endswith(KEEPS_SHARES) else self.masks
            inside = {
                MASKED: bool(self.masked.inside(content)),
                MASKS: bool(masks.inside(content)),
                IDS: any(person.encode() in content for person in PERSONS),
            }
            if any(inside.values()):
                found[name] = {what for what, is_inside in inside.items() if is_inside}
        return found


@contextmanager
def log_of_everything() -> Iterator[io.StringIO]:
    """Take down what anybody logs, at the lowest level."""
    text, root, package = io.StringIO(), logging.getLogger(), logging.getLogger("mpfedxgb")
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    levels = root.level, package.level
    root.addHandler(handler)
    for logger in (root, package):
        logger.setLevel(logging.DEBUG)
    try:
        yield text
    finally:
        root.removeHandler(handler)
        root.setLevel(levels[0])
        package.setLevel(levels[1])


def leave(folder: Path, patch: pytest.MonkeyPatch, security: str, *leaks: Callable[[Organisations], None]) -> Left:
    """Train with a stop on the way, score, and return all that is left behind, leaks included."""
    places, recorder, drawn = federation(folder, patch, security=security), Recorder(), list[Words]()
    evaluate(places)
    places.board.tap = recorder
    octets = Stream.octets

    def watched(stream: Stream, count: int) -> Any:
        out = octets(stream, count)
        drawn.append(as_words(out.tobytes()))
        return out

    patch.setattr(Stream, "octets", watched)
    for leak in leaks:
        leak(places)
    with log_of_everything() as log:
        assert any(isinstance(error, StoppedError) for error in train_all(places, callback=stop_after(2)))
        for result in train_all(places) + score_all(places):
            assert not isinstance(result, BaseException), result
    files = [path for role in places.roles for path in places.settings(role).role.state.rglob("*") if path.is_file()]
    models = [model_path(places.settings(role)) for role in (1, 2)]
    trees = [tree for path in models for tree in PartialModel.load(path).trees]
    shares = [node.share for tree in trees for node in tree if isinstance(node, Leaf) and node.share is not None]
    margins = [as_words(path.read_bytes()) for path in files if path.name.startswith("margins-")]
    masks, kept = np.concatenate(drawn), np.concatenate([np.array(shares, np.int64).view(np.uint64), *margins])
    return Left(
        {str(path.relative_to(folder)): path.read_bytes() for path in [*files, *models]}
        | {"log": log.getvalue().encode()},
        Wanted(received_words(recorder)),
        Wanted(np.concatenate([masks, -masks])),
        np.concatenate([kept, -kept]),
    )


@pytest.mark.parametrize("security", ["strict", "sealed"])
def test_roles_leave_no_masked_value_mask_or_id_behind(
    security: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a training that was stopped and went on, and a scoring: in logs at DEBUG, records, checkpoints, models."""
    left = leave(tmp_path, monkeypatch, security)

    assert left.found() == {}
    assert min(len(left.masked.words), len(left.masks.words)) > 10_000
    names = " ".join(left.contents)
    for kind in ("record-0001.chain", "private.key", "attempt", "rounds", "margins", ".mpfedxgb.json", "log"):
        assert kind in names, f"no {kind} among {names}"
    assert b"going on after boosting round" in left.contents["log"]


def margins_beside_shares(places: Organisations, patch: pytest.MonkeyPatch) -> None:
    """Write the masked margins of a sealed training into a file beside the shares."""
    keep = Sealed.margin_shares_to_save

    def kept(sealed: Sealed, party: Party) -> Any:
        if sealed.margins is not None and not sealed.margins.masked.is_hidden:
            np.save(places.state(party.role) / "margins.npy", sealed.margins.masked.data)
        return keep(sealed, party)

    patch.setattr(Sealed, "margin_shares_to_save", kept)


def ids_in_the_record(places: Organisations, patch: pytest.MonkeyPatch) -> None:
    """Let an auxiliary's record say who was scored."""
    share_ids = scoring._share_ids

    def shared(party: Party, request: Any, size: int) -> list[str]:
        keys = share_ids(party, request, size)
        if party.role > 1:
            party.observer.on_milestone({"asked for": keys})
        return keys

    patch.setattr(scoring, "_share_ids", shared)


def numbers_in_a_log(what: str) -> Callable[[Organisations, pytest.MonkeyPatch], None]:
    """Return a leak that logs the masked margins of a sealed training, or an auxiliary's share of their masks."""

    def leak(places: Organisations, patch: pytest.MonkeyPatch) -> None:
        keep = Sealed.margin_shares_to_save

        def kept(sealed: Sealed, party: Party) -> Any:
            if party.role == 2 and sealed.margins is not None and not sealed.margins.masked.is_hidden:
                number = getattr(sealed.margins, what).data
                logging.getLogger("mpfedxgb.session").debug("the margins of this round: %s", number)
            return keep(sealed, party)

        patch.setattr(Sealed, "margin_shares_to_save", kept)

    return leak


INJECTED: dict[str, tuple[Callable[[Organisations, pytest.MonkeyPatch], None], str, str]] = {
    "masked margins beside shares": (margins_beside_shares, "margins.npy", MASKED),
    "scored ids in an auxiliary's record": (ids_in_the_record, "record-0001.chain", IDS),
    "masked margins in a log": (numbers_in_a_log("masked"), "log", MASKED),
    "masks of margins in a log": (numbers_in_a_log("mask"), "log", MASKS),
}
"""Per leak: how it comes in, where it must be found, and as what."""


@pytest.mark.parametrize("leak", INJECTED)
def test_what_is_left_behind_by_a_leak_is_found(leak: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the one content that has it is named, and what it has."""
    inject, name, what = INJECTED[leak]
    found = leave(tmp_path, monkeypatch, "sealed", lambda places: inject(places, monkeypatch)).found()

    assert found
    for content, kinds in found.items():
        assert content.endswith(name)
        assert kinds == {what}


WRITTEN: dict[str, Callable[[Words], bytes]] = {
    "bytes": lambda words: b"x" + words.tobytes(),
    "bytes, the highest first": lambda words: words.astype(">u8").tobytes(),
    "an array": lambda words: repr(words).encode(),
    "an array of signed numbers": lambda words: str(words.view(np.int64)).encode(),
    "a list": lambda words: str(words.tolist()).encode(),
    "hexadecimal": lambda words: f"a{words.tobytes().hex()}".encode(),
    "hexadecimal numbers": lambda words: " ".join(f"{word:#018x}" for word in words.tolist()).encode(),
    "base 64": lambda words: base64.b64encode(b"7" + words.tobytes()),
    "base 64 for addresses": lambda words: b"=" + base64.urlsafe_b64encode(words.tobytes()),
    "floats": lambda words: str(words.astype(np.float64).tolist()).encode(),
    "signed floats": lambda words: str(words.view(np.int64).astype(np.float64).tolist()).encode(),
}


@pytest.mark.parametrize("form", WRITTEN)
def test_numbers_are_found_however_they_are_written(form: str) -> None:
    """Negative control: every word is found among many others that are not wanted."""
    words = np.random.default_rng(5).integers(1 << 50, (1 << 64) - (1 << 50), (2, 40), np.uint64)

    assert len(Wanted(words[0]).inside(WRITTEN[form](words.ravel()))) >= 40
    assert Wanted(words[0]).inside(WRITTEN[form](words[1])) == []
