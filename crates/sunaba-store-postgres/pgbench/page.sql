-- By the primary key alone, whatever the planner knows of the table: the least that reading these rows takes.
SELECT seq, event_id, event_type, created_at, class, source, payload_hash, hash, step, payload FROM events
WHERE sandbox_id = 'bench-pages' AND seq >= CAST(:seq AS bigint) - 100 AND seq < CAST(:seq AS bigint) ORDER BY seq DESC;
