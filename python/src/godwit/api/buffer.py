"""Owns the operations of the group `buffer`. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from typing import List, Optional, Union
from . import schemas
from .calling import AsyncGroup, Call, Group, escaped, new_key


class Buffer(Group):
    """The operations of the group `buffer`."""

    def get(self) -> schemas.BufferView:
        """Shows the transfer buffer of this node, and a row for each node of its cluster."""
        return self._send(Call[schemas.BufferView]("GET", "/api/v1/buffer", twice=True))

    def drop(self, body: schemas.DropFromBuffer) -> schemas.BufferChanged:
        """Lets files leave the buffers of the cluster."""
        return self._send(Call[schemas.BufferChanged]("POST", "/api/v1/buffer/drop", body=body))

    def files(
        self, place: str, *, cursor: Optional[str] = None, limit: Optional[int] = None, waiting: Optional[bool] = None
    ) -> schemas.BufferFiles:
        """Lists the files in the buffers of the cluster at and below a place."""
        return self._send(
            Call[schemas.BufferFiles](
                "GET",
                "/api/v1/buffer/files",
                query={"place": place, "cursor": cursor, "limit": limit, "waiting": waiting},
                twice=True,
            )
        )

    def keep(self, body: schemas.KeepInBuffer) -> schemas.BufferChanged:
        """Sets how long files stay in the buffers of the cluster."""
        return self._send(Call[schemas.BufferChanged]("POST", "/api/v1/buffer/keep", body=body))

    def retry(self, body: schemas.RetryDrain) -> schemas.BufferChanged:
        """Tries files again that have arrived, and could not go to their export, at all nodes of the cluster."""
        return self._send(Call[schemas.BufferChanged]("POST", "/api/v1/buffer/retry", body=body))


class AsyncBuffer(AsyncGroup):
    """The operations of the group `buffer`."""

    async def get(self) -> schemas.BufferView:
        """Shows the transfer buffer of this node, and a row for each node of its cluster."""
        return await self._send(Call[schemas.BufferView]("GET", "/api/v1/buffer", twice=True))

    async def drop(self, body: schemas.DropFromBuffer) -> schemas.BufferChanged:
        """Lets files leave the buffers of the cluster."""
        return await self._send(Call[schemas.BufferChanged]("POST", "/api/v1/buffer/drop", body=body))

    async def files(
        self, place: str, *, cursor: Optional[str] = None, limit: Optional[int] = None, waiting: Optional[bool] = None
    ) -> schemas.BufferFiles:
        """Lists the files in the buffers of the cluster at and below a place."""
        return await self._send(
            Call[schemas.BufferFiles](
                "GET",
                "/api/v1/buffer/files",
                query={"place": place, "cursor": cursor, "limit": limit, "waiting": waiting},
                twice=True,
            )
        )

    async def keep(self, body: schemas.KeepInBuffer) -> schemas.BufferChanged:
        """Sets how long files stay in the buffers of the cluster."""
        return await self._send(Call[schemas.BufferChanged]("POST", "/api/v1/buffer/keep", body=body))

    async def retry(self, body: schemas.RetryDrain) -> schemas.BufferChanged:
        """Tries files again that have arrived, and could not go to their export, at all nodes of the cluster."""
        return await self._send(Call[schemas.BufferChanged]("POST", "/api/v1/buffer/retry", body=body))
