"""Owns the operations of the group `sites`. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from typing import List, Optional, Union
from . import schemas
from .calling import AsyncGroup, Call, Group, escaped, new_key


class Sites(Group):
    """The operations of the group `sites`."""

    def list(self) -> List[schemas.SiteView]:
        """Lists the sites."""
        return self._send(Call[List[schemas.SiteView]]("GET", "/api/v1/sites", twice=True))

    def get(self, name: str) -> schemas.SiteView:
        """Shows a site."""
        return self._send(Call[schemas.SiteView]("GET", f"/api/v1/sites/{escaped(name)}", twice=True))

    def put(self, name: str, body: schemas.NewSite) -> schemas.SiteView:
        """Adds or replaces a site."""
        return self._send(Call[schemas.SiteView]("PUT", f"/api/v1/sites/{escaped(name)}", body=body, twice=True))

    def remove(self, name: str) -> None:
        """Removes a site. Jobs that name it fail at their next attempt."""
        return self._send(Call[None]("DELETE", f"/api/v1/sites/{escaped(name)}", twice=True))


class AsyncSites(AsyncGroup):
    """The operations of the group `sites`."""

    async def list(self) -> List[schemas.SiteView]:
        """Lists the sites."""
        return await self._send(Call[List[schemas.SiteView]]("GET", "/api/v1/sites", twice=True))

    async def get(self, name: str) -> schemas.SiteView:
        """Shows a site."""
        return await self._send(Call[schemas.SiteView]("GET", f"/api/v1/sites/{escaped(name)}", twice=True))

    async def put(self, name: str, body: schemas.NewSite) -> schemas.SiteView:
        """Adds or replaces a site."""
        return await self._send(Call[schemas.SiteView]("PUT", f"/api/v1/sites/{escaped(name)}", body=body, twice=True))

    async def remove(self, name: str) -> None:
        """Removes a site. Jobs that name it fail at their next attempt."""
        return await self._send(Call[None]("DELETE", f"/api/v1/sites/{escaped(name)}", twice=True))
