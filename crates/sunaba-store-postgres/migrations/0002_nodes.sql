-- Who serves this database, and what each holds. Lists and figures are JSON. beat_at, left_at and lost_at are
-- told by the database's clock: the one clock that all nodes share.
CREATE FUNCTION now_micros() RETURNS bigint LANGUAGE sql VOLATILE AS
    $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

CREATE TABLE nodes (
    id            text COLLATE "C" NOT NULL PRIMARY KEY,
    instance      text   NOT NULL,
    host          text   NOT NULL,
    address       text   NOT NULL,
    version       text   NOT NULL,
    roles         text   NOT NULL,
    providers     text   NOT NULL,
    max_sandboxes bigint NOT NULL,
    loops         text   NOT NULL,
    started_at    bigint NOT NULL,
    beat_at       bigint NOT NULL,
    left_at       bigint,
    lost_at       bigint
);

ALTER TABLE sandboxes ADD COLUMN node_id text COLLATE "C";
ALTER TABLE projects ADD COLUMN home_node text COLLATE "C";
ALTER TABLE model_calls ADD COLUMN node_id text COLLATE "C";
CREATE INDEX sandboxes_by_node ON sandboxes (node_id, state, created_at, id);
