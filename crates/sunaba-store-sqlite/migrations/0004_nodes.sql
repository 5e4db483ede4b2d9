-- Who serves this database, and what each holds. Lists and figures are JSON.
CREATE TABLE nodes (
    id            TEXT    NOT NULL PRIMARY KEY,
    instance      TEXT    NOT NULL,
    host          TEXT    NOT NULL,
    address       TEXT    NOT NULL,
    version       TEXT    NOT NULL,
    roles         TEXT    NOT NULL,
    providers     TEXT    NOT NULL,
    max_sandboxes INTEGER NOT NULL,
    loops         TEXT    NOT NULL,
    started_at    INTEGER NOT NULL,
    beat_at       INTEGER NOT NULL,
    left_at       INTEGER,
    lost_at       INTEGER
) WITHOUT ROWID;

ALTER TABLE sandboxes ADD COLUMN node_id TEXT;
ALTER TABLE projects ADD COLUMN home_node TEXT;
ALTER TABLE model_calls ADD COLUMN node_id TEXT;
CREATE INDEX sandboxes_by_node ON sandboxes (node_id, state, created_at, id);
