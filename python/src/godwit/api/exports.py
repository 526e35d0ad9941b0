"""Owns the operations of the group `exports`. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from typing import List, Optional, Union
from . import schemas
from .calling import AsyncGroup, Call, Group, escaped, new_key


class Exports(Group):
    """The operations of the group `exports`."""

    def list(self) -> List[schemas.ExportView]:
        """Lists the exports of the node."""
        return self._send(Call[List[schemas.ExportView]]("GET", "/api/v1/exports", twice=True))


class AsyncExports(AsyncGroup):
    """The operations of the group `exports`."""

    async def list(self) -> List[schemas.ExportView]:
        """Lists the exports of the node."""
        return await self._send(Call[List[schemas.ExportView]]("GET", "/api/v1/exports", twice=True))
