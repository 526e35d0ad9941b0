"""Owns the operations of the group `account`. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from typing import List, Optional, Union
from . import schemas
from .calling import AsyncGroup, Call, Group, escaped, new_key


class Account(Group):
    """The operations of the group `account`."""

    def get(self) -> schemas.AccountView:
        """Shows the account of the caller, with its valid sessions, log-ins and tokens."""
        return self._send(Call[schemas.AccountView]("GET", "/api/v1/account", twice=True))

    def set_password(self, body: schemas.NewPassword) -> None:
        """Changes the caller's password. All other sessions and log-ins of the user end."""
        return self._send(Call[None]("PUT", "/api/v1/account/password", body=body))

    def end_sessions(self, *, made: Optional[bool] = None) -> None:
        """Ends all sessions and log-ins of the caller, except that of the request and its parents."""
        return self._send(Call[None]("DELETE", "/api/v1/account/tokens", query={"made": made}, twice=True))


class AsyncAccount(AsyncGroup):
    """The operations of the group `account`."""

    async def get(self) -> schemas.AccountView:
        """Shows the account of the caller, with its valid sessions, log-ins and tokens."""
        return await self._send(Call[schemas.AccountView]("GET", "/api/v1/account", twice=True))

    async def set_password(self, body: schemas.NewPassword) -> None:
        """Changes the caller's password. All other sessions and log-ins of the user end."""
        return await self._send(Call[None]("PUT", "/api/v1/account/password", body=body))

    async def end_sessions(self, *, made: Optional[bool] = None) -> None:
        """Ends all sessions and log-ins of the caller, except that of the request and its parents."""
        return await self._send(Call[None]("DELETE", "/api/v1/account/tokens", query={"made": made}, twice=True))
