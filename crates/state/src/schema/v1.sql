-- Version 1 of state.db.

-- One row: the last command of the log that is in this file, and who votes.
CREATE TABLE applied (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    log_index INTEGER NOT NULL,
    position TEXT NOT NULL,
    membership TEXT NOT NULL
);

CREATE TABLE jobs (
    id TEXT PRIMARY KEY NOT NULL,
    created INTEGER NOT NULL,
    owner TEXT NOT NULL,
    label TEXT NOT NULL,
    state TEXT NOT NULL,
    reason_code TEXT,
    reason_text TEXT,
    since INTEGER NOT NULL,
    next_attempt INTEGER,
    priority INTEGER NOT NULL,
    rate_limit INTEGER,
    not_before INTEGER,
    deadline INTEGER,
    due INTEGER NOT NULL,
    retry TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    runner_node TEXT,
    runner_instance TEXT,
    idempotency_key TEXT,
    started INTEGER,
    ended INTEGER,
    summary TEXT,
    schedule TEXT,
    sources TEXT NOT NULL,
    destination TEXT NOT NULL
) WITHOUT ROWID;

CREATE INDEX jobs_page ON jobs (created DESC, id DESC, state, owner, label);
CREATE INDEX jobs_state ON jobs (state, created DESC, id DESC, owner, label);
CREATE INDEX jobs_owner ON jobs (owner, created DESC, id DESC, state, label);
CREATE UNIQUE INDEX jobs_key ON jobs (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_due ON jobs (priority DESC, created, id, due, owner) WHERE state IN ('queued', 'scheduled');
CREATE INDEX jobs_wake ON jobs (due) WHERE state IN ('queued', 'scheduled');
CREATE INDEX jobs_deadline ON jobs (deadline) WHERE deadline IS NOT NULL AND ended IS NULL;
CREATE INDEX jobs_runner ON jobs (runner_node, id) WHERE runner_node IS NOT NULL;
CREATE INDEX jobs_ended ON jobs (ended, id) WHERE ended IS NOT NULL;

CREATE TABLE job_specs (job TEXT PRIMARY KEY NOT NULL, spec TEXT NOT NULL);

CREATE TABLE job_sites (
    site TEXT NOT NULL,
    created INTEGER NOT NULL,
    job TEXT NOT NULL,
    PRIMARY KEY (site, created DESC, job DESC)
) WITHOUT ROWID;

CREATE TABLE attempts (
    job TEXT NOT NULL,
    number INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    node TEXT NOT NULL,
    started INTEGER NOT NULL,
    ended INTEGER,
    outcome TEXT,
    reason_code TEXT,
    reason_text TEXT,
    bytes INTEGER NOT NULL,
    files INTEGER NOT NULL,
    PRIMARY KEY (job, number)
) WITHOUT ROWID;

CREATE TABLE failures (
    job TEXT NOT NULL,
    number INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (job, number)
) WITHOUT ROWID;

-- Sites, schedules, users, tokens, access rules, limits, shares, webhooks and settings; the body is JSON.
CREATE TABLE objects (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    lookup TEXT,
    body TEXT NOT NULL,
    changed INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
) WITHOUT ROWID;

CREATE INDEX objects_lookup ON objects (kind, lookup) WHERE lookup IS NOT NULL;

CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    log_index INTEGER NOT NULL,
    at INTEGER NOT NULL,
    topic TEXT NOT NULL,
    object TEXT NOT NULL,
    change TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook TEXT NOT NULL,
    job TEXT NOT NULL,
    event TEXT NOT NULL,
    body TEXT NOT NULL,
    at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    next_attempt INTEGER,
    status TEXT NOT NULL
);

CREATE INDEX deliveries_due ON deliveries (next_attempt) WHERE next_attempt IS NOT NULL;

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    role TEXT,
    action TEXT NOT NULL,
    object TEXT NOT NULL,
    outcome TEXT NOT NULL,
    remote TEXT,
    request TEXT
);

CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_actor ON audit (actor, seq DESC);
