-- Deliveries: what has to reach a receiver. Their receivers are in the catalogue.
--
-- A delivery is one row with its content, which never changes, and one small row in one of two other
-- tables, which says where it stands: pending, or settled. So what changes often is small and stays
-- small, however much was ever delivered: claims never read past what is settled, the body is written
-- once, and vacuuming what claims leave behind is quick. Settled rows are only added, and all of them
-- are taken away together with the content.
--
-- A step that has to do with both first takes the row out of one table, or finds that it is not there.
-- Rows of pending deliveries are locked in order of numbers, except by those who skip locked ones.

CREATE TABLE deliveries (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    receiver   bigint NOT NULL,
    key        text NOT NULL,
    subject    text NOT NULL,
    body       text NOT NULL,
    created_at timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX deliveries_by_receiver ON deliveries (receiver, number);

-- `due_at` is when the next attempt may begin, and the end of a claim while there is one. `token` grows
-- with every claim and at the end of each. `attempts` are those since it was put on record or tried
-- again by hand. What begins with `last_` is the last attempt that is over.
--
-- Every claim changes `due_at`, which has to be in the index, so no update is a HOT one and free space
-- in the pages would be of no use. Nobody waits for the end of the table to be cut off.
CREATE TABLE pending_deliveries (
    number       bigint PRIMARY KEY,
    receiver     bigint NOT NULL,
    due_at       timestamptz NOT NULL,
    attempts     integer NOT NULL DEFAULT 0,
    token        bigint NOT NULL DEFAULT 0,
    last_attempt integer,
    last_at      timestamptz,
    last_us      bigint,
    last_status  integer,
    last_error   text
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

CREATE INDEX pending_deliveries_by_turn ON pending_deliveries (receiver, due_at, number);

CREATE TABLE settled_deliveries (
    number       bigint PRIMARY KEY,
    receiver     bigint NOT NULL,
    state        text NOT NULL CHECK (state IN ('delivered', 'dead', 'abandoned')),
    settled_at   timestamptz NOT NULL,
    attempts     integer NOT NULL,
    token        bigint NOT NULL,
    last_attempt integer,
    last_at      timestamptz,
    last_us      bigint,
    last_status  integer,
    last_error   text
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- What is forgotten one day, and what people look for.
CREATE INDEX settled_deliveries_by_age ON settled_deliveries (settled_at)
    WHERE state IN ('delivered', 'abandoned');
CREATE INDEX settled_deliveries_failed ON settled_deliveries (receiver, state, number)
    WHERE state IN ('dead', 'abandoned');

-- Whose the receivers are that deliveries are for: a number alone opens no door. A receiver is always
-- the same tenant's, so rows stay as they are.
CREATE TABLE delivery_receivers (
    receiver bigint PRIMARY KEY,
    tenant   text COLLATE "C" NOT NULL
);

-- Attempts that have failed. The number of one may come again after a delivery was tried again by
-- hand.
CREATE TABLE delivery_attempts (
    delivery bigint NOT NULL,
    id       bigint GENERATED ALWAYS AS IDENTITY,
    attempt  integer NOT NULL,
    at       timestamptz NOT NULL,
    us       bigint NOT NULL,
    status   integer,
    error    text NOT NULL,
    PRIMARY KEY (delivery, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- Puts deliveries of a tenant on record, due at once.
CREATE FUNCTION put_deliveries(
    the_tenant text, receivers bigint[], keys text[], subjects text[], bodies text[], at timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO delivery_receivers (receiver, tenant)
    SELECT DISTINCT wanted.receiver, the_tenant FROM unnest(receivers) AS wanted (receiver)
    WHERE NOT EXISTS (SELECT FROM delivery_receivers AS known
                      WHERE known.receiver = wanted.receiver)
    ORDER BY wanted.receiver
    ON CONFLICT DO NOTHING;
    WITH put AS (
        INSERT INTO deliveries (receiver, key, subject, body, created_at)
        SELECT receiver, key, subject, body, at
        FROM unnest(receivers, keys, subjects, bodies) AS content (receiver, key, subject, body)
        RETURNING number, receiver
    )
    INSERT INTO pending_deliveries (number, receiver, due_at)
    SELECT number, receiver, at FROM put;
END $$;

-- Puts the deliveries of an event on record and forgets the event. False if it is not there.
CREATE FUNCTION route_event(
    the_event bigint, receivers bigint[], keys text[], subjects text[], bodies text[], at timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    told record;
BEGIN
    DELETE FROM events WHERE number = the_event RETURNING batch_id INTO told;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM put_deliveries(tenant, receivers, keys, subjects, bodies, at)
    FROM batches WHERE id = told.batch_id;
    RETURN true;
END $$;

-- Makes a settled delivery due at once, with all attempts. False if it is none.
CREATE FUNCTION retry_delivery(the_delivery bigint, at timestamptz)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    WITH taken AS (
        DELETE FROM settled_deliveries WHERE number = the_delivery
        RETURNING *
    )
    INSERT INTO pending_deliveries (number, receiver, due_at, attempts, token,
                                    last_attempt, last_at, last_us, last_status, last_error)
    SELECT number, receiver, at, 0, token,
           last_attempt, last_at, last_us, last_status, last_error
    FROM taken;
    RETURN FOUND;
END $$;

-- Gives up pending deliveries, whoever has a claim on them, and says how many of them there were.
CREATE FUNCTION abandon_pending(numbers bigint[], at timestamptz)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    abandoned bigint;
BEGIN
    PERFORM FROM unnest(numbers) AS wanted (number)
    CROSS JOIN LATERAL (
        SELECT FROM pending_deliveries AS pending
        WHERE pending.number = wanted.number FOR UPDATE) AS locked;
    WITH taken AS (
        DELETE FROM pending_deliveries WHERE number = ANY (numbers)
        RETURNING *
    )
    INSERT INTO settled_deliveries (number, receiver, state, settled_at, attempts, token,
                                    last_attempt, last_at, last_us, last_status, last_error)
    SELECT number, receiver, 'abandoned', at, attempts, token + 1,
           last_attempt, last_at, last_us, last_status, last_error
    FROM taken;
    GET DIAGNOSTICS abandoned = ROW_COUNT;
    RETURN abandoned;
END $$;

-- Gives up a delivery that is pending or a dead letter. False if it is neither.
CREATE FUNCTION abandon_delivery(the_delivery bigint, at timestamptz)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF abandon_pending(ARRAY[the_delivery], at) > 0 THEN
        RETURN true;
    END IF;
    -- One that was settled a moment ago is seen by now.
    UPDATE settled_deliveries SET state = 'abandoned', settled_at = at
    WHERE number = the_delivery AND state = 'dead';
    RETURN FOUND;
END $$;

-- Gives up the first so many pending deliveries to a receiver of a tenant. `looked_at` is 0 when there
-- are none.
CREATE FUNCTION abandon_some(
    the_tenant text, the_receiver bigint, most bigint, at timestamptz,
    OUT looked_at bigint, OUT abandoned bigint
) LANGUAGE plpgsql AS $$
DECLARE
    numbers bigint[];
BEGIN
    SELECT coalesce(array_agg(number ORDER BY number), '{}') INTO numbers
    FROM (SELECT number FROM pending_deliveries WHERE receiver = the_receiver
          ORDER BY due_at LIMIT most) AS first
    WHERE EXISTS (SELECT FROM delivery_receivers
                  WHERE receiver = the_receiver AND tenant = the_tenant);
    looked_at := cardinality(numbers);
    abandoned := abandon_pending(numbers, at);
END $$;
