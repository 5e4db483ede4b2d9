-- Indexes for what was asked without one that fits, and took longer the older a database was. Writers of these tables
-- wait while they are made, which is short: there is a token a sandbox, and there are fewer questions and waits.

-- What ends with a sandbox. Whoever asks for a token by its own id cannot take this one and walk over all of it,
-- however small PostgreSQL thinks that it is.
CREATE INDEX tokens_of_sandbox ON tokens (sandbox_id) WHERE sandbox_id IS NOT NULL AND revoked_at IS NULL;

-- The open questions of one sandbox. They are asked for as those without an answer, because questions_open, which is in
-- another order, has all open ones.
CREATE INDEX questions_unanswered ON questions (sandbox_id) WHERE answered_at IS NULL;
-- The newest answer that is remembered for a tool, of a sandbox and of a task over its attempts.
CREATE INDEX questions_remembered_by_sandbox ON questions (sandbox_id, tool, id)
    WHERE state = 'answered' AND remember = 'tool';
CREATE INDEX questions_remembered_by_task ON questions (task_id, tool, id)
    WHERE state = 'answered' AND remember = 'tool';
-- A page of those of some projects.
CREATE INDEX questions_by_project ON questions (project_id, state, id);

-- What every server looks for once a second: whose moment has come, and who waits for words (none).
CREATE INDEX waits_by_moment ON waits (until);
