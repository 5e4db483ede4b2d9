-- What one provider runs now, without a look at all that ever ran.
CREATE INDEX sandboxes_by_provider ON sandboxes (provider, state, created_at);
