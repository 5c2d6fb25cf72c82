"""An alignment: participants agree on the terms, find the rows that they have in common, and keep which they are.

The coordinator hears which kind of session it is. In a star of three or more participants it then passes the public
keys of the auxiliaries' pads on; it hears no number of rows and no point that depends on an id. One that brings columns
is an auxiliary as any other here.

What stays at a participant is a file with a mark for every row, in the order of the ids, and a salted digest of all
ids, by which a table that has changed since is noticed; no id. Other columns may change, and so may the rows' order.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mpfedxgb.atomic import write_file
from mpfedxgb.data.ids import SALT_BYTES, IdRule, Ids
from mpfedxgb.data.table import Column, Table
from mpfedxgb.errors import CheckpointError, DataError, FrameError, HandshakeError, as_checkpoint_error, printable
from mpfedxgb.federation.rows import Rows
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.federation.settings.toml import shown
from mpfedxgb.intersection.group import Group, agree_on_pads
from mpfedxgb.intersection.intersect import Marks, intersect
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.ring.prg import os_entropy
from mpfedxgb.transport.frame import Array

_NAME = "alignment.json"
_FORMAT = "mpfedxgb alignment 1"
_AGAIN = "run mpfedxgb align again, at all participants"


def alignment_path(settings: RoleSettings) -> Path:
    """Return where a participant keeps which rows are in common, for its session."""
    return settings.role.state / settings.aligned_as / _NAME


def keep_alignment(settings: RoleSettings, lists: Mapping[str, Ids], found: Mapping[str, Marks]) -> None:
    """Write down what was found."""
    tables = {}
    for what, marks in found.items():
        salt = os_entropy(SALT_BYTES)
        tables[what] = {
            "rows": len(marks),
            "salt": salt.hex(),
            "digest": lists[what].digest(salt).hex(),
            "marks": base64.b64encode(np.packbits(marks).tobytes()).decode(),
        }
    path = alignment_path(settings)
    with as_checkpoint_error(f"cannot write {path}"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(path, json.dumps({"format": _FORMAT, **_fingerprint(settings), "tables": tables}, indent=1) + "\n")


def rows_in_common(settings: RoleSettings, tables: Mapping[str, Rows]) -> dict[str, Rows] | None:
    """Return the rows of every table that all participants have, as was found before; None if nothing was.

    Raises
    ------
    DataError
        If a table, the rule for ids or the participants have changed since.
    CheckpointError
        If the file is damaged.
    """
    path = alignment_path(settings)
    if not path.exists():
        return None
    kept = _read(path)
    for key, mine in _fingerprint(settings).items():
        if kept.get(key) != mine:
            raise DataError(
                f"{settings.role.name}: {key} changed since the rows were aligned; {_AGAIN}", "mismatch", key
            )
    common = {}
    for what, rows in tables.items():
        one = kept["tables"].get(what)
        if one is None:
            text = f"{settings.role.name}: the {NAMES[what]} rows were not aligned with the others; {_AGAIN}"
            raise DataError(text, "missing", "align")
        if one["rows"] != len(rows.ids) or rows.ids.digest(bytes.fromhex(one["salt"])).hex() != one["digest"]:
            text = f"the ids of the {NAMES[what]} rows have changed since they were aligned"
            raise DataError(f"{settings.role.name}: {text}; {_AGAIN}", "mismatch", "align")
        marks = np.unpackbits(np.frombuffer(base64.b64decode(one["marks"]), np.uint8), count=len(rows.ids))
        common[what] = take(rows, marks.astype(np.bool_))
    return common


def take(rows: Rows, marks: Marks) -> Rows:
    """Return some rows; categories that none of them has are forgotten, as if the file had never had them."""
    columns = tuple(_used(Column(c.name, c.values[marks], c.categories)) for c in rows.table.columns)
    return replace(
        rows,
        ids=rows.ids.take(marks),
        table=Table(rows.table.owner, columns, int(marks.sum())),
        label=None if rows.label is None else rows.label[marks],
        weight=None if rows.weight is None else rows.weight[marks],
        base_margin=None if rows.base_margin is None else rows.base_margin[:, marks],
        beside=None if rows.beside is None else rows.beside[marks],
    )


def _used(column: Column) -> Column:
    if column.categories is None:
        return column
    there = ~np.isnan(column.values)
    codes, places = np.unique(column.values[there].astype(np.int64), return_inverse=True)
    values = np.full(len(column.values), np.nan, np.float32)
    values[there] = places
    return Column(column.name, values, tuple(column.categories[code] for code in codes))


def _fingerprint(settings: RoleSettings) -> dict[str, Any]:
    return {"participants": list(settings.roster.owner_names), "[align]": asdict(settings.align.rule)}


def _read(path: Path) -> dict[str, Any]:
    with as_checkpoint_error(f"cannot read {path}"):
        content = path.read_bytes()
    try:
        kept: dict[str, Any] = json.loads(content)
        if kept["format"] != _FORMAT:
            raise ValueError("another format")
        for one in kept["tables"].values():
            size = len(base64.b64decode(one["marks"], validate=True))
            if size != -(-one["rows"] // 8) or len(bytes.fromhex(one["salt"])) < SALT_BYTES:
                raise ValueError("marks of another length")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise CheckpointError(f"{path} is damaged; {_AGAIN}", "damaged", path.name) from None
    return kept


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


class LoggedSteps(Observer):
    """Has the log say how far a comparison of ids is, at every tenth."""

    def __init__(self, role: str) -> None:
        self._role, self._last = role, ("", -1)

    def on_steps(self, what: str, done: int, of: int) -> None:
        """Say it, if there is one tenth more than before."""
        before, tenths = self._last
        if what != before or 10 * done // of > tenths:
            self._last = what, 10 * done // of
            _log.info("%s: %d%% of %s are compared", self._role, 100 * done // of, what)


def agree_on_terms(party: Party, terms: Terms | None) -> None:
    """Stop everyone if the participants read ids differently, naming what differs; no id is touched before.

    1. The active participant sends its terms. 2. Each auxiliary compares, and sends its own. 3. P_1 compares. A
    coordinator without columns has no terms and hears nothing.

    Rounds: 1. Sent: the terms, which are settings, by each auxiliary. Reveals: nothing else.
    """
    party.step("terms")
    if terms is None:
        assert not party.owner
        return
    party.count(rounds=1, hops=2)
    mine = np.frombuffer(json.dumps(terms.to_dict(), sort_keys=True).encode(), np.uint8)
    if party.is_active:
        party.send_bytes(party.roster.other_owners, [mine])
        for m in party.roster.other_owners:
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
        raise FrameError(f"{name} sent terms of an alignment that cannot be read", parameter=name) from None
    mine = terms.to_dict()
    for key in sorted({*mine, *theirs}):
        if mine.get(key) != theirs.get(key):
            where = "[data] has the tables" if key == "tables" else f"[align] {printable(key[:20])} is"
            text = (
                f"{where} {printable(shown(theirs.get(key)))} at {name} and {shown(mine.get(key))} at {party.name}; "
                "make it the same at all participants"
            )
            raise HandshakeError(text, "mismatch", key)


def find_all_common(
    party: Party, lists: Mapping[str, Ids], terms: Terms, group: Group, max_rows: int | None
) -> dict[str, Marks]:
    """Return which ids of each table all participants have (see `intersect`)."""
    pads = agree_on_pads(party, group, len(lists))
    found = {}
    for (what, ids), agreed in zip(lists.items(), pads, strict=True):
        name, most = NAMES[what], 2 * len(ids) if max_rows is None else max_rows
        marks = found[what] = intersect(party, name, ids.keys, group, agreed, terms.min_rows, most)
        party.observer.on_milestone({})
        _log.info("%s: %d of %d %s rows are in common", party.name, marks.sum(), len(ids), name)
    return found


def let_all_keep(party: Party) -> None:
    """Wait until the active participant has seen that all found the same rows; then everybody keeps what it found.

    Rounds: 1. Sent: nothing by an auxiliary, 8 bytes by P_1. Reveals: nothing.
    """
    party.step("aligned")
    party.count(rounds=1, hops=1)
    if party.is_active:
        party.send_bytes(party.roster.other_owners, [np.ones(1, np.int64)])
        return
    active = party.roster.name(ACTIVE)
    (flag,) = party.receive_bytes(ACTIVE, (np.int64, (1,)), name="end of the alignment")
    if flag[0] != 1:
        raise FrameError(f"malformed end of the alignment from {active}: got {flag[0]}, expected 1", parameter=active)
