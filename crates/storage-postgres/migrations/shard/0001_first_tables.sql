-- The tables that every database of a cluster has.
--
-- Serials are below 2^63. A range of serials is `start` and `stop`, and `stop` is not in it. Columns
-- named `period` hold the counter within a type: '2026', '2026-11', or '' for a counter that never
-- starts again. Text is compared byte by byte, so that order does not depend on the server's locale.

-- Which database of which cluster this is, so that a wrong one is noticed. `version` grows with
-- every change of what instances keep in memory: types here, and on the first database also
-- tenants and keys. The sum over all databases is what instances compare.
CREATE TABLE meta (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    cluster  text NOT NULL,
    shard    smallint NOT NULL CHECK (shard BETWEEN 0 AND 255),
    version  bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- Written by the health check. It means nothing.
CREATE TABLE probe (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    at       timestamptz NOT NULL
) WITH (fillfactor = 50);

INSERT INTO probe (at) VALUES (now());

-- The number of a type is a number of this sequence times 256, plus the number of the shard: so it
-- says where its rows are, and it never comes back, because the log may still speak of it.
CREATE SEQUENCE type_numbers;

-- `spec` is the specification as JSON, as text: its field order is part of it. `tenant` and `name`
-- repeat what it says so that they can be unique.
CREATE TABLE id_types (
    id         bigint PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    spec       text NOT NULL,
    sealed_key bytea NOT NULL,
    retired    boolean NOT NULL DEFAULT false,
    used       boolean NOT NULL DEFAULT false,
    revision   bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    UNIQUE (tenant, name)
);

-- How far each counter has been drawn. A row is never deleted, and `next` only goes back when the
-- tail of the counter is given back unused. Rows change often and stay small, so pages have room
-- for the next version of each.
CREATE TABLE counters (
    type_id bigint NOT NULL REFERENCES id_types (id),
    period  text COLLATE "C" NOT NULL,
    next    bigint NOT NULL,
    PRIMARY KEY (type_id, period)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Serials that are with somebody and not accounted for: an instance, or a pool that instances
-- share. Nobody's overlap with anybody else's. A row that holds nothing any more is deleted.
CREATE TABLE draws (
    type_id bigint NOT NULL,
    period  text COLLATE "C" NOT NULL,
    holder  text COLLATE "C" NOT NULL,
    open    int8multirange NOT NULL,
    PRIMARY KEY (type_id, period, holder)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX draws_by_holder ON draws (holder);

-- Who was given which serials: one row for a group of issues, which are packed in `entries`.
--
-- Groups of snowflakes overlap, because the IDs of several nodes interleave. `width_log2` makes a
-- lookup quick all the same: a group of that class is narrower than 2^(width_log2 + 1), so the
-- groups that can hold a serial begin within that distance before it. There is no reference to
-- id_types: a late log entry must never fail because its type is gone.
CREATE TABLE issue_log (
    type_id    bigint NOT NULL,
    period     text COLLATE "C" NOT NULL,
    width_log2 smallint NOT NULL,
    start      bigint NOT NULL,
    stop       bigint NOT NULL,
    entries    bytea NOT NULL,
    PRIMARY KEY (type_id, period, width_log2, start),
    CHECK (start < stop)
);

-- Serials that will never carry anything, with the reason. Gaps of one counter never overlap, so
-- the first one that ends behind a serial is the only one that can hold it.
CREATE TABLE gaps (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    type_id     bigint NOT NULL,
    period      text COLLATE "C" NOT NULL,
    start       bigint NOT NULL,
    stop        bigint NOT NULL,
    reason      text NOT NULL,
    detected_at timestamptz NOT NULL,
    instance    text NOT NULL,
    CHECK (start < stop)
);

CREATE INDEX gaps_by_type ON gaps (type_id, id);
CREATE UNIQUE INDEX gaps_by_serial ON gaps (type_id, period, stop);

-- Which table is the pool of which type. No two types share one. `filled_to` is later than the
-- creation of every row that we have put in it: rows are served in that order.
CREATE TABLE pool_tables (
    type_id    bigint NOT NULL REFERENCES id_types (id) ON DELETE CASCADE,
    period     text COLLATE "C" NOT NULL,
    table_name text COLLATE "C" NOT NULL UNIQUE,
    filled_to  timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (type_id, period)
);
