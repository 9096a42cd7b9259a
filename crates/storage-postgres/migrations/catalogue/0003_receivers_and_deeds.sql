-- Whom the service delivers to, and who has done what.

-- Receivers. `settings` is JSON, as text, with its secrets sealed; nothing here reads it. What was
-- delivered to one is on the shard of its tenant and outlives it.
CREATE TABLE receivers (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant          text COLLATE "C" NOT NULL,
    purpose         text COLLATE "C" NOT NULL CHECK (purpose IN ('webhook', 'sink')),
    name            text COLLATE "C" NOT NULL,
    settings        text NOT NULL,
    revision        bigint NOT NULL DEFAULT 0,
    disabled_at     timestamptz,
    disabled_reason text,
    created_at      timestamptz NOT NULL,
    UNIQUE (tenant, purpose, name)
);

-- The audit log. Rows are only ever added, so pages are full, and the log outlives everything that it
-- speaks of. Each filter has its index, which is in order of the log.
CREATE TABLE deeds (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL,
    key_id  bigint NOT NULL,
    tenant  text COLLATE "C" NOT NULL,
    action  text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    detail  text NOT NULL
);

CREATE INDEX deeds_by_tenant ON deeds (tenant, id);
CREATE INDEX deeds_by_action ON deeds (action, id);
CREATE INDEX deeds_by_subject ON deeds (subject, id);
