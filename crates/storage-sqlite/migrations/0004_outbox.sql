-- Receivers, what has to be delivered to them, and who has done what.

-- Whom to tell about a batch: JSON that only the engine reads.
ALTER TABLE batches ADD COLUMN notify TEXT;

-- A worker is one of an instance. Both are there as long as its claim is in force, also while
-- others may already take the chunk because it was silent; a chunk that is claimed without them has
-- lost its instance. So a worker that asks for a chunk and is found here has never heard of its
-- claim.
ALTER TABLE chunks RENAME COLUMN worker TO instance;
ALTER TABLE chunks ADD COLUMN worker INTEGER;
UPDATE chunks SET instance = NULL WHERE state <> 'claimed';

CREATE INDEX chunks_by_worker ON chunks (instance, worker) WHERE instance IS NOT NULL;

-- Whom to deliver to. AUTOINCREMENT, because deliveries outlive their receiver and must not become
-- those of another. There is no reference to tenants: a receiver does not keep its tenant alive.
CREATE TABLE receivers (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant          TEXT NOT NULL,
    purpose         TEXT NOT NULL,
    name            TEXT NOT NULL,
    settings        TEXT NOT NULL,
    revision        INTEGER NOT NULL DEFAULT 0,
    disabled_at     INTEGER,
    disabled_reason TEXT,
    created_at      INTEGER NOT NULL,
    UNIQUE (tenant, purpose, name)
) STRICT;

-- States that batches came to and that nobody has made deliveries of. A row is written with the
-- change of the batch, and goes with the deliveries that are made of it.
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    batch  INTEGER NOT NULL REFERENCES batches (id),
    state  TEXT NOT NULL,
    at     INTEGER NOT NULL
) STRICT;

-- What has to be delivered and how that went, without what is sent: these rows change with every
-- attempt, and the less there is to write again, the better. `due_at` is when a pending one may be
-- claimed; a claim moves it to its own end. Whatever ends a claim changes the token. What begins
-- with `last_` is the last attempt that is over.
CREATE TABLE deliveries (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant      TEXT NOT NULL,
    receiver    INTEGER NOT NULL,
    state       TEXT NOT NULL DEFAULT 'pending',
    attempts    INTEGER NOT NULL DEFAULT 0,
    token       INTEGER NOT NULL DEFAULT 0,
    due_at      INTEGER,
    created_at  INTEGER NOT NULL,
    settled_at  INTEGER,
    last_number INTEGER,
    last_at     INTEGER,
    last_ms     INTEGER,
    last_status INTEGER,
    last_error  TEXT
) STRICT;

-- Only what is pending is in the first one, so a claim costs the same however much was delivered.
CREATE INDEX deliveries_due ON deliveries (receiver, due_at) WHERE state = 'pending';
CREATE INDEX deliveries_by_state ON deliveries (receiver, state);
CREATE INDEX deliveries_over ON deliveries (settled_at) WHERE state IN ('delivered', 'abandoned');

-- What is sent.
CREATE TABLE contents (
    delivery INTEGER PRIMARY KEY REFERENCES deliveries (number) ON DELETE CASCADE,
    key      TEXT NOT NULL,
    subject  TEXT NOT NULL,
    body     TEXT NOT NULL
) STRICT;

-- Attempts that failed. `number` begins again when somebody has a delivery tried again, `place`
-- does not.
CREATE TABLE attempts (
    delivery INTEGER NOT NULL REFERENCES deliveries (number) ON DELETE CASCADE,
    place    INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    ms       INTEGER NOT NULL,
    status   INTEGER,
    error    TEXT,
    PRIMARY KEY (delivery, place)
) STRICT, WITHOUT ROWID;

-- The audit log. What is in it stays as it is, whatever a later release may get wrong.
CREATE TABLE deeds (
    number  INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    key_id  INTEGER NOT NULL,
    tenant  TEXT NOT NULL,
    action  TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail  TEXT NOT NULL
) STRICT;

CREATE INDEX deeds_by_tenant ON deeds (tenant);
CREATE INDEX deeds_by_action ON deeds (action);
CREATE INDEX deeds_by_subject ON deeds (subject);

CREATE TRIGGER deeds_do_not_change BEFORE UPDATE ON deeds
BEGIN SELECT raise(ABORT, 'the audit log does not change'); END;
CREATE TRIGGER deeds_do_not_go BEFORE DELETE ON deeds
BEGIN SELECT raise(ABORT, 'the audit log does not change'); END;
