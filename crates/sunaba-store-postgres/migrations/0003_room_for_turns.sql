-- The newest turn of a sandbox is rewritten with nearly every event: room on its page spares its index.
ALTER TABLE outline SET (fillfactor = 50);
