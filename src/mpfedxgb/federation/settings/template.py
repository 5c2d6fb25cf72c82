"""The settings file of a role as text: every key with its meaning, those that may be left out as comments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mpfedxgb.federation.settings.sections import kind_of
from mpfedxgb.modes.facts import STRICT
from mpfedxgb.party.roster import ACTIVE, COORDINATOR, Roster
from mpfedxgb.schema.settings import TABLES, Key, Table
from mpfedxgb.schema.training import REQUIRED
from mpfedxgb.transport.transport import MESH, STAR, Address

ID, LABEL = "customer_id", "defaulted"
"""Columns of the sample tables that a new federation begins with."""

TRAINING: dict[str, Any] = {
    "objective": "binary:logistic",
    "n_estimators": 20,
    "max_depth": 3,
    "learning_rate": 0.2,
}
"""Parameters that suit the sample tables."""

_WIDTH = 40
"""Characters before the meaning of a key, if they are enough."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a role that listens does so, and where others find it."""

    listen: Address
    dial: Address


def settings_text(
    federation: str,
    roster: Roster,
    role: int,
    places: Mapping[int, Place],
    topology: str = STAR,
    security: str = STRICT.name,
) -> str:
    """Return a settings file for a role of a trial.

    Parameters
    ----------
    federation : str
        Its name.
    roster : Roster
    role : int
        The role's number.
    places : mapping of int to Place
        Of those who listen.
    topology : str
        How participants are connected.
    security : str
        What trainings may reveal.
    """
    name, who = roster.name(role), kind_of(roster, role)
    listeners = "Only the coordinator and the active participant" if topology == STAR else "All but the last role"
    words = {"role": name, "coordinator": roster.coordinator, "active": roster.name(ACTIVE), "who": listeners}
    given = _given(federation, roster, role, places, topology, security)
    blocks = [
        f'# Settings of {name} in the federation "{federation}". Relative paths begin at the folder of this file.\n'
        "# Keys behind a # are optional and show their defaults, or examples where it says so.\n"
    ]
    for table in TABLES.values():
        if who in table.who:
            title = [f"# {line}" for line in table.title.format(**words).splitlines()]
            lines = [line for key in table.keys if who in key.who for line in _lines(table, key, given, words)]
            blocks.append("\n".join([*title, f"[{table.name}]", *lines]) + "\n")
    return "\n".join(blocks)


def _given(
    federation: str, roster: Roster, role: int, places: Mapping[int, Place], topology: str, security: str
) -> dict[tuple[str, str], Any]:
    """Return what the federation and the sample tables say, by table and key; what is None stands in no file."""
    network: dict[str, Any] = {} if topology == STAR else {"topology": topology}
    network |= {"listen": str(places[role].listen) if role in places else None}
    network |= {"coordinator": str(places[COORDINATOR].dial), "active": str(places[ACTIVE].dial)}
    earlier = [m for m in roster.auxiliaries if m < role]
    network["peers"] = {roster.name(m): str(places[m].dial) if topology == MESH else None for m in earlier}
    tables: dict[str, dict[str, Any]] = {
        "federation": {
            "name": federation,
            "participants": list(roster.owner_names),
            "coordinator": roster.coordinator,
        },
        "role": {"name": roster.name(role)},
        "network": network,
        "training": TRAINING if security == STRICT.name else TRAINING | {"security": security},
        "data": {"id": ID},
        "label": {"column": LABEL},
    }
    return {(table, key): value for table, keys in tables.items() for key, value in keys.items()}


def _lines(table: Table, key: Key, given: Mapping[tuple[str, str], Any], words: Mapping[str, str]) -> Iterator[str]:
    """Yield the line of a key with its value and meaning; of peers one for each, and none of what is not there."""
    if key.name == "peers":
        for peer, address in given[table.name, key.name].items():
            meaning = key.help.format(peer=peer)
            example = f"{peer}.example.org:7703"
            yield _line(f"peers.{peer}", address or example, meaning, address is None, address is None)
    elif (table.name, key.name) in given:
        if (value := given[table.name, key.name]) is not None:
            yield _line(key.name, value, key.help.format(**words), optional=False)
    else:
        is_example = key.example is not None
        value = key.example if is_example else key.default
        value = value.format(**words) if isinstance(value, str) else value
        optional = not (key.sample or (key.default is REQUIRED and table.name != "workers"))
        yield _line(key.name, value, key.help.format(**words), optional, is_example and optional)


def _toml(value: Any) -> str:
    """Return a value as TOML, which writes tables in its own way, and everything else as JSON does."""
    if isinstance(value, dict):
        inside = ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    return json.dumps(value, ensure_ascii=False)


def _line(key: str, value: Any, meaning: str, optional: bool, is_example: bool = False) -> str:
    """Return a line of TOML."""
    text = f"{'# ' if optional else ''}{key} = {_toml(value)}"
    return f"{text.ljust(_WIDTH)}  # {'example: ' if is_example else ''}{meaning}"
