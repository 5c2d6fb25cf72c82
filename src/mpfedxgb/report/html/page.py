"""The page: one HTML file that needs nothing else, for one role.

There is no script in a file. A policy in its head lets a browser load nothing at all and apply only the one style sheet
whose digest it names, so that even a defect here could not make the page run or fetch something. A live page has one
script, named in the same way, which may ask its own server for the page anew.

The small report that a notebook shows for an estimator: a few numbers, the curves, the first tree, columns.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from mpfedxgb.boosting.metrics import NO_METRIC
from mpfedxgb.boosting.params import PAPER
from mpfedxgb.report.history import Attempt
from mpfedxgb.report.html.costs import cost_section, forecast_section
from mpfedxgb.report.html.facts import Facts
from mpfedxgb.report.html.ledger_words import ledger_section
from mpfedxgb.report.html.markup import (
    Content,
    Markup,
    count,
    counted,
    duration,
    element,
    join,
    pairs,
    short,
    size,
    table,
)
from mpfedxgb.report.html.pictures import curve
from mpfedxgb.report.html.trees import first_tree, importance_section, trees_section
from mpfedxgb.report.record import NOTHING_PROTECTED


def summary_html(facts: Facts) -> str:
    """Return a summary for the inside of another page, whose colours it takes over."""
    style = Markup(resources.files(__package__).joinpath("summary.css").read_text(encoding="utf-8"))
    curves: dict[str, dict[str, list[float]]] = {}
    for rows, metrics in facts.metrics.items():
        for name, values in metrics.items():
            curves.setdefault(name, {})[rows] = list(values)
    drawn: list[Content] = [curve(name, lines, facts.best_iteration) for name, lines in list(curves.items())[:2]]
    return element(
        "div",
        element("style", style),
        element("p", _told(facts)),
        element("div", drawn, class_="cards") if any(drawn) else None,
        first_tree(facts),
        importance_section(facts)[1:],
        element("p", f'The whole report of {facts.role}: report("{facts.role}.html")', class_="quiet"),
        class_="mpfedxgb-summary",
    )


def _told(facts: Facts) -> list[Content]:
    spent = facts.spent
    cost = (
        f" in {duration(spent.seconds)}, {count(spent.rounds)} rounds and {size(spent.bytes_sent)} sent"
        if spent.rounds
        else ""
    )
    score = "".join(f"; {name} {short(v)}" for name, v in facts.score.items() if isinstance(v, float))
    return [
        element("b", f"{NOTHING_PROTECTED}. ") if facts.is_unprotected else None,
        element("b", f"{count(len(facts.trees))} trees"),
        f"{cost}, as {facts.role} sees them, the active participant of {', '.join(facts.participants)}{score}.",
        f" {count(sum(r.count for r in facts.ledger))} values are on the ledger." if facts.ledger else None,
        " Sealed: nobody learned anything about a training row." if facts.is_sealed else None,
    ]


Section = tuple[str, str, list[Content]]
"""Anchor, heading and content; a section without content is left out."""

_ABOUT_C = (
    "The coordinator deals random numbers. It holds no data and no part of the model, so there are no trees here."
)
_RENEWED = 10
"""Seconds after which a live page is loaded again where scripts are switched off."""


@dataclass(frozen=True, slots=True)
class Live:
    """What a page shows besides while its role runs: what the role does just now, and its last lines in the log."""

    doing: str
    lines: Sequence[str] = ()


def page_html(facts: Facts, live: Live | None = None) -> str:
    """Return the report of a role; with `live`, as a page that renews itself."""
    sections = [found for found in _sections(facts, live) if found[2]]
    body = [
        _head(facts, live),
        _warnings(facts, live is not None),
        _figures(facts),
        _contents(sections),
        [_section(*found) for found in sections],
        _foot(facts),
    ]
    head = [
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy(live is not None)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="robots", content="noindex"),
        element("link", rel="icon", href="data:,"),
        element("title", f"{facts.role} \u2013 mpfedxgb report"),
        element("style", _asset("page.css")),
    ]
    script = None
    if live is not None:
        head.append(element("noscript", element("meta", http_equiv="refresh", content=str(_RENEWED))))
        script = element("script", _asset("live.js"))
    page = element(
        "html", element("head", head), element("body", element("main", body, id="report"), script), lang="en"
    )
    return f"<!doctype html>\n{page}\n"


def policy(is_live: bool) -> str:
    """Return the content security policy of a page."""
    allowed = ["default-src 'none'", f"style-src {_source('page.css')}", "img-src data:"]
    if is_live:
        allowed += [f"script-src {_source('live.js')}", "connect-src 'self'"]
    return "; ".join([*allowed, "base-uri 'none'", "form-action 'none'"])


def _asset(name: str) -> Markup:
    """Return a style sheet or script of ours as it stands in a page."""
    return Markup(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _source(name: str) -> str:
    """Return how a policy names a style sheet or script: by its digest."""
    digest = hashlib.sha256(_asset(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _sections(facts: Facts, live: Live | None) -> list[Section]:
    return [
        ("now", "Now", _now(live)),
        ("metrics", "How good it is", [] if facts.is_coordinator else _metrics(facts)),
        ("trees", "Trees", [] if facts.is_coordinator else trees_section(facts)),
        ("importance", "Which columns matter", [] if facts.is_coordinator else importance_section(facts)),
        ("ledger", "What left, what arrived, what was revealed", _ledger(facts)),
        ("cost", "What the training cost", [] if facts.is_unprotected else cost_section(facts)),
        ("forecast", "Forecast and actual", forecast_section(facts)),
        ("attempts", "Attempts", _attempts(facts)),
        ("parameters", "Parameters, versions, digest", _parameters(facts)),
    ]


def _section(anchor: str, heading: str, content: list[Content]) -> Markup:
    return element("section", element("h2", heading, id=f"{anchor}-heading"), content, id=anchor)


def _head(facts: Facts, live: Live | None) -> Markup:
    kind = (
        "coordinator" if facts.is_coordinator else "active participant" if facts.is_active else "auxiliary participant"
    )
    others = [name for name in facts.participants if name != facts.role]
    where = "a simulation in one process" if facts.is_simulated else f"the federation {facts.federation}"
    return element(
        "header",
        element("p", "mpfedxgb ", "live view" if live is not None else "report", class_="eyebrow"),
        element("h1", facts.role),
        element("p", f"The {kind} of {where}, with {_listed(others)}.", class_="lead"),
        element("p", _ABOUT_C) if facts.is_coordinator else None,
        element("p", live.doing, class_="doing", role="status") if live is not None else None,
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _figures(facts: Facts) -> Markup:
    """Return the few numbers that everybody asks for first."""
    spent = facts.spent
    found: list[tuple[str, str]] = []
    if facts.trees:
        found.append(("trees" if facts.is_whole else "trees so far", count(len(facts.trees))))
    found += _last_metrics(facts)[:2]
    if spent.rounds:
        found.append(("rounds of messages", count(spent.rounds)))
    if spent.bytes_sent:
        found.append(("sent by " + facts.role, size(spent.bytes_sent)))
    if spent.seconds:
        found.append(("time of the training", duration(spent.seconds)))
    return element("dl", [element("div", element("dt", n), element("dd", v)) for n, v in found], class_="tiles")


def _last_metrics(facts: Facts) -> list[tuple[str, str]]:
    """Return every metric of the last evaluation rows, in the round that predictions stop at."""
    if not facts.metrics:
        return [(name, short(v)) for name, v in facts.score.items() if isinstance(v, float)]
    last = list(facts.metrics.values())[-1]
    place = -1 if facts.best_iteration is None else facts.best_iteration
    return [(name, short(values[place])) for name, values in last.items() if len(values) > max(place, 0)]


def _warnings(facts: Facts, is_live: bool) -> list[Markup]:
    told = []
    if facts.is_unprotected:
        told.append(NOTHING_PROTECTED)
    if facts.is_insecure:
        told.append("INSECURE: the masks come from insecure_seed, so whoever knows it knows every secret of this run.")
    if facts.parameters.get("security") == PAPER:
        told.append(
            "security = paper: the paper\u2019s algorithms as printed, which reveal more than strict. For study."
        )
    if facts.history is not None:
        told += [f"WARNING: {warning}." for warning in facts.history.warnings()]
    told += facts.notes
    attempts = () if facts.history is None else facts.history.attempts
    open_ = sum(not a.has_ended for a in (attempts[:-1] if is_live else attempts))
    if open_:
        told.append(
            f"{counted(open_, 'attempt')} did not end, or still runs: each may have revealed what one more round or "
            "batch reveals."
        )
    return [element("p", one, class_="warning") for one in told]


def _contents(sections: Sequence[Section]) -> Markup:
    links = [element("li", element("a", heading, href=f"#{anchor}")) for anchor, heading, _ in sections]
    return element("nav", element("ul", links), aria_label="Contents")


def _now(live: Live | None) -> list[Content]:
    if live is None or not live.lines:
        return []
    return [
        element("p", "The last lines of this role\u2019s log, the newest at the end."),
        element("pre", join(live.lines, "\n"), class_="log scroll", tabindex="0"),
    ]


def _ledger(facts: Facts) -> list[Content]:
    return [element("p", NOTHING_PROTECTED)] if facts.is_unprotected else ledger_section(facts)


def _metrics(facts: Facts) -> list[Content]:
    if not facts.is_active:
        told = "Metrics are the active participant\u2019s: they are about its labels, and nobody else is told."
        return [element("p", told)]
    by_metric: dict[str, dict[str, Sequence[float]]] = {}
    for rows, metrics in facts.metrics.items():
        for name, values in metrics.items():
            by_metric.setdefault(name, {})[rows] = values
    drawn = [curve(name, lines, facts.best_iteration) for name, lines in by_metric.items()]
    parts: list[Content] = [element("div", drawn, class_="cards")] if any(drawn) else []
    if facts.score:
        parts.append(element("p", _score(facts)))
    if not parts and facts.is_sealed and facts.trees:
        return [element("p", f"{NO_METRIC[:1].upper()}{NO_METRIC[1:]}.")]
    if not parts:
        return [element("p", "There were no evaluation rows, so there is no curve of a metric.")]
    if any(drawn):
        told = "Each curve is a metric on evaluation rows, which took no part in the training, after every round."
        parts.insert(0, element("p", told))
    return parts


def _score(facts: Facts) -> str:
    told = ", ".join(f"{name} {value:.4f}" for name, value in facts.score.items() if isinstance(value, float))
    rows = facts.score.get("rows", 0)
    which = "that were kept back" if facts.score.get("kept_back") else "of the training itself"
    return f"Scored together on {count(rows)} rows {which}: {told}."


def _attempts(facts: Facts) -> list[Content]:
    if facts.history is None or not facts.history.attempts:
        return []
    rows: list[list[Content]] = [_attempt(attempt) for attempt in reversed(facts.history.attempts)]
    total = facts.spent_ever
    told = (
        f"Everything that {facts.role} ever took part in, the newest first: {counted(len(rows), 'attempt')}, "
        f"{duration(total.seconds)}, {size(total.bytes_sent)} sent. A training that is interrupted goes on in a "
        "new attempt."
    )
    shown = table(
        ["begun", "session", "kind", "how it ended", "time", "rounds", "sent"], rows[:_SHOWN], words=(1, 2, 3)
    )
    older = rows[_SHOWN:_MOST]
    folded = None
    if older:
        head = ["begun", "session", "kind", "how it ended", "time", "rounds", "sent"]
        more = f" of {count(len(rows) - _SHOWN)}; mpfedxgb record prints all" if len(rows) > _MOST else ""
        title = element("summary", f"{counted(len(older), 'older attempt')}{more}")
        folded = element("details", title, table(head, older, words=(1, 2, 3)), id="older-attempts")
    return [element("p", told), shown, folded]


_SHOWN, _MOST = 12, 200
"""Attempts that are shown at once, and in all; `mpfedxgb record` prints every one."""


def _attempt(attempt: Attempt) -> list[Content]:
    told = attempt.content
    how = told.get("how", "not ended, or it runs") + (f": {told['why']}" if told.get("why") else "")
    return [
        told.get("begun", "?").replace("T", " ").replace("Z", ""),
        f"{told.get('session', '?')}, {told.get('attempt', '?')}",
        told.get("kind", ""),
        how,
        duration(told.get("seconds", 0.0)),
        count(told.get("rounds", 0)),
        size(told.get("bytes_sent", 0)),
    ]


def _parameters(facts: Facts) -> list[Content]:
    parts: list[Content] = [pairs([(name, _value(value)) for name, value in facts.parameters.items()])]
    about: list[tuple[Content, Content]] = list(facts.versions.items())
    if facts.model is not None:
        about += [("training", facts.model.training), ("model, SHA-256", facts.model.digest)]
    if about:
        parts += [element("h3", "Versions and digest"), pairs(about)]
    return parts


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _foot(facts: Facts) -> Markup:
    made = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
    kept = "" if facts.is_coordinator else " It names its columns and thresholds, so keep it as you keep the model."
    return element(
        "footer", element("p", f"Made on {made} from what {facts.role} itself may know, and nothing else.{kept}")
    )
