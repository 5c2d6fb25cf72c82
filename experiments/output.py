"""What an experiment leaves behind: rows as CSV, a figure as PNG and SVG, a page of Markdown; and the index of all."""

from __future__ import annotations

import csv
import datetime
import html
import io
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.setting import missing_extra
from mpfedxgb.atomic import PUBLIC, new_file, write_file
from mpfedxgb.errors import UserError
from mpfedxgb.machine import version_of

Row = dict[str, Any]
Draw = Callable[[Any], None]

PACKAGES = ("mpfedxgb", "numpy", "numba", "scikit-learn", "xgboost", "phe", "gmpy2")
INK = ("#1b5e8c", "#d1662c", "#3b8a4f", "#8a4f9e", "#666666", "#b8960c")
"""Colours of the curves, in order."""


@dataclass(frozen=True, slots=True)
class Result:
    """One item reproduced.

    `rows` are for machines; `header` and `cells` are the table for readers, beside the paper's numbers; `paper` says
    what the paper claims and `measured` what was found, both in Markdown. `draw` puts the figure on an empty one.
    """

    item: str
    title: str
    paper: str
    measured: str
    header: Sequence[str]
    cells: Sequence[Sequence[str]]
    rows: Sequence[Row] = field(repr=False)
    draw: Draw
    size: tuple[float, float] = (7.0, 4.2)


def figure(size: tuple[float, float]) -> Any:
    """Return an empty figure that needs no screen; raises UserError where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("matplotlib") from None
    return Figure(figsize=size, layout="constrained")


def plain_ticks(axis: Any) -> None:
    """Write the numbers of a logarithmic axis out: 0.5, 20, 1,000."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def write(result: Result, folder: Path, seconds: float) -> list[Path]:
    """Write the files of one item and return their paths."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_csv(folder / f"{result.item}.csv", result.rows)
        _write_figure(folder / result.item, result)
        write_file(folder / f"{result.item}.md", markdown(result, seconds), PUBLIC)
    except OSError as error:
        raise UserError(f"--out {folder}: cannot write there: {error}; give a folder for the results") from None
    return [folder / f"{result.item}.{kind}" for kind in ("csv", "png", "svg", "md")]


def write_index(results: Sequence[Result], folder: Path, seconds: float) -> list[Path]:
    """Write the index of several items as a page for a browser and one of Markdown."""
    paths = [folder / "index.html", folder / "README.md"]
    write_file(paths[0], _page(results, seconds), PUBLIC)
    write_file(paths[1], _readme(results, seconds), PUBLIC)
    return paths


def _write_csv(path: Path, rows: Sequence[Row]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_file(path, text.getvalue(), PUBLIC)


def _write_figure(stem: Path, result: Result) -> None:
    """Draw once and save twice; the SVG keeps its text and has no date in it, so that equal data gives equal files."""
    canvas = figure(result.size)
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": result.item, "svg.fonttype": "none", "font.size": 9}):
        result.draw(canvas)
        with new_file(stem.with_suffix(".png"), PUBLIC) as file:
            canvas.savefig(file, format="png", dpi=150)
        with new_file(stem.with_suffix(".svg"), PUBLIC) as file:
            canvas.savefig(file, format="svg", metadata={"Date": None})


def markdown(result: Result, seconds: float) -> str:
    """Return the page of one item."""
    lines = [
        f"# {result.title}",
        "",
        f"**The paper.** {result.paper}",
        "",
        f"**Here.** {result.measured}",
        "",
        *_markdown_table(result.header, result.cells),
        "",
        f"![{result.title}]({result.item}.svg)",
        "",
        f"Data: [{result.item}.csv]({result.item}.csv). Figure: [SVG]({result.item}.svg), [PNG]({result.item}.png).",
        "",
        f"{_made(seconds)} `mpfedxgb reproduce {result.item} --data DIR`",
    ]
    return "\n".join(lines) + "\n"


def _is_text(cells: Sequence[Sequence[str]]) -> list[bool]:
    """Return which columns of a table hold text; they are aligned to the left, numbers to the right."""
    return [any(cell[:1].isalpha() for cell in column) for column in zip(*cells, strict=True)]


def _markdown_table(header: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(header)} |",
        f"|{'|'.join('---' if is_text else '---:' for is_text in _is_text(cells))}|",
        *(f"| {' | '.join(row)} |" for row in cells),
    ]


def text_table(header: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Return aligned columns for a terminal."""
    is_text = _is_text(cells)
    widths = [max(len(row[i]) for row in (header, *cells)) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        sides = zip(row, widths, is_text, strict=True)
        return "  ".join(c.ljust(w) if left else c.rjust(w) for c, w, left in sides).rstrip()

    return "\n".join([line(header), "  ".join("-" * w for w in widths), *map(line, cells)])


def _readme(results: Sequence[Result], seconds: float) -> str:
    lines = [
        "# The paper's tables and figures, reproduced",
        "",
        "Each page says what the paper claims and what was measured here. For a browser: [index.html](index.html).",
        "",
        "| item | | data |",
        "|---|---|---|",
        *(f"| [{r.item}]({r.item}.md) | {r.title} | [CSV]({r.item}.csv) |" for r in results),
        "",
        f"{_made(seconds)} `mpfedxgb reproduce all --data DIR`",
    ]
    return "\n".join(lines) + "\n"


def _made(seconds: float) -> str:
    """Return one sentence on when, where and with what; the machine is named by its processor only."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    versions = ", ".join(f"{name} {version}" for name in PACKAGES if (version := version_of(name)))
    return f"Made on {today} in {_duration(seconds)} on {machine()}; Python {platform.python_version()}, {versions}."


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def machine() -> str:
    """Return processor, cores and memory of this machine."""
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
        memory = f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (OSError, ValueError, AttributeError):
        memory = ""
    return f"{model}, {os.cpu_count()} cores{memory}"


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
nav ul { columns: 2; padding-left: 1.2rem; }
section { border-top: 1px solid #ccc; margin-top: 2.5rem; padding-top: 0.5rem; }
table { border-collapse: collapse; font-size: 0.85rem; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: 0.2rem 0.7rem; text-align: right; border-bottom: 1px solid #e4e4e4; white-space: nowrap; }
.words { text-align: left; }
img { max-width: 100%; height: auto; }
code { background: #f3f3f3; padding: 0 0.2em; }
footer { border-top: 1px solid #ccc; margin-top: 2.5rem; color: #555; font-size: 0.85rem; }
"""


def _page(results: Sequence[Result], seconds: float) -> str:
    """Return the index for a browser: one file beside the figures, with nothing fetched from elsewhere."""
    links = "\n".join(f'<li><a href="#{r.item}">{_text(r.title)}</a></li>' for r in results)
    sections = "\n".join(_section(r) for r in results)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The paper's tables and figures, reproduced by mpfedxgb</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>The paper's tables and figures, reproduced</h1>
<p>Each part says what the paper claims and what mpfedxgb measured.</p>
<nav><ul>
{links}
</ul></nav>
{sections}
<footer><p>{_text(_made(seconds))} <code>mpfedxgb reproduce all --data DIR</code></p></footer>
</body>
</html>
"""


def _section(result: Result) -> str:
    is_text = _is_text(result.cells)
    head = _html_row("th", result.header, is_text)
    body = "\n".join(_html_row("td", row, is_text) for row in result.cells)
    files = ", ".join(
        f'<a href="{result.item}.{kind}">{name}</a>'
        for kind, name in (("csv", "CSV"), ("svg", "SVG"), ("png", "PNG"), ("md", "Markdown"))
    )
    return f"""<section id="{result.item}">
<h2>{_text(result.title)}</h2>
<p><strong>The paper.</strong> {_text(result.paper)}</p>
<p><strong>Here.</strong> {_text(result.measured)}</p>
<img src="{result.item}.svg" alt="{_text(result.title, quote=True)}">
<table><thead>{head}</thead><tbody>
{body}
</tbody></table>
<p>Files: {files}</p>
</section>"""


def _html_row(tag: str, row: Sequence[str], is_text: Sequence[bool]) -> str:
    cells = (
        f'<{tag} class="words">{_text(c)}</{tag}>' if left else f"<{tag}>{_text(c)}</{tag}>"
        for c, left in zip(row, is_text, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"


def _text(plain: str, quote: bool = False) -> str:
    """Return text as HTML; what stands between backquotes becomes code, as in Markdown."""
    parts = html.escape(plain, quote=quote).split("`")
    if quote:
        return "".join(parts)
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))
