-- Conversations of agents: where each is kept, as a sandbox sent it last.
CREATE TABLE transcripts (
    sandbox_id text COLLATE "C" NOT NULL REFERENCES sandboxes (id),
    session_id text COLLATE "C" NOT NULL,
    runtime    text   NOT NULL,
    hash       text COLLATE "C" NOT NULL,
    size_bytes bigint NOT NULL,
    turns      bigint NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (sandbox_id, session_id)
);
CREATE INDEX transcripts_by_session ON transcripts (session_id, updated_at);

-- What tasks wait for whose sandbox was suspended: a moment, or words.
CREATE TABLE waits (
    sandbox_id text COLLATE "C" NOT NULL PRIMARY KEY REFERENCES sandboxes (id),
    until      bigint,
    words      text,
    created_at bigint NOT NULL
);
