"""Draw roles.svg, two.svg and three.svg, beside this file, when it is run: who holds what, who talks to whom."""

from __future__ import annotations

from pathlib import Path

STYLE = """<style>
  .bg{fill:#fff}.box{fill:#f4f5fb;stroke:#c3c8e3}.c{fill:#fff6e5;stroke:#e0b45a}.ink{fill:#1f2333}.soft{fill:#5a6078}
  .warn{fill:#fdecea;stroke:#d9705f}.line{stroke:#5a6078;fill:none;stroke-width:1.5}.tip{fill:#5a6078}
  text{font:14px system-ui,sans-serif}.b{font-weight:600}.s{font-size:12px}
  @media (prefers-color-scheme:dark){.bg{fill:#1e2129}.box{fill:#282d3b;stroke:#49506a}.c{fill:#3a3222;stroke:#8a7238}
  .ink{fill:#e8eaf2}.soft{fill:#a9b0c6}.warn{fill:#3d2623;stroke:#a3574a}.line{stroke:#a9b0c6}.tip{fill:#a9b0c6}}
</style>
<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">\
<path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>"""

AUXILIARY = [
    ("holds", ["its own columns"]),
    ("learns", ["tree shapes, owner of each split", "its own splits", "rows of leaves below its splits alone"]),
    ("when scoring", ["ids of the rows that are scored"]),
]
ACTIVE = [
    ("holds", ["the labels, its own columns"]),
    ("learns", ["tree shapes, owner of each split", "its own splits"]),
    ("in strict", ["which training rows share a leaf"]),
    ("in sealed", ["not which training rows share a leaf"]),
    ("when scoring", ["predictions"]),
]
COORDINATOR = [
    ("holds", ["no data; knows every random mask"]),
    ("learns", ["numbers of rows and candidate columns", "tree shapes, owner of each split"]),
]


def text(x: float, y: float, words: str, style: str = "ink s", anchor: str = "start") -> str:
    """Return a line of text."""
    return f'<text class="{style}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{words}</text>'


def arrow(path: str, *, dashed: bool = False, both: bool = False) -> str:
    """Return a line with a tip at its end, or at both ends."""
    more = ' stroke-dasharray="5 4"' * dashed + ' marker-start="url(#a)"' * both
    return f'<path class="line" marker-end="url(#a)"{more} d="{path}"/>'


def box(x: int, y: int, width: int, height: int, style: str) -> str:
    """Return a box with round corners."""
    return f'<rect class="{style}" x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/>'


def role(x: int, y: int, width: int, height: int, style: str, title: str, facts: list[tuple[str, list[str]]]) -> str:
    """Return a box with a role's name and, below each other, what it holds and learns."""
    lines, place = [box(x, y, width, height, style), text(x + 12, y + 22, title, "ink b")], y + 42
    for name, items in facts:
        lines.append(text(x + 12, place, name, "soft s b"))
        for item in items:
            place += 17
            lines.append(text(x + 22, place, item))
        place += 20
    return "\n".join(lines)


def draw() -> str:
    """Return the picture."""
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 536" role="img" aria-labelledby="t d">',
            '<title id="t">Who holds what, who talks to whom, who learns what</title>'
            '<desc id="d">The coordinator deals random masks to every participant and hears sizes and tree shapes. '
            "Participants exchange masked values. The active participant holds the labels. The coordinator together "
            "with any one participant learns everything.</desc>",
            STYLE,
            '<rect class="bg" width="860" height="536" rx="10"/>',
            role(290, 14, 280, 128, "c", "Coordinator (independent)", COORDINATOR),
            arrow("M290 100L130 100L130 196", dashed=True),
            arrow("M570 100L730 100L730 196", dashed=True),
            arrow("M410 142L410 196", dashed=True),
            arrow("M450 200L450 146"),
            text(142, 120, "random masks", "soft s"),
            text(718, 120, "random masks", "soft s", "end"),
            text(402, 172, "random masks", "soft s", "end"),
            text(458, 172, "sizes, tree shapes", "soft s"),
            role(20, 200, 248, 240, "box", "Telecom (auxiliary)", AUXILIARY),
            role(306, 200, 248, 240, "box", "Bank (active)", ACTIVE),
            role(592, 200, 248, 240, "box", "Insurer (auxiliary)", AUXILIARY),
            arrow("M270 330L304 330", both=True),
            arrow("M556 330L590 330", both=True),
            text(430, 458, "participants exchange masked values, over mutual TLS", "soft s", "middle"),
            box(20, 470, 820, 50, "warn"),
            text(32, 491, "Coordinator and any one participant together: everything.", "ink b"),
            text(
                32,
                509,
                "Participants without the coordinator: what each of them learns, what follows from it, no more.",
            ),
            "</svg>",
            "",
        ]
    )


def draw_two() -> str:
    """Return the picture of two organisations and a helper."""
    return _small(
        "Two organisations and a helper",
        "A helper without data deals random masks to a bank and a telecom company, who exchange masked values.",
        role(290, 14, 280, 86, "c", "Helper (coordinator)", [("holds", ["no data; knows every random mask"])]),
        role(20, 150, 240, 86, "box", "Bank (active)", [("holds", ["the labels, its own columns"])]),
        role(600, 150, 240, 86, "box", "Telecom (auxiliary)", [("holds", ["its own columns"])]),
        "The helper together with either of the two: everything.",
        "Each alone, and the helper alone: what is listed for it, no more.",
    )


def draw_three() -> str:
    """Return the picture of three organisations and nobody else."""
    return _small(
        "Three organisations, nobody else",
        "A retailer deals random masks to a bank and a telecom company, and brings columns of its own under them.",
        role(290, 14, 280, 86, "c", "Retail (coordinates)", [("holds", ["its own columns; every random mask"])]),
        role(20, 150, 240, 86, "box", "Bank (active)", [("holds", ["the labels, its own columns"])]),
        role(600, 150, 240, 86, "box", "Telecom (auxiliary)", [("holds", ["its own columns"])]),
        "Retail together with one of the others: everything. Bank and telecom together: retail\u2019s table.",
        "Each alone: what is listed for it, no more. So no two of the three may work together.",
    )


def _small(title: str, words: str, top: str, left: str, right: str, warning: str, rest: str) -> str:
    """Return a picture of three roles, the one that deals on top."""
    masks = "random masks" if "no data" in top else "random masks, its own masked values"
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 320" role="img" aria-labelledby="t d">',
            f'<title id="t">{title}</title><desc id="d">{words}</desc>',
            STYLE,
            '<rect class="bg" width="860" height="320" rx="10"/>',
            top,
            arrow("M290 58L140 58L140 146", dashed=True),
            arrow("M570 58L720 58L720 146", dashed=True),
            text(152, 112, masks, "soft s"),
            text(708, 112, masks, "soft s", "end"),
            left,
            right,
            arrow("M264 194L596 194", both=True),
            text(430, 186, "masked values, over mutual TLS", "soft s", "middle"),
            box(20, 254, 820, 50, "warn"),
            text(32, 275, warning, "ink b"),
            text(32, 293, rest),
            "</svg>",
            "",
        ]
    )


PICTURES = {"roles.svg": draw, "two.svg": draw_two, "three.svg": draw_three}


if __name__ == "__main__":
    for name, drawn in PICTURES.items():
        Path(__file__).with_name(name).write_text(drawn(), encoding="utf-8")
