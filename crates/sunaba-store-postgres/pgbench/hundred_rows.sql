-- As many logs as with single rows.
\set log :client_id + :clients * (:seq / 100 % :logs)
-- The rows are made by the server, so that nothing is measured but what it does with them.
INSERT INTO yardstick (sandbox_id, seq, event_id, event_type, type_seq, created_at, class, source, payload_hash, hash, payload)
SELECT 'bench-' || :round || '-' || :log, CAST(:seq AS bigint) + n,
       '01900000-0000-7000-8000-' || lpad(to_hex(CAST(:seq AS bigint) + n), 12, '0'), 'agent.tool_completed', CAST(:seq AS bigint) + n,
       1800000000000000 + CAST(:seq AS bigint) + n, 0, 'agent', decode(repeat('07', 32), 'hex'), decode(repeat('08', 32), 'hex'),
       convert_to(repeat('x', CAST(:payload AS integer)), 'UTF8')
FROM generate_series(1, 100) AS n;
\set seq :seq + 100
