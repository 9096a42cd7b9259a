-- How far a batch was when it came to a state. Whoever is told of it late is told of what it was then.
ALTER TABLE events ADD COLUMN made INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN abandoned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN dead_chunks INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN error TEXT;
ALTER TABLE events ADD COLUMN finished_at INTEGER;

UPDATE events SET made = batches.made, abandoned = batches.abandoned,
    dead_chunks = batches.dead_chunks, error = batches.error, finished_at = batches.finished_at
FROM batches WHERE batches.id = events.batch;

-- When somebody has last ended work on a batch. The time from then on until the next chunk is claimed is
-- no part of the time that the batch took.
ALTER TABLE batches ADD COLUMN worked_at INTEGER;
