-- Documents and reservations, gaps that are closed or accepted, and how far the counters were
-- looked at.

-- Serials below `checked` were looked at by the reconciliation. It begins where a counter begins.
-- What was drawn before this release counts as looked at: until then serials that a filter rejects
-- left no trace, and would be taken for lost.
ALTER TABLE counters ADD COLUMN checked INTEGER NOT NULL DEFAULT 0;
UPDATE counters SET checked = next;

-- Serials that a filter rejects, where no group of issues accounts for them.
CREATE TABLE rejected (
    type_id INTEGER NOT NULL,
    period  TEXT NOT NULL,
    start   INTEGER NOT NULL,
    stop    INTEGER NOT NULL,
    PRIMARY KEY (type_id, period, start),
    CHECK (start < stop)
) STRICT, WITHOUT ROWID;

-- A gap is closed when what was missing has arrived after all. `signed_` is who has accepted it.
ALTER TABLE gaps ADD COLUMN closed_at INTEGER;
ALTER TABLE gaps ADD COLUMN signed_by INTEGER;
ALTER TABLE gaps ADD COLUMN signed_at INTEGER;
ALTER TABLE gaps ADD COLUMN signed_note TEXT;

-- Open gaps of one counter never overlap. Closed ones may, because a number can be missing more
-- than once; they are narrow (`CLOSED_SERIALS_MAX`), so those that hold a serial begin close to it.
DROP INDEX gaps_by_serial;
CREATE UNIQUE INDEX gaps_open ON gaps (type_id, period, start) WHERE closed_at IS NULL;
CREATE INDEX gaps_closed ON gaps (type_id, period, start) WHERE closed_at IS NOT NULL;

-- The type of a document; 0, which no type has, for every other delivery. It is here, and not only
-- with the document, because documents are listed by type and state, and delivered in the order of
-- their type.
ALTER TABLE deliveries ADD COLUMN type_id INTEGER NOT NULL DEFAULT 0;

CREATE INDEX deliveries_of_type ON deliveries (type_id, state) WHERE type_id > 0;
CREATE INDEX deliveries_in_order ON deliveries (receiver, type_id) WHERE state = 'pending';

-- Documents are never forgotten, so they are not in the way of what is.
DROP INDEX deliveries_over;
CREATE INDEX deliveries_over ON deliveries (settled_at)
    WHERE state IN ('delivered', 'abandoned') AND type_id = 0;

-- What a document has beside its delivery. Written once.
CREATE TABLE documents (
    delivery    INTEGER PRIMARY KEY REFERENCES deliveries (number),
    type_id     INTEGER NOT NULL,
    period      TEXT NOT NULL,
    serial      INTEGER NOT NULL,
    reference   TEXT,
    request_key TEXT,
    key_id      INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX documents_by_serial ON documents (type_id, period, serial);
CREATE UNIQUE INDEX documents_by_reference ON documents (type_id, reference)
    WHERE reference IS NOT NULL;
CREATE UNIQUE INDEX documents_by_request_key ON documents (request_key)
    WHERE request_key IS NOT NULL;

-- Numbers that are or were held for somebody. `delivery` is the document of a confirmed one. There is
-- no reference to deliveries: whatever is forgotten there would be looked for here, and is no document.
CREATE TABLE reservations (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    type_id    INTEGER NOT NULL,
    period     TEXT NOT NULL,
    serial     INTEGER NOT NULL,
    text       TEXT NOT NULL,
    state      TEXT NOT NULL DEFAULT 'held',
    key_id     INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    delivery   INTEGER
) STRICT;

CREATE UNIQUE INDEX reservations_by_serial ON reservations (type_id, period, serial);
CREATE INDEX reservations_held ON reservations (expires_at) WHERE state = 'held';
