"""Typed values from a TOML file; one error names everything wrong, with file, table, key, value and remedy."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mpfedxgb.config import link_of
from mpfedxgb.errors import Code, SettingsError
from mpfedxgb.schema.settings import Table
from mpfedxgb.schema.training import NAME as NAME_KIND
from mpfedxgb.schema.training import REQUIRED, TEXT, Kind, suggestion
from mpfedxgb.transport.transport import NAME, parse_address

LARGEST_FILE = 1 << 20
"""Bytes of the largest settings file that is read; a real one has a few thousand."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_LARGEST_INTEGER = 1 << 63
_DEEPEST = 8
_SHOWN = 60


class Section:
    """One table of a settings file: `values` by key, checked, converted, with defaults; `faults`, all that is wrong.

    Without content, a table has its defaults. `who` is the role's kind, if it is known.
    """

    def __init__(self, table: Table, content: Any, folder: Path, role: str = "", who: str | None = None) -> None:
        self.table, self.folder, self.role = table, folder, role
        self.content: dict[str, Any] = content if isinstance(content, dict) else {}
        self.values: dict[str, Any] = {}
        self.faults: list[SettingsError] = []
        name = table.name
        if isinstance(content, list):
            self._wrong(f"{name} is a list; write [{name}] once, with single brackets")
        elif not isinstance(content, dict):
            self._wrong(f"{name} = {shown(content)} is not a table; write [{name}] and keys below it")
        known = [key.name for key in table.keys]
        for key in (key for key, value in self.content.items() if not table.ignored(key, value)):
            if key in table.refused:
                self.faults.append(
                    SettingsError(f"[{name}] {key} is refused: {table.refused[key]}", "refused", self._dotted(key))
                )
            elif key not in known:
                hint = suggestion(key, known, "its keys are")
                text = f"[{name}] has no key {shown(key)}; {hint}"
                self.faults.append(SettingsError(text, "unknown", self._dotted(key)))
        self._read_keys(who, table.optional and not self.content)

    def __contains__(self, key: str) -> bool:
        return key in self.content

    def _wrong(self, text: str) -> None:
        self.faults.append(SettingsError(text, "type", self.table.name))

    def _dotted(self, key: str) -> str:
        return f"{self.table.name}.{key}"

    def error(self, key: str, problem: str, remedy: str = "", code: Code = "value", show: bool = True) -> SettingsError:
        """Return an error that names table, key and value; the remedy follows after a semicolon."""
        value = f" = {shown(self.content[key])}" if show and key in self.content else ""
        text = f"[{self.table.name}] {key}{value} {problem}{'; ' if remedy else ''}{remedy}"
        return SettingsError(text, code, self._dotted(key), self.content.get(key) if show else None)

    def misplaced(self, key: str, why: str) -> SettingsError:
        """Return an error about a key that another role, or another topology, may have."""
        return self.error(key, "does not belong here", f"{why}; take the key out", "place")

    def check(self, faults: Iterable[SettingsError]) -> None:
        """Keep what is found beyond single keys."""
        self.faults += faults

    def _read_keys(self, who: str | None, is_left_out: bool) -> None:
        for key in self.table.keys:
            name, default = key.name, key.default
            self.values[name] = None
            if name not in self.content:
                if default is REQUIRED and not is_left_out:
                    self.faults.append(self.error(name, "is missing", f"add it under [{self.table.name}]", "missing"))
                elif default is not REQUIRED:
                    self._convert(name, key.kind, default)
            elif who is not None and who not in key.who:
                self.faults.append(self.misplaced(name, key.others))
            else:
                self._read(name, key.kind)

    def _read(self, key: str, kind: Kind) -> None:
        value = self.content[key]
        is_open = kind.name != "variable"  # where the name of a variable should be, there may be a passphrase
        if value is None:
            remedy = f"give {kind.words} or leave the key out"
            self.faults.append(self.error(key, "has no value", remedy, "type", show=False))
        elif fault := kind.fault(value):
            is_table = kind.name == "table"
            remedy = f"write [{self._dotted(key)}] and keys below it" if is_table else fault.remedy
            self.faults.append(self.error(key, fault.problem, remedy, fault.code, is_open))
        else:
            try:
                self._convert(key, kind, value)
            except ValueError as error:
                self.faults.append(self.error(key, str(error), show=is_open))

    def _convert(self, key: str, kind: Kind, value: Any) -> None:
        self.values[key] = None if value is None else convert(kind, value, self)


def convert(kind: Kind, value: Any, section: Section) -> Any:
    """Return a value of the right kind as the program has it; raise ValueError with problem and remedy."""
    match kind.name:
        case "text" | "link" if not (0 < len(value) <= 1000 and value.isprintable()):
            raise ValueError("is empty, too long or has control characters; give a plain text")
        case "variable" if not _VARIABLE.fullmatch(value):
            raise ValueError(
                f"is not {kind.words}; it holds the variable's name, such as BANK_KEY_PASSPHRASE, never the passphrase"
            )
        case "name" if not NAME.fullmatch(value):
            raise ValueError(
                "is not a name; names stand in certificates and have 1 to 63 of the characters a-z, 0-9 and -, and no "
                "- at their ends"
            )
        case "texts" | "directions":
            return _texts(value) if kind.name == "texts" else _directions(value)
        case "names":
            return tuple(convert(NAME_KIND, name, section) for name in _texts(value))
        case "text or texts":
            return (convert(TEXT, value, section),) if isinstance(value, str) else _texts(value)
        case "path":
            return _path(value, section)
        case "address" | "link":
            try:
                return parse_address(value) if kind.name == "address" else link_of(value)
            except ValueError as error:
                raise ValueError(f"is not {kind.words.partition(' such as')[0]}: {error}") from None
        case "number" if isinstance(value, list):
            return tuple(convert(kind, one, section) for one in value)
        case "number":
            return float(value) + 0.0  # 1 and 1.0, 0.0 and -0.0 have one digest
    return value


def _directions(values: Mapping[str, Any]) -> dict[str, int]:
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 1:
            raise ValueError(f"says {shown(value)} of {shown(name)}; a direction is 1, -1 or 0")
    return {name: value for name, value in values.items() if value}


def _texts(values: Any) -> tuple[str, ...]:
    for value in values:
        if not isinstance(value, str) or not value:
            raise ValueError(f"holds {shown(value)}, which is not a text; give texts in quotes")
    repeated = sorted({value for value in values if values.count(value) > 1})
    if repeated:
        raise ValueError(f"names {shown(repeated[0])} twice; name each once")
    return tuple(values)


def _path(value: str, section: Section) -> Path:
    """Return a path; relative ones begin at the settings file's folder, ~ is the home folder."""
    value = value.replace("{role}", section.role)
    fits = value.strip() and value.isprintable() and len(value.encode()) <= 4000
    if not fits or any(len(part.encode()) > 255 for part in Path(value).parts):
        raise ValueError("is not a path; give the path of a file or folder in quotes")
    try:
        return section.folder / Path(value).expanduser()
    except RuntimeError:
        raise ValueError("begins with a home folder that is not there; write the path out") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; what cannot be read is a SettingsError that names file and place."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise SettingsError(
            f"there is no settings file {path}; mpfedxgb init writes one for every role", "missing", path.name
        ) from None
    except IsADirectoryError:
        raise SettingsError(
            f"{path} is a folder; give the settings file (.toml) inside it", "type", path.name
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"cannot read the settings file {path}: {reason}", "file", path.name) from None
    if len(raw) > LARGEST_FILE:
        raise SettingsError(
            f"{path} is larger than {LARGEST_FILE >> 20} MiB; is it a settings file?", "range", path.name
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise SettingsError(
            f"{path}: line {line} is not UTF-8 text; save the file as UTF-8", "damaged", path.name, line
        ) from None
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise SettingsError(f"{path} is not TOML: brackets are nested too deeply", "damaged", path.name) from None
    except ValueError as error:  # also of integers with thousands of digits
        raise SettingsError(
            f"{path} is not TOML: {error}; strings need quotes, keys stand below a [table]", "damaged", path.name
        ) from None


def check_values(place: str, content: dict[str, Any]) -> None:
    """Refuse, anywhere in a file, numbers beyond 64 bits, numbers that are none, and nesting without end."""
    todo: list[tuple[str, Any, int]] = [(str(key), value, 1) for key, value in content.items()]
    while todo:
        key, value, depth = todo.pop()
        if depth > _DEEPEST:
            raise SettingsError(
                f"{place}: {shorten(key)} is nested too deeply; tables hold plain keys and lists", "range", key
            )
        if isinstance(value, dict):
            outer = f"[{key}] " if depth == 1 else f"{key}."
            todo += [(f"{outer}{inner}", v, depth + 1) for inner, v in value.items()]
        elif isinstance(value, list):
            todo += [(key, v, depth + 1) for v in value]
        elif isinstance(value, int) and not -_LARGEST_INTEGER <= value < _LARGEST_INTEGER:
            raise SettingsError(f"{place}: {shorten(key)} is a number beyond 64 bits; give a smaller one", "range", key)
        elif isinstance(value, float) and not math.isfinite(value):
            raise SettingsError(f"{place}: {shorten(key)} = {value} is not a finite number; give one", "range", key)


def shown(value: Any) -> str:
    """Return a value as it stands in a settings file, shortened."""
    if isinstance(value, (bool, str)):
        return shorten(json.dumps(value, ensure_ascii=not str(value).isprintable()))
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return shorten("[" + ", ".join(shown(v) for v in value[:_SHOWN]) + "]")
    return shorten(str(value))


def shorten(text: str) -> str:
    """Return a text that fits into a message."""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
