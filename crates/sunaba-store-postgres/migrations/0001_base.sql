-- Times are microseconds since 1970 (UTC): exactly what is hashed. Keys compare by bytes (COLLATE "C"), which
-- is fast and the same whatever the database's own language is. JSON that is never asked for is text.

-- The oldest layout whose programs may still use this one. A migration that only adds leaves it alone; one
-- that takes something away sets it to its own number.
CREATE TABLE layout (
    id          integer NOT NULL PRIMARY KEY CHECK (id = 1),
    usable_from bigint  NOT NULL
);
INSERT INTO layout (id, usable_from) VALUES (1, 1);

CREATE TABLE settings (
    name  text COLLATE "C" NOT NULL PRIMARY KEY,
    value text NOT NULL
);

-- Amounts are millionths of a dollar; what is reserved and not settled counts as spent.
CREATE TABLE projects (
    id              text COLLATE "C" NOT NULL PRIMARY KEY,
    name            text   NOT NULL,
    repo_path       text COLLATE "C" UNIQUE,
    repo_url        text COLLATE "C" UNIQUE,
    default_branch  text   NOT NULL,
    settings        text   NOT NULL,
    cost_micros     bigint NOT NULL DEFAULT 0,
    reserved_micros bigint NOT NULL DEFAULT 0,
    created_at      bigint NOT NULL
);

CREATE TABLE tickets (
    id          text COLLATE "C" NOT NULL PRIMARY KEY,
    project_id  text COLLATE "C" NOT NULL REFERENCES projects (id),
    title       text   NOT NULL,
    description text   NOT NULL,
    ticket_type text   NOT NULL,
    priority    text   NOT NULL,
    status      text   NOT NULL,
    branch_name text,
    owner       text   NOT NULL,
    created_at  bigint NOT NULL,
    updated_at  bigint NOT NULL
);
CREATE INDEX tickets_by_time ON tickets (created_at, id);
CREATE INDEX tickets_by_project ON tickets (project_id, created_at, id);

CREATE TABLE tasks (
    id                text COLLATE "C" NOT NULL PRIMARY KEY,
    ticket_id         text COLLATE "C" NOT NULL REFERENCES tickets (id),
    project_id        text COLLATE "C" NOT NULL REFERENCES projects (id),
    phase_id          text,
    task_type         text   NOT NULL,
    title             text   NOT NULL,
    description       text   NOT NULL,
    priority          text   NOT NULL,
    status            text COLLATE "C" NOT NULL,
    sandbox_id        text COLLATE "C",
    assigned_agent_id text,
    attempt           bigint NOT NULL DEFAULT 0,
    outcome           text,
    result            text,
    error_message     text,
    cost_micros       bigint NOT NULL DEFAULT 0,
    reserved_micros   bigint NOT NULL DEFAULT 0,
    created_at        bigint NOT NULL,
    updated_at        bigint NOT NULL,
    started_at        bigint,
    completed_at      bigint
);
CREATE INDEX tasks_by_time ON tasks (created_at, id);
CREATE INDEX tasks_by_ticket ON tasks (ticket_id, created_at, id);
CREATE INDEX tasks_by_project ON tasks (project_id, created_at, id);
CREATE INDEX tasks_by_status ON tasks (status, created_at, id);

CREATE TABLE sandboxes (
    id               text COLLATE "C" NOT NULL PRIMARY KEY,
    project_id       text COLLATE "C" REFERENCES projects (id),
    task_id          text COLLATE "C" REFERENCES tasks (id),
    attempt          bigint NOT NULL,
    provider         text COLLATE "C" NOT NULL,
    provider_ref     text,
    state            text COLLATE "C" NOT NULL,
    state_entered_at bigint NOT NULL,
    reason           text,
    runtime          text   NOT NULL,
    model            text   NOT NULL,
    prompt           text   NOT NULL,
    branch_name      text,
    base_commit      text,
    head_commit      text,
    isolation        text,
    memory_gb        double precision NOT NULL,
    cpu              double precision NOT NULL,
    disk_gb          double precision NOT NULL,
    terms            text   NOT NULL,
    exit             text,
    cost_micros      bigint NOT NULL DEFAULT 0,
    reserved_micros  bigint NOT NULL DEFAULT 0,
    created_at       bigint NOT NULL,
    ended_at         bigint
);
CREATE INDEX sandboxes_by_time ON sandboxes (created_at, id);
CREATE INDEX sandboxes_by_state ON sandboxes (state, created_at, id);
CREATE INDEX sandboxes_by_project ON sandboxes (project_id, created_at, id);
CREATE INDEX sandboxes_by_task ON sandboxes (task_id, created_at, id);
-- What one provider runs now, without a look at all that ever ran.
CREATE INDEX sandboxes_by_provider ON sandboxes (provider, state, created_at, id);

-- What changes with every event, apart from the row that people read and change. Whoever changes anything of
-- a sandbox (its row, its log, its messages) holds this row's lock. It is rewritten all the time: room is left
-- on its pages and none of its indexes has a column that changes.
CREATE TABLE sandbox_log (
    sandbox_id      text COLLATE "C" NOT NULL PRIMARY KEY REFERENCES sandboxes (id),
    last_seq        bigint NOT NULL DEFAULT 0,
    last_hash       bytea  NOT NULL,
    heartbeat_count bigint NOT NULL DEFAULT 0,
    first_heartbeat bigint,
    last_heartbeat  bigint,
    story_count     bigint NOT NULL DEFAULT 0,
    noise_count     bigint NOT NULL DEFAULT 0,
    -- How many types of events and how many open search calls there are: both are bounded.
    type_count      bigint NOT NULL DEFAULT 0,
    noisy_count     bigint NOT NULL DEFAULT 0,
    silence_seconds bigint NOT NULL,
    alive_until     bigint
) WITH (fillfactor = 50);

-- payload is exactly the bytes that were received; payload_hash is their SHA-256.
-- type_seq counts the events of one type, so that a page of some types can be found at any depth without
-- walking to it. There are no foreign keys in the tables below: a row is only written under the lock of its
-- sandbox's log, and a check a row would cost as much as the row.
CREATE TABLE events (
    sandbox_id   text COLLATE "C" NOT NULL,
    seq          bigint   NOT NULL,
    event_id     text COLLATE "C" NOT NULL,
    event_type   text COLLATE "C" NOT NULL,
    type_seq     bigint   NOT NULL,
    created_at   bigint   NOT NULL,
    class        smallint NOT NULL,
    source       text     NOT NULL,
    payload_hash bytea    NOT NULL,
    hash         bytea    NOT NULL,
    step         text,
    payload      bytea    NOT NULL,
    PRIMARY KEY (sandbox_id, seq)
);
CREATE UNIQUE INDEX events_by_event_id ON events (sandbox_id, event_id);
-- Ordered by seq + 0, because the primary key is ordered by seq too: a planner that thinks a type common would
-- walk the whole log for the first one of it. What is asked for by type says seq + 0 and has no such choice.
CREATE INDEX events_by_type ON events (sandbox_id, event_type, (seq + 0));
CREATE INDEX events_by_class ON events (sandbox_id, class, (seq + 0));

CREATE TABLE event_type_counts (
    sandbox_id text COLLATE "C" NOT NULL,
    event_type text COLLATE "C" NOT NULL,
    count      bigint NOT NULL,
    PRIMARY KEY (sandbox_id, event_type)
) WITH (fillfactor = 50);

-- Search calls whose result has not come yet: the result carries only the call's id.
CREATE TABLE noisy_calls (
    sandbox_id  text COLLATE "C" NOT NULL,
    tool_use_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (sandbox_id, tool_use_id)
);

CREATE TABLE outline (
    sandbox_id text COLLATE "C" NOT NULL,
    turn       bigint NOT NULL,
    first_seq  bigint NOT NULL,
    last_seq   bigint NOT NULL,
    started_at bigint NOT NULL,
    ended_at   bigint NOT NULL,
    tools      bigint NOT NULL,
    errors     bigint NOT NULL,
    edits      bigint NOT NULL,
    messages   bigint NOT NULL,
    PRIMARY KEY (sandbox_id, turn)
);

-- A sandbox's event is referenced by seq; anything else brings its own payload.
CREATE TABLE feed (
    position    bigint NOT NULL PRIMARY KEY,
    project_id  text,
    event_type  text   NOT NULL,
    entity_type text   NOT NULL,
    entity_id   text   NOT NULL,
    sandbox_id  text COLLATE "C",
    seq         bigint,
    payload     text,
    created_at  bigint NOT NULL
);

-- Moved by the last statement of each writing transaction and locked until its commit, so that positions
-- become visible in their order.
CREATE TABLE feed_counter (
    id       integer NOT NULL PRIMARY KEY CHECK (id = 1),
    position bigint  NOT NULL
) WITH (fillfactor = 10);
INSERT INTO feed_counter (id, position) VALUES (1, 0);

-- via: how it was last handed over (explicit, legacy); offered_at: when.
CREATE TABLE messages (
    id              text COLLATE "C" NOT NULL PRIMARY KEY,
    sandbox_id      text COLLATE "C" NOT NULL REFERENCES sandboxes (id),
    seq             bigint NOT NULL,
    content         text   NOT NULL,
    message_type    text   NOT NULL,
    sender          text   NOT NULL,
    state           text COLLATE "C" NOT NULL,
    via             text,
    offered_at      bigint,
    created_at      bigint NOT NULL,
    handed_over_at  bigint,
    acknowledged_at bigint,
    consumed_at     bigint,
    consumed_seq    bigint,
    reason          text
);
CREATE UNIQUE INDEX messages_by_seq ON messages (sandbox_id, seq);
CREATE INDEX messages_outstanding ON messages (sandbox_id, seq)
    WHERE state IN ('queued', 'handed_over') AND acknowledged_at IS NULL;

CREATE TABLE tokens (
    id         text COLLATE "C" NOT NULL PRIMARY KEY,
    hash       bytea  NOT NULL UNIQUE,
    name       text   NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    scopes     text[] NOT NULL,
    projects   text[] NOT NULL,
    sandbox_id text COLLATE "C",
    attempt    bigint,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint
);
CREATE INDEX tokens_of_people ON tokens (created_at, id) WHERE kind <> 'sandbox';

-- An empty owner stands for an operator.
CREATE TABLE blobs (
    hash       text COLLATE "C" NOT NULL,
    owner      text COLLATE "C" NOT NULL,
    size_bytes bigint NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (hash, owner)
);

CREATE TABLE model_calls (
    id                 text COLLATE "C" NOT NULL PRIMARY KEY,
    sandbox_id         text COLLATE "C" NOT NULL REFERENCES sandboxes (id),
    task_id            text COLLATE "C" REFERENCES tasks (id),
    project_id         text COLLATE "C" REFERENCES projects (id),
    dialect            text   NOT NULL,
    model              text   NOT NULL,
    reserved_micros    bigint NOT NULL,
    cost_micros        bigint,
    input_tokens       bigint NOT NULL DEFAULT 0,
    output_tokens      bigint NOT NULL DEFAULT 0,
    cache_read_tokens  bigint NOT NULL DEFAULT 0,
    cache_write_tokens bigint NOT NULL DEFAULT 0,
    known_by           text,
    created_at         bigint NOT NULL,
    settled_at         bigint
);
CREATE INDEX model_calls_by_sandbox ON model_calls (sandbox_id, created_at);
CREATE INDEX model_calls_by_task ON model_calls (task_id, created_at);
CREATE INDEX model_calls_by_project ON model_calls (project_id, created_at);
CREATE INDEX model_calls_open ON model_calls (created_at) WHERE settled_at IS NULL;

-- Sealed before they get here.
CREATE TABLE secrets (
    project_id text COLLATE "C" NOT NULL REFERENCES projects (id),
    name       text COLLATE "C" NOT NULL,
    sealed     bytea  NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (project_id, name)
);
