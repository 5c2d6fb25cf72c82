"""What values may be, and what is wrong with one: the words in which parameters and settings keys are declared."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

LARGEST = (1 << 63) - 1
"""No integer is larger than this one, nor smaller than its opposite."""


class _Required:
    """Marks what has no default."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = _Required()


class Fault(NamedTuple):
    """What is wrong with a value: a word for programs; for people the rest of a sentence, and what to do."""

    code: str
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of values: its name, its Python type, and what messages ask for.

    A module above checks what a kind leaves open: names, addresses, paths, links, objectives, metrics.
    """

    name: str
    python: str
    words: str
    types: tuple[type, ...] = (str,)
    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    choices: tuple[str, ...] = ()

    @property
    def bounds(self) -> str:
        """What values have to be, in words."""
        if self.name == "integer" and self.low > -LARGEST:
            return (
                f"an integer of {self.low:,} or more"
                if self.high == LARGEST
                else f"an integer from {self.low:,} to {self.high:,}"
            )
        if self.name == "number" and self.low > -math.inf:
            least = f"{'above' if self.above else 'at least'} {self.low:,.12g}"
            return least if self.high == math.inf else f"{least} and at most {self.high:,.12g}"
        return f"one of {', '.join(self.choices)}" if self.choices else self.words

    def fault(self, value: Any) -> Fault | None:
        """Return what is wrong with a value, if anything; True is no number, here as in a settings file."""
        if self.choices:
            fits = isinstance(value, str) and value in self.choices
            return None if fits else Fault("choice", "is not known", f"it is {self.bounds}")
        if not isinstance(value, self.types) or (isinstance(value, bool) and self.types[0] in (int, float)):
            asked = self.bounds if self.name == "integer" else self.words
            bounds = f" that is {self.bounds}" if self.name == "number" and self.bounds != self.words else ""
            return Fault("type", f"is not {self.words}", f"give {asked}{bounds}")
        if isinstance(value, (int, float)) and not self._holds(value):
            return Fault("range", "is out of range", f"it is {self.bounds}")
        return None

    def _holds(self, number: float) -> bool:
        return math.isfinite(number) and self.low <= number <= self.high and not (self.above and number == self.low)


def integer(low: int = -LARGEST, high: int = LARGEST) -> Kind:
    """Return the integers within bounds."""
    return Kind("integer", "int", "an integer", (int,), low, high)


def number(low: float = -math.inf, high: float = math.inf, *, above: bool = False) -> Kind:
    """Return the finite numbers within bounds; `above` leaves the lower bound itself out."""
    return Kind("number", "float", "a number", (int, float), low, high, above)


def choice(*choices: str) -> Kind:
    """Return one of a few words."""
    return Kind("choice", "str", "a word in quotes", choices=choices)


FLAG = Kind("flag", "bool", "true or false, without quotes", (bool,))
TEXT = Kind("text", "str", "a text in quotes")
TEXTS = Kind("texts", "tuple[str, ...]", 'a list of texts such as ["a", "b"]', (list,))
TEXT_OR_TEXTS = Kind("text or texts", "tuple[str, ...]", "a text or a list of texts", (str, list))
VARIABLE = Kind("variable", "str", "the name of an environment variable")
PATH = Kind("path", "Path", "a path in quotes")
NAME = Kind("name", "str", "a name in quotes")
NAMES = Kind("names", "tuple[str, ...]", 'a list of names such as ["a", "b"]', (list,))
ADDRESS = Kind("address", "Address", 'an address such as "host:7701"')
LINK = Kind("link", "Link", "a link in quotes")
TABLE = Kind("table", "Mapping[str, Address]", "a table", (dict,))
ANYTHING = Kind("anything", "Any", "a value", (object,))
"""The module that uses it checks it: an objective, a metric, tables, a folder, a size of memory."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What parameters and settings keys have in common."""

    name: str
    kind: Kind
    default: Any
    help: str
    """A phrase for one line: help of an option, comment of a template."""
    more: str = field(default="", kw_only=True)
    """What pages and docstrings add, in sentences."""
    annotation: str = field(default="", kw_only=True)
    """The type in Python, if the kind does not say it."""

    @property
    def python(self) -> str:
        """The type of the value in Python."""
        optional = " | None" if self.default is None else ""
        return self.annotation or f"{self.kind.python}{optional}"

    def fault(self, value: Any) -> Fault | None:
        """Return what is wrong with a value, if anything; None is one if it is the default."""
        return None if value is None and self.default is None else self.kind.fault(value)


def suggestion(word: object, known: Collection[str], otherwise: str) -> str:
    """Return what was probably meant, or else the list of what there is."""
    close = difflib.get_close_matches(str(word)[:100].lower(), known, 1)
    some = ", ".join(list(known)[:30]) + (", ..." if len(known) > 30 else "")
    return f"did you mean {close[0]}?" if close else f"{otherwise} {some}"
