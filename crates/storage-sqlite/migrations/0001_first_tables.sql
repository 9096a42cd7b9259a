-- The tables of the first release.
--
-- Serials are integers below 2^63. A range of serials is `start` and `stop`, and `stop` is not in
-- it. Times are milliseconds since 1970. Columns named `period` hold the counter within a type:
-- '2026', '2026-11', or '' for a counter that never starts again.

-- 'MNTG' in ASCII, so that the file of another program is told apart from ours.
PRAGMA application_id = 0x4d4e5447;

-- Numbers about the whole store. `catalogue_version` grows with every change of types, tenants and
-- keys. `probe` is written by the health check and means nothing.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO meta (name, value) VALUES ('catalogue_version', 0), ('probe', 0);

CREATE TABLE tenants (
    name                TEXT PRIMARY KEY,
    requests_per_second INTEGER,
    created_at          INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- AUTOINCREMENT, because the number of a deleted type must never come back: the log may still
-- speak of it. `spec` is the specification as JSON; `tenant` and `name` repeat what it says so that
-- they can be unique.
CREATE TABLE id_types (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant     TEXT NOT NULL REFERENCES tenants (name),
    name       TEXT NOT NULL,
    spec       TEXT NOT NULL,
    sealed_key BLOB NOT NULL,
    retired    INTEGER NOT NULL DEFAULT 0,
    used       INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    UNIQUE (tenant, name)
) STRICT;

-- How far each counter has been drawn. A row is never deleted, and `next` only goes back when the
-- tail of the counter is given back unused.
CREATE TABLE counters (
    type_id INTEGER NOT NULL REFERENCES id_types (id),
    period  TEXT NOT NULL,
    next    INTEGER NOT NULL,
    PRIMARY KEY (type_id, period)
) STRICT, WITHOUT ROWID;

-- Serials that are with an instance and not accounted for. Rows of one counter never overlap. A row
-- shrinks from its front, so the key is its end, which stays.
CREATE TABLE draws (
    type_id  INTEGER NOT NULL,
    period   TEXT NOT NULL,
    stop     INTEGER NOT NULL,
    start    INTEGER NOT NULL,
    instance TEXT NOT NULL,
    drawn_at INTEGER NOT NULL,
    PRIMARY KEY (type_id, period, stop),
    CHECK (start < stop)
) STRICT, WITHOUT ROWID;

-- Who was given which serials: one row for a group of issues, which are packed in `entries`.
--
-- Groups of snowflakes overlap, because the IDs of several nodes interleave. `width_log2` makes a
-- lookup quick all the same: a group of that class is narrower than 2^(width_log2 + 1), so the
-- groups that can hold a serial begin within that distance before it. There is no reference to
-- id_types: a late log entry must never fail because its type is gone.
CREATE TABLE issue_log (
    type_id    INTEGER NOT NULL,
    period     TEXT NOT NULL,
    width_log2 INTEGER NOT NULL,
    start      INTEGER NOT NULL,
    stop       INTEGER NOT NULL,
    entries    BLOB NOT NULL,
    PRIMARY KEY (type_id, period, width_log2, start),
    CHECK (start < stop)
) STRICT, WITHOUT ROWID;

-- Serials that will never carry anything, with the reason. Gaps of one counter never overlap.
CREATE TABLE gaps (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    type_id     INTEGER NOT NULL,
    period      TEXT NOT NULL,
    start       INTEGER NOT NULL,
    stop        INTEGER NOT NULL,
    reason      TEXT NOT NULL,
    detected_at INTEGER NOT NULL,
    instance    TEXT NOT NULL,
    CHECK (start < stop)
) STRICT;

CREATE INDEX gaps_by_type ON gaps (type_id, id);
CREATE UNIQUE INDEX gaps_by_serial ON gaps (type_id, period, start);

-- Answers to requests with an idempotency key. A claim has no status yet, and no time to expire.
CREATE TABLE answers (
    scope      TEXT NOT NULL,
    key        TEXT NOT NULL,
    body_hash  BLOB NOT NULL,
    claimed_at INTEGER NOT NULL,
    status     INTEGER,
    body       BLOB,
    expires_at INTEGER,
    PRIMARY KEY (scope, key)
) STRICT;

CREATE INDEX answers_by_expiry ON answers (expires_at) WHERE expires_at IS NOT NULL;

-- API keys. `scopes` are names with a comma between them. A key outlives its tenant in the log, so
-- it does not refer to it.
CREATE TABLE api_keys (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    short               TEXT NOT NULL UNIQUE,
    secret_hash         BLOB NOT NULL,
    name                TEXT NOT NULL,
    tenant              TEXT,
    scopes              TEXT NOT NULL,
    requests_per_second INTEGER,
    created_at          INTEGER NOT NULL,
    expires_at          INTEGER,
    revoked_at          INTEGER
) STRICT;

-- Snowflake nodes: who holds each, and the latest time that its IDs may carry.
CREATE TABLE nodes (
    node          INTEGER PRIMARY KEY,
    instance      TEXT NOT NULL,
    high_water_ms INTEGER
) STRICT;
