-- Scans that came with a key, so that one that is repeated counts once, whatever became of its answer.
CREATE TABLE scan_keys (
    key        BLOB PRIMARY KEY,
    -- Which scan of its code it was, from 1.
    scans      INTEGER NOT NULL,
    counted_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX scan_keys_by_time ON scan_keys (counted_at);
