-- What the files of batches came to when they were first worked out. A row never changes.
--
-- `file` is the format and the columns, `ends` a digest of the ends of the file: the codes themselves
-- are nowhere in the database.
CREATE TABLE manifests (
    batch  INTEGER PRIMARY KEY REFERENCES batches (id),
    file   TEXT NOT NULL,
    ends   TEXT NOT NULL,
    bytes  INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    at     INTEGER NOT NULL
) STRICT;
