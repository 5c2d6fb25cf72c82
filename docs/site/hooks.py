"""What the site needs beyond Markdown: pages from beside the folder, notebooks as pages, links that lead out of it."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
BESIDE = ("SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""Pages of the repository's root that belong to the site too."""

START, README = "index.md", "README.md"
"""The first page, and what stands on it."""

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
_FENCE = re.compile(r"^( *)(```+).*?^\1\2", re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from beside the folder, a list of decisions, and every notebook as a page."""
    for name in BESIDE:
        files.append(File.generated(config, name, content=(ROOT / name).read_text()))
    files.append(File.generated(config, START, content=(ROOT / README).read_text()))
    files.append(File.generated(config, "adr/README.md", content=_decisions()))
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(notebook)
        text = as_markdown(json.loads(Path(str(notebook.abs_src_path)).read_text()))
        files.append(File.generated(config, notebook.src_uri.replace(".ipynb", ".md"), content=text))
    return files


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let the navigation name notebooks as they are called in the folder."""
    config.nav = _renamed(config.nav)
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files that are no pages show the file's name instead of leading nowhere."""
    place = PurePosixPath(page.file.src_uri)
    beside = page.file.src_uri in (*BESIDE, START)

    def rewrite(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        inside = _inside(place, target, beside)
        if inside is not None and files.get_file_from_path(inside.replace(".ipynb", ".md")) is not None:
            steps = len(place.parent.parts)
            found = "../" * steps + inside.replace(".ipynb", ".md") + (f"#{anchor}" if anchor else "")
            return f"{match['image']}[{match['text']}]({found})"
        return f'<span class="source" title="{html.escape(target.replace("../", ""))}">{match["text"]}</span>'

    return _outside_fences(markdown, lambda prose: _LINK.sub(rewrite, prose))


def as_markdown(notebook: dict[str, Any]) -> str:
    """Return a notebook's cells and what they printed as a page."""
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
        elif cell["cell_type"] == "code":
            parts.append(f"```python\n{text}\n```")
            parts += [_output(output) for output in cell["outputs"]]
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, Any]) -> str:
    """Return one output: a picture, a table, or text."""
    data = output.get("data", {})
    if "image/png" in data:
        return f'<img alt="what the cell drew" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    if "text/html" in data:
        return f'<div class="output" markdown="0">\n{"".join(data["text/html"])}\n</div>'
    text = "".join(data.get("text/plain", output.get("text", [])))
    return f'<div class="output" markdown="1">\n\n```text\n{text.rstrip()}\n```\n\n</div>' if text.strip() else ""


def _decisions() -> str:
    """Return the list of decision records, by their first lines."""
    pages = sorted((ROOT / "docs" / "adr").glob("0*.md"))
    lines = [f"- [{page.read_text().splitlines()[0].lstrip('# ')}]({page.name})" for page in pages]
    return "# Decisions\n\nWhy it is built this way, with the figures that decided.\n\n" + "\n".join(lines) + "\n"


def _renamed(nav: Any) -> Any:
    if isinstance(nav, list):
        return [_renamed(item) for item in nav]
    if isinstance(nav, dict):
        return {title: _renamed(item) for title, item in nav.items()}
    return nav.replace(".ipynb", ".md") if isinstance(nav, str) else nav


def _inside(place: PurePosixPath, target: str, beside: bool) -> str | None:
    """Return where in the site a link of a page leads; None for what lies outside of it."""
    parts: list[str] = []
    start = PurePosixPath() if beside else PurePosixPath("docs") / place.parent
    for part in (start / target).parts:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part != ".":
            parts.append(part)
    if parts == [README]:
        return START
    if parts[:1] == ["docs"]:
        return "/".join(parts[1:])
    return parts[0] if len(parts) == 1 and parts[0] in BESIDE else None


def _outside_fences(text: str, change: Any) -> str:
    """Return text with a change made everywhere but in blocks of code."""
    out, last = [], 0
    for block in _FENCE.finditer(text):
        out += [change(text[last : block.start()]), block[0]]
        last = block.end()
    return "".join([*out, change(text[last:])])
