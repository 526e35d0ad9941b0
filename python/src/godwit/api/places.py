"""Owns the operations of the group `places`. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from typing import List, Optional, Union
from . import schemas
from .calling import AsyncGroup, Call, Group, escaped, new_key


class Places(Group):
    """The operations of the group `places`."""

    def list(self, place: str, *, cursor: Optional[str] = None, limit: Optional[int] = None) -> schemas.Listing:
        """Lists a directory, sorted by the bytes of the names."""
        return self._send(
            Call[schemas.Listing]("GET", "/api/v1/places", query={"place": place, "cursor": cursor, "limit": limit}, twice=True)
        )

    def clean(self, body: schemas.CleanEntries) -> schemas.Cleaned:
        """Removes temporary files that no journal claims, or those of one job."""
        return self._send(Call[schemas.Cleaned]("POST", "/api/v1/places/clean", body=body))

    def mkdir(self, body: schemas.NewDirectory) -> schemas.EntryView:
        """Makes a directory."""
        return self._send(Call[schemas.EntryView]("POST", "/api/v1/places/mkdir", body=body))

    def remove(self, body: schemas.RemoveEntry) -> schemas.Removed:
        """Removes an entry. The removal stops early when its client closes the connection."""
        return self._send(Call[schemas.Removed]("POST", "/api/v1/places/remove", body=body))

    def rename(self, body: schemas.RenameEntry) -> schemas.EntryView:
        """Renames an entry within its export."""
        return self._send(Call[schemas.EntryView]("POST", "/api/v1/places/rename", body=body))

    def space(self, place: str, *, identity: Optional[str] = None) -> List[schemas.ExportRoom]:
        """Lists the exports of a site with their free space, or only the export of the place. At another site only the usable exports are listed."""
        return self._send(
            Call[List[schemas.ExportRoom]](
                "GET", "/api/v1/places/space", query={"place": place, "identity": identity}, twice=True
            )
        )

    def stat(self, place: str) -> schemas.EntryView:
        """Shows one entry."""
        return self._send(Call[schemas.EntryView]("GET", "/api/v1/places/stat", query={"place": place}, twice=True))


class AsyncPlaces(AsyncGroup):
    """The operations of the group `places`."""

    async def list(self, place: str, *, cursor: Optional[str] = None, limit: Optional[int] = None) -> schemas.Listing:
        """Lists a directory, sorted by the bytes of the names."""
        return await self._send(
            Call[schemas.Listing]("GET", "/api/v1/places", query={"place": place, "cursor": cursor, "limit": limit}, twice=True)
        )

    async def clean(self, body: schemas.CleanEntries) -> schemas.Cleaned:
        """Removes temporary files that no journal claims, or those of one job."""
        return await self._send(Call[schemas.Cleaned]("POST", "/api/v1/places/clean", body=body))

    async def mkdir(self, body: schemas.NewDirectory) -> schemas.EntryView:
        """Makes a directory."""
        return await self._send(Call[schemas.EntryView]("POST", "/api/v1/places/mkdir", body=body))

    async def remove(self, body: schemas.RemoveEntry) -> schemas.Removed:
        """Removes an entry. The removal stops early when its client closes the connection."""
        return await self._send(Call[schemas.Removed]("POST", "/api/v1/places/remove", body=body))

    async def rename(self, body: schemas.RenameEntry) -> schemas.EntryView:
        """Renames an entry within its export."""
        return await self._send(Call[schemas.EntryView]("POST", "/api/v1/places/rename", body=body))

    async def space(self, place: str, *, identity: Optional[str] = None) -> List[schemas.ExportRoom]:
        """Lists the exports of a site with their free space, or only the export of the place. At another site only the usable exports are listed."""
        return await self._send(
            Call[List[schemas.ExportRoom]](
                "GET", "/api/v1/places/space", query={"place": place, "identity": identity}, twice=True
            )
        )

    async def stat(self, place: str) -> schemas.EntryView:
        """Shows one entry."""
        return await self._send(Call[schemas.EntryView]("GET", "/api/v1/places/stat", query={"place": place}, twice=True))
