-- When gaps were lost, and gaps whose reason changes.
--
-- An instance of the release before goes on working: the functions that it calls are there with the
-- parameters that it knows.

-- Only where that is known and was not when the gap was found.
ALTER TABLE gaps ADD COLUMN lost_at timestamptz;

-- Makes gaps of all that a holder has, as before, and says when it was lost.
CREATE FUNCTION close_holder(
    the_holder text, why text, lost timestamptz, detected timestamptz
) RETURNS SETOF gaps LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM draws WHERE holder = the_holder ORDER BY type_id, period FOR UPDATE;
    RETURN QUERY
        WITH closed AS (
            DELETE FROM draws WHERE holder = the_holder RETURNING type_id, period, open
        )
        INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance, lost_at)
        SELECT closed.type_id, closed.period, lower(span), upper(span), why, detected, the_holder,
               lost
        FROM closed CROSS JOIN unnest(closed.open) AS span
        ORDER BY closed.type_id, closed.period, span
        RETURNING gaps.*;
END $$;

-- Takes spans off open gaps, or closes these parts of them, as before. All parts were lost when the
-- whole was.
CREATE OR REPLACE FUNCTION split_gaps(
    types bigint[], periods text[], starts bigint[], stops bigint[], closed timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    hit record;
BEGIN
    FOR hit IN
        SELECT gaps.*,
               int8multirange(int8range(gaps.start, gaps.stop)) - taken.spans AS rest,
               int8multirange(int8range(gaps.start, gaps.stop)) * taken.spans AS removed
        FROM gaps JOIN spans_by_counter(types, periods, starts, stops) AS taken
            ON gaps.type_id = taken.type_id AND gaps.period = taken.period
           AND gaps.stop > lower(taken.spans)
           AND int8range(gaps.start, gaps.stop) && taken.spans
        WHERE gaps.closed_at IS NULL
        ORDER BY gaps.type_id, gaps.period, gaps.stop FOR UPDATE OF gaps
    LOOP
        IF isempty(hit.rest) THEN
            IF closed IS NULL THEN
                DELETE FROM gaps WHERE id = hit.id;
            ELSE
                UPDATE gaps SET closed_at = closed WHERE id = hit.id;
            END IF;
            CONTINUE;
        END IF;
        UPDATE gaps SET start = lower(part), stop = upper(part)
        FROM unnest(hit.rest) WITH ORDINALITY AS parts (part, place)
        WHERE id = hit.id AND place = 1;
        INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance, lost_at,
                          closed_at, signed_by, signed_at, sign_note)
        SELECT hit.type_id, hit.period, lower(part), upper(part), hit.reason, hit.detected_at,
               hit.instance, hit.lost_at, part_closed, hit.signed_by, hit.signed_at, hit.sign_note
        FROM (SELECT part, NULL::timestamptz AS part_closed
              FROM unnest(hit.rest) WITH ORDINALITY AS parts (part, place) WHERE place > 1
              UNION ALL
              SELECT part, closed FROM unnest(hit.removed) AS parts (part)
              WHERE closed IS NOT NULL) AS pieces;
    END LOOP;
END $$;

-- Records that the numbers of documents are gaps. One that is a gap for the same reason stays as it is.
-- For another reason it is another gap, and the first one is over: somebody may have accepted that. Every
-- document has a row of its own, because a person decides about every one by itself.
CREATE OR REPLACE FUNCTION lose_documents(numbers bigint[], why text, at timestamptz)
RETURNS void LANGUAGE plpgsql STRICT AS $$
BEGIN
    PERFORM split_gaps(array_agg(gaps.type_id), array_agg(gaps.period), array_agg(gaps.start),
                       array_agg(gaps.stop), at)
    FROM unnest(numbers) AS lost (number)
    CROSS JOIN LATERAL (
        SELECT type_id, period, serial FROM deliveries
        WHERE deliveries.number = lost.number AND type_id IS NOT NULL OFFSET 0) AS document
    CROSS JOIN LATERAL (
        SELECT * FROM gaps
        WHERE gaps.type_id = document.type_id AND gaps.period = document.period
          AND gaps.stop = document.serial + 1 AND closed_at IS NULL AND reason <> why
        OFFSET 0) AS gaps
    HAVING count(*) > 0;
    INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance)
    SELECT type_id, period, serial, serial + 1, why, at, ''
    FROM deliveries WHERE number = ANY (numbers) AND type_id IS NOT NULL
    ORDER BY type_id, period, serial
    ON CONFLICT (type_id, period, stop) WHERE closed_at IS NULL DO NOTHING;
END $$;

-- Ends a reservation that is held and makes a gap of its number, which was lost when its time was over.
CREATE OR REPLACE FUNCTION give_up_reservation(ended reservations, at timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE reservations SET state = ended.state WHERE number = ended.number;
    INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance, lost_at)
    VALUES (ended.type_id, ended.period, ended.serial, ended.serial + 1,
            'reservation_' || ended.state, at, '', least(ended.expires_at, at));
END $$;

CREATE OR REPLACE FUNCTION expire_reservations(most bigint, at timestamptz)
RETURNS TABLE (its_type bigint, its_period text, its_serial bigint) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        WITH due AS MATERIALIZED (
            SELECT number FROM reservations WHERE state = 'held' AND expires_at <= at
            ORDER BY expires_at LIMIT most FOR UPDATE SKIP LOCKED
        ), expired AS (
            UPDATE reservations SET state = 'expired'
            WHERE number = ANY (ARRAY(SELECT due.number FROM due))
            RETURNING type_id, period, serial, expires_at
        ), lost AS (
            INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance, lost_at)
            SELECT type_id, period, serial, serial + 1, 'reservation_expired', at, '', expires_at
            FROM expired ORDER BY type_id, period, serial
        )
        SELECT type_id, period, serial FROM expired ORDER BY type_id, period, serial;
END $$;

-- Decide about documents of a type that are dead letters, and return those that were. They are locked in
-- the order of their numbers.
CREATE FUNCTION lock_dead_documents(the_type bigint, numbers bigint[])
RETURNS bigint[] LANGUAGE sql AS $$
    SELECT coalesce(array_agg(locked.number), '{}')
    FROM (SELECT DISTINCT number FROM unnest(numbers) AS wanted (number) ORDER BY number) AS wanted
    CROSS JOIN LATERAL (
        SELECT number FROM settled_deliveries AS settled
        WHERE settled.number = wanted.number AND settled.type_id = the_type
          AND settled.type_id <> 0 AND settled.state = 'dead'
        FOR UPDATE) AS locked
$$;

CREATE FUNCTION retry_documents(the_type bigint, numbers bigint[], at timestamptz)
RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
    dead bigint[] := lock_dead_documents(the_type, numbers);
BEGIN
    RETURN QUERY
        WITH taken AS (
            DELETE FROM settled_deliveries WHERE number = ANY (dead)
            RETURNING *
        )
        INSERT INTO pending_deliveries (number, receiver, type_id, has_gap, due_at, attempts, token,
                                        last_attempt, last_at, last_us, last_status, last_error)
        SELECT number, receiver, type_id, true, at, 0, token,
               last_attempt, last_at, last_us, last_status, last_error
        FROM taken RETURNING number;
END $$;

CREATE FUNCTION abandon_documents(the_type bigint, numbers bigint[], at timestamptz)
RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
    dead bigint[] := lock_dead_documents(the_type, numbers);
BEGIN
    UPDATE settled_deliveries SET state = 'abandoned', settled_at = at WHERE number = ANY (dead);
    PERFORM lose_documents(dead, 'abandoned', at);
    RETURN QUERY SELECT unnest(dead);
END $$;
