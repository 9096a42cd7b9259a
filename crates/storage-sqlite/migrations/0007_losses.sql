-- When a gap was lost, where that is known and was not when it was found.
ALTER TABLE gaps ADD COLUMN lost_at INTEGER;
