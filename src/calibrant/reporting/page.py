"""The page: one HTML file without a network. What it shows is made from stored evaluations; it computes nothing.

Vega compiles expressions of charts, which a content security policy calls `unsafe-eval`; so the policy keeps out the
network, and that all text is escaped (`markup`) is what keeps out everything else.
"""

from __future__ import annotations

import html
from importlib.resources import files

from calibrant.errors import plain
from calibrant.reporting import bundle
from calibrant.reporting.document import Document, figures_of, slug
from calibrant.reporting.markup import Writer, data_script, escape
from calibrant.reporting.palette import LIGHT, css

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


def html_page(document: Document) -> str:
    """The page as text."""
    writer = Writer()
    body = "".join(writer.section(section) for section in document.sections)
    charts = [text for text, _ in sorted(writer.charts.items(), key=lambda item: item[1])]
    shared = data_script({"charts": charts, "light": LIGHT}, "shared")
    drawing = f"<script>{bundle.script()}</script>" if figures_of(document) else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="generator" content="Calibrant {escape(document.meta.get("version", ""))}">'
        f"<title>{escape(document.title)}</title><style>{css()}{_asset('page.css')}</style></head>"
        f'<body><a class="skip" href="#content">Skip to the content</a>{_header(document)}'
        f'<div class="frame">{_contents(document)}<main id="content" tabindex="-1">{body}</main></div>'
        f"{_footer(document)}{shared}{drawing}<script>{_asset('page.js')}</script></body></html>"
    )


def _asset(name: str) -> str:
    return files("calibrant.reporting").joinpath("assets", name).read_text(encoding="utf-8")


def _header(document: Document) -> str:
    """Title and answer; what can be chosen for the whole page stays in sight."""
    said = f'<p class="headline {document.tone}">{escape(document.headline)}</p>' if document.headline else ""
    theme = '<button type="button" id="theme" aria-pressed="false">Dark</button>'
    return (
        f'<header><div class="top"><h1>{escape(document.title)}</h1>{said}</div>'
        f'<div class="bar">{_chooser(document)}{theme}</div></header>'
    )


def _chooser(document: Document) -> str:
    """The list of inputs, where there are several."""
    if len(document.subjects) < 2:
        return ""
    options = "".join(
        f'<option value="{k}">{html.escape(plain(name, 80))}</option>' for k, name in enumerate(document.subjects)
    )
    return f'<span><label for="subject">Show</label><select id="subject">{options}</select></span>'


def _contents(document: Document) -> str:
    items = "".join(f'<li><a href="#{slug(s.key)}">{escape(s.title)}</a></li>' for s in document.sections)
    return f'<nav aria-label="Sections"><ul>{items}</ul></nav>'


def _footer(document: Document) -> str:
    made = " · ".join(f"{escape(key)} {escape(value)}" for key, value in document.meta.items())
    return f"<footer><p>Made by Calibrant from stored evaluations · {made}</p></footer>"
