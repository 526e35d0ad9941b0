"""Owns the operations of the group `tokens`. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from typing import List, Optional, Union
from . import schemas
from .calling import AsyncGroup, Call, Group, escaped, new_key


class Tokens(Group):
    """The operations of the group `tokens`."""

    def login(self, body: schemas.Login) -> schemas.TokenCreated:
        """Makes a token for one working day from a user's password."""
        return self._send(Call[schemas.TokenCreated]("POST", "/api/v1/login", body=body))

    def list(self) -> List[schemas.TokenView]:
        """Lists the caller's tokens. For an admin, lists all tokens."""
        return self._send(Call[List[schemas.TokenView]]("GET", "/api/v1/tokens", twice=True))

    def create(self, body: schemas.NewToken) -> schemas.TokenCreated:
        """Makes a token. Only this answer contains its secret."""
        return self._send(Call[schemas.TokenCreated]("POST", "/api/v1/tokens", body=body))

    def revoke(self, id: str) -> None:
        """Revokes a token. Requests with it, or with a token that came from it, are refused from then on."""
        return self._send(Call[None]("DELETE", f"/api/v1/tokens/{escaped(id)}", twice=True))


class AsyncTokens(AsyncGroup):
    """The operations of the group `tokens`."""

    async def login(self, body: schemas.Login) -> schemas.TokenCreated:
        """Makes a token for one working day from a user's password."""
        return await self._send(Call[schemas.TokenCreated]("POST", "/api/v1/login", body=body))

    async def list(self) -> List[schemas.TokenView]:
        """Lists the caller's tokens. For an admin, lists all tokens."""
        return await self._send(Call[List[schemas.TokenView]]("GET", "/api/v1/tokens", twice=True))

    async def create(self, body: schemas.NewToken) -> schemas.TokenCreated:
        """Makes a token. Only this answer contains its secret."""
        return await self._send(Call[schemas.TokenCreated]("POST", "/api/v1/tokens", body=body))

    async def revoke(self, id: str) -> None:
        """Revokes a token. Requests with it, or with a token that came from it, are refused from then on."""
        return await self._send(Call[None]("DELETE", f"/api/v1/tokens/{escaped(id)}", twice=True))
