"""Typed values from a TOML file; whatever is wrong is refused with file, table, key, value and remedy."""

from __future__ import annotations

import difflib
import json
import math
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mpfedxgb.errors import SettingsError
from mpfedxgb.transport.transport import NAME, parse_address

LARGEST_FILE = 1 << 20
"""Bytes of the largest settings file that is read; a real one has a few thousand."""


_LARGEST_INTEGER = 1 << 63
_DEEPEST = 8
_SHOWN = 60
_LISTED = 30

_T = TypeVar("_T")


class _Required:
    """Marks a key that has no default."""


REQUIRED = _Required()


class Section:
    """One table of a settings file: hands out its values one by one, checked, and refuses keys nobody knows."""

    def __init__(
        self,
        place: str,
        name: str,
        content: Any,
        known: Collection[str],
        folder: Path,
        refused: Mapping[str, str] | None = None,
    ) -> None:
        self.place, self.name, self.folder = place, name, folder
        if isinstance(content, list):
            raise SettingsError(f"{place}: {name} is a list; write [{name}] once, with single brackets")
        if not isinstance(content, dict):
            raise SettingsError(f"{place}: {name} = {shown(content)} is not a table; write [{name}] and keys below it")
        self.content: dict[str, Any] = content
        for key in content:
            if key in (refused or {}):
                raise SettingsError(f"{place}: [{name}] {key} is refused: {(refused or {})[key]}")
            if key not in known:
                hint = suggestion(key, known, "its keys are")
                raise SettingsError(f"{place}: [{name}] has no key {shown(key)}{hint}")

    def __contains__(self, key: str) -> bool:
        return key in self.content

    def error(self, key: str, problem: str, remedy: str = "", show: bool = True) -> SettingsError:
        """Return an error that names file, table, key and value; the remedy follows after a semicolon."""
        value = f" = {shown(self.content[key])}" if show and key in self.content else ""
        return SettingsError(f"{self.place}: [{self.name}] {key}{value} {problem}{'; ' if remedy else ''}{remedy}")

    def _get(self, key: str, default: _T | _Required, kind: str, *types: type) -> Any:
        if key not in self.content:
            if isinstance(default, _Required):
                raise self.error(key, "is missing", f"add it under [{self.name}]")
            return default
        value = self.content[key]
        if value is None:
            raise self.error(key, "has no value", f"give {kind} or leave the key out", show=False)
        if type(value) not in types:  # in Python True is an integer, in a settings file it is not
            raise self.error(key, f"is not {kind}", f"give {kind}")
        return value

    def text(self, key: str, default: str | _Required | None = REQUIRED) -> Any:
        """Return a text of 1 to 1000 printable characters."""
        value = self._get(key, default, "a text in quotes", str)
        if key in self.content and not (0 < len(value) <= 1000 and value.isprintable()):
            raise self.error(key, "is empty, too long or has control characters", "give a plain text")
        return value

    def name_of(self, key: str, default: str | _Required = REQUIRED) -> str:
        """Return a name that can stand in a certificate."""
        value: str = self._get(key, default, "a name in quotes", str)
        self.check_name(key, value)
        return value

    def check_name(self, key: str, value: str) -> None:
        """Refuse what cannot be the name in a certificate."""
        if not NAME.fullmatch(value):
            raise self.error(
                key,
                "is not a name",
                "names stand in certificates and have 1 to 63 of the characters a-z, 0-9 and -, and no - at their ends",
            )

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        """Return one of a few words."""
        value: str = self._get(key, default, "a word in quotes", str)
        if value not in choices:
            raise self.error(key, f"is not known{suggestion(value, choices, 'it is one of')}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value: bool = self._get(key, default, "true or false, without quotes", bool)
        return value

    def integer(self, key: str, low: int, high: int, default: int | None) -> Any:
        """Return a whole number within bounds."""
        value = self._get(key, default, "a whole number", int)
        if key in self.content and not low <= value <= high:
            raise self.error(key, "is out of range", f"it is from {low} to {high}")
        return value

    def number(self, key: str, low: float, high: float, default: float | None, above: bool = False) -> Any:
        """Return a number within bounds; `above` leaves the lower bound itself out."""
        value = self._get(key, default, "a number", int, float)
        if key in self.content and not (low <= value <= high and not (above and value == low)):
            least = "above" if above else "at least"
            raise self.error(key, "is out of range", f"it is {least} {low:,.12g} and at most {high:,.12g}")
        return value if value is None else float(value)

    def texts(self, key: str, default: tuple[str, ...] | _Required | None = ()) -> Any:
        """Return a list of different texts as a tuple."""
        values = self._get(key, default, 'a list of texts such as ["a", "b"]', list)
        if key not in self.content:
            return values
        for value in values:
            if not isinstance(value, str) or not value:
                raise self.error(key, f"holds {shown(value)}, which is not a text", "give texts in quotes")
        repeated = sorted({value for value in values if values.count(value) > 1})
        if repeated:
            raise self.error(key, f"names {shown(repeated[0])} twice", "name each once")
        return tuple(values)

    def path(self, key: str, default: str | _Required | None = REQUIRED) -> Any:
        """Return a path; relative ones begin at the settings file's folder, ~ is the home folder."""
        value = self._get(key, default, "a path in quotes", str)
        if value is None:
            return None
        fits = value.strip() and value.isprintable() and len(value.encode()) <= 4000
        if not fits or any(len(part.encode()) > 255 for part in Path(value).parts):
            raise self.error(key, "is not a path", "give the path of a file or folder in quotes")
        try:
            return self.folder / Path(value).expanduser()
        except RuntimeError:
            raise self.error(key, "begins with a home folder that is not there", "write the path out") from None

    def address(self, key: str, default: _Required | None = REQUIRED) -> Any:
        """Return an address written host:port."""
        value = self._get(key, default, 'an address such as "host:7701"', str)
        if value is None:
            return None
        try:
            return parse_address(value)
        except ValueError as error:
            raise self.error(key, f"is not an address: {error}") from None

    def table(self, key: str, known: Collection[str], refused: Mapping[str, str] | None = None) -> Section:
        """Return a table inside this one; an empty one if it is not there."""
        content = self._get(key, {}, f"a table; write [{self.name}.{key}] and keys below it", dict)
        return Section(self.place, f"{self.name}.{key}", content, known, self.folder, refused)


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; whatever cannot be read is a SettingsError that names file and place."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise SettingsError(f"there is no settings file {path}; mpfedxgb init writes one for every role") from None
    except IsADirectoryError:
        raise SettingsError(f"{path} is a folder; give the settings file (.toml) inside it") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"cannot read the settings file {path}: {reason}") from None
    if len(raw) > LARGEST_FILE:
        raise SettingsError(f"{path} is larger than {LARGEST_FILE >> 20} MiB; is it a settings file?")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{path}: line {line} is not UTF-8 text; save the file as UTF-8") from None
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise SettingsError(f"{path} is not TOML: brackets are nested too deeply") from None
    except ValueError as error:  # also of integers with thousands of digits
        raise SettingsError(f"{path} is not TOML: {error}; strings need quotes, keys stand below a [table]") from None


def check_values(place: str, content: dict[str, Any]) -> None:
    """Refuse, anywhere in a file, numbers beyond 64 bits, numbers that are none, and nesting without end."""
    todo: list[tuple[str, Any, int]] = [(str(key), value, 1) for key, value in content.items()]
    while todo:
        key, value, depth = todo.pop()
        if depth > _DEEPEST:
            raise SettingsError(f"{place}: {shorten(key)} is nested too deeply; tables hold plain keys and lists")
        if isinstance(value, dict):
            outer = f"[{key}] " if depth == 1 else f"{key}."
            todo += [(f"{outer}{inner}", v, depth + 1) for inner, v in value.items()]
        elif isinstance(value, list):
            todo += [(key, v, depth + 1) for v in value]
        elif isinstance(value, int) and not -_LARGEST_INTEGER <= value < _LARGEST_INTEGER:
            raise SettingsError(f"{place}: {shorten(key)} is a number beyond 64 bits; give a smaller one")
        elif isinstance(value, float) and not math.isfinite(value):
            raise SettingsError(f"{place}: {shorten(key)} = {value} is not a finite number; give one")


def suggestion(word: str, known: Collection[str], otherwise: str) -> str:
    """Return what was probably meant, or else the list of what there is, as the rest of a message."""
    close = difflib.get_close_matches(str(word)[:100].lower(), known, 1)
    some = ", ".join(list(known)[:_LISTED]) + (", ..." if len(known) > _LISTED else "")
    return f"; did you mean {close[0]}?" if close else f"; {otherwise} {some}"


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
