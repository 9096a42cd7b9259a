-- Numbers of documents that are lost together are one gap, as ranges.
--
-- An instance of the release before goes on working: the functions that it calls are there with the
-- parameters that it knows.

-- Keeps others off the gaps of some counters. Two that changed parts of one gap at the same time would lose
-- a change: whoever waits for the row of a gap is told what is left of it, and nothing of its other parts.
-- So the lock is taken first, and the gaps are read by a later statement, which sees all that was done
-- before.
--
-- It comes where gaps come in the order of locks, and once in a transaction, for all counters together.
-- Locks of the form (0x4d4e544a, n) are of this kind; there are few of them, so that many counters do not
-- fill the server's table of locks. Should two counters have the same n, one of them merely waits. New
-- gaps of serials that are in none need no lock.
CREATE FUNCTION lock_gaps(types bigint[], periods text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1296979018, key)
    FROM (SELECT DISTINCT (hashint8(type_id) # hashtext(period)) & 255 AS key
          FROM unnest(types, periods) AS counter (type_id, period) ORDER BY key) AS keys;
END $$;

-- Takes spans off open gaps, or closes these parts of them, as before, and one at a time. Nearly always
-- there is nothing to take them off, and then nobody waits.
CREATE OR REPLACE FUNCTION split_gaps(
    types bigint[], periods text[], starts bigint[], stops bigint[], closed timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    hit record;
BEGIN
    PERFORM lock_gaps(array_agg(taken.type_id), array_agg(taken.period))
    FROM spans_by_counter(types, periods, starts, stops) AS taken
    CROSS JOIN LATERAL (
        SELECT FROM gaps
        WHERE gaps.type_id = taken.type_id AND gaps.period = taken.period
          AND gaps.stop > lower(taken.spans) AND gaps.closed_at IS NULL
          AND int8range(gaps.start, gaps.stop) && taken.spans
        ORDER BY gaps.stop LIMIT 1) AS first
    HAVING count(*) > 0;
    IF NOT FOUND THEN
        RETURN;
    END IF;
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
-- For another reason it is another gap, and the first one is over: somebody may have accepted that.
--
-- The documents are looked up by their numbers first, one by one: with the order that the gaps have, a
-- plan could read all documents of all types to save a sort.
CREATE OR REPLACE FUNCTION lose_documents(numbers bigint[], why text, at timestamptz)
RETURNS void LANGUAGE plpgsql STRICT AS $$
DECLARE
    types bigint[];
    periods text[];
    serials bigint[];
    otherwise boolean[];
BEGIN
    SELECT array_agg(document.type_id), array_agg(document.period), array_agg(document.serial)
    INTO types, periods, serials
    FROM (SELECT DISTINCT number FROM unnest(numbers) AS lost (number)) AS lost
    CROSS JOIN LATERAL (
        SELECT type_id, period, serial FROM deliveries
        WHERE deliveries.number = lost.number AND type_id IS NOT NULL OFFSET 0) AS document;
    PERFORM lock_gaps(types, periods);

    SELECT array_agg(document.type_id), array_agg(document.period), array_agg(document.serial),
           array_agg(known.reason IS NOT NULL)
    INTO types, periods, serials, otherwise
    FROM unnest(types, periods, serials) AS document (type_id, period, serial)
    LEFT JOIN LATERAL (
        SELECT gaps.start, gaps.reason FROM gaps
        WHERE gaps.type_id = document.type_id AND gaps.period = document.period
          AND gaps.stop > document.serial AND closed_at IS NULL
        ORDER BY gaps.stop LIMIT 1) AS known ON known.start <= document.serial
    WHERE known.reason IS DISTINCT FROM why;

    PERFORM split_gaps(array_agg(type_id), array_agg(period), array_agg(serial),
                       array_agg(serial + 1), at)
    FROM unnest(types, periods, serials, otherwise) AS lost (type_id, period, serial, is_gap)
    WHERE is_gap HAVING count(*) > 0;

    INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance)
    SELECT type_id, period, min(serial), max(serial) + 1, why, at, ''
    FROM (SELECT type_id, period, serial,
                 serial - row_number() OVER (PARTITION BY type_id, period ORDER BY serial) AS run
          FROM unnest(types, periods, serials) AS lost (type_id, period, serial)) AS lost
    GROUP BY type_id, period, run
    ORDER BY type_id, period, min(serial);
END $$;

-- Documents that have failed for good and others that have arrived after all, in one step: all of their
-- counters are locked together, so that nobody waits for anybody in a circle.
CREATE FUNCTION settle_gaps(gone bigint[], arrived bigint[], at timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF gone IS NOT NULL AND arrived IS NOT NULL THEN
        PERFORM lock_gaps(array_agg(document.type_id), array_agg(document.period))
        FROM unnest(gone || arrived) AS settled (number)
        CROSS JOIN LATERAL (
            SELECT type_id, period FROM deliveries
            WHERE deliveries.number = settled.number AND type_id IS NOT NULL OFFSET 0) AS document;
    END IF;
    PERFORM lose_documents(gone, 'outbox_dlq', at);
    PERFORM find_lost_documents(arrived, at);
END $$;

-- Takes spans off what a holder has, as before. What is on record as lost may be changed by others, and is
-- locked before anybody looks at it.
CREATE OR REPLACE FUNCTION spend_serials(
    the_type bigint, the_period text, the_holder text, starts bigint[], stops bigint[],
    at timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    spent   int8multirange;
    used_up boolean;
    lost    int8multirange;
    in_gaps int8multirange;
BEGIN
    SELECT range_agg(int8range(span.start, span.stop)) INTO spent
    FROM unnest(starts, stops) AS span (start, stop);
    UPDATE draws SET open = open - spent
    WHERE type_id = the_type AND period = the_period AND holder = the_holder AND open @> spent
    RETURNING isempty(open) INTO used_up;
    IF NOT FOUND THEN
        SELECT spent - open INTO lost FROM draws
        WHERE type_id = the_type AND period = the_period AND holder = the_holder FOR UPDATE;
        lost := coalesce(lost, spent);
        PERFORM lock_gaps(ARRAY[the_type], ARRAY[the_period]);
        SELECT range_agg(int8range(start, stop)) INTO in_gaps
        FROM (SELECT start, stop FROM gaps
              WHERE type_id = the_type AND period = the_period AND closed_at IS NULL
                AND stop > lower(lost) AND int8range(start, stop) && lost
                AND reason IN ('crash', 'pool_discarded', 'untracked_loss')
              ORDER BY stop FOR UPDATE) AS locked;
        -- Nothing at all is missing if the holder was given some a moment ago.
        IF NOT coalesce(in_gaps, '{}') @> lost THEN
            RAISE EXCEPTION 'a number is with somebody else' USING ERRCODE = 'MT409';
        END IF;
        PERFORM split_gaps(array_agg(the_type), array_agg(the_period), array_agg(lower(span)),
                           array_agg(upper(span)), at)
        FROM unnest(lost) AS span
        HAVING count(*) > 0;
        UPDATE draws SET open = open - spent
        WHERE type_id = the_type AND period = the_period AND holder = the_holder
        RETURNING isempty(open) INTO used_up;
    END IF;
    IF used_up THEN
        DELETE FROM draws
        WHERE type_id = the_type AND period = the_period AND holder = the_holder;
    END IF;
END $$;
