-- What agents ask before they use a tool. carried_to: of an answer that came when the sandbox was gone, the later
-- question that it was taken over for; empty until there is one.
CREATE TABLE questions (
    id            TEXT    NOT NULL PRIMARY KEY,
    sandbox_id    TEXT    NOT NULL REFERENCES sandboxes (id),
    project_id    TEXT    REFERENCES projects (id),
    task_id       TEXT    REFERENCES tasks (id),
    attempt       INTEGER NOT NULL,
    client_id     TEXT    NOT NULL,
    tool          TEXT    NOT NULL,
    tool_use_id   TEXT    NOT NULL,
    input         TEXT    NOT NULL,
    policy        TEXT    NOT NULL,
    asked_at      INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL,
    state         TEXT    NOT NULL,
    answer        TEXT,
    updated_input TEXT,
    message       TEXT,
    remember      TEXT,
    answered_by   TEXT,
    answered_at   INTEGER,
    reason        TEXT,
    carried_to    TEXT
);
CREATE UNIQUE INDEX questions_by_name ON questions (sandbox_id, client_id);
CREATE INDEX questions_by_sandbox ON questions (sandbox_id, id);
CREATE INDEX questions_by_state ON questions (state, id);
CREATE INDEX questions_open ON questions (expires_at) WHERE state = 'open';
CREATE INDEX questions_by_task ON questions (task_id, tool, id) WHERE state = 'answered';

-- How its agent works unless a call says otherwise.
ALTER TABLE tasks ADD COLUMN execution_config TEXT NOT NULL DEFAULT '{}';
