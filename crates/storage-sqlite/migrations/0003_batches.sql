-- Batches: orders for many codes, done in the background in chunks.
--
-- The codes themselves are in tables of at most five million rows each, `codes_<type>_<number>`,
-- which are made when the first row goes there; see `codes.rs`. A code is in the table of its
-- serial divided by that size, so one probe finds it, and rows are appended in order.

-- The first millisecond, counted from the epoch of batches, whose IDs no batch has taken. It only
-- grows, so that IDs never repeat, whatever the clock says.
INSERT INTO meta (name, value) VALUES ('code_clock_ms', 0);

-- `id` is a snowflake and grows with the time of the order. The tenant is that of the time of the
-- order. The range of the serials is `start` and `stop`; the chunks of a stored batch divide it.
CREATE TABLE batches (
    id            INTEGER PRIMARY KEY,
    tenant        TEXT NOT NULL,
    type_id       INTEGER NOT NULL REFERENCES id_types (id),
    start         INTEGER NOT NULL,
    stop          INTEGER NOT NULL,
    chunk_serials INTEGER NOT NULL,
    derived       INTEGER NOT NULL,
    state         TEXT NOT NULL,
    made          INTEGER NOT NULL DEFAULT 0,
    abandoned     INTEGER NOT NULL DEFAULT 0,
    dead_chunks   INTEGER NOT NULL DEFAULT 0,
    error         TEXT,
    name          TEXT,
    metadata      TEXT,
    key_id        INTEGER NOT NULL,
    order_key     TEXT UNIQUE,
    created_at    INTEGER NOT NULL,
    started_at    INTEGER,
    finished_at   INTEGER,
    recalled_at   INTEGER,
    recall_reason TEXT,
    CHECK (start < stop)
) STRICT;

CREATE INDEX batches_by_serial ON batches (type_id, start);

-- Few, however many batches there have been.
CREATE INDEX batches_under_way ON batches (tenant) WHERE finished_at IS NULL;

-- What tenants have ordered in all, and whose turn it is: `turn` grows with every claim, and the
-- tenant with the lowest one is served next.
CREATE TABLE batch_tenants (
    tenant  TEXT PRIMARY KEY,
    ordered INTEGER NOT NULL DEFAULT 0,
    turn    INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX batch_tenants_by_turn ON batch_tenants (turn);

-- What is left to do: a chunk that is done or given up has no row any more, so a claim costs the
-- same at the end of a batch as at its beginning. `state` is one of
--   ready    may be claimed at once
--   waiting  has failed and may be claimed from `since` on
--   claimed  is being worked on since `since`
--   dead     is a dead letter since `since`
-- A claim is in force as long as the row has its token.
CREATE TABLE chunks (
    batch    INTEGER NOT NULL REFERENCES batches (id),
    number   INTEGER NOT NULL,
    state    TEXT NOT NULL DEFAULT 'ready',
    attempts INTEGER NOT NULL DEFAULT 0,
    token    INTEGER NOT NULL DEFAULT 0,
    since    INTEGER,
    worker   TEXT,
    error    TEXT,
    PRIMARY KEY (batch, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX chunks_ready ON chunks (batch, number) WHERE state = 'ready';
CREATE INDEX chunks_waiting ON chunks (since) WHERE state = 'waiting';
CREATE INDEX chunks_claimed ON chunks (since) WHERE state = 'claimed';
CREATE INDEX chunks_dead ON chunks (batch, number) WHERE state = 'dead';
