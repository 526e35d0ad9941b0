"""Owns the operations of the group `node`. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from typing import List, Optional, Union
from . import schemas
from .calling import AsyncGroup, Call, Group, escaped, new_key


class Node(Group):
    """The operations of the group `node`."""

    def get(self) -> schemas.NodeView:
        """Describes the node and the caller."""
        return self._send(Call[schemas.NodeView]("GET", "/api/v1/node", twice=True))

    def rates(self) -> schemas.RatesView:
        """Lists the rates of jobs in the last hours: of the node, of each site, and of each network path."""
        return self._send(Call[schemas.RatesView]("GET", "/api/v1/rates", twice=True))

    def settings(self, *, command: Optional[str] = None) -> List[schemas.SettingView]:
        """Lists settings with their meaning. The settings of the node also have their value and its origin."""
        return self._send(Call[List[schemas.SettingView]]("GET", "/api/v1/settings", query={"command": command}, twice=True))

    def health(self) -> schemas.Health:
        """Reports that the node is alive."""
        return self._send(Call[schemas.Health]("GET", "/healthz", twice=True))

    def metrics(self) -> str:
        """Serves the figures of the node to Prometheus."""
        return self._send(Call[str]("GET", "/metrics", twice=True, is_text=True))

    def ready(self) -> schemas.Health:
        """Reports whether the node takes changes: its state leads, and its disk has room."""
        return self._send(Call[schemas.Health]("GET", "/readyz", twice=True))


class AsyncNode(AsyncGroup):
    """The operations of the group `node`."""

    async def get(self) -> schemas.NodeView:
        """Describes the node and the caller."""
        return await self._send(Call[schemas.NodeView]("GET", "/api/v1/node", twice=True))

    async def rates(self) -> schemas.RatesView:
        """Lists the rates of jobs in the last hours: of the node, of each site, and of each network path."""
        return await self._send(Call[schemas.RatesView]("GET", "/api/v1/rates", twice=True))

    async def settings(self, *, command: Optional[str] = None) -> List[schemas.SettingView]:
        """Lists settings with their meaning. The settings of the node also have their value and its origin."""
        return await self._send(
            Call[List[schemas.SettingView]]("GET", "/api/v1/settings", query={"command": command}, twice=True)
        )

    async def health(self) -> schemas.Health:
        """Reports that the node is alive."""
        return await self._send(Call[schemas.Health]("GET", "/healthz", twice=True))

    async def metrics(self) -> str:
        """Serves the figures of the node to Prometheus."""
        return await self._send(Call[str]("GET", "/metrics", twice=True, is_text=True))

    async def ready(self) -> schemas.Health:
        """Reports whether the node takes changes: its state leads, and its disk has room."""
        return await self._send(Call[schemas.Health]("GET", "/readyz", twice=True))
