"""Owns the operations of the group `schedules`. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from typing import List, Optional, Union
from . import schemas
from .calling import AsyncGroup, Call, Group, escaped, new_key


class Schedules(Group):
    """The operations of the group `schedules`."""

    def list(self) -> List[schemas.ScheduleView]:
        """Lists the schedules."""
        return self._send(Call[List[schemas.ScheduleView]]("GET", "/api/v1/schedules", twice=True))

    def put(self, id: str, body: schemas.NewSchedule) -> schemas.ScheduleView:
        """Adds or replaces a schedule. The caller owns a new one and its jobs."""
        return self._send(Call[schemas.ScheduleView]("PUT", f"/api/v1/schedules/{escaped(id)}", body=body, twice=True))

    def remove(self, id: str) -> None:
        """Removes a schedule. Jobs that it submitted stay."""
        return self._send(Call[None]("DELETE", f"/api/v1/schedules/{escaped(id)}", twice=True))


class AsyncSchedules(AsyncGroup):
    """The operations of the group `schedules`."""

    async def list(self) -> List[schemas.ScheduleView]:
        """Lists the schedules."""
        return await self._send(Call[List[schemas.ScheduleView]]("GET", "/api/v1/schedules", twice=True))

    async def put(self, id: str, body: schemas.NewSchedule) -> schemas.ScheduleView:
        """Adds or replaces a schedule. The caller owns a new one and its jobs."""
        return await self._send(Call[schemas.ScheduleView]("PUT", f"/api/v1/schedules/{escaped(id)}", body=body, twice=True))

    async def remove(self, id: str) -> None:
        """Removes a schedule. Jobs that it submitted stay."""
        return await self._send(Call[None]("DELETE", f"/api/v1/schedules/{escaped(id)}", twice=True))
