//! The table of operations and subjects: the status of each answer.
//! Sends nothing.

use super::SUBJECTS;

pub(super) struct Row {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// The body of the request; empty is none.
    pub(super) body: &'static str,
    pub(super) statuses: [u16; SUBJECTS.len()],
}

/// A row from the four columns of known subjects. All others are refused, as is a page of another origin, which the browser names.
const fn known(
    method: &'static str,
    path: &'static str,
    body: &'static str,
    [viewer, operator, other, admin]: [u16; 4],
) -> Row {
    Row {
        method,
        path,
        body,
        statuses: [
            401, 401, 401, 401, 403, 403, 403, viewer, operator, other, admin,
        ],
    }
}

const fn row(
    method: &'static str,
    path: &'static str,
    body: &'static str,
    statuses: [u16; SUBJECTS.len()],
) -> Row {
    Row {
        method,
        path,
        body,
        statuses,
    }
}

pub(super) const JOB: &str = r#"{"sources":["here:/data/a"],"destination":"here:/data/copy/","not_before":"2100-01-01T00:00:00Z"}"#;
pub(super) const SCHEDULE: &str = r#"{"cron":"0 2 1 1 *","time_zone":"UTC","job":{"sources":["here:/data/a"],"destination":"here:/data/copy/"}}"#;
pub(super) const FLOW: &str =
    r#"{"hops":[{"sources":["here:/data/a"],"destination":"here:/data/copy/"}],"paused":true}"#;
pub(super) const SITE: &str = r#"{"addresses":["192.0.2.1"],"identity":"gw1-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"#;
pub(super) const RULE: &str = r#"{"subject":"user:uma","export":"data","rights":["read"]}"#;
pub(super) const HOOK: &str = r#"{"url":"https://192.0.2.1/hook","events":[]}"#;
const LOGIN: &str = r#"{"user":"paula","password":"correct horse"}"#;

/// All subjects are admitted.
const ANY: [u16; SUBJECTS.len()] = [200; SUBJECTS.len()];

pub(super) const TABLE: &[Row] = &[
    known("GET", "/api/v1/access", "", [403, 403, 403, 200]),
    known("GET", "/api/v1/access/{id}", "", [403, 403, 403, 200]),
    known("PUT", "/api/v1/access/{id}", RULE, [403, 403, 403, 200]),
    known("DELETE", "/api/v1/access/{id}", "", [403, 403, 403, 204]),
    known("GET", "/api/v1/account", "", [200, 200, 200, 200]),
    // None of them has a password.
    known(
        "PUT",
        "/api/v1/account/password",
        r#"{"current":"wrong horse","new":"correct horse"}"#,
        [403, 409, 409, 409],
    ),
    known("DELETE", "/api/v1/account/tokens", "", [403, 204, 204, 204]),
    known("GET", "/api/v1/audit", "", [403, 403, 403, 200]),
    known("GET", "/api/v1/buffer", "", [200, 200, 200, 200]),
    known(
        "POST",
        "/api/v1/buffer/drop",
        r#"{"place":"here:/data/a"}"#,
        [403, 200, 403, 200],
    ),
    known(
        "GET",
        "/api/v1/buffer/files?place=here:/data/a",
        "",
        [200, 200, 403, 200],
    ),
    known(
        "POST",
        "/api/v1/buffer/keep",
        r#"{"place":"here:/data/a"}"#,
        [403, 200, 403, 200],
    ),
    known(
        "POST",
        "/api/v1/buffer/retry",
        r#"{"place":"here:/data/a"}"#,
        [403, 200, 403, 200],
    ),
    known("GET", "/api/v1/cluster", "", [200, 200, 200, 200]),
    known(
        "POST",
        "/api/v1/cluster/invites",
        "{}",
        [403, 403, 403, 200],
    ),
    known("GET", "/api/v1/cluster/invites", "", [403, 403, 403, 200]),
    known(
        "DELETE",
        "/api/v1/cluster/invites/{id}",
        "",
        [403, 403, 403, 204],
    ),
    known(
        "PATCH",
        "/api/v1/cluster/nodes/{name}",
        r#"{"draining":true}"#,
        [403, 403, 403, 200],
    ),
    known(
        "DELETE",
        "/api/v1/cluster/nodes/{name}",
        "",
        [403, 403, 403, 204],
    ),
    known(
        "GET",
        "/api/v1/events?job={id}&limit=1",
        "",
        [200, 200, 200, 200],
    ),
    known("GET", "/api/v1/exports", "", [200, 200, 200, 200]),
    known("GET", "/api/v1/flows", "", [200, 200, 200, 200]),
    known("PUT", "/api/v1/flows/{id}", FLOW, [403, 200, 403, 200]),
    known("DELETE", "/api/v1/flows/{id}", "", [403, 204, 403, 204]),
    known("GET", "/api/v1/jobs", "", [200, 200, 200, 200]),
    known("POST", "/api/v1/jobs", JOB, [403, 201, 403, 201]),
    known("GET", "/api/v1/jobs/{id}", "", [200, 200, 200, 200]),
    known(
        "PATCH",
        "/api/v1/jobs/{id}",
        r#"{"priority":1}"#,
        [403, 200, 403, 200],
    ),
    known(
        "GET",
        "/api/v1/jobs/{id}/attempts",
        "",
        [200, 200, 200, 200],
    ),
    known(
        "POST",
        "/api/v1/jobs/{id}/cancel",
        "{}",
        [403, 200, 403, 200],
    ),
    known(
        "GET",
        "/api/v1/jobs/{id}/description",
        "",
        [200, 200, 200, 200],
    ),
    known(
        "GET",
        "/api/v1/jobs/{id}/failures",
        "",
        [200, 200, 200, 200],
    ),
    known("GET", "/api/v1/jobs/{id}/log", "", [200, 200, 403, 200]),
    known(
        "GET",
        "/api/v1/jobs/{id}/manifest",
        "",
        [404, 404, 403, 404],
    ),
    known("POST", "/api/v1/jobs/{id}/pause", "", [403, 200, 403, 200]),
    known("GET", "/api/v1/jobs/{id}/report", "", [200, 200, 403, 200]),
    known(
        "GET",
        "/api/v1/jobs/{id}/report.html",
        "",
        [200, 200, 403, 200],
    ),
    known("POST", "/api/v1/jobs/{id}/resume", "", [403, 409, 403, 409]),
    known("POST", "/api/v1/jobs/{id}/retry", "", [403, 409, 403, 409]),
    known("GET", "/api/v1/jobs/{id}/samples", "", [200, 200, 200, 200]),
    known("GET", "/api/v1/jobs/{id}/work", "", [404, 404, 404, 404]),
    known("GET", "/api/v1/limits", "", [200, 200, 200, 200]),
    known(
        "PUT",
        "/api/v1/limits/{scope}/{name}",
        r#"{"rate":5}"#,
        [403, 403, 403, 200],
    ),
    known(
        "DELETE",
        "/api/v1/limits/{scope}/{name}",
        "",
        [403, 403, 403, 204],
    ),
    row("POST", "/api/v1/login", LOGIN, ANY),
    known("GET", "/api/v1/node", "", [200, 200, 200, 200]),
    known(
        "GET",
        "/api/v1/places?place=here:/data/",
        "",
        [200, 200, 403, 200],
    ),
    known(
        "POST",
        "/api/v1/places/clean",
        r#"{"place":"here:/data/"}"#,
        [403, 200, 403, 200],
    ),
    known(
        "POST",
        "/api/v1/places/mkdir",
        r#"{"place":"here:/data/new"}"#,
        [403, 200, 403, 200],
    ),
    known(
        "POST",
        "/api/v1/places/remove",
        r#"{"place":"here:/data/a"}"#,
        [403, 200, 403, 200],
    ),
    known(
        "POST",
        "/api/v1/places/rename",
        r#"{"from":"here:/data/a","to":"here:/data/b"}"#,
        [403, 200, 403, 200],
    ),
    known(
        "GET",
        "/api/v1/places/space?place=here:/",
        "",
        [200, 200, 200, 200],
    ),
    known(
        "GET",
        "/api/v1/places/stat?place=here:/data/a",
        "",
        [200, 200, 403, 200],
    ),
    known("GET", "/api/v1/rates", "", [200, 200, 200, 200]),
    known("GET", "/api/v1/schedules", "", [200, 200, 200, 200]),
    known(
        "PUT",
        "/api/v1/schedules/{id}",
        SCHEDULE,
        [403, 200, 403, 200],
    ),
    known("DELETE", "/api/v1/schedules/{id}", "", [403, 204, 403, 204]),
    row("GET", "/api/v1/session", "", ANY),
    row("POST", "/api/v1/session", LOGIN, ANY),
    row(
        "DELETE",
        "/api/v1/session",
        "",
        [204, 204, 204, 204, 204, 204, 403, 204, 204, 204, 204],
    ),
    known("GET", "/api/v1/settings", "", [200, 200, 200, 200]),
    known("GET", "/api/v1/shares", "", [200, 200, 200, 200]),
    known(
        "PUT",
        "/api/v1/shares/{owner}",
        r#"{"weight":2}"#,
        [403, 403, 403, 200],
    ),
    known("DELETE", "/api/v1/shares/{owner}", "", [403, 403, 403, 204]),
    known("GET", "/api/v1/sites", "", [200, 200, 200, 200]),
    known("GET", "/api/v1/sites/{name}", "", [200, 200, 200, 200]),
    known("PUT", "/api/v1/sites/{name}", SITE, [403, 403, 403, 200]),
    known("DELETE", "/api/v1/sites/{name}", "", [403, 403, 403, 204]),
    known("GET", "/api/v1/tokens", "", [403, 200, 200, 200]),
    known(
        "POST",
        "/api/v1/tokens",
        r#"{"role":"viewer","user":"otto"}"#,
        [403, 201, 403, 201],
    ),
    known("DELETE", "/api/v1/tokens/{id}", "", [403, 204, 404, 204]),
    known("GET", "/api/v1/users", "", [403, 403, 403, 200]),
    known("GET", "/api/v1/users/{name}", "", [403, 403, 403, 200]),
    known(
        "PUT",
        "/api/v1/users/{name}",
        r#"{"role":"viewer"}"#,
        [403, 403, 403, 200],
    ),
    known("DELETE", "/api/v1/users/{name}", "", [403, 403, 403, 204]),
    known("GET", "/api/v1/webhooks", "", [403, 403, 403, 200]),
    known("PUT", "/api/v1/webhooks/{id}", HOOK, [403, 403, 403, 200]),
    known("DELETE", "/api/v1/webhooks/{id}", "", [403, 403, 403, 204]),
    known(
        "GET",
        "/api/v1/webhooks/{id}/deliveries",
        "",
        [403, 403, 403, 200],
    ),
    row("GET", "/healthz", "", ANY),
    known("GET", "/metrics", "", [200, 200, 200, 200]),
    row("GET", "/readyz", "", ANY),
];
