-- What came along with scans: a row for each scan that brought something.
CREATE TABLE scan_contexts (
    type_id    bigint NOT NULL,
    serial     bigint NOT NULL,
    -- Which scan of its code it was, from 1.
    number     bigint NOT NULL,
    scanned_at timestamptz NOT NULL,
    -- The API key of the caller; 0 where the server ran open.
    key_id     bigint NOT NULL,
    -- An object in JSON. It is text because jsonb takes no NUL, which JSON does.
    context    text NOT NULL,
    PRIMARY KEY (type_id, serial, number)
);

-- For whoever forgets the oldest.
CREATE INDEX scan_contexts_by_time ON scan_contexts (scanned_at);
