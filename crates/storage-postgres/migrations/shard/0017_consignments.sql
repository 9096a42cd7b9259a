-- Documents that set out together.
--
-- Nearly every document is delivered by the instance that gave it its number, at the first attempt, and
-- together with others. So those that one step puts on record and claims at the same time are one row
-- here instead of one each, and so are those that have arrived together: a run of numbers. Whatever else
-- happens to one of them, it and those beside it first get rows of their own, and all is as it was before.
--
-- Runs of both tables never overlap, and what is in them is neither pending nor settled otherwise. A run
-- is no longer than 10000, so the one that has a number is found close before it.

-- On their way for the first time, and claimed until `due_at` with the token 0.
CREATE TABLE consignments (
    start    bigint PRIMARY KEY,
    stop     bigint NOT NULL CHECK (stop - start BETWEEN 1 AND 10000),
    receiver bigint NOT NULL,
    type_id  bigint NOT NULL,
    due_at   timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

CREATE INDEX consignments_by_turn ON consignments (receiver, due_at);

-- Delivered at the first attempt, which began at `at`.
CREATE TABLE arrivals (
    start      bigint PRIMARY KEY,
    stop       bigint NOT NULL CHECK (stop - start BETWEEN 1 AND 10000),
    settled_at timestamptz NOT NULL,
    at         timestamptz NOT NULL,
    us         bigint NOT NULL,
    status     integer
);

-- The consignment that has a number, or none.
CREATE FUNCTION consignment_of(the_delivery bigint) RETURNS SETOF consignments
LANGUAGE sql STABLE AS $$
    SELECT * FROM (
        SELECT * FROM consignments
        WHERE start <= the_delivery AND start > the_delivery - 10000
        ORDER BY start DESC LIMIT 1) AS last
    WHERE stop > the_delivery
$$;

-- The arrival that has a number, or none.
CREATE FUNCTION arrival_of(the_delivery bigint) RETURNS SETOF arrivals
LANGUAGE sql STABLE AS $$
    SELECT * FROM (
        SELECT * FROM arrivals
        WHERE start <= the_delivery AND start > the_delivery - 10000
        ORDER BY start DESC LIMIT 1) AS last
    WHERE stop > the_delivery
$$;

-- Gives every document of some consignments a row of its own, claimed as it is.
CREATE FUNCTION break_up(starts bigint[]) RETURNS void LANGUAGE sql AS $$
    WITH broken AS (
        DELETE FROM consignments WHERE start = ANY (starts)
        RETURNING *
    )
    INSERT INTO pending_deliveries (number, receiver, type_id, due_at, attempts, token)
    SELECT number, receiver, type_id, due_at, 1, 0
    FROM broken CROSS JOIN LATERAL generate_series(start, stop - 1) AS number
$$;

-- The same with the consignments that have some numbers. One that is settled in part just now is another
-- one afterwards, and so there is another look.
CREATE FUNCTION break_up_around(numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    starts bigint[];
BEGIN
    LOOP
        SELECT array_agg(DISTINCT consignment.start) INTO starts
        FROM unnest(numbers) AS wanted (number)
        CROSS JOIN LATERAL consignment_of(wanted.number) AS consignment;
        EXIT WHEN starts IS NULL;
        PERFORM break_up(starts);
    END LOOP;
END $$;

-- Gives a document that has arrived together with others a row of its own.
CREATE FUNCTION take_from_arrivals(the_delivery bigint) RETURNS void LANGUAGE sql AS $$
    WITH taken AS (
        DELETE FROM arrivals WHERE start = (SELECT start FROM arrival_of(the_delivery))
        RETURNING *
    ), others AS (
        INSERT INTO arrivals (start, stop, settled_at, at, us, status)
        SELECT lower(run), upper(run), settled_at, at, us, status
        FROM taken CROSS JOIN LATERAL unnest(
            int8multirange(int8range(start, stop))
            - int8multirange(int8range(the_delivery, the_delivery + 1))) AS run
    )
    INSERT INTO settled_deliveries (number, receiver, type_id, state, settled_at, attempts, token,
                                    last_attempt, last_at, last_us, last_status)
    SELECT number, receiver, type_id, 'delivered', settled_at, 1, 1, 1, at, us, status
    FROM taken JOIN deliveries ON number = the_delivery
$$;

-- As before, also of what has arrived together with others.
CREATE OR REPLACE FUNCTION retry_delivery(the_delivery bigint, at timestamptz)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM take_from_arrivals(the_delivery);
    WITH taken AS (
        DELETE FROM settled_deliveries WHERE number = the_delivery
        RETURNING *
    )
    INSERT INTO pending_deliveries (number, receiver, type_id, has_gap, due_at, attempts, token,
                                    last_attempt, last_at, last_us, last_status, last_error)
    SELECT number, receiver, type_id, type_id <> 0 AND state <> 'delivered', at, 0, token,
           last_attempt, last_at, last_us, last_status, last_error
    FROM taken;
    RETURN FOUND;
END $$;

-- As before, also of what set out together with others.
CREATE OR REPLACE FUNCTION abandon_pending(numbers bigint[], at timestamptz)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    abandoned bigint;
    documents bigint[];
BEGIN
    PERFORM break_up_around(numbers);
    PERFORM FROM unnest(numbers) AS wanted (number)
    CROSS JOIN LATERAL (
        SELECT FROM pending_deliveries AS pending
        WHERE pending.number = wanted.number FOR UPDATE) AS locked;
    WITH taken AS (
        DELETE FROM pending_deliveries WHERE number = ANY (numbers)
        RETURNING *
    ), settled AS (
        INSERT INTO settled_deliveries (number, receiver, type_id, state, settled_at, attempts,
                                        token, last_attempt, last_at, last_us, last_status,
                                        last_error)
        SELECT number, receiver, type_id, 'abandoned', at, attempts, token + 1,
               last_attempt, last_at, last_us, last_status, last_error
        FROM taken
    )
    SELECT count(*), array_agg(number) FILTER (WHERE type_id <> 0) INTO abandoned, documents
    FROM taken;
    PERFORM lose_documents(documents, 'abandoned', at);
    RETURN abandoned;
END $$;

CREATE OR REPLACE FUNCTION abandon_some(
    the_tenant text, the_receiver bigint, most bigint, at timestamptz,
    OUT looked_at bigint, OUT abandoned bigint
) LANGUAGE plpgsql AS $$
DECLARE
    numbers bigint[];
BEGIN
    PERFORM break_up(array_agg(start)) FROM consignments
    WHERE receiver = the_receiver HAVING count(*) > 0;
    SELECT coalesce(array_agg(number ORDER BY number), '{}') INTO numbers
    FROM (SELECT number FROM pending_deliveries WHERE receiver = the_receiver
          ORDER BY due_at LIMIT most) AS first
    WHERE EXISTS (SELECT FROM delivery_receivers
                  WHERE receiver = the_receiver AND tenant = the_tenant);
    looked_at := cardinality(numbers);
    abandoned := abandon_pending(numbers, at);
END $$;

-- As before, also of what set out together with others.
CREATE OR REPLACE FUNCTION note_arrival(
    the_delivery bigint, the_attempt integer, began timestamptz, took_us bigint,
    the_status integer, at timestamptz)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM break_up_around(ARRAY[the_delivery]);
    -- Whoever settles it just now comes first.
    PERFORM FROM pending_deliveries WHERE number = the_delivery FOR UPDATE;
    PERFORM FROM settled_deliveries WHERE number = the_delivery AND state <> 'delivered' FOR UPDATE;
    IF FOUND THEN
        PERFORM retry_delivery(the_delivery, at);
    END IF;
    -- Whoever has a claim on it finds that the claim has ended. One that had arrived before is pending
    -- because somebody wants it sent once more.
    WITH ended AS (
        DELETE FROM pending_deliveries
        WHERE number = the_delivery AND (last_attempt IS NULL OR last_error IS NOT NULL)
        RETURNING *
    )
    INSERT INTO settled_deliveries (number, receiver, type_id, state, settled_at, attempts, token,
                                    last_attempt, last_at, last_us, last_status)
    SELECT number, receiver, type_id, 'delivered', at, greatest(attempts, the_attempt), token + 1,
           the_attempt, began, took_us, the_status
    FROM ended;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM find_lost_documents(ARRAY[the_delivery], at);
    RETURN true;
END $$;
