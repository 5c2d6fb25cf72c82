"""The page of one role: one HTML file that needs nothing else; and the summary that a notebook shows of an estimator.

Both are made of the templates beside this file by jinja2, which escapes every value, so that a name of a column or of a
role is never markup, and refuses a value that is missing.

There is no script in a file. A policy in its head lets a browser load nothing at all and apply only the one style sheet
whose digest it names, so that even a defect here could not make the page run or fetch something. A live page has one
script, named in the same way, which may ask its own server for the page anew.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from mpfedxgb import units
from mpfedxgb.boosting.metrics import METRICS, NO_METRIC
from mpfedxgb.errors import printable
from mpfedxgb.modes.facts import NONE_WARNING
from mpfedxgb.party.entries import Entry
from mpfedxgb.report.html import costs, trees
from mpfedxgb.report.html.data import ReportData
from mpfedxgb.report.html.pictures import Curve, curve, shares

if TYPE_CHECKING:
    from jinja2 import Environment


from collections.abc import Iterable

from mpfedxgb.party.entries import Source
from mpfedxgb.party.ledger import Reveal
from mpfedxgb.party.roster import ACTIVE, COORDINATOR

STYLE, SUMMARY_STYLE, SCRIPT = "page.css", "summary.css", "live.js"


@dataclass(frozen=True, slots=True)
class Live:
    """What a page shows besides while its role runs: what it does just now, its log's last lines, the seconds left."""

    doing: str
    lines: Sequence[str] = ()
    seconds_left: float | None = None


def page_html(data: ReportData, live: Live | None = None) -> str:
    """Return the report of a role; with `live`, as a page that renews itself."""
    shown, folded = trees.groups(trees.shown_trees(data))
    leaving, arriving = split_by_side(data)
    phases = data.spent.phases
    return render(
        "page.html",
        data=data,
        live=live,
        policy=policy(live is not None),
        made=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        scores=scores(data),
        curves=curves(data),
        shares=shares(data.judgement) if data.judgement is not None else [],
        trees_shown=shown,
        trees_folded=folded,
        importance=trees.importance(data),
        has_own_split=bool(trees.own_splits(data)),
        leaving=leaving,
        arriving=arriving,
        receivers=receivers_of(data.ledger),
        phase_bars=costs.phase_bars(phases),
        phase_rows=costs.phase_rows(phases),
        peer_rows=costs.peer_rows(data.spent.total),
        forecast_rows=costs.forecast_rows(data),
    )


def summary_html(data: ReportData) -> str:
    """Return a summary for the inside of another page, whose colours it takes over."""
    tree, importance = trees.first_tree(data), trees.importance(data)
    return render("summary.html", data=data, curves=curves(data)[:2], tree=tree, importance=importance)


def uplift_html(found: object) -> str:
    """Return the page of a comparison of the active participant alone with everybody together."""
    return render("uplift.html", found=found, policy=policy(is_live=False), warning=NONE_WARNING)


def render(template: str, **values: Any) -> str:
    """Return a template with values in it."""
    return environment().get_template(template).render(values)


@cache
def environment() -> Environment:
    """Return jinja2's environment of the templates; imported here, because most processes make no report."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_readable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (units.count, units.counted, units.bytes_text, units.duration_text, units.short):
        made.filters[function.__name__] = function
    made.globals |= {"asset": _asset, "NO_METRIC": NO_METRIC, "Entry": Entry}
    return made


def _readable(value: object) -> object:
    """Return a value as text without what turns the direction of reading, and coordinates in few digits."""
    if hasattr(value, "__html__"):
        return value
    return printable(f"{value:g}" if isinstance(value, float) else str(value))


def policy(is_live: bool) -> str:
    """Return the content security policy of a page."""
    allowed = ["default-src 'none'", f"style-src {_source(STYLE)}", "img-src data:"]
    if is_live:
        allowed += [f"script-src {_source(SCRIPT)}", "connect-src 'self'"]
    return "; ".join([*allowed, "base-uri 'none'", "form-action 'none'"])


def _asset(name: str) -> str:
    """Return a style sheet or script of ours as it stands in a page."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _source(name: str) -> str:
    """Return how a policy names a style sheet or script: by its digest."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(_asset(name).encode()).digest()).decode()}'"


@dataclass(frozen=True, slots=True)
class Score:
    """A metric in the round, counted from 1, that predictions stop at, or else its best; `last` is that of the end."""

    metric: str
    value: float
    round_: int
    rounds: int
    last: float
    is_overfit: bool


def scores(data: ReportData) -> list[Score]:
    """Return every metric of the last evaluation rows, on which early stopping looks too."""
    last_rows = list(data.metrics.values())[-1] if data.metrics else {}
    found = []
    for name, values in last_rows.items():
        judge = METRICS.get(name.partition("@")[0])
        best = len(values) - 1
        for number, value in enumerate(values if judge else ()):
            assert judge is not None
            if math.isfinite(value) and (not math.isfinite(values[best]) or judge.is_better(value, values[best])):
                best = number
        place = best if data.best_iteration is None else data.best_iteration
        if place < len(values):
            is_overfit = judge is not None and judge.is_better(values[place], values[-1])
            found.append(Score(name, values[place], place + 1, len(values), values[-1], is_overfit))
    return found


def curves(data: ReportData) -> list[Curve]:
    """Return a drawing of each metric that has a finite value."""
    by_metric: dict[str, dict[str, Sequence[float]]] = {}
    for rows, metrics in data.metrics.items():
        for name, values in metrics.items():
            by_metric.setdefault(name, {})[rows] = values
    drawn = [curve(name, lines, data.best_iteration) for name, lines in by_metric.items()]
    return [one for one in drawn if one is not None]


# The ledger in plain words. All roles keep the same ledger, an entry for everything that anybody learns. Each entry
# gets a sentence, and the side on which the reader stands: an entry *arrives* where the reader is its receiver, and it
# *leaves* where it tells somebody else something that comes, alone or with others', from the reader.


PARTICIPANTS = "participants"
"""The receiver of what all participants learn."""

_ENTRIES = {entry.value: entry for entry in Entry}


def meaning_of(name: str, hides_rows: bool = False) -> str:
    """Return what an entry is about, in words; one that nobody declared, of another version, keeps its name."""
    entry = _ENTRIES.get(name)
    if entry is None:
        return name
    return entry.sealed_meaning if hides_rows else entry.meaning


def source_of(name: str) -> Source:
    """Return from whom an entry comes; one that nobody declared counts as coming from everybody."""
    entry = _ENTRIES.get(name)
    return Source.ALL if entry is None else entry.source


def split_by_side(data: ReportData) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return what leaves the reader and what arrives: sentences, each with the number of values."""
    leaving: dict[str, list[Reveal]] = {}
    arriving: list[tuple[str, int]] = []
    for entry in data.ledger:
        if entry.receiver == data.role or (entry.receiver == PARTICIPANTS and data.number != COORDINATOR):
            line = meaning_of(entry.name, data.mode.hides_rows), entry.count
            if line not in arriving:  # a coordinator that brings columns is told as the one and as the other
                arriving.append(line)
        if _comes_from(data, source_of(entry.name)) and entry.receiver != data.role:
            leaving.setdefault(entry.name, []).append(entry)
    left = []
    for name, entries in leaving.items():  # one sentence for several receivers, who all got the same
        receivers = ["the other participants" if e.receiver == PARTICIPANTS else e.receiver for e in entries]
        sentence = f"{meaning_of(name, data.mode.hides_rows)}: to {' and '.join(receivers)}"
        left.append((sentence, max(entry.count for entry in entries)))
    return left, arriving


def _comes_from(data: ReportData, source: Source) -> bool:
    if data.number == COORDINATOR or source is Source.RECEIVER:
        return False
    if source is Source.ACTIVE:
        return data.number == ACTIVE
    return source is not Source.AUXILIARIES or data.number != ACTIVE


def receivers_of(ledger: Iterable[Reveal]) -> dict[tuple[str, int], list[str]]:
    """Return who got what: receivers by the name and the number of values."""
    found: dict[tuple[str, int], list[str]] = {}
    for entry in ledger:
        found.setdefault((entry.name, entry.count), []).append(entry.receiver)
    return found
