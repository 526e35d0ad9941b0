"""Owns the operations of the API as typed methods. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from . import (
    access,
    account,
    audit,
    buffer,
    cluster,
    exports,
    flows,
    jobs,
    limits,
    node,
    places,
    schedules,
    shares,
    sites,
    tokens,
    users,
    webhooks,
)
from .calling import AsyncSender, Sender


class Groups:
    """The groups of operations of a client."""

    def __init__(self, sender: Sender) -> None:
        self.access = access.Access(sender)
        self.account = account.Account(sender)
        self.audit = audit.Audit(sender)
        self.buffer = buffer.Buffer(sender)
        self.cluster = cluster.Cluster(sender)
        self.exports = exports.Exports(sender)
        self.flows = flows.Flows(sender)
        self.jobs = jobs.Jobs(sender)
        self.limits = limits.Limits(sender)
        self.node = node.Node(sender)
        self.places = places.Places(sender)
        self.schedules = schedules.Schedules(sender)
        self.shares = shares.Shares(sender)
        self.sites = sites.Sites(sender)
        self.tokens = tokens.Tokens(sender)
        self.users = users.Users(sender)
        self.webhooks = webhooks.Webhooks(sender)


class AsyncGroups:
    """The groups of operations of a client."""

    def __init__(self, sender: AsyncSender) -> None:
        self.access = access.AsyncAccess(sender)
        self.account = account.AsyncAccount(sender)
        self.audit = audit.AsyncAudit(sender)
        self.buffer = buffer.AsyncBuffer(sender)
        self.cluster = cluster.AsyncCluster(sender)
        self.exports = exports.AsyncExports(sender)
        self.flows = flows.AsyncFlows(sender)
        self.jobs = jobs.AsyncJobs(sender)
        self.limits = limits.AsyncLimits(sender)
        self.node = node.AsyncNode(sender)
        self.places = places.AsyncPlaces(sender)
        self.schedules = schedules.AsyncSchedules(sender)
        self.shares = shares.AsyncShares(sender)
        self.sites = sites.AsyncSites(sender)
        self.tokens = tokens.AsyncTokens(sender)
        self.users = users.AsyncUsers(sender)
        self.webhooks = webhooks.AsyncWebhooks(sender)
