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

-- The same with those to some receivers that are due. Where the order counts, with any: it was of no account
-- when they set out. Not with all at once, as there may be many, nor with those that somebody settles just
-- now: whoever finds some looks again.
CREATE FUNCTION break_up_due(receivers bigint[], in_order boolean[], at timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    documents_max constant bigint := 10000;
BEGIN
    PERFORM break_up(array_agg(due.start))
    FROM (SELECT first.start,
                 sum(first.stop - first.start) OVER before_and_this - (first.stop - first.start)
                     AS documents_before
          FROM unnest(receivers, in_order) WITH ORDINALITY AS wanted (receiver, in_order, place)
          CROSS JOIN LATERAL (
              SELECT start, stop, due_at FROM consignments
              WHERE consignments.receiver = wanted.receiver
                AND consignments.due_at <= CASE WHEN wanted.in_order THEN 'infinity' ELSE at END
              ORDER BY due_at LIMIT documents_max FOR UPDATE SKIP LOCKED) AS first
          WINDOW before_and_this AS (ORDER BY wanted.place, first.due_at, first.start)) AS due
    WHERE due.documents_before < documents_max
    HAVING count(*) > 0;
END $$;

-- As before, and nothing of a type is taken while some of it set out together with others and may be under
-- way.
CREATE OR REPLACE FUNCTION lock_in_order(the_receiver bigint, most bigint, at timestamptz)
RETURNS SETOF bigint LANGUAGE sql AS $$
    WITH RECURSIVE types (type_id) AS (
        (SELECT type_id FROM pending_deliveries WHERE receiver = the_receiver
         ORDER BY type_id LIMIT 1)
        UNION ALL
        SELECT (SELECT later.type_id FROM pending_deliveries AS later
                WHERE later.receiver = the_receiver AND later.type_id > types.type_id
                ORDER BY later.type_id LIMIT 1)
        FROM types WHERE types.type_id IS NOT NULL
    ), first AS MATERIALIZED (
        SELECT types.type_id, candidate.number,
               row_number() OVER numbers AS place,
               bool_and(candidate.due_at <= at) OVER numbers AS in_turn
        FROM types CROSS JOIN LATERAL (
            SELECT number, due_at FROM pending_deliveries
            WHERE receiver = the_receiver AND type_id = types.type_id
            ORDER BY number + 0 LIMIT most) AS candidate
        WHERE types.type_id IS NOT NULL
          AND types.type_id <> ALL (
              ARRAY(SELECT type_id FROM consignments WHERE receiver = the_receiver))
        WINDOW numbers AS (PARTITION BY types.type_id ORDER BY candidate.number)
    ), locked AS MATERIALIZED (
        SELECT first.type_id, first.number, first.place
        FROM first CROSS JOIN LATERAL (
            SELECT FROM pending_deliveries AS pending
            WHERE pending.number = first.number AND pending.due_at <= at
            FOR NO KEY UPDATE SKIP LOCKED) AS pending
        WHERE first.in_turn
    ), counted AS (
        SELECT number, place, row_number() OVER (PARTITION BY type_id ORDER BY number) AS turn
        FROM locked
    )
    SELECT number FROM counted WHERE place = turn ORDER BY number LIMIT most
$$;

-- Gives a document that has arrived together with others a row of its own. Somebody may do so with one beside
-- it just now, and so there is another look.
CREATE FUNCTION take_from_arrivals(the_delivery bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    its_start bigint;
BEGIN
    LOOP
        SELECT start INTO its_start FROM arrival_of(the_delivery);
        EXIT WHEN NOT FOUND;
        WITH taken AS (
            DELETE FROM arrivals WHERE start = its_start AND stop > the_delivery
            RETURNING *
        ), others AS (
            INSERT INTO arrivals (start, stop, settled_at, at, us, status)
            SELECT lower(run), upper(run), settled_at, at, us, status
            FROM taken CROSS JOIN LATERAL unnest(
                int8multirange(int8range(start, stop))
                - int8multirange(int8range(the_delivery, the_delivery + 1))) AS run
        )
        INSERT INTO settled_deliveries (number, receiver, type_id, state, settled_at, attempts,
                                        token, last_attempt, last_at, last_us, last_status)
        SELECT number, receiver, type_id, 'delivered', settled_at, 1, 1, 1, at, us, status
        FROM taken JOIN deliveries ON number = the_delivery;
    END LOOP;
END $$;

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
    looked_at := 0;
    abandoned := 0;
    PERFORM FROM delivery_receivers WHERE receiver = the_receiver AND tenant = the_tenant;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM break_up_due(ARRAY[the_receiver], ARRAY[true], at);
    SELECT coalesce(array_agg(number ORDER BY number), '{}') INTO numbers
    FROM (SELECT number FROM pending_deliveries WHERE receiver = the_receiver
          ORDER BY due_at LIMIT most) AS first;
    abandoned := abandon_pending(numbers, at);
    -- There are more as long as some are on their way.
    SELECT cardinality(numbers) + count(*) INTO looked_at
    FROM (SELECT FROM consignments WHERE receiver = the_receiver LIMIT 1) AS more;
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
