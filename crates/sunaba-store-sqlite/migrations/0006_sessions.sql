-- Conversations of agents: where each is kept, as a sandbox sent it last.
CREATE TABLE transcripts (
    sandbox_id TEXT    NOT NULL REFERENCES sandboxes (id),
    session_id TEXT    NOT NULL,
    runtime    TEXT    NOT NULL,
    hash       TEXT    NOT NULL,
    size_bytes INTEGER NOT NULL,
    turns      INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (sandbox_id, session_id)
) WITHOUT ROWID;
CREATE INDEX transcripts_by_session ON transcripts (session_id, updated_at);

-- What tasks wait for whose sandbox was suspended: a moment, or words.
CREATE TABLE waits (
    sandbox_id TEXT    NOT NULL PRIMARY KEY REFERENCES sandboxes (id),
    until      INTEGER,
    words      TEXT,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
