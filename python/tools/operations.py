"""Owns the names that the client gives to the operations of the API, and the table of those that it leaves out."""

from __future__ import annotations

# The name of each operation: its group and its method.
NAMES = {
    "get_access": "access.list",
    "get_access_id": "access.get",
    "put_access_id": "access.put",
    "delete_access_id": "access.remove",
    "get_account": "account.get",
    "put_account_password": "account.set_password",
    "delete_account_tokens": "account.end_sessions",
    "get_audit": "audit.list",
    "get_buffer": "buffer.get",
    "post_buffer_drop": "buffer.drop",
    "get_buffer_files": "buffer.files",
    "post_buffer_keep": "buffer.keep",
    "get_cluster": "cluster.get",
    "get_cluster_invites": "cluster.invites",
    "post_cluster_invites": "cluster.invite",
    "delete_cluster_invites_id": "cluster.revoke_invite",
    "delete_cluster_nodes_name": "cluster.remove_node",
    "patch_cluster_nodes_name": "cluster.change_node",
    "get_exports": "exports.list",
    "get_jobs": "jobs.list",
    "post_jobs": "jobs.create",
    "get_jobs_id": "jobs.get",
    "patch_jobs_id": "jobs.change",
    "get_jobs_id_attempts": "jobs.attempts",
    "post_jobs_id_cancel": "jobs.cancel",
    "get_jobs_id_description": "jobs.description",
    "get_jobs_id_failures": "jobs.failures",
    "get_jobs_id_log": "jobs.log",
    "get_jobs_id_manifest": "jobs.manifest",
    "post_jobs_id_pause": "jobs.pause",
    "get_jobs_id_report": "jobs.report",
    "get_jobs_id_report_html": "jobs.report_html",
    "post_jobs_id_resume": "jobs.resume",
    "post_jobs_id_retry": "jobs.retry",
    "get_jobs_id_samples": "jobs.samples",
    "get_jobs_id_work": "jobs.work",
    "get_limits": "limits.list",
    "put_limits_scope_name": "limits.put",
    "delete_limits_scope_name": "limits.remove",
    "post_login": "tokens.login",
    "get_node": "node.get",
    "get_places": "places.list",
    "post_places_clean": "places.clean",
    "post_places_mkdir": "places.mkdir",
    "post_places_remove": "places.remove",
    "post_places_rename": "places.rename",
    "get_places_space": "places.space",
    "get_places_stat": "places.stat",
    "get_rates": "node.rates",
    "get_schedules": "schedules.list",
    "put_schedules_id": "schedules.put",
    "delete_schedules_id": "schedules.remove",
    "get_settings": "node.settings",
    "get_shares": "shares.list",
    "put_shares_owner": "shares.put",
    "delete_shares_owner": "shares.remove",
    "get_sites": "sites.list",
    "get_sites_name": "sites.get",
    "put_sites_name": "sites.put",
    "delete_sites_name": "sites.remove",
    "get_tokens": "tokens.list",
    "post_tokens": "tokens.create",
    "delete_tokens_id": "tokens.revoke",
    "get_users": "users.list",
    "get_users_name": "users.get",
    "put_users_name": "users.put",
    "delete_users_name": "users.remove",
    "get_webhooks": "webhooks.list",
    "put_webhooks_id": "webhooks.put",
    "delete_webhooks_id": "webhooks.remove",
    "get_webhooks_id_deliveries": "webhooks.deliveries",
    "get_healthz": "node.health",
    "get_readyz": "node.ready",
    "get_metrics": "node.metrics",
}

# Operations that a module of the client makes by hand.
BY_HAND = {
    "get_events": "godwit.events: an iterator over a stream that resumes",
}

# Operations that the client does not have, and why.
LEFT_OUT = {
    "get_session": "sessions are for the page of a node in a browser; programs have tokens",
    "post_session": "sessions are for the page of a node in a browser; programs have tokens",
    "delete_session": "sessions are for the page of a node in a browser; programs have tokens",
}

# GET, PUT and DELETE may be sent twice. These may not.
NOT_TWICE = {
    "put_account_password": "the second request proves itself by the old password",
}
