-- For how long batches had nothing but dead letters left to do: nobody worked on them, so it is no part
-- of the time that they took.
ALTER TABLE batches ADD COLUMN idle_since INTEGER;
ALTER TABLE batches ADD COLUMN idle_ms INTEGER NOT NULL DEFAULT 0;
