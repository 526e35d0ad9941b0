"""Owns the operations of the group `audit`. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from typing import List, Optional, Union
from . import schemas
from .calling import AsyncGroup, Call, Group, escaped, new_key


class Audit(Group):
    """The operations of the group `audit`."""

    def list(
        self,
        *,
        actor: Optional[str] = None,
        since: Optional[schemas.Timestamp] = None,
        until: Optional[schemas.Timestamp] = None,
        before: Optional[int] = None,
        limit: Optional[int] = None,
    ) -> List[schemas.AuditView]:
        """Lists audited requests with their outcomes, the newest first."""
        return self._send(
            Call[List[schemas.AuditView]](
                "GET",
                "/api/v1/audit",
                query={"actor": actor, "since": since, "until": until, "before": before, "limit": limit},
                twice=True,
            )
        )


class AsyncAudit(AsyncGroup):
    """The operations of the group `audit`."""

    async def list(
        self,
        *,
        actor: Optional[str] = None,
        since: Optional[schemas.Timestamp] = None,
        until: Optional[schemas.Timestamp] = None,
        before: Optional[int] = None,
        limit: Optional[int] = None,
    ) -> List[schemas.AuditView]:
        """Lists audited requests with their outcomes, the newest first."""
        return await self._send(
            Call[List[schemas.AuditView]](
                "GET",
                "/api/v1/audit",
                query={"actor": actor, "since": since, "until": until, "before": before, "limit": limit},
                twice=True,
            )
        )
