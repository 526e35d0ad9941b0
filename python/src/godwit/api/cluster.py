"""Owns the operations of the group `cluster`. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from typing import List, Optional, Union
from . import schemas
from .calling import AsyncGroup, Call, Group, escaped, new_key


class Cluster(Group):
    """The operations of the group `cluster`."""

    def get(self) -> schemas.ClusterView:
        """Shows the cluster of the node: its leader, and all nodes with their votes and states."""
        return self._send(Call[schemas.ClusterView]("GET", "/api/v1/cluster", twice=True))

    def invites(self) -> List[schemas.ListedInvite]:
        """Lists the invitations, without their tokens."""
        return self._send(Call[List[schemas.ListedInvite]]("GET", "/api/v1/cluster/invites", twice=True))

    def invite(self, body: schemas.NewInvite) -> schemas.InviteView:
        """Makes an invitation, with which one node can join."""
        return self._send(Call[schemas.InviteView]("POST", "/api/v1/cluster/invites", body=body))

    def revoke_invite(self, id: str) -> None:
        """Revokes an invitation by which no node has joined. It admits no node from then on."""
        return self._send(Call[None]("DELETE", f"/api/v1/cluster/invites/{escaped(id)}", twice=True))

    def change_node(self, name: str, body: schemas.ChangeNode) -> schemas.ClusterView:
        """Changes a node: whether it takes jobs, and whether it votes."""
        return self._send(Call[schemas.ClusterView]("PATCH", f"/api/v1/cluster/nodes/{escaped(name)}", body=body))

    def remove_node(self, name: str, *, force: Optional[bool] = None) -> None:
        """Removes a node. Its jobs continue at other nodes."""
        return self._send(Call[None]("DELETE", f"/api/v1/cluster/nodes/{escaped(name)}", query={"force": force}, twice=True))


class AsyncCluster(AsyncGroup):
    """The operations of the group `cluster`."""

    async def get(self) -> schemas.ClusterView:
        """Shows the cluster of the node: its leader, and all nodes with their votes and states."""
        return await self._send(Call[schemas.ClusterView]("GET", "/api/v1/cluster", twice=True))

    async def invites(self) -> List[schemas.ListedInvite]:
        """Lists the invitations, without their tokens."""
        return await self._send(Call[List[schemas.ListedInvite]]("GET", "/api/v1/cluster/invites", twice=True))

    async def invite(self, body: schemas.NewInvite) -> schemas.InviteView:
        """Makes an invitation, with which one node can join."""
        return await self._send(Call[schemas.InviteView]("POST", "/api/v1/cluster/invites", body=body))

    async def revoke_invite(self, id: str) -> None:
        """Revokes an invitation by which no node has joined. It admits no node from then on."""
        return await self._send(Call[None]("DELETE", f"/api/v1/cluster/invites/{escaped(id)}", twice=True))

    async def change_node(self, name: str, body: schemas.ChangeNode) -> schemas.ClusterView:
        """Changes a node: whether it takes jobs, and whether it votes."""
        return await self._send(Call[schemas.ClusterView]("PATCH", f"/api/v1/cluster/nodes/{escaped(name)}", body=body))

    async def remove_node(self, name: str, *, force: Optional[bool] = None) -> None:
        """Removes a node. Its jobs continue at other nodes."""
        return await self._send(
            Call[None]("DELETE", f"/api/v1/cluster/nodes/{escaped(name)}", query={"force": force}, twice=True)
        )
