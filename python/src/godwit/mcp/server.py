"""Owns the command `godwit-mcp`: its arguments, and the server on standard input and output. Knows no tool."""

from __future__ import annotations

import argparse
import sys
from typing import List, Optional

from ..client import Client
from ..errors import GodwitError
from ..version import VERSION


def main(arguments: Optional[List[str]] = None) -> None:
    """Serves until standard input ends."""
    asked = _parser().parse_args(arguments)
    try:
        from .tools import build
    except ImportError as error:
        sys.exit(f"godwit-mcp: {error}: install it with: pip install 'godwit[mcp]' (Python 3.10 or later)")
    try:
        client = Client(asked.node, token_file=asked.token_file, fingerprint=asked.fingerprint)
    except GodwitError as error:
        sys.exit(f"godwit-mcp: {error}")
    with client:
        build(client, may_submit=asked.allow_submit, may_cancel=asked.allow_cancel).run("stdio")


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="godwit-mcp",
        description="Serves the jobs of a Godwit node by the Model Context Protocol on standard input and output. "
        "Without the flags --allow-submit and --allow-cancel it only reads.",
    )
    made.add_argument("--version", action="version", version=VERSION)
    made.add_argument("--node", metavar="URL", help="https://HOST[:PORT]; else GODWIT_NODE, else the node of this machine")
    made.add_argument("--token-file", metavar="FILE", help="the file with the token; else GODWIT_TOKEN_FILE")
    made.add_argument("--fingerprint", metavar="SHA256", help="of the node's certificate or of its key")
    made.add_argument("--allow-submit", action="store_true", help="also offer a tool that submits jobs")
    made.add_argument("--allow-cancel", action="store_true", help="also offer a tool that cancels a job once its user agrees")
    return made
