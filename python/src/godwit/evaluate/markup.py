"""Owns the pieces of HTML of the report: sections, lists, tables, the style. Knows no run."""

from __future__ import annotations

import html
from typing import Any, Sequence

from ..shown import printable_lines

STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --paper: #ffffff; --line: #d5dadf; --soft: #5c6670; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --paper: #15181b; --line: #363d44; --soft: #9aa5af; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { line-height: 1.2 } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line) }
h3 { margin: 1.5rem 0 0.3rem; font-size: 1rem; }
table { border-collapse: collapse; font-size: 0.85rem; display: block; overflow-x: auto; }
th, td { text-align: right; padding: 0.2rem 0.6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } svg { max-width: 100%; height: auto; } figure { margin: 0; }
.soft { color: var(--soft); } .first { font-size: 1.15rem; } pre { overflow-x: auto; font-size: 0.8rem; }
@media print { :root { color-scheme: light; --ink: #000; --paper: #fff; --line: #bbb; --soft: #444; }
  body { margin: 0; max-width: none; } figure, tr, svg { break-inside: avoid; } h2, h3 { break-after: avoid; }
  table { display: table; font-size: 0.6rem; } th, td { white-space: normal; } pre { white-space: pre-wrap; } }
"""


def page(title: str, parts: Sequence[str]) -> str:
    """The whole page."""
    body = "\n".join(parts)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{text(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>{body}</body></html>\n'
    )


def section(title: str, content: str) -> str:
    """A part with its title."""
    return f"<section><h2>{text(title)}</h2>{content}</section>"


def figure(title: str, drawing: str) -> str:
    """A drawing under its title."""
    return f"<figure><h3>{text(title)}</h3>{drawing}</figure>"


def listed(sentences: Sequence[str]) -> str:
    """Sentences, each with a dot before it."""
    return "<ul>" + "".join(f"<li>{text(one)}</li>" for one in sentences) + "</ul>"


def missing(why: str) -> str:
    """The text in place of a drawing that cannot be made."""
    return f"<p class='soft'>{text(why)}</p>"


def rows(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table."""
    head = "".join(f"<th>{text(one)}</th>" for one in heads)
    body = "".join("<tr>" + "".join(f"<td>{text(one)}</td>" for one in line) + "</tr>" for line in lines)
    return f"<table><tr>{head}</tr>{body}</table>"


def text(value: Any) -> str:
    """A text without its markup, and with nothing that turns it."""
    return html.escape(printable_lines(str(value)))
