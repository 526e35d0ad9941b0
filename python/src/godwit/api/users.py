"""Owns the operations of the group `users`. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from typing import List, Optional, Union
from . import schemas
from .calling import AsyncGroup, Call, Group, escaped, new_key


class Users(Group):
    """The operations of the group `users`."""

    def list(self) -> List[schemas.UserView]:
        """Lists the users."""
        return self._send(Call[List[schemas.UserView]]("GET", "/api/v1/users", twice=True))

    def get(self, name: str) -> schemas.UserView:
        """Shows a user."""
        return self._send(Call[schemas.UserView]("GET", f"/api/v1/users/{escaped(name)}", twice=True))

    def put(self, name: str, body: schemas.NewUser) -> schemas.UserView:
        """Adds or replaces a user. Without a password, the user keeps the old one. A new password ends the sessions of the user."""
        return self._send(Call[schemas.UserView]("PUT", f"/api/v1/users/{escaped(name)}", body=body, twice=True))

    def remove(self, name: str) -> None:
        """Removes a user, with the tokens and the unfinished jobs of the user."""
        return self._send(Call[None]("DELETE", f"/api/v1/users/{escaped(name)}", twice=True))


class AsyncUsers(AsyncGroup):
    """The operations of the group `users`."""

    async def list(self) -> List[schemas.UserView]:
        """Lists the users."""
        return await self._send(Call[List[schemas.UserView]]("GET", "/api/v1/users", twice=True))

    async def get(self, name: str) -> schemas.UserView:
        """Shows a user."""
        return await self._send(Call[schemas.UserView]("GET", f"/api/v1/users/{escaped(name)}", twice=True))

    async def put(self, name: str, body: schemas.NewUser) -> schemas.UserView:
        """Adds or replaces a user. Without a password, the user keeps the old one. A new password ends the sessions of the user."""
        return await self._send(Call[schemas.UserView]("PUT", f"/api/v1/users/{escaped(name)}", body=body, twice=True))

    async def remove(self, name: str) -> None:
        """Removes a user, with the tokens and the unfinished jobs of the user."""
        return await self._send(Call[None]("DELETE", f"/api/v1/users/{escaped(name)}", twice=True))
