-- Scans that came with a key, so that one that is repeated counts once, whatever became of its answer.
CREATE TABLE scan_keys (
    key        bytea PRIMARY KEY,
    -- Which scan of its code it was, from 1. NULL only within the step that counts it.
    scans      bigint,
    counted_at timestamptz NOT NULL
);

CREATE INDEX scan_keys_by_time ON scan_keys (counted_at);
