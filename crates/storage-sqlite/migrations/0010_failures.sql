-- Attempts that have failed, since a delivery was put on record or tried again by hand. `attempts` also has
-- those of a process that was gone before it could say how it went.
ALTER TABLE deliveries ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
