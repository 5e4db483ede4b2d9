-- Indexes for what was asked without one that fits, and took longer the older a file was.

-- What ends with a sandbox; and those of people, without a look at those of all sandboxes that ever were.
CREATE INDEX tokens_of_sandbox ON tokens (sandbox_id) WHERE sandbox_id IS NOT NULL AND revoked_at IS NULL;
CREATE INDEX tokens_of_people ON tokens (created_at, id) WHERE kind <> 'sandbox';

-- The open questions of one sandbox. They are asked for as those without an answer, because questions_by_state has all
-- open ones.
CREATE INDEX questions_unanswered ON questions (sandbox_id) WHERE answered_at IS NULL;
-- The newest answer that is remembered for a tool, of a sandbox and of a task over its attempts.
CREATE INDEX questions_remembered_by_sandbox ON questions (sandbox_id, tool, id)
    WHERE state = 'answered' AND remember = 'tool';
CREATE INDEX questions_remembered_by_task ON questions (task_id, tool, id)
    WHERE state = 'answered' AND remember = 'tool';

-- What is looked for once a second: whose moment has come, and who waits for words (none).
CREATE INDEX waits_by_moment ON waits (until);

-- Pages of everything, newest first.
CREATE INDEX tickets_by_time ON tickets (created_at, id);
CREATE INDEX tasks_by_time ON tasks (created_at, id);
