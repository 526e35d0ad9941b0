"""Owns the operations of the group `access`. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from typing import List, Optional, Union
from . import schemas
from .calling import AsyncGroup, Call, Group, escaped, new_key


class Access(Group):
    """The operations of the group `access`."""

    def list(self) -> List[schemas.AccessView]:
        """Lists the access rules: those of the file in the node's home, then those of the state."""
        return self._send(Call[List[schemas.AccessView]]("GET", "/api/v1/access", twice=True))

    def get(self, id: str) -> schemas.AccessView:
        """Shows a rule of the state."""
        return self._send(Call[schemas.AccessView]("GET", f"/api/v1/access/{escaped(id)}", twice=True))

    def put(self, id: str, body: schemas.NewAccess) -> schemas.AccessView:
        """Adds or replaces a rule of the state. The rule takes effect at once."""
        return self._send(Call[schemas.AccessView]("PUT", f"/api/v1/access/{escaped(id)}", body=body, twice=True))

    def remove(self, id: str) -> None:
        """Removes a rule of the state. Transfers that it alone allowed end."""
        return self._send(Call[None]("DELETE", f"/api/v1/access/{escaped(id)}", twice=True))


class AsyncAccess(AsyncGroup):
    """The operations of the group `access`."""

    async def list(self) -> List[schemas.AccessView]:
        """Lists the access rules: those of the file in the node's home, then those of the state."""
        return await self._send(Call[List[schemas.AccessView]]("GET", "/api/v1/access", twice=True))

    async def get(self, id: str) -> schemas.AccessView:
        """Shows a rule of the state."""
        return await self._send(Call[schemas.AccessView]("GET", f"/api/v1/access/{escaped(id)}", twice=True))

    async def put(self, id: str, body: schemas.NewAccess) -> schemas.AccessView:
        """Adds or replaces a rule of the state. The rule takes effect at once."""
        return await self._send(Call[schemas.AccessView]("PUT", f"/api/v1/access/{escaped(id)}", body=body, twice=True))

    async def remove(self, id: str) -> None:
        """Removes a rule of the state. Transfers that it alone allowed end."""
        return await self._send(Call[None]("DELETE", f"/api/v1/access/{escaped(id)}", twice=True))
