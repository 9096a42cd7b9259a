-- What came along with scans: a row for each scan that brought something. Rows are appended in the order of
-- the scans, which is why this is no table without row numbers: these would be written all over it.
CREATE TABLE scan_contexts (
    type_id    INTEGER NOT NULL,
    serial     INTEGER NOT NULL,
    -- Which scan of its code it was, from 1.
    number     INTEGER NOT NULL,
    scanned_at INTEGER NOT NULL,
    -- The API key of the caller; 0 where the server ran open.
    key_id     INTEGER NOT NULL,
    -- An object in JSON.
    context    TEXT NOT NULL,
    PRIMARY KEY (type_id, serial, number)
) STRICT;

-- For whoever forgets the oldest.
CREATE INDEX scan_contexts_by_time ON scan_contexts (scanned_at);
