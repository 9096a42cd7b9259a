-- Steps on the catalogue that take several statements. Locks of the form (0x4d4e5447, n) are ours.

-- Makes a tenant known and says on which shard its rows are: where the fewest tenants are, if that
-- was not decided before.
CREATE FUNCTION place_tenant(the_name text, made timestamptz, shards integer)
RETURNS smallint LANGUAGE plpgsql AS $$
DECLARE
    place smallint;
BEGIN
    SELECT shard INTO place FROM placements WHERE tenant = the_name;
    IF NOT FOUND THEN
        PERFORM pg_advisory_xact_lock(1296979015, 2);
        INSERT INTO placements (tenant, shard)
        SELECT the_name, number
        FROM generate_series(0, shards - 1) AS number LEFT JOIN placements ON shard = number
        GROUP BY number ORDER BY count(tenant), number LIMIT 1
        ON CONFLICT DO NOTHING;
        SELECT shard INTO place FROM placements WHERE tenant = the_name;
    END IF;
    INSERT INTO tenants (name, created_at) VALUES (the_name, made) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        UPDATE meta SET version = version + 1;
    END IF;
    RETURN place;
END $$;

-- Makes an instance known and gives it the lowest free node. Nothing if all nodes are taken.
CREATE FUNCTION join_instance(the_name text, lease_ms bigint)
RETURNS smallint LANGUAGE plpgsql AS $$
DECLARE
    until     timestamptz := clock_timestamp() + lease_ms * interval '1 millisecond';
    its_node  smallint;
    stopped   text;
BEGIN
    UPDATE instances SET expires_at = until WHERE name = the_name AND node IS NOT NULL
    RETURNING node INTO its_node;
    IF FOUND THEN
        RETURN its_node;
    END IF;
    -- One at a time, so that no two see the same node free.
    PERFORM pg_advisory_xact_lock(1296979015, 3);
    SELECT number INTO its_node
    FROM generate_series(0, 1023) AS number
    WHERE NOT EXISTS (SELECT FROM instances WHERE node = number)
    ORDER BY number LIMIT 1;
    IF NOT FOUND THEN
        -- Take it from an instance that has stopped by now, because it knows when its lease ends.
        SELECT name, node INTO stopped, its_node FROM instances
        WHERE expires_at <= clock_timestamp() AND node IS NOT NULL
        ORDER BY node LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        UPDATE instances SET node = NULL WHERE name = stopped;
    END IF;
    -- The same instance may be joining twice at the same moment. Then the first one counts.
    INSERT INTO instances (name, node, expires_at) VALUES (the_name, its_node, until)
    ON CONFLICT (name) DO UPDATE
        SET expires_at = excluded.expires_at, node = coalesce(instances.node, excluded.node)
    RETURNING node INTO its_node;
    RETURN its_node;
END $$;

-- The epoch of the pools on a server. Another server than the last one begins the next epoch.
CREATE FUNCTION pool_epoch(the_server text, at timestamptz)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    last record;
BEGIN
    SELECT epoch, server INTO last FROM pool_epochs ORDER BY epoch DESC LIMIT 1;
    IF FOUND AND last.server = the_server THEN
        RETURN last.epoch;
    END IF;
    PERFORM pg_advisory_xact_lock(1296979015, 4);
    SELECT epoch, server INTO last FROM pool_epochs ORDER BY epoch DESC LIMIT 1;
    IF FOUND AND last.server = the_server THEN
        RETURN last.epoch;
    END IF;
    UPDATE pool_epochs SET ended_at = at WHERE epoch = last.epoch;
    INSERT INTO pool_epochs (epoch, server) VALUES (coalesce(last.epoch, 0) + 1, the_server)
    RETURNING epoch INTO last.epoch;
    RETURN last.epoch;
END $$;
