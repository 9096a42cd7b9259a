-- The tables that only the first database of a cluster has.

CREATE TABLE tenants (
    name                text COLLATE "C" PRIMARY KEY,
    requests_per_second bigint,
    created_at          timestamptz NOT NULL
);

-- On which shard a tenant's rows are. It is decided once, and outlives the tenant.
CREATE TABLE placements (
    tenant text COLLATE "C" PRIMARY KEY,
    shard  smallint NOT NULL CHECK (shard BETWEEN 0 AND 255)
);

-- API keys. `scopes` are names with a comma between them. A key outlives its tenant in the log, so
-- it does not refer to it.
CREATE TABLE api_keys (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    short               text COLLATE "C" NOT NULL UNIQUE,
    secret_hash         bytea NOT NULL,
    name                text NOT NULL,
    tenant              text,
    scopes              text NOT NULL,
    requests_per_second bigint,
    created_at          timestamptz NOT NULL,
    expires_at          timestamptz,
    revoked_at          timestamptz
);

-- Which instances are alive, by this database's clock, and the snowflake node of each. An instance
-- whose lease has run out keeps its row, and with it its node, until somebody has closed what it
-- had drawn. Only if every node is taken is the node of such a row given to another instance; the
-- row stays, without a node, and can not be renewed any more.
CREATE TABLE instances (
    name       text COLLATE "C" PRIMARY KEY,
    node       smallint UNIQUE CHECK (node BETWEEN 0 AND 1023),
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- The servers that shared pools have been on, one after the other. The last one is in force.
CREATE TABLE pool_epochs (
    epoch    bigint PRIMARY KEY,
    server   text NOT NULL,
    ended_at timestamptz
);

-- Answers to requests with an idempotency key. A claim has no status yet, and no time to expire.
CREATE TABLE answers (
    scope      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    body_hash  bytea NOT NULL,
    instance   text NOT NULL,
    number     bigint NOT NULL,
    claimed_at timestamptz NOT NULL,
    status     smallint,
    body       bytea,
    expires_at timestamptz,
    PRIMARY KEY (scope, key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX answers_by_expiry ON answers (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX claims_by_age ON answers (claimed_at) WHERE status IS NULL;
