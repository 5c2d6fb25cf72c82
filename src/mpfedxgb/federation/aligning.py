"""Who says what when participants find the rows that they have in common: agree on the terms, intersect, then keep.

The coordinator hears which kind of session it is. In a star of three or more participants it then passes the public
keys of the auxiliaries' pads on; it hears no number of rows and no point that depends on an id.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import numpy as np

from mpfedxgb.data.ids import IdRule, Ids
from mpfedxgb.errors import FrameError, HandshakeError, printable
from mpfedxgb.federation.settings.toml import shown
from mpfedxgb.intersection.group import Group
from mpfedxgb.intersection.intersect import Marks, Progress, intersect
from mpfedxgb.intersection.pads import agree_on_pads
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.ring.kernels import U8
from mpfedxgb.transport.frame import Array

NAMES = {"train": "training", "evaluate": "evaluation"}
"""Which tables are aligned, by their key in [data], and what messages call their rows."""

_MOST_TERMS = 4096
_log = logging.getLogger("mpfedxgb.session")


@dataclass(frozen=True, slots=True)
class Terms:
    """What all participants have to say alike before anything that depends on an id is sent."""

    rule: IdRule
    min_rows: int
    tables: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the terms by the names that settings have for them."""
        return {**asdict(self.rule), "min_rows": self.min_rows, "tables": list(self.tables)}


@dataclass(frozen=True, slots=True)
class Tools:
    """What a participant computes with, whom it tells how far it is, and with how long a list it compares its own.

    `max_rows` is its own business: twice its own list if None.
    """

    group: Group = field(repr=False)
    on_progress: Progress | None = field(default=None, repr=False)
    max_rows: int | None = None


def agree_on_terms(party: Party, terms: Terms | None) -> None:
    """Stop everyone where the participants read ids differently, naming what differs; no id is touched before.

    1. The active participant sends its terms. 2. Each auxiliary compares, and sends its own. 3. P_1 compares. The
    coordinator, which has no terms, hears nothing.

    Rounds: 1. Sent: the terms, which are settings, by each auxiliary. Reveals: nothing else.
    """
    party.step("terms")
    if terms is None:
        assert party.is_coordinator
        return
    party.count(rounds=1, hops=2)
    mine = np.frombuffer(json.dumps(terms.to_dict(), sort_keys=True).encode(), np.uint8)
    if party.is_active:
        party.send_bytes(party.others, [mine])
        for m in party.others:
            _compare(party, m, party.receive_bytes(m), terms)
        return
    _compare(party, ACTIVE, party.receive_bytes(ACTIVE), terms)
    party.send_bytes([ACTIVE], [mine])


def _compare(party: Party, peer: int, arrays: tuple[Array, ...], terms: Terms) -> None:
    name = party.roster.name(peer)
    try:
        if len(arrays) != 1 or arrays[0].nbytes > _MOST_TERMS:
            raise ValueError("no terms")
        theirs = json.loads(arrays[0].tobytes())
        if not isinstance(theirs, dict):
            raise ValueError("no terms")
    except (ValueError, RecursionError):
        raise FrameError(f"{name} sent terms of an alignment that cannot be read") from None
    mine = terms.to_dict()
    for key in sorted({*mine, *theirs}):
        if mine.get(key) != theirs.get(key):
            where = "[data] has the tables" if key == "tables" else f"[align] {printable(key[:20])} is"
            raise HandshakeError(
                f"{where} {printable(shown(theirs.get(key)))} at {name} and {shown(mine.get(key))} at {party.name}; "
                "make it the same at all participants"
            )


def find_all_common(party: Party, lists: Mapping[str, Ids], terms: Terms, tools: Tools) -> dict[str, Marks]:
    """Return which ids of each table all participants have."""
    pads = agree_on_pads(party, tools.group, len(lists))
    return {
        what: _find_common(party, what, ids, agreed, terms, tools)
        for (what, ids), agreed in zip(lists.items(), pads, strict=True)
    }


def _find_common(party: Party, what: str, ids: Ids, agreed: U8 | None, terms: Terms, tools: Tools) -> Marks:
    """Return which ids of one table all participants have (see `intersect`)."""
    name, tenths = NAMES[what], -1

    def progress(steps: int, of: int) -> None:
        nonlocal tenths
        if tools.on_progress is not None:  # a bar, which lines would tear
            tools.on_progress(steps, of)
        elif 10 * steps // of > tenths:
            tenths = 10 * steps // of
            _log.info("%s: %d%% of %d %s rows are compared", party.name, 100 * steps // of, len(ids), name)

    most = 2 * len(ids) if tools.max_rows is None else tools.max_rows
    marks = intersect(party, name, ids.keys, tools.group, agreed, terms.min_rows, most, progress)
    party.on_milestone({})
    _log.info("%s: %d of %d %s rows are in common", party.name, marks.sum(), len(ids), name)
    return marks


def let_all_keep(party: Party) -> None:
    """Wait until the active participant has seen that all found the same rows; then everybody keeps what it found.

    Rounds: 1. Sent: nothing by an auxiliary, 8 bytes by P_1. Reveals: nothing.
    """
    party.step("aligned")
    party.count(rounds=1, hops=1)
    if party.is_active:
        party.send_bytes(party.others, [np.ones(1, np.int64)])
        return
    active = party.roster.name(ACTIVE)
    (told,) = party.receive_bytes(ACTIVE, (np.int64, (1,)), name="end of the alignment")
    if told[0] != 1:
        raise FrameError(f"malformed end of the alignment from {active}: got {told[0]}, expected 1")
