"""Owns the operations of the group `webhooks`. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from typing import List, Optional, Union
from . import schemas
from .calling import AsyncGroup, Call, Group, escaped, new_key


class Webhooks(Group):
    """The operations of the group `webhooks`."""

    def list(self) -> List[schemas.WebhookView]:
        """Lists the webhooks, without their keys."""
        return self._send(Call[List[schemas.WebhookView]]("GET", "/api/v1/webhooks", twice=True))

    def put(self, id: str, body: schemas.NewWebhook) -> schemas.WebhookView:
        """Adds or replaces a webhook."""
        return self._send(Call[schemas.WebhookView]("PUT", f"/api/v1/webhooks/{escaped(id)}", body=body, twice=True))

    def remove(self, id: str) -> None:
        """Removes a webhook."""
        return self._send(Call[None]("DELETE", f"/api/v1/webhooks/{escaped(id)}", twice=True))

    def deliveries(self, id: str) -> List[schemas.DeliveryView]:
        """Lists the latest deliveries to a webhook, the newest first."""
        return self._send(Call[List[schemas.DeliveryView]]("GET", f"/api/v1/webhooks/{escaped(id)}/deliveries", twice=True))


class AsyncWebhooks(AsyncGroup):
    """The operations of the group `webhooks`."""

    async def list(self) -> List[schemas.WebhookView]:
        """Lists the webhooks, without their keys."""
        return await self._send(Call[List[schemas.WebhookView]]("GET", "/api/v1/webhooks", twice=True))

    async def put(self, id: str, body: schemas.NewWebhook) -> schemas.WebhookView:
        """Adds or replaces a webhook."""
        return await self._send(Call[schemas.WebhookView]("PUT", f"/api/v1/webhooks/{escaped(id)}", body=body, twice=True))

    async def remove(self, id: str) -> None:
        """Removes a webhook."""
        return await self._send(Call[None]("DELETE", f"/api/v1/webhooks/{escaped(id)}", twice=True))

    async def deliveries(self, id: str) -> List[schemas.DeliveryView]:
        """Lists the latest deliveries to a webhook, the newest first."""
        return await self._send(Call[List[schemas.DeliveryView]]("GET", f"/api/v1/webhooks/{escaped(id)}/deliveries", twice=True))
