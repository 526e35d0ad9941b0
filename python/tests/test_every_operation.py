"""A real node knows the route, the method and the form of each operation."""

from __future__ import annotations

import anyio
import pytest

import godwit

JOB = {"sources": ["here:/data/a"], "destination": "here:/data/b"}

# Each operation but those of jobs and places, which have their own tests below, in an order in which most of them succeed.
CALLS = [
    ("users.put", ["ada", {"role": "operator", "password": "a long enough password"}], {}),
    ("users.list", [], {}),
    ("users.get", ["ada"], {}),
    ("tokens.login", [{"user": "ada", "password": "a long enough password"}], {}),
    ("tokens.create", [{"role": "viewer", "comment": "a test", "user": "ada"}], {}),
    ("tokens.list", [], {}),
    ("tokens.revoke", ["0"], {}),
    ("account.get", [], {}),
    ("account.set_password", [{"current": "x", "new": "another long password"}], {}),
    ("account.end_sessions", [], {"made": False}),
    ("access.put", ["one", {"subject": "user:ada", "export": "data", "rights": ["read"]}], {}),
    ("access.get", ["one"], {}),
    ("access.list", [], {}),
    ("access.remove", ["one"], {}),
    ("audit.list", [], {"limit": 3}),
    ("cluster.get", [], {}),
    ("cluster.invite", [{"seconds": 60}], {}),
    ("cluster.invites", [], {}),
    ("cluster.revoke_invite", ["nosuch"], {}),
    ("cluster.change_node", ["nosuch", {"draining": True}], {}),
    ("cluster.remove_node", ["nosuch"], {"force": True}),
    ("exports.list", [], {}),
    ("limits.put", ["node", "node", {"rate": "1GB/s", "jobs_max": 4}], {}),
    ("limits.list", [], {}),
    ("limits.remove", ["node", "node"], {}),
    ("node.get", [], {}),
    ("node.rates", [], {}),
    ("node.settings", [], {"command": "cp"}),
    ("node.health", [], {}),
    ("node.ready", [], {}),
    ("node.metrics", [], {}),
    ("schedules.put", ["nightly", {"cron": "0 22 * * *", "job": JOB, "disabled": True}], {}),
    ("schedules.list", [], {}),
    ("schedules.remove", ["nightly"], {}),
    ("shares.put", ["ada", {"weight": 3}], {}),
    ("shares.list", [], {}),
    ("shares.remove", ["ada"], {}),
    ("sites.put", ["siteC", {"addresses": ["127.0.0.1:9"], "identity": None}], {}),
    ("sites.get", ["siteC"], {}),
    ("sites.list", [], {}),
    ("sites.remove", ["siteC"], {}),
    ("webhooks.put", ["chat", {"url": "https://127.0.0.1:9/", "events": ["failed"], "disabled": True}], {}),
    ("webhooks.list", [], {}),
    ("webhooks.deliveries", ["chat"], {}),
    ("webhooks.remove", ["chat"], {}),
    ("places.mkdir", [{"place": "here:/data/made/deep", "parents": True}], {}),
    ("places.list", ["here:/data/made"], {"limit": 3}),
    ("places.stat", ["here:/data/made"], {}),
    ("places.space", ["here:/"], {}),
    ("places.rename", [{"from": "here:/data/made/deep", "to": "here:/data/made/other"}], {}),
    ("buffer.get", [], {}),
    ("buffer.files", ["here:/data/made"], {"limit": 3}),
    ("buffer.keep", [{"place": "here:/data/made", "seconds": 60}], {}),
    ("buffer.drop", [{"place": "here:/data/made"}], {}),
    ("buffer.retry", [{"place": "here:/data/made"}], {}),
    ("places.clean", [{"place": "here:/data/made", "dry_run": True}], {}),
    ("places.remove", [{"place": "here:/data/made", "recursive": True}], {}),
    ("flows.put", ["night", {"hops": [JOB], "paused": True}], {}),
    ("flows.list", [], {}),
    ("flows.remove", ["night"], {}),
    ("users.remove", ["ada"], {}),
]
OF_A_JOB = [
    ("get", []),
    ("change", [{"priority": 1}]),
    ("attempts", []),
    ("cancel", [{"comment": "a test"}]),
    ("description", []),
    ("failures", []),
    ("log", []),
    ("manifest", []),
    ("pause", []),
    ("report", []),
    ("report_html", []),
    ("resume", []),
    ("retry", []),
    ("samples", []),
    ("work", []),
]
# Operations that are refused here, because their object does not exist, and the code of each refusal.
REFUSED = {
    "tokens.revoke": "not_found",
    "account.set_password": "no_password",
    "cluster.change_node": "not_found",
    "cluster.remove_node": "invalid",
    "cluster.revoke_invite": "not_found",
}


def call(client, name, arguments, options):
    group, method = name.split(".")
    return getattr(getattr(client, group), method)(*arguments, **options)


def test_the_tables_name_each_operation():
    from test_generated import NAMES

    named = {name for name, _, _ in CALLS} | {f"jobs.{name}" for name, _ in OF_A_JOB} | {"jobs.list", "jobs.create"}
    assert named == set(NAMES.values())


def test_a_node_understands_each_operation(own_node):
    identity = own_node.command("id")
    with own_node.client() as client:
        for name, arguments, options in CALLS:
            given = [{**one, "identity": identity} if isinstance(one, dict) and "identity" in one else one for one in arguments]
            try:
                call(client, name, given, options)
            except godwit.RefusedError as refused:
                assert refused.code == REFUSED.get(name), (name, refused)
        job = client.jobs.create(JOB)["id"]
        assert client.jobs.list(id=job, state=["queued", "scanning", "running", "failed"], limit=3)["jobs"]
        for name, arguments in OF_A_JOB:
            try:
                call(client, f"jobs.{name}", [job, *arguments], {})
            except godwit.RefusedError as refused:
                assert refused.code in ("forbidden_transition", "no_manifest", "not_divided"), (name, refused)


def test_a_node_understands_each_operation_of_the_client_that_awaits(own_node):
    async def walk():
        async with godwit.AsyncClient(socket=own_node.socket) as client:
            for name, arguments, options in CALLS:
                if not arguments:
                    assert await call(client, name, arguments, options) is not None or name == "account.end_sessions"

    anyio.run(walk)


@pytest.mark.parametrize("group", ["users", "sites", "limits"])
def test_a_second_removal_is_refused(own_node, group):
    arguments = ["node", "node"] if group == "limits" else ["nosuch"]
    with own_node.client() as client, pytest.raises(godwit.RefusedError) as refused:
        call(client, f"{group}.remove", arguments, {})
    assert refused.value.status == 404
