-- An event cost five rows: itself, its entry in the feed, its log's end, the count of its type and its turn. The last
-- two follow from the others now, and what a server remembers of a log is compared in the statement that writes
-- (append_events), so that nothing is asked before.
LOCK TABLE layout;
UPDATE layout SET usable_from = 6;

-- How many events of a type there are is written on the last one of them.
ALTER TABLE event_type_counts RENAME TO event_types;
ALTER TABLE event_types DROP COLUMN count;
CREATE VIEW event_type_counts AS
SELECT t.sandbox_id, t.event_type,
       (SELECT e.type_seq FROM events AS e WHERE e.sandbox_id = t.sandbox_id AND e.event_type = t.event_type
        ORDER BY e.seq + 0 DESC LIMIT 1) AS count
FROM event_types AS t;

-- The turn that a sandbox is in is kept with its log's end: turn, first and last event, begin, end, tools, errors,
-- edits, messages. It is added to the turn's row when another turn begins; a turn may be gone back to.
ALTER TABLE sandbox_log ADD COLUMN open_turn bigint[];
ALTER TABLE outline RENAME TO closed_turns;
CREATE VIEW outline AS
SELECT c.sandbox_id, c.turn, c.first_seq, c.last_seq, c.started_at, c.ended_at, c.tools, c.errors, c.edits, c.messages
FROM closed_turns AS c
WHERE NOT EXISTS (SELECT 1 FROM sandbox_log AS l WHERE l.sandbox_id = c.sandbox_id AND l.open_turn[1] = c.turn)
UNION ALL
SELECT l.sandbox_id, l.open_turn[1], coalesce(c.first_seq, l.open_turn[2]), l.open_turn[3],
       coalesce(c.started_at, l.open_turn[4]), l.open_turn[5], coalesce(c.tools, 0) + l.open_turn[6],
       coalesce(c.errors, 0) + l.open_turn[7], coalesce(c.edits, 0) + l.open_turn[8],
       coalesce(c.messages, 0) + l.open_turn[9]
FROM sandbox_log AS l LEFT JOIN closed_turns AS c ON c.sandbox_id = l.sandbox_id AND c.turn = l.open_turn[1]
WHERE l.open_turn IS NOT NULL;

-- Appends events whose places and hashes a server has worked out from what it remembers of their logs and tasks. If
-- any of that is no longer so nothing is written, and an error with the state SB001 says so. Locks are taken in the
-- order of everybody: logs, tasks, the feed's counter. Gives the position of the last event in the feed.
CREATE FUNCTION append_events(
    given_layout bigint, given_fsync boolean, given_channel text, given_teller text,
    log_ids text[], log_known bytea[], log_seqs bigint[], log_hashes bytea[], log_heartbeats bigint[],
    log_first bigint[], log_last bigint[], log_stories bigint[], log_noises bigint[], log_types bigint[],
    log_noisy bigint[], log_alive bigint[], log_turns text[],
    task_ids text[], task_attempts bigint[], task_states text[],
    type_sandboxes text[], type_names text[],
    turn_sandboxes text[], turn_numbers bigint[], turn_first bigint[], turn_last bigint[], turn_begins bigint[],
    turn_ends bigint[], turn_tools bigint[], turn_errors bigint[], turn_edits bigint[], turn_messages bigint[],
    opened_sandboxes text[], opened_calls text[], closed_sandboxes text[], closed_calls text[],
    event_sandboxes text[], event_seqs bigint[], event_ids text[], event_names text[], event_places bigint[],
    event_sources text[], event_classes smallint[], event_times bigint[], event_payloads bytea[],
    event_payload_hashes bytea[], event_hashes bytea[], event_steps text[],
    feed_projects text[], feed_names text[]
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    found_rows bigint;
    total_rows bigint := cardinality(event_ids);
    last_position bigint;
BEGIN
    IF (SELECT l.usable_from FROM layout AS l) > given_layout OR current_setting('synchronous_commit') = 'off'
       OR (given_fsync AND current_setting('fsync') = 'off') THEN
        RAISE EXCEPTION 'this server may not write here' USING ERRCODE = 'SB001';
    END IF;

    UPDATE sandbox_log AS held
    SET last_seq = new.seq, last_hash = new.hash, heartbeat_count = new.heartbeats, first_heartbeat = new.first,
        last_heartbeat = new.last, story_count = new.stories, noise_count = new.noises, type_count = new.types,
        noisy_count = new.noisy, alive_until = greatest(held.alive_until, new.alive), open_turn = new.turn::bigint[]
    FROM unnest(log_ids, log_known, log_seqs, log_hashes, log_heartbeats, log_first, log_last, log_stories,
                log_noises, log_types, log_noisy, log_alive, log_turns)
         AS new (id, known, seq, hash, heartbeats, first, last, stories, noises, types, noisy, alive, turn)
    WHERE held.sandbox_id = new.id AND held.last_hash = new.known;
    GET DIAGNOSTICS found_rows = ROW_COUNT;
    IF found_rows <> cardinality(log_ids) THEN
        RAISE EXCEPTION 'a log has moved' USING ERRCODE = 'SB001';
    END IF;

    IF cardinality(task_ids) > 0 THEN
        PERFORM 1 FROM unnest(task_ids, task_attempts, task_states) AS known (id, attempt, state)
        JOIN tasks AS held ON held.id = known.id AND held.attempt = known.attempt AND held.status = known.state
        FOR NO KEY UPDATE OF held;
        GET DIAGNOSTICS found_rows = ROW_COUNT;
        IF found_rows <> cardinality(task_ids) THEN
            RAISE EXCEPTION 'a task has changed' USING ERRCODE = 'SB001';
        END IF;
    END IF;

    IF cardinality(type_names) > 0 THEN
        INSERT INTO event_types (sandbox_id, event_type) SELECT * FROM unnest(type_sandboxes, type_names);
    END IF;
    IF cardinality(turn_numbers) > 0 THEN
        INSERT INTO closed_turns AS held (sandbox_id, turn, first_seq, last_seq, started_at, ended_at, tools, errors,
                                          edits, messages)
        SELECT * FROM unnest(turn_sandboxes, turn_numbers, turn_first, turn_last, turn_begins, turn_ends, turn_tools,
                             turn_errors, turn_edits, turn_messages)
        ON CONFLICT (sandbox_id, turn) DO UPDATE
        SET last_seq = excluded.last_seq, ended_at = excluded.ended_at, tools = held.tools + excluded.tools,
            errors = held.errors + excluded.errors, edits = held.edits + excluded.edits,
            messages = held.messages + excluded.messages;
    END IF;
    IF cardinality(opened_calls) > 0 THEN
        INSERT INTO noisy_calls (sandbox_id, tool_use_id) SELECT * FROM unnest(opened_sandboxes, opened_calls)
        ON CONFLICT DO NOTHING;
    END IF;
    IF cardinality(closed_calls) > 0 THEN
        DELETE FROM noisy_calls AS held USING unnest(closed_sandboxes, closed_calls) AS closed (sandbox_id, tool_use_id)
        WHERE held.sandbox_id = closed.sandbox_id AND held.tool_use_id = closed.tool_use_id;
    END IF;

    INSERT INTO events (sandbox_id, seq, event_id, event_type, type_seq, source, class, created_at, payload,
                        payload_hash, hash, step)
    SELECT * FROM unnest(event_sandboxes, event_seqs, event_ids, event_names, event_places, event_sources,
                         event_classes, event_times, event_payloads, event_payload_hashes, event_hashes, event_steps);

    UPDATE feed_counter AS held SET position = held.position + total_rows WHERE held.id = 1
    RETURNING held.position INTO STRICT last_position;
    INSERT INTO feed (position, project_id, event_type, entity_type, entity_id, sandbox_id, seq, created_at)
    SELECT last_position - total_rows + new.place, new.project, new.name, 'sandbox', new.id, new.id, new.seq, new.at
    FROM unnest(feed_projects, feed_names, event_sandboxes, event_seqs, event_times)
         WITH ORDINALITY AS new (project, name, id, seq, at, place);
    PERFORM pg_notify(given_channel, last_position || ' ' || given_teller);
    RETURN last_position;
END $body$;
