-- What a transaction writes comes as arrays of rows. An array a column, as before, has each one unpacked by itself: with
-- the thirteen columns of a log's end and the twelve of an event that was nearly a quarter of the statement's time.
-- The types are no tables' own, so that a column that is added to a table later does not change what a program sends.
CREATE TYPE written_event AS (
    sandbox_id   text,
    seq          bigint,
    event_id     text,
    event_type   text,
    type_seq     bigint,
    source       text,
    class        smallint,
    created_at   bigint,
    payload      bytea,
    payload_hash bytea,
    hash         bytea,
    step         text
);

-- The end of a log. known_hash: the last hash that it had, for whoever has not locked it.
CREATE TYPE written_log AS (
    sandbox_id      text,
    known_hash      bytea,
    last_seq        bigint,
    last_hash       bytea,
    heartbeat_count bigint,
    first_heartbeat bigint,
    last_heartbeat  bigint,
    story_count     bigint,
    noise_count     bigint,
    type_count      bigint,
    noisy_count     bigint,
    silence_seconds bigint,
    alive_until     bigint,
    open_turn       bigint[]
);

-- An entry of the feed that has no position yet.
CREATE TYPE written_entry AS (
    project_id  text,
    event_type  text,
    entity_type text,
    entity_id   text,
    sandbox_id  text,
    seq         bigint,
    payload     text,
    created_at  bigint
);

-- What is added to a turn that is over.
CREATE TYPE written_turn AS (
    sandbox_id text,
    turn       bigint,
    first_seq  bigint,
    last_seq   bigint,
    started_at bigint,
    ended_at   bigint,
    tools      bigint,
    errors     bigint,
    edits      bigint,
    messages   bigint
);

-- A name that a sandbox uses: a type of events, an open search call.
CREATE TYPE written_name AS (
    sandbox_id text,
    name       text
);

-- A task as a server remembers it.
CREATE TYPE known_task AS (
    id      text,
    attempt bigint,
    status  text
);

-- append_events with rows as arguments; that one goes when no program calls it any more. Nothing is told without a
-- channel.
CREATE FUNCTION append_rows(
    given_layout bigint, given_fsync boolean, given_channel text, given_teller text,
    logs written_log[], known_tasks known_task[], types written_name[], turns written_turn[],
    opened written_name[], closed written_name[], new_events written_event[],
    entries written_entry[]
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    found_rows bigint;
    total_rows bigint := cardinality(entries);
    last_position bigint;
BEGIN
    IF (SELECT l.usable_from FROM layout AS l) > given_layout OR current_setting('synchronous_commit') = 'off'
       OR (given_fsync AND current_setting('fsync') = 'off') THEN
        RAISE EXCEPTION 'this server may not write here' USING ERRCODE = 'SB001';
    END IF;

    UPDATE sandbox_log AS held
    SET last_seq = new.last_seq, last_hash = new.last_hash, heartbeat_count = new.heartbeat_count,
        first_heartbeat = new.first_heartbeat, last_heartbeat = new.last_heartbeat, story_count = new.story_count,
        noise_count = new.noise_count, type_count = new.type_count, noisy_count = new.noisy_count,
        alive_until = greatest(held.alive_until, new.alive_until), open_turn = new.open_turn
    FROM unnest(logs) AS new
    WHERE held.sandbox_id = new.sandbox_id AND held.last_hash = new.known_hash;
    GET DIAGNOSTICS found_rows = ROW_COUNT;
    IF found_rows <> cardinality(logs) THEN
        RAISE EXCEPTION 'a log has moved' USING ERRCODE = 'SB001';
    END IF;

    IF cardinality(known_tasks) > 0 THEN
        PERFORM 1 FROM unnest(known_tasks) AS known
        JOIN tasks AS held ON held.id = known.id AND held.attempt = known.attempt AND held.status = known.status
        FOR NO KEY UPDATE OF held;
        GET DIAGNOSTICS found_rows = ROW_COUNT;
        IF found_rows <> cardinality(known_tasks) THEN
            RAISE EXCEPTION 'a task has changed' USING ERRCODE = 'SB001';
        END IF;
    END IF;

    IF cardinality(types) > 0 THEN
        INSERT INTO event_types (sandbox_id, event_type) SELECT new.sandbox_id, new.name FROM unnest(types) AS new;
    END IF;
    IF cardinality(turns) > 0 THEN
        INSERT INTO closed_turns AS held (sandbox_id, turn, first_seq, last_seq, started_at, ended_at, tools, errors,
                                          edits, messages)
        SELECT new.sandbox_id, new.turn, new.first_seq, new.last_seq, new.started_at, new.ended_at, new.tools,
               new.errors, new.edits, new.messages
        FROM unnest(turns) AS new
        ON CONFLICT (sandbox_id, turn) DO UPDATE
        SET last_seq = excluded.last_seq, ended_at = excluded.ended_at, tools = held.tools + excluded.tools,
            errors = held.errors + excluded.errors, edits = held.edits + excluded.edits,
            messages = held.messages + excluded.messages;
    END IF;
    IF cardinality(opened) > 0 THEN
        INSERT INTO noisy_calls (sandbox_id, tool_use_id) SELECT new.sandbox_id, new.name FROM unnest(opened) AS new
        ON CONFLICT DO NOTHING;
    END IF;
    IF cardinality(closed) > 0 THEN
        DELETE FROM noisy_calls AS held USING unnest(closed) AS gone
        WHERE held.sandbox_id = gone.sandbox_id AND held.tool_use_id = gone.name;
    END IF;

    INSERT INTO events (sandbox_id, seq, event_id, event_type, type_seq, source, class, created_at, payload,
                        payload_hash, hash, step)
    SELECT new.sandbox_id, new.seq, new.event_id, new.event_type, new.type_seq, new.source, new.class, new.created_at,
           new.payload, new.payload_hash, new.hash, new.step
    FROM unnest(new_events) AS new;

    UPDATE feed_counter AS held SET position = held.position + total_rows WHERE held.id = 1
    RETURNING held.position INTO STRICT last_position;
    INSERT INTO feed (position, project_id, event_type, entity_type, entity_id, sandbox_id, seq, payload, created_at)
    SELECT last_position - total_rows + new.place, new.project_id, new.event_type, new.entity_type, new.entity_id,
           new.sandbox_id, new.seq, new.payload, new.created_at
    FROM unnest(entries) WITH ORDINALITY
         AS new (project_id, event_type, entity_type, entity_id, sandbox_id, seq, payload, created_at, place);
    IF given_channel IS NOT NULL THEN
        PERFORM pg_notify(given_channel, last_position || ' ' || given_teller);
    END IF;
    RETURN last_position;
END $body$;
