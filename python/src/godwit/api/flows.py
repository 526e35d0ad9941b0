"""Owns the operations of the group `flows`. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from typing import List, Optional, Union
from . import schemas
from .calling import AsyncGroup, Call, Group, escaped, new_key


class Flows(Group):
    """The operations of the group `flows`."""

    def list(self) -> List[schemas.FlowView]:
        """Lists the flows, with what their hops are like now."""
        return self._send(Call[List[schemas.FlowView]]("GET", "/api/v1/flows", twice=True))

    def put(self, id: str, body: schemas.NewFlow) -> schemas.FlowView:
        """Adds or replaces a flow. The caller owns a new one and its jobs. The places of existing hops stay."""
        return self._send(Call[schemas.FlowView]("PUT", f"/api/v1/flows/{escaped(id)}", body=body, twice=True))

    def remove(self, id: str) -> None:
        """Removes a flow. Its jobs stay, and those that run go on."""
        return self._send(Call[None]("DELETE", f"/api/v1/flows/{escaped(id)}", twice=True))


class AsyncFlows(AsyncGroup):
    """The operations of the group `flows`."""

    async def list(self) -> List[schemas.FlowView]:
        """Lists the flows, with what their hops are like now."""
        return await self._send(Call[List[schemas.FlowView]]("GET", "/api/v1/flows", twice=True))

    async def put(self, id: str, body: schemas.NewFlow) -> schemas.FlowView:
        """Adds or replaces a flow. The caller owns a new one and its jobs. The places of existing hops stay."""
        return await self._send(Call[schemas.FlowView]("PUT", f"/api/v1/flows/{escaped(id)}", body=body, twice=True))

    async def remove(self, id: str) -> None:
        """Removes a flow. Its jobs stay, and those that run go on."""
        return await self._send(Call[None]("DELETE", f"/api/v1/flows/{escaped(id)}", twice=True))
