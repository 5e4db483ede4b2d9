\set seq :seq + 1
-- Each client writes for several logs in turn, so that there are as many as ours are written to: what is held in
-- the caches depends on that.
\set log :client_id + :clients * (:seq % :logs)
INSERT INTO yardstick (sandbox_id, seq, event_id, event_type, type_seq, created_at, class, source, payload_hash, hash, payload)
VALUES ('bench-' || :round || '-' || :log, CAST(:seq AS bigint),
        '01900000-0000-7000-8000-' || lpad(to_hex(CAST(:seq AS bigint)), 12, '0'), 'agent.tool_completed', CAST(:seq AS bigint),
        1800000000000000 + CAST(:seq AS bigint), 0, 'agent', decode(repeat('07', 32), 'hex'), decode(repeat('08', 32), 'hex'),
        convert_to(repeat('x', CAST(:payload AS integer)), 'UTF8'));
