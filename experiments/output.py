"""What an experiment leaves behind: rows as CSV, a figure as PNG and SVG, a page of Markdown; and the index of all."""

from __future__ import annotations

import csv
import datetime
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


def _page(results: Sequence[Result], seconds: float) -> str:
    """Return the index for a browser: one file beside the figures, with nothing fetched from elsewhere."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = templates.get_template("index.html")
    return page.render(results=results, made=_made(seconds), is_text_of=_is_text)
