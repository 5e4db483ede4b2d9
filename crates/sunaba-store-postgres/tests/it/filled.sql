-- Five thousand of everything that grows, of which a hundredth is going on.
INSERT INTO projects (id, name, default_branch, settings, created_at)
SELECT 'project_' || n, 'p', 'main', '{}', n FROM generate_series(0, 49) AS n;

INSERT INTO tickets (id, project_id, title, description, ticket_type, priority, status, owner, created_at, updated_at)
SELECT 'ticket_' || n, 'project_' || n % 50, 't', '', 'feature', 'low', 'open', 'ada', n, n
FROM generate_series(1, 5000) AS n;

INSERT INTO tasks (id, ticket_id, project_id, task_type, title, description, priority, status, created_at, updated_at)
SELECT 'task_' || n, 'ticket_' || n, 'project_' || n % 50, 'implement', 't', '', 'low',
       CASE WHEN n > 4950 THEN 'running' ELSE 'completed' END, n, n
FROM generate_series(1, 5000) AS n;

INSERT INTO sandboxes (id, project_id, task_id, attempt, provider, state, state_entered_at, runtime, model, prompt,
                       memory_gb, cpu, disk_gb, terms, created_at, ended_at, node_id)
SELECT 'sandbox_' || n, 'project_' || n % 50, 'task_' || n, 1, 'local',
       CASE WHEN n > 4950 THEN 'running' ELSE 'completed' END, n, 'native', 'm', 'do it', 1, 1, 1, '{}', n,
       CASE WHEN n <= 4950 THEN n END, 'node_' || n % 3
FROM generate_series(1, 5000) AS n;

INSERT INTO sandbox_log (sandbox_id, last_seq, last_hash, silence_seconds)
SELECT 'sandbox_' || n, 1, '\x00', 60 FROM generate_series(1, 5000) AS n;

-- One log is long; its neighbours are short.
INSERT INTO events (sandbox_id, seq, event_id, event_type, type_seq, created_at, class, source, payload_hash, hash,
                    payload)
SELECT 'sandbox_' || CASE WHEN n > 5000 THEN 1 ELSE n END, CASE WHEN n > 5000 THEN n ELSE 1 END, 'event_' || n,
       CASE WHEN n % 50 = 0 THEN 'agent.step' ELSE 'agent.message' END, n, n, n % 2, 'agent', '\x00', '\x00', '{}'
FROM generate_series(1, 10000) AS n;

INSERT INTO event_types (sandbox_id, event_type) SELECT DISTINCT sandbox_id, event_type FROM events;

INSERT INTO closed_turns (sandbox_id, turn, first_seq, last_seq, started_at, ended_at, tools, errors, edits, messages)
SELECT 'sandbox_' || n, 1, 1, 1, n, n, 0, 0, 0, 1 FROM generate_series(1, 5000) AS n;

INSERT INTO noisy_calls (sandbox_id, tool_use_id)
SELECT 'sandbox_' || n, 'call_' || n FROM generate_series(1, 5000) AS n;

INSERT INTO feed (position, event_type, entity_type, entity_id, sandbox_id, seq, created_at)
SELECT n, 'SANDBOX_agent.message', 'sandbox', 'sandbox_' || n, 'sandbox_' || n, 1, n
FROM generate_series(1, 5000) AS n;

INSERT INTO messages (id, sandbox_id, seq, content, message_type, sender, state, created_at)
SELECT 'message_' || n, 'sandbox_' || n, 1, 'go on', 'user_message', 'ada',
       CASE WHEN n > 4950 THEN 'queued' ELSE 'consumed' END, n
FROM generate_series(1, 5000) AS n;

INSERT INTO tokens (id, hash, name, kind, scopes, projects, sandbox_id, attempt, created_at, revoked_at)
SELECT 'token_' || n, n::text::bytea, 't', 'sandbox', '{}', '{}', 'sandbox_' || n, 1, n,
       CASE WHEN n <= 4950 THEN n END
FROM generate_series(1, 5000) AS n;

INSERT INTO questions (id, sandbox_id, project_id, task_id, attempt, client_id, tool, tool_use_id, input, policy,
                       asked_at, expires_at, state, remember, answered_at)
SELECT 'question_' || n, 'sandbox_' || n, 'project_' || n % 50, 'task_' || n, 1, 'name', 'Bash', 'call_' || n, '{}',
       'deny', n, n, CASE WHEN n > 4950 THEN 'open' ELSE 'answered' END,
       CASE WHEN n <= 4950 AND n % 10 = 0 THEN 'tool' END, CASE WHEN n <= 4950 THEN n END
FROM generate_series(1, 5000) AS n;

INSERT INTO waits (sandbox_id, until, created_at)
SELECT 'sandbox_' || n, CASE WHEN n % 2 = 0 THEN n END, n FROM generate_series(1, 5000) AS n;

INSERT INTO transcripts (sandbox_id, session_id, runtime, hash, size_bytes, turns, updated_at)
SELECT 'sandbox_' || n, 'session_' || n, 'native', 'hash_' || n, 1, 1, n FROM generate_series(1, 5000) AS n;

INSERT INTO blobs (hash, owner, size_bytes, created_at)
SELECT 'hash_' || n, 'sandbox_' || n, 1, n FROM generate_series(1, 5000) AS n;

INSERT INTO model_calls (id, sandbox_id, task_id, project_id, dialect, model, reserved_micros, created_at, settled_at)
SELECT 'call_' || n, 'sandbox_' || n, 'task_' || n, 'project_' || n % 50, 'anthropic', 'm', 1, n,
       CASE WHEN n <= 4950 THEN n END
FROM generate_series(1, 5000) AS n;

INSERT INTO secrets (project_id, name, sealed, updated_at)
SELECT 'project_' || n % 50, 'NAME_' || n, '\x00', n FROM generate_series(1, 500) AS n;

INSERT INTO nodes (id, instance, host, address, version, roles, providers, max_sandboxes, loops, started_at, beat_at)
SELECT 'node_' || n, 'i', 'h', 'a', 'v', '[]', '[]', 8, '{}', 1, 1 FROM generate_series(0, 2) AS n;

ANALYZE;
