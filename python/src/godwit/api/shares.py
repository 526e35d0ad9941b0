"""Owns the operations of the group `shares`. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from typing import List, Optional, Union
from . import schemas
from .calling import AsyncGroup, Call, Group, escaped, new_key


class Shares(Group):
    """The operations of the group `shares`."""

    def list(self) -> List[schemas.ShareView]:
        """Lists the shares."""
        return self._send(Call[List[schemas.ShareView]]("GET", "/api/v1/shares", twice=True))

    def put(self, owner: str, body: schemas.NewShare) -> schemas.ShareView:
        """Adds or replaces an owner's share."""
        return self._send(Call[schemas.ShareView]("PUT", f"/api/v1/shares/{escaped(owner)}", body=body, twice=True))

    def remove(self, owner: str) -> None:
        """Removes an owner's share. The owner then has the weight 1."""
        return self._send(Call[None]("DELETE", f"/api/v1/shares/{escaped(owner)}", twice=True))


class AsyncShares(AsyncGroup):
    """The operations of the group `shares`."""

    async def list(self) -> List[schemas.ShareView]:
        """Lists the shares."""
        return await self._send(Call[List[schemas.ShareView]]("GET", "/api/v1/shares", twice=True))

    async def put(self, owner: str, body: schemas.NewShare) -> schemas.ShareView:
        """Adds or replaces an owner's share."""
        return await self._send(Call[schemas.ShareView]("PUT", f"/api/v1/shares/{escaped(owner)}", body=body, twice=True))

    async def remove(self, owner: str) -> None:
        """Removes an owner's share. The owner then has the weight 1."""
        return await self._send(Call[None]("DELETE", f"/api/v1/shares/{escaped(owner)}", twice=True))
