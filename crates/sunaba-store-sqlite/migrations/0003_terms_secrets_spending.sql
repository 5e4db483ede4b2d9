-- On what terms a sandbox was asked for, how it ended at its provider, and what models cost it.
-- Amounts are millionths of a dollar; what is reserved and not settled counts as spent.
ALTER TABLE sandboxes ADD COLUMN terms TEXT NOT NULL DEFAULT '{}';
ALTER TABLE sandboxes ADD COLUMN exit TEXT;
ALTER TABLE sandboxes ADD COLUMN cost_micros INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN reserved_micros INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN cost_micros INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN reserved_micros INTEGER NOT NULL DEFAULT 0;
ALTER TABLE projects ADD COLUMN cost_micros INTEGER NOT NULL DEFAULT 0;
ALTER TABLE projects ADD COLUMN reserved_micros INTEGER NOT NULL DEFAULT 0;

CREATE TABLE model_calls (
    id                 TEXT    NOT NULL PRIMARY KEY,
    sandbox_id         TEXT    NOT NULL REFERENCES sandboxes (id),
    task_id            TEXT    REFERENCES tasks (id),
    project_id         TEXT    REFERENCES projects (id),
    dialect            TEXT    NOT NULL,
    model              TEXT    NOT NULL,
    reserved_micros    INTEGER NOT NULL,
    cost_micros        INTEGER,
    input_tokens       INTEGER NOT NULL DEFAULT 0,
    output_tokens      INTEGER NOT NULL DEFAULT 0,
    cache_read_tokens  INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens INTEGER NOT NULL DEFAULT 0,
    known_by           TEXT,
    created_at         INTEGER NOT NULL,
    settled_at         INTEGER
);
CREATE INDEX model_calls_by_sandbox ON model_calls (sandbox_id, created_at);
CREATE INDEX model_calls_by_task ON model_calls (task_id, created_at);
CREATE INDEX model_calls_by_project ON model_calls (project_id, created_at);
CREATE INDEX model_calls_open ON model_calls (created_at) WHERE settled_at IS NULL;

-- Sealed before they get here.
CREATE TABLE secrets (
    project_id TEXT    NOT NULL REFERENCES projects (id),
    name       TEXT    NOT NULL,
    sealed     BLOB    NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (project_id, name)
) WITHOUT ROWID;
