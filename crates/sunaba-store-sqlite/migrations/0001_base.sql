-- Times are microseconds since 1970 (UTC). Lists inside a row are JSON.

CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE projects (
    id             TEXT    NOT NULL PRIMARY KEY,
    name           TEXT    NOT NULL,
    repo_path      TEXT    UNIQUE,
    repo_url       TEXT    UNIQUE,
    default_branch TEXT    NOT NULL,
    settings       TEXT    NOT NULL,
    created_at     INTEGER NOT NULL
);

CREATE TABLE tickets (
    id          TEXT    NOT NULL PRIMARY KEY,
    project_id  TEXT    NOT NULL REFERENCES projects (id),
    title       TEXT    NOT NULL,
    description TEXT    NOT NULL,
    ticket_type TEXT    NOT NULL,
    priority    TEXT    NOT NULL,
    status      TEXT    NOT NULL,
    branch_name TEXT,
    owner       TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
);
CREATE INDEX tickets_by_project ON tickets (project_id, created_at);

CREATE TABLE tasks (
    id                TEXT    NOT NULL PRIMARY KEY,
    ticket_id         TEXT    NOT NULL REFERENCES tickets (id),
    project_id        TEXT    NOT NULL REFERENCES projects (id),
    phase_id          TEXT,
    task_type         TEXT    NOT NULL,
    title             TEXT    NOT NULL,
    description       TEXT    NOT NULL,
    priority          TEXT    NOT NULL,
    status            TEXT    NOT NULL,
    sandbox_id        TEXT,
    assigned_agent_id TEXT,
    attempt           INTEGER NOT NULL DEFAULT 0,
    outcome           TEXT,
    result            TEXT,
    error_message     TEXT,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    started_at        INTEGER,
    completed_at      INTEGER
);
CREATE INDEX tasks_by_ticket ON tasks (ticket_id, created_at);
CREATE INDEX tasks_by_project ON tasks (project_id, created_at);
CREATE INDEX tasks_by_status ON tasks (status, created_at);

CREATE TABLE sandboxes (
    id               TEXT    NOT NULL PRIMARY KEY,
    project_id       TEXT    REFERENCES projects (id),
    task_id          TEXT    REFERENCES tasks (id),
    attempt          INTEGER NOT NULL,
    provider         TEXT    NOT NULL,
    provider_ref     TEXT,
    state            TEXT    NOT NULL,
    state_entered_at INTEGER NOT NULL,
    reason           TEXT,
    runtime          TEXT    NOT NULL,
    model            TEXT    NOT NULL,
    prompt           TEXT    NOT NULL,
    branch_name      TEXT,
    base_commit      TEXT,
    head_commit      TEXT,
    isolation        TEXT,
    memory_gb        REAL    NOT NULL,
    cpu              REAL    NOT NULL,
    disk_gb          REAL    NOT NULL,
    created_at       INTEGER NOT NULL,
    ended_at         INTEGER
);
CREATE INDEX sandboxes_by_time ON sandboxes (created_at, id);
CREATE INDEX sandboxes_by_state ON sandboxes (state, created_at);
CREATE INDEX sandboxes_by_project ON sandboxes (project_id, created_at);
CREATE INDEX sandboxes_by_task ON sandboxes (task_id, created_at);

-- What changes with every event, apart from the row that people read and change.
CREATE TABLE sandbox_log (
    sandbox_id      TEXT    NOT NULL PRIMARY KEY REFERENCES sandboxes (id),
    last_seq        INTEGER NOT NULL DEFAULT 0,
    last_hash       BLOB    NOT NULL,
    heartbeat_count INTEGER NOT NULL DEFAULT 0,
    first_heartbeat INTEGER,
    last_heartbeat  INTEGER,
    story_count     INTEGER NOT NULL DEFAULT 0,
    noise_count     INTEGER NOT NULL DEFAULT 0,
    silence_seconds INTEGER NOT NULL,
    alive_until     INTEGER
) WITHOUT ROWID;

-- payload is exactly the text that was received; payload_hash is its SHA-256.
-- type_seq counts the events of one type, so that a page of some types can be
-- found at any depth without walking to it.
CREATE TABLE events (
    id           INTEGER PRIMARY KEY,
    sandbox_id   TEXT    NOT NULL REFERENCES sandboxes (id),
    seq          INTEGER NOT NULL,
    event_id     TEXT    NOT NULL,
    event_type   TEXT    NOT NULL,
    type_seq     INTEGER NOT NULL,
    source       TEXT    NOT NULL,
    class        INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    payload      TEXT    NOT NULL,
    payload_hash BLOB    NOT NULL,
    hash         BLOB    NOT NULL,
    step         TEXT
);
CREATE UNIQUE INDEX events_by_seq ON events (sandbox_id, seq);
CREATE UNIQUE INDEX events_by_event_id ON events (sandbox_id, event_id);
CREATE INDEX events_by_type ON events (sandbox_id, event_type, seq, type_seq);
CREATE INDEX events_by_class ON events (sandbox_id, class, seq);

CREATE TABLE event_type_counts (
    sandbox_id TEXT    NOT NULL REFERENCES sandboxes (id),
    event_type TEXT    NOT NULL,
    count      INTEGER NOT NULL,
    PRIMARY KEY (sandbox_id, event_type)
) WITHOUT ROWID;

-- Search calls whose result has not come yet: the result carries only the call's id.
CREATE TABLE noisy_calls (
    sandbox_id  TEXT NOT NULL REFERENCES sandboxes (id),
    tool_use_id TEXT NOT NULL,
    PRIMARY KEY (sandbox_id, tool_use_id)
) WITHOUT ROWID;

CREATE TABLE outline (
    sandbox_id TEXT    NOT NULL REFERENCES sandboxes (id),
    turn       INTEGER NOT NULL,
    first_seq  INTEGER NOT NULL,
    last_seq   INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    tools      INTEGER NOT NULL,
    errors     INTEGER NOT NULL,
    edits      INTEGER NOT NULL,
    messages   INTEGER NOT NULL,
    PRIMARY KEY (sandbox_id, turn)
) WITHOUT ROWID;

-- A sandbox's event is referenced by seq; anything else brings its own payload.
CREATE TABLE feed (
    position    INTEGER NOT NULL PRIMARY KEY,
    project_id  TEXT,
    event_type  TEXT    NOT NULL,
    entity_type TEXT    NOT NULL,
    entity_id   TEXT    NOT NULL,
    sandbox_id  TEXT,
    seq         INTEGER,
    payload     TEXT,
    created_at  INTEGER NOT NULL
);

CREATE TABLE feed_counter (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    position INTEGER NOT NULL
);
INSERT INTO feed_counter (id, position) VALUES (1, 0);

-- via: how it was last handed over (explicit, legacy); offered_at: when.
CREATE TABLE messages (
    id              TEXT    NOT NULL PRIMARY KEY,
    sandbox_id      TEXT    NOT NULL REFERENCES sandboxes (id),
    seq             INTEGER NOT NULL,
    content         TEXT    NOT NULL,
    message_type    TEXT    NOT NULL,
    sender          TEXT    NOT NULL,
    state           TEXT    NOT NULL,
    via             TEXT,
    offered_at      INTEGER,
    created_at      INTEGER NOT NULL,
    handed_over_at  INTEGER,
    acknowledged_at INTEGER,
    consumed_at     INTEGER,
    consumed_seq    INTEGER,
    reason          TEXT
);
CREATE UNIQUE INDEX messages_by_seq ON messages (sandbox_id, seq);
CREATE INDEX messages_outstanding ON messages (sandbox_id, state, seq)
    WHERE state IN ('queued', 'handed_over') AND acknowledged_at IS NULL;

CREATE TABLE tokens (
    id         TEXT    NOT NULL PRIMARY KEY,
    hash       BLOB    NOT NULL UNIQUE,
    name       TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    scopes     TEXT    NOT NULL,
    projects   TEXT    NOT NULL,
    sandbox_id TEXT,
    attempt    INTEGER,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
);

-- An empty owner stands for an operator.
CREATE TABLE blobs (
    hash       TEXT    NOT NULL,
    owner      TEXT    NOT NULL,
    size_bytes INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (hash, owner)
) WITHOUT ROWID;
