"""Owns how texts of others look in a terminal, a notebook or a report: none steers it, or turns its direction. Shortens none."""

from __future__ import annotations

import re

_OTHERS = re.compile(r"[^\n\t\x20-\x7e]")


def printable(text: str) -> str:
    """One line. Control characters and direction marks are escaped, line breaks too."""
    return printable_lines(text).replace("\n", "\\n").replace("\t", "\\t")


def printable_lines(text: str) -> str:
    """The same for a text of several lines, which stay lines."""
    return _OTHERS.sub(lambda found: found[0] if found[0].isprintable() else ascii(found[0])[1:-1], text)
