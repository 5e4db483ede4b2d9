-- What agents ask before they use a tool. carried_to: of an answer that came when the sandbox was gone, the later
-- question that it was taken over for; empty until there is one.
CREATE TABLE questions (
    id            text COLLATE "C" NOT NULL PRIMARY KEY,
    sandbox_id    text COLLATE "C" NOT NULL REFERENCES sandboxes (id),
    project_id    text COLLATE "C" REFERENCES projects (id),
    task_id       text COLLATE "C" REFERENCES tasks (id),
    attempt       bigint NOT NULL,
    client_id     text   NOT NULL,
    tool          text   NOT NULL,
    tool_use_id   text   NOT NULL,
    input         text   NOT NULL,
    policy        text   NOT NULL,
    asked_at      bigint NOT NULL,
    expires_at    bigint NOT NULL,
    state         text   NOT NULL,
    answer        text,
    updated_input text,
    message       text,
    remember      text,
    answered_by   text,
    answered_at   bigint,
    reason        text,
    carried_to    text
);
CREATE UNIQUE INDEX questions_by_name ON questions (sandbox_id, client_id);
CREATE INDEX questions_by_sandbox ON questions (sandbox_id, id);
CREATE INDEX questions_by_state ON questions (state, id);
CREATE INDEX questions_open ON questions (expires_at) WHERE state = 'open';
CREATE INDEX questions_by_task ON questions (task_id, tool, id) WHERE state = 'answered';

-- How its agent works unless a call says otherwise.
ALTER TABLE tasks ADD COLUMN execution_config text NOT NULL DEFAULT '{}';
