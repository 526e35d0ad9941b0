"""Owns the operations of the group `limits`. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from typing import List, Optional, Union
from . import schemas
from .calling import AsyncGroup, Call, Group, escaped, new_key


class Limits(Group):
    """The operations of the group `limits`."""

    def list(self) -> List[schemas.LimitView]:
        """Lists the limits."""
        return self._send(Call[List[schemas.LimitView]]("GET", "/api/v1/limits", twice=True))

    def put(self, scope: schemas.LimitScopeName, name: str, body: schemas.NewLimit) -> schemas.LimitView:
        """Adds or replaces a limit. Running jobs obey at once."""
        return self._send(
            Call[schemas.LimitView]("PUT", f"/api/v1/limits/{escaped(scope)}/{escaped(name)}", body=body, twice=True)
        )

    def remove(self, scope: schemas.LimitScopeName, name: str) -> None:
        """Removes a limit."""
        return self._send(Call[None]("DELETE", f"/api/v1/limits/{escaped(scope)}/{escaped(name)}", twice=True))


class AsyncLimits(AsyncGroup):
    """The operations of the group `limits`."""

    async def list(self) -> List[schemas.LimitView]:
        """Lists the limits."""
        return await self._send(Call[List[schemas.LimitView]]("GET", "/api/v1/limits", twice=True))

    async def put(self, scope: schemas.LimitScopeName, name: str, body: schemas.NewLimit) -> schemas.LimitView:
        """Adds or replaces a limit. Running jobs obey at once."""
        return await self._send(
            Call[schemas.LimitView]("PUT", f"/api/v1/limits/{escaped(scope)}/{escaped(name)}", body=body, twice=True)
        )

    async def remove(self, scope: schemas.LimitScopeName, name: str) -> None:
        """Removes a limit."""
        return await self._send(Call[None]("DELETE", f"/api/v1/limits/{escaped(scope)}/{escaped(name)}", twice=True))
