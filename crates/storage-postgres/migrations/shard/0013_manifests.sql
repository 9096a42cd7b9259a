-- What the files of batches came to when they were first worked out. A row never changes.
--
-- `file` is the format and the columns, `ends` a digest of the ends of the file: the codes themselves
-- are nowhere in the database.
CREATE TABLE manifests (
    batch_id bigint PRIMARY KEY REFERENCES batches (id),
    file     text NOT NULL,
    ends     text NOT NULL,
    bytes    bigint NOT NULL,
    sha256   text NOT NULL,
    at       timestamptz NOT NULL
);
