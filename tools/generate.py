"""Write what follows from declarations between marks in their files (`make generate`); `--check` only compares."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from mpfedxgb.modes.facts import FOR_REAL_TABLES
from mpfedxgb.party.entries import Entry, Run
from mpfedxgb.schema.settings import ALL, TABLES, Table
from mpfedxgb.schema.training import BY_NAME, IGNORED, PARAMETERS, REFUSED, REQUIRED, SHARED, Kind, Parameter

ROOT = Path(__file__).parents[1]

END = {".py": "# end of generated\n", ".md": "<!-- end of generated -->\n"}
_WIDTH = 120


class Generated(NamedTuple):
    """A part of a file, and what writes it: the line before it, the lines, and the line after it."""

    path: str
    name: str
    lines: Callable[[], Iterator[str]]
    begin: str = ""
    end: str = ""

    def put_into(self, text: str) -> str:
        """Return a file's text with this part as it has to be."""
        suffix = Path(self.path).suffix
        mark = {".py": f"# generated: {self.name}\n", ".md": f"<!-- generated: {self.name} -->\n"}[suffix]
        head, begin, rest = text.partition(self.begin or mark)
        _, end, tail = rest.partition(self.end or END[suffix])
        if not begin or not end:
            raise ValueError(f"{self.path} has no place for {self.name!r}; it begins with {self.begin or mark!r}")
        apart = [""] if suffix == ".md" else []  # a table stands by itself, also beside a mark
        return "".join([head, begin, *(f"{line}\n" for line in [*apart, *self.lines(), *apart]), end, tail])


def shared_fields() -> Iterator[str]:
    """Yield the fields of TrainParams."""
    for p in SHARED.values():
        default = p.default if p.shared_default is None else p.shared_default
        yield f"    {p.name}: {'str' if p.name == 'objective' else p.python} = {_python(default)}"


def section_fields(table: Table) -> Iterator[str]:
    """Yield the fields of a table's class."""
    yield from (f"    {key.name}: {key.python}" for key in table.keys)


def signature() -> Iterator[str]:
    """Yield the parameters of the estimators' constructor."""
    for p in _of_estimators():
        why = "  # noqa: A002 # what the settings file of a federation calls it" if p.name == "id" else ""
        yield f"        {p.name}: {p.python} = {_python(p.default)},{why}"


def attributes() -> Iterator[str]:
    """Yield what the constructor does."""
    yield from (f"        self.{p.name} = {p.name}" for p in _of_estimators())


def docstring() -> Iterator[str]:
    """Yield the parameters in the estimators' docstring."""
    for p in _of_estimators():
        kind = p.accepts or (_values(p.kind, '"') if p.kind.choices else p.python.removesuffix(" | None"))
        yield f"    {p.name} : {kind}{' or None' if p.default is None else f', default {_python(p.default)}'}"
        text, indent = f"{_sentence(p.help)} {p.more}".rstrip(), " " * 8
        yield from textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)


class Offer(NamedTuple):
    """An option of a command that is a parameter; with a default, choices or a second name of the command's own."""

    name: str
    default: Any = None
    choices: tuple[str, ...] = ()
    second: str = ""

    @property
    def option(self) -> str:
        """The option's name, as Python has it."""
        return BY_NAME[self.name].option or self.name


_SECURITY = Offer("security", choices=FOR_REAL_TABLES)
OFFERS = {
    "simulate": tuple(Offer(p.name) for p in PARAMETERS if p.offered),
    "plan": (
        Offer("n_estimators"),
        Offer("num_parallel_tree"),
        Offer("max_depth", second="--depth"),
        Offer("max_bin", second="--bins"),
        Offer("min_child_weight"),
        Offer("colsample_bytree"),
        Offer("colsample_bylevel"),
        Offer("colsample_bynode"),
        Offer("reg_alpha"),
        Offer("max_delta_step"),
        Offer("constrained"),
        Offer("first_layer_mask"),
        _SECURITY,
        Offer("link"),
        Offer("topology"),
    ),
    "demo": (Offer("n_estimators", default=20), Offer("max_depth"), _SECURITY),
    "init": (Offer("topology"), _SECURITY),
}
"""The options of each command that are parameters."""

_OF_SESSIONS = ("link", "topology")
"""Parameters that TrainParams does not have."""


def options(command: str) -> Iterator[str]:
    """Yield the options of a command that are parameters."""
    for offer in OFFERS[command]:
        p = BY_NAME[offer.name]
        kind = "str" if p.kind.name in ("anything", "choice") else p.python.partition(" | Sequence")[0]
        choices = offer.choices or p.kind.choices
        phrase = p.help.partition(";")[0] if offer.choices else p.help  # the rest speaks of other choices
        known = f" One of {', '.join(choices)}." if choices and choices[0] not in phrase else ""
        more = f", autocompletion=lambda: {list(choices)}" if choices else ""
        names = f'"--{offer.option.replace("_", "-")}", "{offer.second}", ' if offer.second else ""
        lines = textwrap.wrap(_sentence(phrase).replace("`", "") + known, 85, drop_whitespace=False)
        text = " ".join(map(_python, lines))  # adjacent literals, which ruff joins if they fit into a line
        default = _python(p.default if offer.default is None else offer.default)
        yield f"    {offer.option}: Annotated[{kind}, typer.Option({names}help={text}{more})] = {default},"


def arguments() -> Iterator[str]:
    """Yield what `mpfedxgb simulate` passes on to an estimator."""
    yield from (f"        {offer.name}={offer.option}," for offer in OFFERS["simulate"])


def planned() -> Iterator[str]:
    """Yield what `mpfedxgb plan` passes on to a training's parameters."""
    yield from (f'        "{o.name}": {o.option},' for o in OFFERS["plan"] if o.name not in _OF_SESSIONS)


def page_of_parameters(*, of_xgboost: bool) -> Iterator[str]:
    """Yield a table of docs/parameters.md."""
    last = "difference from XGBoost, and why"
    notes = _notes("docs/parameters.md", last)
    yield f"| parameter | values (default) | meaning |{f' {last} |' * of_xgboost}"
    yield f"|---|---|---|{'---|' * of_xgboost}"
    for p in _of_estimators():
        if p.xgboost == of_xgboost:
            values = p.accepts or _values(p.kind, "`") or p.python.removesuffix(" | None")
            default = "" if p.default is None else f" (`{_python(p.default)}`)"
            yield _row(f"`{p.name}`", values + default, _meaning(p), *[notes.get(f"`{p.name}`", "")] * of_xgboost)


def page_of_shared() -> Iterator[str]:
    """Yield the table of what [training] has beside the estimators' parameters."""
    yield "| key of `[training]` | values (default) | meaning |"
    yield "|---|---|---|"
    for p in SHARED.values():
        if not p.estimator:
            yield _row(f"`{p.name}`", f"{_values(p.kind, '`')} (`{_python(p.default)}`)", _meaning(p))


def page_of_refused() -> Iterator[str]:
    """Yield the table of XGBoost's parameters that are refused, in one row where the reason is the same."""
    yield "| parameter | why, and what to do instead | changes nothing |"
    yield "|---|---|---|"
    for reason, group in groupby(REFUSED.values(), key=lambda refused: refused.reason):
        alike = list(group)
        harmless = (f"`{refused.name}={_python(value)}`" for refused in alike for value in refused.harmless)
        yield _row(_names(refused.name for refused in alike), reason, ", ".join(harmless))


def page_of_ignored() -> Iterator[str]:
    """Yield the table of XGBoost's parameters that change nothing."""
    yield "| parameter | why any value will do |"
    yield "|---|---|"
    for why, names in groupby(IGNORED, key=lambda name: IGNORED[name]):
        yield _row(_names(names), why)


def page_of_settings() -> Iterator[str]:
    """Yield the table of docs/deployment.md."""
    yield "| key | values (default) | meaning |"
    yield "|---|---|---|"
    words = {"coordinator": "the coordinator", "active": "the active participant", "peer": "each", "role": "NAME"}
    for table in TABLES.values():
        title = "" if "{who}" in table.title else table.title.replace("\n", " ").format(**words)
        yield _row(f"**`[{table.name}]`**", f"**{_who(table.who)}**", f"**{title}** {table.note}" if title else "")
        for key in table.keys if table.name != "training" else ():
            default = {REQUIRED: " (needed)", None: "", (): ""}.get(
                None if isinstance(key.default, dict) else key.default
            )
            shown = f" (`{_toml(key.default).format(**words)}`)" if default is None else default
            who = f"*{_who(key.who)}:* " if key.who not in (ALL, table.who) else ""
            same = " The same at all." if key.same and "same" not in f"{title} {key.help}" else ""
            text = f"{who}{key.help.format(**words)}{'.' if same or key.note else ''}{same} {key.note}"
            said = key.kind.choices and all(choice in key.help for choice in key.kind.choices)
            values = "" if said else _values(key.kind, "`")
            yield _row(f"`{key.name}`", (values + shown).strip(), text.rstrip())
        if table.name == "training":
            yield _row("", "", "the [parameters](parameters.md), with XGBoost's names")


def page_of_ledger(run: Run) -> Iterator[str]:
    """Yield the table of docs/what-each-party-sees.md for a kind of run: who gets each value, and what it is."""
    yield f"| name on the ledger | {' | '.join(run.columns)} | what it is |"
    yield f"|{'---|' * (len(run.columns) + 2)}"
    for entry in Entry:
        for line in entry.lines:
            if line.run is run:
                yield _row(f"`{entry}`", *(", ".join(to) or "-" for to in line.to), line.what)


def _of_estimators() -> list[Parameter]:
    return [p for p in PARAMETERS if p.estimator]


def _who(kinds: frozenset[str]) -> str:
    if kinds == ALL:
        return "all"
    apart = kinds - {"coordinating"}
    names = {"auxiliary": "auxiliaries"}
    words = ", ".join(names.get(kind, kind) for kind in sorted(apart, reverse=True))
    words = "participants" if apart == {"active", "auxiliary"} else words
    return f"{words} that do not coordinate" if kinds == apart and "auxiliary" in kinds else words


def _values(kind: Kind, quote: str) -> str:
    if kind.choices:
        *first, last = (f"{quote}{c}{quote}" for c in kind.choices)
        return f"{', '.join(first)} or {last}"
    words = {"flag": "true, false", "variable": "name", "anything": ""}
    plain = ("text", "texts", "text or texts", "name", "names", "path", "address", "link", "table", "directions")
    text = words.get(kind.name, kind.name if kind.name in plain else kind.bounds)
    text = re.sub(r"^an integer from ", "", text)
    return re.sub(r"^at least (\S+) and at most |^(above \S+) and at most ", r"\1\2 to ", text)


def _meaning(parameter: Parameter) -> str:
    more = f"{parameter.more} {parameter.note}".strip()
    return f"{parameter.help}. {more}" if more else parameter.help


def _notes(path: str, column: str) -> dict[str, str]:
    """Return what people wrote into the last column of a page's table, by its first cell."""
    notes: dict[str, str] = {}
    is_in = False
    for line in (ROOT / path).read_text().splitlines():
        cells = re.split(r"(?<!\\) \| ", line.strip().removeprefix("| ").removesuffix(" |")) if line[:1] == "|" else []
        is_in = bool(cells) and (is_in or cells[-1] == column)
        if is_in:
            notes[cells[0]] = cells[-1]
    return notes


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _sentence(phrase: str) -> str:
    return f"{phrase[0].upper()}{phrase[1:]}."


def _python(value: object) -> str:
    text = "np.nan" if value != value else repr(value)
    return '"' + text[1:-1].replace('"', '\\"') + '"' if isinstance(value, str) else text


def _toml(value: object) -> str:
    if isinstance(value, (bool, tuple)):
        return json.dumps(value)
    return str(value)


SECTIONS = "src/mpfedxgb/federation/settings/sections.py"
GENERATED = (
    Generated("src/mpfedxgb/boosting/params.py", "shared", shared_fields),
    Generated("src/mpfedxgb/api/base.py", "signature", signature),
    Generated("src/mpfedxgb/api/base.py", "attributes", attributes),
    Generated(
        "src/mpfedxgb/api/estimators.py",
        "docstring",
        docstring,
        "    Parameters\n    ----------\n",
        "\n    Attributes\n",
    ),
    *(Generated(f"src/mpfedxgb/cli/{name}.py", "options", partial(options, name)) for name in OFFERS),
    Generated("src/mpfedxgb/cli/simulate.py", "arguments", arguments),
    Generated("src/mpfedxgb/cli/plan.py", "planned", planned),
    *(
        Generated(SECTIONS, name, partial(section_fields, TABLES[name]))
        for name in TABLES
        if name not in ("federation", "training", "limits")
    ),
    Generated("docs/parameters.md", "of XGBoost", partial(page_of_parameters, of_xgboost=True)),
    Generated("docs/parameters.md", "of the federation", partial(page_of_parameters, of_xgboost=False)),
    Generated("docs/parameters.md", "of settings files", page_of_shared),
    Generated("docs/parameters.md", "ignored", page_of_ignored),
    Generated("docs/parameters.md", "refused", page_of_refused),
    Generated("docs/deployment.md", "settings", page_of_settings),
    *(Generated("docs/what-each-party-sees.md", run, partial(page_of_ledger, run)) for run in Run),
)
"""All that is generated, part by part: a file, the part's name in its mark, and what yields its lines."""


def generated() -> dict[Path, str]:
    """Return every file that has generated parts, as it has to be."""
    texts: dict[Path, str] = {}
    for part in GENERATED:
        path = ROOT / part.path
        texts[path] = part.put_into(texts.get(path) or path.read_text())
    return {path: _formatted(path, text) if path.suffix == ".py" else text for path, text in texts.items()}


def _formatted(path: Path, text: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(path), "-"]
    return subprocess.run(command, input=text, text=True, capture_output=True, check=True, cwd=ROOT).stdout  # noqa: S603 # its own arguments


def main() -> None:
    """Write the files, or with --check end with 1 if one differs."""
    stale = [path for path, text in generated().items() if path.read_text() != text]
    if "--check" in sys.argv:
        sys.exit(f"run make generate: {', '.join(map(str, stale))}" if stale else 0)
    for path, text in generated().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
